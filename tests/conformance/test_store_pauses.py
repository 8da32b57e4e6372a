"""Pauses on both databases: opened once, one unsettled per run, every change with its facts."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.domain.pause_values import Pause
from hostler.domain.pauses import STATUSES, TRANSITIONS, PauseStatus, is_settled
from hostler.storage.port import Query, Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import audit, journal, pause_calls, pause_claims, pauses, run_notes, runs
from hostler.storage.stores import hash_chain as chain
from hostler.storage.stores.blobs import Blob, reference, references
from hostler.storage.stores.journal import NewEntry
from hostler.storage.stores.pause_retention import drop_of_run, drop_old, drop_states
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError, PayloadTooLargeError
from support.databases import read, write
from support.pauses import WORKSPACE, call, calls_of, open_pause, open_run, park

pytestmark = pytest.mark.gate("both-databases")


@pytest.fixture
def run_open(database: SqlDatabase) -> SqlDatabase:
    write(database, open_run)
    return database


def at(database: SqlDatabase, pause_id: str = "p1") -> Pause:
    return read(database, lambda tx: pauses.get(tx, WORKSPACE, pause_id))


def move(database: SqlDatabase, to: PauseStatus, pause_id: str = "p1", **more: Any) -> Pause:
    def work(tx: Tx) -> Pause:
        return pauses.move(tx, pauses.get(tx, WORKSPACE, pause_id), to, cause="test", actor="t", **more)

    return write(database, work)


def decide(database: SqlDatabase, call_id: str, to: Any, pause_id: str = "p1") -> Pause:
    def work(tx: Tx) -> Pause:
        pause = pauses.get(tx, WORKSPACE, pause_id)
        one = calls_of(tx, pause_id)[call_id]
        pause_calls.decide(tx, pause, one, to, cause="test", actor="rita")
        return pauses.settle(tx, pause, actor="rita")

    return write(database, work)


def facts(database: SqlDatabase) -> list[str]:
    return [fact.action for fact in reversed(read(database, lambda tx: audit.page(tx, WORKSPACE)))]


def noted(database: SqlDatabase, run_id: str = "r1") -> list[str]:
    entries = read(database, lambda tx: journal.page(tx, run_id)).items
    return [entry.type for entry in entries if entry.kind == "decision"]


def test_a_pause_opens_with_its_calls_and_what_the_run_is(run_open: SqlDatabase) -> None:
    pause = write(
        run_open, lambda tx: open_pause(tx, call("k1"), call("k2", "question", fields=[], expires_in=120.0))
    )
    assert (pause.status, pause.segment, pause.revision, pause.epoch) == ("open", 1, 1, 0)
    assert (pause.requester, pause.conversation_id, pause.agent_version) == ("rita", "c1", 3)
    calls = read(run_open, calls_of)
    assert [one.ordinal for one in calls.values()] == [0, 1]
    assert calls["k1"].decision == "undecided"
    assert calls["k1"].effective == {"item": "k1", "seats": 1}
    assert pause.expires_at == calls["k2"].expires_at == pause.created_at + 120_000, "the first to expire"
    assert calls["k1"].expires_at == pause.created_at + 1_800_000
    assert facts(run_open) == ["pause.open"]
    assert noted(run_open) == ["pause.open"]


def test_a_call_expires_when_it_was_said_and_at_no_impossible_time(run_open: SqlDatabase) -> None:
    for seconds in (59.9, 30 * 86_400 + 1):
        with pytest.raises(InvalidArgumentError, match="1 minute to 30 days"):
            write(run_open, lambda tx, n=seconds: open_pause(tx, call("k1", expires_in=n)))  # type: ignore[misc]
    longest = 30.0 * 86_400
    several = call("k1", expires_in=60), call("k2", expires_in=longest), call("k3")
    pause = write(run_open, lambda tx: open_pause(tx, *several))
    calls = read(run_open, calls_of)
    given = [(one.expires_at or 0) - pause.created_at for one in calls.values()]
    assert given == [60_000, 30 * 86_400_000, 1_800_000]


def test_16_one_unsettled_pause_per_run_and_none_is_overwritten(run_open: SqlDatabase) -> None:
    write(run_open, open_pause)
    with pytest.raises(ConflictError, match="unsettled pause"):
        write(run_open, lambda tx: open_pause(tx, call("k9"), pause_id="p2"))
    before = at(run_open)
    decide(run_open, "k1", "denied")
    move(run_open, "resuming", epoch=1)
    move(run_open, "resumed")
    second = write(run_open, lambda tx: open_pause(tx, call("k9"), pause_id="p2"))
    assert second.segment == 2
    assert at(run_open).created_at == before.created_at
    assert at(run_open).status == "resumed"
    assert [one.pause_id for one in read(run_open, lambda tx: pauses.of_run(tx, "r1"))] == ["p2", "p1"]


def test_every_change_of_a_pause_is_as_the_table_says(database: SqlDatabase) -> None:
    for before in STATUSES:
        for to in STATUSES:
            run_id = pause_id = f"{before} to {to}"
            write(database, lambda tx, r=run_id: open_run(tx, r))  # type: ignore[misc]
            write(database, lambda tx, r=run_id: open_pause(tx, run_id=r, pause_id=r))  # type: ignore[misc]
            for step in _way_to(before):
                move(database, step, pause_id)
            was, told = at(database, pause_id), len(noted(database, run_id))
            if (before, to) not in TRANSITIONS:
                with pytest.raises(ValueError, match="does not become"):
                    move(database, to, pause_id)
                assert at(database, pause_id) == was
                continue
            now = move(database, to, pause_id)
            assert now.status == to
            assert (now.settled_at is not None) == is_settled(to)
            assert len(noted(database, run_id)) == told + 1


def _way_to(status: PauseStatus) -> list[PauseStatus]:
    ways: dict[PauseStatus, list[PauseStatus]] = {"open": []}
    while status not in ways:
        for before, to in TRANSITIONS:
            if before in ways and to not in ways:
                ways[to] = [*ways[before], to]
    return ways[status]


def test_06_ready_exactly_when_every_call_is_settled(run_open: SqlDatabase) -> None:
    write(run_open, lambda tx: open_pause(tx, call("k1"), call("k2"), call("k3", "question")))
    assert decide(run_open, "k2", "denied").status == "open"
    assert decide(run_open, "k1", "approved").status == "open"
    ready = decide(run_open, "k3", "answered")
    assert (ready.status, ready.resumed_by, ready.revision) == ("ready", "rita", 1)
    assert facts(run_open).count("pause.ready") == 1


def test_calls_join_an_open_pause_and_none_that_is_settled(run_open: SqlDatabase) -> None:
    write(run_open, open_pause)

    def join(tx: Tx, call_id: str, **asked: Any) -> Pause:
        pause = pauses.get(tx, WORKSPACE, "p1")
        return pauses.add_calls(tx, pause, [call(call_id, **asked)], actor="h1")

    joined = write(run_open, lambda tx: join(tx, "k2", expires_in=60.0))
    assert (joined.revision, joined.expires_at) == (1, read(run_open, calls_of)["k2"].expires_at)
    assert facts(run_open) == noted(run_open) == ["pause.open", "pause.call.undecided"]
    decide(run_open, "k1", "denied")
    decide(run_open, "k2", "denied")
    with pytest.raises(ConflictError, match="no calls can be added"):
        write(run_open, lambda tx: join(tx, "k3"))


def test_27_what_is_over_a_limit_opens_no_pause(run_open: SqlDatabase) -> None:
    for calls in (
        [call(f"k{number}") for number in range(65)],
        [call(arguments={"text": "x" * 66_000})],
        [call(title="x" * 501)],
        [call(description="x" * 17_000)],
        [call(args_schema={"description": "x" * 263_000})],
    ):
        with pytest.raises(PayloadTooLargeError):
            write(run_open, lambda tx, c=calls: open_pause(tx, *c))  # type: ignore[misc]
    with pytest.raises(InvalidArgumentError, match="one id"):
        write(run_open, lambda tx: open_pause(tx, call("k1"), call("k1")))
    assert read(run_open, lambda tx: pauses.unsettled(tx, "r1")) is None
    assert facts(run_open) == []


def test_15_what_nobody_answered_is_expired_and_not_denied(run_open: SqlDatabase) -> None:
    write(run_open, lambda tx: open_pause(tx, call("k1", expires_in=60.0), call("k2")))
    assert read(run_open, pauses.due) == []

    def expire(tx: Tx) -> list[str]:
        late = Later(tx, 60_000)
        pause = pauses.get(late, WORKSPACE, "p1")
        assert [due.pause_id for due in pauses.due(late)] == ["p1"]
        gone = [one.call_id for one in pauses.expire(late, pause)]
        pauses.settle(late, pause, actor="clock")
        return gone

    assert write(run_open, expire) == ["k1"]
    calls = read(run_open, calls_of)
    assert (calls["k1"].decision, calls["k1"].decided_by) == ("expired", "clock")
    assert at(run_open).expires_at == calls["k2"].expires_at
    assert "pause.call.expired" in facts(run_open)
    assert "pause.call.denied" not in facts(run_open)


def test_an_ending_run_settles_its_pause(database: SqlDatabase) -> None:
    for run_id, steps, ends in (
        ("open", [], "cancelled"),
        ("ready", ["ready"], "cancelled"),
        ("resuming", ["ready", "resuming"], "cancelled"),
        ("review", ["needs_review"], "cancelled"),
    ):
        write(database, lambda tx, r=run_id: open_run(tx, r))  # type: ignore[misc]
        write(database, lambda tx, r=run_id: open_pause(tx, run_id=r, pause_id=r))  # type: ignore[misc]
        for step in steps:
            move(database, step, run_id)  # type: ignore[arg-type]
        done = write(
            database,
            lambda tx, r=run_id: pauses.end_with_run(tx, r, 1, "failed", cause="it ends", actor="t"),  # type: ignore[misc]
        )
        assert done is not None
        assert done.status == ends
        assert read(database, lambda tx, r=run_id: calls_of(tx, r))["k1"].decision == "cancelled"  # type: ignore[misc]
        again = write(
            database,
            lambda tx, r=run_id: pauses.end_with_run(tx, r, 1, "failed", cause="again", actor="t"),  # type: ignore[misc]
        )
        assert again is None


def test_02_a_superseded_attempt_settles_no_pause(run_open: SqlDatabase) -> None:
    write(run_open, open_pause)
    late = write(run_open, lambda tx: pauses.end_with_run(tx, "r1", 2, "failed", cause="late", actor="t"))
    assert late is None
    assert at(run_open).status == "open"


def test_pages_are_newest_first_and_keep_to_their_workspace(database: SqlDatabase) -> None:
    for number in range(5):
        run_id = f"r{number}"
        write(
            database,
            lambda tx, r=run_id, n=number: open_run(tx, r, conversation_id="c1" if n % 2 else "c2"),  # type: ignore[misc]
        )
        write(database, lambda tx, r=run_id: open_pause(tx, run_id=r, pause_id=f"p of {r}"))  # type: ignore[misc]
    decide(database, "k1", "denied", "p of r3")

    def ids(**filters: Any) -> list[str]:
        found = read(database, lambda tx: pauses.page(tx, WORKSPACE, **filters))
        return [one.run_id for one in found]

    assert sorted(ids()) == ["r0", "r1", "r2", "r3", "r4"]
    assert sorted(ids(conversation_id="c1")) == ["r1", "r3"]
    assert ids(statuses=["ready"]) == ["r3"]
    assert sorted(ids(statuses=["ready", "needs_review"], run_id="r3")) == ["r3"]
    assert sorted(ids(statuses=["ready", "open"], conversation_id="c1")) == ["r1", "r3"]
    assert ids(run_id="r2") == ["r2"]
    assert ids(run_id="r2", conversation_id="c1") == []
    first = read(database, lambda tx: pauses.page(tx, WORKSPACE, limit=2))
    rest = ids(before=(first[-1].created_at, first[-1].pause_id))
    assert sorted([one.run_id for one in first] + rest) == ["r0", "r1", "r2", "r3", "r4"]
    assert read(database, lambda tx: pauses.page(tx, "w2")) == []
    with pytest.raises(NotFoundError):
        read(database, lambda tx: pauses.get(tx, "w2", "p of r1"))


def test_notes_stand_in_the_journal_of_a_run_whatever_its_attempt(run_open: SqlDatabase) -> None:
    write(run_open, open_pause)
    write(run_open, park)
    before = read(run_open, lambda tx: runs.get(tx, WORKSPACE, "r1"))
    assert before.status == "paused"
    assert write(run_open, lambda tx: run_notes.note(tx, "r1", [NewEntry("decision", "x", "{}")]))
    entry = read(run_open, lambda tx: journal.page(tx, "r1")).items[-1]
    assert (entry.position, entry.kind, entry.attempt) == (before.position + 1, "decision", 1)
    with pytest.raises(ValueError, match="results"):
        write(run_open, lambda tx: run_notes.note(tx, "r1", [NewEntry("result", "log", "{}")]))
    write(run_open, lambda tx: runs.transition(tx, "r1", None, "cancelled", cause="t", actor="t"))
    assert not write(run_open, lambda tx: run_notes.note(tx, "r1", [NewEntry("decision", "x", "{}")]))


@pytest.mark.gate("pause-facts")
def test_25_every_change_has_one_fact_and_the_chain_verifies(run_open: SqlDatabase) -> None:
    write(run_open, lambda tx: open_pause(tx, call("k1"), call("k2")))
    decide(run_open, "k1", "denied")
    decide(run_open, "k2", "expired")
    write(run_open, lambda tx: pause_claims.begin_resuming(tx, "r1", 1))
    for call_id in ("k1", "k2"):
        write(run_open, lambda tx, c=call_id: pause_claims.hand_over(tx, "r1", c, 1))  # type: ignore[misc]
    assert facts(run_open) == [
        "pause.open",
        "pause.call.denied",
        "pause.call.expired",
        "pause.ready",
        "pause.resuming",
        "pause.resumed",
    ]
    assert noted(run_open) == facts(run_open)
    verified = read(run_open, lambda tx: chain.verify(tx, WORKSPACE, "audit"))
    assert verified.done
    assert verified.broken is None


def test_a_pause_that_is_deleted_on_request_takes_its_notices_along(run_open: SqlDatabase) -> None:
    write(run_open, open_pause)
    decide(run_open, "k1", "denied")
    assert rows_of(run_open, "notices") > 0
    assert write(run_open, lambda tx: drop_of_run(tx, WORKSPACE, "r1")) == 1
    assert [rows_of(run_open, table) for table in ("pauses", "pause_calls", "notices", "deliveries")] == [
        0
    ] * 4


def rows_of(database: SqlDatabase, table: str) -> int:
    """Return the number of rows of a table."""
    count = Query("t.count", *[f"SELECT count(*) AS n FROM {table}"] * 2)
    return int(read(database, lambda tx: tx.all(count))[0]["n"])


@pytest.mark.gate("paused-states")
def test_states_go_a_day_and_rows_a_month_after_the_end(run_open: SqlDatabase) -> None:
    blob = Blob("ab" * 32, 5)
    state = {"state": b"{}", "state_digest": "d", "state_blob": blob.sha256, "data_key": b"key"}

    def opened(tx: Tx) -> None:
        reference(tx, blob)
        open_pause(tx, form="explicit", **state)  # type: ignore[arg-type]

    write(run_open, opened)
    after = 40 * 86_400_000
    assert write(run_open, lambda tx: drop_states(Later(tx, after), WORKSPACE)) == 0, "it is open still"
    decide(run_open, "k1", "denied")
    move(run_open, "cancelled")
    assert write(run_open, lambda tx: drop_states(Later(tx, 80_000_000), WORKSPACE)) == 0
    assert write(run_open, lambda tx: drop_states(Later(tx, 87_000_000), WORKSPACE)) == 1
    pause = at(run_open)
    assert (pause.state, pause.state_blob, pause.data_key, pause.state_digest) == (None, None, None, "d")
    assert read(run_open, lambda tx: references(tx, blob.sha256)) == 0
    assert write(run_open, lambda tx: drop_states(Later(tx, after), WORKSPACE)) == 0
    assert write(run_open, lambda tx: drop_old(Later(tx, 29 * 86_400_000), WORKSPACE)) == 0
    assert write(run_open, lambda tx: drop_old(Later(tx, after), "w2")) == 0
    assert write(run_open, lambda tx: drop_old(Later(tx, after), WORKSPACE)) == 1
    assert read(run_open, lambda tx: pauses.of_run(tx, "r1")) == []


def test_deleting_a_run_deletes_its_pauses(run_open: SqlDatabase) -> None:
    write(run_open, open_pause)
    assert write(run_open, lambda tx: drop_of_run(tx, "w2", "r1")) == 0
    assert write(run_open, lambda tx: drop_of_run(tx, WORKSPACE, "r1")) == 1
    assert read(run_open, lambda tx: pauses.find(tx, WORKSPACE, "p1")) is None


class Later:
    """A transaction some time later."""

    def __init__(self, tx: Tx, milliseconds: int) -> None:
        self._tx = tx
        self.now = tx.now + milliseconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)
