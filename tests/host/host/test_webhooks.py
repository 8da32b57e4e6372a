"""Webhooks of pauses: signed, tried again with bounds, never sent elsewhere, nothing of theirs in a log."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hostler.domain.hook_signatures import HookRefusedError, HookRequest, verify
from hostler.domain.hooks import Hook
from hostler.domain.pause_values import Pause
from hostler.domain.pauses import TRANSITIONS, PauseStatus
from hostler.domain.webhooks import (
    EVENTS,
    LAST_WAIT_SECONDS,
    MAX_ATTEMPTS,
    Webhook,
    event_of,
    signature,
    wait_seconds,
)
from hostler.host.secret_store import SecretStore
from hostler.host.webhooks import WebhookSender
from hostler.secrets.key_ring import KeyRing, LiveKeyRing, new_key
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import audit, notices
from hostler.storage.stores import settings as stored_settings
from hostler.storage.stores.notices import ClaimedDelivery, WebhookDelivery
from support.databases import TEST_SECONDS, write
from support.listening import Asked
from support.receiver import Receiver

pytestmark = pytest.mark.gate("webhook-secrets")

WS = "w"
SECRET = "the secret of these tests"
PAUSE = Pause(
    workspace_id=WS,
    pause_id="p1",
    run_id="r1",
    segment=1,
    conversation_id="c1",
    requester="ann",
    status="open",
    revision=1,
    form="implicit",
    epoch=0,
    attempts=0,
    agent_version=1,
    on_message="hold",
    state=b"canary",
    state_digest=None,
    state_blob=None,
    state_format=1,
    data_key=None,
    created_at=1_000,
    expires_at=1_801_000,
    parked_at=None,
    settled_at=None,
    resumed_by=None,
)


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)


def hook(tx: Tx, url: str, name: str = "hook", **fields: Any) -> None:
    given = {"network": ["127.0.0.1"], **fields}
    webhook = Webhook(name=name, url=url, secret="env:HOOK_SECRET", **given)
    stored_settings.put(tx, WS, "webhook", name, msgspec.to_builtins(webhook))


def opened(tx: Tx, pause: Pause = PAUSE) -> None:
    notices.of_pause(tx, pause, before=None)


async def only_delivery(
    database: SqlDatabase, until: Callable[[WebhookDelivery], bool] = lambda _: True
) -> WebhookDelivery:
    """The one delivery there is, once it is as wanted."""
    async with asyncio.timeout(TEST_SECONDS):
        while True:
            [delivery] = await database.read(lambda tx: notices.deliveries(tx, WS))
            if until(delivery):
                return delivery
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def webhook_sender(database: SqlDatabase, **options: Any) -> AsyncIterator[WebhookSender]:
    made = WebhookSender(database, WS, **{"pace": 0.001, "try_seconds": 30.0, **options})
    task = asyncio.create_task(made.work())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await made.close()


async def test_a_notice_arrives_signed_and_says_what_waits_where(database: SqlDatabase) -> None:
    async with Receiver() as receiver:
        await database.write(lambda tx: hook(tx, receiver.url))
        await database.write(opened)
        async with webhook_sender(database):
            got = await receiver.request()
            done = await only_delivery(database, lambda d: d.status == "delivered")
    timestamp = int(got.headers["hostler-timestamp"])
    assert abs(timestamp - time.time()) < TEST_SECONDS
    signed = hmac.new(SECRET.encode(), b"%d.%b" % (timestamp, got.body), hashlib.sha256).hexdigest()
    assert got.headers["hostler-signature"] == f"v1={signed}"
    assert got.path == "/hook?token=in-the-address"
    assert got.headers["hostler-event"] == "pause.opened"
    assert got.headers["hostler-delivery"] == done.delivery_id
    assert got.headers["hostler-attempt"] == "1"
    told = json.loads(got.body)
    assert told["pause"] == {
        "id": "p1",
        "run_id": "r1",
        "conversation_id": "c1",
        "segment": 1,
        "revision": 1,
        "status": "open",
        "expires_at": 1801.0,
        "url": "/v1/pauses/p1",
        "calls": [],
    }
    assert b"canary" not in got.body
    assert (done.attempts, done.http_status, done.error) == (1, 200, None)


@pytest.mark.parametrize(
    "secret", [SECRET, "whsec_" + base64.b64encode(b"24 bytes of a real key!!").decode()]
)
async def test_receivers_verify_with_standard_webhooks(database: SqlDatabase, secret: str) -> None:
    key = base64.b64encode(SECRET.encode()).decode() if secret == SECRET else secret
    async with Receiver() as receiver:
        receiver.answers = ["500"]
        await database.write(lambda tx: hook(tx, receiver.url))
        await database.write(opened)
        async with webhook_sender(database, resolve=lambda text, _: secret if "SECRET" in text else text):
            first, second = await receiver.request(), await receiver.request()
            done = await only_delivery(database, lambda one: one.status == "delivered")
    for got in (first, second):
        assert got.headers["webhook-id"] == done.delivery_id
        request = HookRequest("", got.headers, "", got.body)
        standard = Hook(name="from-hostler", verify="standard")
        verify(standard, request, [key], time.time())
        with pytest.raises(HookRefusedError, match="signature"):
            verify(standard, replace(request, body=got.body + b" "), [key], time.time())


async def test_a_secret_of_standard_webhooks_that_is_none_is_told(database: SqlDatabase) -> None:
    async with Receiver() as receiver:
        await database.write(lambda tx: hook(tx, receiver.url))
        await database.write(opened)
        async with webhook_sender(database, resolve=lambda text, _: "whsec_%" if "SECRET" in text else text):
            failed = await only_delivery(database, lambda one: one.error is not None)
        assert (failed.status, receiver.requests) == ("pending", [])
        assert "not base64 after whsec_" in str(failed.error)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("500", "it answered 500"),
        ("404", "it answered 404"),
        ("429", "it answered 429"),
        ("302", "it redirects"),
        ("307", "it redirects"),
        ("die", "the exchange broke off: RemoteProtocolError"),
    ],
)
async def test_a_try_that_fails_is_followed_by_another_with_the_same_delivery(
    database: SqlDatabase, answer: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hostler")
    async with Receiver() as elsewhere, Receiver(answers=[answer]) as receiver:
        receiver.headers = [f"location: {elsewhere.url}"]
        await database.write(lambda tx: hook(tx, receiver.url))
        await database.write(opened)
        async with webhook_sender(database):
            first, second = await receiver.request(), await receiver.request()
            done = await only_delivery(database, lambda d: d.status == "delivered")
        assert elsewhere.requests == [], "what is signed goes nowhere else"
    assert second.body == first.body
    assert second.headers["hostler-delivery"] == first.headers["hostler-delivery"]
    assert (first.headers["hostler-attempt"], second.headers["hostler-attempt"]) == ("1", "2")
    assert done.attempts == 2
    assert f"failed: {told}" in caplog.text


@pytest.mark.gate("egress")
async def test_a_receiver_at_a_private_address_is_not_called_unless_it_is_listed(
    database: SqlDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hostler")
    async with Receiver() as receiver:
        await database.write(lambda tx: hook(tx, receiver.url, network=[]))
        await database.write(opened)
        async with webhook_sender(database, pace=0.0):
            dead = await only_delivery(database, lambda d: d.status == "dead")
        assert receiver.requests == []
        assert dead.error is not None
        assert "not public" in dead.error
        assert "127.0.0.1" not in dead.error + caplog.text


@pytest.mark.parametrize("answer", ["hang", "slow"])
async def test_a_receiver_that_does_not_answer_is_left_and_holds_up_no_other(
    database: SqlDatabase, answer: str
) -> None:
    async with Receiver(answers=[answer] * MAX_ATTEMPTS) as stuck, Receiver() as well:
        await database.write(lambda tx: hook(tx, stuck.url, "stuck"))
        await database.write(lambda tx: hook(tx, well.url, "well"))
        await database.write(opened)
        async with webhook_sender(database):
            await stuck.request()
            await well.request()


async def test_an_unexpected_error_in_a_delivery_fails_the_worker_and_no_other_delivery(
    database: SqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver, failed = WebhookSender._deliver, asyncio.Event()

    async def broken(self: WebhookSender, claimed: ClaimedDelivery) -> None:
        if claimed.delivery.webhook == "bad":
            raise LookupError("injected")
        await failed.wait()  # this delivery is under way when the other one fails
        await deliver(self, claimed)

    monkeypatch.setattr(WebhookSender, "_deliver", broken)
    async with Receiver() as receiver:
        for name in ("bad", "good"):
            await database.write(partial(hook, url=receiver.url, name=name))
        await database.write(opened)
        sender = WebhookSender(database, WS)
        with pytest.raises(ExceptionGroup) as raised:
            async with asyncio.timeout(TEST_SECONDS):
                await sender.work()
        (error,) = raised.value.exceptions
        assert isinstance(error, LookupError)
        assert error.__notes__ == ["in a delivery to webhook bad"]
        failed.set()
        assert (await receiver.request()).headers["hostler-event"] == "pause.opened"
        await sender.close()


async def test_a_hanging_try_is_cut_after_its_time(database: SqlDatabase) -> None:
    async with Receiver(answers=["hang", "slow"]) as receiver:
        await database.write(lambda tx: hook(tx, receiver.url))
        await database.write(opened)
        async with webhook_sender(database, try_seconds=0.2):
            done = await only_delivery(database, lambda d: d.status == "delivered")
    assert done.attempts >= 3  # more where this machine itself held one up


async def test_after_its_last_try_a_delivery_is_dead_until_somebody_sends_it_again(
    database: SqlDatabase,
) -> None:
    async with Receiver(answers=["503"] * MAX_ATTEMPTS) as receiver:
        await database.write(lambda tx: hook(tx, receiver.url))
        await database.write(opened)
        async with webhook_sender(database, pace=0.0) as at_work:
            dead = await only_delivery(database, lambda d: d.status == "dead")
            assert dead.attempts == len(receiver.requests) == MAX_ATTEMPTS
            assert await database.read(lambda tx: notices.deliveries(tx, WS, status="dead")) == [dead]
            again = await database.write(lambda tx: notices.send_again(tx, WS, dead.delivery_id))
            assert (again.status, again.attempts) == ("pending", 0)
            at_work.wake()
            await only_delivery(database, lambda d: d.status == "delivered")


async def test_a_receiver_that_is_gone_for_good_is_not_asked_again(database: SqlDatabase) -> None:
    async with Receiver(answers=["410"]) as receiver:
        await database.write(lambda tx: hook(tx, receiver.url))
        await database.write(opened)
        async with webhook_sender(database):
            dead = await only_delivery(database, lambda d: d.status == "dead")
    assert (dead.attempts, dead.http_status) == (1, 410)


async def test_what_is_left_undone_by_a_host_is_done_by_the_next(database: SqlDatabase) -> None:
    async with Receiver() as receiver:
        await database.write(lambda tx: hook(tx, receiver.url))
        await database.write(opened)
        # claimed by a host that dies: its lease is one millisecond
        claimed = await database.write(
            lambda tx: notices.claim(tx, notices.DueWebhook(WS, "hook"), lease_ms=1)
        )
        assert claimed is not None
        async with webhook_sender(database):
            got = await receiver.request()
            await only_delivery(database, lambda d: d.status == "delivered")
        assert got.headers["hostler-attempt"] == "2"
        late = await database.write(lambda tx: notices.mark_delivered(tx, claimed, 200))
        assert not late, "the lease of the first was over"


async def test_two_couriers_send_each_notice_once(database: SqlDatabase) -> None:
    async with Receiver() as receiver:
        await database.write(lambda tx: hook(tx, receiver.url))
        for number in range(20):
            pause = replace(PAUSE, pause_id=f"p{number}")
            await database.write(lambda tx, pause=pause: opened(tx, pause))  # type: ignore[misc]
        async with webhook_sender(database), webhook_sender(database):
            ids = [(await receiver.request()).headers["hostler-delivery"] for _ in range(20)]
            async with asyncio.timeout(TEST_SECONDS):
                while await database.read(lambda tx: notices.deliveries(tx, WS, status="pending")):
                    await asyncio.sleep(0.01)
        assert len(set(ids)) == len(receiver.requests) == 20


async def test_only_events_that_are_wanted_are_sent_and_what_was_removed_is_not(
    database: SqlDatabase,
) -> None:
    await database.write(lambda tx: hook(tx, "http://127.0.0.1:1", "some", events=["pause.settled"]))
    await database.write(opened)
    assert await database.write(lambda tx: notices.deliveries(tx, WS)) == []
    await database.write(lambda tx: notices.of_pause(tx, replace(PAUSE, status="ready"), before="open"))
    await database.write(lambda tx: stored_settings.delete(tx, WS, "webhook", "some"))
    async with webhook_sender(database):
        dead = await only_delivery(database, lambda d: d.status == "dead")
    assert dead.error == "there is no webhook of this name any more"


async def test_neither_secrets_nor_addresses_nor_answers_reach_a_log_or_a_table(
    database: SqlDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def scenario() -> WebhookDelivery:
        async with Receiver(answers=["500", "die", "302", "410"]) as receiver:
            await database.write(lambda tx: hook(tx, receiver.url))
            await database.write(opened)
            async with webhook_sender(database):
                return await only_delivery(database, lambda d: d.status == "dead")

    dead = await scenario()
    told = "\n".join(
        record.getMessage() for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))
    )
    for text in (told, repr(dead), repr(await database.write(lambda tx: notices.page(tx, WS)))):
        assert SECRET not in text
        assert "in-the-address" not in text
        assert "their secret" not in text
    assert "webhook hook: try 4" in told


def test_the_inbox_is_a_list_of_its_workspace(database: SqlDatabase) -> None:
    for number in range(5):
        pause = replace(PAUSE, pause_id=f"p{number}")
        write(database, lambda tx, pause=pause: opened(tx, pause))  # type: ignore[misc]
    write(database, lambda tx: opened(tx, replace(PAUSE, workspace_id="other")))
    first = write(database, lambda tx: notices.page(tx, WS, limit=3))
    last = first[-1]
    rest = write(database, lambda tx: notices.page(tx, WS, before=(last.created_at, last.notice_id)))
    assert len(first) == 3
    assert {notice.pause_id for notice in [*first, *rest]} == {f"p{number}" for number in range(5)}
    assert write(database, lambda tx: notices.drop_old(tx, WS)) == 0


@pytest.mark.parametrize(("change", "cause"), TRANSITIONS.items(), ids=str)
def test_every_change_is_told_or_is_the_host_at_work(
    change: tuple[PauseStatus | None, PauseStatus], cause: str
) -> None:
    assert cause
    event = event_of(*change)
    assert event in EVENTS if event is not None else change[1] in ("resuming", "ready")
    if change[1] == "ready":
        assert (event == "pause.settled") == (change[0] != "resuming")


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 10_000), st.floats(0, 1), st.none() | st.floats(0, 1e9))
def test_waits_grow_spread_and_end(attempts: int, random: float, asked: float | None) -> None:
    wait = wait_seconds(attempts, random, asked)
    assert 2.5 <= wait <= LAST_WAIT_SECONDS
    assert wait >= min(asked or 0, LAST_WAIT_SECONDS)
    assert wait_seconds(attempts, random) <= wait_seconds(attempts + 1, random)


def test_a_signature_is_the_same_wherever_it_is_computed() -> None:
    expected = "b253639bcd705ed1cda3073f66104f16988bd40272584dea7d0d345ae93e61cc"
    assert signature("s", 1, b"{}") == f"v1={expected}"


async def test_a_delivery_is_signed_with_the_stored_secret_of_its_moment(database: SqlDatabase) -> None:
    """Also where it is tried again; without its secret nothing is sent, and it is said why."""
    ring = LiveKeyRing()
    ring.replace(KeyRing([new_key()]))
    store = SecretStore(database, WS, ring, lambda *_: {})
    await store.set(WS, "installation", "hook", SECRET, "test")
    async with Receiver() as receiver:
        receiver.answers = ["held"]  # until the secret has changed
        webhook = Webhook(name="hook", url=receiver.url, secret="secret://hook", network=["127.0.0.1"])
        entry = msgspec.to_builtins(webhook)
        await database.write(lambda tx: stored_settings.put(tx, WS, "webhook", "hook", entry))
        await database.write(opened)
        async with webhook_sender(database, resolve=store.own.resolve):
            assert is_signed(await receiver.request(), SECRET)
            await store.set(WS, "installation", "hook", "another one", "test")
            receiver.released.set()
            assert is_signed(await receiver.request(), "another one")
            await only_delivery(database, lambda one: one.status == "delivered")
            await store.note_uses()
            uses = await database.read(lambda tx: audit.page(tx, WS))
            assert [fact.body for fact in uses if fact.action == "secret.used"] == [
                {"owner": "installation", "version": version, "by": "webhook hook"} for version in (2, 1)
            ]
            await store.remove(WS, "installation", "hook", "test", force=True)
            await database.write(lambda tx: opened(tx, replace(PAUSE, pause_id="p2")))
            async with asyncio.timeout(TEST_SECONDS):
                while not (found := await waiting(database)):
                    await asyncio.sleep(0.01)
            assert "there is no such secret of the installation" in str(found)
            assert len(receiver.requests) == 2
            await store.set(WS, "installation", "hook", SECRET, "test")
            assert is_signed(await receiver.request(), SECRET)


async def waiting(database: SqlDatabase) -> list[WebhookDelivery]:
    found = await database.read(lambda tx: notices.deliveries(tx, WS))
    return [one for one in found if one.status == "pending" and "secret" in str(one)]


def is_signed(request: Asked, secret: str) -> bool:
    stamp = int(request.headers["hostler-timestamp"])
    signed = hmac.new(secret.encode(), b"%d.%b" % (stamp, request.body), hashlib.sha256).hexdigest()
    return request.headers["hostler-signature"] == f"v1={signed}"
