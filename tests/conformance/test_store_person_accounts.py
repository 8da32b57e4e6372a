"""What a run is given of its person's other accounts, on both databases: who is whom, what is private."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hostler.domain.accounts import AcrossAccounts, Chat, PrivateChat
from hostler.domain.agents import Agent, AgentSpec, ResourcePolicy, StatePolicy
from hostler.domain.child_runs import ParentBounds
from hostler.domain.events import Event
from hostler.domain.grants import Grant
from hostler.domain.place import Place
from hostler.domain.scopes import StateArea
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import (
    chats,
    pairing_codes,
    people,
    person_accounts,
    readers,
    search,
    settings,
    state_values,
    transcripts,
)
from hostler.storage.stores.channel_entries import CHANNEL
from hostler.storage.stores.people import ChannelAccount
from hostler.storage.stores.transcripts import Direction, Span, TranscriptPage, item_of
from hostler_protocol.content import Message
from hostler_protocol.events import Actor, EventEnvelope, Input
from support.databases import read, write
from support.pauses import open_run

pytestmark = [pytest.mark.gate("across-accounts"), pytest.mark.gate("both-databases")]
PLUGINS = {"tel": "plugin:a/tel/c", "sla": "plugin:a/sla/c"}
SPEC = AgentSpec(
    name="a",
    runner="plugin:a/b/c",
    state_policy=StatePolicy(actor_across_accounts=True),
    resource_policy=ResourcePolicy(allow_cross_account_history=True),
)


def configure(tx: Tx, name: str, channel: str | None = None, ws: str = "w") -> None:
    settings.put(tx, ws, CHANNEL, name, {"name": name, "channel": channel or PLUGINS[name]})


@pytest.fixture(autouse=True)
def _channels(database: SqlDatabase) -> None:
    def work(tx: Tx) -> None:
        for ws in ("w", "v"):
            configure(tx, "tel", ws=ws)
            configure(tx, "sla", ws=ws)

    write(database, work)


def chat_with(who: str, on: str, *, group: bool = False, named: str | None = None) -> Chat:
    return Chat(
        conversation_id=named or f"{on} with {who}",
        channel=on,
        channel_of=PLUGINS[on],
        bot_id=f"bot of {on}",
        person_id=None if group else who,
    )


def talk(
    database: SqlDatabase, who: str, on: str, *, ws: str = "w", agent_id: str = "a1", **more: Any
) -> None:
    """Somebody writes to the agent, which has a run for it."""
    chat = chat_with(who, on, **more)

    def work(tx: Tx) -> None:
        chats.note(tx, ws, chat)
        run_id = f"{tx.now} {ws} {chat.conversation_id} {transcripts.latest_seq(tx, ws)} {agent_id}"
        open_run(tx, run_id, ws, conversation_id=chat.conversation_id) if agent_id == "a1" else None
        place = Place(chat.bot_id, chat.conversation_id)
        transcripts.append(tx, ws, item_of(Message(role="user", content=f"{who} says hello on {on}"), place))

    write(database, work)


def bind(database: SqlDatabase, who: str, on: str, subject: str | None, ws: str = "w") -> None:
    account = ChannelAccount(channel=on, person_id=who)
    write(database, lambda tx: people.bind(tx, ws, account, subject, how="operator", by="op"))


def given(
    database: SqlDatabase,
    who: str,
    on: str,
    *,
    ws: str = "w",
    requester: str | None = None,
    above: ParentBounds | None = None,
    **more: Any,
) -> AcrossAccounts | None:
    """What a run is given whose event somebody has sent."""
    chat = chat_with(who, on, **more)
    envelope = EventEnvelope(
        event_type="message.received",
        input=Input(text="x"),
        bot_id=chat.bot_id,
        conversation_id=chat.conversation_id,
        actor=Actor(actor_type="user", actor_id=who),
    )
    event = Event(ws, "e", envelope, "d", False, 1, requester or f"channel:{on}")
    agent = Agent(ws, "a1", 1, SPEC)
    return read(database, lambda tx: person_accounts.across_in(tx, agent, event, above))


def places(found: AcrossAccounts | None) -> list[str]:
    assert found is not None
    return [one.conversation_id for one in found.chats]


def test_accounts_of_one_subject_have_each_others_private_chats(database: SqlDatabase) -> None:
    talk(database, "ann", "tel")
    talk(database, "U1", "sla")
    alone = given(database, "ann", "tel")
    assert alone == AcrossAccounts("person:tel/ann", PLUGINS["tel"], state=True, history=True)
    bind(database, "U1", "sla", "person:tel/ann")
    for who, on, other in (("ann", "tel", "sla with U1"), ("U1", "sla", "tel with ann")):
        found = given(database, who, on)
        assert found is not None
        assert (found.subject, found.channel_of) == ("person:tel/ann", PLUGINS["tel"])
        assert places(found) == [other]
    bind(database, "ann", "tel", "ann@example.org")
    assert places(given(database, "U1", "sla")) == [], "ann's account is somebody else's now"
    bind(database, "U1", "sla", "ann@example.org")
    assert places(given(database, "U1", "sla")) == ["tel with ann"]
    write(database, lambda tx: people.unbind(tx, "w", "sla", "U1", by="op"))
    assert places(given(database, "ann", "tel")) == []


def test_groups_other_agents_and_other_workspaces_give_nothing(database: SqlDatabase) -> None:
    bind(database, "ann", "tel", "s")
    bind(database, "U1", "sla", "s")
    bind(database, "ann", "tel", "s", ws="v")
    talk(database, "ann", "tel")
    talk(database, "ann", "tel", ws="v")
    talk(database, "U1", "sla", ws="v")
    talk(database, "U1", "sla", group=True, named="square")
    talk(database, "U1", "sla", named="elsewhere", agent_id="another")
    assert places(given(database, "ann", "tel")) == []
    assert places(given(database, "ann", "tel", ws="v")) == [], "nobody bound it there"
    talk(database, "U1", "sla")
    assert places(given(database, "ann", "tel")) == ["sla with U1"]
    for named in ("square", "never seen"):
        grouped = given(database, "U1", "sla", group=True, named=named)
        assert grouped == AcrossAccounts("s", state=True), "what was said in private stays in private"
    talk(database, "U2", "sla", named="sla with U1")
    assert places(given(database, "ann", "tel")) == [], "two people have written there"
    talk(database, "U1", "sla")
    assert places(given(database, "ann", "tel")) == [], "and that stays so"


def test_who_only_says_to_be_somebody_gets_nothing(database: SqlDatabase) -> None:
    talk(database, "ann", "tel")
    bind(database, "U1", "sla", "person:tel/ann")
    for requester in ("key:desk", "person:tel/ann", "ann"):
        assert given(database, "ann", "tel", requester=requester) is None, "an actor that a sender wrote"
    assert given(database, "ann", "tel", above=ParentBounds()) is None, "the run above has nothing of it"
    # ids that look like others'
    for who, on in (("tel/ann", "sla"), ("ann ", "tel"), ("person:tel/ann", "sla"), ("Ann", "tel")):
        talk(database, who, on)
        found = given(database, who, on)
        assert found is not None
        assert (found.subject, found.chats) == (f"person:{on}/{who}", [])


def test_with_another_platform_an_id_is_another_person(database: SqlDatabase) -> None:
    talk(database, "ann", "tel")
    talk(database, "U1", "sla")
    bind(database, "U1", "sla", "person:tel/ann")
    before = given(database, "U1", "sla")
    assert places(before) == ["tel with ann"]
    write(database, lambda tx: configure(tx, "tel", "plugin:a/other/c"))
    found = given(database, "U1", "sla")
    assert found is not None
    assert (found.subject, found.chats) == ("person:sla/U1", [])
    stranger = given(database, "ann", "tel")
    assert stranger is not None
    assert stranger.channel_of == "plugin:a/other/c", "a state of their own"
    assert stranger == AcrossAccounts("person:tel/ann", "plugin:a/other/c", state=True), "no private chat yet"
    write(database, lambda tx: configure(tx, "tel"))
    assert given(database, "U1", "sla") == before


def test_a_stranger_who_types_a_code_has_what_its_subject_has_and_no_more(database: SqlDatabase) -> None:
    talk(database, "ann", "tel")
    talk(database, "eve", "sla")
    code, _ = write(database, lambda tx: pairing_codes.offer(tx, "w", "person:tel/ann", by="person:tel/ann"))
    eve = ChannelAccount(channel="sla", person_id="eve")
    wrong = code[:-1] + ("2" if code[-1] != "2" else "3")
    assert write(database, lambda tx: pairing_codes.redeem(tx, "w", wrong, eve)) is None
    assert write(database, lambda tx: pairing_codes.redeem(tx, "v", code, eve)) is None
    assert places(given(database, "eve", "sla")) == []
    assert write(database, lambda tx: pairing_codes.redeem(tx, "w", code, eve)) is not None
    assert places(given(database, "eve", "sla")) == ["tel with ann"], "the code is what says who they are"
    mallory = ChannelAccount(channel="sla", person_id="mallory")
    assert write(database, lambda tx: pairing_codes.redeem(tx, "w", code, mallory)) is None, "once"


def test_what_was_said_before_a_chat_was_known_to_be_private_is_not_given(database: SqlDatabase) -> None:
    place = Place("bot of sla", "sla with U1")
    old = item_of(Message(role="user", content="an old hello"), place)
    write(database, lambda tx: transcripts.append(tx, "w", old))
    talk(database, "ann", "tel")
    talk(database, "U1", "sla")
    bind(database, "U1", "sla", "person:tel/ann")
    found = given(database, "ann", "tel")
    assert found is not None
    assert found.chats == [PrivateChat("bot of sla", "sla with U1", 2)]
    spans = [Span(one.conversation_id, bot_id=one.bot_id, after_seq=one.after_seq) for one in found.chats]
    page = read(database, lambda tx: transcripts.page_across(tx, "w", spans))
    assert [one.content for one in page.items] == ["U1 says hello on sla"]
    hits = read(database, lambda tx: search.search_across(tx, "w", "hello", spans))
    assert [one.content for one in hits.items] == ["U1 says hello on sla"]
    assert read(database, lambda tx: transcripts.latest_across(tx, "w", spans, before_seq=3)) == 0


def _walk(database: SqlDatabase, spans: list[Span], limit: int, direction: Direction) -> Iterator[int]:
    """The sequences of a history, page by page."""
    edge, at = "before_seq" if direction == "backward" else "after_seq", dict[str, int]()

    def next_page(tx: Tx) -> TranscriptPage:
        return transcripts.page_across(
            tx,
            "w",
            spans,
            limit=limit,
            direction=direction,
            before_seq=at.get("before_seq"),
            after_seq=at.get("after_seq"),
        )

    while True:
        page = read(database, next_page)
        for one in page.items:
            at[edge] = one.seq
            yield one.seq
        if not page.has_more:
            return


def test_a_history_of_several_chats_is_paged_as_one(database: SqlDatabase) -> None:
    """However it is cut, it is what one conversation with the same items would be."""
    spans = [Span("x", None, "b"), Span("y", bot_id="b"), Span("z", bot_id="b", after_seq=6)]
    asked = "xyzqxzyyxqzx"

    def work(tx: Tx) -> None:
        for number, name in enumerate(asked, start=1):
            message = Message(role="user", content=f"number {number}")
            transcripts.append(tx, "w", item_of(message, Place("b", name, "t" if name == "y" else None)))
        for other in (Place("another", "y"), Place("b", "x", "thread")):
            transcripts.append(tx, "w", item_of(Message(role="user", content="number 0"), other))

    write(database, work)
    wanted = [seq for seq, name in enumerate(asked, start=1) if name in "xy" or (name == "z" and seq > 6)]
    for limit in (1, 3, 100):
        assert list(_walk(database, spans, limit, "forward")) == wanted
        assert list(_walk(database, spans, limit, "backward")) == wanted[::-1]
    hits = read(database, lambda tx: search.search_across(tx, "w", "number", spans, limit=4))
    assert ([one.seq for one in hits.items], hits.total_count) == (wanted[::-1][:4], len(wanted))
    every = read(database, lambda tx: search.search_across(tx, "w", "number", spans, limit=50))
    assert (len(every.items), every.total_count, every.complete) == (len(wanted), len(wanted), True)
    assert read(database, lambda tx: transcripts.latest_across(tx, "w", spans, before_seq=8)) == 7


def test_readers_are_noted_once_since_the_earliest_and_forgotten(database: SqlDatabase) -> None:
    across = AcrossAccounts(
        "person:tel/ann", PLUGINS["tel"], state=True, history=True, chats=[PrivateChat("b", "tel with ann")]
    )
    grant = Grant(
        workspace_id="w",
        agent_id="a1",
        agent_version=1,
        runner_id="plugin:a/b/c",
        owner="a/b",
        conversation_id="sla with U1",
        across=across,
    )

    def work(tx: Tx) -> None:
        readers.note(tx, grant, "r1", "U1", since=20, first_event=2)
        readers.note(tx, grant, "r2", "U1", since=10, first_event=3)

    write(database, work)

    def subjects(who: str, ws: str = "w") -> list[str]:
        return read(database, lambda tx: readers.subjects_of(tx, ws, who))

    for who in ("U1", "ann", "person:tel/ann"):
        assert subjects(who) == ["person:tel/ann"]
    assert subjects("U1", "v") == subjects("tel/ann") == []
    of_ann = read(database, lambda tx: person_accounts.subjects_of(tx, "w", "ann"))
    assert of_ann == ["person:sla/ann", "person:tel/ann"], "whether or not a run had it"
    state = read(database, lambda tx: readers.of_state(tx, "w", "person:tel/ann"))
    history = read(database, lambda tx: readers.of_history(tx, "w", "tel with ann"))
    assert state == history == [readers.Reader("sla with U1", "", 10, 2)]

    own = StateArea("actor", "k1", "a1", actor_type="user", actor_id="person:tel/ann")
    shared = StateArea("actor", "k2", "a1", actor_type="subject", actor_id="person:tel/ann")

    def put(tx: Tx) -> None:
        state_values.set(tx, "w", own, "k", "1")
        state_values.set(tx, "w", shared, "k", "1")

    write(database, put)
    assert write(database, lambda tx: readers.drop_states(tx, "w", "person:tel/ann")) == 1
    assert read(database, lambda tx: state_values.get(tx, "w", "k1", "k")).version == 1
    write(database, lambda tx: readers.forget_person(tx, "w", "nobody"))
    assert read(database, lambda tx: readers.of_state(tx, "w", "person:tel/ann")) == state
    write(database, lambda tx: readers.forget_person(tx, "w", "ann"))
    write(database, lambda tx: readers.forget_conversation(tx, "w", "tel with ann"))
    assert read(database, lambda tx: readers.of_state(tx, "w", "person:tel/ann")) == []
    assert read(database, lambda tx: readers.of_history(tx, "w", "tel with ann")) == []
