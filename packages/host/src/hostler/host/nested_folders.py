"""Folders and programs of MCP servers that lie within folders which such servers may write to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from hostler.domain.config_mistakes import Mistake
from hostler.domain.tool_entries import ToolEntry, entry_mistake

_PROGRAM = "mcp.command"
_REPLACED = {_PROGRAM: "another program"}
_REMEDY = {_PROGRAM: "keep the program elsewhere"}


def nested_folders(entries: Sequence[ToolEntry]) -> Iterator[tuple[ToolEntry, Mistake]]:
    """Yield each server with a folder or its program below one that a server may write to, and the mistake.

    Whoever writes there can put a link in the place of the lower folder, and at the next start the server
    would have what the link leads to; in the place of a program they can put another one. Reads links of the
    machine.
    """
    servers = [entry for entry in entries if entry_mistake(entry) is None and entry.mcp is not None]
    writable = [
        (entry.key, path, spelling)
        for entry in servers
        for path in (entry.mcp.write if entry.mcp is not None else ())
        for spelling in spellings(path)
    ]
    for entry in servers:
        for place, path in [*folders_of(entry), *_program_of(entry)]:
            for owner, named, above in writable:
                if any(above in one.parents for one in spellings(path)):
                    whose = "it" if owner == entry.key else owner
                    yield (
                        entry,
                        Mistake(
                            place,
                            f"{path} lies within {named}, which {whose} may write to: whoever writes there "
                            f"can replace it by {_REPLACED.get(place, 'a link to anything')}; "
                            f"{_REMEDY.get(place, 'name the outer folder alone, or another')}",
                        ),
                    )
                    break


def folders_of(entry: ToolEntry) -> Iterator[tuple[str, str]]:
    """Yield the folders that a server's sandbox gets, with their places in the entry."""
    if entry.mcp is None or entry.mcp.level == "trusted":
        return
    for field in ("read", "write"):
        for number, path in enumerate(getattr(entry.mcp, field)):
            yield f"mcp.{field}[{number}]", path
    if entry.mcp.cwd is not None:
        yield "mcp.cwd", entry.mcp.cwd


def _program_of(entry: ToolEntry) -> Iterator[tuple[str, str]]:
    """Yield the program of a server, where it is found."""
    if entry.mcp is None or not entry.mcp.command:
        return
    searched = entry.mcp.environment.get("PATH") or os.environ.get("PATH", os.defpath)
    found = shutil.which(entry.mcp.command[0], path=searched)
    if found is not None:
        yield _PROGRAM, found


def spellings(path: str) -> set[Path]:
    """Return a path as it is written and as it leads now."""
    expanded = Path(path).expanduser()
    return {Path(os.path.abspath(expanded)), Path(os.path.realpath(expanded))}  # noqa: PTH100
