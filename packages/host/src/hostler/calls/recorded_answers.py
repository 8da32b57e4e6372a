"""Answers from recordings: of an earlier attempt of the run, and of the run that it was forked from."""

from __future__ import annotations

import asyncio

from hostler.calls.in_progress import CallInProgress
from hostler.domain.recording import RecordedCall
from hostler.journal.call_log import CallLog, CallRecord
from hostler.journal.call_records import RecordedAnswer, chunk_of
from hostler.journal.fork import Inherited
from hostler.journal.resume import Resumption
from hostler_protocol.errors import HostlerError, from_fault


async def answer_again(call: CallInProgress, resumption: Resumption, recorded: RecordedCall) -> bool:
    """Answer a call of an earlier attempt, in its turn. Its outcome is in the journal already.

    Return whether it had changed something.
    """
    await asyncio.sleep(0)  # calls that came together are all seen before one of them is answered
    try:
        answer = await resumption.read(recorded)
        if not await _stream(call, answer):
            return False
        # what the runner made of the chunks was recorded before the outcome
        await resumption.turn(recorded)
        return repeat(call, recorded, answer)
    except HostlerError as error:
        call.requester.refuse(call.call_id, error)
        return False
    finally:
        resumption.answered(recorded)


def repeat(call: CallInProgress, recorded: RecordedCall, answer: RecordedAnswer) -> bool:
    """Send a recorded answer, if the runner had waited for it. Return whether the call changed something."""
    if answer.given_up:
        return False
    if answer.error is not None:
        call.requester.refuse(call.call_id, from_fault(answer.error))
        return False
    call.requester.reply(call.call_id, answer.reply)
    return recorded.effect


async def answer_inherited(
    call: CallInProgress, record: CallRecord, inherited: Inherited, recorded: RecordedCall, log: CallLog
) -> None:
    """Answer a fork's call as its source was answered, and journal it as the fork's own.

    A recorded refusal is raised.
    """
    answer = await inherited.answer(recorded)
    record.chunks, record.inherited = answer.chunks, True
    if not await _stream(call, answer):
        return
    if answer.given_up:
        log.write(record, given_up=True)
        return
    if answer.error is not None:
        raise from_fault(answer.error)
    log.write(record, reply=answer.reply)
    await log.turn(record)
    call.requester.reply(call.call_id, answer.reply)


async def _stream(call: CallInProgress, answer: RecordedAnswer) -> bool:
    """Send the recorded chunks. Return False if the requester no longer waits for them."""
    for chunk in answer.chunks:
        if not await call.requester.stream(call.call_id, chunk_of(chunk)):
            return False
    return True
