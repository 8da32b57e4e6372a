"""OpenAI's Responses against hostile bodies: an error in its shape, never a failure of the host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.http.openai.responses_input import read_input
from hostler.http.openai.responses_request import CreateResponse, check
from hostler.http.openai.responses_tools import read_tools
from hostler_protocol.errors import CallerError
from support.dialects.players import playing

EXAMPLES = 120
TEXT = st.text(max_size=12) | st.sampled_from(
    ["\x00", "call_", "call_a_b", "mcpr_a_b_c", "data:", "data:,x", "🙂"]
)
LEAF = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | TEXT
JSON = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=6
)
TYPES = [
    *(
        "message",
        "function_call",
        "function_call_output",
        "mcp_approval_response",
        "reasoning",
        "item_reference",
    ),
    *("input_text", "input_image", "input_file", "output_text", "web_search_call", "function"),
]
FIELDS = [
    *("role", "content", "call_id", "output", "approval_request_id", "approve", "reason", "status", "text"),
    *("image_url", "file_id", "file_data", "filename", "name", "parameters", "description", "arguments"),
]
ITEM = st.builds(
    lambda kind, rest: {"type": kind, **rest},
    st.sampled_from(TYPES),
    st.dictionaries(st.sampled_from(FIELDS), JSON | st.sampled_from(["user", "assistant"]), max_size=5),
)
ITEM |= st.builds(
    lambda role, parts: {"role": role, "content": parts},
    st.sampled_from(["user", "assistant", "system"]),
    st.lists(ITEM, max_size=3),
)
BODY = st.fixed_dictionaries(
    {"model": st.just("player")},
    optional={
        "input": TEXT | st.lists(ITEM, max_size=4) | JSON,
        "tools": st.lists(ITEM, max_size=2) | JSON,
        "conversation": JSON,
        "previous_response_id": JSON,
        "metadata": JSON,
        "stream": st.booleans(),
        "store": st.booleans(),
        "text": JSON,
        "include": JSON,
        "instructions": JSON,
        "tool_choice": JSON,
        "max_output_tokens": JSON,
    },
)


def examples(strategy: Any, number: int) -> list[Any]:
    """Collect examples; the same each time."""
    found: list[Any] = []

    @settings(max_examples=number, database=None)
    @given(strategy)
    def collect(one: Any) -> None:
        found.append(one)

    collect()
    return found


@settings(max_examples=400)
@given(BODY)
def test_a_body_is_read_or_refused(body: dict[str, Any]) -> None:
    try:
        read = msgspec.convert(json.loads(json.dumps(body)), CreateResponse)
    except msgspec.ValidationError:
        return
    refused: CallerError | None = None
    try:
        check(read)
        read_tools(read.tools, read.tool_choice)
        read_input(read.input)
    except CallerError as error:
        refused = error
    assert refused is None or refused.details["param"]


@pytest.mark.timeout(300)
@pytest.mark.shows("openai-responses", "hostile")
async def test_a_host_answers_every_body_in_the_shape_of_the_interface(tmp_path: Path) -> None:
    bodies = [msgspec.json.encode(body) for body in examples(BODY, EXAMPLES)]
    bodies += [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"model": 1}',
        b"\xff",
        b'{"a":' * 5000,
        b'{"model":"player","input":"\\ud800"}',
    ]
    ids = [*examples(TEXT, 20), "resp_", "resp_x_999999999999999999", "resp_x_-1", "../../v1/runs", "conv_x"]
    async with playing(tmp_path / "data") as served:
        for body in bodies:
            answer = await served.client.post(
                "/v1/responses", content=body, headers={"content-type": "application/json"}
            )
            assert answer.status_code < 500, (body, answer.text)
            if answer.status_code >= 400:
                assert set(answer.json()["error"]) == {"message", "type", "param", "code"}, body
                assert answer.headers["x-should-retry"] == "false"
        for one in ids:
            if not one or "." in one:
                continue
            name = quote(one, safe="")
            for method, path in (
                ("GET", f"/v1/responses/{name}"),
                ("GET", f"/v1/responses/{name}?stream=true&starting_after=99999999"),
                ("GET", f"/v1/responses/{name}/input_items?limit=0"),
                ("POST", f"/v1/responses/{name}/cancel"),
                ("DELETE", f"/v1/responses/{name}"),
                ("GET", f"/v1/conversations/{name}"),
                ("GET", f"/v1/conversations/c/items/{name}"),
                ("GET", f"/v1/conversations/c/items?after={name}"),
                ("POST", f"/v1/conversations/{name}"),
            ):
                answer = await served.client.request(method, path, json={} if method == "POST" else None)
                assert 400 <= answer.status_code < 500, (method, path, answer.text)
                assert set(answer.json()["error"]) == {"message", "type", "param", "code"}, path
        for path in ("/v1/conversations", "/v1/conversations/x/items"):
            for body in examples(JSON, 20):
                answer = await served.client.post(path, json=body)
                assert answer.status_code < 500, (path, body, answer.text)
