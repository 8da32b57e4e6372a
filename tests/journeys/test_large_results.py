"""Results over what goes inline, of every kind of tool: an artifact up to one bound, refused beyond it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.mcp_entry import McpEntry
from hostler.domain.openapi_entry import OpenApiEntry
from hostler.domain.tool_entries import ExecEntry, ToolEntry
from hostler.host.config import ConfigFile
from hostler_protocol.limits import MAX_RESULT_BYTES, MAX_TOOL_RESULT_BYTES, MIB
from support.mcp_bench import over_stdio
from support.stepping import WORKSPACE, Stage, stage, within
from support.trust import plugin_entry
from support.web import Web, page

TOOLBOX = Path(__file__).parents[1] / "support" / "plugins" / "toolbox"
AROUND_BYTES = 1_000
"""What a tool's result may have around its text, as JSON; the answer of a plugin has an envelope besides."""
SIZES = [MAX_RESULT_BYTES, 5 * MIB // 2, MAX_TOOL_RESULT_BYTES - AROUND_BYTES]
SHAPES = ["text", "twice", "json", "structured", "resource"]
pytestmark = pytest.mark.timeout(300)


def calling(name: str, **parameters: Any) -> list[Any]:
    return ["call", "tool.call", {"tool_name": name, "parameters": parameters}]


@contextlib.asynccontextmanager
async def host(tmp_path: Path, *tools: ToolEntry) -> AsyncIterator[Stage]:
    async with within(250), stage(tmp_path / "data", agent=False) as made:
        config = ConfigFile(plugins=[plugin_entry(TOOLBOX)], tools=list(tools))
        await made.host.apply(config, actor="test")
        await made.agent(resource_policy={"allowed_tool_names": ["*"]})
        while any(one.state != "ready" for one in made.host.mcp.servers(WORKSPACE)):
            await asyncio.sleep(0.02)
        yield made


async def results(made: Stage, calls: list[list[Any]]) -> list[Any]:
    """What the runner was answered, each call in a run of its own."""
    answers = []
    for call in calls:
        ended = await made.run([call, ["tell"]], conversation_id="c")
        answers.append(ended.told[0])
    return answers


def check_kept(answer: Any, size: int) -> None:
    """An artifact with all of it, said once, and its beginning to look at."""
    kept = answer["result"]
    assert kept["type"] == "artifact"
    assert size <= kept["size_bytes"] <= size + AROUND_BYTES
    assert kept["preview"]


def check_refused(answer: Any, limit: int = MAX_TOOL_RESULT_BYTES) -> None:
    assert answer["error"]["code"] == "payload_too_large"
    assert f"{limit:,}" in answer["error"]["message"]


async def test_functions_of_plugins(tmp_path: Path) -> None:
    async with host(tmp_path) as made:
        sizes = [*SIZES, MAX_TOOL_RESULT_BYTES]
        *kept, refused = await results(made, [calling("toolbox.large", size=size) for size in sizes])
        for answer, size in zip(kept, sizes, strict=False):
            check_kept(answer, size)
        check_refused(refused)


@pytest.mark.parametrize("shape", SHAPES)
async def test_tools_of_mcp_servers(tmp_path: Path, shape: str) -> None:
    entry: McpEntry = over_stdio(tmp_path / "server")
    async with host(tmp_path, ToolEntry(mcp=entry)) as made:
        sizes = [*SIZES, MAX_TOOL_RESULT_BYTES]
        calls = [calling("s.large", n=size, **{"as": shape}) for size in sizes]
        *kept, refused = await results(made, calls)
        for answer, size in zip(kept, sizes, strict=False):
            check_kept(answer, size)
        check_refused(refused)


async def test_operations_of_a_service(tmp_path: Path) -> None:
    """What a service says beyond the bound is cut and said to be, since it did its work."""
    async with Web() as web:
        document = tmp_path / "service.json"
        document.write_text(json.dumps(service()))
        entry = OpenApiEntry(name="svc", document=str(document), base_url=web.url(), network=["127.0.0.1"])
        sizes = [*SIZES, MAX_TOOL_RESULT_BYTES + 1]
        for size in sizes:
            web.pages[f"/text/{size}"] = page("x" * size, kind="text/plain")
            web.pages[f"/json/{size}"] = page(json.dumps("x" * (size - 2)), kind="application/json")
        async with host(tmp_path, ToolEntry(openapi=entry)) as made:
            for kind in ("text", "json"):
                calls = [calling("svc.get", kind=kind, size=size) for size in sizes]
                *kept, cut = await results(made, calls)
                for answer, size in zip(kept, sizes, strict=False):
                    check_kept(answer, size)
                assert cut["result"]["truncated"] is True
                assert f"{MAX_TOOL_RESULT_BYTES:,}" in cut["result"]["note"]


def service() -> dict[str, Any]:
    parameters = [
        {"name": "kind", "in": "path", "required": True, "schema": {"type": "string"}},
        {"name": "size", "in": "path", "required": True, "schema": {"type": "integer"}},
    ]
    get = {"operationId": "get", "parameters": parameters, "responses": {"200": {"description": "it"}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "t", "version": "1"},
        "paths": {"/{kind}/{size}": {"get": get}},
    }


async def test_what_commands_say(tmp_path: Path) -> None:
    """All of it is an artifact; the result shows its beginning and its end."""
    async with host(tmp_path, ToolEntry(exec=ExecEntry())) as made:
        (tool,) = [t for t in made.host.tools.offered(WORKSPACE).values() if t.resource.tool_name == "exec"]
        if tool.problem is not None:
            pytest.skip(tool.problem)
        sizes = [*SIZES, MAX_TOOL_RESULT_BYTES + MIB]
        calls = [calling("exec", command=f"head -c {size} /dev/zero | tr '\\0' x") for size in sizes]
        *kept, stopped = await results(made, calls)
        for answer, size in zip(kept, sizes, strict=False):
            assert "limit" not in answer["result"]
            assert answer["result"]["stdout_artifact"]["size_bytes"] == size
        assert stopped["result"]["limit"] == "output"
        assert stopped["result"]["stdout_artifact"]["size_bytes"] == MAX_TOOL_RESULT_BYTES
