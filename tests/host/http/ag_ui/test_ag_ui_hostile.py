"""AG-UI: whatever is sent, the answer has AG-UI's shape, and the host goes on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.dialects.players import playing
from support.http_host import ADMIN_KEY, Served
from support.loopback import NO_CERTIFICATES

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["text", "image", "binary", "url", "data", "file", "user", "assistant", "tool", "system", ""]
)
SOURCES = st.fixed_dictionaries(
    {},
    optional={"type": NAMES | VALUES, "value": st.text(max_size=9) | VALUES, "provider": st.just("hostler")},
)
PARTS = st.fixed_dictionaries(
    {"type": NAMES}, optional={"text": VALUES, "source": SOURCES | VALUES, "metadata": VALUES, "data": VALUES}
)
MESSAGES = st.fixed_dictionaries(
    {"id": st.text(max_size=5), "role": NAMES},
    optional={
        "content": VALUES | st.lists(PARTS, max_size=3),
        "toolCallId": st.sampled_from(["", "call_a_b", "call_", "x"]) | VALUES,
        "toolCalls": VALUES,
        "error": VALUES,
    },
)
ENTRIES = st.fixed_dictionaries(
    {"interruptId": st.sampled_from(["", ".", "call_a_b.c", "call_a_b"]) | st.text(max_size=9)},
    optional={"status": st.sampled_from(["resolved", "cancelled"]) | VALUES, "payload": VALUES},
)
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "threadId": st.text(max_size=6) | VALUES,
        "runId": st.text(max_size=6) | VALUES,
        "messages": st.lists(MESSAGES, max_size=4) | VALUES,
        "state": VALUES,
        "tools": st.lists(VALUES, max_size=2) | VALUES,
        "context": VALUES,
        "forwardedProps": VALUES,
        "resume": st.lists(ENTRIES, max_size=2) | VALUES,
        "protocolVersion": VALUES,
        "parentRunId": VALUES,
        "unknown": VALUES,
    },
)


def fits(answer: httpx.Response, *, whole: bool) -> None:
    """Whether an answer is one of AG-UI, and no failure of the host."""
    assert answer.status_code < 500, answer.text
    if answer.status_code == 200:
        events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
        assert all(event["type"].isupper() for event in events)
        assert not whole or events[0]["type"] == "RUN_STARTED", answer.text
    else:
        assert answer.json()["type"] == "RUN_ERROR", answer.text
        assert answer.json()["message"]


@pytest.mark.shows("ag-ui", "hostile")
async def test_no_body_is_answered_in_another_shape_or_by_a_failure(tmp_path: Path) -> None:
    async with playing(tmp_path / "data") as served:
        key = {"authorization": f"Bearer {ADMIN_KEY}"}
        client = httpx.Client(base_url=served.url, headers=key, timeout=60, verify=NO_CERTIFICATES)

        @settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
        @given(BODIES, st.sampled_from(["1", "c2", "", "x", "99"]))
        def tried(body: dict[str, Any], last: str) -> None:
            answer = client.post("/ag-ui/player", json=body, headers={"last-event-id": last})
            fits(answer, whole=not last)

        with client:
            await asyncio.to_thread(tried)
        await raw(served)


async def raw(served: Served) -> None:
    """What is no JSON, or no request at all."""
    for content, kind in (
        (b"", "application/json"),
        (b"{", "application/json"),
        (b"[" * 5_000, "application/json"),
        (b'{"threadId": "\xff"}', "application/json"),
        (b"threadId=x", "application/x-www-form-urlencoded"),
    ):
        answer = await served.client.post("/ag-ui/player", content=content, headers={"content-type": kind})
        assert 400 <= answer.status_code < 500
        assert answer.json()["type"] == "RUN_ERROR", answer.text
    for method, path in (("GET", "/ag-ui/player"), ("DELETE", "/ag-ui/player/t/connect")):
        answer = await served.client.request(method, path)
        assert (answer.status_code, answer.json()["type"]) == (405, "RUN_ERROR")
    for path in ("/ag-ui/player/%00/connect", "/ag-ui/%ff/t/connect", f"/ag-ui/player/{'t' * 5_000}/connect"):
        assert 400 <= (await served.client.get(path)).status_code < 500
