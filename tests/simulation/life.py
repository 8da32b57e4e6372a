"""One life: hosts are started, a plan is carried out, the faults end, and all has to come to rest."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import shutil
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hostler.domain.agents import AgentSpec
from hostler.domain.audit_anchors import AuditAnchors
from hostler.domain.channels import ChannelEntry
from hostler.domain.hooks import Hook
from hostler.domain.model_entries import ModelEntry
from hostler.domain.schedules import Schedule
from hostler.domain.tool_entries import ToolEntry
from hostler.domain.type_fit import convert
from hostler.domain.webhooks import Webhook
from hostler.host.config import ConfigFile, PluginEntry, Settings
from hostler.host.host import Host
from hostler.host.machine import Machine
from hostler.plugins.source import Folder, SingleFile, launch_of
from hostler.simulation.disk import SimulatedDisk
from hostler.simulation.entropy import EPOCH
from hostler.simulation.latency import Latency
from hostler.simulation.loop import SimulatedProcess
from hostler.simulation.network import SimulatedNetwork
from hostler.simulation.plugins import PluginLife
from hostler.simulation.world import SimulatedHost, World
from hostler.storage.stores import agents
from hostler_protocol.errors import HostlerError, StorageError
from hostler_sdk.loading import load_folder
from hostler_sdk.plugin import Plugin
from simulation import desk, model_service, shop
from simulation.desk import Desk
from simulation.model_service import ModelService, build_with
from simulation.opened import Opener
from simulation.outside import Outside, set_outside
from simulation.plan import MAX_MOMENT, Action, Plan
from simulation.receivers import SECRET, Receiver
from simulation.shop import Shop
from simulation.standing import Standing, look
from simulation.workloads import anchors

WORKSPACE = "default"
TENANT = "tenant"
"""The second workspace, on the same hosts."""
PLUGINS = Path(__file__).parent
T = TypeVar("T")
REST_SECONDS = 900.0
"""Within this simulated time after the last fault everything has come to rest. The longest waits of the host
are the lease of a host, the back-off of a plugin and the tries of webhooks."""
LOOK_SECONDS = 1.0
LEASE_SECONDS = 5.0
RETRY_SECONDS = 0.2
LONG_SECONDS = 40.0
"""After so much time without faults, what has not ended waits for an expiry, or for its last try."""
SELDOM_SECONDS = 2.0
"""How long people and clients wait then between two looks. Shorter waits found nothing else."""
MANIFEST = "hostler.yaml"
TRACEBACK = '"text":"Traceback (most recent call last):'
WAITS = """
SELECT 'run ' || run_id || ' is ' || status FROM runs
WHERE status NOT IN ('completed', 'failed', 'cancelled', 'timeout')
UNION ALL SELECT 'event ' || event_id || ' is ' || outcome FROM events WHERE outcome = 'deferred'
UNION ALL SELECT 'pause ' || pause_id || ' is ' || status FROM pauses WHERE settled_at IS NULL
UNION ALL SELECT 'the steered message ' || event_id || ' waits for run ' || run_id FROM steering
WHERE status = 'queued'
UNION ALL SELECT 'the message ' || event_id || ' waits since ' || created_at FROM waiting_messages
UNION ALL SELECT 'delivery ' || delivery_id || ' to ' || webhook || ' is pending' FROM deliveries
WHERE status = 'pending'
UNION ALL SELECT 'message ' || delivery_id || ' of ' || channel || ' is ' || status FROM outbox
WHERE due_at IS NOT NULL
UNION ALL SELECT 'schedule ' || name || ' has planned times left' FROM schedules
WHERE next_planned IS NOT NULL
"""
"""What the facts say is not at its end."""

TELLING = ("hostler.runs.attempt", "hostler.host.maintenance")
"""Modules that say which attempts are superseded, and what is removed, with less than a warning."""

Handler = Callable[["Life", Action], Awaitable[None]]
Attend = Callable[["Life"], Awaitable[None]]
Judge = Callable[["Life"], list[str]]
Count = Callable[["Life"], dict[str, int]]
wait = asyncio.sleep


@dataclass
class Ended:
    """What is left of a life."""

    plan: Plan
    findings: list[str]
    digest: str
    """Of all journals."""
    seconds: float
    callbacks: int
    log: list[tuple[float, str, dict[str, Any]]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    """What happened, and how often."""


class _Records(logging.Handler):
    """Keeps what the hosts log, as text: errors would keep what the hosts have let go of."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        record.msg, record.args = record.getMessage(), None
        if record.exc_info is not None and record.exc_info[1] is not None:
            record.exc_text = repr(record.exc_info[1])
        record.exc_info = None
        self.records.append(record)


class Life:
    """What the parts of a life share."""

    def __init__(self, plan: Plan, folder: Path, template: Path) -> None:
        self.plan = plan
        self.folder = folder
        self.world = World(plan.seed, load_plugin, self._happened)
        self.outside = Outside(
            self.world.loop,
            self.world.process("services"),
            Latency(self.world.chance.stream("services")),
            self.world.chance,
        )
        set_outside(self.outside)
        network = SimulatedNetwork(self.world.loop, self.world.chance)
        self.world.machine = Machine(model_providers={"openai": build_with(network)}, network=network)
        ModelService(self.outside, network)
        Shop(self.outside, network)
        Desk(self.outside, network)
        for webhook in plan.webhooks:
            Receiver(self.outside, network, webhook["name"])
        self.clients = self.world.process("clients")
        self.hosts: list[SimulatedHost] = []
        self.over = False
        self.calm_at = 0.0
        self.replaying: set[int] = set()
        """Numbers of the plugin processes in which runs are replayed."""
        self.calm = asyncio.Event()
        """Set when the faults are over."""
        self.runs: dict[tuple[str, str], str] = {}
        """The runs of the events that were accepted, by workspace and event."""
        self._plugins = ["plugin", *plan.plugins]
        self.standing: list[Standing] = []
        """What each host holds at the end, at rest."""
        self.secrets = {SECRET, model_service.KEY, shop.KEY, desk.KEY}
        """What must not be found in any table."""
        self.secrets |= {os.environ[one.removeprefix("env:")] for one in [*plan.pause_key, *plan.master_key]}
        self.pause_key = plan.pause_key
        """References to the keys that seal pauses now, the current one first."""
        self.master_key = plan.master_key
        """References to the master keys now, the current one first."""
        self.opener: Opener | None = None
        """What opens sealed facts, once some were read."""
        self._facts: dict[Path, tuple[int, sqlite3.Connection]] = {}
        """Inode and connection of each database that was read."""
        self.keys: dict[str, str] = {}
        """The valid keys of people of the first workspace who decide, by their names."""
        self.revoked: set[str] = set()
        """Keys that are revoked, or about to be; their holders get others once they are in `renewed`."""
        self.renewed: set[str] = set()
        self.logged = _Records()
        self.world.plugins.at_start.append(self._plugin_starts)
        self._lay_out(template)

    def _happened(self, who: str, what: str) -> None:
        self.outside.note("happened", who=who, what=what)

    def _plugin_starts(self, plugin: PluginLife) -> None:
        def gone() -> None:
            host = plugin.host.name if plugin.host.alive else None
            self.outside.note("plugin gone", process=plugin.process.name, host=host)

        plugin.process.at_death.append(gone)

    def _lay_out(self, template: Path) -> None:
        shared = self.plan.hosts > 1
        common = SimulatedDisk(self.folder / "shared.db", clock=lambda: EPOCH + self.world.loop.time())
        for number in range(self.plan.hosts):
            data = self.folder / f"h{number}"
            data.mkdir(0o700, parents=True)
            if shared:  # a run of one host needs the files of its event at the other one
                (self.folder / "blobs").mkdir(exist_ok=True)
                (data / "blobs").symlink_to(self.folder / "blobs")
            disk = common if shared else SimulatedDisk(data / "hostler.db")
            if not disk.path.exists():
                shutil.copy(template, disk.path)
            settings = Settings(
                data_dir=data,
                database="postgresql://simulated/hostler" if shared else None,
                lease_seconds=LEASE_SECONDS,
                shutdown_grace_seconds=2.0,
                cancel_grace_seconds=1.0,
                **{"hold_seconds": 3.0, **self.plan.settings},
                plugin_start_seconds=5.0,
                erasure_key=(self.erasure_key,),
            )
            self.hosts.append(SimulatedHost(self.world, f"h{number}", settings, disk, shared=shared))
        for name in self._plugins:
            sys.path.append(str(PLUGINS / name))  # the code; the manifests may change
            self.plugin(name).mkdir()
            shutil.copy(PLUGINS / name / MANIFEST, self.plugin(name))

    def plugin(self, name: str) -> Path:
        """Return the folder in which the hosts find a plugin."""
        return self.folder / name

    # -- for workloads ----------------------------------------------------------------------------

    async def some_host(self, prefer: int, others: bool = True) -> SimulatedHost:
        """Wait until a host is up, and return it: the preferred one if it is, or if no `others` will do."""
        while True:
            hosts = self.hosts[prefer % len(self.hosts) :] + self.hosts[: prefer % len(self.hosts)]
            for host in hosts if others else hosts[:1]:
                if host.up and host.process is not None and not host.process.frozen:
                    return host
            await self.look_again(RETRY_SECONDS)

    async def persist(
        self, prefer: int, work: Callable[[Host], Awaitable[T]], seconds: float = 30.0, *, others: bool = True
    ) -> T:
        """Have a host do something, and another if it does not answer. HostlerError if it is refused."""
        while True:
            host = await self.some_host(prefer, others)
            try:
                return await host.ask(work, seconds)
            except HostlerError as error:  # no answer: nobody knows whether it was done
                if not error.retryable and not isinstance(error, StorageError):
                    raise
                self.outside.note("not now", code=error.code)
            await self.look_again(RETRY_SECONDS)

    async def look_again(self, seconds: float) -> None:
        """Wait so long until the next look at what may have changed, longer in a long rest."""
        rested = self.world.loop.time() - self.calm_at if self.calm.is_set() else 0.0
        await wait(seconds if rested < LONG_SECONDS else max(seconds, SELDOM_SECONDS))

    async def run_of(self, event: str) -> str | None:
        """Wait for the run of an event of the first workspace. None if it has none when the faults end."""
        while (WORKSPACE, event) not in self.runs and not self.calm.is_set():
            await self.look_again(RETRY_SECONDS)
        return self.runs.get((WORKSPACE, event))

    def plugins_of(self, host: SimulatedHost) -> list[SimulatedProcess]:
        """Return the living plugin processes of a host."""
        prefix = f"{host.name}."
        found = [life.process for life in self.world.plugins.lives]
        return [process for process in found if process.alive and process.name.startswith(prefix)]

    async def later(self, seconds: float, work: Callable[[], object]) -> None:
        """Do something after a while, or when the faults end, whichever is first."""
        try:
            async with asyncio.timeout(seconds):
                await self.calm.wait()
        except TimeoutError:
            pass
        work()

    @staticmethod
    async def first_of(*events: asyncio.Event) -> None:
        """Wait until one of some events is set."""
        waits = [asyncio.ensure_future(event.wait()) for event in events]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for task in waits:
            task.cancel()

    # -- the course of it -------------------------------------------------------------------------

    async def live(self, handlers: Mapping[str, Handler], attend: Sequence[Attend]) -> None:
        """Carry the plan out, and wait until all is at rest."""
        for host in self.hosts:
            host.start()
        await self._configure()
        loop = self.world.loop
        began = loop.time()
        for people in attend:
            self.clients.spawn(_forever(people(self)))
        tasks = [
            self.clients.spawn(self._do(began + action.at, handlers[action.what], action))
            for action in self.plan.actions
        ]
        await asyncio.sleep(max(0.0, began + MAX_MOMENT - loop.time()))
        self._calm_down()
        await self._rest(tasks)
        self.over = True
        self.standing = await look(self.world, self.hosts)

    async def _do(self, at: float, handler: Handler, action: Action) -> None:
        await asyncio.sleep(max(0.0, at - self.world.loop.time()))
        self.outside.note("action", what=action.what, data=action.data)
        await handler(self, action)

    def config(self, without: str | None = None) -> ConfigFile:
        """Return the configuration of the plan, without one of its agents."""
        specs = [spec for spec in self.plan.agents if spec["name"] != without]
        return ConfigFile(
            plugins=[PluginEntry(path=str(self.plugin(name)), level="trusted") for name in self._plugins],
            pause_key=self.pause_key,
            master_key=self.master_key,
            audit_anchors=self._anchors(),
            models=msgspec.convert(self.plan.models, list[ModelEntry]),
            webhooks=msgspec.convert(self.plan.webhooks, list[Webhook]),
            hooks=msgspec.convert(self.plan.hooks, list[Hook]),
            schedules=msgspec.convert(self.plan.schedules, list[Schedule]),
            channels=msgspec.convert(self.plan.channels, list[ChannelEntry]),
            tools=msgspec.convert(self.plan.tools, list[ToolEntry]),
            agents=[convert(spec, AgentSpec, spec["name"]) for spec in specs],
        )

    def _anchors(self) -> AuditAnchors | None:
        if not self.plan.anchors:
            return None
        file = str(self.folder / anchors.FILE)
        return AuditAnchors(key=f"env:{anchors.NAME}", every_minutes=self.plan.anchors[0], file=file)

    async def _configure(self) -> None:
        for number, _ in enumerate(self.hosts):  # each, since it learns of changes by others only later
            work = partial(_apply, config=self.config())
            await self.persist(number, work, seconds=60, others=False)
        for spec in self.plan.tenant:
            await self.persist(0, partial(_apply_for_tenant, convert(spec, AgentSpec, spec["name"])))

    def _calm_down(self) -> None:
        self.calm.set()
        self.calm_at = self.world.loop.time()
        self._happened("all", "faults end: every host is started, thawed, and has room on its disk")
        for host in self.hosts:
            host.disk.mend()
            host.thaw()
            host.start()

    async def _rest(self, tasks: list[asyncio.Task[None]]) -> None:
        """Wait until nothing waits any more, at most REST_SECONDS."""
        loop = self.world.loop
        back = sum(abs(one.data["by"]) for one in self.plan.actions if one.what == "clock")
        until = loop.time() + REST_SECONDS + back  # what waits for a time waits until a clock shows it
        while loop.time() < until:
            await asyncio.sleep(LOOK_SECONDS)
            for host in self.hosts:
                host.start()  # one that a fault was ending when the faults ended
            at_rest = all(task.done() for task in tasks) and not self.waiting()
            if at_rest and all(host.up and not host.stopping for host in self.hosts):
                return

    @property
    def erasure_key(self) -> Path:
        """The file of the erasure key, which all hosts have."""
        return self.folder / "erasure.key"

    def waiting(self) -> list[str]:
        """Return what the facts say is not at its end."""
        return [text for (text,) in self.rows(WAITS)]

    def rows(self, sql: str, host: SimulatedHost | None = None) -> list[tuple[Any, ...]]:
        """Read the facts with SQL of the judges' own, in the database of a host, or of the first one."""
        return self.facts(host or self.hosts[0]).execute(sql).fetchall()

    def facts(self, host: SimulatedHost) -> sqlite3.Connection:
        """Return the judges' own connection to the database of a host."""
        path = host.disk.path
        file, (inode, connection) = os.stat(path).st_ino, self._facts.get(path, (0, None))
        if connection is None or inode != file:  # a power cut replaced the file
            if connection is not None:
                connection.close()
            connection = sqlite3.connect(path)
            if self.plan.master_key:
                self.opener = Opener(path, self.erasure_key)
                self.opener.shadow(connection)
            self._facts[path] = file, connection
        return connection


def load_plugin(_: str, source: Folder | SingleFile) -> Plugin:
    """Load the code of a plugin from what the host passes to its process."""
    return load_folder(Path(source.path), launch_of(source).variables)


async def _apply(host: Host, config: ConfigFile) -> None:
    await host.apply(config, actor="test")


async def _apply_for_tenant(spec: AgentSpec, host: Host) -> None:
    await host.db.write(lambda tx: agents.apply(tx, TENANT, spec))
    host.event_router.changed(TENANT)


async def _forever(work: Awaitable[None]) -> None:
    await work


def journal_digest(life: Life) -> str:
    """Return a digest of all journals, without times."""
    found = hashlib.sha256()
    for *row, data in life.rows(
        "SELECT run_id, last_position, attempt, kind, type, data FROM journal ORDER BY 1, 2"
    ):
        found.update(json.dumps([*row, _without_traceback(data)]).encode())
    return found.hexdigest()[:16]


def _without_traceback(data: str) -> str:
    """Return an entry with only the name of its error: tracebacks differ between versions of Python."""
    if TRACEBACK not in data:
        return data
    entry = json.loads(data)
    entry["data"]["text"] = entry["data"]["text"].rstrip().rpartition("\n")[2].partition(":")[0]
    return json.dumps(entry)


def live(
    plan: Plan,
    folder: Path,
    template: Path,
    handlers: Mapping[str, Handler],
    attend: Sequence[Attend],
    judges: Sequence[Judge],
    count: Count = lambda _: {},
) -> Ended:
    """Live a life in this interpreter, once: afterwards its state is of no use for another one.

    `folder`: where its files are; they are left there.
    """
    findings: list[str] = []
    life = Life(plan, folder, template)
    logging.getLogger("hostler").addHandler(life.logged)
    logging.getLogger("hostler").propagate = False
    for room in TELLING:
        logging.getLogger(room).setLevel(logging.INFO)
    logging.getLogger("hostler_sdk").addHandler(logging.NullHandler())  # tools fail as they are told
    logging.getLogger("hostler_sdk").propagate = False
    loop = life.world.loop
    try:
        life.world.run(life.live(handlers, attend))
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  a finding about the life itself
        findings.append(f"the life broke: {type(error).__name__}: {error}")
    for judge in judges:
        findings += judge(life)
    log = life.outside.notes + [(one.at, "effect", asdict(one)) for one in life.outside.effects]
    log.sort(key=lambda note: note[0])
    digest = journal_digest(life)
    return Ended(plan, findings, digest, loop.time(), loop.callbacks, log, count(life))
