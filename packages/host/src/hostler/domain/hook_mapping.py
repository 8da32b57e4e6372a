"""What a request to a hook says, and the event that it becomes. Pure: expressions are evaluated elsewhere.

Nothing that shows who the sender is reaches an expression or the event: headers with signatures and secrets
are left out, and the token that Slack writes into its bodies.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from hostler.domain.filters import ValueOutcome
from hostler.domain.hook_signatures import (
    FORM_TYPE,
    MAX_FORM_FIELDS,
    HookRefusedError,
    HookRequest,
    form_fields,
)
from hostler.domain.hooks import Hook, Verifier
from hostler.domain.ingest import MAX_ID_CHARS, MAX_NAME_CHARS, is_event_type
from hostler.domain.record import Record
from hostler_protocol._base import DECODE_ERRORS, Strict
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.events import Actor, EventEnvelope, Input
from hostler_protocol.ids import digest, new_id

SOURCE = "webhook"
EVENT_TYPE = "webhook.received"
_SECRET_HEADER = re.compile(
    r"authorization|cookie|signature|hmac|token|secret|password|api-?key|credential", re.IGNORECASE
)
_KEPT_HEADERS = frozenset({"i-twilio-idempotency-token"})
"""Named like a secret, and none."""
_ID_HEADERS: Mapping[Verifier, tuple[str, ...]] = {
    "standard": ("webhook-id",),
    "github": ("x-github-delivery",),
    "gitlab": ("webhook-id", "idempotency-key", "x-gitlab-event-uuid"),
    "shopify": ("x-shopify-webhook-id", "x-shopify-event-id"),
    "twilio": ("i-twilio-idempotency-token",),
}
_ID_FIELDS: Mapping[Verifier, tuple[str, ...]] = {"stripe": ("id",), "slack": ("event_id", "trigger_id")}
_TYPE_HEADERS: Mapping[Verifier, str] = {
    "github": "x-github-event",
    "gitlab": "x-gitlab-event",
    "shopify": "x-shopify-topic",
}
_TEXTS = ("source_event_type", "conversation_id", "thread_id", "actor_id", "actor_name", "text")
_MOST_CHARS = {"actor_name": MAX_NAME_CHARS, "text": None, "id": None}
"""None: longer ones are possible, and checked or shortened later."""
JSON_TYPES = ("", "application/json", "text/json")


class UnreadableBodyError(InvalidArgumentError):
    """A body that is not what its type says."""


class Said(Record):
    """What a request says: `names` for expressions. `digest`: of its body as it arrived."""

    headers: Mapping[str, str]
    query: Mapping[str, Any]
    body: Any
    digest: str

    @property
    def names(self) -> dict[str, Any]:
        """What expressions know."""
        return {"headers": self.headers, "query": self.query, "body": self.body}


class Unmapped(Strict):
    """A field that a mapping did not give, and why."""

    field: str
    problem: str


class Mapped(Record):
    """The event of a request, and the fields that its mapping did not give."""

    envelope: EventEnvelope
    unmapped: tuple[Unmapped, ...]
    named: bool
    """Whether the id is that of the sender or of the body, and not one that was made for this request."""


def is_readable_type(content_type: str) -> bool:
    """Whether bodies of a media type can be read: JSON, forms and plain text."""
    return content_type in (*JSON_TYPES, FORM_TYPE, "text/plain") or content_type.endswith("+json")


def said_by(hook: Hook, request: HookRequest) -> Said:
    """Read a request that is right. InvalidArgumentError if its body is not what its type says."""
    headers = {
        name: _clean(value)
        for name, value in request.headers.items()
        if name in _KEPT_HEADERS or not _is_secret(hook, name)
    }
    try:
        query = _by_name(parse_qsl(request.query, keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS))
    except ValueError as error:
        raise UnreadableBodyError(f"the query cannot be read: {error}") from None
    body = _body_of(hook, request)
    return Said(headers, query, body, hashlib.sha256(request.body).hexdigest())


def sender_id(hook: Hook, said: Said) -> str | None:
    """Return the id that the sender gave its message, where its maker has one."""
    candidates: list[Any] = [said.headers.get(name) for name in _ID_HEADERS.get(hook.verify, ())]
    if isinstance(said.body, dict):
        candidates += [said.body.get(name) for name in _ID_FIELDS.get(hook.verify, ())]
        if hook.verify == "twilio" and isinstance(sid := said.body.get("MessageSid"), str):
            candidates.append(f"{sid}.{said.body.get('MessageStatus', '')}")  # each state is a message
    return next((one for one in candidates if isinstance(one, str) and one and "\x00" not in one), None)


def mapped(hook: Hook, said: Said, values: Mapping[str, ValueOutcome], workspace_id: str) -> Mapped:
    """Build the event of a request. `values`: the outcomes of the hook's expressions, by field."""
    unmapped: dict[str, str] = {}
    texts = {name: _text(name, values, unmapped) for name in _TEXTS}
    event_type = _text("event_type", values, unmapped)
    if event_type is not None and not is_event_type(event_type):
        unmapped["event_type"] = f"{event_type!r:.80} is no event type: dotted lower-case names are"
        event_type = None
    own_id = _text("id", values, unmapped) or sender_id(hook, said)
    if own_id is not None and len(own_id) > MAX_ID_CHARS:
        own_id = digest(own_id)
    data = _data(hook, said, values, unmapped)
    actor = None
    if texts["actor_id"] is not None or texts["actor_name"] is not None:
        actor = Actor(actor_id=texts["actor_id"], actor_name=texts["actor_name"])
    about: dict[str, Any] = {"name": hook.name}
    if unmapped:
        about["unmapped"] = unmapped
    envelope = EventEnvelope(
        event_id=_event_id(hook, said, own_id, workspace_id),
        event_type=event_type or EVENT_TYPE,
        source=SOURCE,
        source_event_type=texts["source_event_type"] or _source_event_type(hook, said),
        source_event_id=own_id,
        workspace_id=workspace_id,
        agent=hook.agent,
        conversation_id=texts["conversation_id"],
        thread_id=texts["thread_id"],
        actor=actor,
        input=Input(text=texts["text"]),
        data=data,
        metadata={"hook": about},
    )
    problems = tuple(Unmapped(field=name, problem=why) for name, why in unmapped.items())
    return Mapped(envelope, problems, named=own_id is not None or hook.same_body == "once")


def _event_id(hook: Hook, said: Said, own_id: str | None, workspace_id: str) -> str:
    """Return the same id for the same message: that of its sender or, without one, that of its body."""
    if own_id is None and hook.same_body == "new":
        return f"hook-{new_id()}"
    parts = ["body", said.digest] if own_id is None else ["id", own_id]
    return f"hook-{digest([SOURCE, workspace_id, hook.name, *parts])}"


def _source_event_type(hook: Hook, said: Said) -> str | None:
    found: Any = None
    if (header := _TYPE_HEADERS.get(hook.verify)) is not None:
        found = said.headers.get(header)
    elif isinstance(said.body, dict) and hook.verify in ("stripe", "standard", "slack"):
        inner = said.body.get("event") if hook.verify == "slack" else None
        found = inner.get("type") if isinstance(inner, dict) else said.body.get("type")
    return (
        found if isinstance(found, str) and 0 < len(found) <= MAX_ID_CHARS and "\x00" not in found else None
    )


def _text(name: str, values: Mapping[str, ValueOutcome], unmapped: dict[str, str]) -> str | None:
    """Return the text of a field; None if there is none, with the reason in `unmapped` if it is a mistake."""
    outcome = values.get(name)
    if outcome is None:
        return None
    value = outcome.value
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    most = _MOST_CHARS.get(name, MAX_ID_CHARS)
    problem = outcome.error
    if problem is None and value is not None and not isinstance(value, str):
        problem = f"the expression gave {type(value).__name__}, and no text"
    elif problem is None and value is not None and most is not None and len(value) > most:
        problem = f"the expression gave {len(value):,} characters; at most {most:,} are possible"
    elif problem is None and value is not None and "\x00" in value:
        problem = "the expression gave a NUL character"
    if problem is not None:
        unmapped[name] = problem
    return None if problem is not None or not value else value


def _data(
    hook: Hook, said: Said, values: Mapping[str, ValueOutcome], unmapped: dict[str, str]
) -> dict[str, Any]:
    outcome = values.get("data")
    if outcome is not None and outcome.error is None and isinstance(outcome.value, dict):
        return outcome.value
    if outcome is not None:
        why = outcome.error or f"the expression gave {type(outcome.value).__name__}, and no map"
        unmapped["data"] = why
        return {}
    return said.body if isinstance(said.body, dict) else {"body": said.body}


def _body_of(hook: Hook, request: HookRequest) -> Any:
    kind = request.content_type
    if kind == FORM_TYPE:
        try:
            form: Any = _by_name(form_fields(request.body))
        except HookRefusedError as error:
            raise UnreadableBodyError(error.message) from None
        if hook.verify == "slack" and isinstance(form.get("payload"), str):
            form = _json(form["payload"].encode("utf-8", "surrogatepass"))  # what a button or a form sends
        return _without_token(hook, form)
    if kind == "text/plain":
        try:
            return request.body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UnreadableBodyError(f"the body is not a text in UTF-8: {error.reason}") from None
    return _without_token(hook, _json(request.body))


def _json(body: bytes) -> Any:
    if not body:
        return {}
    try:
        return msgspec.json.decode(body)
    except DECODE_ERRORS as error:
        raise UnreadableBodyError(f"the body is not JSON: {error}") from None


def _without_token(hook: Hook, body: Any) -> Any:
    if hook.verify == "slack" and isinstance(body, dict):
        return {name: value for name, value in body.items() if name != "token"}
    return body


def _is_secret(hook: Hook, name: str) -> bool:
    return _SECRET_HEADER.search(name) is not None or (
        hook.hmac is not None and name == hook.hmac.header.lower()
    )


def _by_name(fields: list[tuple[str, str]]) -> dict[str, Any]:
    """Return fields by name; one that is given several times has a list."""
    found: dict[str, Any] = {}
    for name, value in fields:
        if name not in found:
            found[name] = value
        elif isinstance(found[name], list):
            found[name].append(value)
        else:
            found[name] = [found[name], value]
    return found


def _clean(value: str) -> str:
    """Return the value of a header without the bytes that are no text."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
