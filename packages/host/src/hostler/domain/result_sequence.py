"""A run's results on the host: what is stored, in which order, and what follows from it.

`ResultStream` is a state machine without IO. Results of the runner, its end and endings that the host makes
go in; out come stored results with their host sequence and their projections, and warnings. The link has
already checked the runner's own order, credit and sizes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from hostler.domain.grants import Grant
from hostler.domain.message_ids import MAX_MESSAGES_PER_RUN, MessageIds
from hostler.domain.outcomes import (
    ActionRequest,
    Ending,
    Paused,
    Projection,
    Step,
    Stored,
    StoredDeltas,
    TranscriptWrite,
    Uploaded,
    Warned,
)
from hostler.domain.payloads import artifact_of, one_line, plain_deltas, state_write_of, unknown_payload
from hostler.domain.usage import add_usage
from hostler_protocol.content import Message, Usage
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
"""Each is a journal entry; those after it are counted, and told of once when the run ends."""
MAX_TYPE_CHARS = 100
"""The name of a result type that this host does not know."""
_CODE = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_NO_OUTPUT_TYPES = (LogWritten, ToolCallStarted, ToolCallCompleted)
"""A run that produced nothing but these, and deltas, said nothing."""
_LAST_RESULTS = TERMINAL_RESULTS | {"run.paused"}
"""A runner that sent one of these meant it to be its last: one that was invalid is no end."""
_encoder = msgspec.json.Encoder()

Stop = Literal["cancelled", "timeout"]


@dataclass(slots=True)
class StreamState:
    """What goes from one attempt to the next; after a restart read from the run and its transcript."""

    sequence: int = 0
    """The last host sequence given out."""
    kept_sequence: int = 0
    """The sequence of the last `message.completed`."""
    produced: bool = False
    """Whether the run gave out anything but deltas, logs and telemetry."""
    complete_ids: set[str] = field(default_factory=set)
    """Ids of the messages that are complete."""
    usage: Usage | None = None


class ResultStream:
    """The results of one run, during one attempt.

    `uploads` is looked up live: the artifacts this run uploaded so far. `artifact_id` makes ids.
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
        """Results that came after the end."""
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
        """Whether nothing is taken any more from this attempt."""
        return self.outcome is not None

    # -- what comes in ------------------------------------------------------------------------------------

    def receive(self, result: AgentRunResult, size: int = 0) -> list[Step]:
        """Take one result of the runner; `size` in bytes of its JSON."""
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
        """Take as many from `start` on as are deltas of text and nothing more, which is what most are.

        None: the next one is something else, or wrong; `receive` it.
        """
        if self.outcome is not None or not self._grant.streaming:
            return None
        payloads = plain_deltas(arrived, start, self.run_id)
        if not payloads:
            return None
        first = self.state.sequence + 1
        self.state.sequence += len(payloads)
        return StoredDeltas(first, payloads)

    def skip_deltas(self, arrived: Sequence[ResultArrived], start: int = 0) -> int:
        """How many from `start` on are such deltas that are not stored; 0: `receive` the next one."""
        if self.outcome is not None or self._grant.streaming:
            return 0
        return len(plain_deltas(arrived, start, self.run_id))

    def end(self) -> list[Step]:
        """The runner's generator finished (`run/end`)."""
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
        """The host ends the run: the plugin crashed, broke the protocol, sent too much.

        A run that is being stopped ends as stopped, whatever went wrong on the way.
        """
        if self.outcome is not None:
            return []
        if self._stop is not None:
            return [*self.warn(f"while stopping: {code}: {error}"), *self._stopped()]
        return self._finish(
            RunFailed.by_host(code, error),
            Ending("failed", status_code=code, error=error),
        )

    def stopping(self, stop: Stop, reason: str) -> None:
        """Cancellation was asked for, or the deadline is over. The first reason stays.

        The runner has its grace time: what it still sends is taken, and a completion still counts.
        """
        if self._stop is None:
            self._stop = (stop, reason)

    def stop(self, stop: Stop, reason: str) -> list[Step]:
        """End the run now: the grace time is over, or there is nothing to wait for.

        Also where its runner paused it, as long as that is not kept.
        """
        self.stopping(stop, reason)
        if isinstance(self.outcome, Paused):
            self.unpaused()
        return [] if self.outcome is not None else self._stopped()

    def attempt_started(self, attempt: int, cause: str, frontier: int = 0) -> list[Step]:
        """Say that a new attempt begins: clients drop what came after the last completed message.

        `frontier`: of an attempt that goes on from a recording, the last result that it made again; what came
        up to there stays as well.
        """
        kept = max(self.state.kept_sequence, frontier)
        started = AttemptStarted(attempt=attempt, cause=cause, discard_after=kept)
        return [self._stored(TYPE_OF[AttemptStarted], _encoder.encode(started))]

    def requested(self, asked: InteractionRequested) -> list[Step]:
        """Tell that a person or a client is asked."""
        return [self._stored(TYPE_OF[InteractionRequested], _encoder.encode(asked))]

    def park(self, pending: list[PendingCall]) -> Stored:
        """The attempt ends here, since its calls wait for people; the run does not."""
        return self._stored(TYPE_OF[RunPaused], _encoder.encode(RunPaused(pending=pending)))

    def paused_with(self, calls: int) -> int:
        """Number the results of a pause that the runner asked for: so many calls, then `run.paused`.

        The sequence of the first; what they say is known when the pause is stored.
        """
        first = self.state.sequence + 1
        self.state.sequence += calls + 1
        return first

    def unpaused(self) -> None:
        """A pause that the runner asked for cannot be kept: the run ends in another way."""
        self.outcome = None

    def take_back(self, stored: Stored, kept_sequence: int) -> None:
        """Take back the number of a result just received, which may stand in the journal already."""
        self.state.sequence -= 1
        if stored.type == TYPE_OF[MessageCompleted]:
            self.state.kept_sequence = kept_sequence

    def number(self, stored: Stored) -> Stored:
        """Give a result whose number was taken back the next one."""
        self.state.sequence += 1
        if stored.type == TYPE_OF[MessageCompleted]:
            self.state.kept_sequence = self.state.sequence
        return msgspec.structs.replace(stored, sequence=self.state.sequence)

    def keep_ids(self, message_ids: Iterable[str]) -> None:
        """Give none of these to a new message: ids that this host gave to messages of an attempt before."""
        self._ids.keep(message_ids)

    def warn(self, reason: str, result_type: str | None = None) -> list[Step]:
        """Keep a warning, as long as there are not too many of this run."""
        self._warnings += 1
        if self._warnings > MAX_WARNINGS_PER_RUN:
            return []
        return [Warned(reason[: 4 * MAX_REASON_CHARS], result_type and result_type[:MAX_TYPE_CHARS])]

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
        """Where the agent's policy has streaming switched off a delta is neither stored nor numbered."""
        if self._grant.streaming:
            return [self._accept(result, raw, said=False)]
        self._add_usage(result.usage)
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
            TranscriptWrite(message) if is_new else None,
        )
        self.state.kept_sequence = stored.sequence
        if is_new:
            return [stored]
        repeated = (
            f"message {message.message_id!r:.80} was complete already: not written to the transcript again"
        )
        return [stored, *self.warn(repeated, result.type)]

    def _take_action(self, result: AgentRunResult, data: ActionRequested, raw: bytes) -> list[Step]:
        granted = data.action in self._grant.actions
        request = ActionRequest(data.action, data.target, data.payload, granted)
        stored = self._accept(result, raw, request)
        if granted:
            return [stored]
        refused = f"action {data.action!r:.80} is not granted: recorded, not carried out"
        return [stored, *self.warn(refused, result.type)]

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
        self._add_usage(result.usage)
        # it is stored once it is known what is shown of it
        return [Stored(self.state.sequence, result.type, raw, outcome=self.outcome)]

    def _take_completion(self, result: AgentRunResult, data: RunCompleted) -> list[Step]:
        write: TranscriptWrite | None = None
        if data.message is not None:
            message, is_new = self._ids.identified(data.message)
            data = msgspec.structs.replace(data, message=message)
            write = TranscriptWrite(message) if is_new else None
        ending = Ending("completed", finish_reason=data.finish_reason)
        return self._finish(data, ending, result, write)

    def _take_failure(self, result: AgentRunResult, data: RunFailed) -> list[Step]:
        if self._stop is not None:
            told = [] if data.code == "cancelled" else self.warn(f"while stopping: {data.code}: {data.error}")
            return [*told, *self._stopped(result)]
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
        """Store the terminal result; before it, how many warnings were left out."""
        steps: list[Step] = []
        if self._warnings > MAX_WARNINGS_PER_RUN:
            steps.append(Warned(f"{self._warnings - MAX_WARNINGS_PER_RUN:,} further warnings were left out"))
        self.outcome = ending
        if result is not None:
            self._add_usage(result.usage)
        steps.append(self._stored(TYPE_OF[type(data)], _encoder.encode(data), result, projection, ending))
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
        self._add_usage(result.usage)
        return self._stored(result.type, data, result, projection, outcome)

    def _stored(
        self,
        result_type: str,
        data: bytes,
        result: AgentRunResult | None = None,
        projection: Projection | None = None,
        outcome: Ending | Paused | None = None,
    ) -> Stored:
        """Give out the next sequence. Without `result` the host made it."""
        self.state.sequence += 1
        usage, timestamp = (None, None) if result is None else (result.usage, result.timestamp)
        return Stored(self.state.sequence, result_type, data, usage, timestamp, projection, outcome)

    def _add_usage(self, usage: Usage | None) -> None:
        self.state.usage = add_usage(self.state.usage, usage)
