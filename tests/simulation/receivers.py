"""Simulated receivers of notices, behind the client that the host uses for webhooks."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from hostler.domain.webhooks import ATTEMPT_HEADER, DELIVERY_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER
from hostler.egress import (
    Egress,
    EgressAnswerError,
    EgressTimeoutError,
    EgressUnreachableError,
    ExchangeLimits,
    HttpAnswer,
)
from hostler.simulation.loop import current_process
from simulation.outside import Outside, ServiceError, outside

SECRET_NAME = "HOSTLER_SIMULATED_SECRET"
SECRET = "known to both sides"
os.environ[SECRET_NAME] = SECRET
RETRY_AFTER = 20
"""Seconds that a receiver asks for which answers 429."""


class SimulatedEgress(Egress):
    """The guarded client; its requests reach the simulated receivers."""

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes = b"",
        limits: ExchangeLimits | None = None,
        redirects: Any = "never",
    ) -> AsyncIterator[tuple[HttpAnswer, AsyncIterator[bytes]]]:
        """See Egress."""
        self.check_url(url)
        seconds = (limits or ExchangeLimits()).seconds
        try:
            async with asyncio.timeout(seconds):
                yield await post(outside(), url, headers or {}, content), _nothing()
        except TimeoutError:
            raise EgressTimeoutError(f"no answer within {seconds:g} s") from None

    async def close(self) -> None:
        """See Egress."""


async def _nothing() -> AsyncIterator[bytes]:
    pieces: tuple[bytes, ...] = ()
    for piece in pieces:
        yield piece


async def post(out: Outside, url: str, headers: Mapping[str, str], content: bytes) -> HttpAnswer:
    """Send a notice. Notes when it was sent, received and answered."""
    hook = str(urlsplit(url).hostname).partition(".")[0]
    delivery, process = headers[DELIVERY_HEADER], current_process()
    fault = out.fault(hook)
    names = {"hook": hook, "delivery": delivery, "number": out.asked[hook]}
    lease = out.facts(f"SELECT lease_until FROM deliveries WHERE delivery_id = '{delivery}'")
    out.note(
        "posted",
        **names,
        by=None if process is None else process.name,
        lease_until=lease[0][0] / 1000 if lease else 0.0,
        attempt=int(headers[ATTEMPT_HEADER]),
        body=hashlib.sha256(content).hexdigest()[:16],
        signed=_is_signed(headers, content),
    )

    def receive() -> None:
        out.note("received", **names)

    status: int | None = 200
    try:
        await out.ask(hook, receive, fault)
    except ServiceError as error:
        status = error.status
        if status is None:
            if fault == "down":
                raise EgressUnreachableError(f"{hook} cannot be reached") from None
            raise EgressAnswerError(f"the exchange broke off: {error}") from None
    except asyncio.CancelledError:
        status = None
        raise
    finally:
        out.note("post answered", **names, status=status)
    return HttpAnswer(status or 0, {"retry-after": str(RETRY_AFTER)} if status == 429 else {}, url)


def _is_signed(headers: Mapping[str, str], content: bytes) -> bool:
    """Whether the signature is right, as docs/webhooks.md tells receivers to check it."""
    signed = f"{headers[TIMESTAMP_HEADER]}.".encode() + content
    right = "v1=" + hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    return hmac.compare_digest(right, headers[SIGNATURE_HEADER])
