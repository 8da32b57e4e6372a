"""The runner: one message, one turn of an agent in a process of its own."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from hostler_acp.failures import AcpFailure
from hostler_acp.limits import MARGIN_SECONDS
from hostler_acp.notes import Notes
from hostler_acp.offers import mcp_servers, model_variables, run_keys
from hostler_acp.permissions import STATE_VERSION, Decided, decided_by, going_on
from hostler_acp.prompt import prompt_of, text_block
from hostler_acp.session import Agent, Opened, SessionLost, running
from hostler_acp.session_locks import KEY, SessionLocks, place_of
from hostler_acp.settings import Settings, read_settings
from hostler_acp.turn import AgentTurn
from hostler_sdk import RunContext, Runner, failed
from hostler_sdk.results import Result
from hostler_sdk.services import ServiceFailure, Turn


class CodingAgent(Runner):
    """Coding agent (ACP)

    Answers with a coding agent that speaks the Agent Client Protocol.
    """

    def __init__(self) -> None:
        self._locks = SessionLocks()

    async def run(self, ctx: RunContext) -> Any:
        """Serve one event. Every failure of the agent ends the run with a code and a text."""
        try:
            async with AsyncExitStack() as stack:
                turn = Turn(ctx, "acp", "the agent", stack)
                async with limit_of(turn) as limit:
                    ending = await self._serve(turn)
        except (AcpFailure, ServiceFailure) as failure:
            ending = failed(f"acp.{failure.what}", failure.text, failure.retryable)
        except TimeoutError:
            if not limit.expired():
                raise
            text = "the agent did not answer in time; raise config `timeout`, or give it less to do"
            ending = failed("acp.timeout", text, retryable=True)
        await ctx.emit(ending)

    async def _serve(self, turn: Turn) -> Result:
        """Serve the message, or go on after a pause. Return the result that ends the attempt."""
        ctx = turn.ctx
        settings = await asyncio.to_thread(read_settings, turn.form, place_of(ctx), run_keys(ctx))
        attempt = _Attempt(turn, settings)
        if (session := attempt.paused_session) is not None:
            async with self._locks.session(session):
                return await attempt.run(session)
        if not settings.reuse_session:
            return await attempt.run(None)
        async with self._locks.session_of(turn) as known:
            return await attempt.run(known)


class _Attempt:
    """One attempt of a run."""

    def __init__(self, turn: Turn, settings: Settings) -> None:
        self._turn = turn
        self._ctx = turn.ctx
        self._settings = settings
        self._notes = Notes(turn.ctx, settings.without_secrets)
        self._state: dict[str, Any] = {}
        self._decided = Decided()
        if (given := turn.ctx.continuation) is not None:
            self._state = given.state if isinstance(given.state, dict) else {}
            if self._state.get("version") != STATE_VERSION or not isinstance(
                self._state.get("session_id"), str
            ):
                raise AcpFailure(
                    "session_lost", "the pause was made by another version of the runner; ask again"
                )
            self._decided = decided_by(self._state, given.decisions)
        self._part = int(self._state.get("part", 0)) + 1

    @property
    def paused_session(self) -> str | None:
        """The session with which the run goes on after a pause."""
        return self._state.get("session_id")

    async def run(self, known: str | None) -> Result:
        """Start the agent, take the turn, and end the agent. Return the result that ends the attempt."""
        offered = model_variables(self._ctx)
        async with running(self._settings, offered, self._notes) as agent:
            opened = await self._started(agent, known)
            if self._settings.reuse_session and self._turn.has_state and opened.id != known:
                await self._ctx.states.set("conversation", KEY, opened.id)  # before another run may look
            if self._ctx.continuation is None:
                taken = agent.capabilities.prompt_capabilities
                content = await prompt_of(self._turn, taken, self._settings.folder)
                await self._turn.send_once()
            else:
                content = [text_block(going_on(self._decided))]
            turn = AgentTurn(
                self._ctx,
                self._settings,
                self._notes,
                self._decided,
                part=self._part,
                said=bool(self._state.get("said")),
            )
            return await turn.take(agent, opened.id, content)

    async def _started(self, agent: Agent, known: str | None) -> Opened:
        try:
            async with asyncio.timeout(self._settings.startup_seconds) as limit:
                await agent.initialize()
                servers = mcp_servers(self._ctx, agent.capabilities) if self._settings.offer_tools else []
                try:
                    return await agent.open(known, servers)
                except SessionLost as lost:
                    await self._lost(agent, lost)
                    return await agent.open(None, servers)
        except TimeoutError:
            if not limit.expired():
                raise
            raise AcpFailure(
                "startup_timeout",
                f"{self._settings.provider.title} had no session after {self._settings.startup_seconds} s; "
                "raise config `startup-timeout`, or check what `command` does at its start",
                True,
            ) from None

    async def _lost(self, agent: Agent, lost: SessionLost) -> None:
        """Say that the session is gone. Raises AcpFailure if the run cannot go on without it."""
        if self._turn.has_state:
            await self._ctx.states.delete("conversation", KEY)
        text = f"the agent's session of this conversation cannot be opened again: {lost}"
        if self._ctx.continuation is not None:
            raise AcpFailure(
                "session_lost", f"{text}. What was decided cannot be passed on: ask again, in a new session"
            )
        if self._settings.fails_if_lost:
            raise AcpFailure("session_lost", f"{text}. The next message begins a new session")
        if agent.can_continue:
            self._notes.write(f"{text}. A new one begins, without what was said before", "warning")
        else:
            self._notes.write(f"{text}. Each message has a session of its own", "info")


def limit_of(turn: Turn) -> asyncio.Timeout:
    """Return the time for the answer: earlier than the host's limit, so that the agent is ended before."""
    seconds = turn.seconds
    return asyncio.timeout(seconds and max(0.01, seconds - min(MARGIN_SECONDS, seconds / 4)))
