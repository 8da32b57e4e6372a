"""`interaction.request`: a question of the runner to a person."""

from __future__ import annotations

from hostler.calls.scope import CallScope
from hostler.domain.pauses import NO_QUESTIONS
from hostler.journal.call_log import CallLog, CallRecord
from hostler.journal.call_records import JournalledError
from hostler.pauses.held_calls import HeldCalls
from hostler.pauses.question import Question, refusal_of
from hostler_protocol.calls import InteractionParams
from hostler_protocol.errors import DeniedError, UnauthorizedError
from hostler_protocol.pausing import Decision


async def ask(scope: CallScope, record: CallRecord, held: HeldCalls | None, log: CallLog) -> Decision:
    """Put the question to a person, journal the decision and return it. JournalledError if it is a refusal.

    The runner need not wait until it is in the journal: the decision is durable with its pause, and what
    follows from it comes after it in the journal.
    """
    form: InteractionParams = record.params
    what = f"the question {form.title!r:.80}"
    if not scope.grant.questions:
        raise DeniedError(f"{what} was denied: {NO_QUESTIONS}")
    if held is None:
        raise UnauthorizedError("this host cannot put questions to people")
    verdict = await held.ask(Question("question", record.name, {}, form=form))
    refused = refusal_of(verdict, what)
    outcome = verdict.settle
    settle = None if outcome is None else lambda tx: outcome(tx, refused)
    if refused is not None:
        log.write(record, error=refused, settle=settle)
        raise JournalledError(refused)
    decision = Decision(
        call_id=record.name.call_id,
        decision="answered",
        values=verdict.values,
        result=verdict.result,
        comment=verdict.comment,
        decided_by=verdict.decided_by,
    )
    log.write(record, reply=decision, settle=settle)
    return decision
