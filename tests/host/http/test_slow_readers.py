"""What a reader of a stream holds while it takes nothing: one batch, which is small whatever runs say."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.http.framing import Results
from hostler.http.sse import EventChunk
from hostler.journal.feed import BATCH_BYTES, StoredResult
from hostler.journal.timeline_feed import PROGRESS, TimelineFilter
from hostler.storage.stores.timeline import PAGE_BYTES
from support.dialects.players import playing, script
from support.followed import ends, opened, take
from support.http_host import WORKSPACE, Served

pytestmark = pytest.mark.gate("streams-over-runs")
LARGE = 600_000
"""Characters of a message: an event holds it, and what the agent answers."""
PIECES = 32
PIECE = 30_000


def check_small(batches: list[list[StoredResult]], most: int) -> None:
    """No batch holds more than this, but for a single entry that is larger alone, with what is small."""
    assert len(batches) > 3
    for batch in batches:
        sizes = sorted(len(one.json) for one in batch)
        assert sum(sizes[:-1]) <= most, sizes


async def say(served: Served, text: str) -> str:
    body = {
        "event_type": "message.received",
        "agent": "player",
        "conversation_id": "c",
        "input": {"text": text},
    }
    answer = await served.client.post("/v1/events", json=body, params={"wait": 60})
    assert answer.json()["status"] == "completed", answer.text
    return str(answer.json()["run_id"])


async def test_streams_over_runs_hold_little_whatever_messages_hold(tmp_path: Path) -> None:
    """500 events of a megabyte were one page, and each slow reader had its own."""
    async with playing(tmp_path / "data") as served:
        async with opened(served.client, "/v1/conversations/c/stream") as events:
            runs = []
            for number in range(6):
                runs.append(await say(served, f"{number} " + "x" * LARGE))
                runs.append(await say(served, script(*[["delta", "y" * 20, "m"]] * 30, ["say", "z", "m"])))
            whole = await take(events, ends(*runs))
        assert sum(len(str(one.data)) for one in whole) > 12 * LARGE
        async with opened(served.client, "/v1/conversations/c/stream", from_="start") as events:
            assert await take(events, ends(*runs)) == whole
        for cut in range(0, len(whole) - 1, 41):
            async with opened(served.client, "/v1/conversations/c/stream", whole[cut].cursor) as events:
                assert await take(events, ends(runs[-1])) == whole[cut + 1 :]
        for wanted in (TimelineFilter(WORKSPACE), TimelineFilter(WORKSPACE, conversation_id="c")):
            batches, seen = [], 0
            async for batch in served.host.runs.timelines.watch(wanted, 0):
                batches.append(list(batch))
                seen += sum(one.type != PROGRESS for one in batch)
                if seen == len(whole):
                    break
            check_small(batches, 2 * PAGE_BYTES)


async def test_a_stream_of_a_run_holds_little_whatever_its_results_hold(tmp_path: Path) -> None:
    async with playing(tmp_path / "data") as served:
        steps = [["delta", f"{number} " + "x" * PIECE, "m"] for number in range(PIECES)]
        text = "".join(str(step[1]) for step in steps)
        run_id = await say(served, script(["file", "f", "a.txt"], *steps, ["say", text[:20], "m"]))
        batches = [list(batch) async for batch in served.host.runs.feed.watch(run_id)]
        check_small(batches, BATCH_BYTES)
        pieces = [one for batch in batches for one in batch if one.type == "message.delta"]
        assert len(pieces) == PIECES
        sequences = [one.sequence for batch in batches for one in batch]
        assert sequences == list(range(1, len(sequences) + 1))


def test_chunks_are_made_when_they_are_wanted() -> None:
    """So a reader holds one of them, not those of its whole batch."""
    batch = [StoredResult(number, "log", b'{"x":"%s"}' % (b"y" * 50_000)) for number in range(1, 9)]
    chunks = Results().chunks(batch)
    first = next(chunks)
    assert isinstance(first, EventChunk)
    assert first.last == 2
    assert [chunk.last for chunk in chunks] == [4, 6, 8]
