"""The work of `hostler replay`: find recordings and runners, replay, and report."""

from __future__ import annotations

import time
import tomllib
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml
from msgspec.structs import replace

from hostler.cli.junit import write_junit
from hostler.cli.options import data_directory
from hostler.cli.output import note
from hostler.cli.replay_report import Failed, case_of, show_replay, show_total
from hostler.cli.routes import route
from hostler.cli.run import CONFIG_SUFFIXES, parse_settings
from hostler.cli.server_address import reach
from hostler.cli.targets import local_target
from hostler.cli.terminal import err
from hostler.domain.record import Record
from hostler.domain.tapes import Tape, decode_tape, read_tape
from hostler.host.bundled import shipped_plugin
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
"""The largest exported run: twice what a host exports."""


class ReplayOptions(Record):
    """Arguments and options of `hostler replay`."""

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
class _Lookup:
    """Looks up runs, agents and plugins. `api` is None if only files were named."""

    api: Api | None
    plugins: dict[str, Folder] | None = None
    versions: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)

    @property
    def server(self) -> Api:
        """The API. InvalidArgumentError if only files were named."""
        if self.api is None:
            raise InvalidArgumentError(
                "--since and --agent-version need a host, but only exported files were named: leave them out"
            )
        return self.api


async def replay_all(options: ReplayOptions) -> bool:
    """Replay the named runs and report on them. Return whether all were identical."""
    changes = read_changes(options.config)
    async with _lookup(options) as lookup:
        names = await _names(options, lookup)
        many = len(names) > 1 or options.agent is not None
        ends: list[Replayed | Failed] = []
        async with Replayer.open(environments_folder(data_directory(options.data))) as replayer:
            if replayer.network is not None:
                note(f"the network is not blocked here: {replayer.network}")
            with _progress(len(names), shown=many and not options.as_json) as advance:
                for name in names:
                    end = await _one(options, lookup, replayer, changes, name, alone=not many)
                    ends.append(end)
                    show_replay(end, as_json=options.as_json, network=replayer.network, alone=not many)
                    advance()
        if options.live_after:
            await _go_live(options, lookup, ends)
    if many and not options.as_json:
        show_total(ends)
    if options.junit is not None:
        write_junit(options.junit, "hostler replay", [case_of(end) for end in ends])
    return all(isinstance(end, Replayed) and end.is_identical for end in ends)


def check_live(options: ReplayOptions) -> None:
    """Check the options of --live-after: one run of the host, and no other runner. InvalidArgumentError."""
    if len(options.recorded) != 1 or options.agent is not None or _is_file(options.recorded[0]):
        raise InvalidArgumentError("--live-after needs the id of one run")
    if options.runner is not None or options.config:
        raise InvalidArgumentError(
            "--live-after continues with an agent of the host: apply the runner or configuration as a new "
            "version of it, and name the version with --agent-version"
        )


async def _go_live(options: ReplayOptions, lookup: _Lookup, ends: list[Replayed | Failed]) -> None:
    from hostler.cli.live_fork import go_live

    for end in ends:
        if isinstance(end, Replayed) and end.divergence is not None:
            await go_live(
                lookup.server,
                end,
                agent_version=options.agent_version,
                effects=options.effects,
                as_json=options.as_json,
            )


@asynccontextmanager
async def _lookup(options: ReplayOptions) -> AsyncIterator[_Lookup]:
    if options.live_after:
        check_live(options)
        async with reach(options.url, options.key, options.data, running=True) as api:
            yield _Lookup(api)
    elif options.agent is None and options.recorded and all(_is_file(name) for name in options.recorded):
        yield _Lookup(None)
    else:
        async with reach(options.url, options.key, options.data) as api:
            yield _Lookup(api)


def _is_file(name: str) -> bool:
    return name.endswith(".json") or "/" in name or Path(name).is_dir()


async def _names(options: ReplayOptions, lookup: _Lookup) -> list[str]:
    """Return the files and run ids to replay. InvalidArgumentError if there are none."""
    names = expand_folders(options.recorded)
    if options.agent is not None or options.since_seconds is not None:
        since = None if options.since_seconds is None else max(0.0, time.time() - options.since_seconds)
        found = await lookup.server.items(
            "/v1/runs",
            limit=options.limit,
            agent=options.agent,
            since=since,
            status=sorted(TERMINAL_STATUSES),
        )
        names += [run["run_id"] for run in found]
    if not names:
        raise InvalidArgumentError(
            "there is nothing to replay: name runs or exported files, or select runs with --agent and --since"
        )
    return names


def expand_folders(recorded: Iterable[str]) -> list[str]:
    """Return the names, with each folder replaced by its exported runs."""
    names: list[str] = []
    for name in recorded:
        if _is_file(name) and Path(name).is_dir():
            names += sorted(str(path) for path in Path(name).glob("*.json"))
        else:
            names.append(name)
    return names


async def _one(
    options: ReplayOptions, lookup: _Lookup, replayer: Replayer, changes: Changes, name: str, *, alone: bool
) -> Replayed | Failed:
    """Replay one run. In a set, a run that cannot be replayed gives Failed instead of an error."""
    tape: Tape | None = None
    began = time.monotonic()
    try:
        tape = await _tape(lookup, name)
        cast, changes = await _cast(options, lookup, tape, changes)
        return await replayer.replay(tape, cast, changes, seconds=options.seconds)
    except (CallerError, PluginError) as error:
        if alone:
            raise
        run_id, agent = (tape.run.run_id, tape.run.agent) if tape is not None else (name, options.agent or "")
        return Failed(run_id, agent, error.message, time.monotonic() - began)


async def _tape(lookup: _Lookup, name: str) -> Tape:
    if _is_file(name):
        return read_tape(read_file(Path(name)))
    text = await lookup.server.text(route("runs", name, "export"))
    return read_tape(decode_tape(text.encode()))


def read_file(path: Path) -> Any:
    """Read an exported run. InvalidArgumentError with the reason if it cannot be read."""
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
    """Read the values of --config: at most one file with the whole configuration, and KEY=VALUE pairs."""
    pairs = [value for value in values if "=" in value and not value.endswith(CONFIG_SUFFIXES)]
    files = [value for value in values if value not in pairs]
    if len(files) > 1:
        raise InvalidArgumentError(f"--config names {len(files)} files: name only one")
    config = _config_of(Path(files[0])) if files else None
    return Changes(config=config, values=parse_settings(pairs))


def _config_of(path: Path) -> dict[str, Any]:
    """Read a runner's configuration from a file: a mapping of names to values."""
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
        raise InvalidArgumentError(f"--config {path}: expected a mapping of names to values")
    return found


# -- the runner ------------------------------------------------------------------------------------


async def _cast(
    options: ReplayOptions, lookup: _Lookup, tape: Tape, changes: Changes
) -> tuple[Cast, Changes]:
    """Return the runner for a recording, and the changes with its configuration."""
    runner_id = tape.run.runner_id
    if options.agent_version is not None:
        spec = await _spec(lookup, tape.run.agent, options.agent_version)
        runner_id = spec["runner"]
        if changes.config is None:
            changes = replace(changes, config=spec.get("config") or {})
    if options.runner is not None:
        target = local_target(options.runner)
        if target is None:
            raise NotFoundError(f"--runner {options.runner}: name a plugin folder, or file.py:Class")
        return Cast(target.source, target.runner), changes
    plugin_key, name = split_runner_id(runner_id)
    return Cast(await _source(lookup, plugin_key), name), changes


async def _source(lookup: _Lookup, plugin_key: str) -> Folder:
    """Return the plugin's folder, of the configured and the bundled ones. NotFoundError."""
    if lookup.plugins is None:
        lookup.plugins = await _configured(lookup)
    if (folder := lookup.plugins.get(plugin_key)) is not None:
        await _check_confirmed(lookup, plugin_key)
        return folder
    if (shipped := shipped_plugin(plugin_key)) is not None:
        return Folder(shipped)
    raise NotFoundError(
        f"the folder of plugin {plugin_key} is unknown: name it with --runner, like --runner ./folder or "
        "--runner file.py:Class"
    )


async def _check_confirmed(lookup: _Lookup, plugin_key: str) -> None:
    """Raise InvalidArgumentError if a configured plugin is not as it was confirmed."""
    record = {} if lookup.api is None else await lookup.api.get(route("plugins", plugin_key))
    changed = (record.get("pin") or {}).get("changed")
    if changed is not None:
        raise InvalidArgumentError(
            f"plugin {plugin_key}: {changed}, since it was confirmed: look at it, then `hostler plugins "
            f"confirm {plugin_key}`, or replay with --runner FOLDER"
        )


async def _configured(lookup: _Lookup) -> dict[str, Folder]:
    if lookup.api is None:
        return {}
    found: dict[str, Folder] = {}
    for entry in (await lookup.api.get("/v1/config")).get("plugins") or []:
        named = {"path": entry} if isinstance(entry, str) else entry
        level: Level = "trusted" if named.get("level") == "trusted" else "sandboxed"
        allowed = tuple(named.get("allow_requires") or ())
        folder = Folder(Path(named["path"]), level=level, allow_requires=allowed)
        try:
            found[identity_of(folder).key] = folder
        except PluginError:
            continue  # on another machine, or deleted
    return found


async def _spec(lookup: _Lookup, agent: str, version: int) -> dict[str, Any]:
    if (agent, version) not in lookup.versions:
        items = await lookup.server.items(route("agents", agent, "versions"), limit=10_000)
        lookup.versions |= {(agent, item["version"]): item["spec"] for item in items}
    if (agent, version) not in lookup.versions:
        known = ", ".join(str(number) for name, number in sorted(lookup.versions) if name == agent)
        raise NotFoundError(f"agent {agent!r} has no version {version}; its versions are: {known}")
    return lookup.versions[agent, version]


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
