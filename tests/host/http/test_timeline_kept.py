"""What streams over runs keep: retention, deletion, keys that end, slow readers, servers that close."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.retention import RetentionPolicy
from hostler.journal import timeline_feed
from hostler.storage.port import Tx
from hostler.storage.sql.statements import parse
from hostler.storage.stores import retention, timeline
from support.followed import Seen, ends, iter_seen, opened, take
from support.http_host import ADMIN_KEY, Served, serving

pytestmark = pytest.mark.gate("streams-over-runs")
_q = parse(
    """
-- name: age
UPDATE timeline SET created_at = 0 WHERE workspace_id = :ws AND last_seq <= :until

-- name: all
SELECT * FROM timeline WHERE workspace_id = :ws ORDER BY last_seq
""",
    "tests",
)
BYTES = 8 << 20
"""Of a stream that a reader does not read: more than the buffers between it and the host."""


async def rows(served: Served) -> list[dict[str, Any]]:
    return [dict(row) for row in await served.host.db.read(lambda tx: tx.all(_q.all, ws="default"))]


async def test_a_cursor_into_what_was_removed_is_expired_and_says_where_to_look(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        async with opened(served.client, "/v1/stream") as events:
            old = (await served.say("say 3", conversation_id="c/1"))["run_id"]
            first = await take(events, ends(old))
            head = await served.host.runs.timelines.head("default")
            new = (await served.say("say 3", conversation_id="c/1"))["run_id"]
            second = await take(events, ends(new))

        def age(tx: Tx) -> None:
            tx.run(_q.age, ws="default", until=head)

        await served.host.db.write(age)
        await retention.collect_workspace(served.host.db, "default", RetentionPolicy(deltas=1.0))
        for path, snapshot in (
            ("/v1/stream", "/v1/runs"),
            ("/v1/conversations/c%2F1/stream", "/v1/conversations/c%2F1/history"),
        ):
            answer = await served.client.get(path, headers={"last-event-id": first[0].cursor})
            assert (answer.status_code, answer.json()["code"]) == (410, "expired")
            assert answer.json()["details"]["snapshot"] == snapshot
            assert (await served.client.get(snapshot)).status_code == 200
            for query in ({"from": "start"}, {"last_event_id": first[-1].cursor}):
                async with opened(served.client, path, **query) as events:
                    assert await take(events, ends(new)) == second
        # nothing goes where nothing that it shows goes
        kept = await rows(served)
        await retention.collect_workspace(served.host.db, "default", RetentionPolicy(artifacts=0.0))
        assert await rows(served) == kept


async def test_a_deleted_conversation_leaves_its_streams_and_they_are_told(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        path = "/v1/conversations/secret-name/stream"
        async with opened(served.client, path) as watching, opened(served.client, "/v1/stream") as others:
            gone = (await served.say("say 2", conversation_id="secret-name"))["run_id"]
            kept = (await served.say("say 2", conversation_id="kept"))["run_id"]
            whole = await take(others, ends(gone, kept))
            receipt = (await served.client.delete("/v1/conversations/secret-name")).json()
            told = (await take(watching, lambda one: one.type == "conversation.deleted"))[-1]
            assert told.data["conversation"] == receipt["target"]
            assert (await take(others, lambda one: True)) == [told]
        assert "secret-name" not in json.dumps(await rows(served))
        async with opened(served.client, "/v1/stream", from_="start") as events:
            left = await take(events, lambda one: one.type == "conversation.deleted")
        assert left == [one for one in whole if is_of(one, kept, "kept")] + [told]
        async with opened(served.client, path, whole[0].cursor) as events:
            assert await take(events, lambda one: True) == [told]
            again = (await served.say("say 1", conversation_id="secret-name"))["run_id"]
            assert ends(again)((await take(events, ends(again)))[-1])


def is_of(one: Seen, run_id: str, conversation_id: str) -> bool:
    return run_id == one.data.get("run_id") or one.data.get("conversation_id") == conversation_id


async def test_what_a_person_said_leaves_the_streams_with_their_data(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        ada: Any = {"actor": {"actor_type": "user", "actor_id": "ada"}}
        await served.say("say 1", conversation_id="c1", **ada)
        kept = (await served.say("say 1", conversation_id="c2"))["run_id"]
        assert (await served.client.delete("/v1/actors/ada")).status_code == 200
        async with opened(served.client, "/v1/stream", from_="start") as events:
            left = await take(events, ends(kept))
        assert all(is_of(one, kept, "c2") for one in left)


async def test_a_stream_ends_with_its_key(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        made = (await served.client.post("/v1/keys", json={"name": "k", "rights": ["runs:read"]})).json()
        async with served.as_key(made["key"]) as client, opened(client, "/v1/stream") as events:
            while not served.host.runs.timelines.watchers:
                await asyncio.sleep(0.01)
            await served.client.delete(f"/v1/keys/{made['record']['key_id']}")
            (last,) = [event async for event in events]
        assert (last.type, last.data["code"]) == ("problem", "unauthorized")
        while served.host.runs.timelines.watchers or served.server.app.state.streams.count:
            await asyncio.sleep(0.01)


async def test_streams_end_when_the_server_closes_and_go_on_at_the_next(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, opened(served.client, "/v1/stream") as events:
        run_id = (await served.say("say 2"))["run_id"]
        seen = await take(events, ends(run_id))
        closing = asyncio.create_task(served.server.close())
        assert [event async for event in events] == []
        await closing
    async with serving(tmp_path) as served, opened(served.client, "/v1/stream", seen[1].cursor) as events:
        assert await take(events, ends(run_id)) == seen[2:]


def reading_nothing(served: Served, path: str) -> socket.socket:
    """A client that sends its request and reads none of the answer."""
    stuck = socket.socket()
    stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stuck.connect(("127.0.0.1", served.port))
    lines = (f"GET {path} HTTP/1.1", "host: h", f"authorization: Bearer {ADMIN_KEY}")
    stuck.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    return stuck


async def test_a_slow_reader_holds_nobody_back_and_misses_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        path = "/v1/conversations/c1/stream?from=start"
        stuck = reading_nothing(served, path)
        async with opened(served.client, path) as first, opened(served.client, path) as second:
            sent = 0
            runs = []
            while sent < BYTES:
                runs.append((await served.say("say 5000", conversation_id="c1"))["run_id"])
                sent += 5000 * 250
            seen = await take(first, ends(*runs))
            assert await take(second, ends(*runs)) == seen
            reader, writer = await asyncio.open_connection(sock=stuck)
            got = await read_raw(reader, seen[-1].cursor)
            writer.close()
        assert got == [one.cursor for one in seen]


async def read_raw(reader: asyncio.StreamReader, until: str) -> list[str]:
    """The cursors of the events of a stream that is read only now."""
    cursors: list[str] = []
    cursor = ""
    async with asyncio.timeout(60):
        async for line in reader:
            text = line.decode().strip()
            if text.startswith("id: "):
                cursor = text[4:]
            elif text.startswith("data: "):
                cursors.append(cursor)
                if cursor == until:
                    return cursors
    raise AssertionError(f"the stream ended after {len(cursors)} events")


async def test_a_filter_that_finds_nothing_is_told_how_far_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline_feed, "PROGRESS_ENTRIES", 50)
    async with serving(tmp_path) as served:
        marks: list[str] = []
        async with served.client.stream("GET", "/v1/stream?agent=nobody") as answer:
            events = iter_seen(answer, marks)
            reading = asyncio.create_task(take(events, lambda one: True))
            run_id = (await served.say("say 200"))["run_id"]
            while len(marks) < 3:  # many entries that are looked at together are one mark
                await served.say("say 200")
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        async with opened(served.client, "/v1/stream", marks[-1]) as rest:
            last = (await served.say("say 1"))["run_id"]
            seen = await take(rest, ends(last))
        assert sum(one.data.get("run_id") == run_id for one in seen) < 200


async def test_a_restored_database_refuses_cursors_from_after_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        async with opened(served.client, "/v1/stream") as events:
            run_id = (await served.say("say 1"))["run_id"]
            seen = await take(events, ends(run_id))

        def back(tx: Tx) -> None:
            assert timeline.head(tx, "default") > 1
            tx.run(_q_back, ws="default")

        await served.host.db.write(back)
        answer = await served.client.get("/v1/stream", headers={"last-event-id": seen[-1].cursor})
        assert answer.status_code == 400
        assert "ahead" in answer.json()["detail"]


_q_back = parse(
    "-- name: back\nUPDATE heads SET seq = 1 WHERE workspace_id = :ws AND chain = 'timeline'", "tests"
).back
