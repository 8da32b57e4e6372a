"""Two hosts' ends of the way between them, on one PostgreSQL: channels move while requests are under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from hostler.channels import request_forwarding
from hostler.channels.channel_service import ChannelService
from hostler.channels.request_forwarding import RequestForwarding
from hostler.domain.channel_requests import SilentHostError, WrongAnswerError
from hostler.storage.port import Query
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import channel_connections as connections
from hostler.storage.stores import forwarded_requests as forwarded
from hostler.storage.stores.channel_connections import Hold
from hostler_protocol.channels import ChannelRequestParams, ChannelResponse
from hostler_protocol.errors import UnavailableError
from support.databases import TEST_SECONDS

pytestmark = [
    pytest.mark.timeout(TEST_SECONDS + 10),
    pytest.mark.gate("channel-calls"),
    pytest.mark.parametrize(
        "database_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
    ),
]
REQUEST = ChannelRequestParams(channel_id="chat", method="POST")
COUNT = Query("count", *["SELECT count(*) AS number FROM forwarded_requests"] * 2)
LONG = 100.0
"""Seconds for an answer: no test waits so long for one."""
LONG_MS = 600_000


class _Channel:
    """A channel that is open: it answers once it may."""

    def __init__(self, host_id: str) -> None:
        self.host_id = host_id
        self.asked = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.status = 200

    async def request(self, params: ChannelRequestParams, seconds: float) -> ChannelResponse:
        self.asked += 1
        assert 0 < seconds <= LONG
        await self.may_answer.wait()
        return ChannelResponse(status=self.status, headers={"x": self.host_id})


class _Host:
    """What two hosts have of each other: the database. `channel`: it has it open."""

    def __init__(self, host_id: str, db: SqlDatabase) -> None:
        self.host_id, self.db, self.has_entries = host_id, db, True
        self.channel: _Channel | None = None
        self.looked = asyncio.Event()
        """Set once it has found a request while it had no channel open."""
        self.forwarding = RequestForwarding(db, "w", host_id, cast(ChannelService, self))
        self.working: asyncio.Task[None] | None = None

    @property
    def open_names(self) -> list[str]:
        if self.channel is None:
            self.looked.set()
        return [] if self.channel is None else ["chat"]

    def find_open(self, name: str) -> Any:
        return self.channel

    async def acquire(self) -> _Channel:
        """Take the channel, whoever has it, and open it."""
        hold = Hold("w", "chat", f"token of {self.host_id}")
        assert await self.db.write(
            lambda tx: connections.acquire(tx, hold, self.host_id, LONG_MS, alone=True)
        )
        self.channel = _Channel(self.host_id)
        return self.channel

    def work(self) -> None:
        self.working = asyncio.create_task(self.forwarding.work(lambda: None))

    async def ask(self, seconds: float = LONG) -> str:
        """Have the owner answer; return which host did."""
        owner = await self.forwarding.owner_of("chat")
        assert owner is not None
        return (await self.forwarding.ask(owner, REQUEST, seconds)).headers["x"]

    async def stop(self) -> None:
        if self.working is not None:
            self.working.cancel()
            await asyncio.wait([self.working])


@asynccontextmanager
async def hosts(database_url: str, *working: str) -> AsyncIterator[list[_Host]]:
    """Three hosts; those that are named work."""
    found = [_Host(name, open_database(database_url)) for name in ("h1", "h2", "h3")]
    for host in found:
        if host.host_id in working:
            host.work()
    try:
        async with asyncio.timeout(TEST_SECONDS):
            yield found
    finally:
        for host in found:
            await host.stop()
            await host.db.close()


async def sent(host: _Host, *, taken: bool) -> None:
    """Wait until a request is under way, and not taken or taken."""
    while True:
        states = await host.db.read(
            lambda tx: forwarded.states(tx, "w", list(host.forwarding._watched) or ["none"])
        )
        if [one.taken for one in states.values()] == [taken]:
            return
        await asyncio.sleep(0.02)


async def gone(host: _Host) -> None:
    """Wait until no request is under way in the database."""
    while await host.db.read(lambda tx: tx.one(COUNT)) != {"number": 0}:
        await asyncio.sleep(0.02)


async def test_the_host_that_has_the_channel_answers(database_url: str) -> None:
    async with hosts(database_url, "h1", "h2") as (one, two, _):
        channel = await one.acquire()
        assert await one.forwarding.owner_of("chat") is None, "it asks nobody for its own"
        assert [await two.ask() for _ in range(3)] == ["h1"] * 3
        channel.status = 302
        with pytest.raises(WrongAnswerError, match="leads nowhere"):
            await two.ask()
        assert channel.asked == two.forwarding.counts["chat"] == 4
        assert not one.forwarding.counts


async def test_a_request_goes_on_to_the_host_that_got_the_channel_before_it_was_taken(
    database_url: str,
) -> None:
    async with hosts(database_url, "h2", "h3") as (one, two, three):
        was = await one.acquire()
        asked = asyncio.create_task(two.ask())
        await sent(two, taken=False)
        await three.acquire()
        assert await asked == "h3"
        one.work()  # it does not know yet that it has lost the channel
        assert await two.ask() == "h3"
        assert was.asked == 0


async def test_a_request_comes_back_to_the_host_that_got_the_channel(database_url: str) -> None:
    async with hosts(database_url, "h2") as (one, two, _):
        was = await one.acquire()
        asked = asyncio.create_task(two.ask())
        await sent(two, taken=False)
        channel = await two.acquire()
        two.channel = None
        await gone(two)
        two.channel = channel  # it had to open it first
        assert await asked == "h2"
        assert await two.forwarding.owner_of("chat") is None
        assert was.asked == 0


async def test_a_request_goes_on_from_a_host_that_has_let_go(database_url: str) -> None:
    async with hosts(database_url, "h2", "h3") as (one, two, three):
        await one.acquire()
        owner = await two.forwarding.owner_of("chat")
        assert owner is not None
        await three.acquire()
        one.work()
        response = await two.forwarding.ask(owner, REQUEST, LONG)  # with what it knew a moment ago
        assert response.headers["x"] == "h3"
        channel, three.channel = three.channel, None
        asked = asyncio.create_task(two.forwarding.ask(owner, REQUEST, LONG))
        await three.looked.wait()  # it is still opening it
        three.channel = channel
        assert (await asked).headers["x"] == "h3"
        three.channel = None
        with pytest.raises(UnavailableError, match="let go"):
            await two.ask()  # a host that has it, and has it not open, is no move


async def test_a_request_that_was_taken_is_given_to_no_other_host(database_url: str) -> None:
    async with hosts(database_url, "h1", "h2", "h3") as (one, two, three):
        channel = await one.acquire()
        channel.may_answer.clear()
        asked = asyncio.create_task(two.ask())
        await sent(two, taken=True)
        other = await three.acquire()
        with pytest.raises(UnavailableError, match="let go"):
            await asked
        assert (channel.asked, other.asked) == (1, 0)
        channel.may_answer.set()
        assert await two.ask() == "h3"


async def test_a_lease_that_ends_without_a_next_owner_ends_what_was_taken(database_url: str) -> None:
    async with hosts(database_url, "h1", "h2") as (one, two, _):
        channel = await one.acquire()
        channel.may_answer.clear()
        asked = asyncio.create_task(two.ask())
        await sent(two, taken=True)
        await one.db.write(lambda tx: connections.release(tx, Hold("w", "chat", "token of h1")))
        with pytest.raises(UnavailableError, match="let go"):
            await asked
        assert await two.forwarding.owner_of("chat") is None


async def test_what_is_under_way_is_bounded_in_number_and_time(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_forwarding, "MAX_REQUESTS_AT_ONCE", 1)
    async with hosts(database_url, "h2") as (one, two, _):
        channel = await one.acquire()
        asked = asyncio.create_task(two.ask())
        await sent(two, taken=False)
        with pytest.raises(UnavailableError, match="already"):
            await two.ask()
        asked.cancel()
        await asyncio.wait([asked])
        with pytest.raises(SilentHostError):
            await two.ask(0.1)
        one.work()
        assert await two.ask() == "h1"
        assert channel.asked == 1, "nobody waits for the others any more"


async def test_bytes_to_other_hosts_are_bounded_of_each_channel(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_forwarding, "KIB_PER_SECOND", 0.001)
    monkeypatch.setattr(request_forwarding, "KIB_AT_ONCE", 3.0)
    async with hosts(database_url, "h1", "h2") as (one, two, _):
        await one.acquire()
        owner = await two.forwarding.owner_of("chat")
        assert owner is not None
        large = ChannelRequestParams(channel_id="chat", method="POST", body_base64="x" * 1500)
        for _ in range(2):
            assert (await two.forwarding.ask(owner, large, LONG)).status == 200
        with pytest.raises(UnavailableError, match="too much"):
            await two.forwarding.ask(owner, large, LONG)
        with pytest.raises(UnavailableError, match="too much"):
            await two.ask()
        other = ChannelRequestParams(channel_id="other", method="POST")
        with pytest.raises(UnavailableError, match="let go"):  # it got there, and nobody has that one
            await two.forwarding.ask(owner, other, LONG)


async def test_a_host_that_stops_tells_what_is_under_way(database_url: str) -> None:
    async with hosts(database_url, "h2") as (one, two, _):
        await one.acquire()
        asked = asyncio.create_task(two.ask())
        await sent(two, taken=False)
        await two.stop()
        with pytest.raises(UnavailableError, match="stops"):
            await asked
        two.work()
        one.work()
        assert await two.ask() == "h1"


async def test_a_request_that_is_gone_is_to_be_sent_again(database_url: str) -> None:
    """As after a crash of the database, which empties the table."""
    async with hosts(database_url, "h2") as (one, two, _):
        await one.acquire()
        asked = asyncio.create_task(two.ask())
        await sent(two, taken=False)
        (request_id,) = two.forwarding._watched
        await one.db.write(lambda tx: forwarded.delete(tx, "w", request_id))
        with pytest.raises(UnavailableError, match="lost on its way"):
            await asked
