"""What truly happened in a life, counted from the facts and from the log of the outside.

A feature that a plan names and that never comes about proves nothing: `python -m simulation coverage` counts
over many lives, and a test demands that each of these occurs.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from simulation.life import Life
from simulation.workloads.faults import KINDS

TOOLS = ("note", "book", "pay", "price", "refund")
_OVER = "('completed', 'failed', 'cancelled', 'timeout')"
_AFTER_LOSS = "kind = 'lifecycle' AND type = 'queued' AND data LIKE '%ended during the run; {}%'"


@dataclass(frozen=True)
class Facts:
    """What is known of a life at its end."""

    life: Life
    database: sqlite3.Connection

    def count(self, sql: str) -> int:
        """Return the number that a query returns."""
        (number,) = self.database.execute(sql).fetchone()
        return int(number or 0)

    def noted(self, kind: str, **data: Any) -> int:
        """Count notes of the outside with these values."""
        return sum(
            all(values.get(name) == value for name, value in data.items())
            for values in self._notes.get(kind, ())
        )

    @cached_property
    def _notes(self) -> dict[str, list[dict[str, Any]]]:
        """What the outside noted, by kind."""
        found: dict[str, list[dict[str, Any]]] = {}
        for _, kind, values in self.life.outside.notes:
            found.setdefault(kind, []).append(values)
        return found

    def logged(self, text: str) -> int:
        """Count messages of the hosts' logs that hold a text."""
        return sum(text in record.getMessage() for record in self.life.logged.records)


Count = Callable[[Facts], int]


def _sql(query: str) -> Count:
    return lambda facts: facts.count(query)


def _journal(where: str) -> Count:
    return _sql(f"SELECT count(*) FROM journal WHERE {where}")


def _runs(where: str) -> Count:
    return _sql(f"SELECT count(*) FROM runs WHERE {where}")


def _outbox(where: str) -> Count:
    return _sql(f"SELECT count(*) FROM outbox WHERE {where}")


def _calls(where: str) -> Count:
    return _sql(f"SELECT count(*) FROM pause_calls WHERE {where}")


def _audit(action: str) -> Count:
    return _sql(f"SELECT count(*) FROM audit WHERE action = '{action}'")


def _noted(kind: str, **data: Any) -> Count:
    return lambda facts: facts.noted(kind, **data)


def _logged(text: str) -> Count:
    return lambda facts: facts.logged(text)


def _call(method: str) -> Count:
    return _journal(f"kind = 'call' AND type = '{method}' AND data LIKE '%\"reply\":%'")


def _collected(kind: str) -> Count:
    pattern = re.compile(rf"^collected: .*\b{kind}\b")
    return lambda facts: sum(bool(pattern.search(one.getMessage())) for one in facts.life.logged.records)


def _looked(facts: Facts) -> int:
    return facts.life.outside.asked["look"]


def _events(outcome: str) -> Count:
    return _sql(f"SELECT count(*) FROM events WHERE outcome = '{outcome}'")


def _made(tool: str) -> Count:
    return lambda facts: sum(effect.tool == tool and effect.made for effect in facts.life.outside.effects)


def _lane(facts: Facts) -> int:
    return facts.count(
        "SELECT count(*) FROM runs a JOIN runs b ON a.lane = b.lane AND a.run_id < b.run_id"
        " WHERE a.parallel = 1 AND b.parallel = 1 AND b.started_at < a.finished_at"
        " AND a.started_at < b.finished_at"
    )


def _again(tool: str) -> Count:
    """Count calls whose request arrived more than once."""

    def count(facts: Facts) -> int:
        arrived = [(one.run, one.call) for one in facts.life.outside.effects if one.tool == tool]
        return len(arrived) - len(set(arrived))

    return count


_LONG = (
    "SELECT count(*) FROM (SELECT 1 FROM journal WHERE type = 'message.delta'"
    " GROUP BY run_id HAVING sum(count) > 1100)"
)

LANES: dict[str, Count] = {
    "messages that start a run": _events("started"),
    "messages that wait in their lane": _events("queued"),
    "messages steered into a run": _events("steered"),
    "messages that a busy lane rejects": _events("rejected"),
    "runs interrupted by a newer message": _runs(
        "status = 'cancelled' AND cancel_reason LIKE 'interrupted%'"
    ),
    "runs at once in a parallel lane": _lane,
    "pauses superseded by a newer message": _runs("cancel_reason LIKE 'superseded%'"),
    "debounced turns of several messages": _sql(
        "SELECT count(*) FROM (SELECT 1 FROM gathered GROUP BY run_id HAVING count(*) > 1)"
    ),
    "messages with a delay": _runs("not_before IS NOT NULL AND gathering IS NULL"),
    "messages for the agent of higher priority": _runs("agent_name = 'talk'"),
    "messages that named no agent": _sql(
        "SELECT count(*) FROM events WHERE routing NOT LIKE '%\"agent\":null%'"
    ),
    "steers that a run pulled": _journal("type = 'steering.injected'"),
    "steers that became a run of their own": _journal("type = 'steering.requeued'"),
    "steers that were dropped": _journal("type = 'steering.dropped'"),
    "messages delivered again": _noted("sent again", other=False, duplicate=True),
    "messages delivered again with another body": _noted("sent again", other=True, code="conflict"),
    "messages with a file": _sql("SELECT count(*) FROM events WHERE content_redacted = 1"),
    "messages routed by a filter": _runs("agent_name IN ('left', 'right')"),
    "messages that no filter wanted": _events("unrouted"),
    "messages put off until filters worked": _noted("accepted", outcome="deferred"),
    "messages refused by a full queue": _noted("not now", code="rate_limited"),
    "runs that overtook one of lower priority": _sql(
        "SELECT count(*) FROM runs a JOIN runs b ON a.created_at < b.created_at AND a.priority < b.priority"
        " AND a.started_at > b.started_at AND a.not_before IS NULL AND a.lane <> b.lane"
    ),
}
RUNS: dict[str, Count] = {
    "runs that completed": _runs("status = 'completed'"),
    "runs that failed by themselves": _runs("status_code IN ('runner.error', 'actor.busy')"),
    "child runs": _runs("parent_run_id IS NOT NULL"),
    "child runs refused by a policy": _journal(
        "kind = 'refusal' AND type = 'run.create' AND data LIKE '%allowed_agents%'"
    ),
    "children of children": _sql(
        "SELECT count(*) FROM runs a JOIN runs b ON a.parent_run_id = b.run_id"
        " WHERE b.parent_run_id IS NOT NULL"
    ),
    "children cancelled with their parent": _runs("cancel_reason LIKE 'its parent run%'"),
    "runs that people cancelled": _runs("status = 'cancelled' AND cancel_reason = 'they wish so'"),
    "cancellations that a runner ignores": _noted("ignored a cancellation"),
    "deadlines that passed": _journal("type = 'timeout' AND data LIKE '%deadline%'"),
    "idle timeouts": _journal("type = 'timeout' AND data LIKE '%idle_timeout%'"),
    "retries that ended": _sql(
        "SELECT count(*) FROM run_sources JOIN runs USING (run_id)"
        f" WHERE kind = 'retry' AND status IN {_OVER}"
    ),
    "forks that completed": _sql(
        "SELECT count(*) FROM run_sources JOIN runs USING (run_id)"
        " WHERE kind = 'fork' AND status = 'completed'"
    ),
    "forks at an earlier step": _sql("SELECT count(*) FROM run_sources WHERE kind = 'fork' AND step > 0"),
    "forks with effects": _sql("SELECT count(*) FROM run_sources WHERE kind = 'fork' AND effects = 1"),
    "runs resumed after a host ended": _journal(_AFTER_LOSS.format("it resumes") + " AND data LIKE '%host%'"),
    "runs resumed after a plugin ended": _journal(
        _AFTER_LOSS.format("it resumes") + " AND data LIKE '%the plugin%'"
    ),
    "runs begun anew after a loss": _journal(_AFTER_LOSS.format("it restarts")),
    "runs failed by the loss of a host": _runs("status_code = 'host.restarted'"),
    "runs failed by the loss of a plugin": _runs("status_code = 'runner.crashed'"),
    "runs handed over by a host that stops": _journal(
        "type = 'queued' AND (data LIKE '%was stopped before%' OR data LIKE '%stopped in order during%')"
    ),
    "attempts beyond the third": _sql("SELECT count(*) FROM runs WHERE attempt > 3"),
}
CALLS: dict[str, Count] = {
    **{f"effects of {tool}": _made(tool) for tool in TOOLS},
    "idempotent calls made again": _again("book"),
    "pure calls made again": _again("price"),
    "calls looked up": _looked,
    "writes of state": _call("state.set"),
    "writes of state refused by their version": _journal(
        "kind = 'call' AND type = 'state.set' AND data LIKE '%\"conflict\"%'"
    ),
    "deletions of state": _call("state.delete"),
    "uploads of files": _call("artifact.upload"),
    "reads of files": _call("artifact.read"),
    "writes of storage": _call("storage.set"),
    "reads of history": _call("history.page"),
    "searches": _call("history.search"),
    "runs that look at runs": _call("run.events"),
    "children cancelled by their parent": _call("run.cancel"),
    "calls of models that were reserved": _journal("kind = 'call' AND data LIKE '%\"reserved\":%'"),
    "calls that waited for more of a budget": _calls("kind = 'budget'"),
    "calls that went on with more of a budget": _calls("kind = 'budget' AND decision = 'approved'"),
    "calls for which people added nothing": _calls("kind = 'budget' AND decision IN ('denied', 'expired')"),
    "additions to budgets": _sql("SELECT count(*) FROM budget_top_ups"),
    "runs ended by a budget": _runs("status_code = 'budget.exceeded'"),
    "calls refused by a budget": _journal("kind = 'refusal' AND data LIKE '%budget%'"),
    "calls refused by a rate": _journal(
        "kind = 'refusal' AND data LIKE '%\"rate_limited\"%' AND data NOT LIKE '%budget%'"
    ),
    "model calls": _journal("kind = 'call' AND type LIKE 'model.%'"),
    "runs of the shipped agent that completed": _runs(
        "runner_id LIKE '%local-agent%' AND status = 'completed'"
    ),
    "calls of tools that a model asked for": _sql(
        "SELECT count(*) FROM journal JOIN runs USING (run_id)"
        " WHERE runner_id LIKE '%local-agent%' AND kind = 'call' AND type = 'tool.call'"
    ),
    "calls refused": _journal("kind = 'call' AND data LIKE '%\"error\":%'"),
}
PEOPLE: dict[str, Count] = {
    "approvals": _calls("kind = 'approval' AND decision = 'approved'"),
    "denials": _calls("kind = 'approval' AND decision = 'denied'"),
    "questions answered": _calls("kind = 'question' AND decision = 'answered'"),
    "client tools answered": _calls("kind = 'client_tool' AND decision = 'answered'"),
    "client tools that failed": _noted("decided", type="error"),
    "arguments edited": _calls("edited_by IS NOT NULL"),
    "edited calls executed": _calls("edited_by IS NOT NULL AND execution = 'succeeded'"),
    "calls that two people approved": _sql(
        "SELECT count(*) FROM (SELECT 1 FROM decision_votes v JOIN pause_calls c USING (pause_id, call_id)"
        " WHERE c.decision = 'approved' AND v.vote = 'approve'"
        " GROUP BY pause_id, call_id HAVING count(DISTINCT v.subject) > 1)"
    ),
    "calls that expired": _calls("decision = 'expired'"),
    "expired calls after which the run went on": _sql(
        "SELECT count(*) FROM pause_calls JOIN runs USING (run_id)"
        " WHERE decision = 'expired' AND status = 'completed'"
    ),
    "runs cancelled by an expired call": _runs("cancel_reason LIKE 'nobody answered%'"),
    "pauses cancelled by people": _noted("pause cancelled"),
    "decisions repeated": _noted("repeated"),
    "decisions refused": _noted("decision refused"),
    "runs parked while they wait": _journal("kind = 'lifecycle' AND type = 'paused'"),
    "explicit pauses resumed": _sql(
        "SELECT count(*) FROM pauses WHERE form = 'explicit' AND status = 'resumed'"
    ),
    "calls in doubt that people resolved": _noted("resolved"),
    "sealed pauses resumed": _sql(
        "SELECT count(*) FROM pauses WHERE data_key IS NOT NULL AND status = 'resumed'"
    ),
    "keys of pauses changed": _noted("operated", what="change pause key"),
    "keys of people revoked": _noted("revoked"),
    "members removed": _sql("SELECT count(*) FROM members WHERE removed_at IS NOT NULL"),
    "calls approved ahead": _calls("similar_id IS NOT NULL"),
    "calls that joined an open pause": _sql(
        "SELECT count(*) FROM audit WHERE action = 'pause.call.undecided' AND body LIKE '%\"from\":null%'"
    ),
    "calls asked again at a later revision": _calls("revision > 1"),
}
OPERATORS: dict[str, Count] = {
    "configuration changes": _noted("operated", what="change agent"),
    "agents disabled and enabled": _noted("operated", what="disable agent"),
    "agents pruned and brought back": _noted("operated", what="prune"),
    "runs of a later agent version": _runs("agent_version > 1"),
    "plugins restarted": _noted("operated", what="restart plugin"),
    "plugins upgraded": _noted("operated", what="upgrade plugin"),
    "hosts rolled": _noted("operated", what="roll"),
    "backups taken": _noted("operated", what="backup"),
    "secrets set": lambda facts: sum(
        kind == "changed secret" and data["number"] is not None for _, kind, data in facts.life.outside.notes
    ),
    "secrets removed": _noted("changed secret", number=None),
    "attempts with a secret": _noted("has secret"),
    "later attempts with a secret": lambda facts: sum(
        kind == "has secret" and data["attempt"] > 1 for _, kind, data in facts.life.outside.notes
    ),
    "runs without the secret that they need": _runs(
        "status = 'failed' AND agent_name = 'holder' AND attempt = 1"
    ),
    "old master keys taken away": _noted("operated", what="drop master key"),
    "conversations deleted": _noted("erased", what="conversation"),
    "people's data deleted": _noted("erased", what="actor"),
    "deletions refused while a run is active": _noted("erasure refused"),
    "pauses deleted": lambda facts: sum(
        "pauses" in data["deleted"] for _, kind, data in facts.life.outside.notes if kind == "erased"
    ),
    "backups restored": _noted("restored"),
    "runs replayed": _noted("replayed"),
    "retention set": _noted("operated", what="collect"),
    "files removed by retention": _collected("artifacts"),
    "states removed by retention": _collected("states"),
    "runs of a second workspace": _runs("workspace_id <> 'default'"),
    "misdeeds of hostile plugins": _noted("misdeed"),
    "runs ended for a violated protocol": _runs("status_code = 'runner.protocol'"),
    "results that were too large": _runs("status_code = 'payload_too_large'"),
}
SOURCES: dict[str, Count] = {
    "requests that a hook took": _noted("hook took", outcome="accepted"),
    "requests that a hook knew": _noted("hook took", outcome="duplicate"),
    "requests that a hook refused": _noted("hook refused", known=False),
    "firings of schedules": _sql("SELECT count(*) FROM firings WHERE event_id IS NOT NULL"),
    "late firings": _sql("SELECT count(*) FROM firings WHERE event_id IS NOT NULL AND late > 1000"),
    "planned times left out": _sql("SELECT sum(left_out) FROM firings"),
    "firings that people asked for": _noted("fired now"),
    "reminders that runs made": _sql("SELECT count(*) FROM schedules WHERE run_id IS NOT NULL"),
    "posts in chats": _noted("posted in chat"),
    "presses in chats that decide": _sql("SELECT count(*) FROM chat_answers WHERE refused = 0"),
    "presses in chats that are refused": _sql("SELECT count(*) FROM chat_answers WHERE refused = 1"),
    "answers in chats that grow": lambda facts: len(facts.life.outside.square.edits),
    "messages sent in chats": _outbox("status = 'sent'"),
    "messages tried again": _outbox("status = 'sent' AND attempts > 1"),
    "messages perhaps sent twice": _outbox("maybe_twice = 1"),
    "messages left in doubt": _outbox("status = 'in_doubt'"),
    "messages that a platform refused": _outbox("status = 'failed'"),
}
STREAMS: dict[str, Count] = {
    "deltas": _journal("type = 'message.delta'"),
    "results seen by readers": _noted("seen"),
    "results superseded by a later attempt": _journal("type = 'attempt.started'"),
    "streams read again when over": _noted("read late"),
    "streams of more than 1,100 deltas": _sql(_LONG),
    "entries seen by watchers of many runs": _noted("watched"),
}


def _happened(text: str) -> Count:
    def count(facts: Facts) -> int:
        return sum(kind == "happened" and text in data["what"] for _, kind, data in facts.life.outside.notes)

    return count


def _action(what: str) -> Count:
    return _noted("action", what=what)


def _all_faults(facts: Facts) -> int:
    """Count faults that came about: a moment that never comes is none."""
    planned = sum(kind == "action" and data["what"] in KINDS for _, kind, data in facts.life.outside.notes)
    return planned + facts.noted("fault")


IN_ALL = "faults in all"
FAULTS: dict[str, Count] = {
    IN_ALL: _all_faults,
    "hosts killed": _happened("is killed"),
    "hosts frozen": _happened("is frozen"),
    "hosts thawed": _happened("is thawed"),
    "hosts stopped in order": _happened("has stopped in order"),
    "all hosts killed at once": _noted("fault", what="kill all"),
    "all hosts frozen at once": _noted("fault", what="freeze all"),
    "hosts killed right after a commit": _noted("fault", what="kill host after commits"),
    "plugins killed": _action("kill plugin"),
    "plugins killed in mid message": _noted("fault", what="kill plugin after messages"),
    "plugins frozen": _noted("fault", what="freeze plugin"),
    "plugins that die again and again": _noted("fault", what="plugin dies again and again"),
    "connections cut": _noted("fault", what="disconnect plugin"),
    "power cuts": _noted("power cut"),
    "power cuts that lost commits": lambda facts: sum(
        kind == "power cut" and data["lost"] > 0 for _, kind, data in facts.life.outside.notes
    ),
    "full disks": _action("disk full"),
    "slow disks": _action("disk slow"),
    "commits that failed with an I/O error": lambda facts: facts.life.hosts[0].disk.failed,
    "attempts ended by a commit that nobody knows of": _logged("; the next search for lost runs settles it"),
    "commits whose answer was lost": lambda facts: facts.life.hosts[0].disk.unheard,
    "jumps of a clock": _action("clock"),
    "leases lost": _logged("this host ends its attempts, and joins again"),
    "runs of a lost host taken over": _logged("which lost them; settled"),
    "attempts fenced": lambda facts: sum(
        record.name == "hostler.runs.attempt" for record in facts.life.logged.records
    ),
}
GROUPS: dict[str, dict[str, Count]] = {
    "lanes and turns": LANES,
    "runs": RUNS,
    "calls": CALLS,
    "people": PEOPLE,
    "operators": OPERATORS,
    "sources of events": SOURCES,
    "streams": STREAMS,
    "faults": FAULTS,
}


ALL = tuple(name for group in GROUPS.values() for name in group)


def occurrences(life: Life) -> dict[str, int]:
    """Count what happened in a life."""
    with closing(sqlite3.connect(life.hosts[0].disk.path)) as database:
        facts = Facts(life, database)
        return {name: count(facts) for group in GROUPS.values() for name, count in group.items()}


def few(lives: Mapping[str, dict[str, int]]) -> list[str]:
    """Return seeds, as few as a greedy choice finds, whose lives show all that these lives show."""
    left = {name for name in ALL if any(counts.get(name) for counts in lives.values())}
    chosen = []
    while left:
        shows = {
            seed: left.intersection(name for name in ALL if counts.get(name))
            for seed, counts in lives.items()
        }
        best = max(shows, key=lambda seed: len(shows[seed]))
        chosen.append(best)
        left -= shows[best]
    return sorted(chosen, key=int)
