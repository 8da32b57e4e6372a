"""DingTalk: what it refuses of messages, files and edits, and what of them is in doubt."""

from __future__ import annotations

import asyncio

import pytest

from hostler_protocol.content import ArtifactRef
from hostler_protocol.errors import (
    HostlerError,
    InvalidArgumentError,
    RateLimitedError,
    RemoteFaultError,
)
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.dingtalk_calls import ADA, GROUP, Answer, Refused
from support.dingtalk_desk import connected, desk
from support.dingtalk_server import DingTalkServer

__all__ = ["desk"]


TOKEN = "/v1.0/oauth2/accessToken"


CARD = "/v1.0/card/instances/createAndDeliver"


UPDATE = "/v1.0/card/instances"


TO_GROUP = "/v1.0/robot/groupMessages/send"


TO_PERSON = "/v1.0/robot/oToMessages/batchSend"


LIMITED = Refused("Forbidden.AccessDenied.QpsLimitForAppkeyAndApi", 403, "应用调用该接口的频率过高")


UNSCOPED = Refused(
    "Forbidden.AccessDenied.AccessTokenPermissionDenied",
    403,
    accessdenieddetail={"requiredScopes": ["Card.Instance.Write"]},
)


@pytest.mark.parametrize(
    ("cards", "path", "answer", "kind", "why"),
    [
        (True, CARD, LIMITED, RateLimitedError, "limits the rate"),
        (True, CARD, Refused("Throttling", 429, headers={"Retry-After": "7"}), RateLimitedError, "limits"),
        (True, CARD, UNSCOPED, InvalidArgumentError, "needs the permission Card.Instance.Write"),
        (True, CARD, Refused("param.templateUnpublished"), InvalidArgumentError, "templateUnpublished"),
        (
            True,
            CARD,
            Refused("Throttling", 429, headers={"Retry-After": "9" * 400}),
            RateLimitedError,
            "limits",
        ),
        (True, CARD, Refused("Forbidden.AccessDenied.Quota", 403), RemoteFaultError, "Quota"),
        (True, CARD, {"success": False}, InvalidArgumentError, "did not deliver the card"),
        (False, TO_GROUP, LIMITED, RateLimitedError, "limits the rate"),
        (False, TO_GROUP, Refused("chatbotNotInGroup"), InvalidArgumentError, "chatbotNotInGroup"),
        (
            False,
            TO_PERSON,
            {"processQueryKey": "k", "flowControlledStaffIdList": [ADA]},
            RateLimitedError,
            "no more messages for this person",
        ),
    ],
)
def test_refusals_say_what_they_mean(
    desk: ChannelDesk, cards: bool, path: str, answer: Answer, kind: type[HostlerError], why: str
) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        server.answers[path].append(answer)
        chat = f"user:{ADA}" if path == TO_PERSON else GROUP
        error = await refusal(channel.send("once", chat))
        assert isinstance(error, kind)
        assert why in error.message
        if isinstance(error, RateLimitedError):
            assert error.details["retry_after"] in {2.0, 7.0, 60.0, 86_400.0}
        assert not (await channel.send("once", chat)).in_doubt
        assert server.texts(chat) == ["once"]

    connected(desk, body, cards=cards)


@pytest.mark.parametrize("answer", ["cut", "lost", 500, "<html>", {}, Refused("system.busy", 400)])
@pytest.mark.parametrize("cards", [True, False])
def test_a_message_of_which_nothing_is_known_is_in_doubt(
    desk: ChannelDesk, cards: bool, answer: Answer
) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        server.answers[CARD if cards else TO_GROUP].append(answer)
        sent = await channel.send("once", GROUP)
        assert sent.in_doubt
        assert sent.reason
        assert len(server.texts(GROUP)) == (1 if answer == "cut" else 0)

    connected(desk, body, cards=cards)


def test_a_message_that_never_left_is_sent_again(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        await server.stop()
        error = await refusal(channel.send("once", GROUP))
        assert isinstance(error, RemoteFaultError)
        assert "cannot be reached" in error.message or "not connected" in error.message
        await server.start()
        await channel.until_health("connected")
        await channel.send("once", GROUP)
        assert server.texts(GROUP) == ["once"]

    connected(desk, body)


@pytest.mark.parametrize("status", [400, 401])
def test_a_token_that_ended_is_replaced(desk: ChannelDesk, status: int) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        server.answers[CARD].append(Refused("InvalidAuthentication", status, "不合法的access_token"))
        await channel.send("once", GROUP)
        assert (server.texts(GROUP), len(server.called(TOKEN))) == (["once"], 2)
        server.tokens.append("another program has one now")
        assert (await channel.act("member.info", {"person_id": ADA})).result["userid"] == ADA
        asked = {
            "errcode": 88,
            "errmsg": "ding talk error",
            "sub_code": "40014",
            "sub_msg": "不合法的access_token",
        }
        server.answers["/topapi/v2/user/get"].append(asked)
        assert (await channel.act("member.info", {"person_id": ADA})).result["userid"] == ADA
        server.tokens.append("and again")
        channel.ingest.files["F"] = b"x"
        await channel.send(chat=GROUP, attachments=[ArtifactRef(artifact_id="F", name="a.pdf")])
        assert len(server.called(TOKEN)) == 5

    connected(desk, body)


def test_a_token_is_used_as_long_as_it_lasts(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        await asyncio.gather(*(channel.send(str(n), GROUP, key=str(n)) for n in range(5)))
        assert len(server.called(TOKEN)) == 1

    connected(desk, body)


def test_of_a_message_in_parts_each_is_sent_once(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        channel.ingest.files["F"] = b"x"
        refs = [ArtifactRef(artifact_id="F", name=f"{n}.pdf") for n in range(2)]
        server.answers[TO_GROUP] = [Refused("x"), LIMITED]
        first = await refusal(channel.send("text", GROUP, attachments=refs))
        assert isinstance(first, InvalidArgumentError)
        assert isinstance(await refusal(channel.send("text", GROUP, attachments=refs)), RateLimitedError)
        sent = await channel.send("text", GROUP, attachments=refs)
        told = [one.get("text") or one["file"][1] for one in server.written[GROUP]]
        assert told == ["text", "0.pdf", "1.pdf"]
        assert server.card(sent.message_id)["text"] == "text"

    connected(desk, body)


@pytest.mark.parametrize("answer", ["lost", 500, Refused("x"), {"errcode": 90018, "errmsg": "limit"}])
def test_a_file_that_is_not_taken_leaves_nothing_in_doubt(desk: ChannelDesk, answer: Answer) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        channel.ingest.files["F"] = b"x"
        server.answers["/media/upload"].append(answer)
        ref = ArtifactRef(artifact_id="F", name="a.pdf")
        await refusal(channel.send("text", GROUP, attachments=[ref]))
        assert server.texts(GROUP) == []

    connected(desk, body)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ([("a", b"", 0)], "is empty"),
        ([("a.pdf", b"x", 21 * 1024**2)], "20 MiB"),
        ([("a.pdf", b"x" * (20 * 1024**2 + 1), None)], "20 MiB"),
        ([("a.pdf", b"x", 1)] * 11, "at most 10"),
        ([("a.pdf", b"x", 19 * 1024**2)] * 6, "100 MiB together"),
    ],
)
def test_files_that_dingtalk_does_not_take_are_named(
    desk: ChannelDesk, files: list[tuple[str, bytes, int | None]], why: str
) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        refs = []
        for number, (name, content, size) in enumerate(files):
            channel.ingest.files[str(number)] = content
            refs.append(ArtifactRef(artifact_id=str(number), name=name, size_bytes=size))
        assert why in (await refusal(channel.send("text", GROUP, attachments=refs))).message
        assert not server.written[GROUP]

    connected(desk, body)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(LIMITED, RateLimitedError), ({"success": False}, InvalidArgumentError), (500, RemoteFaultError)],
)
def test_an_edit_that_fails_is_made_again(
    desk: ChannelDesk, answer: Answer, kind: type[HostlerError]
) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        sent = await channel.send("one", GROUP)
        server.answers[UPDATE].append(answer)
        assert isinstance(await refusal(channel.edit(sent.message_id, "two", GROUP)), kind)
        await channel.edit(sent.message_id, "two", GROUP)
        assert server.texts(GROUP) == ["two"]
        error = await refusal(channel.edit("hostler-other", "two", GROUP))
        assert isinstance(error, InvalidArgumentError)

    connected(desk, body)
