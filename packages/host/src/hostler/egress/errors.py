"""What can become of an outbound request, by whether the other side may have got it."""

from __future__ import annotations

from typing import ClassVar


class EgressError(Exception):
    """Base; the text is one sentence that may be shown to a model. `sent`: the request may have arrived."""

    sent: ClassVar[bool] = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class EgressRefusedError(EgressError):
    """The address is none that may be reached. Nothing was sent there."""


class EgressUnreachableError(EgressError):
    """No connection came about: the name is unknown, nobody listens, the certificate is wrong."""


class EgressTimeoutError(EgressError):
    """The time ran out after the request was, or may have been, sent."""

    sent = True


class EgressAnswerError(EgressError):
    """The connection broke, or what came is no HTTP, or is over a limit."""

    sent = True
