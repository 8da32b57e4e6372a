"""Pairing in chats: who is let in by a code, who becomes another account of whom, and what nobody gets.

Over a whole host, with a channel whose platform calls it: what its people write is posted to its address.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hostler.channels import pairing
from hostler.domain import pairing as rules
from hostler.domain.channels import ChannelAccess, ChannelEntry
from hostler.host.config import ConfigFile
from hostler.storage.stores import channel_people, members, pairing_codes, people
from support.channel_host import Chatting, chatting
from support.chat_platform import TOKEN, ChatPlatform, platform
from support.databases import TEST_SECONDS
from support.http_host import WORKSPACE

pytestmark = [pytest.mark.timeout(TEST_SECONDS + 10), pytest.mark.gate("pairing")]
CODE = re.compile(r"[A-Z2-9]{4}-[A-Z2-9]{4}")


@pytest.fixture
async def chat() -> AsyncIterator[ChatPlatform]:
    async with platform() as found, asyncio.timeout(TEST_SECONDS):
        yield found


@dataclass
class Street:
    """A host with one or two channels that are called, and what people write to them."""

    host: Chatting
    _count: int = 0
    _seen: set[str] = field(default_factory=set)

    async def write(self, text: str, *, by: str = "ann", to: str = "chat", **more: Any) -> int:
        """Somebody writes in their private chat, or as `more` says; return the number of the message."""
        self._count += 1
        await self.again(self._count, text, by=by, to=to, **more)
        return self._count

    async def again(self, number: int, text: str, *, by: str = "ann", to: str = "chat", **more: Any) -> None:
        """The platform delivers a message, perhaps once more."""
        said = {"id": str(number), "text": text, "by": by, "chat": f"with {by}", "kind": "private", **more}
        async with self.host.served.as_key(None) as outside:
            answer = await outside.post(f"/v1/channels/{to}/webhook", json=said, headers={"x-token": TOKEN})
        assert answer.status_code == 200, answer.text

    async def told(self, by: str = "ann", to: str = "chat") -> list[str]:
        """What the bot has said to somebody so far, oldest first."""
        return [
            one.outbound.message.text
            for one in await self.host.outbox()
            if (one.channel, one.outbound.target.chat_id) == (to, f"with {by}")
        ]

    async def code(self, by: str = "ann", to: str = "chat") -> str:
        """The code that somebody was told last."""
        found = [match[0] for text in await self.told(by, to) if (match := CODE.search(text)) is not None]
        return found[-1]

    async def events(self) -> list[str]:
        """What became events, oldest first."""
        found = (await self.host.served.client.get("/v1/events")).json()["items"]
        return [one["input_summary"] for one in reversed(found)]

    async def post(self, path: str, body: Any, status: int = 200) -> Any:
        answer = await self.host.served.client.post(path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def people(self, **query: str) -> list[tuple[str, str, str]]:
        """Channel, id and subject of those who are bound."""
        found = (await self.host.served.client.get("/v1/people", params=query)).json()["items"]
        return [(one["channel"], one["person_id"], one["subject"]) for one in found]

    async def audited(self, action: str) -> list[tuple[str, str]]:
        """Who did something, and to what."""
        answer = await self.host.served.client.get("/v1/audit", params={"action": action})
        return [(one["actor"], one["target"]) for one in answer.json()["items"]]

    async def subject(self, by: str, to: str = "chat") -> str:
        return await self.host.host.db.read(lambda tx: channel_people.subject_of(tx, WORKSPACE, to, by))

    async def open(self, name: str = "chat") -> None:
        while self.host.host.channels.find_open(name) is None:
            await asyncio.sleep(0.02)


@asynccontextmanager
async def street(
    folder: Path, chat: ChatPlatform, *, second: dict[str, Any] | None = None, **fields: Any
) -> AsyncIterator[Street]:
    """A host with the channel `chat`, which pairs people, and perhaps `other`."""
    async with chatting(folder, chat, "called", **{"pairing": True, **fields}) as host:
        found = Street(host)
        await found.open()
        if second is not None:
            (entry,) = host.host.channels._entries.values()
            other = ChannelEntry(name="other", channel=entry.channel, config=entry.config, **second)
            await host.host.apply(ConfigFile(channels=[other]), actor="test")
            await found.open("other")
        yield found


async def test_an_unknown_person_gets_one_code_and_is_let_in_by_the_operator(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with street(tmp_path, chat) as here:
        number = await here.write("hello")
        await here.again(number, "hello")
        await here.write("is anybody there?")
        (told,) = await here.told()
        code = await here.code()
        assert "Give this code to whoever runs this bot" in told
        assert await here.events() == []
        (waiting,) = (await here.host.served.client.get("/v1/pairings")).json()["items"]
        assert (waiting["channel"], waiting["person_id"], waiting["status"]) == ("chat", "ann", "waiting")
        assert code not in str(waiting)
        await here.post("/v1/pairings/confirm", {"code": "AAAA-AAAA"}, 404)
        await here.post("/v1/pairings/confirm", {"code": "no code"}, 400)
        bound = await here.post("/v1/pairings/confirm", {"code": code.lower().replace("-", " ")})
        assert (bound["subject"], bound["how"], bound["bound_by"]) == (
            "person:chat/ann",
            "confirmed",
            "admin",
        )
        assert (await here.told())[-1] == rules.LET_IN_TEXT
        await here.write("now?")
        await here.write("me, too?", by="bob")
        assert await here.events() == ["now?"]
        await here.post("/v1/pairings/confirm", {"code": code}, 404)
        assert await here.audited("person.bound") == [("admin", "chat/ann")]


async def test_who_is_rejected_blocked_or_a_bot_gets_no_code(tmp_path: Path, chat: ChatPlatform) -> None:
    async with street(tmp_path, chat, block=ChannelAccess(people=["mallory"])) as here:
        await here.write("hello")
        await here.post("/v1/pairings/reject", {"code": await here.code()}, 204)
        await here.post("/v1/pairings/confirm", {"code": await here.code()}, 404)
        await here.write("please")
        assert len(await here.told()) == 1
        assert await here.audited("pairing.rejected") == [("admin", "chat/ann")]
        await here.write("hello", by="mallory")
        await here.write("hello", by="robot", bot=True)
        await here.write("hello", by="carol", chat="a room", kind="group")
        await here.write("hello", by="bot-1")
        assert len(await here.host.outbox()) == 1
        assert await here.events() == []
        (waiting,) = (await here.host.served.client.get("/v1/pairings")).json()["items"]
        assert waiting["status"] == "rejected"


async def test_listed_people_need_no_code(tmp_path: Path, chat: ChatPlatform) -> None:
    async with street(tmp_path, chat, allow=ChannelAccess(people=["ann"], chats=["a room"])) as here:
        await here.write("I am listed")
        await here.write("my room is", by="bob", chat="a room", kind="group")
        await here.write("I am not", by="bob")
        assert await here.events() == ["I am listed", "my room is"]
        assert await here.code("bob")


async def test_codes_are_over_after_an_hour_and_the_next_message_has_another(
    tmp_path: Path, chat: ChatPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairing_codes, "CODE_MS", 1)
    async with street(tmp_path, chat) as here:
        await here.write("hello")
        first = await here.code()
        await here.post("/v1/pairings/confirm", {"code": first}, 404)
        monkeypatch.undo()
        await here.write("hello again")
        assert await here.code() != first
        assert len(await here.told()) == 2
        await here.post("/v1/pairings/confirm", {"code": await here.code()})


async def test_a_bot_writes_to_a_bounded_number_of_strangers(
    tmp_path: Path, chat: ChatPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairing, "CODES_BURST", 3.0)
    monkeypatch.setattr(pairing, "CODES_PER_SECOND", 1e-9)
    async with street(tmp_path, chat) as here:
        for number in range(6):
            await here.write("hello", by=f"stranger {number}")
        assert len(await here.host.outbox()) == 3
    monkeypatch.setattr(pairing_codes, "MAX_WAITING", 2)
    async with street(tmp_path / "full", chat) as here:
        for number in range(4):
            await here.write("hello", by=f"stranger {number}")
        assert len(await here.host.outbox()) == 2


async def test_a_code_of_one_account_binds_the_other_one_of_the_same_person(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with street(tmp_path, chat, second={"pairing": True}) as here:
        await here.write("hello")
        await here.post("/v1/pairings/confirm", {"code": await here.code(), "subject": "ann@example.org"})
        asked = await here.write("/link")
        await here.again(asked, "/link")
        assert len(await here.told()) == 3  # hello, let in, the code: once
        code = await here.code()
        typed = await here.write(f" {code.lower()} ", by="U7", to="other")
        await here.again(typed, code, by="U7", to="other")
        assert await here.told("U7", "other") == [rules.BOUND_TEXT]
        assert await here.subject("U7", "other") == "ann@example.org"
        await here.write("it is me", by="U7", to="other")
        assert await here.events() == ["it is me"], "neither codes nor requests for them are messages"
        await here.write(code, by="eve", to="other")
        assert await here.told("eve", "other") == [rules.WRONG_TEXT], "a code is used once"
        assert await here.people(subject="ann@example.org") == [
            ("chat", "ann", "ann@example.org"),
            ("other", "U7", "ann@example.org"),
        ]


async def test_the_code_that_a_stranger_got_lets_nobody_in_who_types_it(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with street(tmp_path, chat, second={"pairing": False}) as here:
        await here.write("hello", by="eve")
        code = await here.code("eve")
        await here.write(code, by="eve")
        await here.write(code, by="ann", to="other")
        assert await here.people() == []
        assert await here.events() == [code], "to who may speak anyway it is a message"


async def test_guesses_are_few_and_a_right_code_after_them_is_no_code(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with street(tmp_path, chat) as here:
        made = await here.post("/v1/pairings", {"subject": "ann@example.org"}, 201)
        for number in range(int(pairing.TRIES_BURST)):
            await here.write(f"AAAA-AAA{number + 2}", by="eve")
        assert await here.audited("pairing.offered") == [("admin", "ann@example.org")]
        await here.write(made["code"], by="eve")
        assert await here.people() == []
        assert await here.told("eve") == [rules.WRONG_TEXT] * int(pairing.TRIES_BURST)
        await here.write(made["code"])
        assert await here.subject("ann") == "ann@example.org"


async def test_a_code_of_the_console_binds_where_nobody_is_paired_too(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with street(tmp_path, chat, pairing=False, allow=ChannelAccess(people=["ann"])) as here:
        made = await here.post("/v1/pairings", {"subject": "ann@example.org"}, 201)
        await here.write(made["code"], by="bob")
        assert await here.people() == [], "bob is not let in: he is not listed"
        await here.write(made["code"], chat="a room", kind="group")
        await here.write(made["code"])
        assert await here.people() == [("chat", "ann", "ann@example.org")]
        await here.write("/link")
        assert await here.events() == [made["code"], "/link"], (
            "in a room it is a message, and so is /link here"
        )


async def test_the_operator_binds_and_unbinds(tmp_path: Path, chat: ChatPlatform) -> None:
    async with street(tmp_path, chat) as here:
        client = here.host.served.client
        put = await client.put("/v1/people/chat/ann", json={"subject": "ann@example.org", "name": "Ann"})
        assert (put.status_code, put.json()["how"], put.json()["name"]) == (200, "operator", "Ann")
        await here.write("hello")
        assert (await client.delete("/v1/people/chat/ann")).status_code == 204
        assert (await client.delete("/v1/people/chat/ann")).status_code == 404
        await here.write("and now?")
        assert await here.events() == ["hello"]
        assert await here.audited("person.unbound") == [("admin", "chat/ann")]
        assert await here.subject("ann") == "person:chat/ann"
        for subject, why in (
            ("channel:chat", "are channels"),
            (" x", "spaces"),
            ("person:x", "names no person"),
        ):
            answer = await client.put("/v1/people/chat/ann", json={"subject": subject})
            assert (answer.status_code, why in answer.text) == (400, True), answer.text
        assert (await client.put("/v1/people/none/ann", json={})).status_code == 404
        for number in range(rules.MAX_ACCOUNTS + 1):
            answer = await client.put(f"/v1/people/chat/p{number}", json={"subject": "crowd"})
        assert (answer.status_code, "20 accounts" in answer.text) == (409, True)
        pages = [await client.get("/v1/people", params={"limit": 15})]
        pages.append(
            await client.get("/v1/people", params={"limit": 15, "cursor": pages[0].json()["next_cursor"]})
        )
        assert len({one["person_id"] for page in pages for one in page.json()["items"]}) == rules.MAX_ACCOUNTS


async def test_who_may_make_codes(tmp_path: Path, chat: ChatPlatform) -> None:
    async with street(tmp_path, chat) as here:
        served = here.host.served
        for rights, status in ((("pauses:write",), 403), (("runs:read",), 403), (("admin",), 201)):
            async with served.as_key(await served.key(WORKSPACE, *rights)) as client:
                assert (await client.post("/v1/pairings", json={})).status_code == status
                own = {"get": 200 if status == 201 else 403}
                assert (await client.get("/v1/people")).status_code == own["get"]
                assert (await client.get("/v1/pairings")).status_code == own["get"]
        first = await here.post("/v1/pairings", {"subject": "ann"}, 201)
        second = await here.post("/v1/pairings", {"subject": "ann"}, 201)
        await here.write(first["code"])
        assert await here.people() == [], "the newest code of a subject is the only one"
        await here.write(second["code"])
        assert await here.people() == [("chat", "ann", "ann")]


async def test_a_binding_to_a_member_ends_with_the_membership(tmp_path: Path, chat: ChatPlatform) -> None:
    async with street(tmp_path, chat) as here:
        client, subject = here.host.served.client, "oidc:https://id.example#ann"
        await client.put("/v1/people/chat/ann", json={"subject": subject})
        assert await here.subject("ann") == "person:chat/ann", "nobody of the workspace is that"

        def join(tx: Any) -> str:
            made = members._insert(tx, WORKSPACE, subject, "a@b.org", "Ann", "approver", "invited", by="test")
            return made.member_id

        member = await here.host.host.db.write(join)
        assert await here.subject("ann") == subject
        assert (await client.delete(f"/v1/members/{member}")).status_code in {200, 204}
        assert await here.subject("ann") == "person:chat/ann"


async def test_a_deleted_person_has_no_account_and_no_code(tmp_path: Path, chat: ChatPlatform) -> None:
    async with street(tmp_path, chat, second={"pairing": True}) as here:
        client = here.host.served.client
        await here.write("hello", by="ann")
        await here.write("hello", by="bob")
        await here.post("/v1/pairings/confirm", {"code": await here.code("ann")})
        await here.write("/link", by="ann")
        await here.write(await here.code("ann"), by="U7", to="other")
        assert len(await here.people()) == 2
        deleted = await client.delete("/v1/actors/ann")
        assert (deleted.status_code, deleted.json()["deleted"]["accounts"]) == (200, 2), deleted.text
        deleted = await client.delete("/v1/actors/bob", params={"actor_type": "user"})
        assert deleted.json()["deleted"]["accounts"] == 1
        assert await here.people() == [], "accounts that are hers on other channels go with her"
        assert await here.host.outbox() == []
        assert (await client.get("/v1/pairings")).json()["items"] == []
        await here.write("hello", by="ann")
        assert await here.events() == []


async def test_a_channel_that_is_removed_or_another_one_has_none_of_its_people(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with street(tmp_path, chat) as here:
        client, db = here.host.served.client, here.host.host.db
        await client.put("/v1/people/chat/ann", json={"subject": "ann@example.org"})
        await here.write("hello", by="bob")
        (configured,) = here.host.host.channels._entries.values()
        elsewhere = {"port": chat.port, "token": configured.config["token"]}
        other = ChannelEntry(name="chat", channel="plugin:test/wires/blind", config=elsewhere, pairing=True)
        await here.host.change(other)
        assert await here.subject("ann") == "person:chat/ann", "ids of another platform are other people"
        answer = await client.post("/v1/pairings/confirm", json={"code": await here.code("bob")})
        assert (answer.status_code, "another one since" in answer.text) == (404, True)
        assert (await client.delete("/v1/config/channels/chat")).status_code == 200

        async def forgotten() -> bool:
            rows = await db.read(
                lambda tx: [*people.channels(tx, WORKSPACE), *pairing_codes.channels(tx, WORKSPACE)]
            )
            return rows == []

        await here.host.until(forgotten)
