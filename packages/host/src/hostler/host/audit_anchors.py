"""The worker that anchors the hash chains outside the host: in a file, a syslog, a webhook.

Each of them gets the ends of the chains that grew since it was last reached. So nothing is lost while one
cannot be reached, and the others do not wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path

from hostler.domain.audit_anchors import (
    EVENT,
    MIN_KEY_CHARS,
    Anchor,
    AuditAnchors,
    ChainEnd,
    grouped,
    signed,
    syslog_address,
)
from hostler.domain.config_changes import ConfigProblem
from hostler.host.config_entries import POLICY
from hostler.host.webhooks import UndeliverableError
from hostler.secrets.resolver import resolve_secret
from hostler.storage.port import Database, Tx
from hostler.storage.stores import hash_chain, installation
from hostler_protocol.errors import InvalidArgumentError, StorageError
from hostler_protocol.ids import new_id
from hostler_protocol.limits import KIB

log = logging.getLogger(__name__)

CONNECT_SECONDS = 5.0
LAST_SECONDS = 10.0
"""For the last anchors of a host that stops."""
PRIORITY = 13 * 8 + 5
"""RFC 5424: facility 13 is "log audit", severity 5 "notice"."""
MAX_TAIL_BYTES = 64 * KIB
"""The end of a file in which its last whole line ends."""
_PAGE = 1_000

Send = Callable[[Sequence[bytes]], Awaitable[None]]
"""Send anchors to one place. AnchorError."""
PostWebhook = Callable[[str, str, str, bytes], Awaitable[object]]
"""Post a body to a webhook: its name, the event, the id of the delivery, the body. UndeliverableError."""


class AnchorError(Exception):
    """A place took no anchors now; the message names it."""


class AnchorWriter:
    """Writes anchors as its settings say; without settings it waits for some."""

    def __init__(self, db: Database, host_id: str, post: PostWebhook) -> None:
        self._db = db
        self._host_id = host_id
        self._post = post
        self._settings: AuditAnchors | None = None
        self._changed = asyncio.Event()
        self._sent: dict[str, dict[tuple[str, str], ChainEnd]] = {}
        """The ends that each place has, by the place and the chain."""
        self._wrong: dict[str, str] = {}
        """Why places took no anchors the last time; key "" for what concerns all."""

    def configure(self, settings: AuditAnchors | None) -> None:
        """Use other settings, and write anchors at once; None: write no more."""
        if settings != self._settings:
            self._settings = settings
            self._sent, self._wrong = {}, {}
            self._changed.set()

    def problems(self) -> list[ConfigProblem]:
        """Return why anchors could not be written the last time."""
        return [ConfigProblem(kind="audit_anchors", name=POLICY, problem=why) for why in self._wrong.values()]

    async def keep(self, succeeded: Callable[[], None] = lambda: None) -> None:
        """Write anchors in time. A worker of the host."""
        while True:
            self._changed.clear()
            settings = self._settings
            if settings is not None:
                await self.write()
                succeeded()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if settings is None else settings.every_seconds):
                    await self._changed.wait()

    async def finish(self) -> None:
        """Write the last anchors of a host that stops."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_SECONDS):
                await self.write()

    async def write(self) -> None:
        """Write the ends that places do not have yet. What fails is logged, and a problem until it works."""
        settings = self._settings
        if settings is None:
            return
        try:
            key = await asyncio.to_thread(key_of, settings.key)
            ends, database = await self._db.read(
                lambda tx: (list(_ends(tx)), installation.known_identity(tx))
            )
            if any(self._lacks(place, end) for place, _ in self._places(settings) for end in ends):
                await installation.make_durable(self._db)  # a power cut is no manipulation
        except (InvalidArgumentError, StorageError) as error:
            self._note("", error.message)
            return
        self._note("", None)
        for place, send in self._places(settings):
            await self._write_to(place, send, ends, key, database or "")

    async def _write_to(
        self, place: str, send: Send, ends: Sequence[ChainEnd], key: str, database: str
    ) -> None:
        sent = self._sent.setdefault(place, {})
        new = [end for end in ends if self._lacks(place, end)]
        now = time.time()
        lines = [
            signed(Anchor(at=now, installation=database, host=self._host_id, chains=chains), key)
            for chains in grouped(new)
        ]
        try:
            await send(lines)
        except AnchorError as error:
            self._note(place, str(error))
        else:
            sent.update({(end.workspace, end.chain): end for end in new})
            self._note(place, None)

    def _lacks(self, place: str, end: ChainEnd) -> bool:
        return self._sent.get(place, {}).get((end.workspace, end.chain)) != end

    def _note(self, place: str, why: str | None) -> None:
        if why is None:
            self._wrong.pop(place, None)
        else:
            self._wrong[place] = why
            log.warning("the hash chains are not anchored now: %s", why)

    def _places(self, settings: AuditAnchors) -> Iterator[tuple[str, Send]]:
        if (file := settings.file) is not None:
            yield "file", lambda lines: _in_thread(f"file {file}", lambda: _append(Path(file), lines))
        if (server := settings.syslog) is not None:
            yield "syslog", lambda lines: _in_thread(server, lambda: _log(server, lines, self._host_id))
        if (name := settings.webhook) is not None:
            yield "webhook", lambda lines: self._deliver(name, lines)

    async def _deliver(self, name: str, lines: Sequence[bytes]) -> None:
        try:
            for line in lines:
                await self._post(name, EVENT, new_id(), line)
        except UndeliverableError as error:
            raise AnchorError(f"webhook {name}: {error.reason}") from None


def key_of(reference: str) -> str:
    """Return the key that a reference stands for. InvalidArgumentError."""
    key = resolve_secret(reference) or ""
    if len(key) < MIN_KEY_CHARS:
        raise InvalidArgumentError(
            f"{reference} holds {len(key)} characters: expected at least {MIN_KEY_CHARS} "
            "(`openssl rand -base64 32` makes some)"
        )
    return key


def _ends(tx: Tx) -> Iterator[ChainEnd]:
    after = ("", "")
    while page := hash_chain.heads(tx, after=after, limit=_PAGE):
        for head in page:
            yield ChainEnd(
                workspace=head.workspace_id, chain=head.chain, seq=head.link.seq, head=head.link.digest
            )
        after = (page[-1].workspace_id, page[-1].chain)


# -- places ---------------------------------------------------------------------------------------


async def _in_thread(place: str, work: Callable[[], None]) -> None:
    try:
        await asyncio.to_thread(work)
    except OSError as error:
        raise AnchorError(f"{place}: {error.strerror or error}") from None


def _append(path: Path, lines: Sequence[bytes]) -> None:
    """Append whole lines durably. A line that a crash left unfinished is removed first."""
    created = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with FileIO(created, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # several hosts may share it
        begun = _whole_lines(file)
        try:
            content = b"".join(line + b"\n" for line in lines)
            if file.write(content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):  # then the next ones do
                file.truncate(begun)
            raise


def _whole_lines(file: FileIO) -> int:
    """Cut off what follows the last whole line, and return the size then."""
    end = file.seek(0, os.SEEK_END)
    start = max(0, end - MAX_TAIL_BYTES)
    file.seek(start)
    tail = file.read(end - start)
    whole = start + tail.rfind(b"\n") + 1
    if whole < end:
        file.truncate(whole)
    return whole


def _log(server: str, lines: Sequence[bytes], host_id: str) -> None:
    """Send lines to a syslog server (RFC 5424; over TCP with their lengths, RFC 6587)."""
    when = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    head = f"<{PRIORITY}>1 {when} {host_id} hostler {os.getpid()} {EVENT} - ".encode("ascii")
    address = syslog_address(server)
    with contextlib.ExitStack() as stack:
        if isinstance(address, str):
            connection = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            connection.settimeout(CONNECT_SECONDS)
            connection.connect(address)
        elif address[0] == "udp":
            family, kind, protocol, _, target = socket.getaddrinfo(*address[1:], type=socket.SOCK_DGRAM)[0]
            connection = stack.enter_context(socket.socket(family, kind, protocol))
            connection.connect(target)
        else:
            connection = stack.enter_context(socket.create_connection(address[1:], CONNECT_SECONDS))
        for line in lines:
            framed = head + line
            if isinstance(address, tuple) and address[0] == "tcp":
                framed = b"%d %s" % (len(framed), framed)
            connection.sendall(framed)
