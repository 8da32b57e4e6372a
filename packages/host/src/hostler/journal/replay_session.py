"""One replay: a runner works in its process, and a tape is its only host.

Every Host API call gets its recorded answer, in the recorded order, and changes nothing. An answer waits
until the results and answers recorded before it were repeated, so that parallel calls finish as they did.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hostler.domain.answer_order import AnswerOrder
from hostler.domain.divergence import Divergence, first_divergence, left_out, silence, unknown_call
from hostler.domain.grants import decode_grant
from hostler.domain.outcomes import Step, Stored, Uploaded
from hostler.domain.record import Record
from hostler.domain.result_sequence import ResultStream
from hostler.domain.tapes import Player, Tape, TapedCall, TapedResult, joined_deltas
from hostler.journal.call_records import chunk_of
from hostler.journal.turns import AnswerQueue
from hostler.plugins.connection import PluginConnection
from hostler_protocol.calls import CallParams
from hostler_protocol.calls.digest import digest_of
from hostler_protocol.errors import PluginError, RemoteFaultError, RunFailure
from hostler_protocol.frames import MessageId
from hostler_protocol.ids import new_id
from hostler_protocol.incoming import ResultArrived
from hostler_protocol.limits import CANCEL_GRACE_SECONDS
from hostler_protocol.methods import RunStartParams

REPLAY_SECONDS = 60.0
"""The most that one replay may take; it waits for nothing but the runner."""
SETTLE_SECONDS = 1.0
"""After so long without a message the runner waits for an answer: the first one is delivered out of order."""


class Replayed(Record):
    """The outcome of a replay. Without `divergence` it equals the recording.

    `steps`: number of recorded steps. `text`, `recorded_text`: all messages of the runner now and in the
    recording. `asked`: number of its calls.
    """

    run_id: str
    agent: str
    steps: int
    divergence: Divergence | None
    text: str
    recorded_text: str
    asked: int
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def is_identical(self) -> bool:
        """Whether nothing differed."""
        return self.divergence is None


@dataclass(slots=True)
class ReplaySession:
    """One replayed run, as the handler of the plugin's connection."""

    tape: Tape
    connection: PluginConnection
    start: RunStartParams
    seconds: float = REPLAY_SECONDS
    settle_seconds: float = SETTLE_SECONDS
    _player: Player = field(init=False)
    _stream: ResultStream = field(init=False)
    _results: list[TapedResult] = field(default_factory=list)
    _taken: int = 0
    _asked: int = 0
    _order: AnswerOrder = field(init=False)
    _answers: AnswerQueue = field(init=False)
    _tasks: dict[MessageId, asyncio.Task[None]] = field(default_factory=dict)
    _departed: Divergence | None = None
    _timer: asyncio.TimerHandle | None = None
    _stopping: bool = False
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._player = Player(self.tape)
        made = iter(self.tape.artifact_ids)
        self._stream = ResultStream(
            self.run_id,
            decode_grant(bytes(self.tape.grant)),
            uploads=_uploaded(self.tape),
            artifact_id=lambda: next(made, None) or new_id(),
        )
        answers = (call.position for call in self.tape.calls if call.known)
        self._order = AnswerOrder(answers, self.tape.result_positions)
        self._answers = AnswerQueue(lambda position: self._order.may_answer(position, self._taken))

    @property
    def run_id(self) -> str:
        """The recorded run's id, which the runner gets again."""
        return self.tape.run.run_id

    async def run(self) -> Replayed:
        """Replay the run. PluginError if the plugin cannot start it."""
        began = time.monotonic()
        self._watch()
        silent: Divergence | None = None
        try:
            async with asyncio.timeout(self.seconds):
                await self.connection.start_run(self.start, self)
                await self._over.wait()
        except TimeoutError:
            silent = silence(self.tape, self._player, self._results, self.seconds)
        finally:
            await self._leave()
        departed = self._departed or silent
        return Replayed(
            run_id=self.run_id,
            agent=self.tape.run.agent,
            steps=self.tape.steps,
            divergence=first_divergence(self.tape, self._player, self._results, departed),
            text=_text(self._results),
            recorded_text=_text(self.tape.results),
            asked=self._asked,
            seconds=time.monotonic() - began,
            notes=tuple(self._notes()),
        )

    def _notes(self) -> Iterator[str]:
        run = self.tape.run
        if self.tape.ended_by_host:
            yield f"the host ended the recorded run ({run.status_code or run.status}): compared up to there"
        if not self.tape.whole:
            yield "retention has dropped its deltas: they were not compared"

    async def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.connection.cancel_run(self.run_id, "the replay is over")
        self.connection.end_run(self.run_id)
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- messages of the plugin (RunHandler) ------------------------------------------------------

    def on_results(self, arrived: Sequence[ResultArrived]) -> None:
        """Receive results."""
        for item in arrived:
            self.connection.credit(self.run_id, 1, item.size)
            self._take(self._stream.receive(item.result, item.size))

    def on_end(self) -> None:
        """End the replay: the runner finished."""
        self._take(self._stream.end())
        self._over.set()

    def on_broken(self, code: RunFailure, reason: str) -> None:
        """Fail the run, which violated the protocol."""
        self._take(self._stream.fail(code, reason))
        self._over.set()

    def on_warning(self, reason: str) -> None:
        """Ignore a warning about a dropped message, as in the recorded run."""

    def on_lost(self, error: PluginError) -> None:
        """Fail the run: the plugin's process is gone."""
        self._take(self._stream.fail(error.status_code, error.message))
        self._over.set()

    def on_call(self, call_id: MessageId, method: str, params: CallParams) -> None:
        """Answer a Host API call from the tape."""
        self._asked += 1
        found = self._player.find(method, digest_of(params))
        if found is None and self._is_beyond_the_cut():
            self._watch()  # in the recording it had no answer yet when the host ended the run
            return
        if found is None or not found.known:
            self._leave_the_tape(method, params, found)
            return
        self._spawn(call_id, self._answer(call_id, found))

    def on_call_ahead(self, method: str, params: CallParams) -> None:
        """Fail the run: a replay sends no answers ahead."""
        self.on_broken("runner.protocol", f"{method} came without an id")

    def on_call_cancelled(self, call_id: MessageId) -> None:
        """Stop answering a call that the runner gave up."""
        if (task := self._tasks.get(call_id)) is not None:
            task.cancel()

    # -- answers ----------------------------------------------------------------------------------

    def _spawn(self, call_id: MessageId, work: Any) -> None:
        task = asyncio.create_task(work, name=f"replay of call {call_id}")
        self._tasks[call_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(call_id, None))
        self._watch()

    async def _answer(self, call_id: MessageId, call: TapedCall) -> None:
        """Deliver the recorded answer in its turn; its chunks, which came before it, at once."""
        try:
            for chunk in call.chunks:
                await self.connection.stream(call_id, chunk_of(msgspec.json.decode(chunk)))
            if call.given_up:  # later answers wait until the runner gives it up again
                await self._over.wait()
                return
            await self._answers.wait(call.position)
            if call.error is not None:
                self.connection.refuse(call_id, RemoteFaultError(call.error))
            else:
                self.connection.reply(call_id, call.reply)
        finally:
            self._order.answered(call.position)
            self._release()

    def _release(self) -> None:
        self._answers.release()
        self._watch()

    # -- where the tape ends ----------------------------------------------------------------------

    def _is_beyond_the_cut(self) -> bool:
        return self.tape.ended_by_host and not self._player.unused()

    def _leave_the_tape(self, method: str, params: CallParams, found: TapedCall | None) -> None:
        """End the replay at a call that the tape cannot answer."""
        if self._departed is None:
            self._departed = (
                left_out(found)
                if found is not None
                else unknown_call(self.tape, self._player, method, msgspec.to_builtins(params))
            )
        self._over.set()

    # -- results ----------------------------------------------------------------------------------

    def _take(self, steps: list[Step]) -> None:
        for step in steps:
            if isinstance(step, Stored):
                self._taken += 1
                self._add(step)
                if step.outcome is not None:
                    self._over.set()
        self._release()

    def _add(self, stored: Stored) -> None:
        usage = None if stored.usage is None else msgspec.to_builtins(stored.usage)
        taken = TapedResult(0, stored.type, msgspec.json.decode(stored.data), usage)
        joined = joined_deltas(self._results[-1], taken) if self._results else None
        if joined is None:
            self._results.append(taken)
        else:
            self._results[-1] = joined

    # -- time -------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Restart the timer: only silence from now on counts."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self.settle_seconds, self._settled)

    def _settled(self) -> None:
        if self._answers.first is not None:
            self._answers.release_first()  # the steps recorded before it do not come
        elif (
            self.tape.ended_by_host
            and not self._stopping
            and self._taken + 1 >= len(self.tape.result_positions)
        ):
            self._stop()
        self._watch()

    def _stop(self) -> None:
        """End the run where the host ended the recorded one."""
        self._stopping = True
        timeout = self.tape.run.status == "timeout"
        self._stream.stopping("timeout" if timeout else "cancelled", "the recording ends here")
        self.connection.cancel_run(self.run_id, "deadline" if timeout else "the recording ends here")
        asyncio.get_running_loop().call_later(CANCEL_GRACE_SECONDS, self._over.set)


def _uploaded(tape: Tape) -> dict[str, Uploaded]:
    """Return the artifacts that the recorded run announced, so that the replay can announce them."""
    announced = (result.data for result in tape.results if result.type == "artifact.created")
    return {
        data["artifact_id"]: Uploaded(
            data.get("size_bytes") or 0, data.get("sha256") or "", data.get("mime_type"), data.get("name")
        )
        for data in announced
    }


def _text(results: Any) -> str:
    """Return the texts of the completed messages, joined by line breaks."""
    found: list[str] = []
    for result in results:
        message = result.data.get("message") if isinstance(result.data, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str):
            found.append(content)
        elif isinstance(content, list):
            found += [str(part.get("text", "")) for part in content if isinstance(part, dict)]
    return "\n".join(found)
