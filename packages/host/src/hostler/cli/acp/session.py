"""One session: a conversation with an agent, its prompts, and the runs that answer them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

import acp
import msgspec
from acp.schema import PromptResponse, SessionInfoUpdate, StopReason, Usage

from hostler.cli.acp.editor import Editor
from hostler.cli.acp.editor_tools import EditorTools
from hostler.cli.acp.faults import INTERNAL, request_error
from hostler.cli.acp.host_access import HostAccess, quietly
from hostler.cli.acp.own_commands import own_command
from hostler.cli.acp.prompt import Block, PromptReader, text_of_prompt
from hostler.cli.acp.run_follower import Ended, RunFollower
from hostler.cli.acp.updates import agent_text, session_title
from hostler.cli.client import Api
from hostler.cli.routes import route
from hostler.domain.run_events import Failed
from hostler_protocol.content import ContentElement
from hostler_protocol.errors import ConflictError, HostlerError, UnavailableError
from hostler_protocol.ids import new_id

log = logging.getLogger(__name__)
SOURCE = "acp"
"""`source` of the events of editors; their `data` has what a session needs under this name."""
CANCELLED = "cancelled"
_STOP_REASONS: dict[str, StopReason] = {
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "content_filter": "refusal",
    "refusal": "refusal",
    "max_turns": "max_turn_requests",
    "max_turn_requests": "max_turn_requests",
}


class Turn:
    """One prompt that is being answered."""

    def __init__(self) -> None:
        self.cancelled = False
        self.given_up = asyncio.Event()
        """Set if its run could not be cancelled: the prompt is answered all the same."""


class Session:
    """A conversation of the host that one editor has open. `folder`: the editor's project folder."""

    def __init__(self, editor: Editor, host: HostAccess, session_id: str, folder: str, agent: str) -> None:
        self.id = session_id
        self.folder = folder
        self.agent = agent
        self.title: str | None = None
        self.mcp_servers: list[str] = []
        """Those that the editor handed over, until the person was told that they are not used."""
        self._editor = editor
        self._host = host
        self._tools = EditorTools(editor, session_id, folder)
        self._turns: set[Turn] = set()
        self._followed: dict[str, RunFollower] = {}

    @property
    def is_idle(self) -> bool:
        """Whether nothing of it is under way."""
        return not self._turns and not self._followed

    @property
    def active_runs(self) -> list[str]:
        """The runs that are followed, oldest first."""
        return list(self._followed)

    # -- prompts ------------------------------------------------------------------------------------------

    async def prompt(self, blocks: Sequence[Block]) -> PromptResponse:
        """Send a prompt, show what comes, and return how its run ended. RequestError if it failed."""
        turn = Turn()
        self._turns.add(turn)
        try:
            await self._tell_of_mcp_servers()
            command = own_command(text_of_prompt(blocks))
            if command is not None:
                await command(self._editor, self._host, self.id)
                return PromptResponse(stop_reason="end_turn")
            content = await PromptReader(self._host, self.id).read(blocks)
            if turn.cancelled:
                return PromptResponse(stop_reason="cancelled")
            await self._name(session_title(text_of_prompt(blocks)))
            return await self._answer(turn, content)
        finally:
            self._turns.discard(turn)

    async def _answer(self, turn: Turn, content: list[ContentElement]) -> PromptResponse:
        event_id, outcome, run_id = await self._send(content)
        while True:
            follower = self.follow(run_id)
            if turn.cancelled:
                self._cancel_run(run_id)
            ended = await self._until_ended(turn, follower)
            if ended is None:
                return PromptResponse(stop_reason="cancelled")
            if outcome != "steered" or turn.cancelled:
                break
            event: dict[str, Any] = await quietly(self._host.ask(partial(_read_event, event_id))) or {}
            steering: dict[str, Any] = event.get("steering") or {}
            following = steering.get("next_run_id")
            if steering.get("status") != "requeued" or following in (None, run_id):
                break
            run_id = following  # that run ended before it read the message
        return await self._response(turn, run_id, ended)

    async def _send(self, content: list[ContentElement]) -> tuple[str, str, str]:
        """Send the event, once however often it is sent; return its id, its outcome and its run."""
        event_id = new_id()
        details = {"cwd": self.folder, "title": self.title, "client": self._editor.name}
        given: dict[str, Any] = {"contents": content}
        if (offered := self._tools.offered()) and await self._takes_tools():
            given["tools"] = offered
        envelope = {
            "event_type": "message.received",
            "event_id": event_id,
            "agent": self.agent,
            "conversation_id": self.id,
            "source": SOURCE,
            "data": {SOURCE: details},
            "input": msgspec.to_builtins(given),
        }
        accepted = await self._host.ask(lambda api: api.post("/v1/events", envelope))
        if accepted["run"] is None:
            raise _no_run(accepted["outcome"], self.agent)
        return event_id, accepted["outcome"], accepted["run"]["run_id"]

    async def _takes_tools(self) -> bool:
        """Return whether the agent takes tools of its callers, and its runner calls tools.

        Else the message would be refused, or could not steer a run, whose tools are other ones.
        """
        path = route("agents", self.agent)
        found: dict[str, Any] = await quietly(self._host.ask(lambda api: api.get(path))) or {}
        spec = found.get("spec") or {}
        if not (spec.get("resource_policy") or {}).get("allow_client_tools", True):
            return False
        runner = route("runners", spec["runner"]) if "runner" in spec else None
        if runner is None:
            return True
        manifest: dict[str, Any] | None = await quietly(self._host.ask(lambda api: api.get(runner)))
        return manifest is None or "call" in (manifest.get("permissions") or {}).get("tools", ())

    async def _until_ended(self, turn: Turn, follower: RunFollower) -> Ended | None:
        """Wait for the end of a run; None if it is followed no further: it could not be cancelled, or the
        session was loaded anew.
        """
        given_up = asyncio.ensure_future(turn.given_up.wait())
        either: set[asyncio.Future[Any]] = {follower.ended, given_up}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            is_known = follower.ended.done() and not follower.ended.cancelled()
            return follower.ended.result() if is_known else None
        finally:
            given_up.cancel()

    async def _response(self, turn: Turn, run_id: str, ended: Ended) -> PromptResponse:
        if turn.cancelled:
            return PromptResponse(stop_reason="cancelled")
        if isinstance(ended, HostlerError):
            raise request_error(ended)
        if isinstance(ended, Failed):
            if ended.code == CANCELLED:
                return PromptResponse(stop_reason="cancelled")
            data = {"code": ended.code, "retryable": ended.retryable, "runId": run_id}
            raise acp.RequestError(INTERNAL, ended.error or ended.code, data)
        record: dict[str, Any] = (
            await quietly(self._host.ask(lambda api: api.get(route("runs", run_id)))) or {}
        )
        meta = {"hostler": {"runId": run_id, "cost": record.get("cost")}}
        return PromptResponse(
            stop_reason=_STOP_REASONS.get(ended.finish_reason, "end_turn"),
            usage=_usage(record.get("usage")),
            field_meta=meta,
        )

    async def _name(self, title: str) -> None:
        if self.title is None and title:
            self.title = title
            update = SessionInfoUpdate(session_update="session_info_update", title=title)
            await self._editor.update(self.id, update)

    async def _tell_of_mcp_servers(self) -> None:
        names, self.mcp_servers = self.mcp_servers, []
        if names:
            listed = ", ".join(names)
            text = (
                f"MCP servers of the editor are not used ({listed}): the agent runs on the host, and has the "
                "tools that the host gives it.\n\n"
            )
            await self._editor.update(self.id, agent_text(text))

    # -- runs ---------------------------------------------------------------------------------------------

    def follow(self, run_id: str) -> RunFollower:
        """Show a run from its first result; one that is shown already goes on."""
        follower = self._followed.get(run_id)
        if follower is None:
            follower = RunFollower(self._editor, self._host, self._tools, self.id, run_id)
            self._followed[run_id] = follower
            task = self._editor.tasks.create(follower.follow(), name=f"follow {run_id}")
            task.add_done_callback(lambda _: self._followed.pop(run_id, None))
        return follower

    def cancel(self) -> None:
        """Cancel all that is under way; each prompt is answered `cancelled` once its run has ended."""
        for turn in self._turns:
            turn.cancelled = True
        for run_id in self.active_runs:
            self._cancel_run(run_id)

    def leave(self) -> None:
        """Follow nothing any more. Runs go on."""
        for follower in self._followed.values():
            follower.leave()

    def _cancel_run(self, run_id: str) -> None:
        follower = self._followed.get(run_id)
        if follower is not None and not follower.is_cancelled:
            follower.is_cancelled = True
            self._editor.tasks.create(self._cancel(run_id), name=f"cancel {run_id}")

    async def _cancel(self, run_id: str) -> None:
        reason = {"reason": "cancelled in the editor"}
        try:
            await self._host.ask(lambda api: api.post(route("runs", run_id, "cancel"), reason))
        except HostlerError as error:
            await self._editor.update(self.id, agent_text(f"The run was not cancelled: {error.message}\n\n"))
            for turn in self._turns:
                turn.given_up.set()


async def _read_event(event_id: str, api: Api) -> Any:
    """Return an event, once it is known whether the run that absorbed it has read it."""
    return await api.get(route("events", event_id), wait=5)


def _usage(found: Any) -> Usage | None:
    """Return the tokens of a run, if they are known."""
    if not found or found.get("input_tokens") is None or found.get("output_tokens") is None:
        return None
    total = found.get("total_tokens")
    return Usage(
        input_tokens=found["input_tokens"],
        output_tokens=found["output_tokens"],
        total_tokens=found["input_tokens"] + found["output_tokens"] if total is None else total,
        cached_read_tokens=found.get("cached_tokens"),
        thought_tokens=found.get("reasoning_tokens"),
    )


def _no_run(outcome: str, agent: str) -> HostlerError:
    if outcome == "rejected":
        return ConflictError(
            f"the agent {agent!r} is busy in this session, and takes no message until it is done"
        )
    if outcome == "unrouted":
        return ConflictError(
            f"the agent {agent!r} takes no messages: is message.received one of its event_types?"
        )
    return UnavailableError(f"the message started no run: its outcome is {outcome!r}; send it again")
