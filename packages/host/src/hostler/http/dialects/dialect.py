"""A dialect: how a standard interface names its callers, and how it says that something went wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from hostler.http.problems import Problem


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error as a dialect says it: the body as JSON value, and the status."""

    status: int
    body: Any
    headers: tuple[tuple[bytes, bytes], ...] = ()
    media_type: str = "application/json"

    def encode(self) -> bytes:
        """Encode the body as JSON; details of other types are written as text."""
        return msgspec.json.encode(self.body, enc_hook=str)


class Dialect:
    """The habits of one standard interface. Its routes name it: `endpoint(..., dialect=OPENAI)`."""

    name: str = ""
    """As in `hostler runs show --as NAME`."""

    def authorization(self, headers: dict[str, str]) -> str | None:
        """Return the Authorization header of a request, or what its dialect sends instead; None: no key."""
        return headers.get("authorization")

    def refuse(self, problem: Problem) -> Refusal:
        """Return an error in the dialect's words."""
        raise NotImplementedError
