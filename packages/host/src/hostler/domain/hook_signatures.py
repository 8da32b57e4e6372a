"""The signatures of requests to hooks: one verifier for each way in which senders sign. Pure.

A signature is compared in constant time, as text: another spelling of the right bytes (capital letters, other
padding) is wrong, so that one request has one signature. The body is taken as it arrived.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from hostler.domain.hooks import HmacScheme, Hook, Verifier
from hostler.domain.record import Record
from hostler_protocol.errors import UnauthorizedError

MAX_SIGNATURES = 16
"""Signatures of one request that are compared: senders that rotate their secrets send two."""
MAX_FORM_FIELDS = 1_000
FORM_TYPE = "application/x-www-form-urlencoded"
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
STANDARD_PREFIX = "whsec_"
_PORTS = {"http": 80, "https": 443}

Refusal = Literal["missing", "malformed", "old", "wrong", "replayed"]
"""`missing`: no signature; `malformed`: it cannot be read; `old`: its time is not the present."""


class HookRefusedError(UnauthorizedError):
    """A request that is not of a hook's sender, or was taken before."""

    def __init__(self, refusal: Refusal, message: str) -> None:
        super().__init__(message)
        self.refusal: Refusal = refusal


class HookSecretError(ValueError):
    """A secret that cannot be used for a hook's verifier. The message does not have it."""


class HookRequest(Record):
    """A request. `url`: as the sender calls it; `headers` by lower-case name; `query` as it was sent."""

    url: str
    headers: Mapping[str, str]
    query: str
    body: bytes

    @property
    def content_type(self) -> str:
        """The media type of the body, without parameters; "" if none is given."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def header(self, name: str) -> str:
        """Return a header that a signature needs. HookRefusedError if it is missing."""
        found = self.headers.get(name.lower(), "")
        if not found:
            raise HookRefusedError("missing", f"the header {name} is missing")
        return found


class Signed(Record):
    """What is known of a right request. `content`: all that was signed; None if only a secret was sent.

    A request whose `content` was taken before, but which has another id now, is a replay.
    """

    content: bytes | None


def verify(hook: Hook, request: HookRequest, secrets: Sequence[str], now: float) -> Signed:
    """Verify a request by any of a hook's secrets, the current one first. `now`: UTC epoch seconds.

    HookRefusedError if it is not right; HookSecretError if no secret can be used.
    """
    if hook.verify == "none":
        return Signed(None)
    usable = [secret for secret in secrets if secret]
    if not usable:
        raise HookSecretError("the secret is empty")
    return _VERIFIERS[hook.verify](request, usable, now, hook)


GITHUB = HmacScheme(header="X-Hub-Signature-256", prefix="sha256=")
SHOPIFY = HmacScheme(header="X-Shopify-Hmac-Sha256", encoding="base64")
SLACK = HmacScheme(
    header="X-Slack-Signature",
    prefix="v0=",
    timestamp_header="X-Slack-Request-Timestamp",
    signed="v0:{timestamp}:{body}",
)


def scheme_signature(scheme: HmacScheme, secret: str, timestamp: str, body: bytes) -> str:
    """Return the value of the header of a scheme."""
    content = _content(scheme, timestamp, body)
    digest = hmac.new(_key(secret), content, scheme.algorithm).digest()
    return scheme.prefix + (digest.hex() if scheme.encoding == "hex" else base64.b64encode(digest).decode())


def standard_key(secret: str) -> bytes:
    """Return the key of a secret of Standard Webhooks: base64, after `whsec_`. HookSecretError."""
    try:
        key = base64.b64decode(secret.removeprefix(STANDARD_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise HookSecretError("the secret is not base64 after whsec_, as Standard Webhooks has it")
    return key


def standard_signature(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    """Return one signature of Standard Webhooks."""
    content = f"{message_id}.{timestamp}.".encode("utf-8", "surrogateescape") + body
    return "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


def stripe_signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return one signature of Stripe, without its name."""
    return hmac.new(_key(secret), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def twilio_signature(secret: str, url: str, form: Iterable[tuple[str, str]]) -> str:
    """Return Twilio's signature of a URL and the fields of a form."""
    text = url + "".join(f"{name}{value}" for name, value in sorted(set(form)))
    content = text.encode("utf-8", "surrogateescape")
    return base64.b64encode(hmac.new(_key(secret), content, hashlib.sha1).digest()).decode()


def basic_credentials(username: str, password: str) -> str:
    """Return the credentials of HTTP Basic."""
    return base64.b64encode(f"{username}:{password}".encode("utf-8", "surrogateescape")).decode()


def form_fields(body: bytes) -> list[tuple[str, str]]:
    """Return the fields of a form. HookRefusedError if it is none."""
    try:
        return parse_qsl(
            body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FORM_FIELDS
        )
    except ValueError as error:
        raise HookRefusedError("malformed", f"the body is no form: {error}") from None


def _github(request: HookRequest, secrets: Sequence[str], now: float, hook: Hook) -> Signed:
    return _scheme(request, secrets, GITHUB, now, hook)


def _shopify(request: HookRequest, secrets: Sequence[str], now: float, hook: Hook) -> Signed:
    return _scheme(request, secrets, SHOPIFY, now, hook)


def _slack(request: HookRequest, secrets: Sequence[str], now: float, hook: Hook) -> Signed:
    return _scheme(request, secrets, SLACK, now, hook)


def _hmac(request: HookRequest, secrets: Sequence[str], now: float, hook: Hook) -> Signed:
    if hook.hmac is None:
        raise HookSecretError("the entry does not say how requests are signed")
    return _scheme(request, secrets, hook.hmac, now, hook)


def _basic(request: HookRequest, secrets: Sequence[str], now: float, hook: Hook) -> Signed:
    expected = [basic_credentials(hook.username or "", secret) for secret in secrets]
    return _sent(request, "Authorization", expected, scheme="basic")


def _bearer(request: HookRequest, secrets: Sequence[str], now: float, hook: Hook) -> Signed:
    return _sent(request, "Authorization", secrets, scheme="bearer")


def _scheme(
    request: HookRequest, secrets: Sequence[str], scheme: HmacScheme, now: float, hook: Hook
) -> Signed:
    given, timestamp = request.header(scheme.header), ""
    if scheme.timestamp_header is not None:
        timestamp = _present(request.header(scheme.timestamp_header), now, hook)
    _compare([given], [scheme_signature(scheme, secret, timestamp, request.body) for secret in secrets])
    return Signed(_content(scheme, timestamp, request.body))


def _standard(request: HookRequest, secrets: Sequence[str], now: float, hook: Hook) -> Signed:
    keys = [standard_key(secret) for secret in secrets]
    given, message_id = request.header("Webhook-Signature"), request.header("Webhook-Id")
    timestamp = _present(request.header("Webhook-Timestamp"), now, hook)
    signatures = [one for one in given.split(" ")[:MAX_SIGNATURES] if one.startswith("v1,")]
    if not signatures:
        raise HookRefusedError("malformed", "Webhook-Signature has no signature of the version v1")
    _compare(signatures, [standard_signature(key, message_id, timestamp, request.body) for key in keys])
    return Signed(f"{message_id}.{timestamp}.".encode("utf-8", "surrogateescape") + request.body)


def _gitlab(request: HookRequest, secrets: Sequence[str], now: float, hook: Hook) -> Signed:
    """Verify by GitLab's signing token, which begins with `whsec_`, or by its older secret token.

    With a signing token among the secrets, a request that has a signature is judged by that alone.
    """
    signing = [secret for secret in secrets if secret.startswith(STANDARD_PREFIX)]
    if signing and "webhook-signature" in request.headers:
        return _standard(request, signing, now, hook)
    tokens = [secret for secret in secrets if secret not in signing]
    if not tokens:
        raise HookRefusedError("missing", "the header Webhook-Signature is missing")
    return _sent(request, "X-Gitlab-Token", tokens)


def _stripe(request: HookRequest, secrets: Sequence[str], now: float, hook: Hook) -> Signed:
    pairs = [part.strip().partition("=") for part in request.header("Stripe-Signature").split(",")]
    times = [value for name, _, value in pairs if name == "t"]
    signatures = [value for name, _, value in pairs if name == "v1"][:MAX_SIGNATURES]
    if len(times) != 1 or not signatures:
        raise HookRefusedError("malformed", "Stripe-Signature needs one t=TIME, and v1=SIGNATURE")
    timestamp = _present(times[0], now, hook)
    _compare(signatures, [stripe_signature(secret, timestamp, request.body) for secret in secrets])
    return Signed(timestamp.encode() + b"." + request.body)


def _twilio(request: HookRequest, secrets: Sequence[str], now: float, hook: Hook) -> Signed:
    """Verify Twilio's signature of the URL with the fields of the form, or with the body's digest in it."""
    given = request.header("X-Twilio-Signature")
    form: list[tuple[str, str]] = []
    if request.content_type == FORM_TYPE:
        form = form_fields(request.body)
    else:
        digests = [value for name, value in _query(request.query) if name == "bodySHA256"]
        actual = hashlib.sha256(request.body).hexdigest()
        if (request.body or digests) and (len(digests) != 1 or not _same(digests[0], actual)):
            raise HookRefusedError("wrong", "the body is not the one that bodySHA256 in the query is of")
    urls = _with_and_without_port(request.url)
    _compare([given], [twilio_signature(secret, url, form) for secret in secrets for url in urls])
    fields = "".join(f"\x00{name}\x00{value}" for name, value in sorted(set(form)))
    return Signed(f"{request.url}{fields}".encode("utf-8", "surrogateescape"))


def _sent(request: HookRequest, header: str, expected: Sequence[str], *, scheme: str = "") -> Signed:
    """Verify a header that has a secret itself."""
    given = request.header(header)
    if scheme:
        named, _, given = given.partition(" ")
        given = given.strip()
        if named.lower() != scheme or not given:
            raise HookRefusedError("malformed", f"the header {header} must read '{scheme.title()} ...'")
    _compare([given], expected)
    return Signed(None)


def _content(scheme: HmacScheme, timestamp: str, body: bytes) -> bytes:
    """Return what is signed. A template in the body is not filled in: the template is cut, not replaced."""
    found = b""
    for part in re.split(r"(\{body\}|\{timestamp\})", scheme.template):
        found += {"{body}": body, "{timestamp}": timestamp.encode()}.get(part, part.encode())
    return found


def _present(timestamp: str, now: float, hook: Hook) -> str:
    """Return a timestamp that is near enough to `now`, either way. HookRefusedError."""
    if not _TIMESTAMP.fullmatch(timestamp):
        raise HookRefusedError("malformed", "the timestamp is not UTC epoch seconds")
    if abs(now - int(timestamp)) > hook.tolerance_seconds:
        raise HookRefusedError(
            "old", f"the timestamp is more than {hook.tolerance_seconds} seconds from the time of this host"
        )
    return timestamp


def _compare(given: Sequence[str], expected: Sequence[str]) -> None:
    """Raise HookRefusedError unless one of the given values is expected. Compares all, in constant time."""
    right = False
    for value in given:
        for wanted in expected:
            right |= _same(value, wanted)
    if not right:
        raise HookRefusedError("wrong", "the signature or secret is not right")


def _same(given: str, expected: str) -> bool:
    # as bytes: a text that is not ASCII cannot be compared in constant time
    return hmac.compare_digest(_key(given), _key(expected))


def _key(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _query(query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query, keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS)
    except ValueError:
        return []


def _with_and_without_port(url: str) -> list[str]:
    """Return a URL with its port and without: Twilio signs one or the other, by the kind of request."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return [url]
    host = parts.netloc.rpartition("@")[2]
    bare = host[: host.rindex(":")] if parts.port is not None else host
    return [
        url,
        *(
            urlunsplit(parts._replace(netloc=parts.netloc.removesuffix(host) + netloc))
            for netloc in dict.fromkeys((bare, f"{bare}:{port}"))
            if netloc != host
        ),
    ]


_VERIFIERS: Mapping[Verifier, Callable[[HookRequest, Sequence[str], float, Hook], Signed]] = {
    "standard": _standard,
    "github": _github,
    "gitlab": _gitlab,
    "stripe": _stripe,
    "slack": _slack,
    "shopify": _shopify,
    "twilio": _twilio,
    "hmac": _hmac,
    "basic": _basic,
    "bearer": _bearer,
}
