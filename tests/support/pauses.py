"""Pauses for tests: a run that has reached a call which has to wait, and the people who may decide."""

from __future__ import annotations

from typing import Any

from hostler.domain.approvers import ApproverRule
from hostler.domain.events import Caller
from hostler.domain.pause_sealing import Codec
from hostler.domain.pause_values import DecisionRequest, NewCall, NewPause, Pause, PausedCall
from hostler.domain.pauses import CallKind
from hostler.domain.tool_pins import ToolPin
from hostler.pauses.explicit_states import keep
from hostler.storage.port import Tx
from hostler.storage.sql.statements import parse
from hostler.storage.stores import api_keys as keys
from hostler.storage.stores import pause_calls, pauses, runs
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.run_rows import NewRun, Run

WORKSPACE = "w1"
REQUESTER = "rita"
PIN = ToolPin(tool_id="plugin:acme/shop#book", owner="acme/shop", schema_digest="s1")
CLAIM = parse(
    "-- name: claim\nUPDATE runs SET status = 'claimed', host_id = 'h1' WHERE run_id = :run_id", "t"
)
ADMIN = Caller(WORKSPACE, "admin", "admin", frozenset({"admin"}), frozenset({"installation"}))


def open_run(tx: Tx, run_id: str = "r1", workspace: str = WORKSPACE, **fields: Any) -> Run:
    """A run that is under way, attempt 1."""
    new = NewRun(
        workspace_id=workspace,
        run_id=run_id,
        agent_id="a1",
        agent_name="shop",
        agent_version=3,
        runner_id="plugin:acme/shop/default",
        lane=f"lane of {run_id}",
        conversation_id=fields.pop("conversation_id", "c1"),
        requester=fields.pop("requester", REQUESTER),
        **fields,
    )
    runs.open(tx, new, Membership("h1"))
    runs.transition(tx, run_id, 1, "running", cause="test", actor="h1")
    return runs.get(tx, workspace, run_id)


def call(call_id: str = "k1", kind: CallKind = "approval", **asked: Any) -> NewCall:
    """A call that waits; of an approval to book one seat unless said otherwise."""
    effect_key = asked.pop("effect_key", None)
    asked.setdefault("title", f"{kind} {call_id}")
    if kind in {"approval", "in_doubt", "client_tool"}:
        asked.setdefault("tool_name", "shop.book")
        asked.setdefault("arguments", {"item": call_id, "seats": 1})
        asked.setdefault("pin", PIN)
    return NewCall(call_id=call_id, kind=kind, asked=DecisionRequest(**asked), effect_key=effect_key)


def open_pause(tx: Tx, *calls: NewCall, run_id: str = "r1", pause_id: str = "p1", **fields: Any) -> Pause:
    """A pause of the run, with one approval unless said otherwise."""
    new = NewPause(pause_id=pause_id, run_id=run_id, calls=calls or (call(),), **fields)
    return pauses.open(tx, new, cause="a call waits", actor="h1")


def park(tx: Tx, run_id: str = "r1") -> None:
    """The run waits, with no attempt under way."""
    pause = pauses.unsettled(tx, run_id)
    assert pause is not None
    runs.transition(tx, run_id, None, "paused", cause="it waits", actor="h1")
    pauses.set_parked(tx, pause)


def claim_run(tx: Tx, run_id: str = "r1") -> Run:
    """The queued run is under way again, whatever its back-off."""
    run = runs.get(tx, WORKSPACE, run_id)
    assert run.status == "queued"
    tx.run(CLAIM.claim, run_id=run_id)
    runs.transition(tx, run_id, None, "running", cause="test", actor="h1")
    return runs.get(tx, WORKSPACE, run_id)


BLIND = ("pauses:write", "pauses:decide_blind", "runs:read")


def person(
    tx: Tx, subject: str, *roles: str, rights: tuple[str, ...] = BLIND, workspace: str = WORKSPACE
) -> Caller:
    """Somebody with a key of their own, who may leave out digests."""
    key, _ = keys.create(tx, workspace, name=subject, subject=subject, roles=roles, rights=rights)
    return Caller(workspace, subject, key.key_id, key.roles, key.rights)


def rule(*subjects: str, needed: int = 1, separation: bool = False) -> ApproverRule:
    """Who may decide."""
    return ApproverRule(
        subjects=subjects or ("requester", "role:admin"),
        min_approvals=needed,
        separation_of_duty=separation,
    )


async def keep_state(blobs: BlobFolder, codec: Codec, state: Any, pause_id: str = "p1") -> dict[str, Any]:
    """A runner's state as the columns of a pause."""
    kept = await keep(blobs, codec, pause_id, state)
    return {
        "state": kept.state,
        "state_digest": kept.state_digest,
        "state_blob": kept.state_blob,
        "state_format": kept.state_format,
        "data_key": kept.data_key,
    }


def calls_of(tx: Tx, pause_id: str = "p1") -> dict[str, PausedCall]:
    """The calls of a pause, by id."""
    return {one.call_id: one for one in pause_calls.of_pause(tx, pauses.get(tx, WORKSPACE, pause_id))}
