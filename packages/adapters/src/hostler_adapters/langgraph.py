"""Graphs of LangGraph as runners.

def call_model(state):
    return {"messages": [model().invoke(state["messages"])]}

Support = runner(builder.compile(), name="support")
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel import Pregel
from langgraph.types import Command, Interrupt

from hostler_adapters import door
from hostler_adapters.active_run import ActiveRun, current_run
from hostler_adapters.conversation import Turn
from hostler_adapters.host_tools import HostTool
from hostler_adapters.runner_class import Settings, built_agent, check_agent, runner_class
from hostler_sdk import RunContext, Runner

SESSION_FORMAT = "langgraph/1"
THREAD = "conversation"
STORED_ID = "00000000-0000-6000-8000-000000000000"
"""Id of a checkpoint that a run begins with: those of the run, which begin with the time, sort behind it."""
WHAT = "a compiled graph"
Graph = Any  # a CompiledStateGraph, whose type has parameters that do not matter here
Build = Callable[[RunContext], Graph]
Answer = Callable[[Any], Any]
_call_id: ContextVar[str | None] = ContextVar("hostler_adapters.langgraph.call_id", default=None)
"""Id of the call of a tool in this task: LangChain gives it to the tool, but not to the tool's function."""


def model(name: str = "default", **options: Any) -> ChatOpenAI:
    """Return a chat model that is the current run's. It may be built once, for all runs.

    `name` is asked for at the model door; `options` are those of ChatOpenAI. Blocking calls work in nodes
    that are plain functions, since LangGraph calls these in threads.
    """
    return ChatOpenAI(
        model=name,
        base_url=door.BASE_URL,
        api_key=door.KEY,
        http_client=door.http_client(),
        http_async_client=door.async_http_client(),
        max_retries=0,  # the host tries again itself
        stream_usage=True,
        **options,
    )


async def host_tools() -> list[BaseTool]:
    """Return the tools of the host that the current run may call, for `bind_tools` and `ToolNode`."""
    return [_tool(tool) for tool in await current_run().tools()]


def runner(
    graph: Graph | Build,
    *,
    name: str,
    description: str = "",
    history: int = 50,
    input: Callable[[list[BaseMessage]], Any] | None = None,  # noqa: A002 - the graph's own word
    output: Callable[[Any], str] | None = None,
    config: Sequence[Mapping[str, Any]] = (),
) -> type[Runner]:
    """Return a runner class for a compiled graph, or for a function of the run's context that builds one.

    The function may be a coroutine function. Without more, the graph's state has `messages`. `input` makes
    the graph's input of the new messages, `output` the answer of the state at the end. Raises TypeError for
    another `graph`, and for one with a checkpointer of its own.
    """
    settings = Settings(name=name, description=description, history=history, config=config)
    check_agent(graph, Pregel, WHAT, "; call its compile() first" if hasattr(graph, "compile") else "")
    if isinstance(graph, Pregel):
        _check(graph)

    async def serve(run: ActiveRun) -> None:
        built: Any = await built_agent(graph, Pregel, WHAT, run.ctx)
        _check(built)
        await _GraphRun(
            run, built, input or (lambda messages: {"messages": messages}), output or _last_text
        ).serve()

    return runner_class(serve, settings, session_format=SESSION_FORMAT)


def _check(graph: Any) -> None:
    if graph.checkpointer not in (None, False, True):
        kind = type(graph.checkpointer).__name__
        raise TypeError(
            f"the graph has a checkpointer of its own ({kind}): compile it without one, since the host keeps "
            "its state"
        )


class _RunSaver(InMemorySaver):
    """The checkpoints of one run. Channels have counted versions, since stored ones must not be random."""

    def get_next_version(self, current: Any, channel: None) -> str:
        """Return the version after `current`."""
        return f"{int(str(current or 0).partition('.')[0]) + 1:032}.0"


class _GraphRun:
    """One run of one graph."""

    def __init__(
        self,
        run: ActiveRun,
        graph: Graph,
        to_input: Callable[[list[BaseMessage]], Any],
        to_text: Callable[[Any], str],
    ) -> None:
        self._run = run
        self._saver = _RunSaver()
        self._graph = graph.copy(update={"checkpointer": self._saver})
        self._to_input = to_input
        self._to_text = to_text
        self._known: set[str] = set()
        self._wrote: str | None = None  # the node that finished last
        self._config: Any = {"configurable": {"thread_id": THREAD}}

    async def serve(self) -> None:
        """Answer, and go on while messages arrive that were not taken up."""
        stored, turns = await self._run.earlier()
        if stored is not None:
            self._restore(stored)
        turns = [*turns, await self._run.input()]
        while turns:
            await self._once(self._to_input([_message(turn) for turn in turns]))
            state = await self._graph.aget_state(self._config)
            answer = self._to_text(state.values)
            turns = await self._run.steers()
            if not turns:
                await self._run.keep(self._stored())
            await self._run.answer(answer)

    async def _once(self, given: Any) -> None:
        """Run the graph from an input to its end, through its interrupts."""
        while True:
            interrupts: list[Interrupt] = []
            async for found in self._stream(given):
                interrupts += found
            state = await self._graph.aget_state(self._config)
            if interrupts:
                given = Command(resume=await self._answers(interrupts))
            elif state.next:
                await self._steer(state)
                given = None
            else:
                return

    async def _stream(self, given: Any) -> AsyncIterator[Sequence[Interrupt]]:
        """Run one step of the graph; report its output, and yield its interrupts."""
        modes = ["messages", "updates"]
        stream = self._graph.astream(given, self._config, stream_mode=modes, interrupt_after="*")
        async for mode, piece in stream:
            if mode == "messages":
                message, _ = piece
                if isinstance(message, AIMessageChunk):
                    await self._run.say(str(message.text))
            elif isinstance(piece, dict) and "__interrupt__" in piece:
                yield piece["__interrupt__"]
            elif isinstance(piece, dict):
                self._wrote = next(iter(piece), self._wrote)

    async def _answers(self, interrupts: Sequence[Interrupt]) -> Any:
        """Ask people, one interrupt after the other, and return the answers by the ids of the interrupts."""
        return {one.id: await _answer(self._run, one.value) for one in interrupts}

    async def _steer(self, state: Any) -> None:
        """Add messages that arrived to the state, where its messages are at the end of a round of tools."""
        messages = state.values.get("messages") if isinstance(state.values, dict) else None
        if not messages or not isinstance(messages[-1], ToolMessage):
            return
        if turns := await self._run.steers():
            new = [_message(turn) for turn in turns]
            await self._graph.aupdate_state(self._config, {"messages": new}, as_node=self._wrote)

    # -- what is kept --------------------------------------------------------------------------------

    def _restore(self, stored: Mapping[str, str]) -> None:
        kind, data = stored["kind"], base64.b64decode(stored["checkpoint"])
        checkpoint = self._saver.serde.loads_typed((kind, data))
        self._known = {one.id for one in _messages_in(checkpoint["channel_values"]) if one.id}
        config = {"configurable": {"thread_id": THREAD, "checkpoint_ns": ""}}
        self._saver.put(
            config, checkpoint, {"source": "update", "step": 0, "parents": {}}, checkpoint["channel_versions"]
        )

    def _stored(self) -> dict[str, str]:
        """Return the state as JSON values, without anything that differs from one attempt to the next."""
        found = self._saver.get_tuple(self._config)
        assert found is not None
        checkpoint = {**found.checkpoint, "id": STORED_ID}
        checkpoint["ts"] = datetime.fromtimestamp(self._run.began_at, UTC).isoformat()
        event = self._run.ctx.event.event_id
        for number, message in enumerate(_messages_in(checkpoint["channel_values"])):
            if message.id not in self._known:  # the framework has drawn it
                message.id = f"{event}-{number}"
        kind, data = self._saver.serde.dumps_typed(checkpoint)
        return {"kind": kind, "checkpoint": base64.b64encode(data).decode()}


def _messages_in(values: Mapping[str, Any]) -> list[BaseMessage]:
    lists = [value if isinstance(value, list) else [value] for _, value in sorted(values.items())]
    return [one for values in lists for one in values if isinstance(one, BaseMessage)]


async def _answer(run: ActiveRun, value: Any) -> Any:
    """Ask people about one interrupt. The form of LangChain's HumanInTheLoopMiddleware is known, too."""
    if not (isinstance(value, Mapping) and isinstance(value.get("action_requests"), list)):
        return await run.ask(value)
    decisions = []
    for request in value["action_requests"]:
        verdict = await run.approve(
            request.get("name", "a tool"),
            request.get("args", {}),
            description=request.get("description") or "",
        )
        decisions.append(
            {"type": "approve"} if verdict.approved else {"type": "reject", "message": verdict.reason}
        )
    return {"decisions": decisions}


def _message(turn: Turn) -> BaseMessage:
    content = turn.openai["content"]
    return HumanMessage(content) if turn.role == "user" else AIMessage(content)


def _last_text(state: Any) -> str:
    messages = state.get("messages") if isinstance(state, Mapping) else None
    if not messages:
        raise TypeError(
            "the graph's state has no messages: give runner() an `output`, a function of the state that "
            "returns the answer's text"
        )
    last = messages[-1]
    return str(last.text) if isinstance(last, AIMessage) else ""


class _HostTool(StructuredTool):
    """A tool of the host, which is called under the id that the model gave to the call."""

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002 - LangChain's
        """Call the tool."""
        call_id = input.get("id") if isinstance(input, Mapping) and input.get("type") == "tool_call" else None
        token = _call_id.set(call_id)
        try:
            return await super().ainvoke(input, config, **kwargs)
        finally:
            _call_id.reset(token)


def _tool(tool: HostTool) -> BaseTool:
    async def call(**arguments: Any) -> str:
        return await tool.call_text(arguments, _call_id.get())

    return _HostTool(
        name=tool.name, description=tool.description or tool.name, args_schema=tool.parameters, coroutine=call
    )
