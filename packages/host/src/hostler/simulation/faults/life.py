"""One run of a runner in a simulated world, with one fault."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from hostler.domain.agents import AgentSpec, Recovery, ResourcePolicy
from hostler.domain.events import Caller
from hostler.domain.model_entries import ModelEntry
from hostler.domain.pause_actions import Action, ActRequest
from hostler.domain.pause_views import CallView
from hostler.domain.pauses import PauseStatus
from hostler.host.config import ConfigFile, PluginEntry, Settings
from hostler.host.host import Host
from hostler.host.machine import Machine
from hostler.pauses.service import PausePage
from hostler.plugins.source import Folder, SingleFile
from hostler.simulation.disk import SimulatedDisk
from hostler.simulation.faults.fault import Fault, Outcome
from hostler.simulation.faults.model import CONTEXT_WINDOW, ScriptedModel, sample_of
from hostler.simulation.faults.tap import FaultTap, text_of
from hostler.simulation.world import HostGoneError, SimulatedHost, World
from hostler.storage.stores import api_keys
from hostler.storage.stores.api_keys import ApiKey
from hostler_protocol.errors import HostlerError
from hostler_protocol.events import EventEnvelope, Input
from hostler_sdk.loading import load_folder
from hostler_sdk.plugin import Plugin

SEED = "faults"
MODEL = "scripted"
PROVIDER = "demo"
"""A provider of the configuration that needs no key; here the scripted model stands for it."""
RUN_SECONDS = 600.0
"""Simulated time in which a run has to end."""
DOWN_SECONDS = 1.0
LOOK_SECONDS = 0.5
MAX_ATTEMPTS = 5
ENDED = ("completed", "failed", "cancelled", "timeout")
WAITING: tuple[PauseStatus, ...] = ("open", "needs_review")
WORKSPACE = "default"
PERSON = "user"
RIGHTS = frozenset({"admin"})


class Case(msgspec.Struct, frozen=True):
    """What is run: a runner of the first plugin folder, its configuration, and a message to it."""

    folders: list[str]
    runner: str
    text: str
    config: dict[str, Any] = {}


def load_anew(folder: Path, others: Sequence[str] = ()) -> Plugin:
    """Load a plugin as a new process does: nothing is left of its modules, or of those of other plugins."""
    below = tuple(f"{one}{os.sep}" for one in (folder, *others))
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(below):
            del sys.modules[name]
    return load_folder(folder, {})


def template_of(folder: Path) -> Path:
    """Return the empty database with which each life below a folder begins."""
    return folder / "template.db"


class FaultLife:
    """A life of one host, one plugin and one run."""

    def __init__(self, case: Case, fault: Fault | None, base: Path) -> None:
        self._case = case
        os.environ["HOSTLER_PLUGIN_WORKSPACE"] = str(base / "workspace")
        (base / "workspace").mkdir(parents=True)

        def load(key: str, source: Folder | SingleFile) -> Plugin:
            random.seed(f"{key} {len(self._world.plugins.lives)}")  # each process draws other numbers
            assert isinstance(source, Folder)
            return load_anew(source.path, case.folders)

        self._world = World(SEED, load, machine=Machine(model_providers={PROVIDER: _scripted}))
        self._tap = self._world.plugins.tap = FaultTap(fault, self._kill_host)
        self._people = self._world.process("people")
        data = base / "data"
        data.mkdir()
        self._disk = SimulatedDisk(data / "hostler.db")
        shutil.copyfile(template_of(base.parent), self._disk.path)
        self._facts = sqlite3.connect(self._disk.path)
        """For all looks at the facts: the first one of a connection reads the whole schema."""
        settings = Settings(data_dir=data, cancel_grace_seconds=1.0, hold_seconds=3.0)
        self._host = SimulatedHost(self._world, "host", settings, self._disk, shared=False)
        self._agent = AgentSpec(
            name="trial",
            runner=load_anew(Path(case.folders[0])).identity.runner_id(case.runner),
            config=dict(case.config),
            resource_policy=ResourcePolicy(allowed_tool_names=["*"] if len(case.folders) > 1 else None),
            recovery=Recovery(max_attempts=MAX_ATTEMPTS),
        )
        self._over = False
        self._refused: str | None = None
        """Why the last decision was not accepted, if one was not."""

    def live(self) -> Outcome:
        """Live it, and return what came of the run."""
        try:
            return self._world.run(self._live())
        finally:
            self._facts.close()

    def _kill_host(self) -> None:
        self._host.kill()
        loop = self._world.loop
        loop.call_later(DOWN_SECONDS, self._host.start, context=loop.outside.context())

    async def _live(self) -> Outcome:
        self._host.start()
        config = ConfigFile(
            plugins=[PluginEntry(path=folder, level="trusted") for folder in self._case.folders],
            models=[ModelEntry(id=MODEL, provider=PROVIDER)],
            agents=[self._agent],
        )
        await self._ask(lambda host: host.apply(config, actor="trial"))
        key = await self._ask(_make_key)
        self._user = Caller(workspace_id=WORKSPACE, subject=PERSON, key_id=key.key_id, rights=RIGHTS)
        event = EventEnvelope(
            event_id="trial",
            event_type="message.received",
            agent="trial",
            conversation_id="trial",
            input=Input(text=self._case.text),
        )
        self._people.spawn(self._decide())
        await self._ask(lambda host: host.orchestrator.accept(event, self._user))
        loop = self._world.loop
        until = loop.time() + RUN_SECONDS
        while self._row()[0] not in ENDED and loop.time() < until:  # noqa: ASYNC110  the facts are asked
            await asyncio.sleep(LOOK_SECONDS)
        self._over = True
        return self._outcome()

    async def _ask(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        while True:
            try:
                return await self._host.ask(work, seconds=60.0)
            except HostGoneError:
                await asyncio.sleep(LOOK_SECONDS)

    async def _decide(self) -> None:
        """Approve, answer and resolve whatever waits for a person."""
        while not self._over:
            try:
                for status in WAITING:
                    page = await self._ask(partial(_page, self._user, status))
                    for pause in page.items:
                        for call in pause.calls:
                            await self._decide_call(pause, call)
            except HostlerError as error:  # what was decided meanwhile is seen at the next look
                self._refused = error.message
            await asyncio.sleep(LOOK_SECONDS)

    async def _decide_call(self, pause: Any, call: CallView) -> None:
        if call.review == "in_doubt":
            made = call.call_id in self._tap.results
            outcome = "happened" if made else "not_happened"
            result = self._tap.results.get(call.call_id)
            await self._ask(
                lambda host: host.pauses.resolve(self._user, pause.id, call.call_id, outcome, result)
            )
        elif call.decision == "undecided":
            request = ActRequest(revision=pause.revision, actions=[_action(call)])
            key = f"{call.call_id} {pause.revision}"
            await self._ask(lambda host: host.pauses.act(self._user, pause.id, request, idempotency_key=key))

    # -- what came of it --------------------------------------------------------------------------

    def _row(self) -> tuple[str, str | None]:
        rows = self._rows("SELECT status, status_code FROM runs WHERE event_id = 'trial'")
        status, code = rows[0] if rows else ("missing", None)
        return status, code

    def _error(self) -> str | None:
        rows = self._rows("SELECT data FROM journal WHERE type = 'run.failed'")
        return json.loads(rows[-1][0])["data"].get("error") if rows else None

    def _outcome(self) -> Outcome:
        status, code = self._row()
        states = {
            f"{scope} {key}": value
            for scope, key, value in self._rows("SELECT scope, key, value FROM states ORDER BY 1, 2")
        }
        return Outcome(
            status=status if status in ENDED else "waiting",
            code=code,
            error=self._error() if status in ENDED else self._refused,
            messages=self._messages(),
            states=states,
            tools=self._tap.tools,
            calls=self._tap.calls,
            story=self._tap.story,
            happened=self._tap.happened,
        )

    def _messages(self) -> list[str]:
        found: list[tuple[int, str]] = []
        query = "SELECT last_sequence, type, data FROM journal WHERE kind = 'result' ORDER BY last_position"
        for sequence, kind, text in self._rows(query):
            if kind == "attempt.started":
                kept = json.loads(text)["data"].get("discard_after") or 0
                found = [one for one in found if one[0] <= kept]
            elif kind == "message.completed":
                found.append((sequence, text_of(json.loads(text)["data"]["message"])))
        return [text for _, text in found]

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._facts.execute(sql).fetchall()


def _scripted(_entry: ModelEntry, _key: str | None) -> tuple[ScriptedModel, int]:
    return ScriptedModel(), CONTEXT_WINDOW


async def _make_key(host: Host) -> ApiKey:
    """Make the key of the person who decides: a decision counts while its key is valid."""
    key, _ = await host.db.write(
        lambda tx: api_keys.create(tx, WORKSPACE, name=PERSON, subject=PERSON, rights=RIGHTS)
    )
    return key


async def _page(user: Caller, status: PauseStatus, host: Host) -> PausePage:
    return await host.pauses.page(user, statuses=[status])


def _action(call: CallView) -> Action:
    if call.kind == "question":
        values = {field["name"]: _value(field) for field in map(msgspec.to_builtins, call.fields)}
        return Action(call_id=call.call_id, type="answer", values=values)
    if call.kind == "client_tool":
        return Action(call_id=call.call_id, type="result", result=sample_of(call.result_schema or {}))
    return Action(call_id=call.call_id, type="approve", args_hash=call.args_hash)


def _value(field: dict[str, Any]) -> Any:
    if field.get("default") is not None:
        return field["default"]
    if options := field.get("options"):
        first = options[0]
        return first.get("value", first.get("name")) if isinstance(first, dict) else first
    return {"boolean": True, "integer": 1, "number": 1.0}.get(field["type"], "yes")
