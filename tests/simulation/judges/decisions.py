"""Decisions: who made them, what they permitted, and what runners were told of them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

from simulation.judges.chains import sha256_of
from simulation.life import Life

FIRST_SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
"""Of the parameters of tools in the first version of the plugin."""
VOTES_OF = {"denied": {"deny"}, "answered": {"result", "error", "answer", "happened"}}


def judge(life: Life) -> list[str]:
    """All of it."""
    return [
        *_votes(life),
        *_permitted(life),
        *_told(life),
        *_kept(life),
        *_ahead(life),
        *_sealed(life),
        *_revoked(life),
    ]


def _votes(life: Life) -> list[str]:
    """Each decision has the votes that its rule asks for, of people whom it names."""
    votes: dict[tuple[str, str], list[tuple[str, str, str, int]]] = defaultdict(list)
    for pause, call, subject, vote, args, revision in life.rows(
        "SELECT pause_id, call_id, subject, vote, args_hash, revision FROM decision_votes"
    ):
        votes[pause, call].append((subject, vote, args, revision))
    found = []
    rows = life.rows(
        "SELECT c.pause_id, c.call_id, c.kind, c.decision, c.decided_by, c.args_hash, c.asked, c.similar_id,"
        " c.edited_by, c.resolution, p.requester, c.decided_at, c.expires_at, c.review"
        " FROM pause_calls c JOIN pauses p ON p.pause_id = c.pause_id"
    )
    for pause, call, kind, decision, by, args, asked, similar, _, resolution, requester, at, until, _ in rows:
        which = f"call {call} of pause {pause}"
        given = votes[pause, call]
        rule = json.loads(asked).get("rule") or {}
        if decision == "approved" and kind == "approval" and similar is None:
            yes = {subject for subject, vote, of, _ in given if vote == "approve" and of == args}
            if rule.get("separation_of_duty"):
                yes.discard(requester)
            if len(yes) < rule.get("min_approvals", 1) and not resolution:
                found.append(f"{which} is approved by {sorted(yes)}, its rule is {rule}")
        if decision not in VOTES_OF or by == "host":
            pass
        elif not any(vote in VOTES_OF[decision] and subject == by for subject, vote, _, _ in given):
            found.append(f"{which} is {decision} by {by}, who never said so: {given}")
        if decision == "expired" and until is not None and at < until:
            found.append(f"{which} expired {until - at} ms before its time")
    return found


def _permitted(life: Life) -> list[str]:
    """What reached the tools is what was approved, and only that."""
    asked: dict[tuple[str, str], tuple[str, str, str]] = {}
    anew = defaultdict[str, set[str]](set)
    """Definitions of tools that had changed when people were asked, by run: the digest covers them."""
    later = defaultdict(set)
    """Whether a later version of the tool was approved, by call of a run: both, if it began again."""
    most: Counter[tuple[str, str]] = Counter()
    for run, call, tool, decision, args, key, resolution, version, definition in life.rows(
        "SELECT run_id, call_id, json_extract(asked, '$.tool_name'), decision, args_hash, effect_key,"
        " resolution, json_extract(asked, '$.pin.schema_digest'),"
        " CASE WHEN json_extract(asked, '$.changed') THEN json_extract(asked, '$.definition') END"
        " FROM pause_calls WHERE kind = 'approval' ORDER BY created_at"
    ):
        if definition is not None:
            anew[run].add(definition)
        known = asked[run, call] = (call, decision, args)
        most[run, call] += resolution + 1 if decision == "approved" else 0
        if key is not None:  # of a run that began again: the call was asked once more, in another pause
            asked[run, key] = known
        later[run, call, decision].add(version != sha256_of(FIRST_SCHEMA))
        if decision == "approved":  # of a runner that pauses its run itself: the call has another id
            asked[run, f"{tool} {args}"] = known
    changed = {(data["run"], data["call"]) for _, kind, data in life.outside.notes if kind == "later version"}
    ahead = set(
        life.rows(
            "SELECT json_extract(body, '$.run_id'), json_extract(body, '$.call_id') FROM audit"
            " WHERE action = 'approval_rule.used'"
        )
    )
    found, keys = [], defaultdict(set)
    for effect in life.outside.effects:
        if (effect.run, effect.call) in ahead - asked.keys():
            continue  # nobody was asked: `_ahead`
        run, args = effect.run, {"text": effect.text}
        digests = [sha256_of(args), *(sha256_of([args, definition]) for definition in sorted(anew[run]))]
        names = [effect.key, effect.call, *(f"actor.{effect.tool} {digest}" for digest in digests)]
        match = next((asked[run, name] for name in names if (run, name) in asked), None)
        which = f"{effect.tool} was called for call {effect.call} of run {run}"
        if match is None:
            if effect.tool == "refund":
                found.append(f"{which}, which nobody was asked")
            continue
        call, decision, approved = match
        if decision != "approved":
            found.append(f"{which}, which is {decision}")
        if approved not in digests:
            found.append(f"{which} with {effect.text!r}, other arguments were approved")
        if ((run, effect.call) in changed) not in later[run, call, decision]:
            found.append(f"{which} in another version than was approved")
        keys[run, call].add(effect.key)
        if len(keys[run, call]) > most[run, call]:
            found.append(f"{which} under another effect key than before")
    return found


def _told(life: Life) -> list[str]:
    """Runners are told `denied` and `expired` only of calls that were denied, and that expired.

    Forks without effects are denied what the run did not do from which they come; runs of agents that ask
    nobody are denied their questions. Where people did not add to a budget, all later calls that need it are
    told so.
    """
    mute = [spec["name"] for spec in life.plan.agents if not spec.get("allow_questions", True)]
    forks = {run for (run,) in life.rows("SELECT run_id FROM run_sources")}
    forks |= {run for run, agent in life.rows("SELECT run_id, agent_name FROM runs") if agent in mute}
    decided: Counter[tuple[str, str]] = Counter()
    for run, decision, count in life.rows("SELECT run_id, decision, count(*) FROM pause_calls GROUP BY 1, 2"):
        decided[run, decision] = count
    budgets = set(life.rows("SELECT run_id, decision FROM pause_calls WHERE kind = 'budget'"))
    told: dict[tuple[str, str], set[str]] = defaultdict(set)
    for _, kind, data in life.outside.notes:
        answer = data.get("answer")
        if kind == "answered" and isinstance(answer, dict) and data["run"] not in forks:
            for said in ("denied", "expired"):
                if said in (answer.get("error"), answer.get("decision")):
                    told[data["run"], said].add(data["step"])
    return [
        f"run {run} was told at steps {sorted(steps)} that a call is {said},"
        f" and {decided[run, said]} of its calls are"
        for (run, said), steps in told.items()
        if len(steps) > decided[run, said] and (run, said) not in budgets
    ]


def _kept(life: Life) -> list[str]:
    """What a runner keeps over its pause is there when people are asked, and comes back as it was."""
    found = []
    for pause, state, blob, digest in life.rows(
        "SELECT pause_id, state, state_blob, state_digest FROM pauses"
        " WHERE form = 'explicit' AND data_key IS NULL"
    ):
        if digest is None or (state is None and blob is None):
            found.append(f"pause {pause} asks people, and what its runner keeps is not there")
        elif blob is None and sha256_of(json.loads(state)) != digest:
            found.append(f"pause {pause} keeps another state than its digest says")
    kept: dict[str, list[Any]] = defaultdict(list)
    for _, kind, data in life.outside.notes:
        if kind == "kept":
            kept[data["run"]].append(data["state"])
        elif kind == "continued" and data["state"] not in kept[data["run"]]:
            found.append(
                f"run {data['run']} was continued with {data['state']}, and kept {kept[data['run']]}"
            )
    return found


def _ahead(life: Life) -> list[str]:
    """What was approved ahead is like the call that a person approved, and not more than that allows."""
    rules = {
        rule: (tool, names == "null", json.loads(effective) if effective else json.loads(asked)["arguments"])
        for rule, tool, names, asked, effective in life.rows(
            "SELECT r.rule_id, r.tool_name, r.arguments, c.asked, c.effective FROM approval_rules r"
            " JOIN pause_calls c ON c.pause_id = r.pause_id AND c.call_id = r.call_id"
        )
    }
    texts = {(effect.run, effect.call): effect.text for effect in life.outside.effects}
    found, used, allowed = [], Counter[str](), {}
    for action, rule, text in life.rows(
        "SELECT action, target, body FROM audit WHERE action LIKE 'approval_rule.%' ORDER BY seq"
    ):
        body = json.loads(text)
        if action == "approval_rule.created":
            allowed[rule] = body["uses"]
        elif action == "approval_rule.used":
            used[rule] += 1
            which = f"call {body['call_id']} of run {body['run_id']}, approved ahead by rule {rule},"
            if used[rule] > allowed.get(rule, 0):
                found.append(f"{which} is number {used[rule]}, of {allowed.get(rule, 0)}")
            tool, whole, arguments = rules.get(rule, (None, False, {}))
            given = texts.get((body["run_id"], body["call_id"]))
            other = whole and given is not None and {"text": given} != arguments
            if rule in rules and (tool != body["tool_name"] or other):
                found.append(f"{which} is not like the call of {tool} with {arguments}")
    return found


def _sealed(life: Life) -> list[str]:
    """With a key, nothing that a runner keeps is stored in the clear."""
    rows = life.rows("SELECT pause_id, data_key, state FROM pauses WHERE form = 'explicit'")
    return [
        f"what the runner keeps over pause {pause} is not sealed"
        for pause, key, state in rows
        if life.plan.pause_key and (key is None or (state is not None and b"answers" in bytes(state)))
    ]


def _revoked(life: Life) -> list[str]:
    """No call begins that is approved by people whose key is revoked, or who were removed, alone or with too
    few others; and who was removed has no session.

    Times are those of one clock: where it is set nobody knows what was first.
    """
    if any(action.what == "clock" for action in life.plan.actions):
        return []
    revoked = dict(life.rows("SELECT key_id, revoked_at FROM api_keys WHERE revoked_at IS NOT NULL"))
    revoked |= dict(
        life.rows("SELECT 'member:' || member_id, removed_at FROM members WHERE removed_at IS NOT NULL")
    )
    keys = dict(life.rows("SELECT rule_id, key_id FROM approval_rules"))
    ahead: dict[tuple[str, str], str | None] = {}
    found = [
        f"session {session} of member {member}, who was removed, is not over"
        for session, member in life.rows(
            "SELECT s.session_id, s.member_id FROM sessions s JOIN members m ON m.member_id = s.member_id"
            " WHERE m.removed_at IS NOT NULL AND s.revoked_at IS NULL"
        )
    ]
    for rule, run, call, at in life.rows(
        "SELECT target, json_extract(body, '$.run_id'), json_extract(body, '$.call_id'), created_at"
        " FROM audit WHERE action = 'approval_rule.used' ORDER BY seq"
    ):
        ahead[run, call] = keys.get(rule)
        if at > revoked.get(keys.get(rule), at):
            found.append(f"call {call} of run {run} was approved ahead with a key that was revoked before")
    for run, call, at in life.rows(
        "SELECT run_id, json_extract(data, '$.call_id'), min(at) FROM journal"
        " WHERE kind = 'intent' AND type = 'tool.call' GROUP BY 1, 2"
    ):
        approvals = life.rows(
            "SELECT v.subject, v.key_id, coalesce(json_extract(c.asked, '$.rule.min_approvals'), 1)"
            " FROM decision_votes v JOIN pause_calls c ON c.pause_id = v.pause_id AND c.call_id = v.call_id"
            f" WHERE c.run_id = '{run}' AND c.call_id = '{call}' AND v.vote = 'approve'"
            f" AND c.similar_id IS NULL AND v.created_at <= {at}"
        )
        valid = {subject for subject, key, _ in approvals if revoked.get(key, at) >= at}
        if approvals and len(valid) < approvals[0][2]:
            found.append(f"call {call} of run {run} was made after the key that had approved it was revoked")
        if not approvals and at > revoked.get(ahead.get((run, call)), at):
            found.append(
                f"call {call} of run {run} was made after the key that approved it ahead was revoked"
            )
    return found
