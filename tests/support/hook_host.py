"""A whole host with hooks, and what it has stored and audited of their requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hostler.domain.hooks import HmacScheme, Hook, HookMapping
from hostler.host.config import ConfigFile
from hostler.storage.stores import audit
from hostler.storage.stores.audit import AuditFact
from support.hooked import SECRET, STANDARD_SECRET, Sender, secret_of
from support.http_host import WORKSPACE, Served, serving

pytestmark = pytest.mark.gate("hooks")
TEXT = HookMapping(text="body.say", conversation_id="'c-' + string(body.n)", actor_id="body.who")
BOUND_SECONDS = 90.0


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    monkeypatch.setenv("STANDARD_SECRET", STANDARD_SECRET)
    monkeypatch.setenv("OLD_SECRET", "the one before")
    monkeypatch.setenv("EMPTY_SECRET", "")


def hook(verify: Any = "github", name: str = "in", **fields: Any) -> Hook:
    references = {"none": [], "standard": ["env:STANDARD_SECRET"]}.get(verify, ["env:HOOK_SECRET"])
    given: dict[str, Any] = {"name": name, "verify": verify, "secrets": references, "agent": "puppet"}
    if verify == "basic":
        given["username"] = "u"
    elif verify == "hmac":
        given["hmac"] = HmacScheme(header="x-mine")
    return Hook(**{**given, **fields})


@contextlib.asynccontextmanager
async def hooked(
    folder: Path, *hooks: Hook, database: str | None = None, **settings: Any
) -> AsyncIterator[tuple[Served, list[Sender]]]:
    """A host with these hooks, and a sender for each."""
    url = database if database is not None and database.startswith("postgresql:") else None
    async with (
        asyncio.timeout(BOUND_SECONDS),
        serving(folder / "data", database=url, **settings) as served,
        served.as_key(None) as client,
    ):
        await served.host.apply(ConfigFile(hooks=list(hooks)), actor="test")
        yield served, [Sender(client, one, secret_of(one)) for one in hooks]


async def events_of(served: Served) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await served.client.get("/v1/events")).json()["items"]
    return found


async def event_of(served: Served, answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 202, answer.text
    found = await served.client.get(f"/v1/events/{answer.json()['event_id']}")
    assert found.status_code == 200, found.text
    return dict(found.json())


async def runs_of(served: Served) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await served.client.get("/v1/runs")).json()["items"]
    return found


async def audited(served: Served, workspace: str = WORKSPACE) -> list[AuditFact]:
    facts = await served.host.db.read(lambda tx: audit.page(tx, workspace, limit=200))
    return [fact for fact in facts if fact.action in ("hook.refused", "hook.conflict")]
