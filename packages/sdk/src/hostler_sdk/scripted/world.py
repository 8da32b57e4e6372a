"""The data of a scripted host, in memory, and its answer to every Host API call."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from hostler_protocol import calls
from hostler_protocol.content import ArtifactRef, Message, ModelMessage, text_of
from hostler_protocol.events import AgentRunContext, EventRef, Input, StateSnapshot
from hostler_protocol.grants import (
    STATE_SCOPES,
    KnowledgeBaseResource,
    ModelResource,
    Resources,
    StorageResource,
)
from hostler_protocol.ids import new_id
from hostler_protocol.limits import MAX_PAGE_ITEMS, PROTOCOL_VERSION, Limits
from hostler_protocol.runs import (
    AgentEventRecord,
    HistorySearchResult,
    Page,
    RunOutput,
    RunRecord,
    SteeringInputItem,
    TranscriptItem,
)
from hostler_sdk.errors import InvalidArgument, NotFound
from hostler_sdk.scripted.artifacts import ArtifactShelf, file_range
from hostler_sdk.scripted.people import People, Told
from hostler_sdk.scripted.schedules import Schedules
from hostler_sdk.scripted.scripts import (
    ModelScript,
    ModelScripts,
    ToolScripts,
    count_tokens,
    embed,
    knowledge_items,
    rank,
    tool_context,
)
from hostler_sdk.scripted.states import States, answer_state, answer_storage, set_state
from hostler_sdk.tools import Tool

HistoryEntry = tuple[str, str] | str | Mapping[str, Any]
"""(role, text), or an object with role and content, or a text: of user and assistant in turn."""
Arrival = str | Input | Mapping[str, Any]
"""A message to an active run: a text, an Input, or an object like `{"text": "a", "contents": []}`."""


_MODEL_OPERATIONS = ("invoke", "stream", "rerank", "embed", "count_tokens")


class World:
    """Data and scripts of a scripted host. State, storage, artifacts and history persist over all runs."""

    def __init__(self, **scripts: Any) -> None:
        self.models = ModelScripts(None)
        self.tools = ToolScripts(None)
        self.knowledge: dict[str, list[calls.KnowledgeItem]] = {}
        self.history: list[TranscriptItem] = []
        self.states: States = {scope: {} for scope in STATE_SCOPES}
        self.storage: dict[str, dict[str, str]] = {"plugin": {}, "workspace": {}}
        self.artifacts = ArtifactShelf()
        self.steering: list[Input] = []
        """Messages that the active run has not pulled yet; `arrive` adds to them at any time."""
        self.people = People()
        self.schedules = Schedules()
        self.agents: dict[str, str] = {}
        self.actions: dict[str, Any] = {}
        self.files: dict[str, bytes] = {}
        self.prompt: list[ModelMessage] = []
        self.script(**scripts)

    def script(
        self,
        *,
        models: Mapping[str, ModelScript] | ModelScript | None = None,
        tools: Mapping[str, Any] | Sequence[Tool] | None = None,
        knowledge: Mapping[str, Sequence[Any]] | None = None,
        history: Sequence[HistoryEntry] = (),
        states: Mapping[str, Mapping[str, Any]] | None = None,
        steering: Sequence[Arrival] = (),
        decisions: Sequence[Told] = (),
        agents: Mapping[str, str] | None = None,
        actions: Mapping[str, Any] | None = None,
        files: Mapping[str, bytes] | None = None,
        prompt: Sequence[ModelMessage | Mapping[str, Any]] = (),
    ) -> None:
        """Set the answers to calls. Models and tools are replaced, everything else is added.

        `models`: a text, a list of texts, or replies by model id. `tools`: `@tool` functions, or functions,
        values and exceptions by name. `knowledge`: passages by knowledge base. `history`: messages before the
        run. `states`: values by scope and key. `steering`: messages that arrive during the run. `decisions`:
        of people and clients, in order. `agents`: the answers of child runs by agent. `actions`: the
        platform's answers, replies or exceptions by action; others are unsupported. `files`: bytes by file
        id. `prompt`: the answer to `prompt.get`.
        """
        if models is not None:
            self.models = ModelScripts(models)
        if tools is not None:
            self.tools = ToolScripts(tools)
        for kb, passages in (knowledge or {}).items():
            self.knowledge[kb] = knowledge_items(passages)
        for number, entry in enumerate(history):
            self.remember(*_role_and_text(entry, number))
        for scope, values in (states or {}).items():
            for key, value in values.items():
                self.set_state(scope, key, value)
        self.arrive(*steering)
        self.people.add(decisions)
        self.agents.update(agents or {})
        self.actions.update(actions or {})
        self.files.update(files or {})
        self.prompt.extend(msgspec.convert(list(prompt), list[ModelMessage]))

    def arrive(self, *messages: Arrival) -> None:
        """Deliver messages to the active run, to be pulled by `ctx.steering`."""
        given = [Input(text=one) if isinstance(one, str) else one for one in messages]
        self.steering.extend(
            one if isinstance(one, Input) else msgspec.convert(dict(one), Input) for one in given
        )

    # -- the context of a run --------------------------------------------------------------------

    @property
    def resources(self) -> Resources:
        """The scripted models, tools and knowledge bases, as a run sees them."""
        return Resources(
            models=[
                ModelResource(model_id=id_, operations=list(_MODEL_OPERATIONS)) for id_ in self.models.ids
            ],
            tools=self.tools.resources,
            knowledge_bases=[
                KnowledgeBaseResource(kb_id=kb, operations=["retrieve"]) for kb in self.knowledge
            ],
            storage=StorageResource(plugin_storage=True, workspace_storage=True),
        )

    @property
    def snapshot(self) -> StateSnapshot:
        """The current state."""
        plain = {
            scope: {key: value for key, (value, _) in values.items()} for scope, values in self.states.items()
        }
        return msgspec.convert(plain, StateSnapshot)

    def remember(
        self, role: str, content: Any, refs: Sequence[ArtifactRef] = (), *, event_id: str | None = None
    ) -> None:
        """Add a message to the history. `event_id`: the event that it came with."""
        seq = len(self.history) + 1
        self.history.append(
            TranscriptItem(
                transcript_id=f"t{seq}",
                event_id=event_id or f"e{seq}",
                conversation_id="conversation",
                thread_id=None,
                role=role,
                content=text_of(content),
                content_json=_message_json(role, content, refs),
                seq=seq,
                cursor=f"c{seq}",
                created_at=time.time(),
                artifact_refs=list(refs),
            )
        )

    def set_state(self, scope: str, key: str, value: Any, if_version: int | None = None) -> int:
        """Write a state value, and return its version. Raises InvalidArgument or Conflict as a host does."""
        return set_state(self.states, scope, key, value, if_version)

    # -- answers to calls, by the type of their parameters ---------------------------------------

    async def answer(self, params: calls.CallParams, given: AgentRunContext, call_id: str) -> Any:
        """Answer one call. Raises HostError to refuse it."""
        match params:
            case calls.ModelParams() | calls.RerankParams() | calls.EmbedParams() | calls.CountTokensParams():
                return self._model(params)
            case calls.ToolDetailParams(tool_name=name):
                return self.tools.detail(name)
            case calls.ToolCallParams():
                return calls.ToolCallReply(result=await self._call_tool(params, given, call_id))
            case calls.InteractionParams():
                return self.people.answer(params, call_id)
            case calls.RunCreateParams():
                return self._child(params, given, call_id)
            case _:
                return self._fact(params, given)

    async def _call_tool(self, params: calls.ToolCallParams, given: AgentRunContext, call_id: str) -> Any:
        name, parameters = params.tool_name, params.parameters
        waits = self.tools.waiting(name)
        if waits is not None:
            decision = self.people.settle(waits, parameters, call_id)
            if waits.client:
                return decision.result
            parameters = decision.arguments or {}
        ctx = tool_context(given, params.tool_call_id or call_id)
        return await self.tools.call(name, parameters, ctx)

    def _model(self, params: Any) -> Any:
        match params:
            case calls.ModelParams():
                return self.models.answer(params)
            case calls.RerankParams():
                ranked = rank(params.query, params.documents)[: params.top_k]
                return calls.RerankReply(items=[calls.RerankItem(index=i, score=s) for i, s in ranked])
            case calls.EmbedParams():
                return embed(params)
            case _:
                return calls.CountTokensReply(input_tokens=count_tokens(params.messages))

    def _fact(self, params: calls.CallParams, given: AgentRunContext) -> Any:
        answer = _FACTS.get(type(params))
        if answer is None:
            raise NotFound(f"the scripted host has no answer to {type(params).__name__}")
        return answer(self, params, given)

    def _retrieve(self, params: calls.RetrieveParams) -> calls.RetrieveReply:
        if params.kb_id not in self.knowledge:
            raise NotFound(f"no knowledge base {params.kb_id!r} is scripted")
        items = self.knowledge[params.kb_id]
        ranked = rank(params.query_text, [item.content for item in items])[: params.top_k]
        return calls.RetrieveReply(items=[msgspec.structs.replace(items[i], score=s) for i, s in ranked])

    def _history_page(self, params: calls.HistoryPageParams) -> Page[TranscriptItem]:
        if params.before_cursor is not None and params.after_cursor is not None:
            raise InvalidArgument("before_cursor and after_cursor are both given; a page takes one of them")
        before = len(self.history) + 1 if params.before_cursor is None else _position(params.before_cursor)
        after = 0 if params.after_cursor is None else _position(params.after_cursor)
        found = [item for item in self.history if after < item.seq < before]
        if params.direction == "backward":
            found.reverse()
        items = found[: max(1, min(params.limit, MAX_PAGE_ITEMS))]
        more = len(found) > len(items)
        return Page(items=items, next_cursor=items[-1].cursor if more else None, has_more=more)

    def _act(self, params: calls.ActionParams) -> calls.ActionReply:
        if params.action not in self.actions:
            return calls.ActionReply(outcome="unsupported", reason=f"{params.action!r} is not scripted")
        answer = self.actions[params.action]
        if isinstance(answer, Exception):
            raise answer
        whole = isinstance(answer, calls.ActionReply)
        return answer if whole else calls.ActionReply(outcome="done", result=answer)

    def _search(self, params: calls.HistorySearchParams) -> HistorySearchResult:
        words = params.query.lower().split()
        found = [item for item in self.history if all(_holds(item.content.lower(), word) for word in words)]
        return HistorySearchResult(
            items=found[::-1][: params.top_k], query=params.query, total_count=len(found)
        )

    def _pull(self, params: calls.SteeringPullParams, given: AgentRunContext) -> calls.SteeringPullReply:
        count = 1 if params.mode == "one-at-a-time" else params.limit or len(self.steering)
        taken, self.steering = self.steering[:count], self.steering[count:]
        items = [
            SteeringInputItem(
                claimed_run_id=given.run_id,
                runner_id="",
                claimed_at=time.time(),
                event=EventRef(event_id=new_id(), event_type="message.received"),
                input=one,
                conversation=given.conversation,
                actor=given.actor,
            )
            for one in taken
        ]
        return calls.SteeringPullReply(items=items)

    def _child(self, params: calls.RunCreateParams, given: AgentRunContext, call_id: str) -> RunRecord:
        if params.agent not in self.agents:
            raise NotFound(f"no agent {params.agent!r} is scripted; there are {sorted(self.agents)}")
        text = self.agents[params.agent]
        record = _run_record(given, "completed")
        return msgspec.structs.replace(
            record,
            run_id=f"{given.run_id}/{call_id}",
            agent=params.agent,
            parent_run_id=given.run_id,
            output=RunOutput(text=text, messages=[Message(role="assistant", content=text)]),
        )


def _message_json(role: str, content: Any, refs: Sequence[ArtifactRef]) -> dict[str, Any]:
    whole: dict[str, Any] = msgspec.to_builtins({"role": role, "content": content, "artifact_refs": refs})
    return whole if refs else {"role": role, "content": whole["content"]}


def _role_and_text(entry: HistoryEntry, number: int) -> tuple[str, str]:
    if isinstance(entry, str):
        return ("user", "assistant")[number % 2], entry
    if isinstance(entry, Mapping):
        return entry["role"], entry["content"]
    return entry


def _holds(text: str, word: str) -> bool:
    """Match whole words in scripts that separate them by spaces, any sequence of characters in others."""
    return word in re.findall(r"\w+", text) if word.isascii() else word in text


def _position(cursor: str) -> int:
    if not cursor.startswith("c") or not cursor[1:].isdecimal():
        raise InvalidArgument(f"{cursor!r} is not a cursor of this host")
    return int(cursor[1:])


def _event_record(given: AgentRunContext) -> AgentEventRecord:
    return AgentEventRecord(
        event_id=given.event.event_id,
        event_type=given.event.event_type,
        source=given.event.source,
        seq=1,
        cursor="c1",
        created_at=time.time(),
        workspace_id="default",
        input_summary=(given.input.text or "")[:1000],
    )


def _run_record(given: AgentRunContext, status: Any) -> RunRecord:
    return RunRecord(
        run_id=given.run_id,
        agent="scripted",
        agent_version=1,
        runner_id="",
        status=status,
        attempt=given.attempt,
        created_at=time.time(),
    )


_Answer = Callable[[World, Any, AgentRunContext], Any]

_FACTS: dict[type[calls.CallParams], _Answer] = {
    calls.RetrieveParams: lambda world, params, _: world._retrieve(params),
    calls.HistoryPageParams: lambda world, params, _: world._history_page(params),
    calls.HistorySearchParams: lambda world, params, _: world._search(params),
    calls.ActionParams: lambda world, params, _: world._act(params),
    calls.EventGetParams: lambda _, __, given: _event_record(given),
    calls.EventPageParams: lambda _, __, given: Page(items=[_event_record(given)]),
    calls.SteeringPullParams: lambda world, params, given: world._pull(params, given),
    calls.ArtifactMetadataParams: lambda world, params, _: world.artifacts.metadata(params.artifact_id),
    calls.ArtifactReadParams: lambda world, params, _: world.artifacts.read(params),
    calls.ArtifactUploadParams: lambda world, params, _: world.artifacts.upload(params),
    calls.FileGetParams: lambda world, params, _: file_range(world.files, params),
    **dict.fromkeys(
        (calls.StateGetParams, calls.StateSetParams, calls.StateDeleteParams, calls.StateListParams),
        lambda world, params, _: answer_state(world.states, params),
    ),
    **dict.fromkeys(
        (calls.StorageGetParams, calls.StorageSetParams, calls.StorageDeleteParams, calls.StorageKeysParams),
        lambda world, params, _: answer_storage(world.storage, params),
    ),
    **dict.fromkeys(
        (calls.RunGetParams, calls.RunCancelParams, calls.RunFinalizeParams),
        lambda _, __, given: _run_record(given, "running"),
    ),
    **dict.fromkeys(
        (calls.ScheduleCreateParams, calls.ScheduleListParams, calls.ScheduleDeleteParams),
        lambda world, params, _: world.schedules.answer(params),
    ),
    calls.RunListParams: lambda _, __, given: Page(items=[_run_record(given, "running")]),
    calls.RunEventsParams: lambda _, __, ___: Page(items=[]),
    calls.RunAppendParams: lambda _, __, ___: calls.Nothing(),
    calls.PromptGetParams: lambda world, _, __: calls.PromptReply(prompt=world.prompt),
    calls.HostInfoParams: lambda _, __, ___: calls.HostInfo(
        name="scripted", version="0", protocol=PROTOCOL_VERSION, limits=Limits()
    ),
}
"""Answers to calls that need neither scripts nor people, by the type of their parameters."""
