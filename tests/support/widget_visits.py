"""A host with a widget, and visitors of the pages that show it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hostler.domain.widgets import Widget
from hostler.host.config import ConfigFile
from support.http_host import Served, serving

pytestmark = pytest.mark.gate("widgets")
SHOP = "https://shop.example"
EVIL = "https://evil.example"


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "data") as made:
        await configure(made)
        yield made


async def configure(served: Served, **fields: Any) -> None:
    """Serve the widget `help` with these fields."""
    entry = Widget(**{"name": "help", "agent": "puppet", "origins": [SHOP], **fields})
    await served.host.apply(ConfigFile(widgets=[entry]), actor="test")


async def enter(
    served: Served, visitor: str | None = None, *, origin: str | None = SHOP, widget: str = "help"
) -> httpx.Response:
    """Open the widget as a page does."""
    async with served.as_key(None) as client:
        headers = {} if origin is None else {"origin": origin}
        return await client.post(f"/v1/widgets/{widget}/visitors", json={"visitor": visitor}, headers=headers)


async def visit(served: Served, visitor: str | None = None) -> dict[str, Any]:
    """Open the widget; the token and all."""
    answer = await enter(served, visitor)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def message(text: str, event_id: str = "m1", **more: Any) -> dict[str, Any]:
    return {"event_type": "message.received", "event_id": event_id, "input": {"text": text, **more}}


async def send(served: Served, token: str, text: str, event_id: str = "m1", **more: Any) -> httpx.Response:
    async with served.as_key(token) as client:
        return await client.post("/v1/events", json=message(text, event_id, **more), headers={"origin": SHOP})


async def history(served: Served, made: dict[str, Any], token: str | None = None) -> list[str]:
    async with served.as_key(token or made["token"]) as client:
        answer = await client.get(
            f"/v1/conversations/{made['conversation_id']}/history", headers={"origin": SHOP}
        )
        assert answer.status_code == 200, answer.text
        return [item["content"] for item in answer.json()["items"]]


async def ended(served: Served, answer: httpx.Response) -> None:
    assert answer.status_code == 202, answer.text
    await served.host.runs.wait("default", answer.json()["run"]["run_id"], 30)
