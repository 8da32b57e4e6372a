"""A mail server for tests: IMAP4rev1 with IDLE, LITERAL+, MOVE and SPECIAL-USE, and SMTP submission."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import re
import ssl
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from email.parser import BytesHeaderParser

USER, PASSWORD = "help@example.org", "S3cret pass"
NOW = 1_764_000_000
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]
LITERAL = re.compile(rb"\{(\d+)(\+?)\}$")


@dataclass
class Stored:
    """A mail in a folder."""

    uid: int
    raw: bytes
    received_at: int = NOW
    flags: set[str] = field(default_factory=set)


@dataclass
class Folder:
    """A folder, with the UIDs of its mails."""

    validity: int = 7
    following: int = 1
    mails: list[Stored] = field(default_factory=list)

    def put(self, raw: bytes, received_at: int = NOW) -> Stored:
        """Store a mail."""
        self.mails.append(Stored(self.following, raw, received_at))
        self.following += 1
        return self.mails[-1]


@dataclass
class Sent:
    """A mail that came by SMTP."""

    sender: str
    to: list[str]
    raw: bytes


class MailServer:
    """Both servers. `faults`: by command (`FETCH`, `FETCH 3`, `AFTER a@x.y`) what comes instead, in order."""

    def __init__(self, context: ssl.SSLContext | None = None, security: str = "none") -> None:
        self.folders = {"INBOX": Folder(), "Sent": Folder(9), "Bin": Folder(11)}
        self.special = {"Sent": "\\Sent", "Bin": "\\Trash"}
        self.capabilities = "IMAP4rev1 AUTH=PLAIN IDLE LITERAL+ MOVE NAMESPACE SPECIAL-USE"
        self.password = PASSWORD
        self.extensions = ["SIZE 35882577", "AUTH PLAIN LOGIN", "8BITMIME"]
        self.files_sent = False
        self.faults: dict[str, deque[str]] = {}
        self.sent: list[Sent] = []
        self.commands: list[str] = []
        """IMAP commands, in order."""
        self.smtp_commands: list[str] = []
        self.stalled = asyncio.Event()
        """Set by a `stall`, in which the server says nothing more."""
        self.context, self.security = context, security
        self.idle_with_news = b""
        """What is written together with the answer to IDLE."""
        self.ports = {"imap": 0, "smtp": 0}
        self._writers: set[asyncio.StreamWriter] = set()
        self._idling: set[asyncio.StreamWriter] = set()
        self._servers: list[asyncio.Server] = []
        self._changed = asyncio.Condition()

    # -- for tests --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, on the same ports as before."""
        context = self.context if self.security == "tls" else None
        for kind, serve in (("imap", self._imap), ("smtp", self._smtp)):
            server = await asyncio.start_server(
                self._kept(serve), "127.0.0.1", self.ports[kind], ssl=context, limit=2**26
            )
            self.ports[kind] = server.sockets[0].getsockname()[1]
            self._servers.append(server)

    async def stop(self) -> None:
        """End all connections, and listen no more."""
        for server in self._servers:
            server.close()
        self.cut()
        self._servers.clear()

    def cut(self) -> None:
        """End all connections."""
        for writer in list(self._writers):
            writer.transport.abort()

    def deliver(self, raw: bytes, received_at: int = NOW) -> int:
        """Put a mail into the inbox, and tell who idles. Returns its UID."""
        inbox = self.folders["INBOX"]
        stored = inbox.put(raw, received_at)
        for writer in self._idling:
            writer.write(b"* %d EXISTS\r\n" % len(inbox.mails))
        return stored.uid

    def fault(self, command: str, *what: str) -> None:
        """Let something happen at the next such commands."""
        self.faults.setdefault(command, deque()).extend(what)

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until something is so, as far as what the server is asked tells."""
        async with self._changed:
            await self._changed.wait_for(reached)

    async def until_idle(self, times: int = 1) -> None:
        """Wait until IDLE was asked for so often."""
        await self.until(lambda: self.commands.count("IDLE") >= times)

    # -- connections ------------------------------------------------------------------------------

    def _kept(self, serve: Serve) -> Serve:
        async def kept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._writers.add(writer)
            try:
                with contextlib.suppress(
                    ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, _CutError
                ):
                    await serve(reader, writer)
            finally:
                self._writers.discard(writer)
                self._idling.discard(writer)
                writer.transport.abort()

        return kept

    async def _note(self, kind: list[str], command: str) -> None:
        async with self._changed:
            kind.append(command)
            self._changed.notify_all()

    async def _fault(self, command: str, writer: asyncio.StreamWriter, about: str = "") -> str | None:
        """Return an answer that is given instead, or cut the connection."""
        waiting = self.faults.get(f"{command} {about}") or self.faults.get(command)
        if not waiting:
            return None
        what = waiting.popleft()
        if what == "stall":
            self.stalled.set()
            await asyncio.Event().wait()
        if what == "cut":
            writer.transport.abort()
            raise _CutError
        return what

    # -- IMAP -------------------------------------------------------------------------------------

    async def _imap(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"* OK ready\r\n")
        session = _Session()
        while (found := await _command(reader, writer)) is not None:
            tag, words = found
            name = str(words[0]).upper()
            if name == "UID":
                name, words = str(words[1]).upper(), words[1:]
            await self._note(self.commands, name)
            instead = await self._fault(name, writer, str(words[1]) if len(words) > 1 else "")
            if instead == "junk":
                writer.write(b"\x00\xff )( this is no IMAP\r\n")
                continue
            if instead is not None:
                writer.write(f"{tag} {instead}\r\n".encode())
                continue
            if name == "STARTTLS":
                writer.write(f"{tag} OK begin\r\n".encode())
                await writer.start_tls(self.context)  # type: ignore[arg-type]
                continue
            if name == "IDLE":
                if (count := len(session.folder.mails)) > session.known:  # some came after the last search
                    self.idle_with_news += b"* %d EXISTS\r\n" % count
                await self._idle(reader, writer, tag)
                continue
            if name == "LOGOUT":
                writer.write(f"* BYE\r\n{tag} OK bye\r\n".encode())
                return
            answer = self._answer(name, words[1:], session, writer)
            if name == "AUTHENTICATE":
                writer.write(b"+ \r\n")
                given = base64.b64decode(await reader.readline()).decode().split("\0")
                answer = "OK in" if given[1:] == [USER, self.password] else "NO [AUTHENTICATIONFAILED] wrong"
            writer.write(f"{tag} {answer}\r\n".encode())
            await writer.drain()

    async def _idle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tag: str) -> None:
        writer.write(b"+ idling\r\n" + self.idle_with_news)
        self.idle_with_news = b""
        self._idling.add(writer)
        done = await reader.readline()
        self._idling.discard(writer)
        if done.strip().upper() == b"DONE":
            writer.write(f"{tag} OK IDLE ended\r\n".encode())

    def _answer(self, name: str, words: list[object], session: _Session, writer: asyncio.StreamWriter) -> str:
        match name:
            case "CAPABILITY":
                writer.write(f"* CAPABILITY {self.capabilities}\r\n".encode())
            case "LOGIN":
                return "OK in" if words == [USER, self.password] else "NO [AUTHENTICATIONFAILED] wrong"
            case "NAMESPACE":
                writer.write(b'* NAMESPACE (("" "/")) NIL NIL\r\n')
            case "LIST":
                for folder in self.folders:
                    if words[1] in {"*", folder}:
                        writer.write(f'* LIST ({self.special.get(folder, "")}) "/" "{folder}"\r\n'.encode())
            case "SELECT" | "EXAMINE":
                return self._select(name, str(words[0]), session, writer)
            case "SEARCH":
                session.known = len(session.folder.mails)
                found = [str(mail.uid) for mail in session.folder.mails if _matches(mail, list(words))]
                # as servers do: `9:*` has the last mail, also if it is before 9
                if words[0] == "UID" and not found and session.folder.mails and str(words[1]).endswith(":*"):
                    found = [str(session.folder.mails[-1].uid)]
                writer.write(("* SEARCH " + " ".join(found) + "\r\n").encode())
            case "FETCH":
                _fetch(session.folder, str(words[0]), str(words[1]), writer)
            case "STORE" | "MOVE":
                if not session.may_change:
                    return "NO [READ-ONLY] it was opened for reading"
                self._change(name, words, session)
            case "APPEND":
                if words[0] not in self.folders:
                    return "NO [TRYCREATE] no such folder"
                filed = self.folders[str(words[0])].put(words[-1])  # type: ignore[arg-type]
                filed.flags |= set(str(words[1]).strip("()").split())
            case "NOOP" | "AUTHENTICATE":
                pass
            case _:
                return "BAD unknown command"
        return "OK done"

    def _select(self, name: str, folder: str, session: _Session, writer: asyncio.StreamWriter) -> str:
        if folder not in self.folders:
            return "NO [NONEXISTENT] no such folder"
        session.folder, session.may_change = self.folders[folder], name == "SELECT"
        told = f"* {len(session.folder.mails)} EXISTS\r\n* 0 RECENT\r\n* FLAGS (\\Seen \\Flagged)\r\n"
        told += f"* OK [UIDVALIDITY {session.folder.validity}] ids\r\n"
        writer.write(f"{told}* OK [UIDNEXT {session.folder.following}] next\r\n".encode())
        return "OK [READ-WRITE] open" if session.may_change else "OK [READ-ONLY] open"

    def _change(self, name: str, words: list[object], session: _Session) -> None:
        for mail in [one for one in session.folder.mails if str(one.uid) == words[0]]:
            if name == "STORE":
                mail.flags |= set(str(words[2]).strip("()").split())
            else:
                session.folder.mails.remove(mail)
                self.folders[str(words[1])].put(mail.raw)

    # -- SMTP -------------------------------------------------------------------------------------

    async def _smtp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greeting = await self._fault("GREETING", writer)
        writer.write(f"{greeting or '220 mail.example.org ESMTP'}\r\n".encode())
        sender, to, is_known = "", list[str](), False
        while line := await reader.readline():
            words = line.decode().split()
            name = words[0].upper() if words else ""
            await self._note(self.smtp_commands, name)
            instead = await self._fault(name, writer)
            if instead is not None:
                writer.write(f"{instead}\r\n".encode())
            elif name == "EHLO":
                more = ["STARTTLS"] if self.security == "starttls" else []
                told = ["mail.example.org", *self.extensions, *more]
                begin = "".join(f"250-{one}\r\n" for one in told[:-1])
                writer.write(f"{begin}250 {told[-1]}\r\n".encode())
            elif name == "STARTTLS":
                writer.write(b"220 go\r\n")
                await writer.start_tls(self.context)  # type: ignore[arg-type]
            elif name == "AUTH":
                given = base64.b64decode(words[2]).decode().split("\0")
                is_known = given[1:] == [USER, self.password]
                writer.write(b"235 ok\r\n" if is_known else b"535 5.7.8 wrong password\r\n")
            elif name in {"MAIL", "RCPT", "DATA"} and not is_known:
                writer.write(b"530 5.7.0 log in first\r\n")
            elif name == "MAIL":
                sender, to = words[1].removeprefix("FROM:"), []
                writer.write(b"250 ok\r\n")
            elif name == "RCPT":
                to.append(words[1].removeprefix("TO:").strip("<>"))
                writer.write(b"250 ok\r\n")
            elif name == "DATA":
                await self._data(reader, writer, sender.strip("<>"), to)
            elif name == "QUIT":
                writer.write(b"221 bye\r\n")
                return
            else:
                writer.write(b"250 ok\r\n")

    async def _data(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sender: str, to: list[str]
    ) -> None:
        writer.write(b"354 go on\r\n")
        await self._fault("BODY", writer)
        lines = []
        while (line := await reader.readline()) != b".\r\n":
            if not line:
                raise _CutError
            lines.append(line[1:] if line.startswith(b".") else line)
        await self._note(self.smtp_commands, "END")
        if (before := await self._fault("BEFORE", writer, to[0])) is not None:  # refused: nothing was taken
            writer.write(f"{before}\r\n".encode())
            return
        raw = b"".join(lines)
        self.sent.append(Sent(sender, list(to), raw))
        if self.files_sent:
            self.folders["Sent"].put(raw)
        await self._note(self.smtp_commands, "TAKEN")
        answer = await self._fault("AFTER", writer, to[0])
        writer.write(f"{answer or '250 2.0.0 taken'}\r\n".encode())


class _CutError(Exception):
    """A connection was cut."""


class _Session:
    folder = Folder()
    may_change = False
    known = 0


async def _command(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[str, list[object]] | None:
    """Return tag and words of a command; literals are bytes."""
    words: list[object] = []
    while True:
        line = (await reader.readline()).rstrip(b"\r\n")
        if not line and not words:
            return None
        literal = LITERAL.search(line)
        text = (line if literal is None else line[: literal.start()]).decode()
        words += [_unquoted(one) for one in re.findall(r'"(?:[^"\\]|\\.)*"|\([^)]*\)|[^ ()]+', text)]
        if literal is None:
            return str(words[0]), words[1:]
        if not literal[2]:
            writer.write(b"+ go on\r\n")
        words.append(await reader.readexactly(int(literal[1])))


def _unquoted(word: str) -> str:
    return re.sub(r"\\(.)", r"\1", word[1:-1]) if word.startswith('"') else word


def _matches(mail: Stored, words: list[object]) -> bool:
    head = BytesHeaderParser().parsebytes(mail.raw[:4_096])
    while words:
        match str(words.pop(0)).upper():
            case "UID":
                first = int(str(words.pop(0)).split(":")[0])
                if mail.uid < first:
                    return False
            case "SINCE":
                day = datetime.datetime.strptime(str(words.pop(0)), "%d-%b-%Y").replace(tzinfo=datetime.UTC)
                if mail.received_at < day.timestamp():
                    return False
            case "HEADER":
                name, value = str(words.pop(0)), str(words.pop(0))
                if value.lower() not in str(head.get(name, "")).lower():
                    return False
            case "SUBJECT" | "FROM" as name:
                if str(words.pop(0)).lower() not in str(head.get(name, "")).lower():
                    return False
            case "ALL":
                pass
    return True


def _fetch(folder: Folder, uids: str, items: str, writer: asyncio.StreamWriter) -> None:
    for number, mail in enumerate(folder.mails, 1):
        if str(mail.uid) not in uids.split(","):
            continue
        at = datetime.datetime.fromtimestamp(mail.received_at, datetime.UTC).strftime(
            "%d-%b-%Y %H:%M:%S +0000"
        )
        found = re.search(r"BODY\.PEEK\[(HEADER)?\]<0\.(\d+)>", items)
        assert found is not None, items
        content = mail.raw.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" if found[1] else mail.raw
        content = content[: int(found[2])]
        told = f'* {number} FETCH (UID {mail.uid} RFC822.SIZE {len(mail.raw)} INTERNALDATE "{at}" '
        told += f"BODY[{found[1] or ''}]<0> {{{len(content)}}}\r\n"
        writer.write(told.encode() + content + b")\r\n")
