"""`files`: list, read, write, edit, search and remove files of the working folder that `exec` uses.

Writing and removing are idempotent. Before an edit is made it is recorded next to the folder, with digests of
the file before and after; so a repeated call after a crash neither edits twice nor fails because its work is
done.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from hostler.domain.record import Record
from hostler.domain.tool_entries import FilesEntry, ToolEntry
from hostler.domain.tool_pins import ToolPin
from hostler.tools.builtin import file_schemas
from hostler.tools.builtin.artifact_transfer import artifacts_of, export_file, import_artifact, owner_of
from hostler.tools.builtin.edit import edit_text, write_file
from hostler.tools.builtin.search import read_lines, search
from hostler.tools.errors import ToolChangedError, ToolFailedError
from hostler.tools.port import Found, OfferedTool, ToolInvocation
from hostler.tools.workspaces.folders import WorkingFolder, WorkingFolders
from hostler_protocol.errors import HostlerError, InvalidArgumentError, NotFoundError
from hostler_protocol.grants import ToolResource
from hostler_protocol.ids import digest
from hostler_protocol.manifest import ToolEffect

MAX_ENTRIES = 1_000
"""Entries of one listing."""
_Work = Callable[["FilesTools", ToolInvocation, WorkingFolder], Awaitable[Any]]


class _Tool(Record):
    work: _Work
    offered: OfferedTool


class FilesTools:
    """The `files` tools, several per entry: a `ToolSource` and a `ToolKind`."""

    id_prefix = "files:"

    def __init__(self, folders: WorkingFolders) -> None:
        self.revision = 0
        self.folders = folders
        self._tools: dict[str, _Tool] = {}

    # -- configuration --------------------------------------------------------------------------------------

    def check(self, entries: Sequence[ToolEntry]) -> None:
        """Accept all entries: the types check everything."""

    async def configure(self, entries: Sequence[ToolEntry]) -> None:
        """Offer the tools of these entries."""
        self._tools = {
            tool.offered.pin.tool_id: tool
            for entry in entries
            if entry.files is not None
            for tool in _tools_of(entry.files)
        }
        self.revision += 1

    # -- calls ----------------------------------------------------------------------------------------------

    def offered(self, workspace_id: str) -> Mapping[str, OfferedTool]:
        """Return the same tools for every workspace; agents' policies choose among them."""
        return {tool_id: tool.offered for tool_id, tool in self._tools.items()}

    async def lookup(self, invocation: ToolInvocation) -> Found | None:
        """Raise InvalidArgumentError: calls can be repeated, so none is looked up."""
        raise InvalidArgumentError(f"{invocation.tool_name} keeps no record of its calls")

    async def call(self, invocation: ToolInvocation) -> Any:
        """Run the tool. Mistakes in a path or a file are errors of the tool."""
        tool = self._tools.get(invocation.pin.tool_id)
        if tool is None or tool.offered.pin != invocation.pin:
            raise ToolChangedError(
                f"tool {invocation.tool_name!r} is no longer the one that this run was given"
            )
        async with self.folders.use(owner_of(invocation, self.folders)) as folder:
            if invocation.confirm is not None:
                await invocation.confirm()
            try:
                return await tool.work(self, invocation, folder)
            except HostlerError as error:
                raise ToolFailedError.of(error) from error

    # -- the tools ------------------------------------------------------------------------------------------

    async def list(self, invocation: ToolInvocation, folder: WorkingFolder) -> Any:
        """List a folder."""
        path = invocation.parameters.get("path", "")
        depth = invocation.parameters.get("depth", 1)

        def work() -> Any:
            found: list[dict[str, Any]] = []
            for info in folder.tree.entries(path, depth=depth):
                if len(found) == MAX_ENTRIES:
                    return {"entries": found, "more": True}
                found.append(msgspec.structs.asdict(info))
            return {"entries": found}

        return await self.folders.in_thread(work)

    async def read(self, invocation: ToolInvocation, folder: WorkingFolder) -> Any:
        """Read lines of a text, or bytes."""
        parameters = invocation.parameters

        def work() -> Any:
            if parameters.get("encoding", "text") == "text":
                first, most = parameters.get("first_line", 1), parameters.get("lines", file_schemas.MAX_LINES)
                return read_lines(folder.tree, parameters["path"], first, most)
            offset = parameters.get("offset", 0)
            content, size = folder.tree.read(parameters["path"], offset, file_schemas.MAX_READ_BYTES)
            result = {"base64": base64.b64encode(content).decode(), "offset": offset, "size_bytes": size}
            return {**result, "more": True} if offset + len(content) < size else result

        return await self.folders.in_thread(work)

    async def write(self, invocation: ToolInvocation, folder: WorkingFolder) -> Any:
        """Write a whole file."""
        parameters = invocation.parameters
        content = _content(parameters)
        async with self.folders.turn(folder.owner, "changes"):
            is_new = await self.folders.in_thread(lambda: write_file(folder, parameters["path"], content))
        return {"path": parameters["path"], "size_bytes": len(content), "created": is_new}

    async def edit(self, invocation: ToolInvocation, folder: WorkingFolder) -> Any:
        """Replace a part of a text file."""
        async with self.folders.turn(folder.owner, "changes"):
            return await self.folders.in_thread(
                lambda: edit_text(folder, invocation.parameters, invocation.effect_key)
            )

    async def search(self, invocation: ToolInvocation, folder: WorkingFolder) -> Any:
        """Find a text in files."""
        return await self.folders.in_thread(lambda: search(folder.tree, **invocation.parameters))

    async def remove(self, invocation: ToolInvocation, folder: WorkingFolder) -> Any:
        """Remove a file, or a folder with its content."""
        parameters = invocation.parameters
        was_there = True
        async with self.folders.turn(folder.owner, "changes"):
            try:
                await self.folders.in_thread(
                    lambda: folder.tree.remove(
                        parameters["path"], recursive=parameters.get("recursive", False)
                    )
                )
            except NotFoundError:
                was_there = False
        return {"path": parameters["path"], "was_there": was_there}

    async def load(self, invocation: ToolInvocation, folder: WorkingFolder) -> Any:
        """Copy an artifact into a file."""
        parameters = invocation.parameters
        artifacts = artifacts_of(invocation)
        async with self.folders.turn(folder.owner, "changes"):
            size = await import_artifact(
                self.folders, folder, artifacts, parameters["artifact_id"], parameters["path"]
            )
        return {"path": parameters["path"], "size_bytes": size}

    async def keep(self, invocation: ToolInvocation, folder: WorkingFolder) -> Any:
        """Copy a file into an artifact."""
        artifacts = artifacts_of(invocation)
        result = await export_file(self.folders, folder, artifacts, invocation.parameters["path"])
        if "error" in result:
            raise InvalidArgumentError(result["error"])
        return result


def _content(parameters: Mapping[str, Any]) -> bytes:
    if ("text" in parameters) == ("base64" in parameters):
        raise InvalidArgumentError("either text or base64 says what the file shall hold")
    if "text" in parameters:
        return str(parameters["text"]).encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(parameters["base64"], validate=True)
    except binascii.Error as error:
        raise InvalidArgumentError(f"base64 is no base64: {error}") from None


_WORK: dict[str, tuple[_Work, ToolEffect]] = {
    "list": (FilesTools.list, "pure"),
    "read": (FilesTools.read, "pure"),
    "search": (FilesTools.search, "pure"),
    "keep": (FilesTools.keep, "pure"),
    "write": (FilesTools.write, "idempotent"),
    "edit": (FilesTools.edit, "idempotent"),
    "remove": (FilesTools.remove, "idempotent"),
    "load": (FilesTools.load, "idempotent"),
}


def _tools_of(entry: FilesEntry) -> list[_Tool]:
    tools = []
    for name, (work, effect) in _WORK.items():
        changes = effect != "pure"
        if changes and entry.read_only:
            continue
        schema = file_schemas.SCHEMAS[name]
        offered = OfferedTool(
            resource=ToolResource(
                tool_name=f"{entry.name}.{name}",
                tool_type="builtin",
                description=file_schemas.DESCRIPTIONS[name],
                operations=["detail", "call"],
                approval=entry.approval if changes else "never",
            ),
            pin=ToolPin(
                tool_id=f"{FilesTools.id_prefix}{entry.name}.{name}",
                owner="files",
                schema_digest=digest(schema),
                effect=effect,
            ),
            parameters=schema,
        )
        tools.append(_Tool(work, offered))
    return tools
