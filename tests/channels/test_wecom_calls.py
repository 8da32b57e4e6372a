"""WeCom's calls of the address: verified, decrypted, and answered once what they bring is durable."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from hostler_wecom.envelopes import Envelopes, ForgedError
from hostler_wecom.xml_fields import UnreadableError, read_fields

from hostler_protocol.errors import InvalidArgumentError, StorageError
from support.channel_desk import ChannelDesk, OpenChannel
from support.wecom_desk import come, connected, desk
from support.wecom_envelopes import AES_KEY, TOKEN, call_of, event, message, press, seal, sign
from support.wecom_server import WecomServer

__all__ = ["desk"]

PUBLISHED_CORP = "wx5823bf96d3bd56c7"
PUBLISHED_ECHO = (
    "5c45ff5e21c57e6ad56bac8758b79b1d9ac89fd3",
    "1409659589",
    "263014780",
    "P9nAzCzyDtyTWESHep1vC5X9xho/qYX3Zpb4yKa9SKld1DsH3Iyt3tP3zNdtp+4RPcs8TgAE7OaBO+FZXvnaqQ==",
)
PUBLISHED_MESSAGE = (
    "477715d11cdb4164915debcba66cb864d751f3e6",
    "1409659813",
    "1372623149",
    "RypEvHKD8QQKFhvQ6QleEB4J58tiPdvo+rtK1I9qca6aM/wvqnLSV5zEPeusUiX5L5X/0lWfrf0QADHHhGd3QczcdCUpj911L3vg3W/"
    "sYYvuJTs3TUUkSUXxaccAS0qhxchrRYt66wiSpGLYL42aM6A8dTT+6k4aSknmPj48kzJs8qLjvd4Xgpue06DOdnLxAUHzM6+kDZ+HMZ"
    "fJYuR+LtwGc2hgf5gsijff0ekUNXZiqATP7PF5mZxZ3Izoun1s4zG4LUMnvw2r+KqCKIw+3IQH03v+BCA9nMELNqbSf6tiWSrXJB3LA"
    "VGUcallcrw8V2t9EL4EhzJWrQUax5wLVMNS0+rUPA3k22Ncx4XXZS9o0MBH27Bo6BpNelZpS+/uh9KsNlY6bHCmJU9p8g7m3fVKn28H"
    "3KDYA5Pl/T8Z1ptDAVe0lXdQ2YoyyH2uyPIGHBZZIs2pDBS8R07+qN+E7Q==",
)
BOMB = (
    '<?xml version="1.0"?><!DOCTYPE xml [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    "<xml><Encrypt>&b;</Encrypt></xml>"
)
OUTSIDE = '<!DOCTYPE xml [<!ENTITY e SYSTEM "file:///etc/hostname">]><xml><Encrypt><![CDATA[x]]></Encrypt><A>&e;</A></xml>'


def test_the_makers_published_example_is_opened() -> None:
    envelopes = Envelopes(TOKEN, AES_KEY, PUBLISHED_CORP)
    assert envelopes.open(*PUBLISHED_ECHO, now=1409659589) == b"1616140317555161061"
    fields = read_fields(envelopes.open(*PUBLISHED_MESSAGE, now=1409659813))
    assert (fields["ToUserName"], fields["FromUserName"]) == (PUBLISHED_CORP, "mycreate")
    assert (fields["MsgType"], fields["Content"], fields["AgentID"]) == ("text", "hello", "218")
    assert fields["MsgId"] == "4561255354251345929"
    with pytest.raises(ForgedError, match="another company"):
        Envelopes(TOKEN, AES_KEY, "ww-another").open(*PUBLISHED_MESSAGE, now=1409659813)


def test_hostile_xml_is_refused() -> None:
    for content, why in (
        (b"", "no XML"),
        (b"<xml>", "no XML"),
        (b"\x00\xff", "no XML"),
        (b"<other><a>1</a></other>", "no element <xml>"),
        (b"<xml>text</xml>", "no element <xml>"),
        (BOMB.encode(), "document type"),
        (OUTSIDE.encode(), "document type"),
        (b"<xml>" + b"<a>" * 20 + b"</a>" * 20 + b"</xml>", "too deep"),
        (b"<xml>" + b"<a/>" * 3_000 + b"</xml>", "too many"),
        (b'<?xml version="1.0" encoding="no-such"?><xml><a>1</a></xml>', "no XML"),
    ):
        with pytest.raises(UnreadableError, match=why):
            read_fields(content)


def test_repeated_and_nested_elements_are_kept() -> None:
    fields = read_fields(
        b"<xml><A>1</A><A>2</A><B> <C><![CDATA[<x>]]></C> </B><D/><E><![CDATA[ a\n b ]]></E></xml>"
    )
    assert fields == {"A": ["1", "2"], "B": {"C": "<x>"}, "D": "", "E": " a\n b "}


def test_the_address_is_checked(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, _: WecomServer) -> None:
        checked = call_of("1616140317555161061", method="GET")
        answer = await channel.request(**checked)
        assert (answer.status, base64.b64decode(answer.body_base64)) == (200, b"1616140317555161061")
        assert answer.headers["content-type"].startswith("text/plain")
        checked["query"]["echostr"] = checked["query"]["echostr"].replace("+", " ")  # as some gateways do
        assert (await channel.request(**checked)).status == 200
        for changed, status in (
            ({"echostr": ""}, 400),
            ({"echostr": seal(b"other")}, 401),
            ({"msg_signature": ""}, 401),
            ({"nonce": "other"}, 401),
        ):
            assert (await channel.request(method="GET", query=checked["query"] | changed)).status == status
        assert (await channel.request(method="GET")).status == 400
        assert (await channel.request(**checked, path="events")).status == 404
        overheard = call_of(message(Content="a secret"), method="GET")
        assert (await channel.request(**overheard)).status == 401, "it decrypts nothing for others"
        head = await channel.request(method="HEAD", query=checked["query"])
        assert (head.status, head.headers["allow"]) == (405, "GET, POST")
        assert channel.ingest.events == []

    connected(desk, body)


def test_what_wecom_did_not_make_is_refused(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, _: WecomServer) -> None:
        said = message(Content="forged")
        for sealed in (
            {"token": "another"},
            {"age": 301},
            {"age": -301},
            {"receiver": "ww-another"},
            {"key": "A" * 43},
        ):
            assert await come(channel, said, **sealed) == 401, sealed
        right = call_of(said)
        query = right["query"]
        for changed in (
            {"msg_signature": "0" * 40},
            {"msg_signature": "ÿ"},
            {"msg_signature": ""},
            {"timestamp": "soon"},
            {"timestamp": "9" * 400},
            {"nonce": ""},
        ):
            again = {**right, "query": query | changed}
            assert (await channel.request(**again)).status == 401, changed
        assert (await channel.request(method="POST", body_base64=right["body_base64"])).status == 401
        for content, status in (
            (b"", 400),
            (b"{}", 400),
            (BOMB.encode(), 400),
            (OUTSIDE.encode(), 400),
            (b"<xml><Encrypt></Encrypt></xml>", 400),
            (b"<xml><Encrypt><B>1</B></Encrypt></xml>", 400),
            (b"<xml><Encrypt>" + b"A" * 600_000 + b"</Encrypt></xml>", 400),
            (b"<xml><Encrypt>AAAA</Encrypt></xml>", 401),
        ):
            whole = {**right, "body_base64": base64.b64encode(content).decode()}
            assert (await channel.request(**whole)).status == status, content[:40]
        for cipher in ("?", "AAAA", seal(b"x")[:-8], base64.b64encode(bytes(32)).decode()):
            stamp = query["timestamp"]
            signed = query | {"msg_signature": sign(stamp, query["nonce"], cipher)}
            inner = f"<xml><Encrypt>{cipher}</Encrypt></xml>".encode()
            call = {"method": "POST", "query": signed, "body_base64": base64.b64encode(inner).decode()}
            assert (await channel.request(**call)).status == 401, cipher
        assert channel.ingest.events == []
        assert (await channel.request(**right)).status == 200
        assert (await channel.event()).text == "forged"

    connected(desk, body)


def test_a_call_is_answered_once_its_event_is_durable(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, _: WecomServer) -> None:
        said = message(Content="kept 漢")
        channel.ingest.refusals = [StorageError("the disk is full")]
        calls = [asyncio.ensure_future(come(channel, said))]
        await channel.until(lambda: channel.ingest.refusals == [])
        calls.append(asyncio.ensure_future(come(channel, said)))  # after five seconds it asks again
        assert [one for one in calls if one.done()] == []
        assert await asyncio.gather(*calls) == [200, 200]
        assert (await channel.event()).text == "kept 漢"
        assert channel.ingest.duplicates == []
        assert await come(channel, said) == 200  # and again
        assert len(channel.ingest.duplicates) == 1

    connected(desk, body)


@pytest.mark.parametrize(
    "said",
    [event("enter_agent", EventKey=""), press("yes"), event("LOCATION", Latitude="23.1")],
    ids=["enter_agent", "press", "location"],
)
def test_an_event_without_an_id_that_comes_again_is_known(desk: ChannelDesk, said: str) -> None:
    async def body(channel: OpenChannel, _: WecomServer) -> None:
        assert await come(channel, said) == 200
        # sealed anew, and with another code for the card
        assert await come(channel, said.replace("code-1", "code-2")) == 200
        await channel.event()
        assert len(channel.ingest.duplicates) == 1
        assert await come(channel, said.replace("ada", "bob")) == 200
        assert (await channel.event()).person is not None

    connected(desk, body)


def test_what_the_host_never_takes_is_answered_so_that_wecom_stops(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, _: WecomServer) -> None:
        channel.ingest.refusals = [InvalidArgumentError("too much")]
        assert await come(channel, press("yes")) == 200
        bare = await channel.event()
        assert bare.data == {"value": "yes", "left_out": "too much"}
        channel.ingest.refusals = [InvalidArgumentError("no"), InvalidArgumentError("never")]
        assert await come(channel, message(Content="lost")) == 200
        assert channel.ingest.events == []

    connected(desk, body)


def test_a_sealed_message_that_cannot_be_read_comes_as_an_event(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, _: WecomServer) -> None:
        for content in ("{}", BOMB, "<xml>\x01</xml>"):
            assert await come(channel, content) == 200
            found = await channel.event()
            assert (found.event_type, found.chat, found.data["wecom"]) == (
                "platform.unreadable",
                None,
                content,
            )

    connected(desk, body)


def test_messages_of_one_member_stay_in_order(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        server.held_media = asyncio.Event()
        server.media["m"] = (b"\xff\xd8 image", "image/jpeg", "m.jpg")
        assert await come(channel, message("image", MediaId="m", PicUrl="http://x")) == 200
        await server.until_called("media/get")
        assert await come(channel, message(Content="after it")) == 200, "WeCom need not wait"
        assert await come(channel, message(Content="of bob", user="bob")) == 200
        assert [one.text for one in await channel.events(1)] == ["of bob"]
        server.held_media.set()
        assert [one.text for one in await channel.events(3)] == ["of bob", None, "after it"]

    connected(desk, body)


def test_a_name_that_cannot_be_had_is_left_out(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        for number, answer in enumerate(["page", 502, {"errcode": 60011, "errmsg": "no"}]):
            server.answers["user/get"] = [answer]
            user = "ada" if number < 2 else "bob"  # a passing failure is no reason not to ask again
            assert await come(channel, message(Content="x", user=user)) == 200
            person = (await channel.event()).person
            assert person is not None
            assert (person.person_id, person.name) == (user, None)
        asked = len(server.called("user/get"))
        assert await come(channel, message(Content="y", user="bob")) == 200
        await channel.event()
        assert len(server.called("user/get")) == asked

    connected(desk, body)


def test_names_are_not_asked_for_where_the_operator_does_not_want_it(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        assert await come(channel, message(Content="x")) == 200
        found: Any = (await channel.event()).person
        assert (found.person_id, found.name) == ("ada", None)
        assert server.called("user/get") == []

    connected(desk, body, names=False)
