"""Conversations, runs and artifacts as resources; and completion."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp.types import ResourceTemplateReference

from hostler.http.mcp.resources import MAX_ARTIFACT_BYTES
from hostler.http.mcp.uris import read_uri, uri_of
from support.dialects.mcp import GENERATIONS, mcp_client
from support.dialects.players import script
from support.http_host import ADMIN_KEY, OTHER, Served

both = pytest.mark.parametrize("mode", GENERATIONS)
PLACE = "a/b 你好 🙂"


async def read(client: Client, uri: str) -> Any:
    (contents,) = (await client.read_resource(uri)).contents
    return contents


def test_addresses_carry_any_id() -> None:
    for name in (PLACE, "x", "%2F", "..", "a?b#c"):
        named = read_uri(uri_of("conversations", name))
        assert named is not None
        assert (named.kind, named.name) == ("conversations", name)
    wrong = ("", "hostler://", "hostler://runs", "hostler://runs/", "hostler://keys/a", "http://runs/a")
    for text in (*wrong, "hostler://runs/a/b", "hostler://runs/%ff", "hostler://runs/%00"):
        assert read_uri(text) is None, text


@both
async def test_what_a_call_left_is_read(served: Served, mode: str) -> None:
    async with mcp_client(served.url, ADMIN_KEY, mode) as client:
        steps = script(["say", "你好"], ["file", "Inhalt 🙂", "note.txt"])
        call: Any = await client.call_tool("player", {"message": steps, "conversation_id": PLACE})
        (link,) = [block for block in call.content if block.type == "resource_link"]
        file = await read(client, link.uri)
        assert (file.mime_type, file.text) == ("text/plain", "Inhalt 🙂")
        (listed,) = (await client.list_resources()).resources
        conversation = await read(client, listed.uri)
        told = json.loads(conversation.text)
        assert told["conversation_id"] == PLACE
        assert [message["text"] for message in told["messages"]][1:] == ["你好", "see note.txt"]
        run_id = call.structured_content["run_id"]
        run = await read(client, uri_of("runs", run_id))
        assert json.loads(run.text)["status"] == "completed"
        templates = (await client.list_resource_templates()).resource_templates
        assert [one.name for one in templates] == ["conversation", "run", "artifact"]
        uri = templates[0].uri_template
        reference = ResourceTemplateReference(type="ref/resource", uri=uri)
        for begun, wanted in (("a/b", [PLACE]), ("zz", [])):
            given = {"name": "conversation_id", "value": begun}
            assert (await client.complete(reference, given)).completion.values == wanted
        assert (await client.complete(reference, {"name": "run_id", "value": ""})).completion.values == [
            run_id
        ]


@both
async def test_what_is_not_there_or_not_for_this_key(served: Served, mode: str) -> None:
    async with mcp_client(served.url, ADMIN_KEY, mode) as client:
        call: Any = await client.call_tool("player", {"message": script(["file", "x", "a.txt"])})
    link = next(block.uri for block in call.content if block.type == "resource_link")
    run = uri_of("runs", call.structured_content["run_id"])
    place = uri_of("conversations", call.structured_content["conversation_id"])
    async with mcp_client(served.url, await served.key(OTHER), mode) as client:
        for uri in (link, run, place, "hostler://runs/none", "file:///etc/passwd"):
            with pytest.raises(MCPError) as raised:
                await client.read_resource(uri)
            assert raised.value.error.code == (-32002 if mode == "legacy" else -32602)
        assert (await client.list_resources()).resources == []
    poor = await served.key("default", "plugins:read")
    async with mcp_client(served.url, poor, mode) as client:
        for uri in (link, run, place):
            with pytest.raises(MCPError, match="does not have the right"):
                await client.read_resource(uri)
        with pytest.raises(MCPError, match="conversations:read"):
            await client.list_resources()


@both
async def test_a_large_artifact_is_read_elsewhere(served: Served, mode: str) -> None:
    upload = await served.client.post("/v1/artifacts", content=b"x" * (MAX_ARTIFACT_BYTES + 1))
    uri = uri_of("artifacts", upload.json()["artifact_id"])
    async with mcp_client(served.url, ADMIN_KEY, mode) as client:
        with pytest.raises(MCPError, match=r"/content has all of it"):
            await client.read_resource(uri)


@both
async def test_bytes_are_bytes(served: Served, mode: str) -> None:
    headers = {"content-type": "text/plain"}
    upload = await served.client.post("/v1/artifacts", content=b"\xff\xfe", headers=headers)
    async with mcp_client(served.url, ADMIN_KEY, mode) as client:
        uri = uri_of("artifacts", upload.json()["artifact_id"])
        assert (await read(client, uri)).blob == "//4="
