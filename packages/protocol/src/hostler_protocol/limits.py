"""Every number of the protocol: its unit is in its name, its reason beside it."""

from __future__ import annotations

from hostler_protocol._base import Lenient

KIB = 1024
MIB = 1024 * 1024

PROTOCOL_VERSION = 1
MAX_MESSAGE_BYTES = 8 * MIB
"""One JSON-RPC message. Holds a 4 MiB artifact range in base64 (5.6 MiB) with room to spare."""
MAX_RESULT_BYTES = 1 * MIB
"""One result as JSON. Larger content belongs into an artifact."""
OVERSIZE_HEAD_BYTES = 64 * KIB
"""What is kept of an oversized message, to find out which run or request to refuse."""
INITIAL_RESULT_CREDIT = 64
"""Results a runner may send before the host's first `run/credit`."""
MAX_LOG_CHARS = 64 * KIB
"""Text of one `log` result."""
MAX_PAGE_ITEMS = 100
"""Items of one page; a larger `limit` is capped, not refused."""
DEFAULT_PAGE_ITEMS = 50
MAX_PAGE_BYTES = 4 * MIB
"""A page stops here and says `has_more`, so that it always fits into one message."""
MAX_STATE_VALUE_BYTES = 256 * KIB
"""One state value as JSON."""
MAX_KEY_CHARS = 255
"""A state or storage key."""
MAX_STORAGE_VALUE_BYTES = 4 * MIB
"""One plugin or workspace storage value."""
MAX_INLINE_ARTIFACT_BYTES = 1 * MIB
"""What `artifact.created.content_base64` may decode to."""
DEFAULT_ARTIFACT_READ_BYTES = 1 * MIB
MAX_ARTIFACT_READ_BYTES = 4 * MIB
"""One range of `artifact.read`; as base64 it still fits into one message."""
MAX_UPLOAD_PART_BYTES = 4 * MIB
"""One part of `artifact.upload`, decoded."""
MAX_UPLOAD_BYTES = 1024 * MIB
"""One uploaded artifact in all."""
MAX_RERANK_DOCUMENTS = 64
MAX_INPUT_TEXT_BYTES = 1 * MIB
"""The text of one event, all its text elements together."""
MAX_INLINE_BASE64_BYTES = 1 * MIB
"""Inline base64 of one event, all its elements together."""
INLINE_BASE64_TO_ARTIFACT_BYTES = 256 * KIB
"""A base64 element over this becomes an artifact before the run starts."""
MAX_TRANSCRIPT_CONTENT_CHARS = 4_000
"""`TranscriptItem.content`; the whole message stands in `content_json`."""
MAX_INPUT_SUMMARY_CHARS = 1_000
MAX_PENDING_CALLS = 64
"""Calls of one pause."""
MAX_SEARCH_QUERY_CHARS = 1_000
DEFAULT_TIMEOUT_SECONDS = 300
"""Deadline of a run whose configuration names none."""
CANCEL_GRACE_SECONDS = 5
"""From `run/cancel` to the fence."""
HOLD_SECONDS = 20
"""How long a call that waits for a person is held before its run is parked."""


class Limits(Lenient):
    """What the host tells a plugin in `initialize`; the plugin may rely on nothing larger."""

    max_message_bytes: int = MAX_MESSAGE_BYTES
    max_result_bytes: int = MAX_RESULT_BYTES
