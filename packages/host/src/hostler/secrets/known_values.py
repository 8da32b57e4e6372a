"""The values of the secrets that this process has read, and redaction of the texts that it writes.

The host puts its own words into logs, errors and problems, and quotes services and tools in them. Whatever
it writes there goes through `redact`.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from hostler.domain.redaction import MARK, MIN_SECRET_CHARS, KnownSecrets, plain_forms, without_tokens
from hostler_protocol.errors import HostlerError, RemoteFaultError

MAX_KNOWN = 4_096
"""Values that are remembered; the one that was read longest ago is forgotten first."""
MAX_REMEMBERED_CHARS = 4_096
"""Of longer values (files with certificates) each line is remembered by itself."""
MAX_DEPTH = 20
OWN_TOKEN = b"hostler_"
"""How keys and run tokens of Hostler begin; run tokens are too many to be remembered."""
MAX_TOKEN_BYTES = 200
_TOKENS = re.compile(rb"hostler_[A-Za-z0-9_-]{40,200}")
_TOKEN_BEGUN = re.compile(rb"hostler_[A-Za-z0-9_-]{0,150}\Z")
E = TypeVar("E", bound=HostlerError)


class KnownValues:
    """Values to redact. Safe for use by several threads."""

    def __init__(self) -> None:
        self._values: OrderedDict[str, None] = OrderedDict()
        self._known = KnownSecrets(())
        self._is_old = False
        self._printed: Sequence[bytes] | None = ()
        self._lock = threading.Lock()

    def remember(self, value: str) -> None:
        """Remember a secret."""
        parts = [value] if len(value) <= MAX_REMEMBERED_CHARS else value.splitlines()
        with self._lock:
            for part in parts:
                if not MIN_SECRET_CHARS <= len(part) <= MAX_REMEMBERED_CHARS:
                    continue
                if part in self._values:
                    self._values.move_to_end(part)
                    continue
                self._values[part] = None
                self._is_old, self._printed = True, None
            while len(self._values) > MAX_KNOWN:
                self._values.popitem(last=False)

    def replaced(self, text: str) -> str:
        """Return a text without these values."""
        if self._is_old:
            with self._lock:
                self._known, self._is_old = KnownSecrets(self._values), False
        return self._known.replaced(text)

    def printed(self) -> Sequence[bytes]:
        """Return the forms in which programs print these values, the longest first."""
        with self._lock:
            if self._printed is None:
                forms = {form for value in self._values for form in plain_forms(value)}
                encoded = (form.encode("utf-8", "surrogatepass") for form in forms)
                self._printed = sorted(encoded, key=len, reverse=True)
            return self._printed


class OutputRedactor:
    """Takes known secrets out of the output of a program, which comes in pieces of any length."""

    def __init__(self, known: KnownValues | None = None) -> None:
        self._known = known or KNOWN
        self._held = b""
        """The end of the last piece, with which a secret may begin."""

    def take(self, data: bytes) -> bytes:
        """Return what came so far and cannot be the begin of a secret, without secrets."""
        forms = (*self._known.printed(), OWN_TOKEN)
        whole = self._held + data
        for form in forms:
            if form in whole and form != OWN_TOKEN:
                whole = whole.replace(form, MARK.encode())
        begin = _possible_begin(whole, forms)
        self._held, shown = whole[begin:], whole[:begin]
        return _without_tokens(shown)

    def end(self) -> bytes:
        """Return what was held back."""
        held, self._held = self._held, b""
        return _without_tokens(held)


def _without_tokens(data: bytes) -> bytes:
    return _TOKENS.sub(MARK.encode(), data) if OWN_TOKEN in data else data


def _possible_begin(data: bytes, forms: Sequence[bytes]) -> int:
    """Return where a secret may begin that the data do not hold to its end; their length if nowhere."""
    unfinished = _TOKEN_BEGUN.search(data, max(0, len(data) - MAX_TOKEN_BYTES))
    begin = len(data) if unfinished is None else unfinished.start()
    for form in forms:
        head = form[:MIN_SECRET_CHARS]
        at = data.find(head, max(0, len(data) - len(form) + 1))
        while -1 < at < begin:
            if form.startswith(data[at:]):
                begin = at
            at = data.find(head, at + 1)
        cut = next((n for n in range(len(head) - 1, 0, -1) if data.endswith(head[:n])), 0)
        begin = min(begin, len(data) - cut)
    return begin


KNOWN = KnownValues()
"""Those of this process: the values that any of its hosts has read."""


def remember(value: str) -> None:
    """Remember a secret that was read."""
    KNOWN.remember(value)


def redact(text: str) -> str:
    """Return a text that the host writes without secrets, and without what looks like a key or token."""
    return without_tokens(KNOWN.replaced(text))


def is_known_in(data: bytes) -> bool:
    """Whether data hold a known secret, as programs print it. Quick, for what comes in masses."""
    return any(form in data for form in KNOWN.printed())


def redact_error(error: E) -> E:
    """Take the secrets out of an error's message and details; return the error."""
    if isinstance(error, RemoteFaultError):
        fault = error.fault
        error.fault = msgspec.structs.replace(
            fault, message=redact(fault.message), details=redact_value(fault.details)
        )
    error.message, error.details = redact(error.message), redact_value(error.details)
    error.args = (error.message, *error.args[1:])
    return error


def redact_value(value: Any, depth: int = 0) -> Any:
    """Return JSON data without secrets in its texts."""
    if isinstance(value, str):
        return redact(value)
    if depth < MAX_DEPTH:
        if isinstance(value, dict):
            return {key: redact_value(inner, depth + 1) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [redact_value(inner, depth + 1) for inner in value]
    return value
