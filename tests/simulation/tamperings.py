"""What must not be, for each judge: a life that is sound is tampered with, and the judge names it."""

from __future__ import annotations

import logging

from simulation.life import Life
from simulation.tampering import (
    Tampering,
    again,
    change_note,
    drop_note,
    effect,
    file,
    instead,
    logged,
    metric,
    move_note,
    note,
    one_of,
    standing,
    without,
)
from simulation.tamperings_budgets import BUDGETS
from simulation.tamperings_families import FAMILIES
from simulation.tamperings_left import LEFT
from simulation.tamperings_lost import LOST
from simulation.tamperings_quotas import QUOTAS
from simulation.tamperings_secrets import SECRETS
from simulation.tamperings_sources import SOURCES
from simulation.tamperings_watched import WATCHED
from simulation.workloads import anchors

RUN = "(SELECT run_id FROM runs WHERE event_id = '{}' AND workspace_id = 'default' LIMIT 1)"
TURN, TALK, QUEUE = RUN.format("turn2"), RUN.format("talk1"), RUN.format("queue1")
LATER = RUN.format("queue2")
PLAIN, TIMED = RUN.format("plain2"), RUN.format("plain1")
REFUND = "(SELECT call_id FROM pause_calls WHERE run_id = " + LATER + ")"
ASKED = "(SELECT pause_id FROM pauses WHERE run_id = " + LATER + ")"
FACT = "(SELECT seq FROM audit WHERE action = '{}' ORDER BY seq LIMIT 1)"
LIFECYCLE = "UPDATE journal SET {} WHERE kind = 'lifecycle' AND type = '{}' AND run_id = {}"


def facts_of(action: str, name: str, value: str) -> str:
    """Change a field of the first fact of an action, and what its chain says of it is another finding."""
    return (
        f"UPDATE audit SET body = json_set(body, '$.{name}', json('{value}')) WHERE workspace_id = 'default'"
        f" AND seq = {FACT.format(action)}"
    )


def change_answer(life: Life) -> None:
    """Let a runner have heard something else than what is recorded, after it has heard that."""
    at, _, data = next(
        one for one in reversed(life.outside.notes) if one[1] == "answered" and "#" in str(one[2]["answer"])
    )
    life.outside.notes.append((at, "answered", {**data, "answer": "else"}))


def lost_pause(life: Life) -> None:
    """Let a run have failed in a crash after its runner paused it."""
    run = RUN.format("paused")
    life.rows(f"UPDATE runs SET status = 'failed', status_code = 'host.restarted' WHERE run_id = {run}")
    life.rows(
        f"DELETE FROM journal WHERE run_id = {run} AND last_position >"
        f" (SELECT max(last_position) FROM journal WHERE run_id = {run} AND type = 'paused')"
    )


def long_held(life: Life) -> None:
    """Let a run go on long after one of its calls was found to be in doubt, without a fault meanwhile."""
    life.outside.notes = [one for one in life.outside.notes if one[1] not in ("happened", "action", "fault")]
    life.rows(
        "UPDATE journal SET at = at + 5000 WHERE kind = 'lifecycle' AND last_position >"
        " (SELECT min(last_position) FROM journal j WHERE j.run_id = journal.run_id"
        "  AND type = 'pause.needs_review')"
    )


def later_version(life: Life) -> None:
    """Let all refunds have been made by a later version of the tool."""
    for one in life.outside.effects:
        if one.tool == "refund":
            life.outside.note("later version", run=one.run, call=one.call)


def logged_secret(life: Life) -> None:
    """Let a host have logged a secret."""
    life.logged.records.append(logging.makeLogRecord({"msg": min(life.secrets)}))


def two_processes(life: Life) -> None:
    """Let a plugin have been started twice."""
    life.world.plugins.lives.append(next(one for one in life.world.plugins.lives if one.process.alive))


TAMPERINGS = [
    Tampering("answers.judge", "as the workload says", note("wrong", text="as the workload says")),
    *LOST,
    *FAMILIES,
    *QUOTAS,
    *SECRETS,
    *SOURCES,
    *BUDGETS,
    *WATCHED,
    # -- attempts
    Tampering(
        "attempts._counts",
        "was lost 1 times and tried again",
        LIFECYCLE.format(
            "type = 'queued', data = json_set(data, '$.cause', 'the plugin process ended during the run; x')",
            "running",
            "(SELECT run_id FROM runs WHERE agent_name = 'once')",
        ),
    ),
    Tampering(
        "attempts._counts",
        "was lost although nothing had gone wrong",
        LIFECYCLE.format(
            "type = 'queued', data = json_set(data, '$.cause', 'the plugin process ended during the run; x')",
            "running",
            QUEUE,
        ),
    ),
    Tampering(
        "attempts._children",
        "and its child",
        "UPDATE runs SET cancel_requested_at ="
        " (SELECT created_at + 1 FROM runs WHERE parent_run_id IS NOT NULL)"
        " WHERE run_id = (SELECT parent_run_id FROM runs WHERE parent_run_id IS NOT NULL)",
    ),
    Tampering(
        "attempts._endings",
        "failed with host.error",
        one_of("runs", "status = 'failed'", status_code="'host.error'"),
    ),
    Tampering(
        "attempts._own_pauses",
        "had done nothing since its runner paused it",
        lost_pause,
    ),
    # -- chains
    Tampering("chains._chain", "row 3 was changed", "UPDATE audit SET actor = 'nobody' WHERE seq = 3"),
    Tampering(
        "chains._chain", "row 4 follows row 2", without("audit", "seq = 3 AND workspace_id = 'default'")
    ),
    Tampering("chains._chain", "does not follow from the one before", one_of("audit", digest="'x'")),
    Tampering("chains._chain", "its head says", "UPDATE heads SET seq = seq - 1 WHERE chain = 'audit'"),
    Tampering(
        "chains._chain", "events of default: row 2 was changed", one_of("events", "seq = 2", body="'{}'")
    ),
    Tampering(
        "chains._anchors",
        "of audit of default is not what was anchored",
        "UPDATE audit SET digest = 'another' WHERE workspace_id = 'default'",
    ),
    Tampering("chains._anchors", "nothing was anchored", lambda life: (life.folder / anchors.FILE).unlink()),
    Tampering(
        "chains._cancellations",
        "was cancelled by a person",
        without("audit", "action = 'run.cancel_requested'"),
    ),
    Tampering("chains._cancellations", "is to be cancelled", one_of("runs", cancel_requested_at="1")),
    Tampering("chains._decisions", "decided on call", without("audit", "action = 'pause.vote'")),
    Tampering("chains._configuration", "agent turn has 1 versions", without("audit", "target = 'turn'")),
    # -- charges
    Tampering("charges.judge", "and its cost is 9", one_of("runs", "cost IS NOT NULL", cost="'9'")),
    Tampering("charges.judge", "the budget of run", one_of("budget_use", "span = 'run'", tokens="99")),
    # -- decisions
    Tampering("decisions._votes", "is approved by", without("decision_votes", "vote = 'approve'")),
    Tampering("decisions._votes", "who never said so", one_of("pause_calls", decision="'denied'")),
    Tampering(
        "decisions._votes",
        "before its time",
        one_of("pause_calls", "decision = 'expired'", decided_at="expires_at - 5"),
    ),
    Tampering(
        "decisions._permitted", "which nobody was asked", effect("refund", call="x", key="x", text="else")
    ),
    Tampering("decisions._permitted", "which is denied", "UPDATE pause_calls SET decision = 'denied'"),
    Tampering("decisions._permitted", "other arguments were approved", instead("refund", text="more")),
    Tampering("decisions._permitted", "under another effect key", effect("refund", key="x")),
    Tampering(
        "decisions._permitted",
        "in another version than was approved",
        later_version,
    ),
    Tampering(
        "decisions._told",
        "that a call is expired, and 0 of its calls are",
        "UPDATE pause_calls SET decision = 'denied' WHERE decision = 'expired'",
    ),
    Tampering("decisions._kept", "is not there", one_of("pauses", "form = 'explicit'", state="NULL")),
    Tampering(
        "decisions._kept",
        "another state than its digest",
        one_of("pauses", "form = 'explicit'", state="'{}'"),
    ),
    Tampering("decisions._kept", "was continued with", change_note("continued", state={"next": 9})),
    # -- doubts
    Tampering(
        "doubts._shown",
        "says that it expires",
        one_of(
            "journal",
            "type = 'interaction.requested' AND data LIKE '%in_doubt%'",
            data="json_set(data, '$.data.expires_in', 60)",
        ),
        "HARD",
    ),
    Tampering(
        "doubts._parked",
        "keeps its process",
        long_held,
        "HARD",
    ),
    # -- effects
    Tampering("effects.judge", "note was called 2 times", effect("note")),
    Tampering("effects.judge", "pay had 2 effects", effect("pay")),
    Tampering("effects.judge", "book saw several keys", effect("book", key="x", made=False)),
    Tampering(
        "effects._decisions", "was acknowledged, and is denied", "UPDATE pause_calls SET decision = 'denied'"
    ),
    Tampering(
        "effects._outcomes",
        "call of actor.note has 0 outcomes",
        without("journal", "kind = 'call' AND data LIKE '%actor.note%'"),
    ),
    # -- facts
    Tampering("facts._tenants", "refers to run_id", one_of("journal", workspace_id="'tenant'")),
    Tampering(
        "facts._tenants", "to which nobody sent it", one_of("events", workspace_id="'tenant'", seq="99")
    ),
    Tampering(
        "facts._transcripts", "is in the transcript 2 times", again("transcripts", "role = 'user'", seq="999")
    ),
    Tampering(
        "facts._transcripts",
        "twice",
        again("transcripts", f"role = 'assistant' AND run_id = {TALK}", seq="999"),
    ),
    Tampering(
        "facts._transcripts", "the transcript does not have", without("transcripts", "content = 'talk1.a'")
    ),
    Tampering(
        "facts._transcripts",
        "which the run did not say",
        one_of("transcripts", "role = 'assistant'", content="'else'"),
    ),
    Tampering(
        "facts._transcripts",
        "waits, and is in the transcript",
        "INSERT INTO waiting_messages SELECT * FROM (SELECT workspace_id, event_id, 'x', 'x', 'x', 'x', 1, 1"
        " FROM transcripts WHERE role = 'user' LIMIT 1)",
    ),
    Tampering("facts._blobs", "is referred to, and is gone", one_of("journal", blob="'x'")),
    Tampering("facts._states", "has version 0", one_of("states", version="0")),
    Tampering("facts._states", "is not JSON", one_of("states", value="'{'")),
    Tampering(
        "facts._secrets",
        "table runs holds the secret",
        lambda life: life.rows(f"UPDATE runs SET cancel_reason = 'because {min(life.secrets)}'"),
    ),
    Tampering("facts._secrets", "the log says", logged_secret),
    # -- leftovers
    Tampering("leftovers._held", "still has the task Run._forever", standing(tasks={"Run._forever": 1})),
    Tampering("leftovers._held", "still holds 1 slots", standing(slots=1)),
    Tampering("leftovers._held", "holds the lock", standing(locked=True)),
    Tampering("leftovers._held", "still keeps results of run x", standing(channels=["x"])),
    Tampering("leftovers._held", "plugin still has the task", standing(plugins={"plugin": {"X.run": 1}})),
    Tampering("leftovers._metrics", "hostler_feed_watchers is 1", metric("hostler_feed_watchers", 1)),
    Tampering("leftovers._metrics", "does not run", metric("hostler_worker_running", 0)),
    Tampering("leftovers._metrics", "says that it finished 99", metric("hostler_runs_finished_total", 99)),
    Tampering(
        "leftovers._hosts", "is left in the table of hosts", "INSERT INTO hosts VALUES ('x', 'x', 1, 1, 1)"
    ),
    Tampering(
        "leftovers._processes",
        "2 processes of",
        two_processes,
    ),
    Tampering("leftovers._files", "the file h0/x.tmp is left", file("h0/x.tmp")),
    Tampering("leftovers._files", "the blob abc is in no table", file("h0/blobs/ab/cd/abc")),
    # -- liveness
    Tampering("liveness.judge", "is queued", one_of("runs", status="'queued'")),
    Tampering("liveness.judge", "nobody handled: a task failed", logged),
    # -- order
    Tampering(
        "order._attempts",
        "goes from claimed to running, and it was paused",
        LIFECYCLE.format("data = json_set(data, '$.to', 'paused')", "claimed", QUEUE),
    ),
    Tampering("order._attempts", "its journal goes from", one_of("journal", count="count + 1")),
    Tampering(
        "order._attempts",
        "and its journal ends with",
        one_of("runs", "status = 'completed'", status="'failed'"),
    ),
    Tampering(
        "order._attempts",
        "wrote completed after attempt",
        LIFECYCLE.format("attempt = 0", "completed", QUEUE),
    ),
    Tampering("order._lanes", "before the end of", LIFECYCLE.format("at = at + 60000", "completed", QUEUE)),
    Tampering("order._taken_up", "is worked on by 0 runs", without("gathered", "event_id = 'turn1'")),
    Tampering("order._taken_up", "was rejected, and is worked on", one_of("events", outcome="'rejected'")),
    Tampering("order._steers", "the journal says", one_of("steering", step="1")),
    Tampering("order._steers", "which its agent does not allow", one_of("steering", status="'dropped'")),
    Tampering("order._steers", "which does not have it", one_of("steering", status="'requeued'")),
    Tampering("order._in_order", "which was accepted later", "UPDATE transcripts SET seq = 1000 - seq"),
    # -- paid
    Tampering(
        "paid.judge",
        "has 2 recorded answers",
        again("journal", "kind = 'call' AND type = 'model.invoke'", last_position="999"),
    ),
    Tampering("paid.judge", "was never given", drop_note("paid")),
    Tampering("paid._heard", "is recorded", change_answer),
    # -- pauses
    Tampering("pauses.judge", "it was", facts_of("pause.resuming", "from", '"open"')),
    Tampering("pauses.judge", "is number 1 of its run, and says 7", facts_of("pause.open", "segment", "7")),
    Tampering("pauses.judge", "under epoch 0, after 0", facts_of("pause.resuming", "epoch", "0")),
    Tampering("pauses.judge", "after epoch 9 began", facts_of("pause.execution.reserved", "epoch", "9")),
    Tampering("pauses.judge", "is ready, and", without("audit", "action = 'pause.call.approved'")),
    Tampering(
        "pauses.judge", "is made, and it is undecided", without("audit", "action = 'pause.call.approved'")
    ),
    Tampering(
        "pauses.judge",
        "with other arguments than were approved",
        facts_of("pause.execution.reserved", "args_hash", '"x"'),
    ),
    Tampering(
        "pauses.judge",
        "expires while the pause is",
        "UPDATE audit SET action = 'pause.call.expired' WHERE action = 'pause.execution.reserved'",
    ),
    Tampering("pauses.judge", "goes back from revision", facts_of("pause.open", "revision", "3")),
    Tampering("pauses.judge", "comes before it was opened", without("audit", "action = 'pause.open'")),
    Tampering("pauses.judge", "which did not join pause", facts_of("pause.open", "calls", "[]")),
    Tampering("pauses._rows", "no fact says that call x", again("pause_calls", "1", call_id="'x'")),
    Tampering("pauses._rows", "its last fact says resumed", one_of("pauses", status="'ready'")),
    Tampering("pauses._rows", "settled at None", one_of("pauses", settled_at="NULL")),
    Tampering("pauses._rows", "has facts and no row", without("pauses", "form = 'explicit'")),
    Tampering(
        "pauses._rows", "has no effect key", one_of("pause_calls", "execution <> 'none'", effect_key="NULL")
    ),
    Tampering("pauses._rows", "the runner never got the outcome", "UPDATE pause_calls SET handed_over = 0"),
    Tampering(
        "pauses._notes",
        "its journal has the changes",
        without("journal", "kind = 'decision' AND type = 'pause.ready'"),
    ),
    Tampering(
        "pauses._limits",
        "bytes of arguments",
        lambda life: life.rows(f"UPDATE pause_calls SET effective = '{'x' * 70_000}'"),
    ),
    # -- prompt
    Tampering("prompt._claims", "was claimed only", LIFECYCLE.format("at = at + 60000", "claimed", LATER)),
    Tampering("prompt._seen", "was seen only", move_note("seen", 9.0)),
    Tampering(
        "prompt._decided",
        "went on only",
        "UPDATE journal SET at = at + 5000 WHERE type IN ('pause.resuming', 'pause.resumed')",
    ),
    # -- runs
    Tampering("runs._events", "was acknowledged, and is gone", without("events", "event_id = 'queue1'")),
    Tampering(
        "runs._events",
        "event queue1 has 2 runs",
        again("runs", "event_id = 'queue1'", run_id="'x'", active_lane="NULL"),
    ),
    Tampering("runs._ends", "has 0 ends", without("journal", "type = 'run.completed'")),
    Tampering(
        "runs._ends",
        "has results after its end",
        again("journal", "type = 'run.completed'", last_position="999", last_sequence="999"),
    ),
    Tampering("runs._streams", "saw 9 after", change_note("seen", sequence=9)),
    Tampering("runs._streams", "was seen as log", change_note("seen", type="log")),
    Tampering(
        "runs._streams",
        "the journal holds {'data'",
        one_of("journal", "type = 'message.delta'", data="replace(data, '\"d \"', '\"e \"')"),
    ),
    Tampering(
        "runs._streams",
        "its sequences have gaps",
        "UPDATE journal SET last_sequence = last_sequence + 1 WHERE type = 'run.completed'",
    ),
    # -- turns
    Tampering(
        "turns._heard",
        "asked it to say",
        "UPDATE journal SET data = replace(data, 'turn1.a', 'turn2.a') WHERE type = 'message.completed'",
    ),
    Tampering("turns._placed", "and is not in the transcript", without("transcripts", "event_id = 'turn1'")),
    Tampering(
        "turns._apart", "within another at", "UPDATE transcripts SET seq = 999 WHERE content = 'queue1.a'"
    ),
    Tampering("turns._deadlines", "and may for 3 s", LIFECYCLE.format("at = at + 9000", "timeout", TIMED)),
    # -- webhooks
    Tampering("webhooks._missing", "has no delivery to hook", without("deliveries", "1")),
    Tampering(
        "webhooks._ends", "which is completed, is noted 0 times", without("notices", "event LIKE 'run.%'")
    ),
    Tampering(
        "webhooks._ends",
        "is noted as run.failed",
        "UPDATE notices SET body = replace(body, 'run.completed', 'run.failed')",
    ),
    Tampering("webhooks._ends", "which is not there, is noted", "UPDATE notices SET run_id = 'r'"),
    Tampering("webhooks._outcomes", "is marked as delivered, and was not", drop_note("received")),
    Tampering("webhooks.judge", "its signature is wrong", change_note("posted", signed=False)),
    *LEFT,
]
