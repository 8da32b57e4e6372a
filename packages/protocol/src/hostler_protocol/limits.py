"""Every number of the protocol, with its unit in its name and its reason below it."""

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
"""One result as JSON. Larger content belongs in an artifact."""
MAX_INTEGER = 2**53 - 1
"""The largest count, size or position: the largest integer that every JSON implementation reads exactly."""
MAX_INTEGER_BITS = 64
"""An integer in a runner's value: most languages read no larger one. JavaScript rounds over 53 bits."""
MAX_JSON_DEPTH = 128
"""Nesting of lists and objects. Decoders stop at about 1,000, less when called from deep in a stack."""
MAX_MESSAGE_ID_CHARS = 128
"""A request id that is a string. It is repeated in the answer and kept while the request is open."""
MAX_OPEN_REQUESTS = 1024
"""Open requests of one peer; more are refused as `rate_limited`."""
MAX_OPEN_REQUEST_BYTES = 64 * MIB
"""Parameters of all open requests of one peer: eight of the largest messages, or eleven upload parts."""
MAX_UNSENT_ANSWER_BYTES = 1 * MIB
"""Refusals made by the link itself that wait to be sent; over this the connection is broken."""
MAX_REASON_CHARS = 500
"""Text of a warning or refusal made by the link, which may quote the peer's message."""
MAX_MISSING_SEQUENCES = 1024
"""Skipped sequence numbers remembered per run, to tell a late result from a repeated one."""
REMEMBERED_ENDED_RUNS = 4096
"""Ended runs remembered per connection: their late messages are ignored, not counted as foreign."""
MAX_OVERSIZED_TOKENS = 100_000
"""JSON tokens read of a message too large to parse, to find its id and run: 0.1 s of one core."""
REMEMBERED_GIVEN_UP = 4096
"""Given-up requests remembered per connection: their late answers are dropped without a warning."""
MAX_TOOL_ARGUMENT_BYTES = 64 * KIB
"""The parameters of one tool call as JSON: a person may have to read and approve them."""
MAX_TOOL_RESULT_BYTES = 8 * MIB
"""The result of one tool call as JSON, unless the tool's configuration sets another limit. Over
`MAX_RESULT_BYTES` it becomes an artifact. The result of a plugin's tool must fit into one message."""
MAX_TOOL_NAME_CHARS = 64
"""A tool's name without its plugin's: both together still fit a model service's function names."""
MAX_CALLER_TOOLS = 128
"""`input.tools` of one event, and of one turn: as many as common model services take in a request."""
MAX_CALLER_TOOL_BYTES = 64 * KIB
"""One of them as JSON, its schema included: models get it with every request."""
MAX_CALLER_TOOLS_BYTES = 256 * KIB
"""All of them as JSON. They are stored with each run that gets them."""
MAX_CALLER_TOOL_DESCRIPTION_CHARS = 8_000
"""The description of one of them; people who are asked about a call see it, too."""
INITIAL_RESULT_CREDIT = 64
"""Results a runner may send before the host's first `run/credit`."""
MAX_ANSWERS_AHEAD = 1024
"""Answers sent ahead of their calls that no call has taken yet, per run: so far a runner may be ahead of its
host's checks."""
MAX_ANSWERS_AHEAD_BYTES = 256 * KIB
"""The bytes of these answers, as JSON. A larger answer is not sent ahead."""
MAX_REASONING_CHARS = 64 * KIB
"""`reasoning` of one message or piece: what a person would read of a model's thinking. With a long answer it
still fits into one result."""
MAX_LOG_CHARS = 64 * KIB
"""Text of one `log` result."""
MAX_PAGE_ITEMS = 100
"""Items of one page; a larger `limit` is capped, not refused."""
DEFAULT_PAGE_ITEMS = 50
"""Items of one page where the call names no `limit`."""
MAX_PAGE_BYTES = 4 * MIB
"""Size of one page: a longer one is cut here, with `has_more`, so that it fits into one message."""
MAX_STATE_VALUE_BYTES = 256 * KIB
"""One state value as JSON: state is for facts and checkpoints, not for documents."""
MAX_KEY_CHARS = 255
"""A state or storage key: it fits the index of every database."""
MAX_STORAGE_VALUE_BYTES = 4 * MIB
"""One plugin or workspace storage value; as base64 it still fits into one message."""
MAX_INLINE_ARTIFACT_BYTES = 1 * MIB
"""`artifact.created.content_base64`, decoded."""
DEFAULT_ARTIFACT_READ_BYTES = 1 * MIB
"""One range of `artifact.read` or `file.get` where the call names no `limit`."""
MAX_ARTIFACT_READ_BYTES = 4 * MIB
"""One range of `artifact.read`; as base64 it still fits into one message."""
MAX_UPLOAD_PART_BYTES = 4 * MIB
"""One part of `artifact.upload`, decoded; as base64 it still fits into one message."""
MAX_UPLOAD_BYTES = 1024 * MIB
"""One uploaded artifact, all parts together."""
MAX_RERANK_DOCUMENTS = 64
"""Documents of one `model.rerank`: as many as common rerank services accept."""
MAX_EMBED_INPUTS = 64
"""Inputs of one `model.embed`: their vectors of up to 4,096 numbers fit into one message as JSON."""
MAX_EMBED_DIMENSIONS = 4_096
"""The length of one vector of `model.embed`: embedding models give 384 to 4,096 numbers."""
MAX_INPUT_TEXT_BYTES = 1 * MIB
"""The text of one event, all its text elements together."""
MAX_INLINE_BASE64_BYTES = 1 * MIB
"""Inline base64 of one event, all its elements together."""
INLINE_BASE64_TO_ARTIFACT_BYTES = 256 * KIB
"""A base64 element over this becomes an artifact before the run starts."""
MAX_TRANSCRIPT_CONTENT_CHARS = 4_000
"""`TranscriptItem.content`; `content_json` holds the whole message."""
MAX_INPUT_SUMMARY_CHARS = 1_000
"""`AgentEventRecord.input_summary`: enough to recognise an event in a list."""
MAX_PENDING_CALLS = 64
"""Calls of one pause: more than a person would decide at once."""
MAX_SEARCH_QUERY_CHARS = 1_000
"""The query of `history.search`: words to find, not a document to compare with."""
DEFAULT_TIMEOUT_SECONDS = 300
"""Deadline of a run whose configuration sets none."""
CANCEL_GRACE_SECONDS = 5
"""Time a runner has to clean up after `run/cancel`, before its attempt is fenced."""
LEAVE_SECONDS = CANCEL_GRACE_SECONDS + 2
"""Time a process has to send `run/end` for a run that the host ended. After it, the process is replaced if
the run is to be started there again, and ended if its host lost its lease."""
HOLD_SECONDS = 20
"""Time a call waits for a person before its run is parked."""
DEFAULT_EXPIRY_SECONDS = 1800
"""Time people have to decide on a call, unless the call or the tool's policy sets another."""
MIN_EXPIRY_SECONDS = 60
"""The smallest `expires_in`: a person needs at least that to react."""
MAX_EXPIRY_SECONDS = 30 * 86_400
"""The largest `expires_in`: an older request is likely to be obsolete."""

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_INTEGER)]
"""A whole number from 0 to MAX_INTEGER: a size, a position or a count."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits that the host states in `initialize` and the plugin keeps.

    Unknown keys are ignored, as in every value of `initialize`.
    """

    max_message_bytes: Annotated[int, msgspec.Meta(ge=1, le=MAX_INTEGER)] = MAX_MESSAGE_BYTES
    max_result_bytes: Annotated[int, msgspec.Meta(ge=1, le=MAX_INTEGER)] = MAX_RESULT_BYTES
