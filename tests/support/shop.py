"""A host with the stepper and a shop whose calls wait for people, and the people who decide them."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from hostler.domain.events import Caller
from hostler.domain.pause_actions import Action, ActRequest
from hostler.domain.pause_views import CallView, PauseView
from hostler.host.config import ConfigFile
from hostler.storage.stores import api_keys
from support.stepping import STEPPER, WORKSPACE, Stage, stage, within
from support.trust import plugin_entry, trusted

SHOP = Path(__file__).parents[2] / "examples" / "shop"
PLACE = {"conversation_id": "c1", "actor": {"actor_type": "user", "actor_id": "ada"}}
ALLOWED: dict[str, Any] = {"allowed_tool_names": ["shop.*"]}
ASK_ALL: dict[str, Any] = {**ALLOWED, "tool_approval": {"shop.*": "required"}}
ADMIN = Caller(WORKSPACE, "admin", "admin", frozenset({"admin"}), frozenset({"installation"}))


def calling(name: str, **parameters: Any) -> list[Any]:
    """A step that calls a tool."""
    return ["call", "tool.call", {"tool_name": name, "parameters": parameters}]


def asking(**question: Any) -> list[Any]:
    """A step that puts a question to a person."""
    return ["call", "interaction.request", question]


SEND = calling("shop.send", to="ada", text="hi")
BOOK = calling("shop.book", kind="double")


async def person(host: Stage, subject: str) -> Caller:
    """Somebody with a key of their own."""
    rights = {"pauses:write"}
    made = await host.host.db.write(
        lambda tx: api_keys.create(tx, WORKSPACE, name=subject, subject=subject, rights=rights)
    )
    return Caller(WORKSPACE, subject, made[0].key_id, frozenset(), frozenset(rights))


@contextlib.asynccontextmanager
async def shop(tmp_path: Path, *, database: str | None = None, **settings: Any) -> AsyncIterator[Stage]:
    """A host with the stepper and a shop of its own. `database`: an address, or None for SQLite."""
    folder = tmp_path / "shop"
    if not folder.exists():
        shutil.copytree(SHOP, folder, ignore=shutil.ignore_patterns("*.sqlite3*", "__pycache__"))
    if database is not None and not database.startswith("postgresql:"):
        database = None
    quick: dict[str, Any] = {"hold_seconds": 0.05}
    async with within(50), stage(tmp_path / "data", database=database, **(quick | settings)) as host:
        await host.host.apply(ConfigFile(plugins=[plugin_entry(STEPPER), trusted(folder)]), actor="test")
        yield host


async def waiting(host: Stage, run_id: str, *, status: str = "open", calls: int = 1) -> PauseView:
    """The run's latest pause, once it has so many calls and that status."""
    while True:
        page = await host.host.pauses.page(ADMIN, run_id=run_id)
        # two pauses of a run that were opened in one millisecond are listed in either order
        latest = max(page.items, key=lambda pause: pause.segment, default=None)
        if latest is not None and latest.status == status and len(latest.calls) >= calls:
            return latest
        await asyncio.sleep(0.01)


async def parked(host: Stage, run_id: str) -> None:
    """Wait until the run has no process any more."""
    while (await host.host.runs.record(WORKSPACE, run_id)).status != "paused":
        await asyncio.sleep(0.01)


def decision(call: CallView, kind: str = "approve", **more: Any) -> Action:
    """An action on a call as it was shown."""
    shown = call.args_hash if kind in {"approve", "deny"} else None
    return Action(call_id=call.call_id, type=kind, args_hash=shown, **more)  # type: ignore[arg-type]


async def decide(host: Stage, pause: PauseView, *actions: Action, by: Caller = ADMIN) -> str:
    """Decide calls of a pause; its status afterwards."""
    request = ActRequest(revision=pause.revision, actions=list(actions))
    return (await host.host.pauses.act(by, pause.id, request)).status
