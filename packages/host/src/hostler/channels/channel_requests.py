"""Requests of platforms to the addresses of channels: bounded, given to the plugin, and answered as it says.

The plugin knows who may call it. What it refuses is audited, within bounds; of a request nothing is kept.
Where hosts share a database, the one that has the channel open is asked; rates, refusals and counts are those
of the host that was called.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

from hostler.channels.channel_service import ChannelService
from hostler.channels.open_channel import OpenChannel
from hostler.channels.request_forwarding import CLOSED_RETRY_SECONDS, RequestForwarding
from hostler.channels.request_refusals import Refused, RequestRefusals
from hostler.domain.channel_requests import PlatformAnswer, SilentHostError, WrongAnswerError, answer_of
from hostler.domain.clock import monotonic_clock
from hostler.domain.token_bucket import TokenBuckets
from hostler.secrets.known_values import redact
from hostler.storage.port import Database
from hostler.storage.stores.forwarded_requests import Owner
from hostler.tools.errors import OutcomeUnknownError
from hostler_protocol.channels import ChannelRequestParams, ChannelResponse
from hostler_protocol.errors import (
    HostlerError,
    NotFoundError,
    RateLimitedError,
    StorageError,
    UnavailableError,
)

log = logging.getLogger(__name__)

REQUESTS_PER_SECOND = 50.0
REQUEST_BURST = 250.0
"""Of one address to one channel: platforms deliver in bursts, from a few addresses."""
MAX_ADDRESSES = 10_000
ANSWER_SECONDS = 25.0
"""How long the plugin may take: platforms give up after three to sixty seconds, and repeat."""
FLUSH_SECONDS = 5.0
_REFUSALS = frozenset({401, 403})


class ChannelRequests:
    """The addresses of the channels of a host, `/v1/channels/NAME/webhook`."""

    def __init__(
        self,
        db: Database,
        workspace_id: str,
        channels: ChannelService,
        forwarding: RequestForwarding,
        clock: Callable[[], float] = monotonic_clock,
    ) -> None:
        self._workspace = workspace_id
        self._channels = channels
        self.forwarding = forwarding
        self._refusals = RequestRefusals(db, clock)
        self._rates = TokenBuckets(REQUESTS_PER_SECOND, REQUEST_BURST, clock=clock, max_buckets=MAX_ADDRESSES)
        self.answer_seconds = ANSWER_SECONDS
        self.counts: Counter[tuple[str, str]] = Counter()
        """Requests by channel and outcome since the start: `answered`, `refused` by the plugin, `rate`,
        `closed` and `failed`."""

    async def admit(self, name: str, address: str) -> OpenChannel | Owner:
        """Return the open channel that a request is for, or the host that has it, before its body is read.

        NotFoundError if none of this name takes requests; RateLimitedError; UnavailableError if no host has
        the channel open; StorageError if that cannot be read.
        """
        if not self._channels.is_configured(name):
            raise _missing()
        if wait := self._rates.take(f"{name} {address}"):
            self.counts[name, "rate"] += 1
            raise RateLimitedError("too many requests from this address", round(wait, 3))
        found = self._channels.find_open(name) or await self.forwarding.owner_of(name)
        if found is None:
            self.counts[name, "closed"] += 1
            raise UnavailableError(
                "this channel is not connected now; send it again later", retry_after=CLOSED_RETRY_SECONDS
            )
        if not found.abilities.webhook:
            raise _missing()
        return found

    async def answer(
        self, admitted: OpenChannel | Owner, request: ChannelRequestParams, address: str
    ) -> PlatformAnswer:
        """Give a request to the plugin, and return what the platform is answered.

        UnavailableError if it should be sent again, SilentHostError if another host has the channel and does
        not answer in time; WrongAnswerError for an answer that no platform gets. What the plugin says in a
        refusal is for the log alone: anybody can ask here.
        """
        name = request.channel_id
        try:
            answer = answer_of(await self._response(admitted, request))
        except (WrongAnswerError, SilentHostError) as error:
            self.counts[name, "failed"] += 1
            log.warning("channel %s: %s", name, error.message)
            raise
        except (HostlerError, OutcomeUnknownError) as error:
            self.counts[name, "failed"] += 1
            log.warning("channel %s could not answer its platform: %s", name, redact(error.message))
            raise UnavailableError("this channel cannot take it now; send it again later") from error
        if answer.left_out:
            log.warning(
                "channel %s: left out of an answer to its platform: %s", name, ", ".join(answer.left_out)
            )
        if answer.status in _REFUSALS:
            self.counts[name, "refused"] += 1
            refused = Refused(self._workspace, name, "channel.refused", str(answer.status))
            await self._refusals.note(refused, address)
        else:
            self.counts[name, "answered"] += 1
        return answer

    async def _response(
        self, admitted: OpenChannel | Owner, request: ChannelRequestParams
    ) -> ChannelResponse:
        if isinstance(admitted, Owner):
            return await self.forwarding.ask(admitted, request, self.answer_seconds)
        return await admitted.request(request, self.answer_seconds)

    async def work(self, succeeded: Callable[[], None]) -> None:
        """Write the counted refusals into the audit log, and forget counts of removed channels. A worker."""
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            for key in [key for key in self.counts if not self._channels.is_configured(key[0])]:
                del self.counts[key]
            self.forwarding.forget_removed()
            try:
                await self._refusals.flush()
                await self.forwarding.sweep()
            except StorageError as error:
                log.warning("refusals of channels cannot be audited now: %s", error.message)
                continue
            succeeded()

    async def close(self) -> None:
        """Write what was counted and not written yet."""
        await self._refusals.flush(all_of_them=True)


def _missing() -> NotFoundError:
    return NotFoundError("there is no channel that takes requests at this address")
