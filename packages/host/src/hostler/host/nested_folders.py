"""Folders of MCP servers that lie within folders which such servers may write to."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from hostler.domain.config_mistakes import Mistake
from hostler.domain.tool_entries import ToolEntry, entry_mistake


async def find_nested(entries: Sequence[ToolEntry]) -> list[tuple[ToolEntry, Mistake]]:
    """Return what `nested_folders` yields, from a thread if there is anything to look at."""
    if not any(entry.mcp is not None and entry.mcp.write for entry in entries):
        return []
    return await asyncio.to_thread(lambda: list(nested_folders(entries)))


def nested_folders(entries: Sequence[ToolEntry]) -> Iterator[tuple[ToolEntry, Mistake]]:
    """Yield each sandboxed server with a folder below one that a server may write to, and the mistake.

    Whoever writes there can put a link in the place of the lower folder, and at the next start the server
    would have what the link leads to. Reads links of the machine.
    """
    servers = [entry for entry in entries if entry_mistake(entry) is None and entry.mcp is not None]
    writable = [
        (entry.key, path, spelling)
        for entry in servers
        for path in (entry.mcp.write if entry.mcp is not None else ())
        for spelling in _spellings(path)
    ]
    for entry in servers:
        for place, path in _folders(entry):
            for owner, named, above in writable:
                if any(above in one.parents for one in _spellings(path)):
                    whose = "it" if owner == entry.key else owner
                    yield (
                        entry,
                        Mistake(
                            place,
                            f"{path} lies within {named}, which {whose} may write to: whoever writes there "
                            "can replace it by a link to anything; name the outer folder alone, or another",
                        ),
                    )
                    break


def _folders(entry: ToolEntry) -> Iterator[tuple[str, str]]:
    """Yield the folders that a server's sandbox gets, with their places in the entry."""
    if entry.mcp is None or entry.mcp.level == "trusted":
        return
    for field in ("read", "write"):
        for number, path in enumerate(getattr(entry.mcp, field)):
            yield f"mcp.{field}[{number}]", path
    if entry.mcp.cwd is not None:
        yield "mcp.cwd", entry.mcp.cwd


def _spellings(path: str) -> set[Path]:
    """Return a path as it is written and as it leads now."""
    expanded = Path(path).expanduser()
    return {Path(os.path.abspath(expanded)), Path(os.path.realpath(expanded))}  # noqa: PTH100
