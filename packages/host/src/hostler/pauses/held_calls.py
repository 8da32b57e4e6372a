"""Calls that wait for people or a client: asked together, held while the answer may come soon.

One attempt of a run has one `HeldCalls`. Calls that arrive together become one pause; later ones join it
while it is open. Every step is one transaction, in the order of the run's journal, that locks the run's
row, so that decisions, the clock and this attempt take turns. After the hold time a run that can go on from
its journal is parked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from hostler.domain.pause_values import NewCall, NewPause, Pause, PausedCall
from hostler.domain.pauses import MAX_CALLS, OnMessage
from hostler.journal.run_log import RunLog
from hostler.pauses.question import Question, Verdict
from hostler.pauses.requests import Questions
from hostler.pauses.verdicts import find_verdict, is_doubted
from hostler.storage.port import Tx
from hostler.storage.stores import pause_calls, pause_claims, pauses, run_notes
from hostler.storage.stores.pause_claims import ClaimRefused
from hostler.storage.stores.run_rows import Run
from hostler.tools.port import ToolService
from hostler_protocol.errors import (
    CancelledCallError,
    ConflictError,
    HostError,
    HostlerError,
    PayloadTooLargeError,
)
from hostler_protocol.ids import new_id

SHARED_LOOK_SECONDS = 0.5
"""How often decisions are looked for that another host on the same database took."""
LOOK_SECONDS = 5.0
"""How often they are looked for if this host is alone, in case a notification was missed."""

log = logging.getLogger(__name__)


class _Entered(NamedTuple):
    """The result of a step: verdicts by call id, calls that people have to decide, calls that are refused.

    `going_on`: a tool that was decided about is being started or called in this attempt.
    """

    verdicts: dict[str, Verdict]
    asked: list[PausedCall]
    refused: dict[str, HostlerError]
    pause: Pause | None
    going_on: bool


@dataclass(slots=True)
class _Waiting:
    question: Question
    answer: asyncio.Future[Verdict]
    is_asked: bool = False
    """Whether a step has handled it: it is in a pause, or waits for the end of the previous one."""


@dataclass(eq=False)
class HeldCalls:
    """Asks people for one attempt.

    `requested` is called, after the commit, with each call that people are newly asked about. `park` is
    called when the hold time is over, and at once if a call has to be looked into, since holding it would not
    make that quicker. None: the runner is not resumable, and its calls are held until it ends.
    `blocked_seconds`: how long a new question waits until the calls of an earlier pause are made again.
    `looked` is called after each step, which may have changed `waiting`.
    """

    journal: RunLog
    run: Run
    questions: Questions
    tools: ToolService | None
    on_message: OnMessage
    hold_seconds: float
    blocked_seconds: float
    requested: Callable[[PausedCall], None]
    park: Callable[[], None] | None
    looked: Callable[[], None]
    _waiting: dict[str, _Waiting] = field(default_factory=dict)
    _shown: dict[str, NewCall] = field(default_factory=dict)
    """The waiting calls, as people see them."""
    _requested: set[tuple[str, int, str | None, int]] = field(default_factory=set)
    """Requests shown to people: call id, revision, and how often the effect was in doubt."""
    _given_up: set[str] = field(default_factory=set)
    """Calls that the runner gave up."""
    _going_on: set[str] = field(default_factory=set)
    """Calls that were approved, and whose tools are being started."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _worker: asyncio.Task[None] | None = None
    _hold_timer: asyncio.TimerHandle | None = None
    _blocked_since: float | None = None

    async def ask(self, question: Question) -> Verdict:
        """Wait for the decision of one call."""
        answer: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._waiting[question.call_id] = _Waiting(question, answer)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work(), name=f"pause of run {self.run.run_id}")
        self._changed.set()
        try:
            return await answer
        finally:
            if self._waiting.get(question.call_id, None) is not None:
                del self._waiting[question.call_id]
            if not self._waiting:
                self._stop_timer()

    async def is_doubted(self, question: Question) -> bool:
        """Whether people are asked, or were asked, what came of a call that an attempt before began."""
        return await self.journal.db.read(lambda tx: is_doubted(tx, self.run, question))

    def changed(self) -> None:
        """Look again: something about this run's pause was decided or withdrawn."""
        self._changed.set()

    def give_up(self, call_id: str) -> None:
        """Ask nobody about a call from now on: the runner gave it up."""
        self._given_up.add(call_id)

    def withdraw(self, tx: Tx, call_id: str) -> None:
        """Withdraw a call that was given up from its pause, in the transaction that journals it."""
        pause_claims.give_up(tx, self.run.run_id, call_id, self.run.attempt)

    @contextmanager
    def going_on(self, call_id: str) -> Iterator[None]:
        """Have new questions wait for an approved call while its tool is started."""
        self._going_on.add(call_id)
        try:
            yield
        finally:
            self._going_on.discard(call_id)

    @property
    def waiting(self) -> int:
        """How many calls wait for people who were asked."""
        return sum(one.is_asked for one in self._waiting.values())

    def held(self) -> list[NewCall]:
        """Return the waiting calls, as people see them."""
        return [self._shown[call_id] for call_id in self._waiting if call_id in self._shown]

    def close(self) -> None:
        """The attempt is over: answer no call any more, and let go of the attempt, which refers to this."""
        self._stop_timer()
        if self._worker is not None:
            self._worker.cancel()
        self.requested, self.park = lambda _: None, None

    # -- the worker -------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Ask, look, answer; until nothing waits."""
        while self._waiting:
            try:
                await self._round()
            except HostlerError as error:
                self._refuse(self._waiting, error)
            except Exception:
                # the top of a worker: waiting calls get a refusal, the log the traceback
                log.exception("run %s: its calls could not be put to people", self.run.run_id)
                self._refuse(self._waiting, HostError("the host failed to ask people"))

    async def _round(self) -> None:
        self._changed.clear()
        self._shown = await self._calls()
        waiting = {call_id: one for call_id, one in self._waiting.items() if call_id in self._shown}
        if not waiting:
            return
        step = partial(self._step, questions=[one.question for one in waiting.values()], calls=self._shown)
        entered = await self.journal.write(lambda tx: (None, step(tx)))
        if isinstance(entered, HostlerError):
            raise entered
        self._tell(waiting, entered)
        if self._waiting:
            await self._wait(entered)

    async def _calls(self) -> dict[str, NewCall]:
        """Return the waiting calls as people see them; refuse those that cannot be asked."""
        calls: dict[str, NewCall] = {}
        for call_id, one in list(self._waiting.items()):
            try:
                calls[call_id] = await self.questions.call_of(one.question)
            except HostlerError as error:
                self._refuse([call_id], error)
        return calls

    def _tell(self, waiting: dict[str, _Waiting], entered: _Entered) -> None:
        for one in waiting.values():
            one.is_asked = True
        for call_id, error in entered.refused.items():
            self._refuse([call_id], error)
        for call_id, verdict in entered.verdicts.items():
            one = waiting[call_id]
            self._waiting.pop(call_id, None)
            if not one.answer.done():
                one.answer.set_result(verdict)
        asked = [call for call in entered.asked if _request_of(call) not in self._requested]
        if asked:
            self._start_timer()
        for call in asked:
            self._requested.add(_request_of(call))
            self.requested(call)
        self.looked()

    async def _wait(self, entered: _Entered) -> None:
        """Wait until something changes, at most until it is time to look without a notification."""
        blocked = _blocks(entered.pause)
        if entered.pause is not None and entered.pause.status == "needs_review":
            self._stop_timer()
            if self.park is not None:
                self.park()
        elif blocked:
            self._stop_timer()  # parked, it would be queued at once, since its pause is decided, and again
        elif self._hold_timer is None:
            self._start_timer()  # asked by an attempt before: it is held once more
        self._note_blocked(blocked and not entered.going_on)
        shared = self.journal.db.shared
        look = SHARED_LOOK_SECONDS if shared or blocked else LOOK_SECONDS
        try:
            async with asyncio.timeout(look):
                await self._changed.wait()
        except TimeoutError:
            pass

    def _note_blocked(self, blocked: bool) -> None:
        """Refuse questions that would wait for ever, since the runner left out what it asked before."""
        now = asyncio.get_running_loop().time()
        if not blocked:
            self._blocked_since = None
        elif self._blocked_since is None:
            self._blocked_since = now
        elif now - self._blocked_since > self.blocked_seconds:
            error = ConflictError("calls that waited before this one were not made again")
            self._refuse(self._waiting, error)

    def _refuse(self, call_ids: Iterable[str], error: HostlerError) -> None:
        for call_id in list(call_ids):
            one = self._waiting.pop(call_id, None)
            if one is not None and not one.answer.done():
                one.answer.set_exception(error)

    # -- the step ---------------------------------------------------------------------------------

    def _step(
        self, tx: Tx, questions: Sequence[Question], calls: dict[str, NewCall]
    ) -> _Entered | CancelledCallError:
        run = run_notes.hold(tx, self.run.run_id)
        if run is None or run.attempt != self.run.attempt or run.status != "running":
            return CancelledCallError("this attempt of the run is over")
        pause = pauses.unsettled(tx, run.run_id)
        if pause is not None and pause.status == "ready":
            begun = pause_claims.begin_resuming(tx, run.run_id, run.attempt)
            pause = pause if isinstance(begun, ClaimRefused) else begun
        verdicts: dict[str, Verdict] = {}
        unknown: list[Question] = []
        for question in questions:
            if question.call_id in self._given_up:
                continue
            found = find_verdict(tx, run, pause, question, self.tools)
            if found is None:
                unknown.append(question)
            elif isinstance(found, Verdict):
                verdicts[question.call_id] = found
        pause = pauses.unsettled(tx, run.run_id)
        new = [] if _blocks(pause) else [calls[one.call_id] for one in unknown]
        joins = pause is not None and pause.status in {"open", "needs_review"}
        room = MAX_CALLS - (len(pause_calls.of_pause(tx, pause)) if joins and pause is not None else 0)
        room = 0 if run.cancel_requested_at is not None else room
        new, refused = new[:room], {call.call_id: _refusal(run) for call in new[room:]}
        if new and (pause is None or pause.status == "resuming"):
            fresh = NewPause(pause_id=new_id(), run_id=run.run_id, calls=new, on_message=self.on_message)
            pause = pauses.open(tx, fresh, cause="calls wait for people", actor=run.runner_id)
        elif new and pause is not None:
            pause = pauses.add_calls(tx, pause, new, actor=run.runner_id)
        mine = {question.call_id for question in questions}
        calls_now = [] if pause is None else pause_calls.of_pause(tx, pause)
        asked = [call for call in calls_now if call.call_id in mine and not call.settled]
        called = any(call.execution == "reserved" and call.epoch == run.attempt for call in calls_now)
        return _Entered(verdicts, asked, refused, pause, called or bool(self._going_on))

    # -- the hold time ----------------------------------------------------------------------------

    def _start_timer(self) -> None:
        self._stop_timer()
        if self.park is None:
            return
        if self.hold_seconds > 0:
            loop = asyncio.get_running_loop()
            self._hold_timer = loop.call_later(self.hold_seconds, self.park)
        else:  # now: what is put to people and the pause of the run are written together
            self.park()

    def _stop_timer(self) -> None:
        if self._hold_timer is not None:
            self._hold_timer.cancel()
            self._hold_timer = None


def _request_of(call: PausedCall) -> tuple[str, int, str | None, int]:
    """Return the identity of a request to people: equal for repeated ones."""
    return call.call_id, call.revision, call.review, call.resolution


def _refusal(run: Run) -> HostlerError:
    """Return why people cannot be asked about one more call."""
    if run.cancel_requested_at is not None:
        return CancelledCallError("the run is being cancelled: nobody is asked any more")
    return PayloadTooLargeError(f"more than {MAX_CALLS} calls would wait together", limit=MAX_CALLS)


def _blocks(pause: Pause | None) -> bool:
    """Whether new questions wait until this pause is over. One that the runner asked for itself is over with
    its next question.
    """
    if pause is None or (pause.form == "explicit" and pause.status == "resuming"):
        return False
    return pause.status in {"ready", "resuming"}
