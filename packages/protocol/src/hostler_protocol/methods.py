"""The methods of the protocol: their sender, parameters and reply.

The types of Host API calls (`host/<call>`) are in calls/.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

import msgspec

from hostler_protocol._base import Lenient
from hostler_protocol.calls import CALLS
from hostler_protocol.channels import (
    ChannelActed,
    ChannelActParams,
    ChannelCloseParams,
    ChannelEditParams,
    ChannelFindParams,
    ChannelFound,
    ChannelList,
    ChannelOpenParams,
    ChannelRequestParams,
    ChannelResponse,
    ChannelSendParams,
    ChannelSent,
    IngestCheckParams,
    IngestCheckReply,
    IngestEventParams,
    IngestEventReply,
    IngestFileParams,
    IngestFileReply,
    IngestHealthNote,
    IngestReadParams,
    IngestReadReply,
    IngestStateParams,
)
from hostler_protocol.events import AgentRunContext
from hostler_protocol.ids import PluginIdentity
from hostler_protocol.limits import INITIAL_RESULT_CREDIT, MAX_INTEGER, Count, Limits
from hostler_protocol.manifest import RunnerList, ToolList
from hostler_protocol.results import AgentRunResult
from hostler_protocol.tools import ToolCancelNote, ToolFound, ToolInvokeParams, ToolLookupParams, ToolOutcome


class Side(Enum):
    """The two ends of a link."""

    HOST = "host"
    PLUGIN = "plugin"

    __hash__ = object.__hash__  # looked up with every message: Enum's own is a Python function

    @property
    def peer(self) -> Side:
        """The other end."""
        return Side.PLUGIN if self is Side.HOST else Side.HOST


class VersionRange(Lenient):
    """Protocol versions that the host speaks, from `min` to `max` inclusive."""

    min: Count
    max: Count

    def __contains__(self, version: int) -> bool:
        return self.min <= version <= self.max

    def __str__(self) -> str:
        return f"{self.min} to {self.max}"


class HostIdentity(Lenient):
    """Name and version of the host."""

    name: str
    version: str


class InitializeParams(Lenient):
    """`initialize`. `reasoning`: whether the host takes `reasoning` of messages; others refuse the field."""

    protocol: VersionRange
    host: HostIdentity
    limits: Limits = Limits()
    reasoning: bool = False


class InitializeReply(Lenient):
    """The version that the plugin chose from the range, and its identity.

    `tools`: whether it offers tools. The host sends `tools/list` only if it does. `ahead`: whether it takes
    answers ahead of their calls. The host sends `run/ahead` only if it does. `channels`: whether it offers
    channels. The host sends `channels/list` and `channel/*` only if it does.
    """

    protocol: Count
    plugin: PluginIdentity
    tools: bool = False
    ahead: bool = False
    channels: bool = False


class NoParams(Lenient):
    """`{}`; unknown keys are ignored."""


class RunStartParams(Lenient):
    """`run/start`: answered at once; results follow as notifications, at first `credit` of them."""

    runner_id: str
    runner_name: str
    context: AgentRunContext
    credit: Count = INITIAL_RESULT_CREDIT


class RunCancelNote(Lenient):
    """`run/cancel`."""

    run_id: str
    reason: str = "cancelled"


class RunCreditNote(Lenient):
    """`run/credit`: the number of further results that the runner may send."""

    run_id: str
    results: Annotated[int, msgspec.Meta(ge=1, le=MAX_INTEGER)]


class RunParkNote(Lenient):
    """`run/park`: the run waits for a person; this attempt is fenced."""

    run_id: str


class AnswerAhead(Lenient):
    """The answer to a Host API call that the runner has not made yet. `method` without `host/`.

    `digest`: the SHA-256, as 64 hexadecimal digits, of the canonical JSON of the call's parameters, defaults
    included, without `run_id`, `alone`, `tool_call_id` and `upload_id`.
    """

    method: str
    digest: str
    result: msgspec.Raw


class RunAheadNote(Lenient):
    """`run/ahead`: the answers to the next calls of a run, in the order in which it has to make them.

    They follow those sent ahead before. `requests`: the number of the attempt's calls with an id that the
    host had seen. If the plugin has sent another one since, these answers are void.
    """

    run_id: str
    requests: Count
    answers: list[AnswerAhead]


class StreamNote(Lenient):
    """`host/stream`: one piece of a streaming call's answer. `id` of the request; `index` counts from 0."""

    id: int | str
    index: Count
    chunk: msgspec.Raw


class RunEndNote(Lenient):
    """`run/end`: the runner finished, or did not stop in time after its cancellation. No result follows."""

    run_id: str


class CallCancelNote(Lenient):
    """`host/cancel`: the runner no longer waits for the answer to the request with this id."""

    id: int | str


@dataclass(frozen=True, slots=True)
class Method:
    """One method: its sender, the type of its parameters and, if it is a request, of its reply."""

    name: str
    sender: Side
    params: Any
    reply: Any = None
    """None: a notification."""

    @property
    def is_request(self) -> bool:
        """Whether the receiver answers the method."""
        return self.reply is not None


_LINK_METHODS = (
    Method("initialize", Side.HOST, InitializeParams, InitializeReply),
    Method("runners/list", Side.HOST, NoParams, RunnerList),
    Method("tools/list", Side.HOST, NoParams, ToolList),
    Method("run/start", Side.HOST, RunStartParams, NoParams),
    Method("run/cancel", Side.HOST, RunCancelNote),
    Method("run/credit", Side.HOST, RunCreditNote),
    Method("run/park", Side.HOST, RunParkNote),
    Method("run/ahead", Side.HOST, RunAheadNote),
    Method("host/stream", Side.HOST, StreamNote),
    Method("tool/call", Side.HOST, ToolInvokeParams, ToolOutcome),
    Method("tool/lookup", Side.HOST, ToolLookupParams, ToolFound),
    Method("tool/cancel", Side.HOST, ToolCancelNote),
    Method("channels/list", Side.HOST, NoParams, ChannelList),
    Method("channel/open", Side.HOST, ChannelOpenParams, NoParams),
    Method("channel/close", Side.HOST, ChannelCloseParams, NoParams),
    Method("channel/send", Side.HOST, ChannelSendParams, ChannelSent),
    Method("channel/find", Side.HOST, ChannelFindParams, ChannelFound),
    Method("channel/edit", Side.HOST, ChannelEditParams, NoParams),
    Method("channel/act", Side.HOST, ChannelActParams, ChannelActed),
    Method("channel/request", Side.HOST, ChannelRequestParams, ChannelResponse),
    Method("ping", Side.HOST, NoParams, NoParams),
    Method("shutdown", Side.HOST, NoParams, NoParams),
    Method("run/result", Side.PLUGIN, AgentRunResult),
    Method("run/end", Side.PLUGIN, RunEndNote),
    Method("host/cancel", Side.PLUGIN, CallCancelNote),
    Method("ingest/event", Side.PLUGIN, IngestEventParams, IngestEventReply),
    Method("ingest/check", Side.PLUGIN, IngestCheckParams, IngestCheckReply),
    Method("ingest/state", Side.PLUGIN, IngestStateParams, NoParams),
    Method("ingest/file", Side.PLUGIN, IngestFileParams, IngestFileReply),
    Method("ingest/read", Side.PLUGIN, IngestReadParams, IngestReadReply),
    Method("ingest/health", Side.PLUGIN, IngestHealthNote),
)

METHODS: dict[str, Method] = {method.name: method for method in _LINK_METHODS} | {
    f"host/{call.method}": Method(f"host/{call.method}", Side.PLUGIN, call.params, call.reply)
    for call in CALLS.values()
}
"""Every method of the protocol by its wire name."""
