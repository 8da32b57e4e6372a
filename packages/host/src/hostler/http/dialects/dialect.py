"""A dialect: how a standard interface names its callers, and how it says that something went wrong."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import msgspec

from hostler.domain.record import Record
from hostler.http.problems import CHALLENGE, Problem


class Refusal(Record):
    """An error as a dialect says it: the status, and the body as JSON value or, with a media type of text, as
    text.
    """

    status: int
    body: Any
    headers: tuple[tuple[bytes, bytes], ...] = ()
    media_type: str = "application/json"

    def encode(self) -> bytes:
        """Encode the body; details of other types than those of JSON are written as text."""
        if self.media_type.startswith("text/"):
            return str(self.body).encode()
        return msgspec.json.encode(self.body, enc_hook=str)


class Dialect(ABC):
    """The habits of one standard interface. Its routes name it: `endpoint(..., dialect=OPENAI)`."""

    name: str = ""
    """As in `hostler runs show --as NAME`."""
    problem: type[Problem] | None = None
    """What its errors are, if its routes are documented by the OpenAPI document; else by their makers."""

    def authorization(self, headers: dict[str, str]) -> str | None:
        """Return the Authorization header of a request, or what its dialect sends instead; None: no key."""
        return headers.get("authorization")

    def challenge(self, base: str) -> bytes:
        """Return WWW-Authenticate of a response 401. `base`: the host's address."""
        return CHALLENGE

    @abstractmethod
    def refuse(self, problem: Problem) -> Refusal:
        """Return an error in the dialect's words."""
