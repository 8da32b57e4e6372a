"""Bound accounts and pairing codes on both databases: bounded, digests alone, one code for each person."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.domain.pairing import ALPHABET, MAX_ACCOUNTS, code_in, new_code
from hostler.storage.port import Query, Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import channel_people, pairing_codes, people, people_removal, settings
from hostler.storage.stores.channel_entries import CHANNEL
from hostler.storage.stores.people import ChannelAccount
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError
from support.databases import read, write

pytestmark = pytest.mark.gate("pairing")
ANN = ChannelAccount(channel="lobby", person_id="ann", name="Ann \x00", conversation_id="c1")
ROWS = Query("all", "SELECT * FROM pairing_codes", "SELECT * FROM pairing_codes")


def configure(tx: Tx, name: str = "lobby", channel: str = "plugin:a/b/c", **fields: Any) -> None:
    settings.put(tx, "w", CHANNEL, name, {"name": name, "channel": channel, "pairing": True, **fields})


@pytest.fixture(autouse=True)
def _channels(database: SqlDatabase) -> None:
    write(database, lambda tx: configure(tx, "lobby"))
    write(database, lambda tx: configure(tx, "attic"))


def bind(database: SqlDatabase, subject: str | None, account: ChannelAccount = ANN) -> people.Bound:
    return write(database, lambda tx: people.bind(tx, "w", account, subject, how="operator", by="op"))


def ask(database: SqlDatabase, account: ChannelAccount = ANN) -> str:
    code = write(database, lambda tx: pairing_codes.ask(tx, "w", account, "chat of ann"))
    assert code is not None
    return code


def test_an_account_has_one_subject_its_own_without_another(database: SqlDatabase) -> None:
    assert bind(database, None).subject == "person:lobby/ann"
    found = bind(database, "ann@example.org", ChannelAccount(channel="lobby", person_id="ann"))
    assert (found.name, found.conversation_id) == ("Ann ", "c1"), "what is not said stays"
    assert read(database, lambda tx: people.find(tx, "w", "lobby", "ann")) == found
    assert read(database, lambda tx: people.find(tx, "other", "lobby", "ann")) is None
    assert read(database, lambda tx: channel_people.subject_of(tx, "w", "lobby", "ann")) == "ann@example.org"
    assert read(database, lambda tx: channel_people.subject_of(tx, "w", "attic", "ann")) == "person:attic/ann"


def test_a_vote_of_a_paired_person_counts_as_long_as_they_are(database: SqlDatabase) -> None:
    def present() -> str | None:
        found = read(database, lambda tx: channel_people.present(tx, "w", "lobby", "ann"))
        return None if found is None else found.subject

    assert present() is None, "nobody has let them in"
    bind(database, "ann@example.org")
    assert present() == "ann@example.org"
    write(database, lambda tx: configure(tx, block={"people": ["ann"]}))
    assert present() is None
    write(database, lambda tx: configure(tx, allow={"people": ["ann"]}))
    write(database, lambda tx: people.unbind(tx, "w", "lobby", "ann", by="op"))
    assert present() == "person:lobby/ann", "who is listed needs no pairing"


def test_a_subject_has_a_bounded_number_of_accounts(database: SqlDatabase) -> None:
    for number in range(MAX_ACCOUNTS):
        bind(database, "crowd", ChannelAccount(channel="attic", person_id=str(number)))
    bind(database, "crowd", ChannelAccount(channel="attic", person_id="0"))
    with pytest.raises(ConflictError, match="20 accounts"):
        bind(database, "crowd")
    code, _ = write(database, lambda tx: pairing_codes.offer(tx, "w", "crowd", by="op"))
    with pytest.raises(ConflictError):
        write(database, lambda tx: pairing_codes.redeem(tx, "w", code, ANN))


@pytest.mark.parametrize(
    "subject", ["channel:lobby", " ann", "a\x00b", "x" * 513, "person:lobby", "person:/x"]
)
def test_a_subject_that_is_nobody_is_refused(database: SqlDatabase, subject: str) -> None:
    with pytest.raises(InvalidArgumentError, match="subject: "):
        bind(database, subject)
    with pytest.raises(InvalidArgumentError, match="subject: "):
        write(database, lambda tx: pairing_codes.offer(tx, "w", subject, by="op"))
    with pytest.raises(NotFoundError, match="no channel"):
        bind(database, "ann", ChannelAccount(channel="cellar", person_id="ann"))


def test_codes_are_stored_as_digests_and_each_person_has_one(database: SqlDatabase) -> None:
    code = ask(database)
    assert write(database, lambda tx: pairing_codes.ask(tx, "w", ANN, "chat of ann")) is None
    assert ask(database, ChannelAccount(channel="attic", person_id="ann")) != code
    rows = str(read(database, lambda tx: [dict(row) for row in tx.all(ROWS)]))
    assert code not in rows
    assert code.replace("-", "") not in rows
    with pytest.raises(NotFoundError):
        write(database, lambda tx: pairing_codes.confirm(tx, "other", code, None, by="op"))
    asking, bound = write(database, lambda tx: pairing_codes.confirm(tx, "w", code, "ann", by="op"))
    assert (asking.chat_id, bound.subject, bound.how) == ("chat of ann", "ann", "confirmed")
    with pytest.raises(NotFoundError, match="wrong, was used"):
        write(database, lambda tx: pairing_codes.confirm(tx, "w", code, "ann", by="op"))


def test_the_two_kinds_of_codes_are_not_taken_for_one_another(database: SqlDatabase) -> None:
    asked = ask(database)
    offered, _ = write(database, lambda tx: pairing_codes.offer(tx, "w", "ann", by="op"))
    assert write(database, lambda tx: pairing_codes.redeem(tx, "w", asked, ANN)) is None
    with pytest.raises(NotFoundError):
        write(database, lambda tx: pairing_codes.confirm(tx, "w", offered, None, by="op"))
    bound = write(database, lambda tx: pairing_codes.redeem(tx, "w", offered, ANN))
    assert bound is not None
    assert (bound.subject, bound.how, bound.bound_by) == ("ann", "code", "op")
    assert write(database, lambda tx: pairing_codes.redeem(tx, "w", offered, ANN)) is None
    assert read(database, lambda tx: pairing_codes.page(tx, "w")) == [], "who is bound asks no more"


def test_who_was_rejected_gets_no_code_for_a_month(database: SqlDatabase) -> None:
    code = ask(database)
    rejected = write(database, lambda tx: pairing_codes.reject(tx, "w", code, by="op"))
    assert write(database, lambda tx: pairing_codes.ask(tx, "w", ANN, "chat of ann")) is None
    (shown,) = read(database, lambda tx: pairing_codes.page(tx, "w"))
    assert shown.status == "rejected"
    assert shown.expires_at - rejected.made_at > 29 * 86_400_000
    write(database, lambda tx: pairing_codes.forget(tx, "w", "lobby", "ann"))
    ask(database)


def test_a_deletion_takes_accounts_and_codes_of_this_person_alone(database: SqlDatabase) -> None:
    bind(database, None)
    bind(database, "person:lobby/ann", ChannelAccount(channel="attic", person_id="U7"))
    bind(database, "bob", ChannelAccount(channel="attic", person_id="bob"))
    ask(database, ChannelAccount(channel="attic", person_id="ann"))
    offered, _ = write(database, lambda tx: pairing_codes.offer(tx, "w", "person:lobby/ann", by="op"))
    assert write(database, lambda tx: people_removal.drop_of_person(tx, "w", "ann")) == 3
    assert write(database, lambda tx: people_removal.drop_of_person(tx, "w", "ann")) == 0
    assert [one.person_id for one in read(database, lambda tx: people.page(tx, "w"))] == ["bob"]
    assert write(database, lambda tx: pairing_codes.redeem(tx, "w", offered, ANN)) is None


@pytest.mark.parametrize("text", ["ABCD-EFGH", " abcd efgh ", "abcdefgh"])
def test_a_code_is_read_as_people_write_it(text: str) -> None:
    assert code_in(text) == "ABCD-EFGH"


@pytest.mark.parametrize("text", [None, "", "ABCD-EFG", "ABCD-EFGO", "ABCD--EFGH", "the ABCD-EFGH", "A" * 99])
def test_another_text_is_no_code(text: str | None) -> None:
    assert code_in(text) is None


def test_codes_are_random_and_of_all_letters() -> None:
    codes = {new_code() for _ in range(2_000)}
    assert len(codes) == 2_000
    assert set("".join(codes)) == {*ALPHABET, "-"}
    assert all(code_in(code) == code for code in codes)
