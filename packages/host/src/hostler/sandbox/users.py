"""Users of sandboxes: each sandbox name has a user id that no other name has.

Only for hosts that run as root. An id is drawn at random when a name is first used, so that nobody can choose
a name to get the user of another one, and is kept in a file, so that it is the same after a restart.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec

from hostler_protocol.errors import UnavailableError

UNUSED_IDS = range(1_900_000_000, 2_147_000_000)
"""Normally unused; below 2^31, where some programs take an id for negative."""
FEW_IDS = range(20_000, 60_000)
"""For containers that have no others: above most accounts, below what systemd gives to services."""
MAX_NAMES = 10_000
"""Kept names; beyond that, the one that was not used for longest gives up its id."""
MAX_FILE_BYTES = 8 << 20
TRIES = 1000
"""Draws of an id; only where nearly all ids are taken does it need more than a few."""
DAY_SECONDS = 24 * 3600


class _Kept(msgspec.Struct, array_like=True):
    uid: int
    day: int
    """Of the last use, counted from 1970."""


class SandboxUsers:
    """The ids by name, kept in the file `path`; without it, as long as this object."""

    def __init__(self, path: Path | None = None, *, most: int = MAX_NAMES) -> None:
        self._path = path
        self._most = most
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] | None = None
        self._running: Counter[str] = Counter()

    def lend(self, name: str) -> int:
        """Return the user id of a name, and keep it until it is given back. Blocks.

        Raises UnavailableError if the file cannot be read or written, or no id is free.
        """
        with self._lock:
            kept = self._load()
            today = int(time.time() // DAY_SECONDS)
            found = kept.get(name)
            if found is None or not _is_mapped(found.uid):
                found = _Kept(_draw({one.uid for one in kept.values()}), -1)
            if found.day != today:
                changed = {**kept, name: _Kept(found.uid, today)}
                self._forget_oldest(changed, name)
                self._save(changed)
                self._kept = changed
            self._running[name] += 1
            return found.uid

    def give_back(self, name: str) -> None:
        """Note that a sandbox of this name is gone."""
        with self._lock:
            self._running[name] -= 1
            if self._running[name] <= 0:
                del self._running[name]

    def _forget_oldest(self, kept: dict[str, _Kept], wanted: str) -> None:
        idle = [name for name in kept if name not in self._running and name != wanted]
        idle.sort(key=lambda name: kept[name].day)
        for name in idle[: max(0, len(kept) - self._most)]:
            del kept[name]

    def _load(self) -> Mapping[str, _Kept]:
        if self._kept is None:
            self._kept = {} if self._path is None else _read(self._path)
        return self._kept

    def _save(self, kept: Mapping[str, _Kept]) -> None:
        if self._path is None:
            return
        new = self._path.with_name(f"{self._path.name}.new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                new.unlink()
            with open(new, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                file.write(msgspec.json.encode(kept))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except OSError as error:
            raise UnavailableError(f"the users of sandboxes cannot be kept: {error}") from error


def _read(path: Path) -> dict[str, _Kept]:
    try:
        with path.open("rb") as file:
            kept = msgspec.json.decode(file.read(MAX_FILE_BYTES), type=dict[str, _Kept])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise UnavailableError(f"{path} cannot be read: {error}; {_DELETE}") from error
    uids = [one.uid for one in kept.values()]
    if len(set(uids)) != len(uids) or not all(uid in UNUSED_IDS or uid in FEW_IDS for uid in uids):
        raise UnavailableError(f"{path} has ids that are no users of sandboxes, or one twice; {_DELETE}")
    return kept


_DELETE = "delete it, and every sandbox gets a new user at its next start"


def _draw(taken: set[int]) -> int:
    """Return an id that is free and that this machine, or this container, has."""
    for ids in (UNUSED_IDS, FEW_IDS):
        if not (_is_mapped(ids[0]) or _is_mapped(ids[-1])):
            continue
        for _ in range(TRIES):
            uid = ids[secrets.randbelow(len(ids))]
            if uid not in taken and _is_mapped(uid) and not _is_account(uid):
                return uid
    raise UnavailableError(
        "no user id is free for another sandbox: a container has to map ids from "
        f"{FEW_IDS[0]} to {FEW_IDS[-1]}, or run the host as an ordinary user"
    )


def _is_mapped(uid: int) -> bool:
    ranges = (line.split() for line in Path("/proc/self/uid_map").read_text().splitlines())
    return any(int(first) <= uid < int(first) + int(count) for first, _, count in ranges)


def _is_account(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


OF_THIS_PROCESS = SandboxUsers()
"""For sandboxes outside of a host, such as those of `hostler doctor`."""
