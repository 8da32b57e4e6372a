"""A hostile webhook receiver: its answers are failed tries, and no other receiver waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.webhooks import Webhook
from hostler.host.config import ConfigFile
from support.hostile_peers import (
    MIB,
    SECONDS,
    Answer,
    Attacked,
    attacked,
    bomb,
    drip,
    flood,
    raw,
    silence,
    until,
    whole,
)
from support.listening import Asked, Listening
from support.stepping import stage

pytestmark = [pytest.mark.gate("hostile-peers"), pytest.mark.timeout(300)]
SECRET = "canary-webhook-7e21"
ASK: list[list[Any]] = [
    [
        "call",
        "interaction.request",
        {"tool_name": "ask", "arguments": {}, "kind": "question", "title": "well?"},
    ],
    ["tell"],
]


@dataclass
class Peer(Listening):
    """A receiver that answers everything in one way, by default as it should."""

    says: Answer = field(default_factory=lambda: whole(b""))
    asked: list[Asked] = field(default_factory=list)

    async def answer(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        self.asked.append(asked)
        await self.says(asked, writer)
        return False

    def webhook(self, name: str) -> Webhook:
        url = f"http://127.0.0.1:{self.port}/hook?token={SECRET}"
        return Webhook(name=name, url=url, secret="env:HOSTILE_HOOK_SECRET", network=["127.0.0.1"])


ATTACKS: dict[str, tuple[Callable[[], Answer], str]] = {
    "no HTTP at all": (lambda: raw(b"\x00\xff" * 5_000), "failed"),
    "a head without an end": (lambda: raw(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 500_000), "failed"),
    "silence": (silence, ""),
    "a body that drips": (lambda: drip(b"x"), ""),
    "a body without an end": (lambda: flood(b"", b"a" * MIB), ""),
    "a bomb": (lambda: whole(bomb(512 * MIB), content_encoding="gzip"), ""),
    "a body that is shorter than it says": (
        lambda: raw(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n"),
        "",
    ),
    "chunks of a size that no number holds": (
        lambda: raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"f" * 90 + b"\r\n"),
        "",
    ),
    "two lengths": (
        lambda: raw(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 7\r\n\r\nhello"),
        "failed",
    ),
    "interim answers without an end": (lambda: raw(b"HTTP/1.1 102 Processing\r\n\r\n" * 50_000), "failed"),
    "a redirect to the metadata service": (
        lambda: whole(b"", "307 Temporary Redirect", location="http://169.254.169.254/latest"),
        "it redirects",
    ),
    "a redirect to a file": (lambda: whole(b"", "302 Found", location="file:///etc/passwd"), "it redirects"),
    "come back in a thousand years": (
        lambda: whole(b"", "503 Service Unavailable", retry_after="99999999999"),
        "it answered 503",
    ),
    "a status that is none": (lambda: raw(b"HTTP/1.1 99999 \x1b[2J\r\n\r\n"), "failed"),
    "what it was sent": (lambda: whole(SECRET.encode() * 1_000, "400 Bad Request"), "it answered 400"),
}


@pytest.mark.parametrize("name", ATTACKS)
async def test_an_answer_that_is_an_attack_is_a_try_that_failed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, said = ATTACKS[name]
    monkeypatch.setenv("HOSTILE_HOOK_SECRET", SECRET)
    async with (
        asyncio.timeout(SECONDS),
        Peer(says=make()) as hostile,
        Peer() as honest,
        stage(tmp_path / "data") as made,
        attacked(made, tmp_path / "data") as host,
    ):
        config = ConfigFile(webhooks=[hostile.webhook("bad"), honest.webhook("good")])
        await made.host.apply(config, actor="test")
        run_id = await made.start(ASK)
        await until(lambda: honest.asked and hostile.asked)
        await host.honest()
        if said:
            await until(lambda: host.said("bad", said) or host.said("failed", said))
        assert hostile.asked[0].headers["hostler-signature"] != honest.asked[0].headers[
            "hostler-signature"
        ] or (hostile.asked[0].body == honest.asked[0].body)
        second = await made.start(ASK, conversation_id="another")
        await until(lambda: len(honest.asked) >= 2)
        for one in (run_id, second):
            await made.cancel(one)
            await made.ended(one)
        assert_quiet(host)


def assert_quiet(host: Attacked) -> None:
    """Neither secret nor address nor escapes are in the log."""
    for line in host.log:
        assert SECRET not in line
        assert "\x1b" not in line
        assert len(line) < 5_000


async def test_it_is_sent_no_cookie_and_nothing_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSTILE_HOOK_SECRET", SECRET)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with (
        asyncio.timeout(SECONDS),
        Peer(says=whole(b"", set_cookie="a=b; Path=/")) as peer,
        stage(tmp_path / "data") as made,
        attacked(made, tmp_path / "data"),
    ):
        await made.host.apply(ConfigFile(webhooks=[peer.webhook("bad")]), actor="test")
        for place in ("one", "two"):
            run_id = await made.start(ASK, conversation_id=place)
            await until(lambda place=place: len(peer.asked) >= (1 if place == "one" else 3))  # type: ignore[misc]
            await made.cancel(run_id)
            await made.ended(run_id)
        assert not any("cookie" in asked.headers for asked in peer.asked)
        assert not any(SECRET in str(asked.headers) + asked.body.decode() for asked in peer.asked)
