"""Checks of Host API arguments that types do not express: formats, sizes and counts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any, get_args

import msgspec

from hostler.domain.keys import base64_size, check_depth, check_id, check_key, state_key_of, state_value_of
from hostler.domain.reminders import check_name, check_request
from hostler.domain.suggestions import did_you_mean
from hostler_protocol.calls import (
    ArtifactUploadParams,
    CallParams,
    CountTokensParams,
    EmbedParams,
    EventPageParams,
    HistoryPageParams,
    HistorySearchParams,
    ModelParams,
    RerankParams,
    RetrieveParams,
    RunCancelParams,
    RunCreateParams,
    RunListParams,
    ScheduleCreateParams,
    ScheduleDeleteParams,
    StateDeleteParams,
    StateGetParams,
    StateListParams,
    StateSetParams,
    SteeringPullParams,
    StorageDeleteParams,
    StorageGetParams,
    StorageKeysParams,
    StorageSetParams,
    ToolCallParams,
)
from hostler_protocol.errors import InvalidArgumentError, PayloadTooLargeError
from hostler_protocol.grants import STATE_SCOPES
from hostler_protocol.limits import (
    KIB,
    MAX_EMBED_DIMENSIONS,
    MAX_EMBED_INPUTS,
    MAX_KEY_CHARS,
    MAX_REASON_CHARS,
    MAX_RERANK_DOCUMENTS,
    MAX_SEARCH_QUERY_CHARS,
    MAX_STORAGE_VALUE_BYTES,
    MAX_UPLOAD_PART_BYTES,
)
from hostler_protocol.runs import RunStatus

MAX_CURSOR_CHARS = 1_024
MAX_LISTED = 100
"""Entries of a list that filters a page: event types, statuses."""
MAX_METADATA_BYTES = 64 * KIB
"""Metadata of one artifact as JSON."""
MAX_EVENT_DATA_BYTES = 256 * KIB
"""`data` of a child run as JSON."""
MAX_WORD_CHARS = 255
MAX_WAIT_SECONDS = 3_600
"""The longest wait of `run.create`; the run's deadline may end it earlier."""
RESERVED_MODEL_ARGUMENTS = frozenset(
    {
        "api_base",
        "api_key",
        "api_version",
        "base_url",
        "client",
        "custom_llm_provider",
        "default_headers",
        "extra_body",
        "extra_headers",
        "extra_query",
        "headers",
        "http_client",
        "messages",
        "mock_response",
        "model",
        "organization",
        "stream",
        "stream_options",
        "timeout",
        "tools",
    }
)
"""Refused in `extra_args`, which go to the model service: they would select another service or key, or bypass
the grant."""
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_STATUSES = frozenset(get_args(RunStatus))
_ID_FIELDS = frozenset(
    {
        "agent",
        "artifact_id",
        "conversation_id",
        "event_id",
        "file_id",
        "kb_id",
        "model_id",
        "target_run_id",
        "tool_call_id",
        "tool_name",
        "upload_id",
    }
)
_CURSOR_FIELDS = frozenset({"cursor", "before_cursor", "after_cursor"})


def check_arguments(params: CallParams) -> None:
    """Check the arguments of a call.

    InvalidArgumentError or PayloadTooLargeError names the field, the mistake and what is expected.
    """
    ids, cursors = _text_fields(type(params))
    for name in ids:
        value = getattr(params, name)
        if isinstance(value, str):
            check_id(name, value)
    for name in cursors:
        value = getattr(params, name)
        if isinstance(value, str) and len(value) > MAX_CURSOR_CHARS:
            raise InvalidArgumentError(f"{name} has {len(value):,} characters; it is no cursor of this host")
    if getattr(params, "limit", 1) == 0:
        raise InvalidArgumentError("limit is 0; at least 1 is expected")
    check = _CHECKS.get(type(params))
    if check is not None:
        check(params)


@cache
def _text_fields(params: type[CallParams]) -> tuple[list[str], list[str]]:
    """Which fields of these parameters are ids, and which are cursors."""
    names = params.__struct_fields__
    return [name for name in names if name in _ID_FIELDS], [name for name in names if name in _CURSOR_FIELDS]


def _model(params: ModelParams | CountTokensParams) -> None:
    check_depth("extra_args", getattr(params, "extra_args", None))
    for tool in params.tools:
        check_depth("the parameters of a tool", tool.parameters)
    if not params.messages:
        raise InvalidArgumentError("messages is empty; at least one message is expected")
    reserved = RESERVED_MODEL_ARGUMENTS.intersection(getattr(params, "extra_args", ()))
    if reserved:
        raise InvalidArgumentError(
            f"extra_args may not hold {', '.join(sorted(reserved))}: the host decides it"
        )


def _rerank(params: RerankParams) -> None:
    if not 1 <= len(params.documents) <= MAX_RERANK_DOCUMENTS:
        raise InvalidArgumentError(
            f"documents has {len(params.documents)} entries; 1 to {MAX_RERANK_DOCUMENTS} may be"
        )
    if not params.query:
        raise InvalidArgumentError("query is empty")
    _at_least_one("top_k", params.top_k)


def _embed(params: EmbedParams) -> None:
    if not 1 <= len(params.inputs) <= MAX_EMBED_INPUTS:
        raise InvalidArgumentError(f"inputs has {len(params.inputs)} entries; 1 to {MAX_EMBED_INPUTS} may be")
    for place, one in enumerate(params.inputs):
        if not one:
            raise InvalidArgumentError(f"inputs[{place}] is empty")
    if params.dimensions is not None and not 1 <= params.dimensions <= MAX_EMBED_DIMENSIONS:
        raise InvalidArgumentError(f"dimensions is {params.dimensions}; 1 to {MAX_EMBED_DIMENSIONS:,} may be")


def _tool_call(params: ToolCallParams) -> None:
    check_depth("parameters", params.parameters)


def _retrieve(params: RetrieveParams) -> None:
    check_depth("filters", params.filters)
    _at_least_one("top_k", params.top_k)
    _query("query_text", params.query_text, MAX_SEARCH_QUERY_CHARS * 16)


def _history_page(params: HistoryPageParams) -> None:
    if params.before_cursor is not None and params.after_cursor is not None:
        raise InvalidArgumentError("before_cursor and after_cursor are both given; a page takes one of them")


def _history_search(params: HistorySearchParams) -> None:
    _query("query", params.query, MAX_SEARCH_QUERY_CHARS)
    _at_least_one("top_k", params.top_k)
    filters = params.filters
    if filters is not None:
        if filters.conversation_id is not None:
            check_id("filters.conversation_id", filters.conversation_id)
        for name, value in (("after", filters.after), ("before", filters.before)):
            if value is not None and not (math.isfinite(value) and abs(value) < 1e11):
                raise InvalidArgumentError(f"filters.{name} is {value}; UTC epoch seconds are expected")


def _event_page(params: EventPageParams) -> None:
    _listed("event_types", params.event_types)


def _steering(params: SteeringPullParams) -> None:
    _at_least_one("limit", params.limit)


def _upload(params: ArtifactUploadParams) -> None:
    size = base64_size("content_base64", params.content_base64)
    if size > MAX_UPLOAD_PART_BYTES:
        raise PayloadTooLargeError(
            f"content_base64 decodes to {size:,} bytes; at most {MAX_UPLOAD_PART_BYTES:,} may be in one part",
            limit_bytes=MAX_UPLOAD_PART_BYTES,
        )
    if params.part > 0 and params.upload_id is None:
        raise InvalidArgumentError(f"part {params.part} needs the upload_id that part 0 was answered with")
    for name in ("artifact_type", "mime_type", "name"):
        word = getattr(params, name)
        if word is not None and (not 1 <= len(word) <= MAX_WORD_CHARS or "\x00" in word):
            raise InvalidArgumentError(f"{name} must have 1 to {MAX_WORD_CHARS} characters and no NUL")
    if params.sha256 is not None and not _SHA256.fullmatch(params.sha256):
        raise InvalidArgumentError("sha256 must be 64 hexadecimal digits")
    if params.expires_in is not None and not 0 < params.expires_in < 1e10:
        raise InvalidArgumentError("expires_in must be a number of seconds above 0")
    _json_size("metadata", params.metadata, MAX_METADATA_BYTES)


def _state(params: StateGetParams | StateSetParams | StateDeleteParams | StateListParams) -> None:
    if params.scope not in STATE_SCOPES:
        raise InvalidArgumentError(
            f"scope is {params.scope!r:.80}: {did_you_mean(params.scope[:80], STATE_SCOPES)}"
        )
    if isinstance(params, StateListParams):
        _prefix(params.prefix)
        return
    state_key_of(params.key)
    if isinstance(params, StateSetParams):
        state_value_of(params.value)


def _storage(params: StorageGetParams | StorageSetParams | StorageDeleteParams) -> None:
    check_key("key", params.key)
    if isinstance(params, StorageSetParams):
        size = base64_size("content_base64", params.content_base64)
        if size > MAX_STORAGE_VALUE_BYTES:
            raise PayloadTooLargeError(
                f"content_base64 decodes to {size:,} bytes; at most {MAX_STORAGE_VALUE_BYTES:,} may be",
                limit_bytes=MAX_STORAGE_VALUE_BYTES,
            )


def _storage_keys(params: StorageKeysParams) -> None:
    _prefix(params.prefix)


def _run_list(params: RunListParams) -> None:
    _listed("statuses", params.statuses)
    for status in params.statuses or ():
        if status not in _STATUSES:
            raise InvalidArgumentError(
                f"statuses holds {status!r:.80}: {did_you_mean(status[:80], _STATUSES)}"
            )


def _run_cancel(params: RunCancelParams) -> None:
    if params.reason is not None and len(params.reason) > MAX_REASON_CHARS:
        raise InvalidArgumentError(
            f"reason has {len(params.reason):,} characters; at most {MAX_REASON_CHARS} may be"
        )


def _run_create(params: RunCreateParams) -> None:
    _json_size("data", params.data, MAX_EVENT_DATA_BYTES)
    if params.wait is not None and not 0 <= params.wait <= MAX_WAIT_SECONDS:
        raise InvalidArgumentError(f"wait is {params.wait}; 0 to {MAX_WAIT_SECONDS:,} seconds are expected")


_CHECKS: dict[type[CallParams], Callable[[Any], None]] = {
    ModelParams: _model,
    CountTokensParams: _model,
    RerankParams: _rerank,
    EmbedParams: _embed,
    RetrieveParams: _retrieve,
    ToolCallParams: _tool_call,
    HistoryPageParams: _history_page,
    HistorySearchParams: _history_search,
    EventPageParams: _event_page,
    SteeringPullParams: _steering,
    ArtifactUploadParams: _upload,
    StateGetParams: _state,
    StateSetParams: _state,
    StateDeleteParams: _state,
    StateListParams: _state,
    StorageGetParams: _storage,
    StorageSetParams: _storage,
    StorageDeleteParams: _storage,
    StorageKeysParams: _storage_keys,
    RunListParams: _run_list,
    RunCancelParams: _run_cancel,
    RunCreateParams: _run_create,
    ScheduleCreateParams: check_request,
    ScheduleDeleteParams: lambda params: check_name(params.name),
}


def _at_least_one(name: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise InvalidArgumentError(f"{name} is {value}; at least 1 is expected")


def _query(name: str, text: str, most: int) -> None:
    if not text.strip():
        raise InvalidArgumentError(f"{name} is empty; at least one word is expected")
    if len(text) > most:
        raise InvalidArgumentError(f"{name} has {len(text):,} characters; at most {most:,} may be")
    if "\x00" in text:
        raise InvalidArgumentError(f"{name} holds a NUL character")


def _listed(name: str, entries: list[str] | None) -> None:
    if entries is None:
        return
    if len(entries) > MAX_LISTED:
        raise InvalidArgumentError(f"{name} has {len(entries):,} entries; at most {MAX_LISTED} may be")
    for entry in entries:
        check_id(f"an entry of {name}", entry)


def _prefix(prefix: str | None) -> None:
    if prefix is not None and (len(prefix) > MAX_KEY_CHARS or "\x00" in prefix):
        raise InvalidArgumentError(f"prefix must have at most {MAX_KEY_CHARS} characters and no NUL")


def _json_size(name: str, value: Any, most: int) -> None:
    check_depth(name, value)
    size = len(msgspec.json.encode(value))
    if size > most:
        raise PayloadTooLargeError(
            f"{name} has {size:,} bytes of JSON; at most {most:,} may be", limit_bytes=most
        )
