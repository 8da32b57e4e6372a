"""`exec`: run commands in a sandbox, in the working folder of their conversation or run.

A limit that a command reached (time, memory, disk, processes, output) is part of its result, as is its exit
status; neither is a failure of the call. Only what prevents its start is an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from hostler.domain.record import Record
from hostler.domain.tool_entries import ExecEntry, ToolEntry
from hostler.domain.tool_pins import ToolPin
from hostler.domain.working_folders import WorkingFolderSettings
from hostler.sandbox.launch_spec import TMP_NAME
from hostler.sandbox.port import CommandResult, Sandbox, SandboxLimits, SandboxSpec
from hostler.sandbox.usage import measure_folders
from hostler.sandbox.visible_files import certificate_variables, python_paths
from hostler.tools.builtin.artifact_transfer import artifacts_of, export_file, import_artifact, owner_of
from hostler.tools.builtin.command_results import describe_result
from hostler.tools.errors import OutcomeUnknownError, ToolChangedError
from hostler.tools.port import Found, OfferedTool, ToolInvocation
from hostler.tools.workspaces.folders import WorkingFolder, WorkingFolders
from hostler.tools.workspaces.tree_removal import FolderUsage
from hostler_protocol.errors import DeadlineExceededError, HostlerError, InvalidArgumentError
from hostler_protocol.grants import ToolResource
from hostler_protocol.ids import digest

COMMANDS_AT_ONCE = 16
"""Commands at once on one host; others wait. Each is a sandbox with its own processes and memory."""
MAX_FILES_MOVED = 32
"""Input artifacts, and output files, of one command."""
MAX_NETWORK = 50
MAX_VARIABLES = 100
SPARE_SECONDS = 1.0
"""Time between the end of a command and its run's deadline, to store its output."""
TMP_MIB = 64
TMP_FOLDER_BYTES = 4096
"""Size of the folder used as /tmp where the sandbox has none; it counts as well."""
SPARE_FILE_BYTES = 1024 * 1024
"""Allowance of a single file above the folder's limit, so that the folder's limit is reported."""
EXCESS, EXCESS_BYTES, EXCESS_FILES = 2, 64 * 1024 * 1024, 1_000
"""A folder with more than this many times its limit, and this much besides, gets no more commands: one may
exceed the limit by a file, and many may not add that up."""
NO_LIMIT = 2**62
_OWN_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR")

FindSandbox = Callable[[], Awaitable[Sandbox]]


class ExecArguments(msgspec.Struct, frozen=True):
    """Arguments of a call, checked against the schema before."""

    command: str
    language: str = "sh"
    stdin: str = ""
    folder: str = "."
    seconds: float | None = None
    files: list[dict[str, str]] = []
    keep: list[str] = []


class _Tool(Record):
    """A configured entry."""

    entry: ExecEntry
    offered: OfferedTool


class ExecTools:
    """The `exec` tools, one per entry: a `ToolSource` and a `ToolKind`."""

    id_prefix = "exec:"

    def __init__(self, folders: WorkingFolders, find_sandbox: FindSandbox) -> None:
        self.revision = 0
        self._folders = folders
        self._find_sandbox = find_sandbox
        self._sandbox: Sandbox | None = None
        self._tools: dict[str, _Tool] = {}
        self._room = asyncio.Semaphore(COMMANDS_AT_ONCE)

    # -- configuration --------------------------------------------------------------------------------------

    def check(self, entries: Sequence[ToolEntry]) -> None:
        """Raise InvalidArgumentError for an invalid entry."""
        for entry in entries:
            if entry.exec is not None:
                _check(entry.exec)

    async def configure(self, entries: Sequence[ToolEntry]) -> None:
        """Offer these entries. On a machine without a sandbox they are listed, but no run gets them."""
        wanted = [entry.exec for entry in entries if entry.exec is not None]
        if wanted and self._sandbox is None:
            self._sandbox = await self._find_sandbox()
        tools: dict[str, _Tool] = {}
        for entry in wanted:
            offered = _offer(entry, self._folders.settings, self._problem(entry))
            tools[offered.pin.tool_id] = _Tool(entry, offered)
        self._tools = tools
        self.revision += 1

    def _problem(self, entry: ExecEntry) -> str | None:
        mechanism = "none" if self._sandbox is None else self._sandbox.mechanism
        if mechanism == "none":
            return "this machine offers no sandbox; `hostler doctor` says why"
        if entry.network and mechanism != "bubblewrap":
            return (
                f"it names a network, and the sandbox here ({mechanism}) can only shut all of it out: leave "
                "network empty, or install bubblewrap; `hostler doctor` says what keeps it from working"
            )
        return None

    # -- calls ----------------------------------------------------------------------------------------------

    def offered(self, workspace_id: str) -> Mapping[str, OfferedTool]:
        """Return the same tools for every workspace; agents' policies choose among them."""
        return {tool_id: tool.offered for tool_id, tool in self._tools.items()}

    async def lookup(self, invocation: ToolInvocation) -> Found | None:
        """Raise InvalidArgumentError: the outcome of an interrupted command is unknown."""
        raise InvalidArgumentError(f"{invocation.tool_name} keeps no record of its calls")

    async def call(self, invocation: ToolInvocation) -> Any:
        """Run a command until it ends; return its result."""
        tool = self._tools.get(invocation.pin.tool_id)
        sandbox = self._sandbox
        if tool is None or sandbox is None or tool.offered.pin != invocation.pin:
            raise ToolChangedError(
                f"tool {invocation.tool_name!r} is no longer the one that this run was given"
            )
        arguments = msgspec.convert(invocation.parameters, ExecArguments)
        owner = owner_of(invocation, self._folders)
        async with self._may_begin(invocation), self._folders.use(owner) as folder:
            spec = await self._spec(invocation, tool.entry, arguments, folder)
            for file in arguments.files:
                await import_artifact(
                    self._folders, folder, artifacts_of(invocation), file["artifact_id"], file["path"]
                )
            if invocation.confirm is not None:
                await invocation.confirm()
            try:
                command_result = await sandbox.run(_in_time(spec, invocation), stdin=arguments.stdin.encode())
            except OSError as error:
                raise OutcomeUnknownError(
                    f"{invocation.tool_name} lost its command: {error.strerror or error}"
                ) from error
            return await self._result(invocation, arguments, folder, spec.limits, command_result)

    @contextlib.asynccontextmanager
    async def _may_begin(self, invocation: ToolInvocation) -> AsyncIterator[None]:
        """Wait until the deadline for the folder and for one of the slots for commands."""
        owner = owner_of(invocation, self._folders)
        async with contextlib.AsyncExitStack() as held:
            try:
                async with asyncio.timeout(_rest(invocation)):
                    await held.enter_async_context(self._folders.turn(owner))
                    await held.enter_async_context(self._room)
            except TimeoutError:
                raise DeadlineExceededError(
                    "the deadline passed while another command worked in the folder; nothing was started"
                ) from None
            yield

    async def _spec(
        self, invocation: ToolInvocation, entry: ExecEntry, arguments: ExecArguments, folder: WorkingFolder
    ) -> SandboxSpec:
        tree, most = folder.tree, folder.most
        await self._tidy(folder)
        free = await self._folders.in_thread(folder.free_bytes)
        held = await self._folders.in_thread(lambda: measure_folders([str(folder.path)], NO_LIMIT, NO_LIMIT))
        if held[0] > EXCESS * most.size_bytes + EXCESS_BYTES or held[1] > EXCESS * most.files + EXCESS_FILES:
            raise folder.full(FolderUsage(*held))
        where = await self._folders.in_thread(lambda: tree.info(arguments.folder))
        if where.type != "folder":
            raise InvalidArgumentError(f"folder {arguments.folder!r:.200} is a {where.type}, not a folder")
        python = _python()
        certificates = certificate_variables(os.environ) if entry.network else {}
        return SandboxSpec(
            name=f"exec {folder.owner.key[:32]}",
            argv=_argv(arguments, python),
            cwd=folder.path / where.path,
            environment={**certificates, **_environment(entry, folder.path, python)},
            read_only=[*python_paths(str(python)), *map(Path, certificates.values())],
            writable=[folder.path],
            network=entry.network,
            unix_sockets=True,
            own_folders=True,
            limits=_limits(entry, arguments, most, held, free),
        )

    async def _result(
        self,
        invocation: ToolInvocation,
        arguments: ExecArguments,
        folder: WorkingFolder,
        limits: SandboxLimits,
        command_result: CommandResult,
    ) -> dict[str, Any]:
        trimmed = await self._tidy(folder)
        used = await self._folders.in_thread(folder.tree.measure)
        result = await describe_result(command_result, limits, folder.most, used, invocation.artifacts)
        if trimmed:
            result["removed"] = "folders nested too deep to be named were removed"
        if arguments.keep:
            artifacts = artifacts_of(invocation)
            result["files"] = [
                await export_file(self._folders, folder, artifacts, path) for path in arguments.keep
            ]
        return result

    async def _tidy(self, folder: WorkingFolder) -> int:
        """Remove remains of a command that are of no use; return how many folders were nested too deep."""
        if self._sandbox is not None and self._sandbox.mechanism == "landlock":
            with contextlib.suppress(HostlerError):  # the sandbox's /tmp, which ends with the command
                await self._folders.in_thread(lambda: folder.tree.remove(TMP_NAME, recursive=True))
        return await self._folders.in_thread(folder.tree.trim)


def _check(entry: ExecEntry) -> None:
    where = f"tools: exec {entry.name!r}"
    if len(entry.network) > MAX_NETWORK or len(entry.environment) > MAX_VARIABLES:
        field = "network" if len(entry.network) > MAX_NETWORK else "environment"
        text = f"{where}: at most {MAX_NETWORK} hosts and {MAX_VARIABLES} variables"
        raise InvalidArgumentError(text, field=field)
    for address in entry.network:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            text = f"{where}: network has {address!r:.100}; expected name:port"
            raise InvalidArgumentError(text, field="network")
    for name, value in entry.environment.items():
        if not name.isidentifier() or not name.isascii() or "\x00" in value:
            raise InvalidArgumentError(
                f"{where}: environment has {name!r:.100}; a name is made of letters, digits and _, "
                "and a value has no NUL",
                field="environment",
            )
        if name in _OWN_VARIABLES:
            text = f"{where}: environment has {name}, which the host sets itself"
            raise InvalidArgumentError(text, field="environment")


def _offer(entry: ExecEntry, folders: WorkingFolderSettings, problem: str | None) -> OfferedTool:
    parameters = _schema(entry)
    description = entry.description or _describe(entry, folders)
    return OfferedTool(
        resource=ToolResource(
            tool_name=entry.name,
            tool_type="builtin",
            description=description,
            operations=["detail", "call"],
            approval=entry.approval,
        ),
        pin=ToolPin(
            tool_id=f"{ExecTools.id_prefix}{entry.name}",
            owner="exec",
            # network access is part of what was granted and approved
            schema_digest=digest([parameters, sorted(entry.network)]),
        ),
        parameters=parameters,
        problem=problem,
    )


def _describe(entry: ExecEntry, folders: WorkingFolderSettings) -> str:
    network = f"can reach {', '.join(entry.network)}" if entry.network else "has no network"
    lasts = (
        f"last for this conversation (until unused for {folders.keep_days:g} days)"
        if folders.per == "conversation"
        else "last until this run ends"
    )
    return (
        "Run a command in a sandbox and give back how it ended and what it wrote. It starts in a working "
        f"folder whose files {lasts}; nothing else can be changed, and processes end with the command. "
        f"It {network} and may take {entry.seconds:g} s, {entry.memory_mib} MiB of memory, "
        f"{entry.processes} processes, {entry.output_kib} KiB of output and {folders.disk_mib} MiB of files."
    )


def _schema(entry: ExecEntry) -> dict[str, Any]:
    path = {"type": "string", "minLength": 1, "maxLength": 2_000}
    return {
        "type": "object",
        "properties": {
            "command": {"type": "string", "minLength": 1, "description": "What to run, in `language`."},
            "language": {"enum": sorted(_languages()), "default": "sh"},
            "stdin": {"type": "string", "description": "What it reads from its standard input."},
            "folder": {**path, "description": "Where it starts, relative to the working folder."},
            "seconds": {
                "type": "number",
                "exclusiveMinimum": 0,
                "maximum": entry.seconds,
                "description": "The longest that it may take.",
            },
            "files": {
                "type": "array",
                "maxItems": MAX_FILES_MOVED,
                "description": "Artifacts to put into the working folder first.",
                "items": {
                    "type": "object",
                    "properties": {"artifact_id": {"type": "string"}, "path": path},
                    "required": ["artifact_id", "path"],
                    "additionalProperties": False,
                },
            },
            "keep": {
                "type": "array",
                "maxItems": MAX_FILES_MOVED,
                "description": "Files of the working folder that become artifacts afterwards.",
                "items": path,
            },
        },
        "required": ["command"],
        "additionalProperties": False,
    }


def _languages() -> dict[str, tuple[str, ...]]:
    """Return the commands that run each language."""
    found: dict[str, tuple[str, ...]] = {"sh": ("/bin/sh", "-c"), "python": (str(_python()), "-c")}
    if Path("/bin/bash").exists():
        found["bash"] = ("/bin/bash", "-c")
    return found


def _python() -> Path:
    """Return the interpreter that the host's environment is based on: it has no packages installed."""
    return Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")


def _argv(arguments: ExecArguments, python: Path) -> list[str]:
    if "\x00" in arguments.command:
        raise InvalidArgumentError("command holds a NUL character")
    return [*_languages()[arguments.language], arguments.command]


def _environment(entry: ExecEntry, home: Path, python: Path) -> dict[str, str]:
    path = ":".join(dict.fromkeys([str(python.parent), "/usr/local/bin", "/usr/bin", "/bin"]))
    return {**entry.environment, "PATH": path, "HOME": str(home), "LANG": "C.UTF-8"}


def _limits(
    entry: ExecEntry, arguments: ExecArguments, most: FolderUsage, held: tuple[int, int], free: int
) -> SandboxLimits:
    """Return the limits. `held` is the current usage in bytes and entries, as the sandbox measures it.

    A folder above its limit can still be cleaned up: commands remove files in it, and write none.
    """
    size, count = held
    is_over = size > most.size_bytes or count > most.files
    return SandboxLimits(
        memory_bytes=entry.memory_bytes,
        processes=entry.processes,
        file_bytes=0 if is_over else most.size_bytes + SPARE_FILE_BYTES,
        disk_bytes=min(max(most.size_bytes, size + TMP_FOLDER_BYTES), size + free),
        files=max(most.files, count + 1),
        tmp_bytes=min(most.size_bytes, TMP_MIB * 1024 * 1024),
        cpus=entry.cpus,
        seconds=min(entry.seconds, arguments.seconds or entry.seconds),
        output_bytes=entry.output_bytes,
    )


def _rest(invocation: ToolInvocation) -> float | None:
    deadline = invocation.deadline
    return None if deadline is None else max(0.0, deadline - time.time() - SPARE_SECONDS)


def _in_time(spec: SandboxSpec, invocation: ToolInvocation) -> SandboxSpec:
    """Return the spec, limited to the run's deadline. Raises DeadlineExceededError if no time is left."""
    rest, seconds = _rest(invocation), spec.limits.seconds
    if rest is None or (seconds is not None and rest >= seconds):
        return spec
    if rest <= 0:
        raise DeadlineExceededError("the deadline passed before the command was started")
    return replace(spec, limits=replace(spec.limits, seconds=rest))
