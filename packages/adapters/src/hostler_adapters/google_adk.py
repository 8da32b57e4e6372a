"""Agents of Google's Agent Development Kit as runners.

agent = LlmAgent(name="support", model=model(), instruction="You are brief.", tools=[host_tools()])
Support = runner(agent, name="support")
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from google.adk.agents import BaseAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.events import Event
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.models.base_llm import LlmCapabilities
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner as AdkRunner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.genai import types

from hostler_adapters.active_run import ActiveRun, current_run
from hostler_adapters.adk_requests import chat_messages, functions_of, settings_of
from hostler_adapters.conversation import Turn
from hostler_adapters.host_tools import HostTool
from hostler_adapters.runner_class import Settings, built_agent, check_agent, runner_class
from hostler_adapters.sessions import latest
from hostler_sdk import RunContext, Runner

SESSION_FORMAT = "google-adk/1"
CONFIRMATION = "adk_request_confirmation"
"""The function by which ADK asks whether a tool may be called."""
APP, USER, SESSION = "hostler", "user", "conversation"
_DRAWN_ID = re.compile(r"adk-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
WHAT = "an agent of google.adk"
Build = Callable[[RunContext], BaseAgent]


def model(name: str = "default") -> BaseLlm:
    """Return a model that is the current run's; `name` is asked for at the model door."""
    return _DoorModel(model=name)


def host_tools() -> BaseToolset:
    """Return the tools of the host that the current run may call, for an agent's `tools`."""
    return _HostToolset()


def runner(
    agent: BaseAgent | Build,
    *,
    name: str,
    description: str = "",
    history: int = 50,
    config: Sequence[Mapping[str, Any]] = (),
) -> type[Runner]:
    """Return a runner class for an agent, or for a function of the run's context that builds one.

    The agent's `model` is that of `model()`. Raises TypeError for another `agent`.
    """
    settings = Settings(name=name, description=description, history=history, config=config)
    check_agent(agent, BaseAgent, WHAT)

    async def serve(run: ActiveRun) -> None:
        built = await built_agent(agent, BaseAgent, WHAT, run.ctx)
        await _AdkRun(run, built, history).serve()

    return runner_class(serve, settings, session_format=SESSION_FORMAT)


class _AdkRun:
    """One run of one agent."""

    def __init__(self, run: ActiveRun, agent: BaseAgent, history: int) -> None:
        self._run = run
        self._agent = agent
        self._limit = history
        self._service = InMemorySessionService()
        plugin = _Steering(run, self._service)
        self._runner = AdkRunner(app_name=APP, agent=agent, session_service=self._service, plugins=[plugin])

    async def serve(self) -> None:
        """Answer, and go on while messages arrive that were not taken up."""
        stored, turns = await self._run.earlier()
        kept = stored if isinstance(stored, dict) else {"events": [], "state": {}}
        session = await self._service.create_session(
            app_name=APP, user_id=USER, session_id=SESSION, state=kept["state"]
        )
        for plain in kept["events"]:
            await self._service.append_event(session, Event.model_validate(plain))
        for turn in turns:
            author = "user" if turn.role == "user" else self._agent.name
            await self._service.append_event(session, Event(author=author, content=_content([turn])))
        turns = [await self._run.input()]
        while turns:
            answer = await self._once(_content(turns))
            turns = await self._run.steers()
            if not turns:
                await self._run.keep(await self._session(len(kept["events"])))
            await self._run.answer(answer)

    async def _once(self, given: types.Content) -> str:
        """Run the agent to its end, through its confirmations; return the answer."""
        while True:
            answer = ""
            waiting: list[Any] = []
            events = self._runner.run_async(
                user_id=USER,
                session_id=SESSION,
                new_message=given,
                run_config=RunConfig(streaming_mode=StreamingMode.SSE),
            )
            async for event in events:
                if event.error_code or event.error_message:
                    raise RuntimeError(f"the agent failed: {event.error_message or event.error_code}")
                if event.partial:
                    continue
                waiting += [call for call in event.get_function_calls() if call.name == CONFIRMATION]
                if event.is_final_response() and not event.get_function_calls():
                    answer = _text_of(event.content) or answer
            if not waiting:
                return answer
            given = types.Content(role="user", parts=[await self._confirmed(call) for call in waiting])

    async def _confirmed(self, call: types.FunctionCall) -> types.Part:
        given = call.args or {}
        wanted = given.get("originalFunctionCall") or {}
        hint = (given.get("toolConfirmation") or {}).get("hint") or ""
        verdict = await self._run.approve(wanted.get("name", "a tool"), wanted.get("args"), description=hint)
        answer = types.FunctionResponse(
            id=call.id, name=CONFIRMATION, response={"confirmed": verdict.approved}
        )
        return types.Part(function_response=answer)

    async def _session(self, known: int) -> dict[str, Any]:
        """Return the session as JSON values, without anything that differs from one attempt to the next."""
        session = await self._service.get_session(app_name=APP, user_id=USER, session_id=SESSION)
        assert session is not None
        event_id, plain = self._run.ctx.event.event_id, []
        for number, event in enumerate(session.events):
            one = event.model_dump(mode="json", exclude_none=True, by_alias=True)
            if number >= known:
                one |= {
                    "id": f"{event_id}-{number}",
                    "timestamp": self._run.began_at,
                    "invocationId": event_id,
                }
            plain.append(one)
        kept = latest(plain, max(self._limit, 1), lambda one: one.get("author") == "user" and _says(one))
        names: dict[str, str] = {}

        def settled(found: re.Match[str]) -> str:
            return names.setdefault(found[0], f"call-{event_id}-{len(names)}")

        text = _DRAWN_ID.sub(settled, json.dumps({"events": kept, "state": dict(session.state)}))
        whole: dict[str, Any] = json.loads(text)
        for one in whole["events"]:
            if "longRunningToolIds" in one:  # a set, whose order differs from one process to the next
                one["longRunningToolIds"].sort()
        return whole


def _says(event: dict[str, Any]) -> bool:
    return any(part.get("text") for part in (event.get("content") or {}).get("parts") or ())


class _Steering(BasePlugin):
    """Adds messages that arrived, from the second call of a model on, to its request and to the session."""

    def __init__(self, run: ActiveRun, service: InMemorySessionService) -> None:
        super().__init__(name="hostler_steering")
        self._run = run
        self._service = service

    async def before_model_callback(self, *, callback_context: Any, llm_request: LlmRequest) -> None:
        """Pull, where the last content holds results of tools."""
        last = llm_request.contents[-1] if llm_request.contents else None
        if last is None or not any(part.function_response for part in last.parts or ()):
            return
        if turns := await self._run.steers():
            content = _content(turns)
            llm_request.contents.append(content)
            await self._service.append_event(callback_context.session, Event(author="user", content=content))


class _DoorModel(BaseLlm):
    """A model at the door of the current run."""

    @property
    def capabilities(self) -> LlmCapabilities:
        """What services of chat completions can do."""
        return LlmCapabilities(output_schema_and_tools=True)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the pieces of the answer, then the whole of it."""
        run = current_run()
        client: Any = run.ctx.models.openai_client()
        functions = functions_of(llm_request)
        answer = await client.chat.completions.create(
            model=self.model,
            messages=chat_messages(llm_request),
            stream=True,
            **({"tools": functions} if functions else {}),
            **settings_of(llm_request),
        )
        text = ""
        calls: dict[int, dict[str, Any]] = {}
        async for chunk in answer:
            for choice in chunk.choices:
                if choice.delta.content:
                    text += choice.delta.content
                    await run.say(choice.delta.content)
                    part = types.Part(text=choice.delta.content)
                    yield LlmResponse(content=types.Content(role="model", parts=[part]), partial=True)
                for piece in choice.delta.tool_calls or ():
                    call = calls.setdefault(piece.index, {"id": piece.id, "name": "", "arguments": ""})
                    call["name"] += piece.function.name or ""
                    call["arguments"] += piece.function.arguments or ""
        parts = [types.Part(text=text)] if text else []
        parts += [types.Part(function_call=_call(call)) for call in calls.values()]
        yield LlmResponse(content=types.Content(role="model", parts=parts), partial=False)


def _call(call: Mapping[str, Any]) -> types.FunctionCall:
    try:
        arguments = json.loads(call["arguments"] or "{}")
    except json.JSONDecodeError as error:
        raise RuntimeError(
            f"the model called {call['name']} with arguments that are no JSON: {error}"
        ) from error
    return types.FunctionCall(id=call["id"], name=call["name"], args=arguments)


class _HostToolset(BaseToolset):
    """The tools of the host."""

    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        """Return the tools of the current run."""
        return [_HostTool(tool) for tool in await current_run().tools()]


class _HostTool(BaseTool):
    """One tool of the host."""

    def __init__(self, tool: HostTool) -> None:
        super().__init__(name=tool.name, description=tool.description or tool.name)
        self._tool = tool

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self._tool.parameters
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        """Call the tool."""
        return {"result": await self._tool.call_text(args, tool_context.function_call_id)}


def _content(turns: Sequence[Turn]) -> types.Content:
    parts = []
    for turn in turns:
        parts += [types.Part(text=turn.text)] if turn.text else []
        for url in turn.images:
            head, _, data = url.partition(",")
            kind = head[5:].partition(";")[0]
            if url.startswith("data:"):
                parts.append(types.Part.from_bytes(data=base64.b64decode(data), mime_type=kind))
            else:
                parts.append(types.Part.from_uri(file_uri=url, mime_type="image/*"))
    return types.Content(role="user" if turns[0].role == "user" else "model", parts=parts)


def _text_of(content: types.Content | None) -> str:
    return "".join(part.text or "" for part in (content.parts or ()) if not part.thought) if content else ""
