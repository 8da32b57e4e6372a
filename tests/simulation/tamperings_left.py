"""Tamperings that leave something over: rows that should have gone, and what was deleted on request."""

from __future__ import annotations

import hashlib

from simulation.life import Life
from simulation.tampering import Tampering, drop_note, file, one_of, without

RUN = "(SELECT min(run_id) FROM runs)"
EVENT = "(SELECT min(event_id) FROM events WHERE workspace_id = 'default')"
KEPT = "(SELECT run_id FROM runs WHERE event_id = 'kept')"


def _write_in_the_clear(life: Life) -> None:
    folder = life.hosts[0].settings.data_dir / "blobs" / "aa" / "bb"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plain").write_bytes(b"... amber and birch and cedar ...")


BYTES = (hashlib.sha256(b"amber 3").digest() * 29)[:900]


def write_word(life: Life) -> None:
    """Leave a file with a word that was deleted."""
    (life.folder / "h0/logs").mkdir(exist_ok=True)
    (life.folder / "h0/logs/told.log").write_text("it said amber 1")


REVOKED = (
    "UPDATE api_keys SET revoked_at = (SELECT min(created_at) FROM approval_rules) WHERE subject = 'clerk'"
)


def late_intents(life: Life) -> None:
    """Let keys be revoked, and calls have been made long after they were approved."""
    life.rows("UPDATE api_keys SET revoked_at = (SELECT max(created_at) FROM decision_votes)")
    life.rows("UPDATE journal SET at = at + 60000 WHERE kind = 'intent'")


LEFT = [
    # -- leftovers
    Tampering("leftovers.judge", "a lane that is held is left", one_of("runs", active_lane="'x'")),
    Tampering("leftovers.judge", "an unread steer that its run still counts", one_of("runs", steers="1")),
    Tampering("leftovers.judge", "a delivery that is leased", one_of("deliveries", lease_token="'x'")),
    Tampering(
        "leftovers.judge",
        "an upload of an ended run is left",
        f"INSERT INTO uploads VALUES ('default', 'x', {RUN}, 1, 1, 1, NULL)",
    ),
    Tampering(
        "leftovers.judge",
        "a part of no upload is left",
        "INSERT INTO upload_parts VALUES ('default', 'x', 1, 'x', 1, NULL)",
    ),
    Tampering(
        "leftovers.judge",
        "a deferred event that has been routed is left",
        f"INSERT INTO deferred_events VALUES ('default', {EVENT}, 1, 1, NULL)",
    ),
    Tampering(
        "leftovers.judge",
        "a message of a run that has begun is left",
        f"INSERT INTO waiting_messages VALUES ('default', {EVENT}, 'x', 'x', 'x', 'x', 1, 1)",
    ),
    Tampering(
        "leftovers.judge",
        "a request that was never answered is left",
        "INSERT INTO idempotency VALUES ('default', 'x', 'x', 'x', 0, NULL, 1, NULL)",
    ),
    Tampering(
        "leftovers.judge",
        "a blob that counts no reference, and since when",
        "INSERT INTO blobs VALUES ('x', 1, 0, 1, NULL)",
    ),
    # -- sealed
    Tampering(
        "sealed.judge",
        "in the clear",
        _write_in_the_clear,
        "SEALED",
    ),
    # -- decisions
    Tampering(
        "decisions._sealed",
        "is not sealed",
        one_of("pauses", "form = 'explicit'", data_key="NULL"),
        "ERASED",
    ),
    Tampering(
        "decisions._ahead",
        "of 0",
        "UPDATE audit SET body = json_set(body, '$.uses', 0) WHERE action = 'approval_rule.created'",
        "ERASED",
    ),
    Tampering("decisions._revoked", "was approved ahead with a key that was revoked", REVOKED, "ERASED"),
    Tampering("decisions._revoked", "after the key that approved it ahead was revoked", REVOKED, "ERASED"),
    Tampering("decisions._revoked", "after the key that had approved it was revoked", late_intents, "ERASED"),
    Tampering("decisions._ahead", "is not like", one_of("approval_rules", tool_name="'x'"), "ERASED"),
    # -- erased
    Tampering("erased._done", "conversation talk was never deleted", drop_note("erased"), "ERASED"),
    Tampering(
        "erased._gone",
        "runs.cancel_reason has 'amber 1', which was deleted",
        one_of("runs", cancel_reason="'because of amber 1'"),
        "ERASED",
    ),
    Tampering("erased._gone", "events.thread_id has 'talk'", one_of("events", thread_id="'talk'"), "ERASED"),
    Tampering(
        "erased._states",
        "state k of conversation talk is left",
        one_of("states", "key = 'k'", conversation_id="'talk'"),
        "ERASED",
    ),
    Tampering(
        "erased._left",
        "the bytes of amber 3 are left",
        file(f"h0/blobs/ab/cd/{hashlib.sha256(BYTES).hexdigest()}"),
        "ERASED",
    ),
    Tampering(
        "erased._kept",
        "event kept of default is emptied, and nobody deleted it",
        one_of("events", "event_id = 'kept'", body="NULL"),
        "ERASED",
    ),
    Tampering(
        "erased._kept",
        "has lost its journal, and nobody deleted it",
        without("journal", f"run_id = {KEPT}"),
        "ERASED",
    ),
    Tampering("erased._gone", "file h0/logs/told.log has 'amber 1'", write_word, "ERASED"),
]
