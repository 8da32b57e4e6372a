"""An attempt's calls and pauses on real stores, without a process: runner, tools and model are played."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from hostler.calls.answers_ahead import SendAhead
from hostler.calls.executor import CallExecutor
from hostler.calls.gate import GatedRun
from hostler.calls.in_progress import ExternalCaller
from hostler.calls.scope import CallScope
from hostler.domain.agents import ResourcePolicy
from hostler.domain.events import Caller as Person
from hostler.domain.granted_resources import ResourceCatalog
from hostler.domain.grants import Grant
from hostler.domain.lanes import lane_of
from hostler.domain.pause_actions import Action, ActionAnswer, ActRequest
from hostler.domain.pause_values import Pause, PausedCall
from hostler.domain.place import Place
from hostler.domain.tool_pins import ToolPin
from hostler.journal.feed import Feed
from hostler.journal.fork import Inherited
from hostler.journal.resume import RecordingReader, Resumption, read_answer
from hostler.journal.run_log import FencedError, Item, RunLog
from hostler.pauses.held_calls import HeldCalls
from hostler.pauses.requests import Questions
from hostler.pauses.service import PauseService
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.statements import parse
from hostler.storage.stores import api_keys, journal, pause_calls, pause_claims, pauses, runs
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.journal import StoredEntry
from hostler.storage.stores.run_rows import NewRun, Run
from hostler.tools.port import ToolService
from hostler_protocol.frames import MessageId
from hostler_protocol.ids import new_id
from hostler_protocol.manifest import Capabilities
from hostler_protocol.methods import AnswerAhead
from support.call_params import params_of
from support.call_world import World, world_of
from support.gates import Bell
from support.grants import FORM, StatePolicy, agent_of, catalog_of, event_of, grant_of, manifest_of
from support.played_services import Handbook, Model, Runner, Tools

HOST = Membership("h1")
TOOLS = ("search", "book")
SQL = parse(
    """
-- name: claim
UPDATE runs SET status = 'claimed', host_id = 'h1' WHERE run_id = :run_id
-- name: expire_pause
UPDATE pauses SET expires_at = 1 WHERE pause_id = :pause_id
-- name: expire_calls
UPDATE pause_calls SET expires_at = 1 WHERE pause_id = :pause_id
""",
    "t",
)


class Log(RunLog):
    """A run's way into the journal; it rings when something is added."""

    bell: Bell

    def add(self, item: Item, *, hurry: bool = True) -> None:
        super().add(item, hurry=hurry)
        self.bell.ring()


@dataclass
class CallAttempt:
    """One attempt of one run. What it needs of its run's other parts is noted here."""

    world: World
    run: Run
    scope: CallScope
    tools: Tools
    handbook: Handbook
    resumed: bool = False
    inherited: Inherited | None = None
    resumable: bool = True
    ahead_bytes: int = 0
    """How many bytes of answers are sent ahead; 0: none are."""
    hold_seconds: float = 3600.0
    blocked_seconds: float = 3600.0
    runner: Runner = field(default_factory=Runner)
    requested: list[PausedCall] = field(default_factory=list)
    """Calls that people were newly asked about."""
    parked: int = 0
    """How often it was to be parked."""
    fenced: list[FencedError] = field(default_factory=list)
    live: list[int] = field(default_factory=list)
    ahead: list[tuple[int, list[AnswerAhead]]] = field(default_factory=list)
    """The answers sent ahead, with the number of calls with an id seen before."""
    diverged: list[str] = field(default_factory=list)
    log: Log = field(init=False)
    held: HeldCalls = field(init=False)
    gated: GatedRun = field(init=False)
    calls: CallExecutor = field(init=False)
    _bell: Bell = field(default_factory=Bell)
    _made: int = 0

    async def open(self) -> None:
        """Build the parts as `runs.attempt_parts` does."""
        world, run = self.world, self.run
        self.log = Log(world.db, Feed(_unread), run.run_id, run.attempt, HOST)
        self.log.bell = self._bell
        self.gated = GatedRun(run.run_id, self.scope.grant)
        progressed = asyncio.Event()
        tools = cast("ToolService", self.tools)
        self.held = HeldCalls(
            self.log,
            run,
            Questions(run.workspace_id, run.run_id, tools),
            tools,
            "hold",
            self.hold_seconds,
            self.blocked_seconds,
            requested=self._note_requested,
            park=self._note_parked if self.resumable else None,
            looked=progressed.set,
        )
        resumption = None
        if self.resumed:
            loaded = RecordingReader(run.run_id, run.base_attempt)
            await loaded.read_rest(world.db)
            resumption = Resumption(
                loaded.recording,
                partial(read_answer, world.db, world.services.blobs, run.run_id),
                stall_seconds=3600.0,
                live=self.live.append,
                diverged=self.diverged.append,
            )
        self.calls = CallExecutor(
            gate=world.gate,
            gated=self.gated,
            scope=self.scope,
            journal=self.log,
            blobs=world.services.blobs,
            runner=self.runner,
            resumption=resumption,
            inherited=self.inherited,
            ahead=SendAhead(self._send_ahead, self.ahead_bytes) if self.ahead_bytes else None,
            held=self.held,
            progressed=progressed,
            active=self._bell.ring,
        )

    def _note_requested(self, call: PausedCall) -> None:
        self.requested.append(call)
        self._bell.ring()

    def _send_ahead(self, requests: int, answers: list[AnswerAhead]) -> None:
        self.ahead.append((requests, answers))

    def _note_parked(self) -> None:
        self.parked += 1
        self._bell.ring()

    def close(self) -> None:
        self.calls.stop()
        self.held.close()
        self.log.close()

    # -- calls ------------------------------------------------------------------------------------

    def begin(self, method: str, *, external: ExternalCaller | None = None, **changes: Any) -> MessageId:
        """Begin a call; it is answered when it is done."""
        self._made += 1
        self.calls.begin(self._made, method, params_of(method, self.run.run_id, **changes), external)
        return self._made

    async def call(self, method: str, **changes: Any) -> Any:
        """Make a call; a refusal is raised."""
        return await self.runner.answer(self.begin(method, **changes))

    def take_ahead(self, method: str, **changes: Any) -> str | None:
        """Make a call with the next answer that was sent ahead."""
        return self.calls.take_ahead(method, params_of(method, self.run.run_id, **changes))

    async def writing(self) -> None:
        """Wait until something is on its way into the database."""
        await self._bell.until(lambda: self.log.is_writing, "nothing is ever written")

    async def idle(self) -> None:
        """Wait until no call is under way."""
        await self._bell.until(lambda: not self.calls.under_way, "a call never ends")

    async def entries(self, *kinds: str) -> list[StoredEntry]:
        """The run's journal, as far as it concerns calls; all that was added is committed before."""
        await self.log.settled()
        wanted = kinds or ("call", "intent", "refusal")
        page = await self.world.db.read(lambda tx: journal.page(tx, self.run.run_id, 0, 1_000))
        return [entry for entry in page.items if entry.kind in wanted]

    # -- people -----------------------------------------------------------------------------------

    async def asked(self, count: int = 1) -> list[PausedCall]:
        """Wait until people were asked about so many calls."""
        await self._bell.until(lambda: len(self.requested) >= count, f"{count} calls were never asked about")
        return self.requested

    async def parking(self) -> None:
        """Wait until the attempt is to be parked."""
        await self._bell.until(lambda: self.parked > 0, "the attempt is never parked")

    async def pause(self) -> tuple[Pause, list[PausedCall]]:
        """The run's latest pause, and its calls."""

        def look(tx: Tx) -> tuple[Pause, list[PausedCall]]:
            pause = pauses.of_run(tx, self.run.run_id)[0]
            return pause, pause_calls.of_pause(tx, pause)

        return await self.world.db.read(look)

    def desk(self) -> PauseService:
        """Where people decide; the attempt learns of it."""
        return PauseService(self.world.db, on_changed=lambda _: self.held.changed())

    async def expire(self) -> None:
        """Let the time pass in which the latest pause can be decided."""
        pause, _ = await self.pause()
        await self.world.db.write(lambda tx: tx.run(SQL.expire_pause, pause_id=pause.pause_id))
        await self.world.db.write(lambda tx: tx.run(SQL.expire_calls, pause_id=pause.pause_id))
        await self.desk().sweep()

    async def decide(self, person: Person, *actions: Action) -> ActionAnswer:
        """Decide about calls of the latest pause."""
        pause, _ = await self.pause()
        request = ActRequest(revision=pause.revision, actions=list(actions))
        return await self.desk().act(person, pause.pause_id, request)


async def ada(world: World, *roles: str, subject: str = "user:ada") -> Person:
    """The one who asked for the run, or somebody else, with a key."""

    def work(tx: Tx) -> Person:
        rights = ("pauses:write", "pauses:decide_blind", "runs:read")
        key, _ = api_keys.create(tx, "main", name=subject, subject=subject, roles=roles, rights=rights)
        return Person("main", subject, key.key_id, key.roles, key.rights)

    return await world.db.write(work)


def attempt_grant(*, effects: Mapping[str, str] | None = None, **policy: Any) -> Grant:
    """A grant of everything that the calls of these tests need. `effects`: effect classes of tools."""
    plain = catalog_of(["gpt"], list(TOOLS), ["handbook"])
    pins = {
        name: ToolPin(
            tool_id=pin.tool_id,
            owner=pin.owner,
            schema_digest=pin.schema_digest,
            effect=(effects or {}).get(name, "idempotent"),  # type: ignore[arg-type]
        )
        for name, pin in plain.tool_pins.items()
    }
    catalog = ResourceCatalog(
        models=plain.models,
        tools=plain.tools,
        knowledge_bases=plain.knowledge_bases,
        tool_pins=pins,
        interactions=True,
    )
    return grant_of(
        manifest=manifest_of(capabilities=Capabilities(steering=True), form=[*FORM]),
        agent=agent_of(
            resource_policy=ResourcePolicy(**policy),
            state_policy=StatePolicy(state_scopes=["conversation", "actor"]),
        ),
        event=event_of(event_id="e-own"),
        config={"model": "gpt", "knowledge": ["handbook"], "tools": list(TOOLS)},
        catalog=catalog,
    )


async def _unread(*_: Any) -> Any:
    raise AssertionError("nobody watches")


def _open_run(tx: Tx, *, world: World, grant: Grant, again: Run | None) -> Run:
    if again is not None:
        return again
    agent, run_id = world.agents["main", "helper"], new_id()
    new = NewRun(
        workspace_id="main",
        run_id=run_id,
        agent_id=agent.agent_id,
        agent_name=agent.name,
        agent_version=1,
        runner_id=agent.spec.runner,
        lane=lane_of(
            workspace_id="main", agent_id=agent.agent_id, place=Place(conversation_id="c1"), event_id=run_id
        ),
        event_id="e-own",
        conversation_id="c1",
        requester="user:ada",
        parallel=True,
    )
    runs.open(tx, new, HOST)
    runs.transition(tx, run_id, 1, "running", cause="test", actor="h1", grant_json=grant.encoded)
    return runs.get(tx, "main", run_id)


@dataclass
class Attempts:
    """Attempts of runs. Each is closed, and all of its journal is durable, when its block ends."""

    world: World
    tools: Tools = field(default_factory=Tools)
    handbook: Handbook = field(default_factory=Handbook)
    model: Model = field(default_factory=Model)

    @asynccontextmanager
    async def attempt(
        self, grant: Grant | None = None, *, again: Run | None = None, scope: Any = None, **options: Any
    ) -> AsyncIterator[CallAttempt]:
        """An attempt of a new run, or of the run `again`. `scope`: changes of its call scope."""
        grant = grant or attempt_grant()
        run = await self.world.db.write(partial(_open_run, world=self.world, grant=grant, again=again))
        self.tools.pins = dict(grant.tool_pins)
        caller = self.world.caller(grant=grant, event=event_of(event_id="e-own"))
        services = replace(
            self.world.services,
            tools=cast("ToolService", self.tools),
            knowledge=self.handbook,
            models=self.model,
        )
        own = replace(
            caller.scope(), run_id=run.run_id, attempt=run.attempt, services=services, **(scope or {})
        )
        attempt = CallAttempt(self.world, run, own, self.tools, self.handbook, **options)
        await attempt.open()
        pump = asyncio.create_task(attempt.log.pump(attempt.fenced.append))
        try:
            yield attempt
        finally:
            attempt.close()
            await pump

    async def lost(self, run: Run) -> Run:
        """The attempt is lost: the run goes on from its journal."""

        def work(tx: Tx) -> Run:
            pause_claims.attempt_lost(tx, run.run_id, run.attempt, cause="lost", actor="h1")
            runs.transition(tx, run.run_id, None, "queued", cause="lost", actor="h1", restart=False)
            tx.run(SQL.claim, run_id=run.run_id)
            runs.transition(tx, run.run_id, None, "running", cause="test", actor="h1")
            return runs.get(tx, "main", run.run_id)

        return await self.world.db.write(work)


@asynccontextmanager
async def attempts_on(database: SqlDatabase, folder: Path) -> AsyncIterator[Attempts]:
    """Attempts on an empty database."""
    async with world_of(database, folder) as world:
        yield Attempts(world)
