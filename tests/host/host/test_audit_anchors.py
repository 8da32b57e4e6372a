"""Anchors of the hash chains: what each place gets, also when it could not be reached for a while."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.domain.audit_anchors import MAX_CHAINS, Anchor, AuditAnchors, read_anchor
from hostler.domain.webhooks import Webhook, signature
from hostler.host.audit_anchors import AnchorWriter
from hostler.host.webhooks import UndeliverableError, WebhookSender
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import audit, installation
from hostler.storage.stores import settings as stored_settings
from support.receiver import Receiver

pytestmark = pytest.mark.gate("anchors")

KEY = "a key that signs anchors, of over 32 characters"
SECONDS = 50.0


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANCHOR_KEY", KEY)
    monkeypatch.setenv("HOOK_SECRET", "a secret of a webhook")


async def nowhere(name: str, event: str, delivery_id: str, body: bytes) -> object:
    raise UndeliverableError("there is no webhook of this name any more")


def writer(database: SqlDatabase, post: Any = nowhere, **places: Any) -> AnchorWriter:
    made = AnchorWriter(database, "host-1", post)
    made.configure(AuditAnchors(key="env:ANCHOR_KEY", **places))
    return made


async def record(database: SqlDatabase, *workspaces: str) -> None:
    for workspace in workspaces:
        await database.write(lambda tx, ws=workspace: audit.record(tx, ws, "ada", "did", "it", {}))  # type: ignore[misc]


def anchors(lines: Sequence[bytes]) -> list[Anchor]:
    return [read_anchor(line, [KEY]) for line in lines]


def ends(lines: Sequence[bytes]) -> list[dict[str, int]]:
    return [{end.workspace: end.seq for end in anchor.chains} for anchor in anchors(lines)]


def lines_of(path: Path) -> list[bytes]:
    content = path.read_bytes()
    assert content.endswith(b"\n")
    return content.splitlines()


async def test_a_file_gets_the_chains_that_grew(database: SqlDatabase, tmp_path: Path) -> None:
    file = tmp_path / "anchors.jsonl"
    made = writer(database, file=str(file))
    await database.write(installation.identity)
    await record(database, "w1", "w2", "w1")
    await made.write()
    await made.write()
    await record(database, "w2")
    await made.write()
    assert ends(lines_of(file)) == [{"w1": 2, "w2": 1}, {}, {"w2": 2}]
    assert file.stat().st_mode & 0o777 == 0o600
    first = anchors(lines_of(file))[0]
    assert first.host == "host-1"
    assert first.installation == await database.read(installation.known_identity)
    again = writer(database, file=str(file))
    await again.write()
    assert ends(lines_of(file))[3:] == [{"w1": 2, "w2": 2}], "a new host begins with all"
    assert made.problems() == []


async def test_an_anchor_has_room_for_a_few_chains(database: SqlDatabase, tmp_path: Path) -> None:
    names = [f"w{number:03}" for number in range(MAX_CHAINS * 2 + 1)]
    await record(database, *names)
    await writer(database, file=str(tmp_path / "file")).write()
    found = ends(lines_of(tmp_path / "file"))
    assert [len(one) for one in found] == [MAX_CHAINS, MAX_CHAINS, 1]
    assert sorted(name for one in found for name in one) == names


async def test_hosts_that_share_a_file_write_whole_lines(database: SqlDatabase, tmp_path: Path) -> None:
    file = tmp_path / "file"
    await record(database, *(f"w{number}" for number in range(MAX_CHAINS)))
    file.write_bytes(b'{"what a crash": "left')
    hosts = [writer(database, file=str(file)) for _ in range(4)]
    for _ in range(5):
        await asyncio.gather(*(host.write() for host in hosts))
    assert len(anchors(lines_of(file))) == 20


class Datagrams(asyncio.DatagramProtocol):
    """A syslog server that keeps what it gets."""

    def __init__(self) -> None:
        self.got: asyncio.Queue[bytes] = asyncio.Queue()

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.got.put_nowait(data)


@contextlib.asynccontextmanager
async def syslog(kind: str, folder: Path) -> AsyncIterator[tuple[str, asyncio.Queue[bytes]]]:
    """A real syslog server of a kind: its address for the configuration, and its messages."""
    loop = asyncio.get_running_loop()
    if kind == "tcp":
        got: asyncio.Queue[bytes] = asyncio.Queue()

        async def serve(reader: asyncio.StreamReader, stream: asyncio.StreamWriter) -> None:
            with contextlib.suppress(asyncio.IncompleteReadError):
                while length := await reader.readuntil(b" "):
                    got.put_nowait(await reader.readexactly(int(length)))
            stream.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}", got
        return
    if kind == "unix":
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listening.bind(str(folder / "log"))
        listening.setblocking(False)
        transport, datagrams = await loop.create_datagram_endpoint(Datagrams, sock=listening)
        yield f"unix:{folder / 'log'}", datagrams.got
    else:
        transport, datagrams = await loop.create_datagram_endpoint(Datagrams, local_addr=("127.0.0.1", 0))
        yield f"udp://127.0.0.1:{transport.get_extra_info('sockname')[1]}", datagrams.got
    transport.close()


@pytest.mark.parametrize("kind", ["udp", "tcp", "unix"])
async def test_a_syslog_gets_them(database: SqlDatabase, tmp_path: Path, kind: str) -> None:
    await record(database, *(f"w{number:02}" for number in range(MAX_CHAINS + 1)))
    async with asyncio.timeout(SECONDS), syslog(kind, tmp_path) as (address, got):
        made = writer(database, syslog=address)
        await made.write()
        messages = [await got.get(), await got.get()]
        assert made.problems() == []
    assert [len(one) for one in ends(messages)] == [MAX_CHAINS, 1]
    for message in messages:
        head = message.partition(b"{")[0].decode().split(" ")
        assert (head[0], head[2:4], head[5:]) == (
            "<109>1",
            ["host-1", "hostler"],
            ["audit.anchored", "-", ""],
        )
        assert len(message) < 8192, "what syslog servers take"


async def test_a_webhook_gets_them_signed_twice(database: SqlDatabase) -> None:
    async with asyncio.timeout(SECONDS), Receiver() as receiver:
        webhook = Webhook(name="siem", url=receiver.url, secret="env:HOOK_SECRET", network=["127.0.0.1"])
        spec = msgspec.to_builtins(webhook)
        await database.write(lambda tx: stored_settings.put(tx, "w1", "webhook", "siem", spec))
        await record(database, "w1")
        made = writer(database, WebhookSender(database, "w1").post, webhook="siem")
        await made.write()
        assert made.problems() == []
        (got,) = receiver.requests
        assert ends([got.body]) == [{"w1": 1}]
        assert got.headers["hostler-event"] == "audit.anchored"
        timestamp = int(got.headers["hostler-timestamp"])
        assert got.headers["hostler-signature"] == signature("a secret of a webhook", timestamp, got.body)


async def test_a_place_that_was_away_gets_all_of_it_and_the_others_do_not_wait(
    database: SqlDatabase, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "mount" / "file"
    async with asyncio.timeout(SECONDS), syslog("udp", tmp_path) as (address, got):
        made = writer(database, file=str(file), syslog=address, webhook="siem")
        await record(database, "w1")
        await made.write()
        await record(database, "w2")
        await made.write()
        assert ends([await got.get(), await got.get()]) == [{"w1": 1}, {"w2": 1}]
        assert [one.problem for one in made.problems()] == [
            f"file {file}: No such file or directory",
            "webhook siem: there is no webhook of this name any more",
        ]
        assert "are not anchored now: webhook siem" in caplog.text
        file.parent.mkdir()
        await made.write()
        assert ends(lines_of(file)) == [{"w1": 1, "w2": 1}]
        assert len(made.problems()) == 1


async def test_a_full_disk_is_a_problem_and_no_half_line(database: SqlDatabase) -> None:
    made = writer(database, file="/dev/full")
    await record(database, "w1")
    await made.write()
    assert [one.problem for one in made.problems()] == ["file /dev/full: No space left on device"]


async def test_nothing_is_signed_with_a_key_that_is_short_or_not_there(
    database: SqlDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = writer(database, file=str(tmp_path / "file"))
    monkeypatch.setenv("ANCHOR_KEY", "short")
    await made.write()
    assert "env:ANCHOR_KEY holds 5 characters: expected at least 32" in made.problems()[0].problem
    monkeypatch.delenv("ANCHOR_KEY")
    await made.write()
    assert [one.problem for one in made.problems()] == [
        "env:ANCHOR_KEY: the environment variable ANCHOR_KEY is not set"
    ]
    assert not (tmp_path / "file").exists()
    monkeypatch.setenv("ANCHOR_KEY", KEY)
    await made.write()
    assert (made.problems(), len(lines_of(tmp_path / "file"))) == ([], 1)


async def test_other_settings_are_used_at_once(database: SqlDatabase, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    made = writer(database, file=str(one), every_minutes=1440)
    working = asyncio.create_task(made.keep())
    async with asyncio.timeout(SECONDS):
        while not (one.exists() and one.stat().st_size):
            await asyncio.sleep(0.01)
        made.configure(AuditAnchors(key="env:ANCHOR_KEY", file=str(two), every_minutes=1440))
        while not (two.exists() and two.stat().st_size):
            await asyncio.sleep(0.01)
        made.configure(None)
        await made.finish()
    assert (len(lines_of(one)), len(lines_of(two))) == (1, 1)
    working.cancel()


def test_an_anchor_that_was_altered_is_none() -> None:
    for line, why in (
        (b"nothing", "there is no anchor"),
        (b'{"at": 1}', "it holds no anchor"),
        (b'{"at":1.0,"chains":[],"host":"h","installation":"i","signature":""}', "does not match"),
        (
            '{"at":1.0,"chains":[],"host":"h","installation":"i","signature":"v1=ä"}'.encode(),
            "does not match",
        ),
    ):
        with pytest.raises(ValueError, match=why):
            read_anchor(line, [KEY])
