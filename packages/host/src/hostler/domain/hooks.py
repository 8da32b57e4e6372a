"""Hooks: the entries of `hooks` in a configuration, by which other services send events. Pure.

A hook says who signs its requests (`verify`, hook_signatures.py) and what of a request becomes which part of
an event (`map`, hook_mapping.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from hostler.domain.config_mistakes import Mistake
from hostler.domain.filters import check_expression
from hostler.domain.secret_refs import is_reference, reference_mistake
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError

MAX_HOOKS = 100
MAX_SECRETS = 2
"""The current secret and the one before it, so that a sender can be given a new one without a gap."""
MAX_TEXT_CHARS = 200
"""A user name, a prefix of a signature, or what is signed."""
MAX_URL_CHARS = 2_000
NAMES = ("headers", "query", "body")
"""What expressions of a mapping know."""

Verifier = Literal[
    "standard",
    "github",
    "gitlab",
    "stripe",
    "slack",
    "shopify",
    "twilio",
    "hmac",
    "basic",
    "bearer",
    "none",
]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_PART = re.compile(r"\{([^{}]*)\}")
_PARTS = {"timestamp", "body"}
_TIMELESS = {"github", "shopify", "twilio"}
"""Verifiers whose signatures have no time in them."""
_WRITTEN_OUT = "a secret is named by env:NAME, file:PATH or secret://NAME, never written out"


class HmacScheme(Strict):
    """How requests of a sender that has no verifier of its own are signed.

    `header` has the signature, after `prefix`. `signed`: what is signed, with `{body}` and `{timestamp}` in
    it; null: `{body}`, or `{timestamp}.{body}` with a `timestamp_header`, whose value is UTC epoch seconds.
    """

    header: str
    algorithm: Literal["sha1", "sha256", "sha384", "sha512"] = "sha256"
    encoding: Literal["hex", "base64"] = "hex"
    prefix: str = ""
    timestamp_header: str | None = None
    signed: str | None = None

    @property
    def template(self) -> str:
        """What is signed."""
        if self.signed is not None:
            return self.signed
        return "{body}" if self.timestamp_header is None else "{timestamp}.{body}"


class HookMapping(Strict):
    """What of a request becomes which field of the event: CEL over `headers`, `query` and `body`.

    Null: the default of the verifier (`id`, `source_event_type`, `data`), else nothing; `event_type` is
    `webhook.received` then.
    """

    event_type: str | None = None
    source_event_type: str | None = None
    id: str | None = None
    conversation_id: str | None = None
    thread_id: str | None = None
    actor_id: str | None = None
    actor_name: str | None = None
    text: str | None = None
    data: str | None = None

    def expressions(self) -> dict[str, str]:
        """Return the expressions by field."""
        found = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: text for name, text in found.items() if text is not None}


class Hook(Strict):
    """A way in for the requests of another service, at `/v1/hooks/NAME`.

    `secrets` are references, the current one first; a request is right by either. `workspace`: that of the
    events; null for the installation's own. `agent`: the agent of all events; null: the one that takes them.
    `username`: of `basic`. `url`: the address that the sender calls, where it is part of the signature
    (`twilio`); null: the host's own. `challenge_token`: a reference to what a service sends in a GET to ask
    whether it may send (`hub.verify_token`). `tolerance_seconds`: how far a signed time may be from that of
    the host. `same_body`: without an id of the sender's, the same body again is the same event (`once`), or
    another (`new`).
    """

    name: str
    verify: Verifier
    secrets: list[str] = []
    workspace: str | None = None
    agent: str | None = None
    username: str | None = None
    hmac: HmacScheme | None = None
    url: str | None = None
    challenge_token: str | None = None
    tolerance_seconds: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = 300
    same_body: Literal["once", "new"] = "once"
    map: HookMapping = HookMapping()
    max_body_kib: Annotated[int, msgspec.Meta(ge=1, le=4_096)] = 1_024
    requests_per_second: Annotated[float, msgspec.Meta(gt=0, le=10_000)] = 50.0

    @property
    def path(self) -> str:
        """Where the sender sends its requests."""
        return f"/v1/hooks/{self.name}"


def hook_mistakes(hook: Hook) -> Iterator[Mistake]:
    """Yield the mistakes of an entry."""
    if not _NAME.fullmatch(hook.name):
        yield Mistake("name", f"{hook.name!r:.80} is no name: 1 to 100 letters, digits, '_', '.', '-'")
    yield from _secret_mistakes(hook)
    if hook.workspace == "":
        yield Mistake("workspace", "is empty: leave it out for the installation's own workspace")
    if hook.agent == "":
        yield Mistake("agent", "is empty: leave it out for the agent that takes the events")
    yield from _scheme_mistakes(hook)
    for name, text in hook.map.expressions().items():
        try:
            check_expression(text, NAMES, "the expression", "such as body.id")
        except InvalidArgumentError as error:
            yield Mistake(f"map.{name}", error.message)


def hook_warnings(hook: Hook) -> Iterator[Mistake]:
    """Yield what an operator should know about a valid entry."""
    if hook.verify == "none":
        text = "anyone who knows the address can send events: nothing is verified; name a verifier"
        yield Mistake("verify", text, "warning")


def _secret_mistakes(hook: Hook) -> Iterator[Mistake]:
    if hook.verify == "none":
        if hook.secrets:
            yield Mistake("secrets", "are not used: `verify: none` verifies nothing; name a verifier")
    elif not 1 <= len(hook.secrets) <= MAX_SECRETS:
        text = f"expected the current secret, and at most one before it; there are {len(hook.secrets)}"
        yield Mistake("secrets", text)
    places = [(f"secrets[{number}]", value) for number, value in enumerate(hook.secrets)]
    if hook.challenge_token is not None:
        places.append(("challenge_token", hook.challenge_token))
    for place, value in places:
        if not is_reference(value):
            yield Mistake(place, _WRITTEN_OUT)
        elif (wrong := reference_mistake(value)) is not None:
            yield Mistake(place, wrong)


def _scheme_mistakes(hook: Hook) -> Iterator[Mistake]:
    if (hook.verify == "hmac") is (hook.hmac is None):
        needed = hook.hmac is None
        text = "is missing: it says how requests are signed" if needed else "is only for `verify: hmac`"
        yield Mistake("hmac", text)
    if hook.hmac is not None:
        yield from (mistake.within("hmac") for mistake in _hmac_mistakes(hook.hmac))
    if (hook.verify == "basic") is (hook.username is None):
        needed = hook.username is None
        yield Mistake("username", "is missing" if needed else "is only for `verify: basic`")
    elif hook.username is not None and (":" in hook.username or not _is_short(hook.username)):
        yield Mistake("username", "expected printable characters without a colon")
    if hook.same_body == "new" and (hook.verify in _TIMELESS or _signs_no_time(hook.hmac)):
        text = "is not possible where the time is not signed: a request that was listened to would start runs"
        yield Mistake("same_body", text)
    if hook.url is not None and hook.verify != "twilio":
        yield Mistake("url", "is only for `verify: twilio`, whose signatures include it")
    elif hook.url is not None and not _is_url(hook.url):
        yield Mistake("url", "expected the https:// address that the sender calls, without a query")


def _hmac_mistakes(scheme: HmacScheme) -> Iterator[Mistake]:
    for place, name in (("header", scheme.header), ("timestamp_header", scheme.timestamp_header)):
        if name is not None and not _HEADER.fullmatch(name):
            yield Mistake(place, f"{name!r:.80} is no name of a header")
    if scheme.prefix and not _is_short(scheme.prefix):
        yield Mistake("prefix", f"expected at most {MAX_TEXT_CHARS} printable characters of ASCII")
    parts = _PART.findall(scheme.template)
    if not _is_short(scheme.template) or "body" not in parts or not set(parts) <= _PARTS:
        yield Mistake("signed", "expected a text with {body} in it, and {timestamp} if that is signed")
    elif ("timestamp" in parts) is (scheme.timestamp_header is None):
        missing = scheme.timestamp_header is None
        place = "timestamp_header" if missing else "signed"
        no_header = "is missing, and `signed` has {timestamp}"
        unsigned = "has no {timestamp}: a time that is not signed can be changed by anyone"
        yield Mistake(place, no_header if missing else unsigned)


def _signs_no_time(scheme: HmacScheme | None) -> bool:
    return scheme is not None and scheme.timestamp_header is None


def _is_short(text: str) -> bool:
    return 0 < len(text) <= MAX_TEXT_CHARS and text.isascii() and text.isprintable()


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    plain = len(url) <= MAX_URL_CHARS and url.isascii() and url.isprintable() and " " not in url
    alone = not {"?", "#"} & set(url)  # the query of each request follows it
    return plain and alone and parts.scheme in ("http", "https") and bool(parts.hostname)
