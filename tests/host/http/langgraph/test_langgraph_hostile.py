"""Hostile requests to the LangGraph interface: never a 500, and each error in its shape."""

from __future__ import annotations

from typing import Any

import httpx
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
BODY = st.fixed_dictionaries(
    {"assistant_id": st.just(AGENT) | JSON},
    optional={
        "input": JSON | st.fixed_dictionaries({"messages": JSON | st.lists(MESSAGE, max_size=3)}),
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


def check(answer: httpx.Response) -> None:
    """An error is one of the interface."""
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        body = answer.json()
        assert set(body) <= {"detail", "code", "errors"}
        assert body["detail"]


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
