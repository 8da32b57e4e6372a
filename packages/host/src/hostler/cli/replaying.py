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

from hostler.bundled import shipped_runner
from hostler.cli.junit import Case, write_junit
from hostler.cli.options import data_directory
from hostler.cli.output import err, note, out, write_json
from hostler.cli.reach import reach
from hostler.cli.run import CONFIG_SUFFIXES, parse_settings
from hostler.cli.targets import local_target
from hostler.domain.comparing import differences, told
from hostler.domain.tapes import Tape, decode_tape, read_tape
from hostler.plugins.sources import Folder, identity_of
from hostler.plugins.supervisor import environments_folder
from hostler.replaying.replayer import Cast, Changes, Replayer
from hostler.replaying.session import Replayed
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


@dataclass(frozen=True, slots=True)
class _Failed:
    """A run that could not be replayed, and why."""

    run_id: str
    agent: str
    reason: str
    seconds: float = 0.0


async def replay_all(wanted: Wanted) -> bool:
    """Replay what is named and tell of it. False: one was not the same."""
    changes = read_changes(wanted.config)
    async with _around(wanted) as around:
        names = await _names(wanted, around)
        many = len(names) > 1 or wanted.agent is not None
        ends: list[Replayed | _Failed] = []
        async with Replayer.open(environments_folder(data_directory(wanted.data))) as replayer:
            if replayer.network is not None:
                note(f"the network is not blocked here: {replayer.network}")
            with _progress(len(names), shown=many and not wanted.as_json) as advance:
                for name in names:
                    end = await _one(wanted, around, replayer, changes, name, alone=not many)
                    ends.append(end)
                    _tell(end, wanted, network=replayer.network, alone=not many)
                    advance()
    if many and not wanted.as_json:
        _tell_sum(ends)
    if wanted.junit is not None:
        write_junit(wanted.junit, "hostler replay", [_case(end) for end in ends])
    return all(isinstance(end, Replayed) and end.is_identical for end in ends)


@asynccontextmanager
async def _around(wanted: Wanted) -> AsyncIterator[_Around]:
    if wanted.agent is None and wanted.recorded and all(_is_file(name) for name in wanted.recorded):
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
) -> Replayed | _Failed:
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
        return _Failed(run_id, agent, error.message, time.monotonic() - began)


async def _tape(around: _Around, name: str) -> Tape:
    if _is_file(name):
        return read_tape(read_file(Path(name)))
    from hostler.cli.client import segment

    text = await around.server.text(f"/v1/runs/{segment(name)}/export")
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
        folder = Folder(Path(entry if isinstance(entry, str) else entry["path"]))
        try:
            found[identity_of(folder).key] = folder
        except PluginError:
            continue  # it lies on another machine, or is gone
    return found


async def _spec(around: _Around, agent: str, version: int) -> dict[str, Any]:
    from hostler.cli.client import segment

    if (agent, version) not in around.versions:
        items = await around.server.items(f"/v1/agents/{segment(agent)}/versions", limit=10_000)
        around.versions |= {(agent, item["version"]): item["spec"] for item in items}
    if (agent, version) not in around.versions:
        known = ", ".join(str(number) for name, number in sorted(around.versions) if name == agent)
        raise NotFoundError(f"agent {agent!r} has no version {version}; its versions are: {known}")
    return around.versions[agent, version]


# -- telling --------------------------------------------------------------------------------------


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


def _tell(end: Replayed | _Failed, wanted: Wanted, *, network: str | None, alone: bool) -> None:
    if wanted.as_json:
        write_json(record(end, network=network))
        return
    from rich.text import Text

    if isinstance(end, _Failed):
        out().print(Text.assemble(("! ", "bold yellow"), f"{end.run_id}  {end.reason}"), soft_wrap=True)
        return
    if end.divergence is None:
        said = f"{end.run_id}  {end.steps} steps, {end.seconds:.2f} s"
        out().print(Text.assemble(("✓ ", "green"), "identical  " if alone else "", said), soft_wrap=True)
    else:
        out().print(
            Text.assemble(("✗ ", "bold red"), f"{end.run_id}  {end.divergence.title}"), soft_wrap=True
        )
        for line in end.divergence.lines:
            out().print(Text(f"    {line}", _style(line)), soft_wrap=True)
    for line in end.notes if alone else ():
        note(line)
    if alone:
        _tell_output(end)


def _tell_output(end: Replayed) -> None:
    """How what it says differs, where it came to say something else."""
    if end.divergence is None or not end.text or end.text == end.recorded_text:
        return
    for line in told(differences({"output": end.recorded_text}, {"output": end.text})):
        out().print(line, markup=False, soft_wrap=True)


def _style(line: str) -> str:
    stripped = line.strip()
    return {"-": "red", "+": "green", "@": "cyan"}.get(stripped[:1], "")


def _tell_sum(ends: list[Replayed | _Failed]) -> None:
    from rich.text import Text

    same = sum(isinstance(end, Replayed) and end.is_identical for end in ends)
    failed = sum(isinstance(end, _Failed) for end in ends)
    parts = [f"{same} of {len(ends)} identical"]
    if diverged := len(ends) - same - failed:
        parts.append(f"{diverged} diverged")
    if failed:
        parts.append(f"{failed} could not be replayed")
    out().print(Text(", ".join(parts), "bold green" if same == len(ends) else "bold red"))


def record(end: Replayed | _Failed, *, network: str | None) -> dict[str, Any]:
    """A replay as JSON."""
    if isinstance(end, _Failed):
        return {"run_id": end.run_id, "agent": end.agent, "status": "failed", "error": end.reason}
    divergence = end.divergence
    return {
        "run_id": end.run_id,
        "agent": end.agent,
        "status": "identical" if divergence is None else "diverged",
        "steps": end.steps,
        "divergence": None
        if divergence is None
        else {
            "step": divergence.step,
            "kind": divergence.kind,
            "title": divergence.title,
            "diff": list(divergence.lines),
        },
        "output": end.text,
        "recorded_output": end.recorded_text,
        "calls": end.asked,
        "network": "blocked" if network is None else f"open: {network}",
        "seconds": round(end.seconds, 3),
        "notes": list(end.notes),
    }


def _case(end: Replayed | _Failed) -> Case:
    if isinstance(end, _Failed):
        return Case(end.agent, end.run_id, end.seconds, "error", end.reason)
    if end.divergence is None:
        return Case(end.agent, end.run_id, end.seconds)
    text = "\n".join(end.divergence.lines)
    return Case(end.agent, end.run_id, end.seconds, "failure", end.divergence.title, text)
