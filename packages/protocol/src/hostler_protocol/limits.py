"""Every number of the protocol: its unit is in its name, its reason beside it."""

from __future__ import annotations

from typing import Annotated

import msgspec

KIB = 1024
MIB = 1024 * 1024

PROTOCOL_VERSION = 1
"""The version this package speaks, and the only one so far."""
MAX_MESSAGE_BYTES = 8 * MIB
"""One JSON-RPC message. Holds a 4 MiB artifact range in base64 (5.6 MiB) with room to spare."""
MAX_RESULT_BYTES = 1 * MIB
"""One result as JSON. Larger content belongs into an artifact."""
MAX_INTEGER = 2**53 - 1
"""The largest count, size or position: what every JSON implementation reads exactly."""
MAX_INTEGER_BITS = 64
"""Of an integer in a value of a runner: most languages read no larger one. JavaScript rounds over 53 bits."""
MAX_JSON_DEPTH = 128
"""Lists and objects inside one another. Decoders stop at some 1,000, less the deeper they are called from."""
MAX_MESSAGE_ID_CHARS = 128
"""A request id that is text. It is repeated in answers and kept while the request is open."""
MAX_OPEN_REQUESTS = 1024
"""Requests of one peer that may wait for their answer at once; more are refused as `rate_limited`."""
MAX_OPEN_REQUEST_BYTES = 64 * MIB
"""Parameters of those requests together: eight of the largest messages, or eleven upload parts."""
MAX_UNSENT_ANSWER_BYTES = 1 * MIB
"""Answers the link made by itself and nobody has sent; over it the connection is broken."""
MAX_REASON_CHARS = 500
"""Text of a warning or refusal the link writes, since it may quote what the peer sent."""
MAX_MISSING_SEQUENCES = 1024
"""Numbers skipped by a runner that are remembered, to tell a late result from a repeated one."""
REMEMBERED_ENDED_RUNS = 4096
"""Ended runs whose late messages are ignored instead of being counted as foreign."""
MAX_OVERSIZED_TOKENS = 100_000
"""JSON tokens read of a message too large to parse, to find out whose it is: 0.1 s of one core."""
REMEMBERED_GIVEN_UP = 4096
"""Requests that were given up, whose late answers are dropped without a word."""
MAX_TOOL_ARGUMENT_BYTES = 64 * KIB
"""The parameters of one tool call as JSON: what a person can still be asked to approve."""
MAX_TOOL_RESULT_BYTES = 8 * MIB
"""The result of one tool call as JSON, whatever tool it is, unless the tool's configuration says otherwise.
Over `MAX_RESULT_BYTES` it becomes an artifact. A plugin's has to fit into one message with its envelope."""
MAX_TOOL_NAME_CHARS = 64
"""A tool's own name: with its plugin's it still fits what model services take as a function's name."""
INITIAL_RESULT_CREDIT = 64
"""Results a runner may send before the host's first `run/credit`."""
MAX_LOG_CHARS = 64 * KIB
"""Text of one `log` result."""
MAX_PAGE_ITEMS = 100
"""Items of one page; a larger `limit` is capped, not refused."""
DEFAULT_PAGE_ITEMS = 50
"""Items of one page where the call names no `limit`."""
MAX_PAGE_BYTES = 4 * MIB
"""A page stops here and says `has_more`, so that it always fits into one message."""
MAX_STATE_VALUE_BYTES = 256 * KIB
"""One state value as JSON: state is for facts and checkpoints, not for documents."""
MAX_KEY_CHARS = 255
"""A state or storage key: fits every database's index."""
MAX_STORAGE_VALUE_BYTES = 4 * MIB
"""One plugin or workspace storage value; as base64 it still fits into one message."""
MAX_INLINE_ARTIFACT_BYTES = 1 * MIB
"""What `artifact.created.content_base64` may decode to."""
DEFAULT_ARTIFACT_READ_BYTES = 1 * MIB
"""One range of `artifact.read` or `file.get` where the call names no `limit`."""
MAX_ARTIFACT_READ_BYTES = 4 * MIB
"""One range of `artifact.read`; as base64 it still fits into one message."""
MAX_UPLOAD_PART_BYTES = 4 * MIB
"""One part of `artifact.upload`, decoded; as base64 it still fits into one message."""
MAX_UPLOAD_BYTES = 1024 * MIB
"""One uploaded artifact in all."""
MAX_RERANK_DOCUMENTS = 64
"""Documents of one `model.rerank`: what common rerank services take at once."""
MAX_INPUT_TEXT_BYTES = 1 * MIB
"""The text of one event, all its text elements together."""
MAX_INLINE_BASE64_BYTES = 1 * MIB
"""Inline base64 of one event, all its elements together."""
INLINE_BASE64_TO_ARTIFACT_BYTES = 256 * KIB
"""A base64 element over this becomes an artifact before the run starts."""
MAX_TRANSCRIPT_CONTENT_CHARS = 4_000
"""`TranscriptItem.content`; the whole message stands in `content_json`."""
MAX_INPUT_SUMMARY_CHARS = 1_000
"""`AgentEventRecord.input_summary`: enough to recognise an event in a list."""
MAX_PENDING_CALLS = 64
"""Calls of one pause: more than a person would decide together."""
MAX_SEARCH_QUERY_CHARS = 1_000
"""The query of `history.search`: words to find, not a document to compare."""
DEFAULT_TIMEOUT_SECONDS = 300
"""Deadline of a run whose configuration names none."""
CANCEL_GRACE_SECONDS = 5
"""From `run/cancel` to the fence."""
LEAVE_SECONDS = CANCEL_GRACE_SECONDS + 2
"""How long a process may go without `run/end` of a run that the host ended; then it is replaced where that
run is to be started there again, or ended where its host lost its lease."""
HOLD_SECONDS = 20
"""How long a call that waits for a person is held before its run is parked."""
DEFAULT_EXPIRY_SECONDS = 1800
"""How long people have to decide on a call where nobody says otherwise."""
MIN_EXPIRY_SECONDS = 60
"""The smallest `expires_in`: less time than that is none for a person."""
MAX_EXPIRY_SECONDS = 30 * 86_400
"""The largest `expires_in`: after longer than that, what was asked is no longer what is wanted."""

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_INTEGER)]
"""A whole number from 0 to MAX_INTEGER: a size, a position or a number of things."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What the host tells a plugin in `initialize`; the plugin may rely on nothing larger.

    Unknown keys are ignored, as in every value of `initialize`.
    """

    max_message_bytes: Annotated[int, msgspec.Meta(ge=1, le=MAX_INTEGER)] = MAX_MESSAGE_BYTES
    max_result_bytes: Annotated[int, msgspec.Meta(ge=1, le=MAX_INTEGER)] = MAX_RESULT_BYTES
