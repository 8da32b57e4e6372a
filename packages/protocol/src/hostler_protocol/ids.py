"""Identities of plugins and runners, new ids, and digests of composed keys.

Ids are never joined with a separator, since a name may contain it: a key of several parts is the digest of
their canonical JSON.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import time
from collections import deque
from typing import Any

import msgspec

from hostler_protocol._base import Strict

_PART = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,99}")


class PluginIdentity(Strict):
    """Identity of a plugin: `author` and `name`, 1 to 100 letters, digits, `_`, `.` or `-` each.

    `version` names the build.
    """

    author: str
    name: str
    version: str = "0.0.0"

    def __post_init__(self) -> None:
        for part in (self.author, self.name):
            if not _PART.fullmatch(part):
                raise ValueError(
                    f"{part!r} is not a plugin author or name: 1 to 100 letters, digits, '_', '.', '-'"
                )

    @property
    def key(self) -> str:
        """The identity without its version: `author/name`."""
        return f"{self.author}/{self.name}"

    def runner_id(self, runner_name: str) -> str:
        """Return the id of one of the plugin's runners: `plugin:author/name/runner`."""
        return f"plugin:{self.author}/{self.name}/{runner_name}"


@functools.lru_cache(maxsize=1024)  # every run asks five times
def split_runner_id(runner_id: str) -> tuple[str, str]:
    """Split `plugin:author/name/runner` into (`author/name`, `runner`). Raises ValueError for other forms."""
    kind, _, rest = runner_id.partition(":")
    parts = rest.split("/")
    if kind != "plugin" or len(parts) != 3 or not all(_PART.fullmatch(p) for p in parts):
        raise ValueError(f"{runner_id!r} is not a runner id: expected plugin:author/name/runner")
    return f"{parts[0]}/{parts[1]}", parts[2]


_entropy: deque[str] = deque()
"""The random ends of the next ids, 62 bits each. Read from the kernel many at a time: every run needs several
ids, and one read costs more than the rest of an id. Taking one is atomic; a forked process starts with
none."""
_ENTROPY_IDS = 256
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_entropy.clear)


def new_id() -> str:
    """Return a new UUID (version 7), 36 lower-case characters: the time to 0.25 us and 62 random bits.

    Ids rise with time, so that new rows are neighbours in every index and share its pages.
    """
    ms, ns = divmod(time.time_ns(), 1_000_000)
    while True:
        try:
            end = _entropy.popleft()
        except IndexError:
            fresh = os.urandom(8 * _ENTROPY_IDS)
            _entropy.extend(_ending(fresh[at : at + 8]) for at in range(0, len(fresh), 8))
            continue
        start = f"{ms:012x}"
        return f"{start[:8]}-{start[8:]}-7{(ns << 12) // 1_000_000:03x}{end}"


def _ending(random: bytes) -> str:
    bits = f"{int.from_bytes(random, 'big') & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000:x}"
    return f"-{bits[:4]}-{bits[4:]}"


_canonical = msgspec.json.Encoder(order="deterministic")


def canonical_json(value: Any) -> bytes:
    """Encode `value` as JSON with sorted object keys, so that equal values have equal bytes."""
    return _canonical.encode(value)


def digest(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON of `value`, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()
