"""The arguments that every Host API call gets, and its effect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

import msgspec

from hostler.calls.cursors import Cursors
from hostler.domain.action_decisions import ChannelActions
from hostler.domain.allowances import Allowance
from hostler.domain.events import Event
from hostler.domain.grants import Grant
from hostler.domain.model_entries import ModelEntry
from hostler.domain.outcomes import Uploaded
from hostler.domain.quotas import Allotment, Holder, quotas_of
from hostler.domain.record import Record
from hostler.models.port import MayRepeat, ModelProvider
from hostler.storage.port import Database, Tx
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.registered_files import RegisteredFiles
from hostler.tools.knowledge.port import KnowledgeService
from hostler.tools.port import ToolService
from hostler.tools.schedules import RunSchedules
from hostler_protocol.calls import HostInfo, RunCreateParams
from hostler_protocol.content import ModelMessage, Usage
from hostler_protocol.errors import DeadlineExceededError, HostlerError
from hostler_protocol.runs import RunRecord


class Effect(Record):
    """The change that a call makes, in the transaction that writes its journal entry.

    `work` returns the reply, or, as a value, the refusal: then it wrote nothing but audit facts. It may be
    run twice, so it has no side effect outside `tx`. `then` runs after the commit and turns the reply into
    what is answered.
    """

    work: Callable[[Tx], Any]
    then: Callable[[Any], Awaitable[Any]] | None = None
    settled: Callable[[Any, HostlerError | None], None] | None = None
    """Called with the outcome, (reply, None) or (None, error), even if the call was given up."""
    child: Callable[[Any], str | None] | None = None
    """Returns the id of the run that `then` waits for, so that a later attempt can wait for it again."""
    refused: Callable[[HostlerError], Awaitable[object]] | None = None
    """Awaited after the commit of a refusal: it clears up what was made ready for `work`."""


class Charged(NamedTuple):
    """A reply of a model, and what it cost; None: unknown."""

    reply: Any
    cost: Decimal | None


Reply = Any
"""A struct of `CALLS[method].reply`, ready to be encoded."""
CallFunction = Callable[["CallScope", Any], Awaitable[Reply | Effect | Charged]]
StreamFunction = Callable[["CallScope", Any], AsyncGenerator[Any, None]]
"""Yields chunks of `CALLS[method].chunk`, then the reply as `Charged`, last and once. Close it to stop."""


class PricedModel(Protocol):
    """One model: who answers for it, and what its use costs."""

    @property
    def provider(self) -> ModelProvider:
        """The service behind it."""
        ...

    @property
    def entry(self) -> ModelEntry:
        """Its configuration."""
        ...

    @property
    def context_window(self) -> int | None:
        """The most tokens of a request and its answer; None: unknown."""
        ...

    def cost(self, usage: Usage | None) -> Decimal | None:
        """Return the cost of this usage, or None if the model has no price."""
        ...


class ModelService(Protocol):
    """The models that grants name: `models.catalog.ModelCatalog` is one."""

    def get(self, model_id: str) -> PricedModel:
        """The model. NotFoundError where it is gone since the grant was built."""
        ...


class ActionChannels(Protocol):
    """Knows what the channels of workspaces can do: `tools.platform.PlatformTools` is one."""

    def channels(self, workspace_id: str) -> Mapping[str, ChannelActions]:
        """Return what the channels of a workspace can do, by name."""
        ...


class RunControl(Protocol):
    """Operations on runs that need the orchestrator. The caller has checked that the runs are in reach."""

    async def record(self, workspace_id: str, run_id: str) -> RunRecord:
        """The run as clients see it."""
        ...

    def cancel(self, workspace_id: str, run_id: str, reason: str, actor: str) -> Effect:
        """Ask for the run's end; the reply is its RunRecord. An ended run stays as it is."""
        ...

    async def create(self, parent: CallScope, params: RunCreateParams) -> Effect | HostlerError:
        """A child run; the reply is its RunRecord. Deadline and budget are the parent's, and it ends with it.

        `params.wait` is served by the effect's `then`.
        """
        ...

    async def rejoin(self, parent: CallScope, run_id: str, params: RunCreateParams) -> RunRecord:
        """The child run that an earlier attempt opened by the same call; waits as `params` say."""
        ...


class Services(Record):
    """The services that calls use; the same for all runs of a host.

    `tools`, `knowledge`, `registered` (files in place) and `schedules` are None on a host that has none:
    grants are empty then, and nothing arrives. `clock` gives UTC epoch seconds. `allowance_of` returns what a
    workspace may use and keep stored, as of now.
    """

    db: Database
    blobs: BlobFolder
    cursors: Cursors
    models: ModelService
    runs: RunControl
    info: HostInfo
    clock: Callable[[], float]
    tools: ToolService | None = None
    actions: ActionChannels | None = None
    knowledge: KnowledgeService | None = None
    registered: RegisteredFiles | None = None
    schedules: RunSchedules | None = None
    allowance_of: Callable[[str], Allowance] = lambda workspace_id: Allowance(workspace_id, None, own=True)


class Meter(Protocol):
    """Counts what a run uses: `runs.attempt_parts.RunMeter` is one."""

    def add(self, usage: Usage | None, cost: Decimal | None) -> None:
        """Count one model call."""
        ...


class CallScope(Record):
    """One attempt of one run, as its calls see it. The gate has let the call through before.

    `history_before` is the transcript sequence that the run's history ends before: that of its own triggering
    item, else the next one at its start. `event_seq` is its event's. `prompt` is the binding's effective
    prompt. `uploads` is shared with the run's result stream, which lets the runner announce what it uploaded.
    """

    run_id: str
    attempt: int
    grant: Grant
    event: Event
    services: Services
    meter: Meter
    history_before: int
    event_seq: int
    deadline_at: float | None = None
    prompt: tuple[ModelMessage, ...] = ()
    uploads: dict[str, Uploaded] = msgspec.field(default_factory=dict)
    effects: bool = True
    """Whether the run may change what is outside of it: a fork may not, unless it was asked for."""
    may_repeat: MayRepeat | None = None
    """Of one call of a model: asked before its request is made again, which may cost as much again."""

    @property
    def workspace_id(self) -> str:
        """The workspace of the run."""
        return self.grant.workspace_id

    @property
    def allowance(self) -> Allowance:
        """What the workspace may use now, which may be less than when the grant was built."""
        return self.services.allowance_of(self.workspace_id)

    @property
    def allotment(self) -> Allotment:
        """How much the run may store: by the policy that it began with, and by its workspace's as of now."""
        bounds = quotas_of(self.allowance.quota, self.grant.quota)
        return Allotment(Holder(self.grant.agent_id, self.run_id), bounds)

    @asynccontextmanager
    async def within_deadline(self) -> AsyncIterator[None]:
        """Raise DeadlineExceededError at the run's deadline."""
        delay = None if self.deadline_at is None else max(0.0, self.deadline_at - self.services.clock())
        try:
            async with asyncio.timeout(delay) as scope:
                yield
        except TimeoutError:
            if not scope.expired():
                raise
            raise DeadlineExceededError("the run's deadline is over") from None
