"""The Host API: every call with its parameters, its reply and the permission it needs.

`CALLS` is the table. Parameters ignore unknown keys: an identity that a message claims for itself is dropped,
since identity comes from the connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hostler_protocol.calls.actions import ActionOutcome, ActionParams, ActionReply
from hostler_protocol.calls.around import (
    HostInfo,
    HostInfoParams,
    InteractionParams,
    PromptGetParams,
    PromptReply,
    RunAppendParams,
    RunCancelParams,
    RunCreateParams,
    RunEventsParams,
    RunFinalizeParams,
    RunGetParams,
    RunListParams,
)
from hostler_protocol.calls.artifacts import (
    ArtifactMetadataParams,
    ArtifactReadParams,
    ArtifactUploadParams,
    ArtifactUploadReply,
    FileGetParams,
    FileGetReply,
)
from hostler_protocol.calls.models import (
    CountTokensParams,
    CountTokensReply,
    EmbedParams,
    EmbedReply,
    ModelChunk,
    ModelDelta,
    ModelParams,
    ModelReply,
    RerankItem,
    RerankParams,
    RerankReply,
    ToolCallDelta,
)
from hostler_protocol.calls.params import CallParams, Nothing
from hostler_protocol.calls.reading import (
    EventGetParams,
    EventPageParams,
    HistoryPageParams,
    HistorySearchFilters,
    HistorySearchParams,
    SteeringPullParams,
    SteeringPullReply,
)
from hostler_protocol.calls.schedules import (
    RunSchedule,
    RunScheduleList,
    ScheduleCreateParams,
    ScheduleDeleteParams,
    ScheduleListParams,
)
from hostler_protocol.calls.state import (
    STATE_KEY_ALIASES,
    DeletedReply,
    KeyPage,
    StateDeleteParams,
    StateGetParams,
    StateGetReply,
    StateListParams,
    StateSetParams,
    StateSetReply,
    StorageArea,
    StorageDeleteParams,
    StorageGetParams,
    StorageGetReply,
    StorageKeysParams,
    StorageSetParams,
    state_keys_with,
)
from hostler_protocol.calls.tools import (
    KnowledgeItem,
    RetrieveParams,
    RetrieveReply,
    ToolCallParams,
    ToolCallReply,
    ToolDetail,
    ToolDetailParams,
)
from hostler_protocol.pausing import Decision
from hostler_protocol.runs import (
    AgentEventRecord,
    ArtifactMetadata,
    ArtifactReadResult,
    HistorySearchResult,
    JournalRecord,
    Page,
    RunRecord,
    TranscriptItem,
)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the Host API.

    `permission`: (manifest key, value) that the grant must hold; None if no permission is needed. `resource`:
    name of the parameter that holds a resource id of the grant. `effect`: the call changes something, so its
    intent is durable before it is carried out. `chunk`: type of the pieces of a streaming answer. `spends`:
    the call uses up a budget of tokens or cost, and is refused once that is spent. `heavy`: the answer may
    fill a whole message, so that a host carries out only a few at a time.
    """

    method: str
    params: type[CallParams]
    reply: Any
    permission: tuple[str, str] | None = None
    resource: str | None = None
    effect: bool = False
    chunk: type[Any] | None = None
    spends: bool = False
    heavy: bool = False


CALLS: dict[str, Call] = {
    call.method: call
    for call in (
        Call("model.invoke", ModelParams, ModelReply, ("models", "invoke"), "model_id", spends=True),
        Call(
            "model.stream",
            ModelParams,
            ModelReply,
            ("models", "stream"),
            "model_id",
            chunk=ModelChunk,
            spends=True,
        ),
        Call("model.rerank", RerankParams, RerankReply, ("models", "rerank"), "model_id", spends=True),
        Call("model.embed", EmbedParams, EmbedReply, ("models", "embed"), "model_id", spends=True),
        Call(
            "model.count_tokens", CountTokensParams, CountTokensReply, ("models", "count_tokens"), "model_id"
        ),
        Call("tool.detail", ToolDetailParams, ToolDetail, ("tools", "detail"), "tool_name"),
        Call("tool.call", ToolCallParams, ToolCallReply, ("tools", "call"), "tool_name", effect=True),
        Call("knowledge.retrieve", RetrieveParams, RetrieveReply, ("knowledge_bases", "retrieve"), "kb_id"),
        Call("history.page", HistoryPageParams, Page[TranscriptItem], ("history", "page"), heavy=True),
        Call("history.search", HistorySearchParams, HistorySearchResult, ("history", "search"), heavy=True),
        Call("event.get", EventGetParams, AgentEventRecord, ("events", "get")),
        Call("event.page", EventPageParams, Page[AgentEventRecord], ("events", "page"), heavy=True),
        Call("steering.pull", SteeringPullParams, SteeringPullReply, effect=True),
        Call("artifact.metadata", ArtifactMetadataParams, ArtifactMetadata, ("artifacts", "metadata")),
        Call("artifact.read", ArtifactReadParams, ArtifactReadResult, ("artifacts", "read"), heavy=True),
        Call("artifact.upload", ArtifactUploadParams, ArtifactUploadReply, effect=True),
        Call("state.get", StateGetParams, StateGetReply),
        Call("state.set", StateSetParams, StateSetReply, effect=True),
        Call("state.delete", StateDeleteParams, DeletedReply, effect=True),
        Call("state.list", StateListParams, KeyPage),
        Call("storage.get", StorageGetParams, StorageGetReply, heavy=True),
        Call("storage.set", StorageSetParams, Nothing, effect=True),
        Call("storage.delete", StorageDeleteParams, DeletedReply, effect=True),
        Call("storage.keys", StorageKeysParams, KeyPage),
        Call("file.get", FileGetParams, FileGetReply, resource="file_id", heavy=True),
        Call("prompt.get", PromptGetParams, PromptReply),
        Call("interaction.request", InteractionParams, Decision, effect=True),
        Call("action.request", ActionParams, ActionReply, effect=True),
        Call("run.get", RunGetParams, RunRecord, ("runs", "get")),
        Call("run.list", RunListParams, Page[RunRecord], ("runs", "list"), heavy=True),
        Call("run.events", RunEventsParams, Page[JournalRecord], ("runs", "events"), heavy=True),
        Call("run.cancel", RunCancelParams, RunRecord, ("runs", "cancel"), effect=True),
        Call("run.create", RunCreateParams, RunRecord, ("runs", "create"), effect=True),
        Call("run.append", RunAppendParams, Nothing, ("runs", "append"), effect=True),
        Call("run.finalize", RunFinalizeParams, RunRecord, ("runs", "finalize"), effect=True),
        Call("schedule.create", ScheduleCreateParams, RunSchedule, ("schedules", "create"), effect=True),
        Call("schedule.list", ScheduleListParams, RunScheduleList, ("schedules", "list")),
        Call("schedule.delete", ScheduleDeleteParams, DeletedReply, ("schedules", "delete"), effect=True),
        Call("host.info", HostInfoParams, HostInfo),
    )
}
"""Every call by its name without `host/`. Permissions of storage depend on the parameter `area`
(`storage: plugin|workspace`), those of files on the file's source, those of
`action.request` on the action: the host's gate checks them there."""

__all__ = [
    "CALLS",
    "STATE_KEY_ALIASES",
    "ActionOutcome",
    "ActionParams",
    "ActionReply",
    "ArtifactMetadataParams",
    "ArtifactReadParams",
    "ArtifactUploadParams",
    "ArtifactUploadReply",
    "Call",
    "CallParams",
    "CountTokensParams",
    "CountTokensReply",
    "DeletedReply",
    "EmbedParams",
    "EmbedReply",
    "EventGetParams",
    "EventPageParams",
    "FileGetParams",
    "FileGetReply",
    "HistoryPageParams",
    "HistorySearchFilters",
    "HistorySearchParams",
    "HostInfo",
    "HostInfoParams",
    "InteractionParams",
    "KeyPage",
    "KnowledgeItem",
    "ModelChunk",
    "ModelDelta",
    "ModelParams",
    "ModelReply",
    "Nothing",
    "PromptGetParams",
    "PromptReply",
    "RerankItem",
    "RerankParams",
    "RerankReply",
    "RetrieveParams",
    "RetrieveReply",
    "RunAppendParams",
    "RunCancelParams",
    "RunCreateParams",
    "RunEventsParams",
    "RunFinalizeParams",
    "RunGetParams",
    "RunListParams",
    "RunSchedule",
    "RunScheduleList",
    "ScheduleCreateParams",
    "ScheduleDeleteParams",
    "ScheduleListParams",
    "StateDeleteParams",
    "StateGetParams",
    "StateGetReply",
    "StateListParams",
    "StateSetParams",
    "StateSetReply",
    "SteeringPullParams",
    "SteeringPullReply",
    "StorageArea",
    "StorageDeleteParams",
    "StorageGetParams",
    "StorageGetReply",
    "StorageKeysParams",
    "StorageSetParams",
    "ToolCallDelta",
    "ToolCallParams",
    "ToolCallReply",
    "ToolDetail",
    "ToolDetailParams",
    "state_keys_with",
]
