"""The messages between a host and a remote worker, on one WebSocket.

A text frame is one control message, JSON with its `type`. A binary frame is a piece of a stream: the number
of the stream in four bytes, then its bytes. A stream belongs to one plugin process. It carries the archive of
the plugin, if the worker asks for that, then what the process reads and writes. The host numbers streams and
never uses a number twice.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, TypeVar, get_args

import msgspec

from hostler.domain.worker_limits import (
    CHUNK_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_SLOTS,
    MAX_WORKER_MESSAGE_BYTES,
    WINDOW_BYTES,
)
from hostler.plugins.limits import PLUGIN_LIMITS
from hostler.sandbox.port import SandboxLimits
from hostler_protocol._base import Lenient
from hostler_protocol.errors import PluginProtocolError

StreamNumber = Annotated[int, msgspec.Meta(ge=1, le=2**32 - 1)]
WorkerState = Literal["active", "cordoned", "draining"]
"""`cordoned`: it keeps its runs and gets no new ones. `draining`: the same, and it ends once it has none."""
STATES: tuple[WorkerState, ...] = get_args(WorkerState)
_HEAD_BYTES = 4
T = TypeVar("T")


class Machine(Lenient):
    """The machine of a worker, for people. `target`: the kind of machine that wheels are locked for."""

    system: Annotated[str, msgspec.Meta(max_length=200)] = ""
    python: Annotated[str, msgspec.Meta(max_length=40)] = ""
    target: Annotated[str, msgspec.Meta(max_length=200)] = ""
    sandbox: Annotated[str, msgspec.Meta(max_length=200)] = ""


class Hello(Lenient, tag="hello", tag_field="type"):
    """The first message of a worker. `process`: random, the same as long as its process lives.

    `trusted`: the plugins (`author/name`) that it starts without a sandbox.
    """

    protocol: int
    worker_id: Annotated[str, msgspec.Meta(max_length=63)]
    process: Annotated[str, msgspec.Meta(min_length=16, max_length=64)]
    slots: Annotated[int, msgspec.Meta(ge=1, le=MAX_SLOTS)]
    labels: Annotated[list[str], msgspec.Meta(max_length=32)] = []
    version: Annotated[str, msgspec.Meta(max_length=40)] = ""
    machine: Machine = Machine()
    trusted: Annotated[list[str], msgspec.Meta(max_length=256)] = []


class Beat(Lenient, tag="beat", tag_field="type"):
    """A heartbeat of a worker; the host answers its number."""

    number: int


class Fetch(Lenient, tag="fetch", tag_field="type"):
    """The worker does not have the archive of a plugin that it was told to start."""

    stream: StreamNumber


class Started(Lenient, tag="started", tag_field="type"):
    """A plugin process runs. `containment`: how it is confined."""

    stream: StreamNumber
    containment: Annotated[str, msgspec.Meta(max_length=400)] = ""
    warnings: Annotated[list[Annotated[str, msgspec.Meta(max_length=600)]], msgspec.Meta(max_length=32)] = []


class Closed(Lenient, tag="closed", tag_field="type"):
    """A plugin process is gone with everything it started, or was never started."""

    stream: StreamNumber
    reason: Annotated[str, msgspec.Meta(max_length=4_000)]
    lasting: bool = False
    """Whether another try would fail as well."""


class Granted(Lenient, tag="granted", tag_field="type"):
    """The receiver of a stream has used so many bytes: as many more may be sent."""

    stream: StreamNumber
    size: Annotated[int, msgspec.Meta(ge=1, le=WINDOW_BYTES)]


class DrainMe(Lenient, tag="drain", tag_field="type"):
    """The worker asks for no new runs, and to be told when its last run has ended."""


class Welcome(Lenient, tag="welcome", tag_field="type"):
    """The answer to `hello`: the worker is registered."""

    session: str
    version: str
    beat_seconds: float
    quiet_seconds: float


class Answered(Lenient, tag="answered", tag_field="type"):
    """The answer to a heartbeat."""

    number: int
    state: WorkerState


class Open(Lenient, tag="open", tag_field="type"):
    """Start the process of a plugin. `digest`: of the files of its folder (`plugins/pins.py`).

    `plan`: what its requirements were resolved to, by uv; null: resolve them.
    """

    stream: StreamNumber
    plugin: str
    digest: str
    level: Literal["trusted", "sandboxed"]
    network: list[str] = []
    allow_requires: list[str] = []
    limits: SandboxLimits = PLUGIN_LIMITS
    plan: str | None = None
    pinned: bool = False
    """Whether its process may neither read nor write bytecode."""


class Archive(Lenient, tag="archive", tag_field="type"):
    """The answer to `fetch`: the next `size` bytes of the stream are the archive."""

    stream: StreamNumber
    size: int


class CloseInput(Lenient, tag="close_input", tag_field="type"):
    """Close the standard input of a process: it should end."""

    stream: StreamNumber


class Kill(Lenient, tag="kill", tag_field="type"):
    """End a process and everything it started."""

    stream: StreamNumber


class End(Lenient, tag="end", tag_field="type"):
    """The host ends the connection. `again`: whether the worker should connect again."""

    reason: str
    again: bool
    drained: bool = False
    """It ends in order: it was drained and has no run."""


FromWorker: TypeAlias = Hello | Beat | Fetch | Started | Closed | Granted | DrainMe
FromHost: TypeAlias = Welcome | Answered | Open | Archive | CloseInput | Kill | Granted | End
_from_worker: msgspec.json.Decoder[FromWorker] = msgspec.json.Decoder(FromWorker)
_from_host: msgspec.json.Decoder[FromHost] = msgspec.json.Decoder(FromHost)


def encode(message: FromWorker | FromHost) -> str:
    """Return the text frame of a message."""
    return msgspec.json.encode(message).decode()


def read_from_worker(frame: str) -> FromWorker:
    """Read a control message of a worker. PluginProtocolError."""
    return _read(_from_worker, frame, MAX_WORKER_MESSAGE_BYTES)


def read_from_host(frame: str) -> FromHost:
    """Read a control message of a host. PluginProtocolError."""
    return _read(_from_host, frame, MAX_MESSAGE_BYTES)


def _read(decoder: msgspec.json.Decoder[T], frame: str, most: int) -> T:
    if len(frame) > most:
        raise PluginProtocolError(
            f"a control message of {len(frame):,} characters; at most {most:,} are allowed"
        )
    try:
        return decoder.decode(frame)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise PluginProtocolError(f"a control message that cannot be read: {error}") from error


def piece(stream: int, data: bytes | memoryview) -> bytes:
    """Return the binary frame of a piece of a stream."""
    return stream.to_bytes(_HEAD_BYTES, "big") + data


def read_piece(frame: bytes) -> tuple[int, bytes]:
    """Return the stream and the bytes of a binary frame. PluginProtocolError."""
    if not _HEAD_BYTES < len(frame) <= _HEAD_BYTES + CHUNK_BYTES:
        raise PluginProtocolError(f"a piece of a stream of {len(frame):,} bytes, which is none")
    return int.from_bytes(frame[:_HEAD_BYTES], "big"), frame[_HEAD_BYTES:]
