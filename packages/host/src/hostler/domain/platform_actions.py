"""The platform actions: their names, what they take, their risk and effect class.

An action is asked for with a target and a payload. As the arguments of a tool, and where people are shown
them, both are one object: no field of a payload has the name of a field of targets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from hostler.domain.suggestions import did_you_mean
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.ids import digest
from hostler_protocol.manifest import ToolEffect

Risk = Literal["read", "write", "dangerous"]
"""`dangerous`: it concerns other people's messages or membership, or cannot be undone."""

TOOL_PREFIX = "platform."
MAX_ID_CHARS = 512
MAX_TEXT_CHARS = 65_536
MAX_PAGE = 100
MAX_OPTIONS = 20
MAX_FIELDS = 50
MAX_FIELD_CHARS = 100
"""Names of a payload's fields in the audit log: runners may send any."""
TARGET_FIELDS: Mapping[str, str] = {
    "channel": "The configured channel; left out: that of the conversation.",
    "chat_id": "The chat, by the platform's id; left out: the one of the conversation.",
    "thread_id": "The thread within the chat.",
    "message_id": "The message, by the platform's id.",
    "person_id": "The person, by the platform's id.",
    "request_id": "The request of friendship, by the platform's id.",
}
"""What a target may name, with descriptions for models."""


@dataclass(frozen=True)
class PlatformAction:
    """One action. `target`: the fields that its target has, besides `channel`; `needs`: those it must have.

    `own`: those among them that are taken from the event of the run if they are left out. `payload`: JSON
    Schemas by name, of which `payload_needs` must be there. `effect`: what may be done if the outcome is not
    known. `speaks`: it says something, for which the bot must have had a conversation there. `wide`: it is
    about the account, and not about one chat.
    """

    name: str
    description: str
    risk: Risk
    effect: ToolEffect
    target: Sequence[str] = ("chat_id",)
    needs: Sequence[str] = ("chat_id",)
    own: Sequence[str] = ("chat_id",)
    payload: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    payload_needs: Sequence[str] = ()
    speaks: bool = False
    wide: bool = False

    @property
    def tool_name(self) -> str:
        """Its name as a tool: `platform.message_react`."""
        return TOOL_PREFIX + self.name.removeprefix(TOOL_PREFIX).replace(".", "_")

    @property
    def main(self) -> str:
        """The field that a target means which is given as a text alone."""
        return self.needs[-1] if self.needs else "chat_id"

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of target and payload together."""
        names = ["channel", *self.target]
        targets = {
            name: {"type": "string", "maxLength": MAX_ID_CHARS, "minLength": 1, "description": words}
            for name, words in TARGET_FIELDS.items()
            if name in names
        }
        needed = [name for name in self.needs if name not in self.own]
        return {
            "type": "object",
            "properties": {**targets, **self.payload},
            "required": [*needed, *self.payload_needs],
            "additionalProperties": False,
        }


def arguments_of(
    action: PlatformAction, target: Mapping[str, Any] | str | None, payload: Mapping[str, Any]
) -> dict[str, Any]:
    """Return target and payload as one object. InvalidArgumentError if a field is in the wrong one."""
    given = {action.main: target} if isinstance(target, str) else dict(target or {})
    for name in given:
        if name not in TARGET_FIELDS:
            text = f"target.{name:.80} is no field of targets; {did_you_mean(name, TARGET_FIELDS)}"
            raise InvalidArgumentError(text)
    for name in payload:
        if name in TARGET_FIELDS:
            raise InvalidArgumentError(f"payload.{name} belongs into the target")
    return {**{name: value for name, value in given.items() if value is not None}, **payload}


def split_arguments(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the target and the payload of one object."""
    target = {name: value for name, value in arguments.items() if name in TARGET_FIELDS}
    return target, {name: value for name, value in arguments.items() if name not in TARGET_FIELDS}


def audited(name: str, target: Mapping[str, Any] | str | None, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the audit log keeps of an action: what it was about, and nothing of what it says.

    The log is never deleted. `payload_digest` shows whether two payloads are the same.
    """
    if isinstance(target, Mapping):
        target = {field: value for field, value in target.items() if field in TARGET_FIELDS}
    fields = sorted(field[:MAX_FIELD_CHARS] for field in payload)[:MAX_FIELDS]
    return {"action": name, "target": target, "payload_fields": fields, "payload_digest": digest(payload)}


# -- the table --------------------------------------------------------------------------------------------


def _text(description: str, most: int = MAX_TEXT_CHARS) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": most, "description": description}


def _number(description: str, most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": most, "description": description}


_CHAT = ("chat_id", "thread_id")
_MESSAGE = ("chat_id", "thread_id", "message_id")
_PERSON = ("chat_id", "person_id")
_IN_CHAT = ("chat_id", "message_id")
_REASON = {"reason": _text("Why, for the record of the platform.", 512)}
_FORWARD = {"to_chat_id": _text("The chat that it goes to; left out: the one of the conversation.", 512)}
_PAGE = {
    "limit": _number("How many at most.", MAX_PAGE),
    "cursor": _text("Where the page before ended.", 1_024),
}
_YEAR = 366 * 86_400

_ACTIONS = (
    PlatformAction(
        "message.send",
        "Send a message to a chat.",
        "write",
        "default",
        _CHAT,
        payload={"text": _text("The message, in Markdown.")},
        payload_needs=("text",),
        speaks=True,
    ),
    PlatformAction(
        "message.reply",
        "Reply to a message; left out, to the one that is being answered.",
        "write",
        "default",
        _MESSAGE,
        _IN_CHAT,
        _IN_CHAT,
        {"text": _text("The message, in Markdown.")},
        ("text",),
        speaks=True,
    ),
    PlatformAction(
        "message.edit",
        "Replace a message that the bot has sent.",
        "write",
        "idempotent",
        _MESSAGE,
        _IN_CHAT,
        payload={"text": _text("The new text, in Markdown.")},
        payload_needs=("text",),
    ),
    PlatformAction(
        "message.delete", "Delete a message for everybody.", "dangerous", "default", _MESSAGE, _IN_CHAT
    ),
    PlatformAction(
        "message.react",
        "React to a message; left out, to the one that is being answered.",
        "write",
        "idempotent",
        _MESSAGE,
        _IN_CHAT,
        _IN_CHAT,
        {"emoji": _text("The emoji, or the platform's name of it.", 64)},
        ("emoji",),
    ),
    PlatformAction(
        "message.unreact",
        "Take a reaction of the bot back.",
        "write",
        "idempotent",
        _MESSAGE,
        _IN_CHAT,
        _IN_CHAT,
        {"emoji": _text("The emoji; left out: all.", 64)},
    ),
    PlatformAction(
        "message.pin",
        "Pin a message in its chat; left out, the one that is being answered.",
        "write",
        "idempotent",
        _MESSAGE,
        _IN_CHAT,
        _IN_CHAT,
    ),
    PlatformAction(
        "message.forward",
        "Forward a message to another chat.",
        "write",
        "default",
        _MESSAGE,
        _IN_CHAT,
        _IN_CHAT,
        _FORWARD,
        speaks=True,
    ),
    PlatformAction("typing.start", "Show that an answer is on its way.", "write", "idempotent", _CHAT),
    PlatformAction(
        "file.send",
        "Send a file to a chat.",
        "write",
        "default",
        _CHAT,
        payload={
            "artifact_id": _text("The artifact that is sent.", 128),
            "text": _text("What goes with it, in Markdown."),
        },
        payload_needs=("artifact_id",),
        speaks=True,
    ),
    PlatformAction(
        "poll.create",
        "Ask the people of a chat to vote.",
        "write",
        "default",
        _CHAT,
        payload={
            "question": _text("The question.", 512),
            "options": {
                "type": "array",
                "items": _text("An answer.", 256),
                "minItems": 2,
                "maxItems": MAX_OPTIONS,
                "uniqueItems": True,
            },
            "multiple": {"type": "boolean", "description": "Whether one may choose several."},
        },
        payload_needs=("question", "options"),
        speaks=True,
    ),
    PlatformAction(
        "member.mute",
        "Keep somebody from writing in a chat.",
        "dangerous",
        "idempotent",
        _PERSON,
        _PERSON,
        payload={"seconds": _number("For how long; left out: until it is undone.", _YEAR), **_REASON},
    ),
    PlatformAction(
        "member.unmute", "Let somebody write in a chat again.", "write", "idempotent", _PERSON, _PERSON
    ),
    PlatformAction(
        "member.kick",
        "Remove somebody from a chat.",
        "dangerous",
        "default",
        _PERSON,
        _PERSON,
        payload=_REASON,
    ),
    PlatformAction(
        "member.ban",
        "Remove somebody from a chat, and keep them out.",
        "dangerous",
        "idempotent",
        _PERSON,
        _PERSON,
        payload=_REASON,
    ),
    PlatformAction("member.info", "Read what is known of somebody.", "read", "pure", _PERSON, _PERSON),
    PlatformAction("member.list", "List the people of a chat.", "read", "pure", payload=_PAGE),
    PlatformAction("group.info", "Read the title and settings of a chat.", "read", "pure"),
    PlatformAction(
        "group.rename",
        "Give a chat another title.",
        "write",
        "idempotent",
        payload={"title": _text("The title.", 256)},
        payload_needs=("title",),
    ),
    PlatformAction("group.leave", "Leave a chat for good.", "dangerous", "default"),
    PlatformAction(
        "friend.accept",
        "Accept a request of friendship; left out, the one of the event.",
        "write",
        "default",
        ("request_id",),
        ("request_id",),
        ("request_id",),
    ),
    PlatformAction(
        "friend.decline",
        "Decline a request of friendship; left out, the one of the event.",
        "write",
        "default",
        ("request_id",),
        ("request_id",),
        ("request_id",),
    ),
    PlatformAction(
        "history.fetch",
        "Read earlier messages of a chat, as the platform has them.",
        "read",
        "pure",
        _CHAT,
        payload=_PAGE,
    ),
    PlatformAction(
        "platform.call",
        "Call a method of the platform's own interface.",
        "dangerous",
        "default",
        (),
        (),
        (),
        {
            "method": _text("The method, as the platform names it.", 256),
            "params": {"type": "object", "description": "Its parameters."},
        },
        ("method",),
        wide=True,
    ),
)
PLATFORM_ACTIONS: Mapping[str, PlatformAction] = {action.name: action for action in _ACTIONS}
"""Every action, by its name."""
ACTION_OF_TOOL: Mapping[str, str] = {action.tool_name: action.name for action in _ACTIONS}
"""The name of the action that a tool `platform.*` carries out."""
