"""Pauses that a runner asks for itself: it leaves its own state, and goes on from that in a new attempt."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from hostler.domain.approvers import ToolApprovalPolicy, rule_of
from hostler.domain.grants import Grant
from hostler.domain.name_patterns import best_match
from hostler.domain.outcomes import Paused
from hostler.domain.pause_checks import check_calls
from hostler.domain.pause_sealing import PLAIN, Codec
from hostler.domain.pause_state import continuation_of
from hostler.domain.pause_values import DecisionRequest, NewCall, NewPause, Pause, PausedCall
from hostler.domain.pauses import NO_QUESTIONS, OnMessage
from hostler.domain.record import Record
from hostler.domain.recording import CallName
from hostler.domain.usage import Used
from hostler.pauses import entries as pause_entries
from hostler.pauses.explicit_states import KeptState, keep, load
from hostler.pauses.parking import Parked, park
from hostler.storage.port import Database, Tx
from hostler.storage.stores import pause_calls, pauses, run_notes, runs
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.journal import NewEntry
from hostler.storage.stores.run_rows import Fenced, Run
from hostler.tools.caller_tools import tools_of_run
from hostler.tools.port import ToolService, present_tool
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.ids import digest, new_id
from hostler_protocol.pausing import Continuation, PendingCall


class PreparedPause(Record):
    """A pause that is about to be opened, and where its state is kept."""

    new: NewPause
    kept: KeptState
    expires_in: float | None = None
    """As the runner gave it."""


class OwnPause(NamedTuple):
    """A pause that the runner asked for, from whose state attempts go on."""

    pause: Pause
    calls: list[PausedCall]


def own_pause(tx: Tx, run: Run) -> OwnPause | None:
    """The explicit pause that an attempt resumes from.

    Every attempt since then has the same: also one that goes on after a later pause of calls that waited.
    """
    pause = pauses.continued_pause(tx, run.run_id, run.base_attempt)
    return None if pause is None else OwnPause(pause, pause_calls.of_pause(tx, pause))


class ExplicitPauses(Record):
    """Prepares explicit pauses. `codec` encrypts the states of runners."""

    db: Database
    blobs: BlobFolder
    tools: ToolService | None
    codec: Codec = PLAIN

    async def prepare(self, run: Run, grant: Grant, paused: Paused, on_message: OnMessage) -> PreparedPause:
        """Everything but the transaction. InvalidArgumentError, PayloadTooLargeError: it cannot be kept."""
        calls = [self._call(run, grant, paused, pending, n) for n, pending in enumerate(paused.pending, 1)]
        check_calls(calls)
        pause_id = new_id()
        kept = await keep(self.blobs, self.codec, pause_id, paused.state)
        new = NewPause(
            pause_id=pause_id,
            run_id=run.run_id,
            calls=calls,
            form="explicit",
            on_message=on_message,
            state=kept.state,
            state_digest=kept.state_digest,
            state_blob=kept.state_blob,
            state_format=kept.state_format,
            data_key=kept.data_key,
        )
        return PreparedPause(new, kept, paused.expires_in)

    async def continuation(self, own: OwnPause) -> Continuation:
        """Return the continuation of an attempt that resumes from this pause. StorageError: it is damaged."""
        return continuation_of(own.pause, own.calls, await load(self.blobs, self.codec, own.pause))

    def _call(self, run: Run, grant: Grant, paused: Paused, pending: PendingCall, nth: int) -> NewCall:
        name, by_runner = pending.tool_name, pending.executor == "runner"
        policy = _policy(grant, name, by_runner=by_runner)
        if pending.kind == "approval" and not by_runner and name not in grant.tools:
            raise InvalidArgumentError(
                f"pending: tool_name {name!r:.100} is not among the resources of this run; where the runner"
                " carries it out itself, it says so by executor: 'runner'"
            )
        tools = None if by_runner else tools_of_run(self.tools, grant)
        shown = None if tools is None else present_tool(tools, run.workspace_id, name)
        pin = None if by_runner else grant.tool_pins.get(name)
        asks = policy or ToolApprovalPolicy()
        made = CallName("run.paused", digest(msgspec.to_builtins(paused.pending)), nth).call_id
        return NewCall(
            call_id=pending.call_id or made,
            kind=pending.kind,
            denied=NO_QUESTIONS if pending.kind == "question" and not grant.questions else None,
            asked=DecisionRequest(
                title=pending.title or name,
                tool_name=(name or None) if pending.kind == "question" else name,
                arguments=pending.arguments,
                description=pending.description,
                tool_call_id=pending.call_id,
                executor=pending.executor,
                pin=pin,
                definition=None if shown is None or shown.pin != pin else shown.definition,
                args_schema=None if shown is None else shown.args_schema,
                result_schema=None if shown is None else shown.result_schema,
                fields=pending.schema or [],
                rule=rule_of(policy),
                editable=pending.editable and (policy is None or policy.editable),
                locked=asks.locked,
                on_expiry=asks.on_expiry,
                expires_in=paused.expires_in if paused.expires_in is not None else asks.expires_in,
            ),
        )


def _policy(grant: Grant, name: str, *, by_runner: bool) -> ToolApprovalPolicy | None:
    """The agent's rule for a call; of the runner's own tools, that of the pattern which fits best."""
    if name in grant.tools or not by_runner:
        return grant.tool_approvals.get(name)
    pattern = best_match(grant.own_tool_approvals, name)
    return None if pattern is None else grant.own_tool_approvals[pattern]


def _undecided(tx: Tx, pause: Pause) -> list[PausedCall]:
    return [call for call in pause_calls.of_pause(tx, pause) if call.decision == "undecided"]


def pause_run(
    tx: Tx, run: Run, prepared: PreparedPause, entries: list[NewEntry], *, actor: str, used: Used
) -> Parked | Fenced:
    """Open the pause and end the attempt, in one transaction. The next one has nothing but the state.

    Calls of the attempt that still wait for people wait no longer; of those under way nobody will know what
    came of them. `entries` gets the results that show the pause: one for each of its calls that people are
    asked, then `run.paused`; none where nobody is asked.
    """
    held = run_notes.hold(tx, run.run_id)
    if held is None or held.attempt != run.attempt or held.status != "running":
        return Fenced(run.status if held is None else held.status, run.attempt)
    waiting = pauses.unsettled(tx, run.run_id)
    if waiting is not None and waiting.form == "implicit":
        pauses.close(tx, waiting, "cancelled", cause="the runner paused the run itself", actor=run.runner_id)
    pauses.leave_in_doubt(tx, run.run_id, cause="the runner paused the run meanwhile", actor=run.runner_id)
    prepared.kept.refer(tx)
    pause = pauses.open(tx, prepared.new, cause="the runner pauses the run", actor=run.runner_id)
    entries += map(pause_entries.requested, _undecided(tx, pause))
    if asked := [call for call in prepared.new.calls if call.denied is None]:
        entries.append(pause_entries.paused(asked, prepared.expires_in))
    runs.rebase(tx, run.run_id)
    return park(tx, run, entries, actor=actor, used=used)
