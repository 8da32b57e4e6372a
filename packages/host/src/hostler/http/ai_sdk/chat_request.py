"""What `useChat` sends: the messages of a chat, the last of which is new, or has decisions in it."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from hostler.domain.pause_actions import Action
from hostler.domain.pause_values import args_hash
from hostler.domain.pause_views import CallView
from hostler.http.ai_sdk.asked import QUESTION_TOOL
from hostler.http.ai_sdk.files import element_of
from hostler.http.dialects.answers import read_call_id
from hostler.http.dialects.paused_calls import ToAction
from hostler.http.dialects.requests import DIGEST_CHARS, NamedCall, check_shown
from hostler_protocol._base import Lenient
from hostler_protocol.content import TextElement, text_of
from hostler_protocol.errors import InvalidArgumentError, NotFoundError
from hostler_protocol.events import CallerTool, Input
from hostler_protocol.ids import digest

MAX_MESSAGES = 10_000
MAX_PARTS = 10_000
"""Parts of a message: an answer has one for each text, call and file."""
WITH_DIGEST = re.compile(rf"\.[0-9a-f]{{{DIGEST_CHARS}}}$")
"""The end of an id of an approval that names what was shown. Runners may give calls ids with dots."""
RETURNED = ("output-available", "output-error")
"""States of a part whose tool has returned."""


class UIMessage(Lenient):
    """A message of a chat."""

    id: str
    role: Literal["system", "user", "assistant"]
    parts: list[dict[str, Any]]
    metadata: Any = None


class ToolOfChat(Lenient):
    """A tool that the front end carries out. `parameters` or `inputSchema`: JSON Schema of an object."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None
    input_schema: dict[str, Any] | None = msgspec.field(default=None, name="inputSchema")

    def tool(self) -> CallerTool:
        """Return it as the host knows it."""
        schema = self.parameters if self.parameters is not None else self.input_schema
        return CallerTool(name=self.name, description=self.description, parameters=schema or {})


class ChatRequest(Lenient):
    """The body of a chat's request. `tools` and `data` are what the front end adds to it."""

    id: Annotated[str, msgspec.Meta(min_length=1, pattern=r"^[^\x00]*$")]
    messages: Annotated[list[UIMessage], msgspec.Meta(min_length=1, max_length=MAX_MESSAGES)]
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    message_id: str | None = msgspec.field(default=None, name="messageId")
    tools: list[ToolOfChat] = []
    data: dict[str, Any] = {}


class Said(NamedTuple):
    """A user's message: its input, and an id that the same message of the same chat has again."""

    input: Input
    event_id: str


class Decided(NamedTuple):
    """A decision in a message: of which run and call, what makes its action, and the part that it is in."""

    run_id: str
    call_id: str
    action: ToAction
    part: dict[str, Any]

    def shows(self, call: CallView) -> bool:
        """Whether the message shows what is decided of a call: it does once it is read again."""
        if call.decision == "undecided":
            return False
        approval = self.part.get("approval")
        if isinstance(approval, dict) and isinstance(approval.get("approved"), bool):
            return bool(approval["approved"]) == (call.decision == "approved")
        if self.part.get("state") == "output-error" or self.part.get("output") is None:
            return True  # nobody answered, or nobody whose answer its reader may see
        said = self.action(call)
        return (said.result, said.values, said.action) == (call.result, call.values, call.action)


def last_said(chat: ChatRequest, addresses: Collection[str]) -> Said:
    """Return the last message of the user. InvalidArgumentError if the chat does not end with one.

    `addresses`: of this host, whose files are artifacts.
    """
    message = chat.messages[-1]
    place = f"messages[{len(chat.messages) - 1}]"
    if message.role != "user":
        raise InvalidArgumentError(
            f"{place}: role: expected user, or an assistant message with decisions in it"
        )
    parts = [
        element_of(part, f"{place}.parts[{number}]", addresses)
        for number, part in enumerate(message.parts)
        if not str(part.get("type", "")).startswith("data-")
    ]
    texts = [part for part in parts if isinstance(part, TextElement)]
    if not any(part.text for part in texts) and len(texts) == len(parts):
        raise InvalidArgumentError(f"{place}: the message is empty: expected a text or a file")
    tools = [tool.tool() for tool in chat.tools]
    # an edited message keeps its id, and is another one
    identity = digest(["ai-sdk", chat.id, message.id, msgspec.to_builtins(parts)])
    if len(texts) == len(parts):
        return Said(Input(text=text_of(list(texts)), tools=tools), f"ai-sdk-{identity}")
    return Said(Input(contents=parts, tools=tools), f"ai-sdk-{identity}")


def decisions_in(chat: ChatRequest) -> list[Decided]:
    """Return the decisions in the last message, if it is the assistant's; parts without one are passed
    over. InvalidArgumentError over MAX_PARTS.
    """
    message = chat.messages[-1]
    if len(message.parts) > MAX_PARTS:
        raise InvalidArgumentError(
            f"the last message has {len(message.parts):,} parts; at most {MAX_PARTS:,}"
        )
    if message.role != "assistant":
        return []
    return [found for part in message.parts if (found := _decision(part)) is not None]


def is_sent_again(chat: ChatRequest) -> bool:
    """Whether clients send the last message again as it is, since each call of its last step is decided."""
    parts = chat.messages[-1].parts
    start = max((number for number, part in enumerate(parts) if part.get("type") == "step-start"), default=-1)
    calls = [part for part in parts[start + 1 :] if "toolCallId" in part]
    decided = (*RETURNED, "output-denied", "approval-responded")
    return bool(calls) and all(part.get("state") in decided for part in calls)


def _decision(part: dict[str, Any]) -> Decided | None:
    approval = part.get("approval")
    if isinstance(approval, dict) and isinstance(approval.get("approved"), bool):
        asked = _asked(approval.get("id"))
        if asked is None:
            return None
        return Decided(asked.run_id, asked.call_id, _verdict(part, approval, asked), part)
    about = part.get("toolMetadata")
    about = about.get("hostler") if isinstance(about, dict) else None
    if not isinstance(about, dict) or part.get("state") not in RETURNED:
        return None
    found = _named(about.get("callId"))
    return None if found is None else Decided(*found, _outcome(part), part)


def _named(name: Any) -> tuple[str, str] | None:
    """Return the run and the call of an id of ours."""
    if not isinstance(name, str):
        return None
    try:
        return read_call_id(name)
    except NotFoundError:
        return None


def _asked(name: Any) -> NamedCall | None:
    """Return what the id of an approval names; ids that clients have of earlier versions have no digest."""
    has_digest = isinstance(name, str) and WITH_DIGEST.search(name)
    head, _, shown = name.rpartition(".") if has_digest else (name, "", "")
    found = _named(head)
    return None if found is None else NamedCall(*found, shown)


def _verdict(part: dict[str, Any], approval: dict[str, Any], asked: NamedCall) -> ToAction:
    shown = approval.get("descriptor")
    shown = shown.get("argsHash") if isinstance(shown, dict) else None
    reason = approval.get("reason")

    def action(call: CallView) -> Action:
        return Action(
            call_id=call.call_id,
            type="approve" if approval["approved"] else "deny",
            args_hash=shown if isinstance(shown, str) else _seen(part, approval["id"], asked, call),
            comment=reason if isinstance(reason, str) else None,
        )

    return action


def _seen(part: dict[str, Any], name: str, asked: NamedCall, call: CallView) -> str | None:
    """Return the digest of what the message shows of a call, by the id of its approval, else by its input."""
    if asked.shown:
        check_shown(name, asked, call)
        return call.args_hash
    return args_hash(call.args) if part.get("input") == call.args else None


def _outcome(part: dict[str, Any]) -> ToAction:
    def action(call: CallView) -> Action:
        if part["state"] == "output-error":
            text = part.get("errorText")
            return Action(
                call_id=call.call_id, type="error", error=text if isinstance(text, str) else "failed"
            )
        output = part.get("output")
        if part.get("type") != f"tool-{QUESTION_TOOL}" or call.kind != "question":
            return Action(call_id=call.call_id, type="result", result=output)
        given = output if isinstance(output, dict) else {}
        values, button = given.get("values", {}), given.get("action")
        return Action(
            call_id=call.call_id,
            type="answer",
            values=values if isinstance(values, dict) else {},
            action=button if isinstance(button, str) else None,
        )

    return action
