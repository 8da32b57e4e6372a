"""Plain async functions as runners: the loop is yours, the rest is at hand.

async def support(turn):
    answer = await turn.client.chat.completions.create(model="default", messages=turn.messages)
    return answer.choices[0].message.content

Support = runner(support, name="support")
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from hostler_adapters.active_run import ActiveRun
from hostler_adapters.host_tools import HostTool
from hostler_adapters.questions import Verdict
from hostler_adapters.runner_class import Settings, runner_class
from hostler_sdk import RunContext, Runner

if TYPE_CHECKING:
    from openai import AsyncOpenAI

SESSION_FORMAT = "functions/1"


class _Function(Protocol):
    name: str
    arguments: str


class ToolCall(Protocol):
    """A tool call of OpenAI's chat completions."""

    id: str
    function: _Function


class FunctionTurn:
    """What the function gets: the message to answer, and all that is needed for it.

    `text` is the message; `messages` are the conversation with it at the end, in OpenAI's form; `tools` the
    host's tools, likewise; `memory` a mapping of JSON values that lasts from one run of the conversation to
    the next. `ctx` is the SDK's context.
    """

    def __init__(
        self,
        run: ActiveRun,
        messages: list[dict[str, Any]],
        tools: Sequence[HostTool],
        memory: dict[str, Any],
    ) -> None:
        self._run = run
        self._tools = {tool.name: tool for tool in tools}
        self.messages = messages
        self.tools = [tool.openai for tool in tools]
        self.memory = memory

    @property
    def ctx(self) -> RunContext:
        """The context of the run."""
        return self._run.ctx

    @property
    def text(self) -> str:
        """The text of the message to answer."""
        return self._run.ctx.input.text

    @property
    def client(self) -> AsyncOpenAI:
        """A client of OpenAI at the run's model door. Its model is called `default`."""
        return self._run.ctx.models.openai_client()

    async def call(self, wish: ToolCall | Mapping[str, Any]) -> dict[str, Any]:
        """Make a tool call that a model asked for, and return the message for the model.

        Failures and refusals are answered to the model, too. May wait for a person's approval.
        """
        if isinstance(wish, Mapping):
            call_id, name, arguments = wish["id"], wish["function"]["name"], wish["function"]["arguments"]
        else:
            call_id, name, arguments = wish.id, wish.function.name, wish.function.arguments
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            content = f"error: there is no function {name!r}; there are {known}"
        else:
            content = await tool.call_text(arguments, call_id)
        return {"role": "tool", "tool_call_id": call_id, "content": content}

    async def steers(self) -> list[dict[str, Any]]:
        """Return the messages that people sent meanwhile, in OpenAI's form. Ask between two model calls."""
        return [turn.openai for turn in await self._run.steers()]

    async def approve(self, action: str, arguments: Any, *, description: str = "") -> Verdict:
        """Ask people whether the agent may do something. The run waits, and may be parked."""
        return await self._run.approve(action, arguments, description=description)

    async def ask(self, question: Any) -> Any:
        """Ask people a question, as `ActiveRun.ask` takes it. Raises Unanswered."""
        return await self._run.ask(question)

    async def say(self, text: str) -> None:
        """Send a piece of the answer, for functions that return the whole of it at their end."""
        await self._run.say(text)


Answering = Callable[[FunctionTurn], "Awaitable[str | None] | AsyncIterator[str]"]
"""A coroutine function that returns the answer, or an async generator of its pieces."""


def runner(
    function: Answering,
    *,
    name: str,
    description: str = "",
    history: int = 50,
    config: Sequence[Mapping[str, Any]] = (),
) -> type[Runner]:
    """Return a runner class whose runs are answered by a function of a FunctionTurn.

    Raises TypeError for what is no async function.
    """
    settings = Settings(name=name, description=description, history=history, config=config)
    if not (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)):
        kind = type(function).__name__
        raise TypeError(
            f"runner() takes an async function of one argument, like async def {name}(turn); not a {kind}"
        )

    async def serve(run: ActiveRun) -> None:
        memory, turns = await run.earlier()
        before = dict(memory) if isinstance(memory, dict) else {}
        messages = [turn.openai for turn in [*turns, await run.input()]]
        turn = FunctionTurn(run, messages, await run.tools(), copy.deepcopy(before))
        answer = await _answered(run, function(turn))
        if turn.memory != before:
            await run.keep(turn.memory, with_messages=False)
        await run.answer(answer)

    return runner_class(serve, settings, session_format=SESSION_FORMAT)


async def _answered(run: ActiveRun, outcome: Any) -> str:
    if inspect.isawaitable(outcome):
        answer = await outcome
        if answer is not None and not isinstance(answer, str):
            raise TypeError(
                f"the function returned a {type(answer).__name__}: return the answer as text, or None"
            )
        return answer or ""
    pieces = []
    async for piece in outcome:
        if not isinstance(piece, str):
            raise TypeError(f"the function yielded a {type(piece).__name__}: yield pieces of text")
        pieces.append(piece)
        await run.say(piece)
    return "".join(pieces)
