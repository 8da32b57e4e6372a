"""Calls about a run's surroundings: its prompt, people, other runs, the host."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler_protocol._base import Strict
from hostler_protocol.calls.params import CallParams
from hostler_protocol.content import ModelMessage
from hostler_protocol.events import Actor, Input
from hostler_protocol.limits import DEFAULT_PAGE_ITEMS, Count, Limits
from hostler_protocol.pausing import FormField, InteractionAction, QuestionKind


class PromptGetParams(CallParams):
    """`prompt.get`."""


class PromptReply(Strict):
    """The binding's effective prompt."""

    prompt: list[ModelMessage]


class InteractionParams(CallParams):
    """`interaction.request`: ask a person a question; the run may be parked until it is answered.

    `expires_in` in seconds, 60 to 2,592,000 (1 minute to 30 days); absent: 1,800. Names of fields, names of
    actions, and the options of a field are unique.
    """

    kind: QuestionKind
    title: str
    description: str | None = None
    fields: list[FormField] = []
    actions: list[InteractionAction] = []
    expires_in: float | None = None
    fallback_text: str | None = None


class RunGetParams(CallParams):
    """`run.get`; without `target_run_id`, the calling run."""

    target_run_id: str | None = None


class RunListParams(CallParams):
    """`run.list`: the runs of this conversation and agent, newest first."""

    statuses: list[str] | None = None
    before_cursor: str | None = None
    limit: Count = DEFAULT_PAGE_ITEMS


class RunEventsParams(CallParams):
    """`run.events`: the entries of a run's journal after position `after`.

    Of a child run of another agent, the data of what it called and read is `{"withheld": true}`.
    """

    target_run_id: str | None = None
    after: Count = 0
    limit: Count = DEFAULT_PAGE_ITEMS


class RunCancelParams(CallParams):
    """`run.cancel`; without `target_run_id`, the calling run."""

    target_run_id: str | None = None
    reason: str | None = None


class RunCreateParams(CallParams):
    """`run.create`: start a child run of the named agent, and wait up to `wait` seconds for its end.

    The `allowed_agents` of the calling run's agent say which agents may be named. The child acts for the
    calling run's actor, in its conversation or in none: any other `actor` or `conversation_id` is refused.
    `input` refers to artifacts that the calling run may read.
    """

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
