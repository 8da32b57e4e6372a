"""Requests of platforms that reached another host than the one that has the channel: they go there and back
through the database that both share.

A request is a row for one host, which takes it once and forwards nothing: it cannot go round. Nobody but a
host can write there, so what is found needs no other proof. Hosts look more often while one is under way.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from hostler.channels.channel_service import ChannelService
from hostler.channels.open_channel import MAX_REQUESTS_AT_ONCE, OpenChannel
from hostler.domain.channel_requests import SilentHostError, WrongAnswerError, answer_of
from hostler.domain.channels import MAX_CHANNELS
from hostler.domain.clock import monotonic_clock
from hostler.domain.token_bucket import TokenBuckets
from hostler.secrets.known_values import redact
from hostler.storage.port import Database, Tx
from hostler.storage.stores import forwarded_requests as forwarded
from hostler.storage.stores.forwarded_requests import ForwardedAnswer, ForwardedState, Owner, TakenRequest
from hostler.tools.errors import OutcomeUnknownError
from hostler_protocol.channels import ChannelRequestParams, ChannelResponse
from hostler_protocol.errors import HostlerError, StorageError, UnavailableError
from hostler_protocol.ids import new_id
from hostler_protocol.limits import KIB

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.2
"""Between looks for requests of other hosts: some platforms give up after three seconds."""
IDLE_LOOK_SECONDS = 2.0
"""The same while no channel is configured, as often as configurations are looked at."""
BUSY_LOOK_SECONDS = 0.05
"""The same while a request is under way, and for BUSY_SECONDS after it: others may follow."""
BUSY_SECONDS = 5.0
RETRY_SECONDS = 1.0
"""Before the next look if the database does not respond."""
HOP_SECONDS = 1.0
"""Of the time for an answer, what is left to the way back, so that a slow plugin is told from a silent host.
Also how long the row of an answered request may take to be deleted before the platform gets its answer."""
CLOSED_RETRY_SECONDS = 5.0
"""After this the platform may ask again where no host has the channel open."""
KIB_PER_SECOND = 2048.0
KIB_AT_ONCE = 16_384.0
"""Of a channel, to other hosts: anybody can call, and what goes through the database delays its other writes.
Most calls have a few KiB; so many at once are sixteen of the largest."""
_MOVED = "the host that has this channel let go of it"
T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Watched:
    """A request that this host waits for. `token`: of the lease of the host that it is for."""

    token: str
    news: asyncio.Future[ForwardedState | None]
    """Done once something is to be done; None: the request is gone."""


class RequestForwarding:
    """Sends requests to the hosts that have their channels, and answers those of others while `work` runs."""

    def __init__(
        self,
        db: Database,
        workspace_id: str,
        host_id: str,
        channels: ChannelService,
        clock: Callable[[], float] = monotonic_clock,
    ) -> None:
        self._db = db
        self._workspace = workspace_id
        self._host_id = host_id
        self._channels = channels
        self._clock = clock
        self._watched: dict[str, _Watched] = {}
        self._under_way: Counter[str] = Counter()
        """Requests that this host has sent, by channel."""
        self._taken = 0
        self._busy_until = 0.0
        self._sizes = TokenBuckets(KIB_PER_SECOND, KIB_AT_ONCE, clock=clock, max_buckets=MAX_CHANNELS)
        self._wake = asyncio.Event()
        self.counts: Counter[str] = Counter()
        """Requests that were sent to other hosts since the start, by channel."""

    async def owner_of(self, name: str) -> Owner | None:
        """Return the other host that has a channel, or None. StorageError."""
        if not self._db.shared:
            return None
        found = await self._db.read(lambda tx: forwarded.owner_of(tx, self._workspace, name), brief=True)
        return None if found is None or found.host_id == self._host_id else found

    # -- to other hosts ---------------------------------------------------------------------------

    async def ask(self, owner: Owner, request: ChannelRequestParams, seconds: float) -> ChannelResponse:
        """Have the host that has a channel answer a request, and return what its plugin says.

        SilentHostError if it does not within `seconds`; WrongAnswerError; UnavailableError if the request
        should be sent again.
        """
        name, request_id = request.channel_id, new_id()
        if self._under_way[name] >= MAX_REQUESTS_AT_ONCE:
            raise UnavailableError(f"{self._under_way[name]} requests are with other hosts already")
        if self._sizes.take(name, max(1.0, len(request.body_base64) / KIB)):
            raise UnavailableError("too much is on its way to other hosts")
        self.counts[name] += 1
        self._under_way[name] += 1
        try:
            async with asyncio.timeout(seconds):
                return await self._ask(request_id, owner, request, self._clock() + seconds)
        except TimeoutError:
            raise SilentHostError(
                f"the host that has this channel did not answer within {seconds:g} s; send it again later",
                retry_after=CLOSED_RETRY_SECONDS,
            ) from None
        finally:
            self._watched.pop(request_id, None)
            self._under_way[name] -= 1
            if not self._under_way[name]:
                del self._under_way[name]
            with contextlib.suppress(StorageError, TimeoutError):  # what is left is deleted once it is old
                async with asyncio.timeout(HOP_SECONDS):
                    await self._write(
                        partial(forwarded.delete, workspace_id=self._workspace, request_id=request_id)
                    )

    async def _ask(
        self, request_id: str, owner: Owner, request: ChannelRequestParams, until: float
    ) -> ChannelResponse:
        ws, within_ms = self._workspace, int((until - self._clock()) * 1000)
        await self._write(lambda tx: forwarded.send(tx, ws, request_id, owner.host_id, request, within_ms))
        state = await self._news_of(request_id, owner.token)
        moved_to = _moved_to(state, owner)
        if moved_to is None:
            return _response_of(state)
        # the channel has moved before its host took the request: it goes on from here, and no further
        if moved_to.host_id == self._host_id:
            return await self._answered_here(request_id, request, until)
        return await self._sent_on(request_id, moved_to)

    async def _sent_on(self, request_id: str, owner: Owner) -> ChannelResponse:
        """Have the host that has just got the channel answer a request, once it has opened it."""
        ws = self._workspace
        while await self._write(lambda tx: forwarded.redirect(tx, ws, request_id, owner.host_id)):
            state = await self._news_of(request_id, owner.token)
            if not _is_being_opened(state, owner):
                return _response_of(state)
            await asyncio.sleep(LOOK_SECONDS)
        raise UnavailableError(_MOVED)

    async def _answered_here(
        self, request_id: str, request: ChannelRequestParams, until: float
    ) -> ChannelResponse:
        """Answer a request whose channel this host has just got, once it has opened it."""
        ws, name = self._workspace, request.channel_id
        holds = await self._write(lambda tx: forwarded.withdraw(tx, ws, request_id))
        while holds:
            if (channel := self._channels.find_open(name)) is not None:
                return await channel.request(request, until - self._clock())
            await asyncio.sleep(LOOK_SECONDS)
            owner = await self._db.read(lambda tx: forwarded.owner_of(tx, ws, name), brief=True)
            holds = owner is not None and owner.host_id == self._host_id
        raise UnavailableError(_MOVED)

    async def _news_of(self, request_id: str, token: str) -> ForwardedState | None:
        """Wait until a request is answered, its channel is another host's, or it is gone."""
        watched = _Watched(token, asyncio.get_running_loop().create_future())
        self._watched[request_id] = watched
        self._wake.set()
        return await watched.news

    # -- both ways --------------------------------------------------------------------------------

    async def work(self, succeeded: Callable[[], None]) -> None:
        """Look for answers, and for requests of other hosts, which are answered. A worker."""
        self._taken = 0
        try:
            async with asyncio.TaskGroup() as answering:
                while True:
                    self._wake.clear()
                    try:
                        for one in await self._look():
                            self._taken += 1
                            answering.create_task(self._answer(one))
                    except StorageError as error:
                        log.warning("requests for channels of other hosts wait: %s", error.message)
                        await asyncio.sleep(RETRY_SECONDS)
                        continue
                    succeeded()
                    await self._pause()
        finally:
            for watched in self._watched.values():
                if not watched.news.done():
                    watched.news.set_exception(UnavailableError("this host stops; send it again later"))

    async def sweep(self) -> None:
        """Delete requests whose hosts are gone. StorageError."""
        if self._db.shared and await self._db.read(
            lambda tx: forwarded.has_old(tx, self._workspace), brief=True
        ):
            while await self._write(partial(forwarded.drop_old, workspace_id=self._workspace)):
                pass

    def forget_removed(self) -> None:
        """Forget the counts of channels that were removed."""
        for name in [name for name in self.counts if not self._channels.is_configured(name)]:
            del self.counts[name]

    async def _pause(self) -> None:
        if self._watched or self._taken or self._clock() < self._busy_until:
            await asyncio.sleep(BUSY_LOOK_SECONDS)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS if self._channels.has_entries else IDLE_LOOK_SECONDS):
                await self._wake.wait()

    async def _look(self) -> list[TakenRequest]:
        """Pass on what is known of requests of this host; return what it has taken of others."""
        ws, host_id, watched = self._workspace, self._host_id, dict(self._watched)
        serves = self._channels.has_entries
        if not watched and not serves:
            return []

        def look(tx: Tx) -> tuple[dict[str, ForwardedState], bool]:
            found = forwarded.states(tx, ws, list(watched)) if watched else {}
            return found, serves and forwarded.is_sent_to(tx, ws, host_id)

        states, waiting = await self._db.read(look, brief=True)
        for request_id, one in watched.items():
            state = states.get(request_id)
            if not one.news.done() and (state is None or _is_news(state, one.token)):
                one.news.set_result(state)
        if not waiting:
            return []
        self._busy_until = self._clock() + BUSY_SECONDS
        names = self._channels.open_names
        return await self._write(lambda tx: forwarded.take(tx, ws, host_id, names, MAX_REQUESTS_AT_ONCE))

    async def _answer(self, taken: TakenRequest) -> None:
        """Answer a request of another host."""
        try:
            channel = self._channels.find_open(taken.channel)
            if channel is None:
                answer = ForwardedAnswer(outcome="closed")
            else:
                left = taken.left_ms / 1000
                answer = await _answer_of(channel, taken.request, max(left - HOP_SECONDS, left / 2))
            await self._write(lambda tx: forwarded.answer(tx, self._workspace, self._host_id, taken, answer))
        except StorageError as error:
            log.warning("channel %s: its answer did not reach the other host: %s", taken.channel, error)
        finally:
            self._taken -= 1

    async def _write(self, work: Callable[[Tx], T]) -> T:
        # unsynced: after a crash of the database the platform sends it again
        return await self._db.write(work, synced=False)


def _is_news(state: ForwardedState, token: str) -> bool:
    """Whether something is to be done about a request for the host whose lease has this token.

    One that nobody has taken waits for whoever gets the channel.
    """
    if state.answer is not None:
        return True
    return state.taken if state.owner is None else state.owner.token != token


def _moved_to(state: ForwardedState | None, owner: Owner) -> Owner | None:
    """Return who has the channel of a request now, if no plugin was given it and it is another one."""
    if state is None or state.owner is None or state.owner.token == owner.token:
        return None
    untouched = not state.taken if state.answer is None else state.answer.outcome == "closed"
    return state.owner if untouched else None


def _is_being_opened(state: ForwardedState | None, owner: Owner) -> bool:
    """Whether the host that has a channel by its lease said that it has not opened it yet."""
    if state is None or state.answer is None or state.owner is None:
        return False
    return state.answer.outcome == "closed" and state.owner.token == owner.token


def _response_of(state: ForwardedState | None) -> ChannelResponse:
    """Return what the plugin answered. UnavailableError, WrongAnswerError."""
    if state is None:
        raise UnavailableError("the request was lost on its way to the host that has this channel")
    given = state.answer
    if given is None or given.outcome == "closed":
        raise UnavailableError(_MOVED, retry_after=CLOSED_RETRY_SECONDS)
    if given.outcome == "wrong":
        raise WrongAnswerError(given.reason)
    if given.response is None:
        raise UnavailableError(given.reason)
    return given.response


async def _answer_of(channel: OpenChannel, request: ChannelRequestParams, seconds: float) -> ForwardedAnswer:
    """Give a request to the plugin, and return what became of it."""
    try:
        response = await channel.request(request, seconds)
        answer_of(response)
    except WrongAnswerError as error:
        return ForwardedAnswer(outcome="wrong", reason=redact(error.message))
    except (HostlerError, OutcomeUnknownError) as error:
        return ForwardedAnswer(outcome="failed", reason=redact(error.message))
    return ForwardedAnswer(outcome="answered", response=response)
