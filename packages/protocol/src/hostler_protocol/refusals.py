"""Refusals: the error responses of a link, their texts, and the queue of those that it makes by itself."""

from __future__ import annotations

from hostler_protocol._base import DECODE_ERRORS
from hostler_protocol.errors import JSONRPC_FAULT, Fault, HostlerError, from_fault, to_fault
from hostler_protocol.frames import ErrorResponse, MessageId, encode, raw
from hostler_protocol.limits import MAX_REASON_CHARS, MAX_UNSENT_ANSWER_BYTES
from hostler_protocol.methods import Method
from hostler_protocol.payloads import decoder


class UnsentRefusals:
    """Encoded refusals that wait to be sent, at most MAX_UNSENT_ANSWER_BYTES."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self._bytes = 0

    def add(self, id_: MessageId, code: int, error: HostlerError) -> bool:
        """Add a refusal. If there are too many bytes, drop all refusals and return False."""
        message = _encoded(id_, code, to_fault(error))
        self.messages.append(message)
        self._bytes += len(message)
        if self._bytes <= MAX_UNSENT_ANSWER_BYTES:
            return True
        self.take()
        return False

    def take(self) -> bytes:
        """Remove all refusals, and return them."""
        messages = b"".join(self.messages)
        self.messages.clear()
        self._bytes = 0
        return messages


def encode_refusal(id_: MessageId, error: HostlerError, max_bytes: int) -> bytes:
    """Encode the refusal of a request. Over `max_bytes`, it has no details and a shortened message."""
    fault = to_fault(error)
    whole = _encoded(id_, JSONRPC_FAULT, fault)
    if len(whole) <= max_bytes + 1:  # the line end does not count
        return whole
    short = Fault(code=fault.code, message=fault.message[:MAX_REASON_CHARS], retryable=fault.retryable)
    return _encoded(id_, JSONRPC_FAULT, short)


def error_in(response: ErrorResponse) -> HostlerError:
    """Return the error of a peer's refusal."""
    if response.data is not None:
        try:
            return from_fault(decoder(Fault).decode(response.data))
        except DECODE_ERRORS:
            pass  # another implementation's own data: its message is used instead
    return HostlerError(brief(f"{response.message} ({response.code})"))


def brief(text: str) -> str:
    """Shorten a text that may quote the peer to MAX_REASON_CHARS."""
    return text if len(text) <= MAX_REASON_CHARS else text[: MAX_REASON_CHARS - 3] + "..."


def too_large(size: int, limit: int) -> str:
    """Say that a message is over a limit in bytes."""
    return f"a message of {size:,} bytes is over the limit of {limit:,}"


def result_too_large(size: int, limit: int) -> str:
    """Say that a result is over a limit in bytes, and what to do instead."""
    return f"a result of {size:,} bytes is over the limit of {limit:,}: put large content into an artifact"


def wrong_method(name: str, method: Method | None) -> str:
    """Say why a method cannot be received: it is unknown, of the other kind, or of the other side."""
    if method is None:
        return f"unknown method {name[:100]!r}"
    kind = "request" if method.is_request else "notification"
    return f"{name} is a {kind} of the {method.sender.value}"


def _encoded(id_: MessageId, code: int, fault: Fault) -> bytes:
    return encode(ErrorResponse(id_, code, fault.message, raw(fault))) + b"\n"
