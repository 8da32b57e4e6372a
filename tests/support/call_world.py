"""Two workspaces with the same ids in both, and a run whose calls are made as the host makes them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from hostler.calls.actions import decide_action
from hostler.calls.cursors import Cursors
from hostler.calls.functions import CALL_FUNCTIONS, STREAM_FUNCTIONS
from hostler.calls.gate import Gate, GatedRun
from hostler.calls.scope import CallScope, Charged, Effect, Services
from hostler.domain.agents import Agent
from hostler.domain.events import Event
from hostler.domain.granted_resources import ResourceCatalog
from hostler.domain.grants import Grant
from hostler.domain.lanes import lane_of
from hostler.domain.model_entries import ModelEntry, Price
from hostler.domain.outcomes import StreamState, Uploaded
from hostler.domain.place import Place
from hostler.domain.usage import Used
from hostler.models.catalog import ModelCatalog, build_catalog
from hostler.runs.child_runs import RunController
from hostler.runs.run_meter import RunMeter
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import agents, events, runs, transcripts
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.run_rows import NewRun
from hostler.storage.stores.transcripts import item_of
from hostler.tools.schedules import RunSchedules
from hostler_protocol.calls import ActionParams, HostInfo, ModelReply, RunCreateParams
from hostler_protocol.content import Message
from hostler_protocol.errors import HostlerError
from hostler_protocol.ids import new_id
from hostler_protocol.limits import PROTOCOL_VERSION, Limits
from support.call_params import params_of
from support.gate_checks import check
from support.grants import ResourcePolicy, StatePolicy, agent_of, catalog_of, event_of, grant_of

MODELS = [
    ModelEntry(id="gpt", base_url="http://127.0.0.1:9/v1", api_key="k", price=Price(input=1.0, output=2.0)),
    ModelEntry(id="judge", base_url="http://127.0.0.1:9/v1", api_key="k", type="rerank"),
    ModelEntry(id="vectors", base_url="http://127.0.0.1:9/v1", api_key="k", type="embedding"),
]


class Controller(RunController):
    """The real one, but for children: those need a whole host."""

    def __init__(self, db: SqlDatabase) -> None:
        unused: Any = None  # only children need an orchestrator
        super().__init__(db, orchestrator=unused, wait=unused)
        self.created: list[RunCreateParams] = []

    def cancel(self, workspace_id: str, run_id: str, reason: str, actor: str) -> Effect:
        return Effect(super().cancel(workspace_id, run_id, reason, actor).work)

    async def create(self, parent: CallScope, params: RunCreateParams) -> Effect | HostlerError:
        self.created.append(params)
        record = await self.record(parent.workspace_id, parent.run_id)
        return Effect(lambda tx: record)


@dataclass
class World:
    """What a test asks of: `runs` maps (workspace, name) to run ids, which are unique everywhere."""

    db: SqlDatabase
    services: Services
    controller: Controller
    gate: Gate = field(default_factory=Gate)
    runs: dict[tuple[str, str], str] = field(default_factory=dict)
    seqs: dict[tuple[str, str], int] = field(default_factory=dict)
    agents: dict[tuple[str, str], Agent] = field(default_factory=dict)

    def caller(self, ws: str = "main", name: str = "own", **options: Any) -> Caller:
        """A run as it makes its calls."""
        agent = self.agents[ws, options.pop("agent", "helper")]
        event = options.pop("event", None) or event_of(workspace_id=ws, event_id="e-own")
        grant = options.pop("grant", None) or grant_of(
            agent=agent,
            event=event,
            config={"model": "gpt", "reranker": "judge"},
            catalog=catalog(self.services.models),
        )
        return Caller(self, self.runs[ws, name], event, grant, self.seqs[ws, "own"], **options)


@dataclass
class Caller:
    """One run: gate, function, transaction, reply."""

    world: World
    run_id: str
    event: Event
    grant: Grant
    history_before: int
    deadline_at: float | None = None
    uploads: dict[str, Uploaded] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.gated = GatedRun(self.run_id, self.grant, deadline_at=self.deadline_at)
        self.meter = RunMeter(Used(), StreamState())

    def scope(self) -> CallScope:
        return CallScope(
            run_id=self.run_id,
            attempt=1,
            grant=self.grant,
            event=self.event,
            services=self.world.services,
            meter=self.meter,
            history_before=self.history_before,
            event_seq=self.world.seqs[self.event.workspace_id, "e-own"],
            uploads=self.uploads,
        )

    async def call(self, method: str, **changes: Any) -> Any:
        """Make a call as the host does; raises what it is refused with."""
        params = params_of(method, self.run_id, **changes)
        check(self.world.gate, self.gated, method, params)
        if method in STREAM_FUNCTIONS:
            return [_uncharged(piece) async for piece in STREAM_FUNCTIONS[method](self.scope(), params)]
        if isinstance(
            params, ActionParams
        ):  # what decides on it; channels carry it out, of which none is here
            asked = (params.action, params.target, params.payload)
            return await self.world.db.read(lambda tx: decide_action(tx, self.scope(), *asked))
        reply = _uncharged(await CALL_FUNCTIONS[method](self.scope(), params))
        if isinstance(reply, Effect):
            effect = reply
            reply = await self.world.db.write(effect.work)
            if isinstance(reply, HostlerError):
                if effect.refused is not None:
                    await effect.refused(reply)
                raise reply
            if effect.then is not None:
                reply = await effect.then(reply)
        msgspec.json.encode(reply)
        return reply

    async def refused(self, method: str, **changes: Any) -> str:
        """The code a call is refused with; 'ok' if it is not."""
        try:
            await self.call(method, **changes)
        except HostlerError as error:
            return error.code
        return "ok"


def catalog(models: Any) -> ResourceCatalog:
    resources = {model.model_id: model.resource() for model in models.list()}
    plain = catalog_of(tools=["search"])
    return ResourceCatalog(models=resources, tools=plain.tools, tool_pins=plain.tool_pins)


@asynccontextmanager
async def world_of(db: SqlDatabase, folder: Path, models: ModelCatalog | None = None) -> AsyncIterator[World]:
    """Build the world on an empty database."""
    models = models or build_catalog(MODELS)
    blobs = BlobFolder(folder / "blobs")
    controller = Controller(db)
    info = HostInfo(name="hostler", version="1", protocol=PROTOCOL_VERSION, limits=Limits())
    services = Services(
        db,
        blobs,
        Cursors(bytes(32)),
        models,
        controller,
        info,
        time.time,
        schedules=RunSchedules(db),
    )
    world = World(db, services, controller)
    for ws in ("main", "other"):
        await db.write(partial(_agents, world=world, ws=ws))
        for event_id, place in EVENTS.items():
            await db.write(partial(_event, world=world, ws=ws, event_id=event_id, place=place))
        for name, place in RUNS.items():
            await db.write(partial(_run, world=world, ws=ws, name=name, place=place))
    try:
        yield world
    finally:
        blobs.close()
        await models.close()


EVENTS: dict[str, dict[str, Any]] = {
    "e-before": {},
    "e-elsewhere": {"conversation_id": "c2"},
    "e-bot": {"bot_id": "b2"},
    "e-thread": {"thread_id": "t2"},
    "e-nowhere": {"conversation_id": None},
    "e-own": {},
    "e-after": {},
}
"""Events of each workspace in their order; what is not said is as in the run's own."""

RUNS: dict[str, dict[str, Any]] = {
    "before": {},
    "own": {},
    "child": {"conversation_id": None, "parent": "own"},
    "elsewhere": {"conversation_id": "c2"},
    "thread": {"thread_id": "t2"},
    "stranger": {"agent": "stranger"},
}


def _agents(tx: Tx, *, world: World, ws: str) -> None:
    policy = ResourcePolicy(
        allow_workspace_storage=True,
        allow_schedules=True,
        allowed_agents=["helper"],
        allowed_model_ids=["gpt", "judge", "vectors"],
    )
    for name in ("helper", "stranger"):
        spec = agent_of(
            name,
            resource_policy=policy,
            state_policy=StatePolicy(state_scopes=["conversation", "actor", "runner"]),
        ).spec
        world.agents[ws, name] = agents.apply(tx, ws, spec)


def _event(tx: Tx, *, world: World, ws: str, event_id: str, place: dict[str, Any]) -> None:
    event = event_of(workspace_id=ws, event_id=event_id, **place)
    events.insert(tx, event, "started", None, {})

    def remember(seq: int) -> None:
        if event_id == "e-own":
            world.seqs[ws, "own"] = seq
        stored = events.find(tx, ws, event_id)
        assert stored is not None
        world.seqs[ws, event_id] = stored.seq

    envelope = event.envelope
    message = Message(role="user", content=f"hello from {ws} {event_id}")
    item = item_of(message, Place.of(envelope), event_id=event_id)
    transcripts.append(tx, ws, item, remember)


def _run(tx: Tx, *, world: World, ws: str, name: str, place: dict[str, Any]) -> None:
    agent = world.agents[ws, place.get("agent", "helper")]
    conversation_id = place.get("conversation_id", "c1")
    thread_id = place.get("thread_id")
    run_id = world.runs[ws, name] = new_id()
    parent = place.get("parent")
    lane = lane_of(
        workspace_id=ws,
        agent_id=agent.agent_id,
        place=Place(None, conversation_id, thread_id),
        event_id=name,
    )
    runs.open(
        tx,
        NewRun(
            workspace_id=ws,
            run_id=run_id,
            agent_id=agent.agent_id,
            agent_name=agent.name,
            agent_version=1,
            runner_id=agent.spec.runner,
            lane=lane,
            event_id="e-own",
            parent_run_id=None if parent is None else world.runs[ws, parent],
            conversation_id=conversation_id,
            thread_id=thread_id,
        ),
        None,
    )


__all__ = ["Caller", "ModelReply", "World", "catalog", "world_of"]


def _uncharged(reply: Any) -> Any:
    return reply.reply if isinstance(reply, Charged) else reply
