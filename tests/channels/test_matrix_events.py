"""Matrix: each kind of event becomes a common one, or a `platform.` one with all that Matrix said."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hostler_protocol.channels import ChannelEvent, IngestEventReply
from hostler_protocol.errors import InvalidArgumentError
from support.channel_desk import ChannelDesk, OpenChannel
from support.matrix_desk import config_of, connected, desk, serving
from support.matrix_server import ADA, BOB, DM, GROUP, ME, MatrixServer, Refusal

__all__ = ["desk"]

PARTY = "!party:hs.example"


def joined(**more: Any) -> dict[str, Any]:
    return {"membership": "join", **more}


def message(body: str, **more: Any) -> dict[str, Any]:
    return {"msgtype": "m.text", "body": body, **more}


def replacing(target: str) -> dict[str, Any]:
    return {"m.new_content": message("better"), "m.relates_to": {"rel_type": "m.replace", "event_id": target}}


@pytest.mark.parametrize(
    ("kind", "content", "more", "expected", "person"),
    [
        ("m.room.message", message("+1", msgtype="m.emote"), {}, "message.received", ADA),
        ("m.room.message", message("?", msgtype="org.of.tomorrow"), {}, "message.received", ADA),
        ("m.room.message", {"body": "?"}, {}, "platform.m.room.message", ADA),
        (
            "m.room.message",
            message("?", msgtype="m.key.verification.request"),
            {},
            "platform.m.key.verification.request",
            ADA,
        ),
        ("m.room.message", message("* x", **replacing("OF_BOB")), {}, "platform.m.replace", ADA),
        ("m.room.message", message("* x", **replacing("$gone:hs")), {}, "platform.m.replace", ADA),
        ("m.room.member", joined(), {"state_key": "@eve:hs"}, "group.member_joined", "@eve:hs"),
        ("m.room.member", joined(displayname="B."), {"state_key": BOB}, "platform.m.room.member", ADA),
        ("m.room.member", {"membership": "leave"}, {"state_key": BOB}, "group.member_left", BOB),
        ("m.room.member", {"membership": "ban"}, {"state_key": BOB}, "group.member_left", BOB),
        ("m.room.member", {"membership": "invite"}, {"state_key": "@e:hs"}, "platform.m.room.member", ADA),
        ("m.room.member", {"membership": "leave"}, {"state_key": "@e:hs"}, "platform.m.room.member", ADA),
        ("m.room.member", {"membership": "ban"}, {"state_key": ME}, "group.bot_removed", ADA),
        ("m.room.member", joined(), {}, "platform.m.room.member", ADA),
        ("m.room.topic", {"topic": "tea"}, {"state_key": ""}, "platform.m.room.topic", ADA),
        ("m.room.tombstone", {"body": "moved"}, {"state_key": ""}, "platform.m.room.tombstone", ADA),
        ("org.matrix.msc3381.poll.start", {}, {}, "platform.org.matrix.msc3381.poll.start", ADA),
        ("m.room.redaction", {}, {}, "platform.m.room.redaction", ADA),
        ("m.reaction", {"m.relates_to": {"rel_type": "m.annotation"}}, {}, "platform.m.reaction", ADA),
        ("Odd Ty/pe..é", {}, {}, "platform.odd_ty_pe._", ADA),
        ("...", {}, {}, "platform.event", ADA),
        ("x" * 255, {}, {}, f"platform.{'x' * 111}", ADA),
        ("m.room.message", {}, {"unsigned": {"redacted_because": {}}}, "platform.m.room.message", ADA),
    ],
)
def test_each_event_becomes_one_and_nothing_of_it_is_lost(
    desk: ChannelDesk,
    kind: str,
    content: dict[str, Any],
    more: dict[str, Any],
    expected: str,
    person: str,
) -> None:
    of_bob: list[str] = []

    def prepare(server: MatrixServer) -> None:
        of_bob.append(server.stream.add(GROUP, "m.room.message", message("mine"), BOB))

    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        relates = content.get("m.relates_to", {})
        known = relates | {"event_id": of_bob[0]} if relates.get("event_id") == "OF_BOB" else relates
        sent = content | ({"m.relates_to": known} if known else {})
        event_id = server.happen(kind, sent, room=GROUP, **more)
        event = await channel.event()
        assert (event.event_type, event.event_id, event.source_event_type) == (expected, event_id, kind)
        assert event.person is not None
        assert event.person.person_id == person
        assert event.data["matrix"] == server.stream.by_id[event_id][1]
        server.say("and then")
        assert (await channel.event()).text == "and then"

    connected(desk, body, prepare=prepare)


def test_reactions_come_and_go_and_messages_are_taken_back(desk: ChannelDesk) -> None:
    old: list[str] = []

    def prepare(server: MatrixServer) -> None:
        relates = {"rel_type": "m.annotation", "event_id": "$x", "key": "🍵"}
        old.append(server.stream.add(DM, "m.reaction", {"m.relates_to": relates}, ADA))
        server.redacted(old[0])

    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        said = server.say("hello", {"m.relates_to": {"rel_type": "m.thread", "event_id": "$root:hs"}})
        relates = {"rel_type": "m.annotation", "event_id": said, "key": "👍"}
        reaction = server.happen("m.reaction", {"m.relates_to": relates})
        _, added = await channel.events(2)
        assert (added.event_type, added.message_id, added.data["emoji"]) == (
            "message.reaction_added",
            said,
            "👍",
        )
        assert added.chat is not None
        assert added.chat.thread_id == "$root:hs"
        channel.ingest.events.clear()
        server.redacted(reaction)
        server.happen("m.room.redaction", {}, redacts=reaction)
        gone = await channel.event()
        assert (gone.event_type, gone.message_id, gone.data["emoji"]) == (
            "message.reaction_removed",
            said,
            "👍",
        )
        server.redacted(said)
        server.happen("m.room.redaction", {"redacts": said}, by=BOB)
        recalled = await channel.event()
        assert (recalled.event_type, recalled.message_id) == ("message.recalled", said)
        assert recalled.chat is not None
        assert recalled.chat.thread_id == "$root:hs"
        assert recalled.person is not None
        assert recalled.person.person_id == BOB
        server.happen("m.room.redaction", {"redacts": old[0]})
        unknown = await channel.event()  # of which only is left that it was a reaction
        assert (unknown.event_type, unknown.message_id) == ("message.reaction_removed", None)
        assert unknown.data["reaction_id"] == old[0]

    connected(desk, body, prepare=prepare)


def test_what_has_a_place_says_where(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        server.say("Here", msgtype="m.location", geo_uri="geo:1.5,2.5")
        event = await channel.event()
        assert (event.text, event.data["geo_uri"], event.data["msgtype"]) == (
            "Here",
            "geo:1.5,2.5",
            "m.location",
        )

    connected(desk, body)


@pytest.mark.parametrize(
    "event",
    [
        "nonsense",
        None,
        {},
        {"type": "m.room.message", "sender": ADA, "event_id": "", "content": {}},
        {"type": "m.room.message", "sender": ADA, "event_id": "$odd:hs", "content": "hello"},
        {"type": "m.room.message", "sender": [ADA], "event_id": "$odd:hs", "content": {}},
        {"type": 7, "sender": ADA, "event_id": "$odd:hs", "content": {}},
        {"type": "m.room.message", "sender": ADA, "event_id": "$" + "x" * 600, "content": {}},
    ],
)
def test_an_event_that_is_none_is_told_and_holds_nothing_up(desk: ChannelDesk, event: Any) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        server.put(event)
        told = await channel.event()
        assert told.event_type.startswith("platform.")
        assert "no id, sender, type or content" in told.data["unreadable"]
        assert told.data["matrix"] == event
        server.say("and then")
        assert (await channel.event()).text == "and then"

    connected(desk, body)


def test_odd_values_are_told_as_far_as_they_can_be(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        odd = {"half": "\ud83d", "many": 10**400, "no": float("inf"), "deep": [[[[[1]]]]], "m.mentions": 7}
        relates = {"m.in_reply_to": "x", "rel_type": ["m.thread"], "event_id": {}}
        server.say("hello \ud83d", {**odd, "info": 3, "m.relates_to": relates})
        event = await channel.event()
        assert (event.event_type, event.text, event.reply_to) == ("message.received", "hello ?", None)
        assert event.data["matrix"]["content"]["many"] is None
        assert event.chat is not None
        assert event.chat.thread_id is None

    connected(desk, body)


def test_an_event_that_the_host_will_never_take_holds_nothing_up(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        refused = InvalidArgumentError("data: it is too large")
        channel.ingest.refusals = [refused]
        server.say("too much")
        event: ChannelEvent = await channel.event()
        assert (event.text, event.data) == ("too much", {"left_out": "data: it is too large"})
        channel.ingest.refusals = [refused, refused]
        server.say("what nobody else may read")
        server.say("next")
        assert (await channel.event()).text == "next"
        while b"is lost" not in channel.plugin._stderr_tail:
            await asyncio.sleep(0.02)
        assert b"nobody else" not in channel.plugin._stderr_tail, "the log has its id alone"

    connected(desk, body)


# -- invitations ----------------------------------------------------------------------------------


def test_an_invitation_is_told_and_accepted(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        server.stream.make(PARTY, ADA)
        server.stream.add(PARTY, "m.room.message", message("before you came"), ADA)
        server.invite(PARTY)
        event = await channel.event()
        assert event.event_type == "group.bot_invited"
        assert event.chat is not None
        assert (event.chat.chat_id, event.chat.kind, event.chat.title) == (PARTY, "private", "Come in")
        assert event.person is not None
        assert (event.person.person_id, event.person.name) == (ADA, "Ada")
        assert event.data["is_direct"] is True
        (call,) = await server.until("join")
        assert call.params["room"] == PARTY
        server.say("welcome", room=PARTY)
        assert (await channel.event()).text == "welcome"
        server.happen("m.room.member", {"membership": "leave"}, room=PARTY, state_key=ME)
        gone = await channel.event()
        assert (gone.event_type, gone.data["was"]) == ("group.bot_removed", "join")
        server.invite(PARTY)
        again = await channel.event()
        assert (again.event_type, again.event_id == event.event_id) == ("group.bot_invited", False)
        assert channel.ingest.duplicates == []

    connected(desk, body)


def test_an_invitation_of_somebody_whom_the_channel_keeps_out_is_not_accepted(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        answer = channel.ingest.answer
        ignored = IngestEventReply(outcome="ignored")
        kept: Any = channel.ingest
        session: Any = channel.plugin.session

        class Ignoring:
            def __getattr__(self, name: str) -> Any:
                return getattr(kept, name)

            def answer(self, params: Any) -> Any:
                told = answer(params)
                return ignored if isinstance(told, IngestEventReply) else told

        session.ingest = Ignoring()
        server.invite(PARTY)
        await channel.event()
        server.happen("m.room.encrypted", {"algorithm": "m.megolm.v1.aes-sha2"})
        await channel.event()
        await server.until_synced()
        assert server.called("join") == server.called("send") == []

    connected(desk, body)


def test_invitations_can_be_left_alone(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        server.invite(PARTY, is_direct=False)
        event = await channel.event()
        assert event.chat is not None
        assert event.chat.kind == "group"
        await server.until_synced()
        assert server.called("join") == []

    connected(desk, body, invites="ignore")


def test_an_invitation_from_before_is_accepted_and_one_that_cannot_be_waits(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            server.invite(PARTY)
            server.refusals["join"] = [Refusal(502, "M_UNKNOWN", "Failed to join room via any server")]
            async with desk.opened(config_of(server)) as channel:
                await channel.event()
                await channel.until(lambda: channel.state is not None)
                state = channel.state
                assert state["joins"] == [PARTY]
            async with desk.opened(config_of(server), state=state) as channel:
                await server.until("join", 2)
                server.say("welcome", room=PARTY)
                assert (await channel.event()).text == "welcome"
                await channel.until(lambda: channel.state["joins"] == [])
            server.invite("!gone:hs.example")
            server.refusals["join"] = [Refusal(403, "M_FORBIDDEN", "You are not invited to this room.")]
            async with desk.opened(config_of(server), state=state) as channel:
                await server.until("join", 4)
                await channel.until(lambda: channel.state is not None and channel.state["joins"] == [])

    desk.run(whole)
