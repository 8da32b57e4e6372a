"""The webhook sender: delivers notices to webhooks, from any host, across restarts.

Each receiver has its own lane on this host, so that a slow one does not delay others. A try holds a lease in
the database for longer than it can take, so two hosts do not send the same delivery at once. If a host dies
during a try, it is repeated with the same `Hostler-Delivery`. Addresses, secrets and the responses of
receivers never reach a log or a table: receivers appear by name.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

import msgspec

from hostler.domain.clock import chance, wall_clock
from hostler.domain.hook_signatures import HookSecretError
from hostler.domain.webhooks import (
    ATTEMPT_HEADER,
    EVENT_HEADER,
    GONE,
    MAX_ATTEMPTS,
    Webhook,
    check_address,
    signed_headers,
    wait_seconds,
)
from hostler.egress import (
    Egress,
    EgressAnswerError,
    EgressPolicy,
    EgressRefusedError,
    EgressTimeoutError,
    EgressUnreachableError,
    ExchangeLimits,
    HttpAnswer,
    Network,
)
from hostler.secrets.known_values import redact
from hostler.secrets.stored import Resolve, StoredSecrets
from hostler.storage.port import Database, Tx
from hostler.storage.stores import notices
from hostler.storage.stores.notices import ClaimedDelivery, DueWebhook
from hostler.version import VERSION
from hostler_protocol.errors import InvalidArgumentError, StorageError

log = logging.getLogger(__name__)

TRY_SECONDS = 10.0
"""The timeout of one try: a receiver that needs longer should respond first and work afterwards."""
LEASE_SECONDS = 3 * TRY_SECONDS
MAX_LANES = 16
"""Receivers served at once by this host."""
POLL_SECONDS = 1.0
"""Interval of the search for notices: a walk over the webhooks in an index of pending deliveries."""
MIN_PAUSE_SECONDS = 0.05


class UndeliverableError(Exception):
    """A failed try. `final`: it is not repeated. `retry_after`: seconds that the receiver requested."""

    def __init__(
        self, reason: str, *, status: int | None = None, final: bool = False, retry_after: float | None = None
    ) -> None:
        self.reason = redact(reason)
        super().__init__(self.reason)
        self.status = status
        self.final = final
        self.retry_after = retry_after


class WebhookSender:
    """Delivers due notices while `work` runs; call `close` after it. `pace` scales the waits."""

    def __init__(
        self,
        db: Database,
        workspace_id: str,
        *,
        try_seconds: float | None = None,
        pace: float = 1.0,
        network: Network | None = None,
        now: Callable[[], float] = wall_clock,
        jitter: Callable[[], float] = chance,
        resolve: Resolve | None = None,
    ) -> None:
        self._db = db
        self._workspace = workspace_id
        self._try_seconds = TRY_SECONDS if try_seconds is None else try_seconds
        self._lease_ms = int(max(LEASE_SECONDS, 3 * self._try_seconds) * 1000)
        self._pace = pace
        self._network = network
        self._now = now
        self._jitter = jitter
        self._resolve = resolve or StoredSecrets().resolve
        self._wake = asyncio.Event()
        self._lanes: dict[DueWebhook, asyncio.Task[None]] = {}
        self._failures: list[Exception] = []
        """Unexpected errors of lanes, which `work` raises. The other lanes go on meanwhile."""

    def wake(self) -> None:
        """Search for due deliveries at once."""
        self._wake.set()

    async def work(self, succeeded: Callable[[], None] = lambda: None) -> None:
        """Deliver due notices. A worker of the host."""
        while True:
            if self._failures:
                failures, self._failures = self._failures, []
                raise ExceptionGroup("the deliveries of webhooks failed", failures)
            wait = POLL_SECONDS
            try:
                wait = await self._start_lanes()
                succeeded()
            except StorageError as error:
                log.warning("notices cannot be read: %s", error)
            await self._sleep(wait)

    async def close(self) -> None:
        """Give up the tries under way; another host, or the next start, repeats them."""
        lanes = list(self._lanes.values())
        for lane in lanes:
            lane.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)

    async def _start_lanes(self) -> float:
        """Start a lane for each receiver with due deliveries; return the seconds to the next search.

        The end of a lane wakes this worker.
        """

        def look(tx: Tx) -> tuple[list[DueWebhook], float | None]:
            return notices.due(tx), notices.seconds_to_next(tx)

        receivers, wait = await self._db.read(look)
        free = [receiver for receiver in receivers if receiver not in self._lanes]
        for receiver in free[: MAX_LANES - len(self._lanes)]:
            task = asyncio.create_task(self._lane(receiver), name=f"webhook {receiver.webhook}")
            self._lanes[receiver] = task
            task.add_done_callback(partial(self._lane_ended, receiver))
        return POLL_SECONDS if wait is None else min(wait, POLL_SECONDS)

    def _lane_ended(self, receiver: DueWebhook, lane: asyncio.Task[None]) -> None:
        del self._lanes[receiver]
        if not lane.cancelled() and isinstance(error := lane.exception(), Exception):
            error.add_note(f"in a delivery to webhook {receiver.webhook}")
            self._failures.append(error)
        self._wake.set()

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(MIN_PAUSE_SECONDS, seconds)):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def _lane(self, receiver: DueWebhook) -> None:
        """Deliver what is due to one receiver, one delivery after the other."""
        try:
            while claimed := await self._db.write(
                lambda tx: notices.claim(tx, receiver, self._lease_ms), synced=False
            ):
                await self._deliver(claimed)
        except StorageError as error:
            log.warning("webhook %s: its deliveries cannot be read: %s", receiver.webhook, error)
            await asyncio.sleep(POLL_SECONDS)

    async def _deliver(self, claimed: ClaimedDelivery) -> None:
        delivery = claimed.delivery
        try:
            status = await self._try(claimed)
        except UndeliverableError as error:
            attempts = delivery.attempts
            wait: float | None = None
            if not error.final and attempts < MAX_ATTEMPTS:
                wait = wait_seconds(attempts, self._jitter(), error.retry_after) * self._pace
            log.log(
                logging.WARNING if wait is None else logging.INFO,
                "webhook %s: try %d of %s failed: %s; %s",
                delivery.webhook,
                attempts,
                delivery.delivery_id,
                error.reason,
                "given up" if wait is None else f"again in {wait:.0f} s",
            )
            reason, http_status = error.reason, error.status
            await self._db.write(
                lambda tx: notices.mark_failed(
                    tx, claimed, http_status=http_status, error=reason, again_in=wait
                )
            )
        else:
            await self._db.write(lambda tx: notices.mark_delivered(tx, claimed, status))

    async def _try(self, claimed: ClaimedDelivery) -> int:
        """Send a delivery once; return the status of the response. UndeliverableError."""
        delivery = claimed.delivery
        return await self._post(
            await self._receiver(delivery.workspace_id, delivery.webhook),
            delivery.event,
            delivery.delivery_id,
            msgspec.json.encode(claimed.body),
            attempt=delivery.attempts,
        )

    async def post(self, name: str, event: str, delivery_id: str, body: bytes) -> int:
        """Send a body that is no notice to a webhook, once; return the status. UndeliverableError."""
        return await self._post(await self._receiver(self._workspace, name), event, delivery_id, body)

    async def _post(
        self, receiver: tuple[Webhook, str, str], event: str, delivery_id: str, body: bytes, attempt: int = 1
    ) -> int:
        webhook, url, secret = receiver
        try:
            signed = signed_headers(secret, delivery_id, int(self._now()), body)
        except HookSecretError as error:
            raise UndeliverableError(str(error)) from None
        headers = {
            "content-type": "application/json",
            "user-agent": f"hostler/{VERSION}",
            **signed,
            EVENT_HEADER: event,
            ATTEMPT_HEADER: str(attempt),
        }
        response = await self._send(webhook, url, headers, body)
        check_response(response)
        return response.status

    async def _send(self, webhook: Webhook, url: str, headers: dict[str, str], body: bytes) -> HttpAnswer:
        """Return the head of the response; its body is never read.

        UndeliverableError, without the address.
        """
        policy = EgressPolicy.of(webhook.network, any_port=True)
        egress = Egress(policy, network=self._network)
        return await post_once(egress, webhook.name, url, headers, body, self._try_seconds)

    async def _receiver(self, workspace_id: str, name: str) -> tuple[Webhook, str, str]:
        webhooks = await self._db.read(lambda tx: notices.webhooks(tx, workspace_id))
        webhook = next((webhook for webhook in webhooks if webhook.name == name), None)
        if webhook is None:
            raise UndeliverableError("there is no webhook of this name any more", final=True)
        try:
            user = f"webhook {name}"
            url = await asyncio.to_thread(self._resolve, webhook.url, user)
            secret = await asyncio.to_thread(self._resolve, webhook.secret, user)
            check_address(name, url or "")
        except InvalidArgumentError as error:
            raise UndeliverableError(error.message) from None
        return webhook, url or "", secret or ""


async def post_once(  # noqa: PLR0917
    egress: Egress, name: str, url: str, headers: dict[str, str], body: bytes, seconds: float
) -> HttpAnswer:
    """Send a body once, close the egress, and return the head of the response, whose body is never read.

    UndeliverableError, which calls the receiver `name` and never tells its address.
    """
    limits = ExchangeLimits(seconds=seconds)
    try:
        async with egress.stream("POST", url, headers=headers, content=body, limits=limits) as (head, _):
            return head
    except EgressRefusedError:
        raise UndeliverableError("its address is not public, and not listed under its `network`") from None
    except EgressUnreachableError:
        raise UndeliverableError(f"{name} cannot be reached") from None
    except (EgressTimeoutError, EgressAnswerError) as error:
        raise UndeliverableError(error.message) from None
    finally:
        await egress.close()


def check_response(response: HttpAnswer) -> None:
    """Raise UndeliverableError unless the status is 2xx.

    Redirects are not followed: a signed body goes only to the configured address.
    """
    status = response.status
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise UndeliverableError("it redirects, which is not followed: correct its url", status=status)
    header = response.headers.get("retry-after", "")
    retry_after = float(header) if header.isascii() and header.isdecimal() and len(header) < 7 else None
    raise UndeliverableError(
        f"it answered {status}", status=status, final=status == GONE, retry_after=retry_after
    )
