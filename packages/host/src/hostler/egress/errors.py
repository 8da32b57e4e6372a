"""Errors of outbound requests; each says whether the request may have been received."""

from __future__ import annotations

from typing import ClassVar


class EgressError(Exception):
    """Base class. The message is a sentence that models may see. `sent`: the request may have arrived."""

    sent: ClassVar[bool] = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class EgressRefusedError(EgressError):
    """The policy does not allow the address. Nothing was sent to it."""


class EgressUnreachableError(EgressError):
    """No connection: the name is unknown, the connection was refused, or the certificate is invalid."""


class EgressTimeoutError(EgressError):
    """The time limit passed after the request may have been sent."""

    sent = True


class EgressAnswerError(EgressError):
    """The connection broke, or the answer is not HTTP or over a limit."""

    sent = True
