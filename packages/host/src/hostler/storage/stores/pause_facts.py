"""Records of each change of a pause: an audit fact and an entry in the journal of its run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hostler.domain.pause_values import Pause, PausedCall
from hostler.storage.port import Tx
from hostler.storage.stores import audit, run_notes
from hostler.storage.stores.journal import NewEntry
from hostler_protocol.ids import canonical_json


def of_pause(
    tx: Tx,
    pause: Pause,
    *,
    before: str | None,
    cause: str,
    actor: str,
    calls: Sequence[Mapping[str, Any]] = (),
    doubted: str | None = None,
) -> None:
    """Record that the pause changed from `before` to its present status.

    `calls`: those that it was opened with. `doubted`: the call of which nobody knows whether it was made.
    """
    if doubted is not None:
        calls = [{"call_id": doubted, "kind": "in_doubt"}]
    body = {
        "run_id": pause.run_id,
        "segment": pause.segment,
        "revision": pause.revision,
        "epoch": pause.epoch,
        "from": before,
        "to": pause.status,
        "cause": cause,
        **({"calls": calls} if calls else {}),
    }
    _write(tx, pause, f"pause.{pause.status}", actor, body)


def of_decision(
    tx: Tx, pause: Pause, call: PausedCall, *, to: str, cause: str, actor: str, similar_id: str | None = None
) -> None:
    """Record that a call was decided, under which rule, or has to be decided again.

    `similar_id`: the approval for similar calls that decided it.
    """
    body = _of_call(pause, call, call.decision, to, cause)
    body |= {"rule": msgspec.to_builtins(call.asked.rule), "tool_name": call.asked.tool_name}
    if similar_id is not None:
        body["similar_id"] = similar_id
    _write(tx, pause, f"pause.call.{to}", actor, body)


def of_joining(tx: Tx, pause: Pause, call: PausedCall, *, actor: str) -> None:
    """Record that one more call waits in an open pause; the fact of its opening names the first ones."""
    body = _of_call(pause, call, None, call.decision, "it joins an open pause")
    _write(
        tx,
        pause,
        "pause.call.undecided",
        actor,
        {**body, "kind": call.kind, "tool_name": call.asked.tool_name, "executor": call.asked.executor},
    )


def of_vote(tx: Tx, pause: Pause, call: PausedCall, vote: str, *, key_id: str, actor: str) -> None:
    """Record a vote; a decision that it leads to is recorded separately."""
    body = {"run_id": pause.run_id, "call_id": call.call_id, "vote": vote, "key_id": key_id}
    _write(tx, pause, "pause.vote", actor, body)


def of_execution(tx: Tx, pause: Pause, call: PausedCall, *, to: str, cause: str, actor: str) -> None:
    """Record a step of a call's execution in the audit log; the journal has the call's own entries."""
    body = _of_call(pause, call, call.execution, to, cause)
    audit.record(tx, pause.workspace_id, actor, f"pause.execution.{to}", pause.pause_id, body)


def _of_call(pause: Pause, call: PausedCall, before: str | None, to: str, cause: str) -> dict[str, Any]:
    return {
        "run_id": pause.run_id,
        "call_id": call.call_id,
        "revision": pause.revision,
        "epoch": pause.epoch,
        "from": before,
        "to": to,
        "cause": cause,
        "args_hash": call.args_hash,
    }


def _write(tx: Tx, pause: Pause, action: str, actor: str, body: dict[str, Any]) -> None:
    audit.record(tx, pause.workspace_id, actor, action, pause.pause_id, body)
    entry = {"pause_id": pause.pause_id, "actor": actor, **body}
    run_notes.note(tx, pause.run_id, [NewEntry("decision", action, canonical_json(entry))])
