"""A run's results on the host: which are stored, in which order, and their projections.

`ResultStream` is a state machine without IO. Its input are results of the runner, the runner's end and
endings by the host; its output are stored results with their host sequence and projections, and warnings. The
link has already checked the runner's order, credit and sizes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from hostler.domain.action_decisions import refusal
from hostler.domain.grants import Grant
from hostler.domain.message_ids import MAX_MESSAGES_PER_RUN, MessageIds
from hostler.domain.outcomes import (
    ActionRequest,
    Ending,
    Paused,
    Projection,
    ResultWarning,
    Step,
    Stored,
    StoredDeltas,
    StreamState,
    TranscriptWrite,
    Uploaded,
)
from hostler.domain.payloads import artifact_of, one_line, plain_deltas, state_write_of, unknown_payload
from hostler_protocol.content import Message
from hostler_protocol.errors import HostlerError, InvalidArgumentError, RunFailure
from hostler_protocol.ids import new_id
from hostler_protocol.incoming import ResultArrived
from hostler_protocol.limits import MAX_REASON_CHARS, MAX_RESULT_BYTES
from hostler_protocol.pausing import PendingCall
from hostler_protocol.results import (
    HOST_ONLY_RESULTS,
    RESULT_TYPES,
    TERMINAL_RESULTS,
    TYPE_OF,
    ActionRequested,
    AgentRunResult,
    ArtifactCreated,
    AttemptStarted,
    InteractionRequested,
    LogWritten,
    MessageCompleted,
    MessageDelta,
    ResultData,
    RunCompleted,
    RunFailed,
    RunPaused,
    StateUpdated,
    ToolCallCompleted,
    ToolCallStarted,
    decode_data,
)

MAX_WARNINGS_PER_RUN = 100
"""Each is a journal entry; further ones are counted and reported once, when the run ends."""
MAX_TYPE_CHARS = 100
"""Length of the name of an unknown result type."""
_CODE = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_NO_OUTPUT_TYPES = (LogWritten, ToolCallStarted, ToolCallCompleted)
"""Results that are no output: a run with only these and deltas fails with `runner.no_output`."""
_LAST_RESULTS = TERMINAL_RESULTS | {"run.paused"}
"""Results that end an attempt. If one was invalid, the end of the runner is a failure."""
_encoder = msgspec.json.Encoder()

Stop = Literal["cancelled", "timeout"]


class ResultStream:
    """The results of one run, during one attempt.

    `uploads`: the artifacts that this run has uploaded so far, read live. `artifact_id` makes new ids.
    """

    def __init__(
        self,
        run_id: str,
        grant: Grant,
        *,
        state: StreamState | None = None,
        uploads: Mapping[str, Uploaded] | None = None,
        artifact_id: Callable[[], str] = new_id,
    ) -> None:
        self.run_id = run_id
        self.state = state or StreamState()
        self.outcome: Ending | Paused | None = None
        self.ignored = 0
        """Results received after the end."""
        self._grant = grant
        self._uploads: Mapping[str, Uploaded] = uploads if uploads is not None else {}
        self._artifact_id = artifact_id
        self._ids = MessageIds(self.state.complete_ids)
        self._warnings = 0
        self._unknown_types: set[str] = set()
        self._invalid_last: str | None = None
        self._stop: tuple[Stop, str] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the attempt has ended; further results are ignored."""
        return self.outcome is not None

    # -- input --------------------------------------------------------------------------------------------

    def receive(self, result: AgentRunResult, size: int = 0) -> list[Step]:
        """Take one result of the runner; `size` is that of its JSON in bytes."""
        if self.outcome is not None:
            self.ignored += 1
            return []
        if size > MAX_RESULT_BYTES:
            return self.fail(
                "payload_too_large",
                f"a result has {size:,} bytes of JSON; at most {MAX_RESULT_BYTES:,} may be",
            )
        try:
            self._check_origin(result)
            if result.type not in RESULT_TYPES:
                return self._take_unknown(result)
            raw = one_line(bytes(result.data))
            data = decode_data(result.type, result.data)
            if isinstance(data, MessageDelta):  # nearly all results of a run
                return self._take_delta(result, raw)
            return self._take(result, data, raw)
        except HostlerError as error:
            text = error.message.removeprefix(f"{result.type}: ")
            if result.type in _LAST_RESULTS:
                self._invalid_last = f"{result.type}: {text}"[:MAX_REASON_CHARS]
            return self.warn(f"{result.type[:MAX_TYPE_CHARS]} dropped: {text}", result.type)

    def receive_deltas(self, arrived: Sequence[ResultArrived], start: int = 0) -> StoredDeltas | None:
        """Take the consecutive plain text deltas from `start` on, the fast path for most results.

        None: the result at `start` is something else or invalid; `receive` it.
        """
        if self.outcome is not None or not self._grant.streaming:
            return None
        payloads = plain_deltas(arrived, start, self.run_id)
        if not payloads:
            return None
        return StoredDeltas(self.state.reserve(len(payloads)), payloads)

    def skip_deltas(self, arrived: Sequence[ResultArrived], start: int = 0) -> int:
        """Return how many plain text deltas from `start` on are not stored; 0: `receive` the next one."""
        if self.outcome is not None or self._grant.streaming:
            return 0
        return len(plain_deltas(arrived, start, self.run_id))

    def end(self) -> list[Step]:
        """End the run, after the runner's generator finished (`run/end`)."""
        if self.outcome is not None:
            return []
        if self._stop is not None:
            return self._stopped()
        if self._invalid_last is not None:
            return self.fail("runner.protocol", f"the last result was invalid: {self._invalid_last}")
        if not self.state.produced:
            return self.fail(
                "runner.no_output",
                "the runner ended without a message, an artifact, a state change or a terminal result",
            )
        return self._finish(RunCompleted(finish_reason="stop"), Ending("completed", finish_reason="stop"))

    def fail(self, code: RunFailure, error: str) -> list[Step]:
        """End the run as failed: the plugin crashed, broke the protocol or sent too much.

        A run that is being stopped ends as stopped, whatever the failure.
        """
        if self.outcome is not None:
            return []
        if self._stop is not None:
            return [*self.warn(f"while stopping: {code}: {error}"), *self._stopped()]
        return self._finish(RunFailed.by_host(code, error), Ending("failed", status_code=code, error=error))

    def stopping(self, stop: Stop, reason: str) -> None:
        """Note that cancellation was requested or the deadline has passed. The first reason stays.

        The runner has a grace time: results are still accepted, and a completion still counts.
        """
        if self._stop is None:
            self._stop = (stop, reason)

    def stop(self, stop: Stop, reason: str) -> list[Step]:
        """End the run now: the grace time is over, or there is nothing to wait for.

        This also ends a run that its runner has paused, unless the pause is already stored.
        """
        self.stopping(stop, reason)
        if isinstance(self.outcome, Paused):
            self.unpaused()
        return [] if self.outcome is not None else self._stopped()

    def attempt_started(self, attempt: int, cause: str, frontier: int = 0) -> list[Step]:
        """Announce a new attempt: clients discard results after the last completed message.

        `frontier`: in an attempt that continues a recording, the last result that it repeated; results up to
        there stay as well.
        """
        kept = max(self.state.kept_sequence, frontier)
        started = AttemptStarted(attempt=attempt, cause=cause, discard_after=kept)
        return [self.state.store(TYPE_OF[AttemptStarted], _encoder.encode(started))]

    def requested(self, asked: InteractionRequested) -> list[Step]:
        """Announce a question to a person or a client."""
        return [self.state.store(TYPE_OF[InteractionRequested], _encoder.encode(asked))]

    def park(self, pending: list[PendingCall]) -> Stored:
        """End the attempt, but not the run: its calls wait for people."""
        return self.state.store(TYPE_OF[RunPaused], _encoder.encode(RunPaused(pending=pending)))

    def unpaused(self) -> None:
        """Revoke an explicit pause that cannot be stored: the run ends in another way."""
        self.outcome = None

    def keep_ids(self, message_ids: Iterable[str]) -> None:
        """Reserve message ids that this host assigned in an earlier attempt."""
        self._ids.keep(message_ids)

    def warn(self, reason: str, result_type: str | None = None) -> list[Step]:
        """Return a warning to store, at most MAX_WARNINGS_PER_RUN per run."""
        self._warnings += 1
        if self._warnings > MAX_WARNINGS_PER_RUN:
            return []
        return [ResultWarning(reason[: 4 * MAX_REASON_CHARS], result_type and result_type[:MAX_TYPE_CHARS])]

    # -- one result -----------------------------------------------------------------------------------------

    def _check_origin(self, result: AgentRunResult) -> None:
        if result.run_id != self.run_id:
            raise InvalidArgumentError(f"run_id names run {result.run_id[:64]!r}, not this one")
        if result.type in HOST_ONLY_RESULTS:
            raise InvalidArgumentError("only the host makes it")

    def _take(self, result: AgentRunResult, data: ResultData, raw: bytes) -> list[Step]:
        match data:
            case MessageCompleted(message=message):
                return self._take_message(result, message)
            case ArtifactCreated():
                stored, write = artifact_of(data, self._artifact_id(), self._uploads)
                return [self._accept(result, _encoder.encode(stored), write)]
            case StateUpdated():
                return [self._accept(result, raw, state_write_of(data, self._grant))]
            case ActionRequested():
                return self._take_action(result, data, raw)
            case RunPaused() | RunCompleted() | RunFailed():
                return self._take_end(result, data, raw)
            case _:
                return [self._accept(result, raw, said=not isinstance(data, _NO_OUTPUT_TYPES))]

    def _take_delta(self, result: AgentRunResult, raw: bytes) -> list[Step]:
        """Without streaming, by the agent's policy, a delta is neither stored nor numbered."""
        if self._grant.streaming:
            return [self._accept(result, raw, said=False)]
        self.state.add_usage(result.usage)
        return []

    def _take_end(
        self, result: AgentRunResult, data: RunPaused | RunCompleted | RunFailed, raw: bytes
    ) -> list[Step]:
        match data:
            case RunPaused():
                return self._take_pause(result, data, raw)
            case RunCompleted():
                return self._take_completion(result, data)
            case RunFailed():
                return self._take_failure(result, data)

    def _take_unknown(self, result: AgentRunResult) -> list[Step]:
        name = result.type
        if not 1 <= len(name) <= MAX_TYPE_CHARS or not name.isprintable():
            raise InvalidArgumentError(f"a result type has 1 to {MAX_TYPE_CHARS} printable characters")
        stored = self._accept(result, unknown_payload(bytes(result.data)))
        if name in self._unknown_types or len(self._unknown_types) >= MAX_WARNINGS_PER_RUN:
            return [stored]
        self._unknown_types.add(name)
        return [stored, *self.warn(f"result type {name!r} is not known here: kept as it is", name)]

    def _take_message(self, result: AgentRunResult, message: Message) -> list[Step]:
        had_room = not self._ids.is_full
        message, is_new = self._ids.identified(message)
        if is_new and not had_room:
            return self.fail("runner.protocol", f"more than {MAX_MESSAGES_PER_RUN:,} messages in one run")
        stored = self._accept(
            result,
            _encoder.encode(MessageCompleted(message=message)),
            TranscriptWrite.of(message) if is_new else None,
        )
        self.state.kept_sequence = stored.sequence
        if is_new:
            return [stored]
        repeated = (
            f"message {message.message_id!r:.80} was complete already: not written to the transcript again"
        )
        return [stored, *self.warn(repeated, result.type)]

    def _take_action(self, result: AgentRunResult, data: ActionRequested, raw: bytes) -> list[Step]:
        refused = None
        if data.action not in self._grant.actions:
            refused = refusal(data.action, self._grant.action_rules) or "it is not granted"
        stored = self._accept(result, raw, ActionRequest(data.action, data.target, data.payload, refused))
        if refused is None:
            return [stored]
        text = f"action {data.action!r:.80} is recorded, not carried out: {refused}"
        return [stored, *self.warn(text, result.type)]

    def _take_pause(self, result: AgentRunResult, data: RunPaused, raw: bytes) -> list[Step]:
        if not self._grant.continuation:
            return self.fail(
                "runner.protocol",
                "run.paused: this host cannot pause the run, or the runner's manifest does not state the "
                "capability 'continuation'",
            )
        if not data.pending:
            raise InvalidArgumentError("pending is empty: a pause waits for at least one call")
        if self._stop is not None:
            return self._stopped()
        self.outcome = Paused(data.pending, data.state, data.expires_in)
        self.state.add_usage(result.usage)
        # stored later, when its public form is known
        return [Stored(self.state.sequence, result.type, raw, outcome=self.outcome)]

    def _take_completion(self, result: AgentRunResult, data: RunCompleted) -> list[Step]:
        write: TranscriptWrite | None = None
        if data.message is not None:
            message, is_new = self._ids.identified(data.message)
            data = msgspec.structs.replace(data, message=message)
            write = TranscriptWrite.of(message) if is_new else None
        ending = Ending("completed", finish_reason=data.finish_reason)
        return self._finish(data, ending, result, write)

    def _take_failure(self, result: AgentRunResult, data: RunFailed) -> list[Step]:
        if self._stop is not None:
            warned = (
                [] if data.code == "cancelled" else self.warn(f"while stopping: {data.code}: {data.error}")
            )
            return [*warned, *self._stopped(result)]
        if not _CODE.fullmatch(data.code) or len(data.code) > MAX_TYPE_CHARS:
            odd = self.warn(
                f"code {data.code!r:.80} is not a dotted name: kept as 'runner.error'", result.type
            )
            data = msgspec.structs.replace(data, code="runner.error")
            return [*odd, *self._failed(data, result)]
        return self._failed(data, result)

    def _failed(self, data: RunFailed, result: AgentRunResult) -> list[Step]:
        return self._finish(data, Ending("failed", status_code=data.code, error=data.error), result)

    # -- endings --------------------------------------------------------------------------------------------

    def _stopped(self, result: AgentRunResult | None = None) -> list[Step]:
        stop, reason = self._stop or ("cancelled", "cancelled")
        code: RunFailure = "runner.timeout" if stop == "timeout" else "cancelled"
        return self._finish(
            RunFailed.by_host(code, reason), Ending(stop, status_code=code, error=reason), result
        )

    def _finish(
        self,
        data: RunCompleted | RunFailed,
        ending: Ending,
        result: AgentRunResult | None = None,
        projection: Projection | None = None,
    ) -> list[Step]:
        """Store the terminal result, preceded by the number of warnings that were left out."""
        steps: list[Step] = []
        if self._warnings > MAX_WARNINGS_PER_RUN:
            steps.append(
                ResultWarning(f"{self._warnings - MAX_WARNINGS_PER_RUN:,} further warnings were left out")
            )
        self.outcome = ending
        if result is not None:
            self.state.add_usage(result.usage)
        steps.append(self.state.store(TYPE_OF[type(data)], _encoder.encode(data), result, projection, ending))
        return steps

    # -- bookkeeping ----------------------------------------------------------------------------------------

    def _accept(
        self,
        result: AgentRunResult,
        data: bytes,
        projection: Projection | None = None,
        *,
        outcome: Paused | None = None,
        said: bool = True,
    ) -> Stored:
        self.state.produced |= said
        self.state.add_usage(result.usage)
        return self.state.store(result.type, data, result, projection, outcome)
