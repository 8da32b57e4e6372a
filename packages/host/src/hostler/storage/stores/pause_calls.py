"""Calls of a pause: asked, decided, executed. Callers hold the lock of the run's row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hostler.domain.pause_values import DecisionData, NewCall, Pause, PausedCall
from hostler.domain.pauses import (
    DECISIONS,
    EXECUTIONS,
    MAX_CALLS,
    MAX_SWEPT_PAUSES,
    Decided,
    Execution,
    ReviewReason,
    expiry_seconds,
)
from hostler.domain.tool_pins import PresentTool
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import pause_facts
from hostler.storage.stores.pause_rows import call_of, json_of

_q = load(__file__)


def of_pause(tx: Tx, pause: Pause) -> list[PausedCall]:
    """Return the calls of a pause, in the order in which they were asked."""
    rows = tx.all(_q.of_pause, workspace_id=pause.workspace_id, pause_id=pause.pause_id)
    return [call_of(row) for row in rows]


def find(tx: Tx, pause: Pause, call_id: str) -> PausedCall | None:
    """Return one call of a pause, or None."""
    row = tx.one(_q.find, workspace_id=pause.workspace_id, pause_id=pause.pause_id, call_id=call_id)
    return None if row is None else call_of(row)


def reserved(tx: Tx, run_id: str) -> list[PausedCall]:
    """Return the calls of a run that were about to be executed and have no outcome."""
    return [call_of(row) for row in tx.all(_q.reserved, run_id=run_id)]


def changed(tx: Tx, limit: int = MAX_SWEPT_PAUSES) -> list[PausedCall]:
    """Return calls of all workspaces whose tool is gone."""
    return [call_of(row) for row in tx.all(_q.changed, limit=limit)]


def refused_budgets(tx: Tx, run_id: str) -> list[PausedCall]:
    """Return the calls of a run for which people did not add to a budget."""
    return [call_of(row) for row in tx.all(_q.refused_budgets, run_id=run_id, limit=MAX_CALLS)]


def of_budgets(tx: Tx, after: PausedCall | None = None, limit: int = MAX_SWEPT_PAUSES) -> list[PausedCall]:
    """Return calls of all workspaces that wait for a budget, oldest first, after one of them."""
    at, pause_id, call_id = (
        (0, "", "") if after is None else (after.created_at, after.pause_id, after.call_id)
    )
    place = {"after_at": at, "after_pause": pause_id, "after_call": call_id}
    return [call_of(row) for row in tx.all(_q.of_budgets, limit=limit, **place)]


def insert(tx: Tx, pause: Pause, calls: Sequence[NewCall], *, first_ordinal: int) -> None:
    """Store new, undecided calls."""
    for ordinal, call in enumerate(calls, first_ordinal):
        in_doubt = call.kind == "in_doubt"
        asked = call.asked
        tx.run(
            _q.insert,
            workspace_id=pause.workspace_id,
            pause_id=pause.pause_id,
            call_id=call.call_id,
            run_id=pause.run_id,
            ordinal=ordinal,
            kind=call.kind,
            revision=pause.revision,
            asked=msgspec.json.encode(asked).decode(),
            args_hash=asked.shown_digest(asked.arguments),
            execution="in_doubt" if in_doubt else "none",
            effect_key=call.effect_key,
            review="in_doubt" if in_doubt else None,
            created_at=tx.now,
            expires_at=None if in_doubt else expires_at(tx.now, asked.expires_in),
        )


def expires_at(now: int, expires_in: float | None) -> int:
    """Return when a call that is asked now expires (UTC epoch milliseconds)."""
    return now + int(expiry_seconds(expires_in) * 1000)


def decide(
    tx: Tx,
    pause: Pause,
    call: PausedCall,
    to: Decided,
    *,
    cause: str,
    actor: str,
    given: DecisionData | None = None,
    similar_id: str | None = None,
) -> None:
    """Record a decision. ValueError if DECISIONS has no such change."""
    if (call.decision, to) not in DECISIONS:
        raise ValueError(f"a call that is {call.decision} does not become {to}")
    written = tx.run(
        _q.decide,
        **_named(call),
        decision=to,
        decided_by=actor,
        given=None if given is None else _given(given),
        similar_id=similar_id,
        review=None,
        now=tx.now,
    )
    if written != 1:
        raise RuntimeError(f"call {call.call_id} was decided meanwhile, although its run was locked")
    pause_facts.of_decision(tx, pause, call, to=to, cause=cause, actor=actor, similar_id=similar_id)


def edit(tx: Tx, call: PausedCall, arguments: dict[str, Any], by: str) -> None:
    """Replace the arguments that are to be decided on."""
    shown = call.asked.shown_digest(arguments)
    tx.run(_q.edit, **_named(call), effective=json_of(arguments), args_hash=shown, edited_by=by)


def execute(
    tx: Tx,
    pause: Pause,
    call: PausedCall,
    to: Execution,
    *,
    cause: str,
    actor: str,
    effect_key: str | None = None,
    resolution: int | None = None,
    review: ReviewReason | None = None,
    given: DecisionData | None = None,
    handed_over: bool = False,
) -> None:
    """Record a step of the execution. ValueError if EXECUTIONS has no such change."""
    if (call.execution, to) not in EXECUTIONS:
        raise ValueError(f"a call that is {call.execution} does not become {to}")
    written = tx.run(
        _q.execute,
        **_named(call),
        execution=to,
        execution_before=call.execution,
        epoch=pause.epoch if to == "reserved" else call.epoch,
        effect_key=effect_key or call.effect_key,
        resolution=call.resolution if resolution is None else resolution,
        review=review,
        given=_given(given or call.given),
        handed_over=int(handed_over),
    )
    if written != 1:
        raise RuntimeError(f"call {call.call_id} was executed meanwhile, although its run was locked")
    pause_facts.of_execution(tx, pause, call, to=to, cause=cause, actor=actor)


def hand_over(tx: Tx, call: PausedCall) -> None:
    """Record that the runner got the outcome."""
    tx.run(_q.hand_over, **_named(call))


def ask_again(
    tx: Tx,
    pause: Pause,
    call: PausedCall,
    *,
    cause: str,
    actor: str,
    review: ReviewReason | None,
    tool: PresentTool | None = None,
) -> None:
    """Undo an approval that is no longer valid: the call is undecided, at the next revision.

    A call that was in doubt is so again, unless its tool is gone: whoever said that it did not happen may not
    say so any more. `tool`, if it has changed: what people see from now on, and what edited arguments have to
    fit.
    """
    asked = call.asked
    if tool is not None:
        described = tool.description if pause.form == "implicit" else asked.description  # by the runner
        asked = msgspec.structs.replace(
            asked,
            pin=tool.pin,
            definition=tool.definition,
            changed=asked.changed or not asked.is_about(tool),
            description=described,
            args_schema=tool.args_schema,
            result_schema=tool.result_schema,
        )
    tx.run(
        _q.ask_again,
        **_named(call),
        review=review,
        revision=pause.revision + 1,
        asked=msgspec.json.encode(asked).decode(),
        args_hash=asked.shown_digest(call.effective),
        expires_at=None if call.kind == "in_doubt" else expires_at(tx.now, asked.expires_in),
    )
    if call.decision != "undecided":
        pause_facts.of_decision(tx, pause, call, to="undecided", cause=cause, actor=actor)
    if call.kind == "in_doubt" and review is None:
        nothing = DecisionData()
        execute(tx, pause, call, "in_doubt", cause=cause, actor=actor, review="in_doubt", given=nothing)


def _named(call: PausedCall) -> dict[str, str]:
    return {"workspace_id": call.workspace_id, "pause_id": call.pause_id, "call_id": call.call_id}


def _given(given: DecisionData) -> str:
    return msgspec.json.encode(given).decode()
