"""The chains of events and of the audit log, computed anew; what people did has its fact in the log."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from typing import Any

from hostler.domain.audit_anchors import read_anchor
from hostler.simulation.entropy import EPOCH
from simulation.life import Life
from simulation.workloads import anchors

CHAINS = {
    "events": (
        "event_id, request_digest, event_type, source, bot_id, conversation_id, thread_id, actor_type,"
        " actor_id, actor_name, subject_type, subject_id, input_summary, body, content_redacted, requester,"
        " event_time, created_at"
    ),
    "audit": "audit_id, actor, action, target, body, created_at",
}


def judge(life: Life) -> list[str]:
    """All of it."""
    found = [finding for chain in CHAINS for finding in _chain(life, chain)]
    return [*found, *_anchors(life), *_cancellations(life), *_decisions(life), *_configuration(life)]


def sha256_of(value: Any) -> str:
    """Return the digest of a value as JSON without spaces, its keys sorted."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _chain(life: Life, chain: str) -> list[str]:
    """Each row's digest follows from the one before, and the head is the last."""
    before: dict[str, tuple[int, str]] = defaultdict(lambda: (0, ""))
    found = []
    for row in life.rows(
        f"SELECT workspace_id, seq, body_digest, digest, {CHAINS[chain]} FROM {chain} ORDER BY 1, 2"
    ):
        workspace, seq, body_digest, linked, *content = row
        last, digest_before = before[workspace]
        if seq != (last or 0) + 1:
            found.append(f"{chain} of {workspace}: row {seq} follows row {last}")
            return found
        body = content[CHAINS[chain].split(", ").index("body")]
        digest = sha256_of(content)
        if str(body_digest).startswith("keyed:") and life.opener is not None:
            name = f"event:{content[0]}" if chain == "events" else f"audit:{workspace}"
            digest = life.opener.keyed(workspace, name, digest)
        if body is not None and digest != body_digest:
            found.append(f"{chain} of {workspace}: row {seq} was changed")
        if sha256_of([digest_before, seq, body_digest]) != linked:
            found.append(f"{chain} of {workspace}: row {seq} does not follow from the one before")
        before[workspace] = (seq, linked)
    for workspace, seq, linked in life.rows(
        f"SELECT workspace_id, seq, digest FROM heads WHERE chain = '{chain}'"
    ):
        if before[workspace] != (seq, linked):
            found.append(f"{chain} of {workspace} ends at row {before[workspace][0]}, its head says {seq}")
    return found


def _anchors(life: Life) -> list[str]:
    """The chains hold what was anchored: nothing is that a power cut can take away."""
    if not life.plan.anchors:
        return []
    file = life.folder / anchors.FILE
    if not file.exists():
        return ["nothing was anchored"]
    rows = {
        (workspace, chain, seq): digest
        for chain in CHAINS
        for workspace, seq, digest in life.rows(f"SELECT workspace_id, seq, digest FROM {chain}")
    }
    return [
        f"row {end.seq} of {end.chain} of {end.workspace} is not what was anchored"
        for line in file.read_bytes().splitlines()
        for end in read_anchor(line, [anchors.KEY]).chains
        if rows.get((end.workspace, end.chain, end.seq)) != end.head
    ]


def _cancellations(life: Life) -> list[str]:
    """A cancellation that was accepted has its fact, unless the run was over by then."""
    facts = {run for (run,) in life.rows("SELECT target FROM audit WHERE action = 'run.cancel_requested'")}
    ends = dict(life.rows("SELECT run_id, finished_at FROM runs WHERE finished_at IS NOT NULL"))
    ahead = sum(max(0.0, one.data["by"]) for one in life.plan.actions if one.what == "clock")
    found = [
        f"run {data['run']} was cancelled by a person, and the audit log does not say so"
        for at, kind, data in life.outside.notes
        if kind == "cancelled"
        and data["run"] not in facts
        and ends.get(data["run"], at) / 1000 - EPOCH - ahead > at
    ]
    asked = {run for (run,) in life.rows("SELECT run_id FROM runs WHERE cancel_requested_at IS NOT NULL")}
    found += [
        f"run {run} is to be cancelled, and the audit log does not say so" for run in sorted(asked - facts)
    ]
    return found


def _decisions(life: Life) -> list[str]:
    """A decision that was acknowledged has the fact of a vote: of another person if it said what they had."""
    facts = set(
        life.rows("SELECT target, json_extract(body, '$.call_id') FROM audit WHERE action = 'pause.vote'")
    )
    # one that was approved ahead, or whose budget was added to, meanwhile: the same again changes nothing
    facts |= set(
        life.rows(
            "SELECT target, json_extract(body, '$.call_id') FROM audit WHERE action = 'pause.call.approved'"
            " AND json_extract(body, '$.cause') IN ('a standing approval', 'its budget was added to',"
            " 'a new day has begun')"
        )
    )
    return [
        f"{data['by']} decided on call {data['call']}, and the audit log does not say so"
        for _, kind, data in life.outside.notes
        if kind in ("decided", "voted") and (data["pause"], data["call"]) not in facts
    ]


def _configuration(life: Life) -> list[str]:
    """Each version of an agent has its fact."""
    facts: Counter[str] = Counter()
    for name, count in life.rows(
        "SELECT target, count(*) FROM audit"
        " WHERE workspace_id = 'default' AND action LIKE 'agent.%' GROUP BY 1"
    ):
        facts[name] = count
    return [
        f"agent {name} has {count} versions, and the audit log has {facts[name]} changes of it"
        for name, count in life.rows(
            "SELECT json_extract(spec, '$.name'), count(*) FROM agent_versions"
            " WHERE workspace_id = 'default' GROUP BY 1"
        )
        if count > facts[name]
    ]
