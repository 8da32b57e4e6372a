"""A mailbox over IMAPClient, which blocks: each runs in a thread of its own.

Nothing that is received is marked: folders are opened for reading, and mails are fetched with PEEK.
"""

from __future__ import annotations

import contextlib
import datetime
import imaplib
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from imapclient import IMAPClient
from imapclient.exceptions import LoginError

from hostler_email.network import Server, connect
from hostler_sdk.channels import SetupError

READ_SECONDS = 60.0
"""Time for the server to go on with an answer."""
MAX_HEADERS_BYTES = 256 * 1024
_NOT_IMAP = (ValueError, LookupError, TypeError, AttributeError, AssertionError, ArithmeticError)
"""What the library raises about answers that are no IMAP."""


class LostError(ConnectionError):
    """The connection is gone or cannot be made. What was asked may have been carried out."""


class RefusedError(Exception):
    """The server refused a command."""


@dataclass(frozen=True, slots=True)
class RawMail:
    """A mail as it lies in a folder. `content` is cut where the mail has more than was asked for."""

    uid: int
    received_at: float
    size_bytes: int
    content: bytes


class _Wire(imaplib.IMAP4):
    def __init__(self, server: Server) -> None:
        self._server = server
        super().__init__(server.host, server.port)

    def _create_socket(self, timeout: float | None) -> socket.socket:
        line = connect(self._server)
        line.settimeout(READ_SECONDS)
        if self._server.security != "tls":
            return line
        try:
            return self._server.context.wrap_socket(line, server_hostname=self._server.host)
        except BaseException:
            line.close()
            raise


class _Client(IMAPClient):  # type: ignore[misc]  # it has no types
    def __init__(self, server: Server) -> None:
        self._server = server
        self.looks_first = False
        super().__init__(server.host, server.port, ssl=server.security == "tls", timeout=READ_SECONDS)
        self.normalise_times = False

    def _create_IMAP4(self) -> imaplib.IMAP4:  # noqa: N802 - the library's
        return _Wire(self._server)

    def _poll_socket(self, sock: socket.socket, timeout: float | None = None) -> Any:
        # what came together with the answer to IDLE is in a buffer, where no poll sees it
        if self.looks_first:
            self.looks_first = False
            return True
        return super()._poll_socket(sock, timeout)


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Raise LostError and RefusedError for what the library raises."""
    try:
        yield
    except imaplib.IMAP4.abort as error:
        raise LostError(f"{what}: the connection broke: {_text(error)}") from error
    except imaplib.IMAP4.error as error:
        raise RefusedError(f"{what}: {_text(error)}") from error
    except OSError as error:
        raise LostError(f"{what}: {_text(error) or type(error).__name__}") from error
    except _NOT_IMAP as error:
        raise LostError(f"{what}: the server's answer is no IMAP: {_text(error)}") from error


def _text(error: BaseException) -> str:
    return str(error)[:500]


class Mailbox:
    """An open connection. Its methods block, and raise LostError and RefusedError."""

    def __init__(self, client: _Client, server: Server) -> None:
        self._client = client
        self._server = server
        self.folder: str | None = None
        """The folder that is open."""

    @classmethod
    def open(cls, server: Server, user: str, password: str) -> Mailbox:
        """Connect and log in. Raises SetupError if the server does not take the password."""
        with _told(f"IMAP server {server}"):
            client = _Client(server)
        try:
            with _told(f"IMAP server {server}"):
                if server.security == "starttls":
                    client.starttls(server.context)
                _log_in(client, user, password)
        except BaseException:
            _shut(client)
            raise
        return cls(client, server)

    def break_off(self) -> None:
        """End the connection, from any thread: who waits in another one gets LostError."""
        _shut(self._client)

    def log_out(self) -> None:
        """Close it in order, as far as the server takes part."""
        try:
            with _told("LOGOUT"):
                self._client.logout()
        except (LostError, RefusedError):
            _shut(self._client)

    def select(self, folder: str, *, change: bool = False) -> tuple[int, int]:
        """Open a folder, for reading or to change it; return UIDVALIDITY and UIDNEXT."""
        with _told(f"folder {folder}"):
            answer = self._client.select_folder(folder, readonly=not change)
            self.folder = folder
            validity = int(answer.get(b"UIDVALIDITY", 0))
            following = answer.get(b"UIDNEXT")
        if following is None:  # a server of before RFC 3501
            following = max(self._search(["ALL"]), default=0) + 1
        return validity, int(following)

    def after(self, uid: int) -> list[int]:
        """Return the UIDs after one, in order."""
        return sorted(found for found in self._search(["UID", f"{uid + 1}:*"]) if found > uid)

    def since(self, moment: float) -> list[int]:
        """Return the UIDs of what came since the day before a moment, in order."""
        day = datetime.datetime.fromtimestamp(moment, datetime.UTC).date() - datetime.timedelta(days=1)
        return sorted(self._search(["SINCE", day]))

    def with_header(self, name: str, value: str) -> list[int]:
        """Return the UIDs of mails with a header that contains a text, in order."""
        return sorted(self._search(["HEADER", name, value]))

    def search(self, criteria: Sequence[Any]) -> list[int]:
        """Return what a search finds, in order."""
        return sorted(self._search(list(criteria)))

    def _search(self, criteria: list[Any]) -> list[int]:
        with _told("SEARCH"):
            return [int(one) for one in self._client.search(criteria)]

    def fetch(self, uid: int, limit: int) -> RawMail | None:
        """Return a mail, or its first `limit` bytes; None if it is gone."""
        return self._fetched(uid, f"BODY.PEEK[]<0.{limit}>", b"BODY[]<0>")

    def headers(self, uid: int) -> RawMail | None:
        """Return the headers of a mail; None if it is gone."""
        return self._fetched(uid, f"BODY.PEEK[HEADER]<0.{MAX_HEADERS_BYTES}>", b"BODY[HEADER]<0>")

    def _fetched(self, uid: int, what: str, name: bytes) -> RawMail | None:
        with _told("FETCH"):
            answer = self._client.fetch([uid], [what, "RFC822.SIZE", "INTERNALDATE"]).get(uid)
            if answer is None or name not in answer:
                return None
            content = bytes(answer[name] or b"")
            received = answer.get(b"INTERNALDATE")
            at = received.timestamp() if isinstance(received, datetime.datetime) else 0.0
            return RawMail(uid, at, int(answer.get(b"RFC822.SIZE", len(content))), content)

    def wait(self, seconds: float, poll_seconds: float) -> None:
        """Wait until the server tells of something, at most `seconds`; without IDLE for `poll_seconds`."""
        with _told("IDLE"):
            if not self._client.has_capability("IDLE"):
                self._pause(poll_seconds)
                self._client.noop()
                return
            self._client.idle()
            self._client.looks_first = True
            if not self._client.idle_check(0):
                self._client.idle_check(seconds)
            self._client.idle_done()

    def _pause(self, seconds: float) -> None:
        """Wait; the end of the connection ends it."""
        self._client._poll_socket(self._client.socket(), seconds)

    def ping(self) -> None:
        """Ask whether the server is there."""
        with _told("NOOP"):
            self._client.noop()

    def append(self, folder: str, content: bytes) -> None:
        """Put a mail into a folder, as read."""
        with _told(f"folder {folder}"):
            self._client.append(folder, content, flags=(rb"\Seen",))

    def special(self, flag: bytes) -> str | None:
        """Return the name of the folder for what is sent (`\\Sent`) or thrown away (`\\Trash`)."""
        with _told("LIST"):
            found = self._client.find_special_folder(flag)
            return None if found is None else str(found)

    def mark(self, uid: int, *flags: bytes) -> None:
        """Set flags of a mail in a folder that was opened to change it."""
        with _told("STORE"):
            self._client.add_flags([uid], flags)

    def move(self, uid: int, folder: str) -> None:
        """Move a mail into another folder. Raises RefusedError if the server cannot."""
        with _told("MOVE"):
            if not self._client.has_capability("MOVE"):
                raise RefusedError("the server cannot move mails (it has no MOVE)")
            self._client.move([uid], folder)


def _log_in(client: _Client, user: str, password: str) -> None:
    try:
        if client.has_capability("AUTH=PLAIN"):
            client.plain_login(user, password)
        elif re.fullmatch(r"[!-~]+", user) and password.isascii():
            client.login(user, password)
        else:
            raise SetupError("the IMAP server takes no password with such letters: it has no AUTH=PLAIN")
    except LoginError as error:
        text = f"the IMAP server does not take the password: check `user` and `password` ({_text(error)})"
        raise SetupError(text.replace(password, "[password]")) from None


def _shut(client: _Client) -> None:
    line = client.socket()
    with contextlib.suppress(OSError):  # it is closed already
        socket.socket.shutdown(line, socket.SHUT_RDWR)  # of TLS as well: another thread may be reading
