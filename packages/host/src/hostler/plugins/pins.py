"""The pin of a plugin: its folder is started only as the operator knows it.

The files of a folder are read without following links. Bytecode is left out, and is not used either: a
process of a plugin whose files are pinned gets settings by which Python neither reads nor writes it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import stat
import sys
from pathlib import Path
from typing import Protocol

from hostler.domain.plugin_pins import PluginFacts
from hostler.plugins.source import Folder, launch_of
from hostler_protocol.errors import PluginStartError
from hostler_protocol.limits import MIB

MAX_PINNED_FILES = 20_000
MAX_PINNED_BYTES = 512 * MIB
"""Larger folders take seconds to read at each start: keep data and environments elsewhere."""
BYTECODE = "__pycache__"
_CHUNK_BYTES = MIB


class PluginPins(Protocol):
    """Knows which folders the operator confirmed: `host.plugin_pins.StoredPins` is one."""

    async def admit(self, plugin_key: str, facts: PluginFacts) -> None:
        """Record a folder that is new. PluginStartError (lasting) if it is not as it was confirmed."""

    async def judge(self, plugin_key: str, facts: PluginFacts) -> bool:
        """Return whether its lock holds for a folder, which is not recorded. PluginStartError as `admit`."""

    async def lock(self, plugin_key: str) -> str | None:
        """Return what its requirements were resolved to on such a machine, or None."""

    async def keep_lock(self, plugin_key: str, plan: str) -> str:
        """Keep what they were resolved to; return what holds, which another host may have decided."""


class UnrecordedPins:
    """The pins for a start that only asks what a plugin offers: its entry is not configured yet.

    Nothing is recorded, and a folder that is not as it was confirmed is not started.
    """

    def __init__(self, pins: PluginPins) -> None:
        self._pins = pins
        self._locked: set[str] = set()

    async def admit(self, plugin_key: str, facts: PluginFacts) -> None:
        """See `PluginPins`."""
        self._locked.discard(plugin_key)
        if await self._pins.judge(plugin_key, facts):
            self._locked.add(plugin_key)

    async def judge(self, plugin_key: str, facts: PluginFacts) -> bool:
        """See `PluginPins`."""
        return await self._pins.judge(plugin_key, facts)

    async def lock(self, plugin_key: str) -> str | None:
        """See `PluginPins`."""
        return await self._pins.lock(plugin_key) if plugin_key in self._locked else None

    async def keep_lock(self, plugin_key: str, plan: str) -> str:
        """Return the plan, which is kept once the entry is applied."""
        return plan


def machine_target() -> str:
    """Return the kind of this machine: the same wheels fit where this is the same."""
    libc = "-".join(platform.libc_ver()) or "none"
    return f"{sys.implementation.cache_tag}-{platform.system()}-{platform.machine()}-{libc}".lower()


def facts_of(source: Folder) -> PluginFacts:
    """Read a folder as it is now. Blocks. Raises PluginStartError."""
    launch = launch_of(source)
    files = digest_of_files(launch.cwd) if source.pin == "files" else None
    return PluginFacts(str(source.path), launch.identity.version, launch.requires, files)


async def check_unchanged(source: Folder, facts: PluginFacts) -> None:
    """Raise PluginStartError if the folder changed since these facts were read."""
    if await asyncio.to_thread(facts_of, source) != facts:
        raise PluginStartError("its files changed while it started: it is tried again", lasting=False)


def digest_of_files(folder: Path) -> str:
    """Return a digest of the names and contents of all files below a folder. Blocks.

    Raises PluginStartError for links, files that are none, and folders that are too large.
    """
    digest, count, size = hashlib.sha256(), 0, 0
    pending = [""]
    while pending:
        below = pending.pop()
        try:
            with os.scandir(folder / below) as entries:
                found = sorted(entries, key=lambda entry: os.fsencode(entry.name))
        except OSError as error:
            raise PluginStartError(f"its files cannot be read: {error}", lasting=True) from error
        for entry in found:
            name = f"{below}/{entry.name}" if below else entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name != BYTECODE:
                    pending.append(name)
                continue
            count += 1
            content, length = _file(Path(entry.path), name, MAX_PINNED_BYTES - size)
            size += length
            if count > MAX_PINNED_FILES:
                raise _too_large(folder)
            digest.update(os.fsencode(name) + b"\0" + content + b"\0")
    return digest.hexdigest()


def _file(path: Path, name: str, room: int) -> tuple[bytes, int]:
    """Return the digest and the size of one file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        text = "a link or no file, which cannot be pinned" if path.is_symlink() else str(error)
        raise PluginStartError(f"{name}: {text}", lasting=True) from error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise PluginStartError(f"{name}: no regular file, which cannot be pinned", lasting=True)
        digest, size = hashlib.sha256(b"x" if status.st_mode & 0o111 else b"-"), 0
        while chunk := file.read(_CHUNK_BYTES):
            size += len(chunk)
            if size > room:
                raise _too_large(path.parent)
            digest.update(chunk)
    return digest.digest(), size


def _too_large(folder: Path) -> PluginStartError:
    text = f"over {MAX_PINNED_FILES:,} files or {MAX_PINNED_BYTES // MIB:,} MiB are too much to pin"
    return PluginStartError(f"{folder}: {text}; keep data and environments in another folder", lasting=True)
