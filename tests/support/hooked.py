"""Senders of requests to hooks: each signs as its maker does."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec

from hostler.domain.hook_samples import SignedRequest, sample_of, signed
from hostler.domain.hook_signatures import FORM_TYPE
from hostler.domain.hooks import Hook

STANDARD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SECRET = "the secret of the hooks of these tests"
_numbers = itertools.count(1)


def secret_of(hook: Hook) -> str:
    """A secret that the hook's verifier can use."""
    return STANDARD_SECRET if hook.verify == "standard" else SECRET


@dataclass
class Sender:
    """Another service, which sends to one hook of the host at `url`."""

    client: httpx.AsyncClient
    hook: Hook
    secret: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def request(
        self,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        message_id: str | None = None,
        query: str = "",
        at: float | None = None,
    ) -> SignedRequest:
        """A signed request; by default with a new sample as its body."""
        message_id = message_id or f"m-{next(_numbers)}"
        content, given = sample_of(self.hook, message_id)
        if isinstance(body, bytes):
            content = body
        elif body is not None:
            content = msgspec.json.encode(body)
            given["content-type"] = "application/json"
        given |= {**self.headers, **(headers or {})}
        base = self.hook.url or f"{self.client.base_url.copy_with(path='')}{self.hook.path}"
        url = f"{base}?{query}" if query else base
        return signed(
            self.hook,
            self.secret or secret_of(self.hook),
            url,
            given,
            content,
            now=time.time() if at is None else at,
            message_id=message_id,
        )

    async def send(self, request: SignedRequest) -> httpx.Response:
        """Send a request as it is, without a key."""
        _, mark, query = request.url.partition("?")
        return await self.client.post(
            f"{self.hook.path}{mark}{query}", content=request.body, headers=dict(request.headers)
        )

    async def post(
        self, body: Any = None, headers: Mapping[str, str] | None = None, **how: Any
    ) -> httpx.Response:
        """Sign and send."""
        return await self.send(self.request(body, headers, **how))


def form(**fields: str) -> tuple[bytes, dict[str, str]]:
    """A form as a body and its headers."""
    return str(httpx.QueryParams(fields)).encode(), {"content-type": FORM_TYPE}
