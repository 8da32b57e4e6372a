"""What `hostler replay` does: finds tapes and runners, replays, and says what came of it."""

from __future__ import annotations

import time
import tomllib
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from hostler.cli.junit import write_junit
from hostler.cli.options import data_directory
from hostler.cli.output import err, note
from hostler.cli.replay_report import Failed, case_of, tell, tell_sum
from hostler.cli.routes import route
from hostler.cli.run import CONFIG_SUFFIXES, parse_settings
from hostler.cli.server_address import reach
from hostler.cli.targets import local_target
from hostler.domain.tapes import Tape, decode_tape, read_tape
from hostler.host.bundled import shipped_runner
from hostler.journal.replay_session import Replayed
from hostler.journal.replayer import Cast, Changes, Replayer
from hostler.plugins.source import Folder, Level, identity_of
from hostler.plugins.supervisor import environments_folder
from hostler_protocol.errors import CallerError, InvalidArgumentError, NotFoundError, PluginError
from hostler_protocol.ids import split_runner_id
from hostler_protocol.runs import TERMINAL_STATUSES

if TYPE_CHECKING:
    from hostler.cli.client import Api

MAX_FILE_BYTES = 128 * 1024 * 1024
"""An exported run: twice what a host exports."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asked for."""

    recorded: tuple[str, ...]
    agent: str | None = None
    since_seconds: int | None = None
    limit: int = 100
    runner: str | None = None
    config: tuple[str, ...] = ()
    agent_version: int | None = None
    live_after: bool = False
    effects: bool = False
    seconds: float = 60.0
    junit: Path | None = None
    as_json: bool = False
    data: Path | None = None
    url: str | None = None
    key: str | None = None


@dataclass(slots=True)
class _Around:
    """Where runs, agents and plugins are looked up; `api` is opened when it is first needed."""

    api: Api | None
    plugins: dict[str, Folder] | None = None
    versions: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)

    @property
    def server(self) -> Api:
        """The API; InvalidArgumentError where only files were named."""
        if self.api is None:
            raise InvalidArgumentError("only exported files were named, and no host to look anything up on")
        return self.api


async def replay_all(wanted: Wanted) -> bool:
    """Replay what is named and tell of it. False: one was not the same."""
    changes = read_changes(wanted.config)
    async with _around(wanted) as around:
        names = await _names(wanted, around)
        many = len(names) > 1 or wanted.agent is not None
        ends: list[Replayed | Failed] = []
        async with Replayer.open(environments_folder(data_directory(wanted.data))) as replayer:
            if replayer.network is not None:
                note(f"the network is not blocked here: {replayer.network}")
            with _progress(len(names), shown=many and not wanted.as_json) as advance:
                for name in names:
                    end = await _one(wanted, around, replayer, changes, name, alone=not many)
                    ends.append(end)
                    tell(end, as_json=wanted.as_json, network=replayer.network, alone=not many)
                    advance()
        if wanted.live_after:
            await _go_live(wanted, around, ends)
    if many and not wanted.as_json:
        tell_sum(ends)
    if wanted.junit is not None:
        write_junit(wanted.junit, "hostler replay", [case_of(end) for end in ends])
    return all(isinstance(end, Replayed) and end.is_identical for end in ends)


def check_live(wanted: Wanted) -> None:
    """What a host goes on with is an agent of its own, and one run. InvalidArgumentError says what to do."""
    if len(wanted.recorded) != 1 or wanted.agent is not None or _is_file(wanted.recorded[0]):
        raise InvalidArgumentError("--live-after goes with the id of one run")
    if wanted.runner is not None or wanted.config:
        raise InvalidArgumentError(
            "--live-after goes on with an agent of the host: apply the runner or configuration as a version "
            "of it, and name that by --agent-version"
        )


async def _go_live(wanted: Wanted, around: _Around, ends: list[Replayed | Failed]) -> None:
    from hostler.cli.live_fork import go_live

    for end in ends:
        if isinstance(end, Replayed) and end.divergence is not None:
            await go_live(
                around.server,
                end,
                agent_version=wanted.agent_version,
                effects=wanted.effects,
                as_json=wanted.as_json,
            )


@asynccontextmanager
async def _around(wanted: Wanted) -> AsyncIterator[_Around]:
    if wanted.live_after:
        check_live(wanted)
        async with reach(wanted.url, wanted.key, wanted.data, running=True) as api:
            yield _Around(api)
    elif wanted.agent is None and wanted.recorded and all(_is_file(name) for name in wanted.recorded):
        yield _Around(None)
    else:
        async with reach(wanted.url, wanted.key, wanted.data) as api:
            yield _Around(api)


def _is_file(name: str) -> bool:
    return name.endswith(".json") or "/" in name or Path(name).is_dir()


async def _names(wanted: Wanted, around: _Around) -> list[str]:
    """Files and ids of runs."""
    names = expanded(wanted.recorded)
    if wanted.agent is not None or wanted.since_seconds is not None:
        since = None if wanted.since_seconds is None else max(0.0, time.time() - wanted.since_seconds)
        found = await around.server.items(
            "/v1/runs",
            limit=wanted.limit,
            agent=wanted.agent,
            since=since,
            status=sorted(TERMINAL_STATUSES),
        )
        names += [run["run_id"] for run in found]
    if not names:
        raise InvalidArgumentError(
            "there is nothing to replay: name runs or exported files, or choose with --agent and --since"
        )
    return names


def expanded(recorded: Iterable[str]) -> list[str]:
    """What was named, with the exported runs of a folder in its place."""
    names: list[str] = []
    for name in recorded:
        if _is_file(name) and Path(name).is_dir():
            names += sorted(str(path) for path in Path(name).glob("*.json"))
        else:
            names.append(name)
    return names


async def _one(
    wanted: Wanted, around: _Around, replayer: Replayer, changes: Changes, name: str, *, alone: bool
) -> Replayed | Failed:
    """Replay one run. Of a set, one that cannot be replayed leaves the others alone."""
    tape: Tape | None = None
    began = time.monotonic()
    try:
        tape = await _tape(around, name)
        cast, changes = await _cast(wanted, around, tape, changes)
        return await replayer.replay(tape, cast, changes, seconds=wanted.seconds)
    except (CallerError, PluginError) as error:
        if alone:
            raise
        run_id, agent = (tape.run.run_id, tape.run.agent) if tape is not None else (name, wanted.agent or "")
        return Failed(run_id, agent, error.message, time.monotonic() - began)


async def _tape(around: _Around, name: str) -> Tape:
    if _is_file(name):
        return read_tape(read_file(Path(name)))
    text = await around.server.text(route("runs", name, "export"))
    return read_tape(decode_tape(text.encode()))


def read_file(path: Path) -> Any:
    """Read an exported run. InvalidArgumentError says what is wrong with it."""
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise InvalidArgumentError(f"{path} has {size:,} bytes; at most {MAX_FILE_BYTES:,} are read")
        return decode_tape(path.read_bytes())
    except OSError as error:
        raise InvalidArgumentError(f"{path} cannot be read: {error.strerror}") from None
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{path}: {error.message}") from None


def read_changes(values: tuple[str, ...]) -> Changes:
    """What --config says: a file that holds the whole configuration, and single values."""
    pairs = [value for value in values if "=" in value and not value.endswith(CONFIG_SUFFIXES)]
    files = [value for value in values if value not in pairs]
    if len(files) > 1:
        raise InvalidArgumentError(f"--config names {len(files)} files: one is enough")
    config = _config_of(Path(files[0])) if files else None
    return Changes(config=config, values=parse_settings(pairs))


def _config_of(path: Path) -> dict[str, Any]:
    """A runner's configuration in a file of its own: a mapping of its form's names to values."""
    try:
        text = path.read_text("utf-8")
        if path.suffix == ".toml":
            found: Any = tomllib.loads(text)
        elif path.suffix == ".json":
            found = msgspec.json.decode(text)
        else:
            found = yaml.safe_load(text)
    except (OSError, ValueError, msgspec.DecodeError, yaml.YAMLError) as error:
        raise InvalidArgumentError(f"--config {path}: {' '.join(str(error).split())}") from None
    if not isinstance(found, dict):
        raise InvalidArgumentError(f"--config {path}: a mapping of the runner's configuration is expected")
    return found


# -- who plays ------------------------------------------------------------------------------------


async def _cast(wanted: Wanted, around: _Around, tape: Tape, changes: Changes) -> tuple[Cast, Changes]:
    """The runner that is meant, and its configuration."""
    runner_id = tape.run.runner_id
    if wanted.agent_version is not None:
        spec = await _spec(around, tape.run.agent, wanted.agent_version)
        runner_id = spec["runner"]
        if changes.config is None:
            changes = replace(changes, config=spec.get("config") or {})
    if wanted.runner is not None:
        target = local_target(wanted.runner)
        if target is None:
            raise NotFoundError(f"--runner {wanted.runner}: name a plugin folder, or file.py:Class")
        return Cast(target.source, target.runner), changes
    plugin_key, name = split_runner_id(runner_id)
    return Cast(await _source(around, plugin_key), name), changes


async def _source(around: _Around, plugin_key: str) -> Folder:
    """The plugin's folder, of those that are configured or shipped."""
    if around.plugins is None:
        around.plugins = await _configured(around)
    if (folder := around.plugins.get(plugin_key)) is not None:
        return folder
    if (shipped := shipped_runner(plugin_key)) is not None:
        return Folder(shipped)
    raise NotFoundError(
        f"where plugin {plugin_key} lies is not known here: name it with --runner, like --runner ./folder or "
        "--runner file.py:Class"
    )


async def _configured(around: _Around) -> dict[str, Folder]:
    if around.api is None:
        return {}
    found: dict[str, Folder] = {}
    for entry in (await around.api.get("/v1/config")).get("plugins") or []:
        named = {"path": entry} if isinstance(entry, str) else entry
        level: Level = "trusted" if named.get("level") == "trusted" else "sandboxed"
        allowed = tuple(named.get("allow_requires") or ())
        folder = Folder(Path(named["path"]), level=level, allow_requires=allowed)
        try:
            found[identity_of(folder).key] = folder
        except PluginError:
            continue  # it lies on another machine, or is gone
    return found


async def _spec(around: _Around, agent: str, version: int) -> dict[str, Any]:
    if (agent, version) not in around.versions:
        items = await around.server.items(route("agents", agent, "versions"), limit=10_000)
        around.versions |= {(agent, item["version"]): item["spec"] for item in items}
    if (agent, version) not in around.versions:
        known = ", ".join(str(number) for name, number in sorted(around.versions) if name == agent)
        raise NotFoundError(f"agent {agent!r} has no version {version}; its versions are: {known}")
    return around.versions[agent, version]


@contextmanager
def _progress(total: int, *, shown: bool) -> Iterator[Any]:
    if not shown or not err().is_terminal:
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err(), transient=True) as progress:
        task = progress.add_task("replaying", total=total)
        yield lambda: progress.advance(task)
