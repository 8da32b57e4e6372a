"""HTTP requests of platforms to the address of a channel: what the plugin gets, and what it may answer."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl, unquote

from hostler.domain.keys import base64_of
from hostler.domain.record import Record
from hostler_protocol.channels import ChannelRequestParams, ChannelResponse
from hostler_protocol.errors import HostlerError, InvalidArgumentError, PluginError, UnavailableError
from hostler_protocol.limits import KIB

MAX_REQUEST_BYTES = 1024 * KIB
"""A body: platforms send what was written, and links to files. The same as of hooks."""
MAX_RESPONSE_BYTES = 256 * KIB
"""A body of an answer: platforms expect a challenge, or a few words."""
MAX_QUERY_FIELDS = 64
MAX_PATH_SEGMENTS = 8
MAX_PATH_CHARS = 512
"""Of what comes after a channel's address, as it is written: platforms append a word or two, and an id."""
NOT_PASSED_ON = frozenset(
    {
        *("cookie", "connection", "keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer"),
        *("transfer-encoding", "upgrade"),
    }
)
"""Headers that are about the connection or the host: no plugin gets them, least of all a person's session."""
MEDIA_TYPES = ("application/json", "text/plain", "application/xml", "text/xml", "application/octet-stream")
"""What an answer may be. Anything else is shown as plain text: the address is one of the host's own site."""
PLAIN = "text/plain; charset=utf-8"
PASSED_BACK = frozenset({"content-type", "retry-after", "allow", "x-slack-no-retry"})
"""Headers that an answer may have: none of them sets a cookie, leads elsewhere or speaks to a proxy."""

_VALUE = re.compile(r"[\x20-\x7e]{0,200}")
_TYPE = re.compile(r"([a-z]+/[a-z.+-]+)(?:\s*;\s*charset=[A-Za-z0-9_-]{1,20})?")


class WrongAnswerError(PluginError):
    """The plugin answered what no platform gets. The text, for the operator, says what."""


class SilentHostError(UnavailableError):
    """The host that has the channel did not answer in time: it may be dead, stopped, cut off or starved."""


class PlatformAnswer(Record):
    """What a platform is answered. `left_out`: names of the plugin's headers that it does not get."""

    status: int
    media_type: str
    body: bytes
    headers: list[tuple[bytes, bytes]]
    left_out: tuple[str, ...] = ()


def path_below(encoded: str) -> str:
    """Return what comes after the address of a channel, decoded: `events`, `a/b`; "" for the address itself.

    InvalidArgumentError for what is too long, empty in between, or could lead elsewhere where a plugin takes
    it for a path: `..`, a slash or backslash within a segment, what nobody sees.
    """
    if not encoded:
        return ""
    segments = encoded.split("/")
    if len(encoded) > MAX_PATH_CHARS or len(segments) > MAX_PATH_SEGMENTS:
        text = f"at most {MAX_PATH_SEGMENTS} segments and {MAX_PATH_CHARS} characters are taken"
        raise InvalidArgumentError(f"the path below the address is too long: {text}")
    return "/".join(map(_segment, segments))


def _segment(encoded: str) -> str:
    try:
        found = unquote(encoded, errors="strict")
    except UnicodeDecodeError:
        raise InvalidArgumentError("the path below the address is no UTF-8") from None
    if found in {"", ".", ".."} or not found.isprintable() or set("/\\%") & set(found):
        text = "each segment needs characters that are seen, and is neither `.` nor `..`"
        raise InvalidArgumentError(f"the path below the address cannot be taken: {text}")
    return found


def request_of(  # noqa: PLR0917
    channel: str, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
) -> ChannelRequestParams:
    """Return what the plugin of a channel gets of a request. InvalidArgumentError for a query that nobody can
    read in one way only.
    """
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=MAX_QUERY_FIELDS)
    except ValueError as error:
        raise InvalidArgumentError(f"the query cannot be read: {error}") from None
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise InvalidArgumentError("the query names a field twice: each may be there once")
    return ChannelRequestParams(
        channel_id=channel,
        method=method,
        path=path,
        query=fields,
        headers={name: _text(value) for name, value in headers.items() if name not in NOT_PASSED_ON},
        body_base64=base64.b64encode(body).decode("ascii"),
    )


def answer_of(response: ChannelResponse) -> PlatformAnswer:
    """Return what the platform gets of a plugin's answer. WrongAnswerError if it is none."""
    if 300 <= response.status < 400:
        raise WrongAnswerError(
            f"the plugin answered {response.status}: an address of a channel leads nowhere"
        )
    try:
        body = base64_of("body_base64", response.body_base64, MAX_RESPONSE_BYTES)
    except HostlerError as error:
        raise WrongAnswerError(f"the plugin's answer cannot be sent: {error.message}") from error
    given = {name.lower(): value for name, value in response.headers.items()}
    kept = {
        name: value
        for name, value in given.items()
        if name in PASSED_BACK and _VALUE.fullmatch(value) is not None
    }
    media_type = _media_type(kept.pop("content-type", None))
    return PlatformAnswer(
        response.status,
        media_type,
        b"" if response.status in {204, 205} else body,
        [(name.encode("ascii"), value.encode("ascii")) for name, value in sorted(kept.items())],
        tuple(_left_out(given, kept, media_type)),
    )


def _media_type(given: str | None) -> str:
    found = None if given is None else _TYPE.fullmatch(given.strip().lower())
    return given.strip() if given is not None and found is not None and found[1] in MEDIA_TYPES else PLAIN


def _left_out(given: Mapping[str, str], kept: Mapping[str, str], media_type: str) -> Iterator[str]:
    for name, value in given.items():
        if name == "content-type":
            if value.strip() != media_type:
                yield f"content-type {value!r:.80}"
        elif name != "content-length" and name not in kept:
            yield f"{name!r:.80}"


def _text(value: str) -> str:
    """Return a header's value as text that can be encoded: bytes that are no UTF-8 are replaced."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
