"""The Host API: every call, its parameters, its reply and what the grant must hold.

`CALLS` is the one table. Parameters ignore unknown keys: an identity that a message claims for itself
is dropped here, since identity comes from the connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from hostler_protocol._base import Lenient, Sparse, Strict
from hostler_protocol.content import Content, FunctionSpec, ModelMessage, Usage
from hostler_protocol.events import Actor, Input
from hostler_protocol.limits import DEFAULT_ARTIFACT_READ_BYTES, DEFAULT_PAGE_ITEMS, Count, Limits
from hostler_protocol.pausing import Decision, FormField, InteractionAction
from hostler_protocol.runs import (
    AgentEventRecord,
    ArtifactMetadata,
    ArtifactReadResult,
    HistorySearchResult,
    JournalRecord,
    Page,
    RunRecord,
    SteeringInputItem,
    TranscriptItem,
)


class CallParams(Lenient):
    """What every call names: the run it is made for."""

    run_id: str


class Nothing(Strict):
    """An empty answer."""


# -- models ---------------------------------------------------------------------------------------


class ModelParams(CallParams):
    """`model.invoke` and `model.stream`. `extra_args` go to the model service as they are."""

    model_id: str
    messages: list[ModelMessage]
    tools: list[FunctionSpec] = []
    extra_args: dict[str, Any] = {}


class ModelReply(Strict):
    """A whole answer of a model. `finish_reason` in the words of chat completion services."""

    message: ModelMessage
    finish_reason: str
    usage: Usage | None = None


class ToolCallDelta(Sparse):
    """A piece of a tool call that a model is writing."""

    index: Count
    id: str | None = None
    name: str | None = None
    arguments: str | None = None


class ModelDelta(Sparse):
    """What one chunk adds."""

    content: Content | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCallDelta] = []


class ModelChunk(Sparse):
    """One chunk of `model.stream`."""

    delta: ModelDelta


class RerankParams(CallParams):
    """`model.rerank`: order `documents` (at most 64) by how well they answer `query`."""

    model_id: str
    query: str
    documents: list[str]
    top_k: Count | None = None


class RerankItem(Strict):
    """`index` into the documents, and a score that rises with relevance."""

    index: Count
    score: float


class RerankReply(Strict):
    """Best first."""

    items: list[RerankItem]


class CountTokensParams(CallParams):
    """`model.count_tokens`."""

    model_id: str
    messages: list[ModelMessage]
    tools: list[FunctionSpec] = []


class CountTokensReply(Strict):
    """How many tokens the messages and tools take."""

    input_tokens: Count


# -- tools and knowledge --------------------------------------------------------------------------


class ToolDetailParams(CallParams):
    """`tool.detail`."""

    tool_name: str


class ToolDetail(Strict):
    """A tool in full; `parameters` is JSON Schema."""

    name: str
    description: str
    parameters: dict[str, Any]


class ToolCallParams(CallParams):
    """`tool.call`."""

    tool_name: str
    parameters: dict[str, Any] = {}
    tool_call_id: str | None = None


class ToolCallReply(Strict):
    """The tool's result as plain JSON."""

    result: Any


class RetrieveParams(CallParams):
    """`knowledge.retrieve`."""

    kb_id: str
    query_text: str
    top_k: Count = 5
    filters: dict[str, Any] | None = None


class KnowledgeItem(Strict):
    """A passage."""

    content: str
    score: float
    metadata: dict[str, Any] = {}


class RetrieveReply(Strict):
    """Best first."""

    items: list[KnowledgeItem]


# -- history and events ---------------------------------------------------------------------------


class HistoryPageParams(CallParams):
    """`history.page`: backward is newest first, forward oldest first, with or without a cursor."""

    conversation_id: str | None = None
    before_cursor: str | None = None
    after_cursor: str | None = None
    limit: Count = DEFAULT_PAGE_ITEMS
    direction: Literal["backward", "forward"] = "backward"
    include_artifacts: bool = False


class HistorySearchFilters(Lenient):
    """Narrow a search; times are UTC epoch seconds."""

    role: str | None = None
    after: float | None = None
    before: float | None = None
    conversation_id: str | None = None


class HistorySearchParams(CallParams):
    """`history.search`: finds words in any script, never as a wildcard pattern."""

    query: str
    filters: HistorySearchFilters | None = None
    top_k: Count = 10


class EventGetParams(CallParams):
    """`event.get`."""

    event_id: str


class EventPageParams(CallParams):
    """`event.page`, newest first."""

    before_cursor: str | None = None
    event_types: list[str] | None = None
    limit: Count = DEFAULT_PAGE_ITEMS


class SteeringPullParams(CallParams):
    """`steering.pull`."""

    mode: Literal["all", "one-at-a-time"] = "all"
    limit: Count | None = None


class SteeringPullReply(Strict):
    """In the order they arrived."""

    items: list[SteeringInputItem]


# -- artifacts and files --------------------------------------------------------------------------


class ArtifactMetadataParams(CallParams):
    """`artifact.metadata`."""

    artifact_id: str


class ArtifactReadParams(CallParams):
    """`artifact.read`: `limit` bytes from `offset`; at most 4 MiB."""

    artifact_id: str
    offset: Count = 0
    limit: Count = DEFAULT_ARTIFACT_READ_BYTES


class ArtifactUploadParams(CallParams):
    """`artifact.upload`: parts count from 0; metadata counts on the last one."""

    part: Count
    content_base64: str
    last: bool
    upload_id: str | None = None
    artifact_type: str = "file"
    mime_type: str | None = None
    name: str | None = None
    sha256: str | None = None
    size_bytes: Count | None = None
    expires_in: float | None = None
    metadata: dict[str, Any] = {}


class ArtifactUploadReply(Sparse):
    """`upload_id` goes with the next parts; `artifact_id` on the last."""

    upload_id: str | None = None
    artifact_id: str | None = None


class FileGetParams(CallParams):
    """`file.get`: a range of a configuration or knowledge file."""

    file_id: str
    offset: Count = 0
    limit: Count = DEFAULT_ARTIFACT_READ_BYTES


class FileGetReply(Strict):
    """One range of a file."""

    file_id: str
    size_bytes: Count
    offset: Count
    length: Count
    content_base64: str
    has_more: bool
    mime_type: str | None = None


# -- state and storage ----------------------------------------------------------------------------


class StateGetParams(CallParams):
    """`state.get`. The key `conversation_id` means `external.conversation_id`."""

    scope: str
    key: str


class StateGetReply(Strict):
    """The value and its version, which the host always names; version 0: absent."""

    value: Any
    version: Count = 0


class StateSetParams(CallParams):
    """`state.set`; with `if_version`, only from that version (0: only if absent)."""

    scope: str
    key: str
    value: Any
    if_version: Count | None = None


class StateSetReply(Strict):
    """The version written."""

    version: Count


class StateDeleteParams(CallParams):
    """`state.delete`."""

    scope: str
    key: str


class DeletedReply(Strict):
    """Whether there was something to delete."""

    deleted: bool


class StateListParams(CallParams):
    """`state.list`: keys in order; `prefix` is literal text."""

    scope: str
    prefix: str | None = None
    limit: Count = 100
    cursor: str | None = None


class KeyPage(Strict):
    """Keys of one page."""

    items: list[str]
    next_cursor: str | None = None
    has_more: bool = False


StorageArea = Literal["plugin", "workspace"]


class StorageGetParams(CallParams):
    """`storage.get`."""

    area: StorageArea
    key: str


class StorageGetReply(Strict):
    """None: absent."""

    content_base64: str | None


class StorageSetParams(CallParams):
    """`storage.set`: at most 4 MiB decoded."""

    area: StorageArea
    key: str
    content_base64: str


class StorageDeleteParams(CallParams):
    """`storage.delete`."""

    area: StorageArea
    key: str


class StorageKeysParams(CallParams):
    """`storage.keys`."""

    area: StorageArea
    prefix: str | None = None
    limit: Count = 100
    cursor: str | None = None


# -- prompt, people, runs, host -------------------------------------------------------------------


class PromptGetParams(CallParams):
    """`prompt.get`."""


class PromptReply(Strict):
    """The binding's effective prompt."""

    prompt: list[ModelMessage]


class InteractionParams(CallParams):
    """`interaction.request`: a question to a person; may park the run."""

    kind: Literal["form", "confirmation", "choice"]
    title: str
    description: str | None = None
    fields: list[FormField] = []
    actions: list[InteractionAction] = []
    expires_in: float | None = None
    fallback_text: str | None = None


class RunGetParams(CallParams):
    """`run.get`; without a target, the run itself."""

    target_run_id: str | None = None


class RunListParams(CallParams):
    """`run.list`: the runs of this conversation and agent, newest first."""

    statuses: list[str] | None = None
    before_cursor: str | None = None
    limit: Count = DEFAULT_PAGE_ITEMS


class RunEventsParams(CallParams):
    """`run.events`: the journal of a run from after a position."""

    target_run_id: str | None = None
    after: Count = 0
    limit: Count = DEFAULT_PAGE_ITEMS


class RunCancelParams(CallParams):
    """`run.cancel`."""

    target_run_id: str | None = None
    reason: str | None = None


class RunCreateParams(CallParams):
    """`run.create`: a child run of the named agent; `wait` in seconds."""

    agent: str
    input: Input
    data: dict[str, Any] = {}
    conversation_id: str | None = None
    actor: Actor | None = None
    wait: float | None = None


class RunAppendParams(CallParams):
    """`run.append`: remote workers only."""

    target_run_id: str
    result: msgspec.Raw


class RunFinalizeParams(CallParams):
    """`run.finalize`: remote workers only."""

    target_run_id: str
    status: str
    reason: str | None = None


class HostInfoParams(CallParams):
    """`host.info`."""


class HostInfo(Strict):
    """The host's version and limits."""

    name: str
    version: str
    protocol: int
    limits: Limits


@dataclass(frozen=True, slots=True)
class Call:
    """One row of the table.

    `permission` is (manifest key, value) that the grant must hold, None where no manifest permission is
    needed. `resource` names the parameter that holds a resource id of the grant. `effect`: the call
    changes something, so its intent is durable before it is carried out. `chunk` is the type of
    the pieces of a streaming call.
    """

    method: str
    params: type[CallParams]
    reply: Any
    permission: tuple[str, str] | None = None
    resource: str | None = None
    effect: bool = False
    chunk: type[Any] | None = None


CALLS: dict[str, Call] = {
    call.method: call
    for call in (
        Call("model.invoke", ModelParams, ModelReply, ("models", "invoke"), "model_id"),
        Call("model.stream", ModelParams, ModelReply, ("models", "stream"), "model_id", chunk=ModelChunk),
        Call("model.rerank", RerankParams, RerankReply, ("models", "rerank"), "model_id"),
        Call(
            "model.count_tokens", CountTokensParams, CountTokensReply, ("models", "count_tokens"), "model_id"
        ),
        Call("tool.detail", ToolDetailParams, ToolDetail, ("tools", "detail"), "tool_name"),
        Call("tool.call", ToolCallParams, ToolCallReply, ("tools", "call"), "tool_name", effect=True),
        Call("knowledge.retrieve", RetrieveParams, RetrieveReply, ("knowledge_bases", "retrieve"), "kb_id"),
        Call("history.page", HistoryPageParams, Page[TranscriptItem], ("history", "page")),
        Call("history.search", HistorySearchParams, HistorySearchResult, ("history", "search")),
        Call("event.get", EventGetParams, AgentEventRecord, ("events", "get")),
        Call("event.page", EventPageParams, Page[AgentEventRecord], ("events", "page")),
        Call("steering.pull", SteeringPullParams, SteeringPullReply, effect=True),
        Call("artifact.metadata", ArtifactMetadataParams, ArtifactMetadata, ("artifacts", "metadata")),
        Call("artifact.read", ArtifactReadParams, ArtifactReadResult, ("artifacts", "read")),
        Call("artifact.upload", ArtifactUploadParams, ArtifactUploadReply, effect=True),
        Call("state.get", StateGetParams, StateGetReply),
        Call("state.set", StateSetParams, StateSetReply, effect=True),
        Call("state.delete", StateDeleteParams, DeletedReply, effect=True),
        Call("state.list", StateListParams, KeyPage),
        Call("storage.get", StorageGetParams, StorageGetReply),
        Call("storage.set", StorageSetParams, Nothing, effect=True),
        Call("storage.delete", StorageDeleteParams, DeletedReply, effect=True),
        Call("storage.keys", StorageKeysParams, KeyPage),
        Call("file.get", FileGetParams, FileGetReply, resource="file_id"),
        Call("prompt.get", PromptGetParams, PromptReply),
        Call("interaction.request", InteractionParams, Decision, effect=True),
        Call("run.get", RunGetParams, RunRecord, ("runs", "get")),
        Call("run.list", RunListParams, Page[RunRecord], ("runs", "list")),
        Call("run.events", RunEventsParams, Page[JournalRecord], ("runs", "events")),
        Call("run.cancel", RunCancelParams, RunRecord, ("runs", "cancel"), effect=True),
        Call("run.create", RunCreateParams, RunRecord, ("runs", "create"), effect=True),
        Call("run.append", RunAppendParams, Nothing, ("runs", "append"), effect=True),
        Call("run.finalize", RunFinalizeParams, RunRecord, ("runs", "finalize"), effect=True),
        Call("host.info", HostInfoParams, HostInfo),
    )
}
"""Host API method (without `host/`) -> its row. Storage permissions depend on the area parameter
(`storage: plugin|workspace`), file permissions on the file's source: the gate reads them there."""
