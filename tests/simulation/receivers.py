"""Simulated receivers of notices."""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import Any

from hostler.domain.webhooks import ATTEMPT_HEADER, DELIVERY_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER
from simulation.http_service import Answer, Asked, HttpService

SECRET_NAME = "HOSTLER_SIMULATED_SECRET"
SECRET = "known to sender and receiver"
os.environ[SECRET_NAME] = SECRET


class Receiver(HttpService):
    """Takes note of what it is sent."""

    def arrived(self, asked: Asked) -> None:
        """Take note of a notice, and check its signature."""
        self.out.note(
            "posted",
            **self._names(asked),
            by=asked.by.name,
            attempt=int(_header(asked, ATTEMPT_HEADER)),
            body=hashlib.sha256(asked.body).hexdigest()[:16],
            signed=_is_signed(asked),
        )

    def answer(self, asked: Asked) -> Answer:
        """Take the notice."""
        self.out.note("received", **self._names(asked))
        return Answer(b'{"thanks": true}', 202)

    def answered(self, asked: Asked, status: int | None) -> None:
        """Take note of the answer."""
        self.out.note("post answered", **self._names(asked), status=status)

    def _names(self, asked: Asked) -> dict[str, Any]:
        return {"hook": self.name, "delivery": _header(asked, DELIVERY_HEADER), "number": asked.number}


def _header(asked: Asked, name: str) -> str:
    return asked.headers[name.lower()]


def _is_signed(asked: Asked) -> bool:
    """Whether the signature is right, as the documentation tells receivers to check it."""
    signed = f"{_header(asked, TIMESTAMP_HEADER)}.".encode() + asked.body
    right = "v1=" + hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    return hmac.compare_digest(right, _header(asked, SIGNATURE_HEADER))
