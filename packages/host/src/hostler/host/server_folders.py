"""Folders that no sandboxed MCP server gets from its entry: the host's own, and the machine's."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hostler.domain.config_mistakes import Mistake
from hostler.domain.tool_entries import ToolEntry, entry_mistake
from hostler.host.config import PluginEntry
from hostler.host.nested_folders import folders_of, nested_folders, spellings
from hostler.storage.stores.registered_files import SYSTEM_FOLDERS

OF_THE_KERNEL = ("dev", "proc", "sys")
"""Not to read either: they show other processes and devices, and would cover what the sandbox has there."""


async def find_misused(
    entries: Sequence[ToolEntry],
    plugins: Mapping[str, PluginEntry],
    data_dir: Path | None,
    *,
    skills: Sequence[str] = (),
    config_file: Path | None = None,
) -> list[tuple[ToolEntry, Mistake]]:
    """Return the servers with folders that they must not have, and why; from a thread if there are any.

    `plugins`: the entries by identity. `data_dir`: the host's; None if it has none. `skills`: the folders of
    skills, `config_file`: the file that the host reads at its start, if there is one.
    """
    if not any(entry.mcp is not None and entry.mcp.command is not None for entry in entries):
        return []
    code = {f"the code of the plugin {key}": Path(entry.path) for key, entry in plugins.items()}
    followed = [("a folder of skills", Path(path)) for path in skills]
    if config_file is not None:
        followed.append(("the host's configuration file", config_file))

    def look() -> list[tuple[ToolEntry, Mistake]]:
        return [*misused_folders(entries, code, data_dir, followed), *nested_folders(entries)]

    return await asyncio.to_thread(look)


def misused_folders(
    entries: Sequence[ToolEntry],
    code: Mapping[str, Path],
    data_dir: Path | None,
    followed: Sequence[tuple[str, Path]] = (),
) -> Iterator[tuple[ToolEntry, Mistake]]:
    """Yield each sandboxed server with such a folder, and the mistake. Reads links of the machine.

    `code`: what is executed outside of a server's sandbox, besides the host itself; by its description.
    `followed`: what the host and agents go by.
    """
    executed = [*code.items(), ("the host's code", Path(__file__).parents[1])]
    executed += [("the host's Python", Path(prefix)) for prefix in {sys.prefix, sys.base_prefix}]
    for entry in entries:
        if entry_mistake(entry) is None:
            for place, path in folders_of(entry):
                why = _why_not_at_all(path, data_dir)
                if why is None and place.startswith("mcp.write"):
                    why = _why_not_to_write(path, executed, followed)
                if why is not None:
                    yield entry, Mistake(place, why)


def _why_not_at_all(path: str, data_dir: Path | None) -> str | None:
    for folder in spellings(path):
        if len(folder.parts) == 1 or folder.parts[1] in OF_THE_KERNEL:
            return f"{path} is the system's: name a folder of your own files"
        if data_dir is not None and _overlap(folder, data_dir):
            return f"{path} holds the host's data or is part of it ({data_dir}): name another folder"
    return None


def _why_not_to_write(
    path: str, executed: Sequence[tuple[str, Path]], followed: Sequence[tuple[str, Path]]
) -> str | None:
    for folder in spellings(path):
        if folder.parts[1] in SYSTEM_FOLDERS:
            return f"{path} is the system's: name a folder of your own files"
        if any(home.is_relative_to(folder) for home in spellings("~")):
            return f"{path} holds your home, and what your shell executes: name a folder inside it"
        for what, own in executed:
            if _overlap(folder, own):
                return (
                    f"{path} holds {what} or is part of it ({own}), which is executed outside of the "
                    "server's sandbox: name another folder"
                )
        for what, own in followed:
            if _overlap(folder, own):
                return (
                    f"{path} holds {what} or is part of it ({own}), which the host or its agents go by: name "
                    "another folder"
                )
    return None


def _overlap(folder: Path, own: Path) -> bool:
    return any(one.is_relative_to(folder) or folder.is_relative_to(one) for one in spellings(str(own)))
