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
from hostler.storage.stores import notices
from support.hostile_peers import (
    LOOK_SECONDS,
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
from support.stepping import Stage, stage

pytestmark = [pytest.mark.gate("hostile-peers"), pytest.mark.timeout(300)]
A_DAY = 86_400_000
SECRET = "canary-webhook-7e21"
ASK: list[list[Any]] = [["call", "interaction.request", {"kind": "confirmation", "title": "well?"}], ["tell"]]


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


ATTACKS: dict[str, tuple[Callable[[], Answer], int | None]] = {
    "no HTTP at all": (lambda: raw(b"\x00\xff" * 5_000), None),
    "a head without an end": (lambda: raw(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 500_000), None),
    "silence": (silence, None),
    "a body that drips": (lambda: drip(b"x"), 200),
    "a body without an end": (lambda: flood(b"", b"a" * MIB), 200),
    "a bomb": (lambda: whole(bomb(512 * MIB), content_encoding="gzip"), 200),
    "a body that is shorter than it says": (
        lambda: raw(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n"),
        200,
    ),
    "chunks of a size that no number holds": (
        lambda: raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"f" * 90 + b"\r\n"),
        200,
    ),
    "two lengths": (
        lambda: raw(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 7\r\n\r\nhello"),
        None,
    ),
    "interim answers without an end": (lambda: raw(b"HTTP/1.1 102 Processing\r\n\r\n" * 50_000), None),
    "a redirect to the metadata service": (
        lambda: whole(b"", "307 Temporary Redirect", location="http://169.254.169.254/latest"),
        307,
    ),
    "a redirect to a file": (lambda: whole(b"", "302 Found", location="file:///etc/passwd"), 302),
    "come back in a thousand years": (
        lambda: whole(b"", "503 Service Unavailable", retry_after="99999999999"),
        503,
    ),
    "a status that is none": (lambda: raw(b"HTTP/1.1 99999 \x1b[2J\r\n\r\n"), None),
    "what it was sent": (lambda: whole(SECRET.encode() * 1_000, "400 Bad Request"), 400),
}
"""An answer, and the status that counts: 200 is delivered, as no body is read; None is no answer at all."""


@pytest.mark.parametrize("name", ATTACKS)
async def test_an_answer_that_is_an_attack_is_a_try_that_failed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, status = ATTACKS[name]
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
        tried = await tried_once(made, "bad")
        assert (tried.http_status, tried.status) == (status, "delivered" if status == 200 else "pending")
        assert tried.next_at < tried.created_at + A_DAY
        assert_harmless(tried.error or "")
        assert hostile.asked[0].headers["hostler-signature"] != honest.asked[0].headers[
            "hostler-signature"
        ] or (hostile.asked[0].body == honest.asked[0].body)
        second = await made.start(ASK, conversation_id="another")
        await until(lambda: len(honest.asked) >= 2)
        for one in (run_id, second):
            await made.cancel(one)
            await made.ended(one)
        assert_quiet(host)


async def tried_once(made: Stage, webhook: str) -> notices.WebhookDelivery:
    """Wait until the first delivery to a webhook was tried; return it."""
    while True:
        (found,) = await made.host.db.read(lambda tx: notices.deliveries(tx, "default", webhook=webhook))
        if found.settled_at or found.error:
            return found
        await asyncio.sleep(LOOK_SECONDS)


def assert_harmless(text: str) -> None:
    assert SECRET not in text
    assert "\x1b" not in text
    assert len(text) < 5_000


def assert_quiet(host: Attacked) -> None:
    """Neither secret nor address nor escapes are in the log."""
    for line in host.log:
        assert_harmless(line)


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
