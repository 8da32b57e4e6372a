"""Parameters of the actions that a plugin asks for. Unknown keys, like `run_id`, are ignored here."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

Limit = Annotated[int, msgspec.Meta(ge=1)]
DEFAULT_PAGE_ITEMS = 50
ReasoningLevel = Literal[
    "provider_default", "disabled", "enabled", "minimal", "low", "medium", "high", "xhigh", "max"
]
"""How much a model thinks, as LangBot names it."""


class Nothing(msgspec.Struct, frozen=True):
    """An action without parameters."""


class RunGet(msgspec.Struct, frozen=True):
    """`run_get`."""

    target_run_id: str | None = None


class RunList(msgspec.Struct, frozen=True):
    """`run_list`."""

    statuses: list[str] | None = None
    before_cursor: str | None = None
    limit: Limit = DEFAULT_PAGE_ITEMS


class RunEvents(msgspec.Struct, frozen=True):
    """`run_events_page`."""

    target_run_id: str | None = None
    before_cursor: str | None = None
    after_cursor: str | None = None
    limit: Limit = DEFAULT_PAGE_ITEMS
    direction: str = "forward"


class RunCancel(msgspec.Struct, frozen=True):
    """`run_cancel`."""

    target_run_id: str | None = None
    reason: str | None = None


class RunAppend(msgspec.Struct, frozen=True):
    """`run_append_result`."""

    result: dict[str, Any]
    target_run_id: str | None = None


class RunFinalize(msgspec.Struct, frozen=True):
    """`run_finalize`."""

    target_run_id: str | None = None
    status: str | None = None
    reason: str | None = None


class ToolDetail(msgspec.Struct, frozen=True):
    """`get_tool_detail`."""

    tool_name: str


class CallTool(msgspec.Struct, frozen=True):
    """`call_tool`."""

    tool_name: str
    parameters: dict[str, Any] | None = None
    tool_call_id: str | None = None


class Retrieve(msgspec.Struct, frozen=True):
    """`retrieve_knowledge_base`."""

    kb_id: str
    query_text: str
    top_k: Limit = 5
    filters: dict[str, Any] | None = None


class Rerank(msgspec.Struct, frozen=True):
    """`invoke_rerank`."""

    rerank_model_uuid: str
    query: str
    documents: list[str]
    top_k: Limit | None = None


class Embed(msgspec.Struct, frozen=True):
    """`invoke_embedding`."""

    embedding_model_uuid: str
    texts: list[str]


class ModelCall(msgspec.Struct, frozen=True):
    """`count_tokens`, `invoke_llm` and `invoke_llm_stream`. `timeout` in seconds."""

    llm_model_uuid: str
    messages: list[dict[str, Any]]
    funcs: list[dict[str, Any]] | None = None
    extra_args: dict[str, Any] | None = None
    timeout: float | None = None
    remove_think: bool | None = None
    reasoning_level: ReasoningLevel | None = None


class HistoryPage(msgspec.Struct, frozen=True):
    """`history_page`."""

    conversation_id: str | None = None
    before_cursor: str | None = None
    after_cursor: str | None = None
    limit: Limit = DEFAULT_PAGE_ITEMS
    direction: Literal["backward", "forward"] = "backward"
    include_attachments: bool = False


class HistorySearch(msgspec.Struct, frozen=True):
    """`history_search`."""

    query: str
    filters: dict[str, Any] | None = None
    top_k: Limit = 10


class EventGet(msgspec.Struct, frozen=True):
    """`event_get`."""

    event_id: str


class EventPage(msgspec.Struct, frozen=True):
    """`event_page`."""

    event_types: list[str] | None = None
    before_cursor: str | None = None
    limit: Limit = DEFAULT_PAGE_ITEMS


class StateKey(msgspec.Struct, frozen=True):
    """`state_get` and `state_delete`."""

    scope: str
    key: str


class StateSet(msgspec.Struct, frozen=True):
    """`state_set`."""

    scope: str
    key: str
    value: Any


class StateList(msgspec.Struct, frozen=True):
    """`state_list`."""

    scope: str
    prefix: str | None = None
    limit: Limit = 100


class SteeringPull(msgspec.Struct, frozen=True):
    """`steering_pull`; mode `one` is another name of `one-at-a-time`."""

    mode: str = "all"
    limit: Limit | None = None


class StorageSet(msgspec.Struct, frozen=True):
    """`set_plugin_storage` and `set_workspace_storage`."""

    key: str
    value_base64: str


class StorageKey(msgspec.Struct, frozen=True):
    """`get_...` and `delete_..._storage`."""

    key: str
