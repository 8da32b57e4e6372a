"""Schedules, on both databases: each planned time is taken by one, and changes count from now."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hostler.domain.members import subject_of
from hostler.domain.misfires import Step
from hostler.domain.schedules import MAX_SCHEDULES, Firing, Schedule
from hostler.domain.sign_in import Person
from hostler.storage.port import Query, Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import audit, members, schedule_removal, schedules
from hostler.storage.stores.schedules import StoredSchedule
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError
from hostler_protocol.events import Actor
from support.databases import read, write

pytestmark = pytest.mark.gate("schedules")
MINUTE = 60_000


def sql(text: str) -> Query:
    return Query(
        "test", text, text.replace(":now", "%(now)s"), names=("now",), values=lambda row: [row["now"]]
    )


def put(database: SqlDatabase, name: str = "a", ws: str = "w", **fields: Any) -> StoredSchedule:
    spec = Schedule(name=name, **({"every": 60.0} if not {"cron", "at"} & fields.keys() else {}) | fields)

    def work(tx: Tx) -> StoredSchedule:
        schedules.put(tx, ws, spec, "ada")
        return schedules.get(tx, ws, name)

    return write(database, work)


def test_a_new_schedule_is_planned_from_now(database: SqlDatabase) -> None:
    one = put(database, text="hello")
    assert (one.spec.text, one.made_by, one.version, one.firings) == ("hello", "ada", 1, 0)
    assert one.next_planned == one.next_at == one.created_at + MINUTE
    assert read(database, schedules.due)[1] == []
    assert (read(database, lambda tx: schedules.seconds_to_next(tx, tx.now)) or 0) > 50
    with pytest.raises(NotFoundError):
        read(database, lambda tx: schedules.get(tx, "other", "a"))


def test_jitter_is_in_when_it_is_due(database: SqlDatabase) -> None:
    one = put(database, jitter=3600.0, cron="0 0 1 1 *")
    assert one.next_planned is not None
    assert one.next_at is not None
    assert one.next_planned < one.next_at <= one.next_planned + 3_600_000


def test_a_change_of_the_text_keeps_the_time_and_one_of_the_timing_counts_from_now(
    database: SqlDatabase,
) -> None:
    one = put(database)
    same = put(database)
    assert same == one
    text = put(database, text="other")
    assert (text.version, text.next_planned, text.schedule_id) == (2, one.next_planned, one.schedule_id)
    moved = put(database, every=120.0)
    assert (moved.version, moved.anchor) == (3, moved.changed_at)
    assert moved.next_planned == moved.changed_at + 2 * MINUTE


def test_of_several_that_fire_one_does(database: SqlDatabase) -> None:
    one = put(database)
    assert one.next_planned is not None
    step = Step(one.next_planned, one.next_planned + MINUTE)
    assert write(database, lambda tx: schedules.advance(tx, one, step)) == 1
    assert write(database, lambda tx: schedules.advance(tx, one, step)) is None
    after = read(database, lambda tx: schedules.get(tx, "w", "a"))
    assert (after.last_planned, after.next_planned) == (one.next_planned, one.next_planned + MINUTE)


@pytest.mark.parametrize("change", ["text", "pause", "remove"])
def test_what_was_changed_since_it_was_read_does_not_fire(database: SqlDatabase, change: str) -> None:
    one = put(database)
    if change == "text":
        put(database, text="other")
    elif change == "pause":
        write(database, lambda tx: schedules.pause(tx, "w", "a", "ada"))
    else:
        assert write(database, lambda tx: schedules.delete(tx, "w", "a"))
        put(database)
    step = Step(one.next_planned, None)
    assert write(database, lambda tx: schedules.advance(tx, one, step)) is None


def test_a_time_that_fired_is_not_planned_again_though_the_clock_went_back(database: SqlDatabase) -> None:
    one = put(database, cron="* * * * *")
    assert one.next_planned is not None
    far = one.next_planned + 60 * MINUTE
    write(database, lambda tx: schedules.advance(tx, one, Step(far, far + MINUTE)))
    moved = put(database, cron="*/2 * * * *")
    assert moved.next_planned is not None
    assert moved.next_planned > far
    write(database, lambda tx: schedules.pause(tx, "w", "a", "ada"))
    resumed = write(database, lambda tx: schedules.resume(tx, "w", "a", "ada"))
    assert resumed.next_planned == moved.next_planned


def test_a_pause_plans_nothing_until_it_ends(database: SqlDatabase) -> None:
    put(database)
    paused = write(database, lambda tx: schedules.pause(tx, "w", "a", "ada"))
    assert (paused.next_planned, paused.next_at, paused.paused_by) == (None, None, "ada")
    assert write(database, lambda tx: schedules.pause(tx, "w", "a", "bob")) == paused
    assert put(database, every=90.0).next_planned is None, "a change does not end it"
    resumed = write(database, lambda tx: schedules.resume(tx, "w", "a", "ada"))
    assert resumed.paused_at is None
    assert resumed.next_planned is not None
    assert write(database, lambda tx: schedules.resume(tx, "w", "a", "bob")) == resumed


def test_one_that_fired_ahead_of_the_clock_is_planned_from_now_if_that_is_asked(
    database: SqlDatabase,
) -> None:
    one = put(database)
    ahead = sql("UPDATE schedules SET last_planned = :now, next_planned = :now, next_at = :now")
    write(database, lambda tx: tx.run(ahead, now=tx.now + 3_600_000 * 1_000))
    silent = write(database, lambda tx: schedules.resume(tx, "w", "a", "ada"))
    assert silent.next_planned is not None
    assert silent.next_planned > one.created_at + 3_600_000
    resumed = write(database, lambda tx: schedules.resume(tx, "w", "a", "ada", from_now=True))
    assert resumed.next_planned is not None
    assert resumed.next_planned <= resumed.anchor + 10 * MINUTE
    assert (resumed.last_planned, resumed.version) == (None, silent.version + 1)
    assert put(database, every=90.0).next_planned is not None
    again = write(database, lambda tx: schedules.resume(tx, "w", "a", "ada", from_now=True))
    assert again.version == resumed.version + 1, "only the change of its times has moved it"


def test_the_schedule_of_a_removed_person_is_taken_over_by_who_stores_it_again(database: SqlDatabase) -> None:
    ada = subject_of("https://id.example", "ada")
    person = Person("https://id.example", ada, email=None, name="Ada", groups=frozenset())
    spec = Schedule(name="a", every=60.0)

    def make(tx: Tx) -> None:
        (member,) = members.admit(tx, person, {"w": "operator"}).members
        schedules.put(tx, "w", spec, ada)
        assert not schedules.put(tx, "w", spec, "bob")
        assert schedules.get(tx, "w", "a").made_by == ada
        members.remove(tx, member, by="bob")

    write(database, make)
    assert read(database, lambda tx: members.removed(tx, "w", [ada, "bob"])) == {ada}
    before = read(database, lambda tx: schedules.get(tx, "w", "a"))
    assert not write(database, lambda tx: schedules.put(tx, "w", spec, "bob"))
    after = read(database, lambda tx: schedules.get(tx, "w", "a"))
    assert (after.made_by, after.next_planned) == ("bob", before.next_planned)
    facts = read(database, lambda tx: audit.page(tx, "w", limit=10))
    assert ("bob", "schedule.taken_over", "a") in [(one.actor, one.action, one.target) for one in facts]


def test_those_of_a_conversation_or_a_person_are_removed(database: SqlDatabase) -> None:
    bot = Actor(actor_type="bot", actor_id="ada")
    put(database, "c1", conversation_id="c")
    put(database, "c2", conversation_id="other", actor=Actor(actor_id="ada"))
    put(database, "c3", actor=bot)
    put(database, "c1", ws="w2", conversation_id="c")
    spoiled = sql(
        'UPDATE schedules SET spec = \'{"moon": 1, "conversation_id": "c"}\', changed_at = :now '
        "WHERE name = 'c1' AND workspace_id = 'w'"
    )
    write(database, lambda tx: tx.run(spoiled, now=tx.now))

    def names(ws: str = "w") -> list[str]:
        return [one.name for one in read(database, lambda tx: schedules.page(tx, ws, after="", limit=9))]

    assert write(database, lambda tx: schedule_removal.drop_of_conversation(tx, "w", "c", "bob")) == 1
    assert (names(), names("w2")) == (["c2", "c3"], ["c1"])
    assert write(database, lambda tx: schedule_removal.drop_of_actor(tx, "w", "ada", "user", "bob")) == 1
    assert names() == ["c3"]
    assert write(database, lambda tx: schedule_removal.drop_of_actor(tx, "w", "ada", None, "bob")) == 1
    assert write(database, lambda tx: schedule_removal.drop_of_actor(tx, "w", "ada", None, "bob")) == 0
    facts = read(database, lambda tx: audit.page(tx, "w", limit=10))
    assert [one.action for one in facts] == ["schedule.removed"] * 3


def test_due_ones_come_in_order_and_in_pages(database: SqlDatabase) -> None:
    for number in range(3):
        put(database, f"s{number}", ws=f"w{2 - number}")
    later = sql("UPDATE schedules SET next_at = :now - 5")
    write(database, lambda tx: tx.run(later, now=tx.now))
    put(database, "future", ws="w0")
    _, due = read(database, schedules.due)
    assert [one.workspace_id for one in due] == ["w0", "w1", "w2"]
    _, rest = read(database, lambda tx: schedules.due(tx, due[0]))
    assert rest == due[1:]


def test_an_ended_one_is_never_due(database: SqlDatabase) -> None:
    one = put(database, at="2001-01-01T00:00")
    assert (one.next_planned, one.next_at) == (None, None)
    assert read(database, lambda tx: schedules.seconds_to_next(tx, 0)) is None


def test_the_latest_firings_are_kept(database: SqlDatabase) -> None:
    one = put(database)

    def record(tx: Tx) -> None:
        for number in range(1, schedules.MAX_KEPT_FIRINGS + 6):
            firing = Firing("w", one.schedule_id, number, late=1, left_out=2)
            schedules.record(tx, firing, number, "refused", reason="x" * 9_000)

    write(database, record)
    kept = read(database, lambda tx: schedules.firings(tx, one))
    assert len(kept) == schedules.MAX_KEPT_FIRINGS
    assert [kept[0].number, kept[-1].number] == [schedules.MAX_KEPT_FIRINGS + 5, 6]
    assert len(kept[0].reason or "") == schedules.MAX_REASON_CHARS
    assert [f.number for f in read(database, lambda tx: schedules.firings(tx, one, before=9, limit=2))] == [
        8,
        7,
    ]
    write(database, lambda tx: schedules.delete(tx, "w", "a"))
    assert read(database, lambda tx: schedules.firings(tx, one)) == []


def test_their_number_is_bounded_in_each_workspace(
    database: SqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_SCHEDULES == 1_000
    monkeypatch.setattr(schedules, "MAX_SCHEDULES", 3)
    for number in range(3):
        put(database, f"s{number}")
    with pytest.raises(ConflictError, match="3 schedules already"):
        put(database, "one-more")
    put(database, "s1", text="changes are no more of them")
    put(database, "s1", ws="other")


def test_an_entry_of_another_version_says_so(database: SqlDatabase) -> None:
    put(database)
    newer = sql('UPDATE schedules SET spec = \'{"name": "a", "moon": "full"}\', changed_at = :now')
    write(database, lambda tx: tx.run(newer, now=tx.now))
    one = read(database, lambda tx: schedules.get(tx, "w", "a"))
    with pytest.raises(InvalidArgumentError, match="moon"):
        _ = one.spec
    assert put(database, text="this one").spec.text == "this one", "and can be replaced"


def test_an_entry_of_a_version_with_fewer_fields_is_unchanged(database: SqlDatabase) -> None:
    one = put(database, text="hello")
    older = msgspec.json.encode({"name": "a", "every": 60.0, "text": "hello"}).decode()
    text = f"UPDATE schedules SET spec = '{older}' WHERE name = 'a'"
    write(database, lambda tx: tx.run(Query("test", text, text)))
    again = put(database, text="hello")
    assert (again.spec, again.version, again.changed_at) == (one.spec, one.version, one.changed_at)
