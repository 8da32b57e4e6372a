"""Fields of what a platform sends that no event and no result carries."""

from __future__ import annotations

from typing import Any

import pytest

from hostler_sdk.channels import Channel, ChannelEvent
from hostler_sdk.channels.withheld import without_fields
from support.channel_wire import Wire

NAME = {"name": "a.txt"}
PRIVATE = {**NAME, "url_private": "https://x"}
FILE = {**PRIVATE, "url": "u"}


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        ((), {"chat": {"files": [FILE, [FILE]], "url": "u"}, "files": FILE}),
        (("nothing", "chat/name"), {"chat": {"files": [FILE, [FILE]], "url": "u"}, "files": FILE}),
        ((".*", "url_private|name"), {"chat": {"files": [FILE, [FILE]], "url": "u"}, "files": FILE}),
        (("chat",), {"files": FILE}),
        (("chat/files",), {"chat": {"url": "u"}, "files": FILE}),
        (("chat/files/url*",), {"chat": {"files": [NAME, [NAME]], "url": "u"}, "files": FILE}),
        (("files/url*", "chat/url"), {"chat": {"files": [NAME, [NAME]]}, "files": NAME}),
        (("chat/*/url*", "url"), {"chat": {"files": [NAME, [NAME]]}, "files": PRIVATE}),
        (("*",), {}),
    ],
)
def test_a_pattern_is_the_end_of_a_path(patterns: tuple[str, ...], left: Any) -> None:
    given = {"chat": {"files": [FILE, [FILE]], "url": "u"}, "files": FILE}
    assert without_fields(given, patterns) == left
    assert given["files"] == FILE, "what was given stays as it is"


def test_what_is_no_object_stays_as_it_is() -> None:
    for value in (None, "text", 1, [], ["url"]):
        assert without_fields(value, ("url", "*")) == value


class Careful(Channel):
    withheld = ("token", "files/url_*")


async def test_the_host_is_given_and_asked_about_an_event_without_them() -> None:
    wire = Wire()
    channel = Careful("c", {}, None, wire)
    event = ChannelEvent(event_type="platform.x", data={"x": {"token": "t", "files": [FILE]}})
    await channel.wants(event)
    await channel.deliver(event)
    shown = {"x": {"files": [{"name": "a.txt", "url": "u"}]}}
    assert [one.data for one in (*wire.ingest.checked, *wire.ingest.events)] == [shown, shown]
    assert event.data["x"]["token"] == "t", "the channel may still need it"
