"""Anchors: signed ends of the hash chains, written to places outside the host.

Whoever can write to the database can cut off the end of a chain, or rewrite a chain from some row on. An
anchor that is out of his reach shows that: the chain no longer holds a row that the anchor names.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from hostler.domain.config_mistakes import Mistake
from hostler.domain.secret_refs import STORED, is_reference, reference_mistake
from hostler_protocol._base import Lenient, Strict
from hostler_protocol.ids import canonical_json

EVENT = "audit.anchored"
"""The event of an anchor for a webhook."""
MIN_KEY_CHARS = 32
MAX_EARLIER_KEYS = 16
MAX_CHAINS = 25
"""Ends in one anchor: with names of usual length about 5 KiB, and syslog servers take 8 KiB."""
SIGNATURE_VERSION = "v1"
_SYSLOG = re.compile(r"(udp|tcp)://[^/]+")


class AuditAnchors(Strict):
    """Where the ends of the hash chains are written, signed, and how often.

    `key`: a reference (`env:NAME`, `file:PATH`) to a secret of at least 32 characters, which signs them.
    `earlier_keys`: those that it replaced, for the verification of what they signed.
    `file`: the absolute path of a file that they are appended to, one JSON object a line. `syslog`:
    `udp://HOST:PORT`, `tcp://HOST:PORT` or `unix:/dev/log`. `webhook`: the name of a webhook that gets them.
    """

    key: str
    earlier_keys: list[str] = []
    every_minutes: Annotated[float, msgspec.Meta(ge=0.01, le=1440)] = 5.0
    file: str | None = None
    syslog: str | None = None
    webhook: str | None = None

    @property
    def every_seconds(self) -> float:
        """`every_minutes` in seconds."""
        return self.every_minutes * 60


class ChainEnd(Lenient):
    """The end of a chain at some time, in the form that `hostler audit verify --json` prints."""

    workspace: str
    chain: Literal["events", "audit"]
    seq: int
    head: str


class Anchor(Lenient):
    """The ends of chains that grew since the anchor before it; none if none did.

    `at`: UTC epoch seconds. `installation`: the id of the database. `host`: the id of the host.
    """

    at: float
    installation: str
    host: str
    chains: list[ChainEnd]
    signature: str = ""


class NoAnchorError(ValueError):
    """A line holds no whole anchor."""


_anchors = msgspec.json.Decoder(Anchor)


def anchor_mistakes(entry: AuditAnchors) -> Iterator[Mistake]:
    """Yield the mistakes of an entry that can be seen without the machine."""
    places = {"key": entry.key} | {f"earlier_keys[{at}]": key for at, key in enumerate(entry.earlier_keys)}
    for place, key in places.items():
        if not is_reference(key) or key.startswith(STORED):
            # it may be the secret itself; and who can write the database must not find the key in it
            yield Mistake(place, "expected a reference: env:NAME or file:PATH")
        elif (wrong := reference_mistake(key)) is not None:
            yield Mistake(place, wrong)
    if len(entry.earlier_keys) > MAX_EARLIER_KEYS:
        yield Mistake("earlier_keys", f"there are {len(entry.earlier_keys)}; at most {MAX_EARLIER_KEYS}")
    if entry.file is None and entry.syslog is None and entry.webhook is None:
        yield Mistake("", "expected at least one of file, syslog and webhook")
    if entry.file is not None and not PurePath(entry.file).is_absolute():
        yield Mistake("file", "expected an absolute path")
    if entry.syslog is not None:
        try:
            syslog_address(entry.syslog)
        except ValueError:
            yield Mistake("syslog", "expected udp://HOST:PORT, tcp://HOST:PORT or unix:PATH")


def syslog_address(text: str) -> tuple[Literal["udp", "tcp"], str, int] | str:
    """Return the kind, host and port of a syslog server, or the path of its socket. ValueError."""
    if text.startswith("unix:/"):
        return text.removeprefix("unix:")
    parts = urlsplit(text)
    if _SYSLOG.fullmatch(text) is None or not parts.hostname or not parts.port or "@" in parts.netloc:
        raise ValueError(text)
    return "udp" if parts.scheme == "udp" else "tcp", parts.hostname, parts.port


def signed(anchor: Anchor, key: str) -> bytes:
    """Return an anchor as one line of JSON, signed with HMAC-SHA256."""
    return canonical_json(msgspec.to_builtins(msgspec.structs.replace(anchor, signature=_sign(anchor, key))))


def read_anchor(line: bytes, keys: Sequence[str]) -> Anchor:
    """Read a line with a signed anchor; what stands before it, like the header of a syslog, is ignored.

    NoAnchorError if there is none; ValueError if none of the keys signed it.
    """
    start = line.find(b"{")
    if start < 0:
        raise NoAnchorError("there is no anchor in it")
    try:
        anchor = _anchors.decode(line[start:])
    except msgspec.DecodeError as error:
        raise NoAnchorError(f"it holds no anchor ({error})") from None
    if not any(hmac.compare_digest(anchor.signature.encode(), _sign(anchor, key).encode()) for key in keys):
        raise ValueError("its signature does not match: it was altered, or another key signed it")
    return anchor


def grouped(ends: Sequence[ChainEnd]) -> list[list[ChainEnd]]:
    """Split ends into those of single anchors; without ends there is one anchor, which says so."""
    return [list(ends[at : at + MAX_CHAINS]) for at in range(0, len(ends), MAX_CHAINS)] or [[]]


def _sign(anchor: Anchor, key: str) -> str:
    content = canonical_json(msgspec.to_builtins(msgspec.structs.replace(anchor, signature="")))
    return f"{SIGNATURE_VERSION}={hmac.new(key.encode(), content, 'sha256').hexdigest()}"
