"""Agents of Pydantic AI as runners.

agent = Agent(instructions="You are brief.")       # without a model: it is the run's
Support = runner(agent, name="support")
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic_ai import (
    Agent,
    BinaryContent,
    CallToolsNode,
    DeferredToolRequests,
    DeferredToolResults,
    FunctionToolset,
    ImageUrl,
    ModelMessagesTypeAdapter,
    ModelRequestNode,
    Tool,
    ToolApproved,
    ToolDenied,
)
from pydantic_ai import messages as parts
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from hostler_adapters.active_run import ActiveRun
from hostler_adapters.conversation import Turn
from hostler_adapters.host_tools import HostTool
from hostler_adapters.outputs import text_of_output
from hostler_adapters.runner_class import Settings, built_agent, check_agent, runner_class
from hostler_adapters.sessions import latest
from hostler_sdk import RunContext, Runner

SESSION_FORMAT = "pydantic-ai/1"
WHAT = "a pydantic_ai.Agent"
Build = Callable[[RunContext], "Agent[Any, Any]"]
Deps = Callable[[RunContext], Any]


def runner(
    agent: Agent[Any, Any] | Build,
    *,
    name: str,
    description: str = "",
    model: str = "default",
    deps: Deps | None = None,
    history: int = 50,
    config: Sequence[Mapping[str, Any]] = (),
) -> type[Runner]:
    """Return a runner class for an agent, or for a function of the run's context that builds one.

    `model`: the name that the model door is asked for, whatever model the agent names itself. `deps`: a
    function of the context that returns the agent's dependencies. Raises TypeError for another `agent`.
    """
    settings = Settings(name=name, description=description, history=history, config=config)
    check_agent(agent, Agent, WHAT)

    async def serve(run: ActiveRun) -> None:
        built = await built_agent(agent, Agent, WHAT, run.ctx)
        await _PydanticRun(run, built, model, deps, history).serve()

    return runner_class(serve, settings, session_format=SESSION_FORMAT)


class _PydanticRun:
    """One run of one agent."""

    def __init__(
        self, run: ActiveRun, agent: Agent[Any, Any], model: str, deps: Deps | None, history: int
    ) -> None:
        self._run = run
        self._agent = agent
        self._deps = deps(run.ctx) if deps is not None else None
        self._limit = history
        self._model = OpenAIChatModel(
            model, provider=OpenAIProvider(openai_client=run.ctx.models.openai_client())
        )

    async def serve(self) -> None:
        """Answer, and go on while messages arrive that were not taken up."""
        stored, turns = await self._run.earlier()
        kept = ModelMessagesTypeAdapter.validate_python(stored) if stored else []
        known = len(kept)
        past = [*kept, *(_past(turn) for turn in turns)]
        asked = [await self._run.input()]
        tools = FunctionToolset([_tool(self._run, tool) for tool in await self._run.tools()])
        while asked:
            output, past = await self._once(asked, past, tools)
            asked = await self._run.steers()
            if not asked:
                await self._run.keep(self._session(past, known))
            await self._run.answer(output)

    async def _once(
        self, asked: Sequence[Turn], past: list[parts.ModelMessage], tools: FunctionToolset[Any]
    ) -> tuple[str, list[parts.ModelMessage]]:
        event = self._run.ctx.event.event_id
        async with self._agent.iter(
            _prompt(asked),
            message_history=past,
            model=self._model,
            deps=self._deps,
            toolsets=[tools],
            capabilities=[HandleDeferredToolCalls(handler=self._decided)],
            run_id=event,
            conversation_id=event,
        ) as agent_run:
            first = True
            async for node in agent_run:
                if isinstance(node, ModelRequestNode):
                    for turn in [] if first else await self._run.steers():
                        agent_run.enqueue(*_content(turn))
                    first = False
                    await self._stream_model(node, agent_run.ctx)
                elif isinstance(node, CallToolsNode):
                    await self._stream_tools(node, agent_run.ctx)
            result = agent_run.result
        assert result is not None
        if isinstance(result.output, DeferredToolRequests):
            raise TypeError(
                "the agent ended with deferred tool calls that were decided already; leave "
                "DeferredToolRequests out of its output_type"
            )
        return text_of_output(result.output), result.all_messages()

    async def _stream_model(self, node: Any, ctx: Any) -> None:
        async with node.stream(ctx) as events:
            async for event in events:
                match event:
                    case parts.PartStartEvent(part=parts.TextPart(content=text)):
                        await self._run.say(text)
                    case parts.PartDeltaEvent(delta=parts.TextPartDelta(content_delta=text)):
                        await self._run.say(text)
                    case _:
                        pass

    async def _stream_tools(self, node: Any, ctx: Any) -> None:
        own = {tool.name for tool in await self._run.tools()}
        async with node.stream(ctx) as events:
            async for event in events:
                match event:
                    case parts.FunctionToolCallEvent(part=call) if call.tool_name not in own:
                        await self._run.tool_began(call.tool_call_id, call.tool_name, call.args_as_dict())
                    case parts.FunctionToolResultEvent(part=done) if done.tool_name not in own:
                        await self._run.tool_ended(
                            done.tool_call_id,
                            done.tool_name or "",
                            done.model_response_str()
                            if isinstance(done, parts.ToolReturnPart)
                            else str(done.content),
                        )
                    case _:
                        pass

    async def _decided(self, _ctx: Any, requests: DeferredToolRequests) -> DeferredToolResults:
        """Ask people about calls that need approval, and for the results of those made elsewhere."""
        results = DeferredToolResults()
        for call in requests.approvals:
            verdict = await self._run.approve(call.tool_name, call.args_as_dict())
            results.approvals[call.tool_call_id] = (
                ToolApproved() if verdict.approved else ToolDenied(verdict.reason)
            )
        for call in requests.calls:
            metadata = requests.metadata.get(call.tool_call_id)
            question = metadata or {
                "question": f"What is the result of {call.tool_name}?",
                **call.args_as_dict(),
            }
            results.calls[call.tool_call_id] = await self._run.ask(question)
        return results

    def _session(self, messages: list[parts.ModelMessage], known: int) -> list[Any]:
        """Return the messages as JSON values, without anything that differs from one attempt to the next."""
        plain = ModelMessagesTypeAdapter.dump_python(messages, mode="json")
        at = datetime.fromtimestamp(self._run.began_at, UTC).isoformat()
        for message in plain[known:]:
            for holder in (message, *message["parts"]):
                if "timestamp" in holder:
                    holder["timestamp"] = at
        return latest(plain, max(self._limit, 1), _begins_turn)


def _begins_turn(message: dict[str, Any]) -> bool:
    return bool(message["parts"]) and all(part["part_kind"] == "user-prompt" for part in message["parts"])


def _past(turn: Turn) -> parts.ModelMessage:
    if turn.role == "assistant":
        return parts.ModelResponse(parts=[parts.TextPart(turn.text)])
    return parts.ModelRequest(parts=[parts.UserPromptPart(_prompt([turn]))])


def _prompt(turns: Sequence[Turn]) -> str | list[Any]:
    content = [piece for turn in turns for piece in _content(turn)]
    return content[0] if len(content) == 1 and isinstance(content[0], str) else content


def _content(turn: Turn) -> list[Any]:
    found: list[Any] = [turn.text] if turn.text else []
    for url in turn.images:
        if url.startswith("data:"):
            head, _, data = url.partition(",")
            found.append(BinaryContent(base64.b64decode(data), media_type=head[5:].partition(";")[0]))
        else:
            found.append(ImageUrl(url))
    return found


def _tool(run: ActiveRun, tool: HostTool) -> Tool[Any]:
    async def call(ctx: Any, **arguments: Any) -> str:
        return await tool.call_text(arguments, ctx.tool_call_id)

    return Tool.from_schema(call, tool.name, tool.description, tool.parameters, takes_ctx=True)
