"""The desk where pauses are decided: what people, clients and the clock do to them.

A request only records decisions; going on is what an attempt of the run does. A decision that makes a pause
ready puts its paused run back into the queue, in the same transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from hostler.domain.approvers import may_see
from hostler.domain.events import Caller
from hostler.domain.pause_actions import (
    ActionAnswer,
    ActRequest,
    ResolveOutcome,
    ResolveRequest,
    UnprocessableError,
)
from hostler.domain.pause_checks import check_size
from hostler.domain.pause_values import Pause, PausedCall
from hostler.domain.pause_views import PauseView, view_of
from hostler.domain.pauses import (
    MAX_COMMENT_BYTES,
    MAX_IDEMPOTENCY_KEY_CHARS,
    MAX_RESULT_BYTES,
    PauseStatus,
)
from hostler.domain.record import Record
from hostler.domain.tool_pins import PresentTool
from hostler.pauses import budget_questions, transitions
from hostler.pauses.transitions import Done
from hostler.storage.port import Database, Tx
from hostler.storage.stores import members, pause_calls, pause_votes, pauses, runs
from hostler.storage.stores.pauses import Due
from hostler.storage.stores.run_endings import RequestedEnd
from hostler.tools.schema import ToolSchema
from hostler.tools.schema_cost import SchemaError
from hostler_protocol.errors import InvalidArgumentError, NotFoundError, StorageError, UnauthorizedError
from hostler_protocol.limits import MAX_PAGE_ITEMS

log = logging.getLogger(__name__)

MAX_PAGES_LOOKED_AT = 20
"""Pages of pauses looked through for those that a caller may see; then the page says that more follow."""
MAX_SWEEP_STEPS = 100
"""Steps of one sweep; what is left is for the next one."""
SWEEP_SECONDS = 5.0
"""Longest interval between two sweeps, since other hosts may have opened pauses."""
SHORTEST_SWEEP_SECONDS = 0.05
"""So long at least between two sweeps."""


WriteAndClaim = Callable[[Callable[[Tx], Done], Callable[[Done], bool]], Awaitable[tuple[Done, bool]]]


class PausePage(Record):
    """Pauses newest first; `next`: (created_at in ms, pause id) of the last one where more follow."""

    items: list[PauseView]
    next: tuple[int, str] | None


class PauseService:
    """Every way a pause is looked at or decided from outside its run.

    After a commit, `on_changed` gets the id of each run whose pause changed, and `on_cancelled` the active
    runs to stop. `pin` returns the tool that currently has a name: (workspace, name) -> pin.
    `write_and_claim` writes a decision and claims the run that it queued, if it can; see `Dispatcher`.
    `limits` returns the budgets of a workspace as they are now.
    """

    def __init__(
        self,
        db: Database,
        *,
        on_changed: Callable[[str], None] = lambda run_id: None,
        on_cancelled: Callable[[list[RequestedEnd]], None] = lambda asked: None,
        tool: Callable[[str, str], PresentTool | None] = lambda workspace_id, tool_name: None,
        write_and_claim: WriteAndClaim | None = None,
        limits: budget_questions.Limits | None = None,
    ) -> None:
        self._db, self._limits = db, limits
        self._write_and_claim = write_and_claim
        self._tool = tool
        self._on_changed = on_changed
        self._on_cancelled = on_cancelled
        self._look_now = asyncio.Event()

    # -- looking ----------------------------------------------------------------------------------

    async def get(self, caller: Caller, pause_id: str) -> PauseView:
        """The pause. NotFoundError where there is none that the caller may see."""
        return await self._db.read(lambda tx: _seen(tx, caller, pause_id)[1])

    async def page(
        self,
        caller: Caller,
        *,
        conversation_id: str | None = None,
        run_id: str | None = None,
        statuses: Sequence[PauseStatus] = (),
        before: tuple[int, str] | None = None,
        limit: int = 50,
    ) -> PausePage:
        """The pauses that the caller may see, newest first; with `statuses` those in one of them."""
        look = partial(pauses.page, conversation_id=conversation_id, run_id=run_id, statuses=statuses)
        return await self._db.read(
            lambda tx: _page(tx, caller, look, before, max(1, min(limit, MAX_PAGE_ITEMS)))
        )

    # -- deciding ---------------------------------------------------------------------------------

    async def act(
        self, caller: Caller, pause_id: str, request: ActRequest, *, idempotency_key: str | None = None
    ) -> ActionAnswer:
        """Decide calls, all or none. The errors are those of domain/pause_actions, and NotFoundError.

        With `idempotency_key` the same request again gets the first one's answer.
        """
        if idempotency_key is not None and not 1 <= len(idempotency_key) <= MAX_IDEMPOTENCY_KEY_CHARS:
            raise UnprocessableError(
                f"Idempotency-Key: expected 1 to {MAX_IDEMPOTENCY_KEY_CHARS} characters", reason="schema"
            )
        if caller.scope is not None and any(one.similar is not None for one in request.actions):
            raise UnprocessableError(
                "a front-end token decides the calls of its conversation alone: leave similar out",
                reason="schema",
            )
        body_digest = transitions.digest_of(request)

        def rehearse(tx: Tx) -> ActionAnswer | None:
            pause, _ = _seen(tx, caller, pause_id)
            if idempotency_key is not None:
                kept = transitions.answered(tx, pause, caller, idempotency_key, body_digest)
                if kept is not None:
                    return kept
            transitions.rehearse(tx, caller, pause, request, check_schema)
            return None

        def act(tx: Tx) -> Done:
            _check_seen(tx, caller, pause_id)
            return transitions.act(
                tx, caller, pause_id, request, request_key=idempotency_key, body_digest=body_digest
            )

        if _has_schema_work(request):
            kept = await self._db.read(rehearse)
            if kept is not None:
                return kept
        done = await self.decide(act)
        if done.answer is None:
            raise RuntimeError("actions were taken without an answer")
        return done.answer

    async def cancel(self, caller: Caller, pause_id: str, *, reason: str | None = None) -> PauseView:
        """Cancel the pause, and its run with it. SupersededError where it is over in another way."""
        check_size(reason, MAX_COMMENT_BYTES, "reason")
        await self.get(caller, pause_id)
        self._tell(await self._db.write(lambda tx: transitions.cancel(tx, caller, pause_id, reason)))
        return await self.get(caller, pause_id)

    async def resolve(
        self,
        caller: Caller,
        pause_id: str,
        call_id: str,
        outcome: ResolveOutcome,
        result: Any = None,
        *,
        comment: str | None = None,
    ) -> PauseView:
        """Say what became of a call that is in doubt: it happened (with its result), or it did not.

        UnauthorizedError for a narrow caller: somebody has to have looked.
        """
        if caller.scope is not None:
            raise UnauthorizedError("a front-end token does not say what became of a call: use a key")
        check_size(result, MAX_RESULT_BYTES, "result")
        check_size(comment, MAX_COMMENT_BYTES, "comment")
        if outcome == "not_happened" and result is not None:
            raise UnprocessableError("what did not happen has no result", reason="schema")
        request = ResolveRequest(outcome=outcome, result=result, comment=comment)

        def rehearse(tx: Tx) -> None:
            pause, _ = _seen(tx, caller, pause_id)
            call = transitions.call_to_resolve(tx, caller, pause, call_id)
            if outcome == "happened" and call.asked.result_schema is not None:
                try:
                    check_schema(call.asked.result_schema, result, "result")
                except InvalidArgumentError as error:
                    raise UnprocessableError(error.message, reason="schema", call_id=call_id) from error

        await self._db.read(rehearse)
        await self.decide(lambda tx: transitions.resolve(tx, caller, pause_id, call_id, request))
        return await self.get(caller, pause_id)

    async def decide(self, work: Callable[[Tx], Done]) -> Done:
        """Write the decision of `work`; its run may be claimed with it, and goes on then already."""
        if self._write_and_claim is None:
            done, claimed = await self._db.write(work), False
        else:
            done, claimed = await self._write_and_claim(work, _queues)
        if not claimed:
            self._tell(done)
        if done.added:
            self.budget_added_to()
        return done

    # -- the clock --------------------------------------------------------------------------------

    async def sweep(self) -> int:
        """Expire calls that were not answered in time and continue ready pauses. Return how many changed."""
        changed = 0
        for _ in range(MAX_SWEEP_STEPS):
            due = await self._db.read(lambda tx: [*pauses.due(tx), *pauses.left_behind(tx)])
            moved = 0
            for one in due:
                done = await self._db.write(partial(_sweep_one, one))
                if done is not None:
                    self._tell(done)
                    moved += 1
            changed += moved
            if not moved:
                break
        return changed + await self._ask_again() + await self._go_on_with_budgets()

    async def _ask_again(self) -> int:
        """Calls whose tool was gone and has come back are put to people again."""
        asked = 0
        for call in await self._db.read(pause_calls.changed):
            tool = self._tool(call.workspace_id, call.asked.tool_name or "")
            if tool is None:
                continue
            done = await self._db.write(partial(_tool_is_back, call, tool))
            if done is not None:
                self._tell(done)
                asked += 1
        return asked

    async def _go_on_with_budgets(self) -> int:
        """Calls that wait for a budget to which somebody added, also for another call, or that was raised."""
        changed, last = 0, None
        while waiting := await self._db.read(partial(pause_calls.of_budgets, after=last)):
            last = waiting[-1]
            for call in waiting:
                if not await self._db.read(
                    partial(budget_questions.may_go_on, call=call, limits=self._limits)
                ):
                    continue
                done = await self._db.write(partial(_budget_has_more, call, self._limits))
                if done is not None:
                    self._tell(done)
                    changed += 1
        return changed

    def budget_added_to(self) -> None:
        """Look at once for calls that wait for a budget: somebody added to one."""
        self._look_now.set()

    async def keep_swept(self, succeeded: Callable[[], None] = lambda: None) -> None:
        """Sweep whenever something is due. A worker of the host."""
        while True:
            delay = SWEEP_SECONDS
            try:
                await self.sweep()
                due, now = await self._db.read(lambda tx: (pauses.next_due(tx), tx.now))
                if due is not None:
                    delay = min(delay, max(0, due - now) / 1000)
                succeeded()
            except StorageError as error:
                if not error.retryable:
                    raise
                log.warning("pauses could not be swept: %s", error)
            await asyncio.sleep(SHORTEST_SWEEP_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(delay - SHORTEST_SWEEP_SECONDS, 0)):
                    await self._look_now.wait()
            self._look_now.clear()

    def _tell(self, done: Done) -> None:
        if done.changed:
            self._on_changed(done.pause.run_id)
        if done.asked:
            self._on_cancelled(list(done.asked))


def _queues(done: Done) -> bool:
    """Return whether a decision has queued its run: the pause is ready, and its run was parked."""
    return done.changed and done.pause.status == "ready" and done.pause.parked_at is not None


def _has_schema_work(request: ActRequest) -> bool:
    """Return whether a value is checked against a JSON Schema, which takes too long for the writer."""
    return any(one.type == "result" or one.edited_args is not None for one in request.actions)


def check_schema(schema: Any, value: Any, what: str) -> None:
    """Hold a value against a JSON Schema that was frozen with a call. InvalidArgumentError names the path."""
    try:
        ToolSchema(schema).check(value, what)
    except SchemaError as error:
        raise InvalidArgumentError(f"{what}: the call's own schema cannot be used: {error}") from error


def _seen(tx: Tx, caller: Caller, pause_id: str) -> tuple[Pause, PauseView]:
    """The pause as the caller sees it. NotFoundError: there is none, or it is not for this caller's eyes."""
    pause = pauses.find(tx, caller.workspace_id, pause_id)
    view = None if pause is None else _view(tx, caller, pause)
    if pause is None or view is None:
        raise NotFoundError(f"there is no pause {pause_id!r}")
    return pause, view


def _check_seen(tx: Tx, caller: Caller, pause_id: str) -> None:
    """Raise NotFoundError if there is no such pause that the caller may see."""
    pause = pauses.find(tx, caller.workspace_id, pause_id)
    if pause is None or not _may_see(tx, caller, pause, pause_calls.of_pause(tx, pause)):
        raise NotFoundError(f"there is no pause {pause_id!r}")


def _may_see(tx: Tx, caller: Caller, pause: Pause, calls: list[PausedCall]) -> bool:
    if caller.scope is not None:  # no more than the pauses of its own runs, whoever else a rule names
        run = runs.find(tx, pause.workspace_id, pause.run_id)
        if run is None or not caller.scope.holds(run.agent_name, run.conversation_id):
            return False
        return pause.requester == caller.subject
    return may_see([call.asked.rule for call in calls], caller, pause.requester)


def _view(tx: Tx, caller: Caller, pause: Pause) -> PauseView | None:
    calls = pause_calls.of_pause(tx, pause)
    if not _may_see(tx, caller, pause, calls):
        return None
    run = runs.find(tx, pause.workspace_id, pause.run_id)
    cast = pause_votes.of_pause(tx, pause)
    votes = {call.call_id: [vote for vote in cast if vote.call_id == call.call_id] for call in calls}
    subjects = [*(vote.subject for vote in cast), *(call.decided_by or "" for call in calls)]
    return view_of(
        pause,
        calls,
        caller,
        agent="" if run is None else run.agent_name,
        now=tx.now,
        votes=votes,
        names=members.names(tx, pause.workspace_id, subjects),
    )


def _page(
    tx: Tx, caller: Caller, look: Callable[..., list[Pause]], before: tuple[int, str] | None, limit: int
) -> PausePage:
    items: list[PauseView] = []
    for _ in range(MAX_PAGES_LOOKED_AT):
        found = look(tx, caller.workspace_id, before=before, limit=MAX_PAGE_ITEMS)
        for index, pause in enumerate(found):
            before = (pause.created_at, pause.pause_id)
            view = _view(tx, caller, pause)
            if view is not None:
                items.append(view)
            if len(items) == limit:
                more = index + 1 < len(found) or len(found) == MAX_PAGE_ITEMS
                return PausePage(items, before if more else None)
        if len(found) < MAX_PAGE_ITEMS:
            return PausePage(items, None)
    return PausePage(items, before)


def _tool_is_back(call: PausedCall, tool: PresentTool, tx: Tx) -> Done | None:
    with contextlib.suppress(NotFoundError):
        return transitions.tool_is_back(tx, call, tool)
    return None


def _budget_has_more(call: PausedCall, limits: budget_questions.Limits | None, tx: Tx) -> Done | None:
    with contextlib.suppress(NotFoundError):
        return budget_questions.go_on_with_budget(tx, call, limits)
    return None


def _sweep_one(due: Due, tx: Tx) -> Done | None:
    with contextlib.suppress(NotFoundError):  # retention was faster
        return transitions.sweep(tx, due.workspace_id, due.pause_id)
    return None
