"""The messages of `/v1/ws`: JSON objects, one per text frame, told apart by `type`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec

from hostler.domain.pause_actions import Action, ActionAnswer, ResolveOutcome
from hostler.domain.pause_views import PauseView
from hostler.http.live.schema import DATA_TYPES
from hostler.http.live.wanted import From
from hostler.http.problems import Problem
from hostler.http.routes.events import PostedEvent
from hostler.http.routes.runs import MAX_GRACE_SECONDS
from hostler.runs.orchestrator import Accepted
from hostler_protocol._base import Strict
from hostler_protocol.events import Actor, Input
from hostler_protocol.limits import MAX_REASON_CHARS
from hostler_protocol.runs import RunRecord

PROTOCOL: Literal[1] = 1
MAX_NAME_CHARS = 64
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME_CHARS)]
"""A request's id or a subscription's name: the client chooses it, and the host repeats it."""


class Subscribe(Strict, tag="subscribe"):
    """Follow a run (`run_id`), a conversation (`conversation_id`), or the workspace (neither).

    `cursor`: of the last event that the client has seen; without it, a run begins with its first result, any
    other subscription with what comes, or with `from: start`. `agent`, `bot_id` and `types` are for
    conversations and the workspace. The name must be free.
    """

    id: Name
    subscription: Name
    run_id: str | None = None
    conversation_id: str | None = None
    agent: str | None = None
    bot_id: str | None = None
    types: list[str] = []
    cursor: str | None = None
    begin: From = msgspec.field(name="from", default="now")


class Unsubscribe(Strict, tag="unsubscribe"):
    """End a subscription. After the answer nothing of it is sent, and its name is free."""

    id: Name
    subscription: Name


class Send(Strict, tag="send"):
    """Send an event, as `POST /v1/events` does. With an `event_id` it may be repeated after a lost answer."""

    id: Name
    event: PostedEvent


class Steer(Strict, tag="steer"):
    """Send a message to the conversation of a run that goes on, which absorbs it if it can.

    The answer says what became of it, as for `send`; a run that has ended is a `conflict`.
    """

    id: Name
    run_id: str
    input: Input
    event_id: str | None = None
    actor: Actor | None = None


class Decide(Strict, tag="decide"):
    """Decide calls of a pause, as `POST /v1/pauses/{id}/actions` does. The same again changes nothing."""

    id: Name
    pause_id: str
    revision: int
    actions: list[Action]


class Resolve(Strict, tag="resolve"):
    """Say what became of a call in doubt, as `POST /v1/pauses/{id}/calls/{call}/resolve` does.

    The same again changes nothing.
    """

    id: Name
    pause_id: str
    call_id: str
    outcome: ResolveOutcome
    result: Any = None
    comment: str | None = None


class Cancel(Strict, tag="cancel"):
    """Cancel a run, as `POST /v1/runs/{id}/cancel` does."""

    id: Name
    run_id: str
    reason: Annotated[str, msgspec.Meta(max_length=MAX_REASON_CHARS)] = "cancelled by request"
    grace: Annotated[float, msgspec.Meta(ge=0, le=MAX_GRACE_SECONDS)] | None = None


class Ping(Strict, tag="ping"):
    """Ask for an answer."""

    id: Name


Command: TypeAlias = Subscribe | Unsubscribe | Send | Steer | Decide | Resolve | Cancel | Ping
"""What a client sends."""


class Hello(Strict, tag="hello"):
    """The first message of the host. `protocol` changes when a client would have to."""

    protocol: Literal[1]
    workspace_id: str
    max_subscriptions: int
    max_frame_bytes: int


class Subscribed(Strict):
    """The answer to `subscribe`. `cursor`: where it begins; null at the first result of a run."""

    subscription: str
    cursor: str | None


class Answer(Strict, tag="answer"):
    """The answer to the request `id`: Subscribed (`subscribe`), Accepted (`send`, `steer`), ActionAnswer
    (`decide`), PauseView (`resolve`), RunRecord (`cancel`), or null.
    """

    id: str
    result: Any


class Refusal(Strict, tag="error"):
    """Why the request `id` was refused, as a problem document; `id` is null where it could not be read."""

    id: str | None
    problem: Problem


class SubscriptionEvent(Strict):
    """One event. `type` and `data` are those of the event streams; a client keeps the last `cursor`."""

    cursor: str
    type: str
    data: Any


class Events(Strict, tag="events"):
    """Events of a subscription, in order."""

    subscription: str
    events: list[SubscriptionEvent]


class Progress(Strict, tag="cursor"):
    """All up to this cursor was looked at, and nothing of it is wanted: a client resumes from here."""

    subscription: str
    cursor: str


class End(Strict, tag="end"):
    """A subscription is over: its run has ended, or `problem` says why. Its name is free."""

    subscription: str
    problem: Problem | None


ServerMessage: TypeAlias = Hello | Answer | Refusal | Events | Progress | End
"""What the host sends."""


def schema() -> dict[str, Any]:
    """Return the JSON Schema of the protocol: `$defs` has `Command` and `ServerMessage` and all they hold."""
    commands, messages = get_args(Command), get_args(ServerMessage)
    kinds = [*commands, *messages, Subscribed, Accepted, ActionAnswer, PauseView, RunRecord, *DATA_TYPES]
    refs, definitions = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Hostler /v1/ws",
        "$defs": {
            "Command": {"anyOf": refs[: len(commands)]},
            "ServerMessage": {"anyOf": refs[len(commands) : len(commands) + len(messages)]},
            **dict(sorted(definitions.items())),
        },
    }
