"""Agents of the OpenAI Agents SDK as runners.

agent = Agent(name="Support", instructions="You are brief.")
Support = runner(agent, name="support")
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    ModelProvider,
    OpenAIChatCompletionsModel,
    RunConfig,
    RunHooks,
    RunState,
)
from agents import Runner as AgentsRunner
from agents.items import TResponseInputItem
from agents.run import CallModelData, ModelInputData

from hostler_adapters.active_run import ActiveRun
from hostler_adapters.conversation import Turn
from hostler_adapters.host_tools import HostTool
from hostler_adapters.outputs import text_of_output
from hostler_adapters.runner_class import Settings, built_agent, check_agent, runner_class
from hostler_adapters.sessions import latest
from hostler_sdk import RunContext, Runner

SESSION_FORMAT = "openai-agents/1"
MAX_TURNS = 100
"""Calls of models in one run, unless the agent's author says otherwise; the SDK's own default is 10."""
WHAT = "an agents.Agent"
Build = Callable[[RunContext], "Agent[Any]"]


def runner(
    agent: Agent[Any] | Build,
    *,
    name: str,
    description: str = "",
    context: Callable[[RunContext], Any] | None = None,
    max_turns: int = MAX_TURNS,
    history: int = 50,
    config: Sequence[Mapping[str, Any]] = (),
) -> type[Runner]:
    """Return a runner class for an agent, or for a function of the run's context that builds one.

    An agent's `model` is the name that the model door is asked for; without one it is `default`. `context`: a
    function of the run's context that returns the SDK's context object. The host's tools are offered to the
    first agent; others get them with `host_tools()`. Raises TypeError for another `agent`.
    """
    settings = Settings(name=name, description=description, history=history, config=config)
    check_agent(agent, Agent, WHAT)

    async def serve(run: ActiveRun) -> None:
        built = await built_agent(agent, Agent, WHAT, run.ctx)
        tools = [_tool(tool) for tool in await run.tools()]
        built = built.clone(tools=[*built.tools, *tools])
        own = context(run.ctx) if context is not None else None
        await _AgentsRun(run, built, own, max_turns, history).serve()

    return runner_class(serve, settings, session_format=SESSION_FORMAT)


class _DoorModels(ModelProvider):
    """Models by the names that the model door knows."""

    def __init__(self, run: ActiveRun) -> None:
        self._run = run
        self._client = run.ctx.models.openai_client()

    def get_model(self, model_name: str | None) -> OpenAIChatCompletionsModel:
        """Return the model of this name; without one, the run's first choice."""
        return _StreamingModel(self._run, model_name or "default", self._client)


class _StreamingModel(OpenAIChatCompletionsModel):
    """A model whose text is sent in the task of the agent, so that it never changes places with its tools."""

    def __init__(self, run: ActiveRun, name: str, client: Any) -> None:
        super().__init__(model=name, openai_client=client)
        self._run = run

    async def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        """Yield the events of an answer."""
        async for event in super().stream_response(*args, **options):
            if event.type == "response.output_text.delta":
                await self._run.say(event.delta)
            yield event


class _Reports(RunHooks[Any]):
    """Reports calls of the agent's own tools."""

    def __init__(self, run: ActiveRun) -> None:
        self._run = run

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """Report the start of a call."""
        if not await self._is_host_tool(tool):
            arguments = _arguments(getattr(context, "tool_arguments", None))
            await self._run.tool_began(getattr(context, "tool_call_id", tool.name), tool.name, arguments)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        """Report the end of a call."""
        if not await self._is_host_tool(tool):
            await self._run.tool_ended(getattr(context, "tool_call_id", tool.name), tool.name, result)

    async def _is_host_tool(self, tool: Any) -> bool:
        return tool.name in {own.name for own in await self._run.tools()}


class _AgentsRun:
    """One run of one agent."""

    def __init__(self, run: ActiveRun, agent: Agent[Any], context: Any, max_turns: int, history: int) -> None:
        self._run = run
        self._agent = agent
        self._context = context
        self._max_turns = max_turns
        self._limit = history
        self._calls = 0
        self._steers: list[tuple[int, list[TResponseInputItem]]] = []
        self._config = RunConfig(
            model_provider=_DoorModels(run),
            tracing_disabled=True,
            call_model_input_filter=self._with_steers,
        )

    async def serve(self) -> None:
        """Answer, and go on while messages arrive that were not taken up."""
        stored, turns = await self._run.earlier()
        items: list[Any] = [*(stored or []), *(_item(turn) for turn in turns)]
        turns = [await self._run.input()]
        while turns:
            self._steers.clear()
            self._calls = 0
            answer, made = await self._once([*items, *(_item(turn) for turn in turns)])
            items = _placed(made, self._steers)
            turns = await self._run.steers()
            if not turns:
                await self._run.keep(latest(items, max(self._limit, 1), _begins_turn))
            await self._run.answer(answer)

    async def _once(self, given: list[Any]) -> tuple[str, list[Any]]:
        """Run the agent to its end, through its approvals; return the answer and all items."""
        start: list[Any] | RunState[Any] = given
        while True:
            result = AgentsRunner.run_streamed(
                self._agent,
                start,
                context=None if isinstance(start, RunState) else self._context,
                max_turns=self._max_turns,
                run_config=self._config,
                hooks=_Reports(self._run),
            )
            try:
                async for _ in result.stream_events():
                    pass
            finally:
                if not result.is_complete:  # the run was cancelled
                    result.cancel()
            if not result.interruptions:
                return text_of_output(result.final_output), result.to_input_list()
            start = result.to_state()
            for item in result.interruptions:
                verdict = await self._run.approve(item.name or "a tool", _arguments(item.arguments))
                if verdict.approved:
                    start.approve(item)
                else:
                    start.reject(item, rejection_message=verdict.reason)

    async def _with_steers(self, data: CallModelData[Any]) -> ModelInputData:
        """Add the messages that arrived, from the second call on, each where it was first read."""
        asked = data.model_data
        if self._calls and (turns := await self._run.steers()):
            self._steers.append((len(asked.input), [_item(turn) for turn in turns]))
        self._calls += 1
        return ModelInputData(input=_placed(asked.input, self._steers), instructions=asked.instructions)


def _placed(items: Sequence[Any], steers: Sequence[tuple[int, Sequence[Any]]]) -> list[Any]:
    """Return the items with messages put in at their places, which count the items without them."""
    placed: list[Any] = []
    at = 0
    for place, messages in steers:
        placed += [*items[at:place], *messages]
        at = max(at, place)
    return [*placed, *items[at:]]


def _begins_turn(item: Any) -> bool:
    return isinstance(item, dict) and item.get("role") == "user"


def _item(turn: Turn) -> Any:
    if not turn.images:
        return {"role": turn.role, "content": turn.text}
    content: list[dict[str, Any]] = [{"type": "input_text", "text": turn.text}] if turn.text else []
    content += [{"type": "input_image", "image_url": url, "detail": "auto"} for url in turn.images]
    return {"role": turn.role, "content": content}


def _arguments(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text or "{}")
    except json.JSONDecodeError:
        return text


def _tool(tool: HostTool) -> FunctionTool:
    async def invoke(ctx: Any, arguments: str) -> str:
        return await tool.call_text(arguments, ctx.tool_call_id)

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.parameters,
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )
