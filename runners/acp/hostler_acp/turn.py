"""One turn of an agent: a prompt, what comes of it, and the permissions that it asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from acp.schema import PromptResponse

from hostler_acp.answer import AgentAnswer, usage_of
from hostler_acp.failures import AcpFailure
from hostler_acp.limits import CANCEL_SECONDS, MAX_PAUSES, PARK_SECONDS
from hostler_acp.notes import Notes
from hostler_acp.permissions import Asked, Decided, Permissions, put_to_people, state_of
from hostler_acp.session import Agent
from hostler_acp.settings import Settings
from hostler_sdk import RunContext, completed, paused
from hostler_sdk.results import Result

_FINISH = {"end_turn": "stop", "max_tokens": "length", "max_turn_requests": "max_turn_requests"}


class AgentTurn:
    """A turn after what people have `decided` in the run.

    `part`: how many turns the run has had with this one. `said`: whether one of them had a text.
    """

    def __init__(
        self,
        ctx: RunContext,
        settings: Settings,
        notes: Notes,
        decided: Decided,
        *,
        part: int = 1,
        said: bool = False,
    ) -> None:
        self._ctx = ctx
        self._settings = settings
        self._notes = notes
        self._decided = decided
        self._part = part
        self._answer = AgentAnswer(notes, has_text=said)
        self._permissions = Permissions(settings.permissions, decided, notes, part, self._answer.shown)

    async def take(self, agent: Agent, session_id: str, content: Sequence[Any]) -> Result:
        """Send the prompt and pass on what comes. Return the result that ends the attempt.

        If the agent asks for a permission, and another process can go on with the session, the turn is
        cancelled and the result is a pause. Raises AcpFailure.
        """
        agent.client.decide = self._permissions.decide
        agent.transport.on_update = self._emit
        prompt = asyncio.create_task(agent.prompt(session_id, list(content)))
        asked: list[Asked] = []
        try:
            while asked := await self._asked_before(prompt):
                if agent.can_continue:
                    self._permissions.withdraw(asked)
                    await self._cancel(agent, session_id, prompt, PARK_SECONDS)
                    await self._emit_end()
                    return self._pause(session_id, asked)
                await put_to_people(self._ctx, asked, self._settings.permission_expires_in, prompt)
            response = await prompt
        finally:
            if not prompt.done():
                agent.transport.on_update = None
                self._permissions.withdraw(asked)
                await self._cancel(agent, session_id, prompt, CANCEL_SECONDS)
        await self._emit_end()
        return self._ending(response)

    async def _emit(self, params: Any) -> None:
        try:
            for result in self._answer.take(params):
                await self._ctx.emit(result)
        except (TypeError, RecursionError) as error:  # of a value that no result can carry
            self._notes.write(f"an update of the agent cannot be passed on: {error}", "warning")

    async def _emit_end(self) -> None:
        for result in self._answer.end():
            await self._ctx.emit(result)

    async def _asked_before(self, prompt: asyncio.Task[PromptResponse]) -> list[Asked]:
        """Wait for permission requests; none if the turn ends before."""
        gathered = asyncio.create_task(self._permissions.gathered())
        try:
            await asyncio.wait({prompt, gathered}, return_when=asyncio.FIRST_COMPLETED)
            return [] if prompt.done() else gathered.result()
        finally:
            gathered.cancel()

    async def _cancel(
        self, agent: Agent, session_id: str, prompt: asyncio.Task[PromptResponse], seconds: float
    ) -> None:
        """Tell the agent to end its turn, and wait until it has, so that its session is whole."""
        limit = asyncio.timeout(seconds)  # an agent that reads nothing does not take this either
        try:
            async with limit:
                await agent.cancel(session_id)
                await asyncio.wait({prompt})
        except TimeoutError:
            pass
        except (
            asyncio.CancelledError
        ):  # what a timeout raises before Python 3.11.4 in a task that is cancelled
            if not limit.expired():
                raise
        if not prompt.done():
            prompt.cancel()
            self._notes.write("the agent did not end its turn when it was cancelled; it is killed", "warning")
        elif not prompt.cancelled() and (error := prompt.exception()) is not None:
            self._notes.write(f"the agent's turn ended with an error when cancelled: {error}", "warning")

    def _pause(self, session_id: str, asked: Sequence[Asked]) -> Result:
        if self._part >= MAX_PAUSES:
            text = f"the agent asked people {MAX_PAUSES} times in one run; give it rules of its own"
            raise AcpFailure("too_much_output", text)
        state = state_of(session_id, asked, self._decided) | {
            "part": self._part,
            "said": self._answer.has_text,
        }
        return paused([one.pending for one in asked], state, self._settings.permission_expires_in)

    def _ending(self, response: PromptResponse) -> Result:
        title = self._settings.provider.title
        reason = response.stop_reason
        if reason == "refusal":
            raise AcpFailure("refused", f"{title} refuses to go on; ask for something else")
        if reason == "cancelled" or (reason != "end_turn" and not self._answer.has_text):
            raise AcpFailure("stopped_early", f"{title} stopped by itself ({reason}); ask again", True)
        if not self._answer.has_text:
            text = f"{title} ended its turn without a text; look at what it did, or ask again"
            raise AcpFailure("empty_answer", text, True)
        return completed(_FINISH[reason], usage=usage_of(response))
