"""The configuration of tools: one entry for each server, document or built-in tool.

Each kind has its own struct and its own key in `ToolEntry`; an entry names exactly one of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol

import msgspec

from hostler.domain.config_mistakes import Mistake
from hostler.domain.mcp_entry import McpEntry, Processors
from hostler.domain.openapi_entry import OpenApiEntry
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.limits import KIB, MAX_TOOL_RESULT_BYTES, MIB

MAX_TOOL_ENTRIES = 200
"""Entries of one configuration."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")

Approval = Literal["never", "required"]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=24 * 3600)]
Mebibytes = Annotated[int, msgspec.Meta(ge=1, le=1_048_576)]


class ExecEntry(Strict):
    """`exec`: a tool that runs commands in a sandbox.

    `network`: endpoints that commands may reach (`name:port`), none by default. `environment`: variables in
    addition to PATH, HOME and LANG; put no secrets there, since commands can print them.
    """

    name: str = "exec"
    description: str | None = None
    approval: Approval = "never"
    seconds: Seconds = 60.0
    """Time limit of one command; a call can request less."""
    output_kib: Annotated[int, msgspec.Meta(ge=1, le=65_536)] = MAX_TOOL_RESULT_BYTES // KIB
    """Output limit of a command, stdout and stderr together."""
    memory_mib: Mebibytes = 512
    processes: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 64
    cpus: Processors | None = None
    """Processor time, in processors: 1.5 is one and a half of them; by default a fair share of all."""
    network: list[str] = []
    environment: dict[str, str] = {}

    @property
    def output_bytes(self) -> int:
        """`output_kib` in bytes."""
        return self.output_kib * KIB

    @property
    def memory_bytes(self) -> int:
        """`memory_mib` in bytes."""
        return self.memory_mib * MIB


class FilesEntry(Strict):
    """`files`: tools that list, read, write, edit and search the files of the working folder.

    `approval` applies to the tools that change something. `read_only`: these are not offered.
    """

    name: str = "files"
    approval: Approval = "never"
    read_only: bool = False


class FetchEntry(Strict):
    """`fetch`: a tool that reads pages and files from the web.

    `only`: the only hosts (`example.org`, `*.example.org`) that may be read; `deny`: hosts that may not.
    `network`: hosts and networks that may be read although they are not public or use other ports than 80
    and 443.
    """

    name: str = "fetch"
    description: str | None = None
    approval: Literal["never", "required"] = "never"
    only: list[str] = []
    deny: list[str] = []
    network: list[str] = []
    seconds: Annotated[float, msgspec.Meta(gt=0, le=600)] = 30.0
    """Time limit from the name look-up to the last byte, all redirects included."""
    page_kib: Annotated[int, msgspec.Meta(ge=1, le=8_192)] = 1_024
    """Size limit of a text."""
    file_kib: Annotated[int, msgspec.Meta(ge=1, le=262_144)] = 20_480
    """Size limit of any other content, which becomes an artifact."""
    redirects: Annotated[int, msgspec.Meta(ge=0, le=20)] = 5

    @property
    def page_bytes(self) -> int:
        """`page_kib` in bytes."""
        return self.page_kib * KIB

    @property
    def file_bytes(self) -> int:
        """`file_kib` in bytes."""
        return self.file_kib * KIB


READING_FILES = ("list", "read", "search", "keep")
CHANGING_FILES = ("write", "edit", "remove", "load")
"""The tools of a `files` entry; a read-only entry has only READING_FILES."""


class ToolEntry(Strict, omit_defaults=True):
    """One entry of `tools`."""

    exec: ExecEntry | None = None
    files: FilesEntry | None = None
    mcp: McpEntry | None = None
    openapi: OpenApiEntry | None = None
    fetch: FetchEntry | None = None

    @property
    def kind(self) -> str:
        """The entry's one key, such as `exec`, `files` or `mcp`."""
        return self._named[0]

    @property
    def name(self) -> str:
        """The entry's name, unique within its kind."""
        name: str = self._named[1].name
        return name

    @property
    def key(self) -> str:
        """The key for storage, unique among all entries."""
        return f"{self.kind}:{self.name}"

    @property
    def _named(self) -> tuple[str, Any]:
        kind = kinds_of(self)[0]
        return kind, getattr(self, kind)


class ToolKind(Protocol):
    """A service that makes tools from the entries of one kind."""

    def check(self, entries: Sequence[ToolEntry]) -> None:
        """Check the entries. InvalidArgumentError names the entry and what is expected."""
        ...

    async def configure(self, entries: Sequence[ToolEntry]) -> None:
        """Offer exactly the tools of these entries; entries of other kinds are ignored."""
        ...


def kinds_of(entry: ToolEntry) -> list[str]:
    """Return the kinds that an entry names; exactly one in a checked entry."""
    return [name for name in entry.__struct_fields__ if getattr(entry, name) is not None]


def tool_names(entry: ToolEntry) -> list[str] | None:
    """Return the names of an entry's tools; None: only the server or the document knows them."""
    if entry.exec is not None:
        return [entry.exec.name]
    if entry.fetch is not None:
        return [entry.fetch.name]
    if entry.files is not None:
        names = READING_FILES if entry.files.read_only else (*READING_FILES, *CHANGING_FILES)
        return [f"{entry.files.name}.{name}" for name in names]
    return None


def entry_mistake(entry: ToolEntry) -> Mistake | None:
    """Return the mistake in an entry (not exactly one kind, invalid name), or None."""
    kinds = kinds_of(entry)
    if len(kinds) != 1:
        allowed = ", ".join(ToolEntry.__struct_fields__)
        named = " and ".join(kinds) or "nothing"
        return Mistake("", f"this names {named}; expected exactly one of {allowed}")
    if not _NAME.fullmatch(entry.name):
        text = f"{entry.name!r:.80} is no name; expected a letter, then up to 31 letters, digits, _ or -"
        return Mistake(f"{entry.kind}.name", text)
    return None


def entries_by_key(entries: Sequence[ToolEntry]) -> Mapping[str, ToolEntry]:
    """Return the entries by key. InvalidArgumentError for an invalid entry or a name used twice."""
    if len(entries) > MAX_TOOL_ENTRIES:
        raise InvalidArgumentError(f"tools: {len(entries)} entries; at most {MAX_TOOL_ENTRIES}")
    found: dict[str, ToolEntry] = {}
    for number, entry in enumerate(entries):
        if (mistake := entry_mistake(entry)) is not None:
            raise InvalidArgumentError(mistake.within(f"tools[{number}]").sentence)
        if entry.key in found:
            raise InvalidArgumentError(
                f"tools: {entry.kind} {entry.name!r} appears twice: give one of them another name"
            )
        found[entry.key] = entry
    return found
