"""Permission requests of an agent, and the decisions of people on them."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from acp.schema import (
    AllowedOutcome,
    DeniedOutcome,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
)

from hostler_acp.answer import described, shortened, tool_name
from hostler_acp.limits import GATHER_SECONDS, MAX_ASKED_BYTES
from hostler_acp.notes import Notes
from hostler_acp.settings import Permission
from hostler_sdk import RunContext
from hostler_sdk.errors import Denied, Expired
from hostler_sdk.types import Decision

ALLOW = ("allow_once", "allow_always")
REJECT = ("reject_once", "reject_always")
MAX_TITLE_BYTES = 500
STATE_VERSION = 1


@dataclass(slots=True)
class Asked:
    """A permission request that people decide."""

    key: str
    """What is asked, as a digest: the same question of a later attempt has the same key."""
    pending: dict[str, Any]
    """As `paused` takes it."""
    answer: asyncio.Future[bool | None]
    """True: allowed; False: rejected; None: withdrawn."""


@dataclass(slots=True)
class Decided:
    """What people have decided in this run, by the key of what was asked."""

    allowed: dict[str, int] = field(default_factory=dict)
    """How often it may be done: each approval is for one call."""
    rejected: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """What the agent is told."""

    def outcome(self, key: str) -> bool | None:
        """Return the decision for a request, and use an approval up; None: there is none."""
        if self.allowed.get(key, 0) > 0:
            self.allowed[key] -= 1
            return True
        return False if key in self.rejected else None


class Permissions:
    """Answers the permission requests of one session."""

    def __init__(
        self,
        policy: Permission,
        decided: Decided,
        notes: Notes,
        part: int,
        known: Mapping[str, Any],
    ) -> None:
        self._policy = policy
        self._decided = decided
        self._notes = notes
        self._part = part
        self._known = known
        self._number = 0
        self._closed = False
        self.asked: list[Asked] = []
        self.news = asyncio.Event()

    async def decide(
        self, call: ToolCallUpdate, options: Sequence[PermissionOption]
    ) -> RequestPermissionResponse:
        """Answer a request by what is decided; else wait until it is put to people."""
        outcome = await self._outcome(call)
        if outcome is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        for kind in ALLOW if outcome else REJECT:
            for option in options:
                if option.kind == kind:
                    chosen = AllowedOutcome(outcome="selected", option_id=option.option_id)
                    return RequestPermissionResponse(outcome=chosen)
        self._notes.write(
            f"the agent offered no way to {'allow' if outcome else 'reject'} what it asked for, "
            "which is cancelled",
            "warning",
        )
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))

    async def _outcome(self, call: ToolCallUpdate) -> bool | None:
        if self._closed:
            return None
        if self._policy != "ask":
            return self._policy == "allow"
        shown = _shown(call, self._known.get(call.tool_call_id))
        key = hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()
        if (decided := self._decided.outcome(key)) is not None:
            return decided
        arguments = {name: value for name, value in shown.items() if name != "kind"}
        if len(json.dumps(arguments).encode()) > MAX_ASKED_BYTES:
            self._notes.write(
                f"a permission request of over {MAX_ASKED_BYTES:,} bytes is rejected: nobody "
                "could be shown all of it",
                "warning",
            )
            return False
        self._number += 1
        title = shown.get("title") or "The agent asks for a permission"
        pending = {
            "tool_name": tool_name(shown["kind"]),
            "arguments": arguments,
            "kind": "approval",
            "title": shortened(title, MAX_TITLE_BYTES),
            "call_id": f"{self._part}-{self._number}",
            "executor": "runner",
        }
        asked = Asked(key, pending, asyncio.get_running_loop().create_future())
        self.asked.append(asked)
        self.news.set()
        return await asked.answer

    async def gathered(self) -> list[Asked]:
        """Wait for a request, and for others of the same step; return those that nobody has answered."""
        await self.news.wait()
        await asyncio.sleep(GATHER_SECONDS)
        self.news.clear()
        found, self.asked = self.asked, []
        return found

    def withdraw(self, asked: Sequence[Asked] = ()) -> None:
        """Answer what is open, and what comes, as cancelled: the turn is over."""
        self._closed = True
        for one in [*asked, *self.asked]:
            if not one.answer.done():
                one.answer.set_result(None)


def _shown(call: ToolCallUpdate, known: Any) -> dict[str, Any]:
    """Return what people are shown: of the request, or else of the tool call that was reported before."""
    shown = described(call, None)
    before = known or {}
    for name, value in before.get("shown", {}).items():
        shown.setdefault(name, value)
    return {"kind": call.kind or before.get("kind"), **shown}


def state_of(session_id: str, asked: Sequence[Asked], decided: Decided) -> dict[str, Any]:
    """Return what the next attempt needs, as JSON."""
    return {
        "version": STATE_VERSION,
        "session_id": session_id,
        "asked": {one.pending["call_id"]: {"key": one.key, "title": one.pending["title"]} for one in asked},
        "allowed": {key: left for key, left in decided.allowed.items() if left},
        "rejected": decided.rejected,
    }


def decided_by(state: Mapping[str, Any], decisions: Sequence[Decision]) -> Decided:
    """Return what is decided: the earlier decisions of the run, and those on the calls of its pause."""
    decided = Decided(dict(state.get("allowed") or {}), list(state.get("rejected") or []))
    asked = state.get("asked") or {}
    for decision in decisions:
        one = asked.get(decision.call_id)
        if one is None:
            continue
        decided.lines.append(_line(one["title"], decision))
        if decision.decision == "approved":
            decided.allowed[one["key"]] = decided.allowed.get(one["key"], 0) + 1
        else:
            decided.rejected.append(one["key"])
    return decided


def _line(title: str, decision: Decision) -> str:
    said = f" The person who decided says: {decision.comment}" if decision.comment else ""
    match decision.decision:
        case "approved":
            return f"- Allowed, once: {title}.{said} Do it now, exactly as you asked for it."
        case "expired":
            return f"- Nobody decided in time, so it is not allowed: {title}."
        case "cancelled":
            return f"- Withdrawn, so it is not allowed: {title}.{said}"
        case _:
            return f"- Refused: {title}.{said} Do not try it in another way."


def going_on(decided: Decided) -> str:
    """Return the prompt with which the agent goes on after the pause."""
    return "\n".join(
        [
            "The permissions that you asked for have been decided. Your turn was interrupted to ask; nothing "
            "of what you asked for has been done.",
            *decided.lines,
            "Go on with the task.",
        ]
    )


async def put_to_people(
    ctx: RunContext, asked: Sequence[Asked], expires_in: int | None, turn: asyncio.Task[Any]
) -> None:
    """Ask for each permission while the agent waits, and pass the decisions on; end with the agent's turn.

    For agents whose sessions cannot be opened again: the run holds its process, and is lost with it.
    """

    async def ask(one: Asked) -> None:
        shown = json.dumps(one.pending["arguments"], ensure_ascii=False, indent=1)
        try:
            decision = await ctx.ask(
                one.pending["title"],
                expires_in=expires_in,
                description=f"{one.pending['tool_name']}: {shown}",
                kind="confirmation",
            )
            is_allowed = decision.decision == "approved"
        except (Denied, Expired):  # of an agent that asks nobody
            is_allowed = False
        if not one.answer.done():
            one.answer.set_result(is_allowed)

    asking = asyncio.gather(*map(ask, asked))
    try:
        await asyncio.wait({turn, asking}, return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            asking.result()
    finally:
        asking.cancel()
