"""Accept events, cancel runs: what changes the facts from outside a run.

`accept` stores an event, its transcript item and its run in one transaction, once per event. What the run
then does is attempt.py; which runs go on when is dispatch.py.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from hostler.domain.agents import Agent
from hostler.domain.bindings import (
    Ambiguous,
    Binding,
    DisabledAgent,
    Resolution,
    Undecided,
    UnknownAgent,
    Unrouted,
)
from hostler.domain.caller_history import with_history
from hostler.domain.caller_tools import refusal
from hostler.domain.channels import channel_of_subject
from hostler.domain.events import Caller, Event
from hostler.domain.grants import own_tools
from hostler.domain.ingest import InlineContent, event_of
from hostler.domain.lanes import lane_of
from hostler.domain.place import Place
from hostler.domain.quotas import (
    Allotment,
    Amounts,
    QuotaExceeded,
    Quotas,
    WorkspaceQuota,
    quotas_of,
)
from hostler.journal.feed import Feed
from hostler.runs.admission import Opened, Opening, gathers, open_deferred, open_event
from hostler.runs.dispatch import Dispatcher, Reservation
from hostler.runs.event_messages import history_items, message_item
from hostler.runs.narrow_events import check_files, check_said
from hostler.runs.routing import EventRouter
from hostler.runs.snapshot import Offer, look_ahead
from hostler.storage.port import Database, Tx
from hostler.storage.stores import blobs, events, quotas, runs
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.run_endings import RequestedEnd, request_cancel
from hostler.storage.stores.run_rows import NewRun
from hostler.storage.stores.transcripts import NewTranscriptItem
from hostler.tools.caller_tools import check_schemas
from hostler_protocol._base import Strict
from hostler_protocol.content import HistoryMessage
from hostler_protocol.errors import CallerError, ConflictError, HostlerError, UnavailableError
from hostler_protocol.events import EventEnvelope
from hostler_protocol.ids import new_id
from hostler_protocol.runs import RunStatus

T = TypeVar("T")
log = logging.getLogger(__name__)


class RunBrief(Strict):
    """A run's id and status."""

    run_id: str
    status: RunStatus


class Accepted(Strict):
    """The outcome of an event. `duplicate`: it was delivered before; the rest repeats the first answer."""

    event_id: str
    duplicate: bool
    outcome: str
    run: RunBrief | None


class Pending(msgspec.Struct, frozen=True):
    """An event that is about to be stored."""

    work: Callable[[Tx], Any]
    """The work of one transaction; it may run again if that is rolled back."""
    started: Callable[[Any], None]
    """Starts the run after the commit, given the result of `work`."""
    give_up: Callable[[], None]
    """Releases what was reserved, if the transaction failed."""
    answer: Callable[[Any], Awaitable[Accepted]]
    """Returns the outcome of the event, given the result of `work`."""
    lane: str | None = None
    """The lane that the run may have to wait for; None if it waits for none."""


class Orchestrator:
    """Accepts events and cancels runs."""

    def __init__(
        self,
        db: Database,
        blob_folder: BlobFolder,
        event_router: EventRouter,
        dispatcher: Dispatcher,
        feed: Feed,
        *,
        can_steer: Callable[[str], bool] = lambda _: False,
        offer: Callable[[NewRun], Offer | None] = lambda _: None,
        on_deferred: Callable[[], None] = lambda: None,
        quota_of: Callable[[str], WorkspaceQuota] = lambda _: WorkspaceQuota(),
    ) -> None:
        """`can_steer` returns whether the runner with an id pulls steered messages. `offer` returns what the
        grant of a run is built from, if its plugin is ready to start it. `on_deferred` is called after an
        event was stored whose agent is not known yet. `quota_of` returns how much a workspace may keep
        stored.
        """
        self._db = db
        self._feed = feed
        self._blobs = blob_folder
        self._event_router = event_router
        self._dispatcher = dispatcher
        self._can_steer = can_steer
        self._offer = offer
        self.accepting = False
        self.on_front_end: Callable[[EventEnvelope, Caller], None] = lambda _envelope, _caller: None
        """Called with each message of a front-end token before it is taken; what it raises refuses it."""
        self._on_deferred = on_deferred
        self._quota_of = quota_of
        self._under_way: set[asyncio.Task[Any]] = set()

    # -- accept -----------------------------------------------------------------------------------

    async def accept(
        self,
        envelope: EventEnvelope,
        caller: Caller,
        *,
        delay: float | None = None,
        history: Sequence[HistoryMessage] = (),
        with_it: Callable[[Tx], object] = lambda _: None,
    ) -> Accepted:
        """Store an event and open its run; a repeated event gets the answer of the first.

        `delay`: seconds before the run may begin. `history`: messages that the sender kept itself; they go
        before the event's in its conversation, which must be a new one. With an event that is known they are
        not stored again; others than the first time are a conflict. `with_it`: done in the transaction that
        stores a new event; what it raises leaves the event unstored.

        Raises CallerError if the event is wrong, ConflictError if another body has this id or two agents
        match equally, UnavailableError while the host stops.
        """
        pending = await self.prepare(envelope, caller, delay=delay, history=history)

        def work(tx: Tx) -> Opened:
            opened: Opened = pending.work(tx)
            if opened.duplicate is None and opened.refused is None:
                with_it(tx)
            return opened

        return await pending.answer(await self.store(msgspec.structs.replace(pending, work=work)))

    async def store(self, pending: Pending) -> Any:
        """Store the event and start its run, also if the caller is cancelled meanwhile.

        Return the result of `pending.work`.
        """

        def late(opened: Any, error: BaseException | None) -> None:
            if error is None:
                pending.started(opened)
            else:
                pending.give_up()

        try:
            opened = await self._db.write(pending.work, late=late)
        except asyncio.CancelledError:
            raise
        except BaseException:
            pending.give_up()
            raise
        pending.started(opened)
        await asyncio.sleep(0)  # the attempt goes first: its plugin works while the answer is made
        return opened

    async def _to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Finish the work although its caller is cancelled: what is stored must be acted upon."""
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_noted)
            raise

    async def prepare(
        self,
        envelope: EventEnvelope,
        caller: Caller,
        *,
        parent_run_id: str | None = None,
        deadline_at: int | None = None,
        delay: float | None = None,
        history: Sequence[HistoryMessage] = (),
        binding: Binding | None = None,
    ) -> Pending:
        """Do everything before the transaction: run `work` in one, then call `started` or `give_up`.

        `binding`: the agent version that receives the event; None: the one that the event is for.
        """
        if not self.accepting:
            raise UnavailableError("the host takes no events now: it is starting or stopping; try again")
        event, inline = event_of(envelope, caller, int(time.time() * 1000))
        event, inline, earlier = with_history(event, inline, history)
        if caller.scope is not None:
            check_said(delayed=bool(delay), has_history=bool(earlier))
            self.on_front_end(envelope, caller)
            await check_files(self._db, event, caller.scope, inline)
        resolution = await self._event_router.resolve(event) if binding is None else binding
        if isinstance(resolution, UnknownAgent | DisabledAgent):
            if channel_of_subject(event.requester) is None:
                return await self._refused(event, resolution.error())
            # a platform delivers what was said once: it is kept, although no agent can answer it
            resolution = Unrouted(reason=resolution.error().message)
        not_before = None if not delay else event.created_at + int(delay * 1000)
        run = None
        if isinstance(resolution, Binding):
            run = _new_run(event, resolution, parent_run_id, deadline_at, not_before)
            if (refused := self._tools_refused(event, resolution.agent, run)) is not None:
                return await self._refused(event, refused)
            await self._dispatcher.check_room()
        await check_schemas(event.envelope.input.tools)
        bounds = quotas_of(self._quota_of(event.workspace_id))
        if inline:
            await self._check_inline(event, inline, bounds)
        stored = [(content, await self._blobs.put(content.data)) for content in inline]
        opening = Opening(
            event,
            resolution,
            run,
            stored,
            self._can_steer,
            not_before,
            history=await history_items(event, earlier),
            bounds=bounds,
        )
        return await self._pending(open_event, opening)

    def _tools_refused(self, event: Event, agent: Agent, run: NewRun) -> CallerError | None:
        """Return why the agent does not take the tools of the sender, or None.

        The agent's own tools are known here while its plugin is ready. Otherwise, and of an event whose agent
        is not known yet, the first attempt of the run finds out, and fails with the same sentence.
        """
        tools = event.envelope.input.tools
        if not tools:
            return None
        offer = self._offer(run)
        return refusal(agent, tools, () if offer is None else own_tools(agent, *offer))

    async def route(
        self,
        event: Event,
        resolution: Resolution,
        not_before: int | None,
        history: Sequence[NewTranscriptItem] = (),
    ) -> Opened:
        """Open the run of a stored event that is `deferred` or `failed`, and whose agent is now known.

        `Opened.refused` says why that is not possible now. If another caller was faster, `duplicate` is the
        stored event.
        """
        run = None
        if isinstance(resolution, Binding):
            run = _new_run(event, resolution, None, None, not_before)
        opening = Opening(event, resolution, run, [], self._can_steer, not_before, history=history)
        pending = await self._pending(open_deferred, opening)
        opened: Opened = await self.store(pending)
        return opened

    async def _pending(
        self, store: Callable[[Tx, Opening, Membership | None], Opened], opening: Opening
    ) -> Pending:
        event, run, agent = opening.event, opening.run, opening.agent
        waits = isinstance(opening.resolution, Undecided)
        message = None if run is None and not waits else await message_item(event)
        delayed = opening.not_before is not None
        begins = agent is not None and not delayed and not gathers(event, agent)
        reserved = None if agent is None else self._dispatcher.reserve(agent, begins=begins)
        claim = None if reserved is None else reserved.claim
        may_wait = reserved is None or reserved.may_wait
        full = None if may_wait else self._dispatcher.queue.error()
        opening = msgspec.structs.replace(opening, message=message, full=full)
        offer = None if claim is None or run is None else self._offer(run)

        def work(tx: Tx) -> Opened:
            opened = store(tx, opening, claim)
            if offer is None or agent is None or opened.run is None or opened.begins != "now":
                return opened
            return msgspec.structs.replace(opened, ahead=look_ahead(tx, opened.run, offer, agent))

        def started(opened: Opened) -> None:
            self._dispatch(opened, reserved)

        async def answer(opened: Opened) -> Accepted:
            return await self._answer(event, opening, opened)

        def give_up() -> None:
            if reserved is not None:
                self._dispatcher.release(reserved)

        lane = None if run is None or run.parallel else run.lane
        return Pending(work, started, give_up, answer, lane)

    def _dispatch(self, opened: Opened, reserved: Reservation | None) -> None:
        run = opened.run
        if reserved is not None and run is not None and opened.begins != "not":
            self._dispatcher.opened(reserved, run, opened.ahead)
        elif reserved is not None:
            self._dispatcher.release(reserved)
        if opened.outcome == "steered" and run is not None:
            self._dispatcher.steered(run.run_id)
        elif opened.outcome == "queued":  # it may complete a debounced turn
            self._dispatcher.look()
        elif opened.outcome == "deferred":
            self._on_deferred()
        self.cancelled(opened.cancelled)

    async def _answer(self, event: Event, opening: Opening, opened: Opened) -> Accepted:
        known = opened.duplicate
        if known is not None and known.outcome == "failed" and opened.same_body:
            # nothing was stored: the caller may send it again
            opened = await self.route(
                known.event() or event, opening.resolution, opening.not_before, opening.history
            )
        if opened.duplicate is not None:
            return await self._answer_duplicate(opened.duplicate, opened.same_body)
        if opened.refused is not None:
            await blobs.discard(self._db, self._blobs, [blob for _, blob in opening.inline])
            raise opened.refused
        if isinstance(opening.resolution, Ambiguous):
            raise opening.resolution.error()
        run = opened.run
        return Accepted(
            event_id=event.event_id,
            duplicate=known is not None,
            outcome=opened.outcome,
            run=None if run is None else RunBrief(run_id=run.run_id, status=run.status),
        )

    async def known(self, workspace_id: str, accepted: Accepted) -> Accepted:
        """Return the current outcome of an accepted event. UnavailableError if it has failed."""
        record = await self._db.read(lambda tx: events.find(tx, workspace_id, accepted.event_id))
        if record is None:  # deleted meanwhile
            return accepted
        found = await self._answer_duplicate(record, same_body=True)
        return msgspec.structs.replace(found, duplicate=accepted.duplicate)

    async def _answer_duplicate(self, record: events.StoredEvent, same_body: bool) -> Accepted:
        if not same_body:
            raise ConflictError(
                f"event {record.event_id!r} is known with another body; a new event needs a new event_id",
                event_id=record.event_id,
            )
        if record.outcome == "failed":
            raise not_routed(record)
        if record.outcome == "conflict":
            raise Ambiguous(tuple(record.routing.get("candidates", ()))).error()
        run = None
        if record.run_id is not None:
            run_id = record.run_id
            run = await self._db.read(lambda tx: runs.find(tx, record.workspace_id, run_id))
        return Accepted(
            event_id=record.event_id,
            duplicate=True,
            outcome=record.outcome,
            run=None if run is None else RunBrief(run_id=run.run_id, status=run.status),
        )

    async def _check_inline(self, event: Event, inline: list[InlineContent], bounds: Quotas) -> None:
        """Check an event whose content is to be put in files, so that one that is refused leaves none behind.

        ConflictError if it is known with another body, PayloadTooLargeError if a quota has no room for it.
        """
        ws, more = event.workspace_id, Amounts(len(inline), sum(len(content.data) for content in inline))

        def look(tx: Tx) -> tuple[events.StoredEvent | None, QuotaExceeded | None]:
            return events.find(tx, ws, event.event_id), quotas.check(tx, ws, Allotment(bounds=bounds), more)

        known, exceeded = await self._db.read(look)
        if known is None and exceeded is not None:
            raise exceeded.error
        if known is not None and known.request_digest != event.request_digest:
            await self._answer_duplicate(known, same_body=False)

    async def _refused(self, event: Event, error: HostlerError) -> Pending:
        """Raise the error of an agent that is gone or disabled; a repeated event still gets its answer."""
        known = await self._db.read(lambda tx: events.find(tx, event.workspace_id, event.event_id))
        if known is None:
            raise error
        same = known.request_digest == event.request_digest

        async def answer(opened: Opened) -> Accepted:
            return await self._answer_duplicate(known, same)

        return Pending(lambda _: Opened(known.outcome), lambda _: None, lambda: None, answer)

    # -- cancel -----------------------------------------------------------------------------------

    async def cancel(
        self, workspace_id: str, run_id: str, *, reason: str, actor: str, grace: float | None = None
    ) -> None:
        """Cancel a run and its children. NotFoundError; a run that has ended stays as it is.

        `grace`: seconds that their runners have to end by themselves; None: the host's default.
        """

        def ask(tx: Tx) -> list[RequestedEnd]:
            runs.get(tx, workspace_id, run_id)
            return request_cancel(tx, workspace_id, run_id, reason=reason, actor=actor, grace=grace)

        async def carry() -> None:
            self.cancelled(await self._db.write(ask))

        await self._to_its_end(carry())

    def cancelled(self, requested: list[RequestedEnd]) -> None:
        """Cancel those of these runs that are under way here; their cancellation is durable."""
        for run_id, reason, grace in requested:
            self._dispatcher.cancel(run_id, reason, grace)
            self._feed.wake(run_id)
        if requested:
            self._dispatcher.look()  # messages they absorbed may have become another run


def not_routed(record: events.StoredEvent) -> UnavailableError:
    """Return the error for an event that failed."""
    errors = [f"{one['agent']}: {one['error']}" for one in record.routing.get("filter_errors", ())]
    return UnavailableError(
        f"event {record.event_id!r} was given to no agent: filters that it depends on could not be evaluated "
        f"({'; '.join(errors) or 'its content was deleted'}); mend them, then send it again",
        event_id=record.event_id,
    )


def _new_run(
    event: Event, binding: Binding, parent_run_id: str | None, deadline_at: int | None, not_before: int | None
) -> NewRun:
    envelope, agent = event.envelope, binding.agent
    return NewRun(
        workspace_id=event.workspace_id,
        run_id=new_id(),
        agent_id=agent.agent_id,
        agent_name=agent.name,
        agent_version=agent.version,
        runner_id=agent.spec.runner,
        event_id=event.event_id,
        parent_run_id=parent_run_id,
        bot_id=envelope.bot_id,
        conversation_id=envelope.conversation_id,
        thread_id=envelope.thread_id,
        requester=event.requester,
        lane=lane_of(
            workspace_id=event.workspace_id,
            agent_id=agent.agent_id,
            place=Place.of(envelope),
            event_id=event.event_id,
        ),
        parallel=agent.spec.concurrency.on_busy == "parallel",
        priority=agent.spec.priority,
        not_before=not_before,
        deadline_at=deadline_at,
        binding=binding.record(),
    )


def _noted(task: asyncio.Task[Any]) -> None:
    """Log the error of work that no caller waits for any more."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("it was not done, and nobody waits for it any more: %s", error)
