"""Calls that wait, put to the person at the editor or carried out by the editor."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from hostler.cli.acp.decisions import Action, WaitingCall, decide, find_call, refusal, until_changed
from hostler.cli.acp.editor import Editor, EditorError
from hostler.cli.acp.editor_tools import EditorTools
from hostler.cli.acp.host_access import HostAccess
from hostler.cli.acp.permissions import (
    approval_action,
    approval_options,
    approval_text,
    choose,
    described,
    option,
)
from hostler.cli.acp.questions import ask_form, can_be_form, question_text
from hostler.cli.acp.updates import agent_text, tool_progress
from hostler.domain.run_events import Asked
from hostler_protocol.errors import HostlerError, UnavailableError

HAPPENED, NOT_HAPPENED = "happened", "not_happened"
log = logging.getLogger(__name__)


class WaitingCalls:
    """Puts the waiting calls of one run to the editor, each once at a time.

    Whoever decides first decides: if that is somebody elsewhere, the editor's request is withdrawn.
    """

    def __init__(
        self, editor: Editor, host: HostAccess, tools: EditorTools, session_id: str, run_id: str
    ) -> None:
        self._editor = editor
        self._host = host
        self._tools = tools
        self._session_id = session_id
        self._run_id = run_id
        self._asking: dict[str, asyncio.Task[None]] = {}

    def ask(self, asked: Asked) -> None:
        """Begin to put a call to the editor; a request for the same call replaces the earlier one."""
        call_id = asked.request.call_id
        if (earlier := self._asking.pop(call_id, None)) is not None:
            earlier.cancel()
        self._asking[call_id] = self._editor.tasks.create(self._settle(asked), name=f"ask {call_id}")

    def stop(self) -> None:
        """Withdraw what is still being asked."""
        for task in self._asking.values():
            task.cancel()
        self._asking.clear()

    async def _settle(self, asked: Asked) -> None:
        try:
            await self._until_settled(asked)
        except HostlerError as error:
            await self._say(asked, f"The waiting call cannot be decided here: {error.message}")

    async def _until_settled(self, asked: Asked) -> None:
        while True:
            waiting = await find_call(self._host, self._run_id, asked.request.call_id)
            if waiting is not None and not waiting.is_open:
                return
            if waiting is None or not waiting.call["may_decide"]:
                await self._say(asked, _for_others(waiting, asked))
                return
            try:
                changed, action = await self._put(waiting, asked)
            except EditorError as error:
                log.warning("%s", error)
                changed, action = False, None
            if changed:
                continue
            if action is None:
                await self._say(asked, _left_open(waiting, asked))
                return
            try:
                answer = await decide(self._host, waiting, action)
            except UnavailableError:
                raise
            except HostlerError as error:  # decided otherwise, changed or expired meanwhile: look again
                await self._say(asked, refusal(error))
                if _is_unfit(error):
                    return
                continue
            if answer.get("remaining") and waiting.call.get("approvals_needed", 1) > 1:
                await self._say(asked, "Your approval is recorded; more are needed.")
            return

    async def _put(self, waiting: WaitingCall, asked: Asked) -> tuple[bool, Action | None]:
        """Ask, and return the action; True if the call was decided elsewhere or has changed meanwhile."""
        asking = asyncio.ensure_future(self._question(waiting, asked))
        watching = asyncio.ensure_future(until_changed(self._host, self._run_id, waiting))
        try:
            await asyncio.wait({asking, watching}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return False, asking.result()
            watching.result()
            return True, None
        finally:
            for task in (asking, watching):
                task.cancel()
            await asyncio.gather(asking, watching, return_exceptions=True)

    def _question(self, waiting: WaitingCall, asked: Asked) -> Coroutine[Any, Any, Action | None]:
        call = waiting.call
        if call.get("review") is not None:
            return self._ask_in_doubt(call, asked)
        match call["kind"]:
            case "approval" | "budget":
                return self._ask_approval(call, asked)
            case "client_tool":
                return self._tools.carry_out(self._call_id(asked), call["tool"], call["args"])
            case _:
                return self._ask_question(call, asked)

    async def _ask_approval(self, call: dict[str, Any], asked: Asked) -> Action | None:
        shown = described(
            self._call_id(asked), call["tool"] or call["kind"], call["args"], text=approval_text(call)
        )
        chosen = await choose(self._editor, self._session_id, shown, approval_options(call))
        return None if chosen is None else approval_action(call, chosen)

    async def _ask_in_doubt(self, call: dict[str, Any], asked: Asked) -> Action | None:
        text = (
            "The host does not know whether this call was made. Check where it would have had its effect, "
            "and say whether it happened. (If it had a result that the agent needs, give it with "
            "`hostler pauses resolve`.)"
        )
        shown = described(self._call_id(asked), call["tool"] or "call", call["args"], text=text)
        options = [
            option(HAPPENED, "It happened", "allow_once"),
            option(NOT_HAPPENED, "It did not happen", "reject_once"),
        ]
        chosen = await choose(self._editor, self._session_id, shown, options)
        return None if chosen is None else {"outcome": chosen}

    async def _ask_question(self, call: dict[str, Any], asked: Asked) -> Action | None:
        if self._editor.has_forms and can_be_form(call):
            return await ask_form(self._editor, self._session_id, call, None)
        buttons = call.get("actions") or []
        if not buttons or call.get("fields"):
            return None
        shown = described(self._call_id(asked), "question", {}, title=question_text(call))
        shown.content = None
        options = [option(one["name"], one.get("label") or one["name"], _kind(one)) for one in buttons]
        chosen = await choose(self._editor, self._session_id, shown, options)
        return None if chosen is None else {"type": "answer", "action": chosen}

    def _call_id(self, asked: Asked) -> str:
        return f"{self._run_id}/{asked.key or asked.request.call_id}"

    async def _say(self, asked: Asked, text: str) -> None:
        """Show a sentence about a waiting call: in the call, or as text if it is a question."""
        if asked.key is None:
            await self._editor.update(self._session_id, agent_text(f"{text}\n\n"))
        else:
            await self._editor.update(self._session_id, tool_progress(self._call_id(asked), text=text))


def _kind(button: dict[str, Any]) -> Any:
    return "reject_once" if button.get("style") == "danger" else "allow_once"


def _is_unfit(error: HostlerError) -> bool:
    """Return whether the same answer would be refused again."""
    return getattr(error, "status", 0) in (403, 413, 422) or error.details.get("status") == 403


def _asked_text(asked: Asked) -> str:
    request = asked.request
    texts = [request.title, request.description or request.fallback_text]
    if request.fields:
        texts.append("\n".join(f"- {field.label or field.name}" for field in request.fields))
    return "\n\n".join(text for text in texts if text)


def _for_others(waiting: WaitingCall | None, asked: Asked) -> str:
    who = "This key may not decide it: somebody who may has to, in `hostler pauses` or the console."
    if waiting is not None:
        who = f"{who} The pause is {waiting.pause['id']}."
    return f"{_asked_text(asked)}\n\nThe run waits for a decision. {who}".strip()


def _left_open(waiting: WaitingCall, asked: Asked) -> str:
    pause = waiting.pause["id"]
    match waiting.call["kind"]:
        case "client_tool":
            how = (
                f"This editor does not offer the tool {waiting.call['tool']}. Give its result with "
                f"`hostler pauses result {pause}`."
            )
        case "question":
            how = f"Answer with `hostler pauses answer {pause}`."
        case _:
            how = f"Decide with `hostler pauses approve {pause}` or `hostler pauses deny {pause}`."
    return f"{_asked_text(asked)}\n\nThe run waits. {how}".strip()
