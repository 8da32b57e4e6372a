"""A stored secret of an OpenAPI document: the next call has the new value, and the use of each is audited."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler.host.config import ConfigFile
from hostler.host.host import Host
from hostler.secrets.key_ring import new_key
from hostler.storage.port import Tx
from hostler.storage.stores import audit
from hostler_protocol.errors import UnavailableError
from support.databases import TEST_SECONDS
from support.http_host import Served, serving
from support.invocations import Calling
from support.receiver import Receiver

pytestmark = pytest.mark.gate("stored-secrets")
FIRST, SECOND = "the-first-value-of-it", "and-another-one-later"
LOOPBACK = ["127.0.0.1"]


@contextlib.asynccontextmanager
async def host_of(tmp_path: Path) -> AsyncIterator[Served]:
    (tmp_path / "master").write_text(new_key().hex())
    async with asyncio.timeout(TEST_SECONDS), serving(tmp_path / "data", agent=False) as served:
        await served.host.apply(ConfigFile(master_key=[f"file:{tmp_path / 'master'}"]), actor="test")
        yield served


async def put(served: Served, value: str) -> None:
    query = {"owner": "installation"}
    answer = await served.client.put("/v1/secrets/token", json={"value": value}, params=query)
    assert answer.status_code == 200, answer.text


async def remove(served: Served) -> None:
    query: dict[str, Any] = {"owner": "installation", "force": True}
    assert (await served.client.delete("/v1/secrets/token", params=query)).status_code == 204


async def uses(host: Host, wanted: list[tuple[str, int]]) -> None:
    """Wait until the uses are audited: by whom, and of which version. No further one may be."""
    while True:
        items = (await host.db.read(audit_facts))[::-1]
        found = [(body["by"], body["version"]) for body in items]
        if len(found) >= len(wanted):
            assert found == wanted
            return
        await asyncio.sleep(0.01)


def audit_facts(tx: Tx) -> list[dict[str, Any]]:
    return [fact.body for fact in audit.page(tx, "default", limit=100) if fact.action == "secret.used"]


async def test_an_openapi_document_is_called_with_the_secret_of_the_moment(tmp_path: Path) -> None:
    async with Receiver() as receiver, host_of(tmp_path) as served:
        document = {
            "openapi": "3.0.3",
            "info": {"title": "echo", "version": "1"},
            "servers": [{"url": f"http://{receiver.host}:{receiver.port}"}],
            "security": [{"key": []}],
            "paths": {"/ask": {"get": {"operationId": "ask", "responses": {"200": {"description": "ok"}}}}},
            "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "x-key"}}},
        }
        (tmp_path / "echo.json").write_text(json.dumps(document))
        entry = {"name": "echo", "document": str(tmp_path / "echo.json"), "network": LOOPBACK}
        await put(served, FIRST)
        tool = {"openapi": {**entry, "auth": {"key": "secret://token"}}}
        made = await served.client.post("/v1/config/tools", json=tool)
        assert made.status_code == 201, made.text
        calling = Calling([served.host.web[1]], workspace="default")

        async def key_sent() -> str:
            await calling.call("echo.ask")
            return str((await receiver.request()).headers["x-key"])

        assert [await key_sent(), await key_sent()] == [FIRST, FIRST]
        await put(served, SECOND)
        assert await key_sent() == SECOND
        await uses(served.host, [("tool openapi:echo", 1), ("tool openapi:echo", 2)])
        await remove(served)
        with pytest.raises(UnavailableError, match="there is no such secret"):
            await calling.call("echo.ask")
        await put(served, FIRST)
        assert await key_sent() == FIRST
        assert len(receiver.requests) == 4
