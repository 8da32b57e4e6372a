"""Hostile requests to the LangGraph interface: never a 500, and each error in its shape."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.dialects.langgraph import AGENT, plain
from support.http_host import Served

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_KINDS = st.sampled_from(["human", "ai", "tool", "system", "x", None])
_BLOCK_KINDS = st.sampled_from(["text", "image_url", "image", "file", "x"])
BLOCK = st.fixed_dictionaries(
    {"type": _BLOCK_KINDS},
    optional={"text": JSON, "image_url": JSON, "url": JSON, "base64": JSON, "source": JSON, "file_id": JSON},
)
MESSAGE = st.fixed_dictionaries(
    {}, optional={"type": _KINDS, "role": _KINDS, "content": JSON | st.lists(BLOCK, max_size=3), "id": JSON}
)
INPUT = JSON | st.fixed_dictionaries({"messages": JSON | st.lists(MESSAGE, max_size=3)})
BODY = st.fixed_dictionaries(
    {"assistant_id": st.just(AGENT) | JSON},
    optional={
        "input": INPUT,
        "command": JSON | st.fixed_dictionaries({"resume": JSON}),
        "config": JSON,
        "context": JSON,
        "metadata": JSON,
        "stream_mode": JSON,
        "multitask_strategy": JSON,
        "if_not_exists": JSON,
        "on_disconnect": JSON,
        "checkpoint": JSON,
    },
)

CRON = st.fixed_dictionaries(
    {
        "schedule": st.sampled_from(["* * * * *", "* * * * * 7", "@daily"])
        | st.text("0*/L,-? ", max_size=12),
        "input": st.just("x") | INPUT,
    },
    optional={
        "assistant_id": JSON,
        "timezone": st.sampled_from(["UTC", "../etc/passwd", "Asia/Tokyo\x00", ""]) | JSON,
        "end_time": st.datetimes().map(str) | JSON,
        "config": JSON | st.fixed_dictionaries({"configurable": JSON}),
        **dict.fromkeys(("enabled", "context", "metadata", "stream_mode", "webhook", "durability"), JSON),
        **dict.fromkeys(("on_run_completed", "multitask_strategy", "interrupt_after"), JSON),
    },
)


def check(answer: httpx.Response) -> None:
    """An error is one of the interface."""
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        body = answer.json()
        assert set(body) <= {"detail", "code", "errors"}
        assert body["detail"]


@pytest.mark.shows("langgraph", "hostile")
async def test_fuzzed_bodies(served: Served) -> None:
    bodies: list[Any] = []

    @settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(BODY)
    def collect(body: Any) -> None:
        bodies.append(body)

    collect()
    for body in bodies:
        for path in ("/threads/t/runs", "/threads/t/runs/wait"):
            answer = await served.client.post(f"/langgraph{path}", json=body)
            check(answer)


async def test_fuzzed_crons(served: Served) -> None:
    bodies: list[Any] = []

    @settings(max_examples=80, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(CRON)
    def collect(body: Any) -> None:
        bodies.append(body)

    collect()
    good = {"assistant_id": AGENT, "schedule": "@daily", "input": "x"}
    made = (await served.client.post("/langgraph/runs/crons", json=good)).json()
    statuses = set()
    for body in bodies:
        for method, path, sent in (
            ("POST", "/runs/crons", {"assistant_id": AGENT, **body}),
            ("PATCH", f"/runs/crons/{made['cron_id']}", body),
            ("POST", "/runs/crons/search", body),
        ):
            answer = await served.client.request(method, f"/langgraph{path}", json=sent)
            check(answer)
            statuses.add((method, path, answer.status_code < 400))
    assert {(method, is_fine) for method, _, is_fine in statuses} >= {("POST", True), ("PATCH", True)}
    shown = await served.client.post("/langgraph/runs/crons/search", json={"limit": 500})
    assert shown.status_code == 200
    assert (await served.client.get("/v1/schedules?limit=500")).status_code == 200


BAD: list[tuple[str, str, bytes]] = [
    ("POST", "/threads", b'{"metadata": {"a": "\\ud800"}}'),
    ("POST", "/threads", b'{"supersteps": [1]}'),
    ("POST", "/threads", b'{"supersteps": [{"updates": [{"values": 1}]}]}'),
    ("PATCH", "/threads/t", b'{"metadata": 1}'),
    ("POST", "/threads/search", b'{"sort_by": "values"}'),
    ("POST", "/threads/t/state", b'{"values": {"messages": [{"type": "human", "content": 1}]}}'),
    ("POST", "/threads/t/state", b'{"values": {"messages": ["x"]}, "checkpoint": {"checkpoint_id": 5}}'),
    ("POST", "/threads/t/state/checkpoint", b'{"checkpoint": 1}'),
    ("GET", "/threads/t/state/99999999999999999999999", b""),
    ("GET", "/threads/t/state/%00", b""),
    ("POST", "/threads/t/history", b'{"limit": 0}'),
    ("POST", "/threads/a%00/copy", b""),
    ("PUT", "/store/items", b'{"namespace": ["a"], "key": "k", "value": "text"}'),
    ("PUT", "/store/items", b'{"namespace": ["a"], "key": "k\\ud800", "value": {}}'),
    (
        "PUT",
        "/store/items",
        b'{"namespace": ["a"], "key": "k", "value": ' + b'{"a":' * 200 + b"1" + b"}" * 201,
    ),
    ("GET", "/store/items?key=k", b""),
    ("GET", "/store/items?namespace=a..b&key=k", b""),
    ("POST", "/store/items/search", b'{"namespace_prefix": ["a.b"]}'),
    ("POST", "/store/items/search", b'{"filter": {"a": {"$gt": 1, "$where": "x"}}}'),
    ("POST", "/store/namespaces", b'{"prefix": ["*", "\\u0000"]}'),
    ("POST", "/threads", b"{bad"),
    ("POST", "/threads", b'{"thread_id": "a\\u0000"}'),
    ("POST", "/threads", b'{"thread_id": ""}'),
    ("POST", "/threads/search", b'{"limit": -1}'),
    ("POST", "/threads/search", b'{"ids": ["a\\u0000"]}'),
    ("POST", "/threads/search", b'{"values": {"a": 1}}'),
    ("POST", "/threads/count", b'{"status": "x"}'),
    ("POST", "/assistants/search", b'{"offset": -1}'),
    ("GET", "/threads/t/runs?limit=1000000", b""),
    ("GET", "/threads/t/runs?status=x", b""),
    ("GET", "/threads/t/runs/run_%00", b""),
    ("GET", "/threads/t/runs/run_x_999999999999999999999", b""),
    ("POST", "/threads/t/runs/x/cancel?action=x", b""),
    ("DELETE", "/threads/t/runs/x", b""),
    ("POST", "/runs/batch", b"{}"),
    ("POST", "/runs/crons", b"{}"),
    (
        "POST",
        "/threads/t/runs/crons",
        b'{"assistant_id": "player", "schedule": "@daily", "input": "a\\u0000"}',
    ),
    ("POST", "/threads/a%00/runs/crons", b'{"assistant_id": "player", "schedule": "@daily", "input": "a"}'),
    ("POST", "/runs/crons", b'{"assistant_id": "a\\u0000", "schedule": "@daily", "input": "a"}'),
    ("POST", "/runs/crons", b'{"assistant_id": "player", "schedule": 1, "input": "a"}'),
    (
        "POST",
        "/runs/crons",
        b'{"assistant_id": "player", "schedule": "@daily", "input": "a", "context": '
        + b'{"a":' * 200
        + b"1"
        + b"}" * 201,
    ),
    ("POST", "/runs/crons/search", b'{"sort_by": "payload"}'),
    ("POST", "/runs/crons/search", b'{"select": ["secrets"]}'),
    ("POST", "/runs/crons/count", b'{"metadata": []}'),
    ("GET", "/runs/crons/%00", b""),
    ("PATCH", "/runs/crons/01900000-0000-7000-8000-000000000001", b'{"enabled": false}'),
    ("PATCH", "/runs/crons/x", b'{"enabled": null}'),
    ("DELETE", "/runs/crons/cron-x", b""),
    ("GET", "/nope", b""),
    ("PUT", "/threads", b"{}"),
    ("POST", "/threads/t/history", b'{"before": {"configurable": 1}}'),
]


async def test_bad_requests(served: Served) -> None:
    headers = {"x-api-key": "the key of these tests", "content-type": "application/json"}
    async with served.as_key(None) as client:
        await served.client.post(
            "/langgraph/threads/t/runs/wait", json={"assistant_id": AGENT, "input": plain("x")}
        )
        for method, path, body in BAD:
            answer = await client.request(method, f"/langgraph{path}", content=body, headers=headers)
            if path != "/nope":  # of no interface
                check(answer)
            assert 400 <= answer.status_code < 500, (method, path, body)
