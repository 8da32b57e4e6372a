"""The addresses of channels: requests of their platforms, which the plugins answer."""

from __future__ import annotations

from hostler.domain.channel_requests import MAX_REQUEST_BYTES, MEDIA_TYPES, path_below, request_of
from hostler.http.endpoint import Media, endpoint
from hostler.http.proxies import rate_key
from hostler.http.request import ApiRequest, check_not_encoded, read_body
from hostler.http.responses import RawBody

_ANY = {"type": "string", "format": "binary"}
ANSWER = tuple(Media(kind, "What the channel's plugin answers", schema=_ANY) for kind in MEDIA_TYPES)
_SEGMENTS = 5
"""Parts of the path before what comes after the address, the empty one before the first slash too."""
_SANDBOX = (b"content-security-policy", b"default-src 'none'; sandbox")


@endpoint(
    "POST",
    "/v1/channels/{channel}/webhook",
    right=None,
    tag="channels",
    media=Media("application/json", "What the platform sends, of any type", schema=_ANY),
    answers={200: ANSWER},
    takes_below=True,
)
async def receive_channel_request(request: ApiRequest) -> RawBody:
    """Take a request of a channel's platform, which needs no key: the channel's plugin knows who may call.

    What it brings is stored before the plugin answers; what was delivered before starts nothing. 503 asks the
    platform to send it again: no host has the channel connected, or it cannot take it now; so does 504: the
    host that has it did not answer. All paths below this one, as `/events`, are taken, too: the plugin gets
    what comes after the address.
    """
    return await _answered(request)


@endpoint(
    "GET",
    "/v1/channels/{channel}/webhook",
    right=None,
    tag="channels",
    answers={200: ANSWER},
    takes_below=True,
)
async def receive_channel_challenge(request: ApiRequest) -> RawBody:
    """Answer a platform that asks by GET whether the address is the channel's."""
    return await _answered(request)


async def _answered(request: ApiRequest) -> RawBody:
    requests, address = request.state.host.channel_requests, rate_key(request.address)
    name = request.parameters["channel"]
    admitted = await requests.admit(name, address)
    path = path_below("".join(request.path.split("/", _SEGMENTS)[_SEGMENTS:]))
    check_not_encoded(request.headers.get("content-encoding"))
    body = await read_body(request, limit=MAX_REQUEST_BYTES)
    query = request.scope["query_string"].decode("latin-1")
    given = request_of(name, request.method, path, query, request.headers, body)
    answer = await requests.answer(admitted, given, address)
    return RawBody(answer.body, answer.media_type, answer.status, [_SANDBOX, *answer.headers])
