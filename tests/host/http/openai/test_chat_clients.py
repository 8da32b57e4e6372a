"""Chat Completions with OpenAI's client for JavaScript, and with requests that nobody means."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import openai
import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from support.dialects.players import playing
from support.http_host import ADMIN_KEY, Served, serving
from support.node_clients import node_clients

NODE_PACKAGE = "openai@7.59.0"
PAGE = Path(__file__).parents[4] / "docs/clients/openai-chat.md"


@pytest.mark.timeout(600)  # it is installed once
async def test_the_client_for_javascript(tmp_path: Path) -> None:
    node = await asyncio.to_thread(node_clients, NODE_PACKAGE)
    folder = tmp_path / "client"
    folder.mkdir()
    async with playing(tmp_path / "data") as served:
        program = Path(__file__).with_name("chat_clients.mjs")
        found = await asyncio.to_thread(node.run, program, folder, served.url, ADMIN_KEY)
    assert found["models"] == ["player"]
    assert found["first"]["finish_reason"] == "tool_calls"
    assert found["first"]["message"]["content"] == "让我看看 👀"
    said = found["second"]["message"]["content"].split("\n\n")
    assert sorted(said) == ['weather: "Oslo"', 'weather: "北京"']
    assert found["errors"] == [
        [404, "model_not_found"], [424, "runner.error"], ["APIError", "runner.error"],
    ]  # fmt: skip


ANY: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


async def test_the_page_s_program_says_hello(tmp_path: Path) -> None:
    text = PAGE.read_text("utf-8")
    links = [link for link in re.findall(r"\]\(([^)#\s]+)\)", text) if "://" not in link]
    assert [link for link in links if not PAGE.parent.joinpath(link).exists()] == []
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    async with playing(tmp_path / "data") as served:
        environment = {
            **os.environ, "HOSTLER_URL": served.url, "HOSTLER_KEY": ADMIN_KEY, "AGENT": "player",
        }  # fmt: skip
        done = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", program], env=environment, capture_output=True, text=True,
            timeout=100, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "you said: Hello"), done.stderr


async def test_what_the_page_has_librechat_send_works(tmp_path: Path) -> None:
    """LibreChat needs a database of its own: its settings are used by OpenAI's client, as it does."""
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (endpoint,) = yaml.safe_load(block)["endpoints"]["custom"]
    assert endpoint["apiKey"] == "${HOSTLER_KEY}"
    ((name, value),) = endpoint["headers"].items()
    assert value == "{{LIBRECHAT_BODY_CONVERSATIONID}}"
    async with (
        playing(tmp_path / "data") as served,
        openai.AsyncOpenAI(
            base_url=endpoint["baseURL"].replace("http://HOST:8420", served.url),
            api_key=ADMIN_KEY,
            default_headers={name: "a-conversation"},
        ) as client,
    ):
        assert [model.id async for model in client.models.list()] == ["player"]
        said: list[Any] = [{"role": "user", "content": "one"}]
        first = await client.chat.completions.create(model="player", messages=said)
        said += [first.choices[0].message, {"role": "user", "content": "two"}]
        await client.chat.completions.create(model="player", messages=said)
        page = (await served.client.get("/v1/conversations/a-conversation/history")).json()
    assert [item["content"] for item in reversed(page["items"])] == [
        "one", "you said: one", "two", "you said: two",
    ]  # fmt: skip


PHASES = [Phase.explicit, Phase.generate]
"""An example takes too long to be made smaller."""
IDS = st.sampled_from(["call_a_b", "c", "", "call_\x00_x"])
TEXT = st.text(max_size=5)
URLS = st.fixed_dictionaries({"url": st.text()})
MODELS = st.sampled_from(["puppet", "nope", "\x00", ""])
NAMES = [
    *("Idempotency-Key", "Last-Event-ID", "X-Stainless-Retry-Count"),
    *("Hostler-Conversation", "Hostler-On-Pause", "Hostler-On-Disconnect"),
]
ROLES = st.sampled_from(["system", "developer", "user", "assistant", "tool", "function"])
PARTS = st.one_of(
    ANY,
    st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=8)}),
    st.fixed_dictionaries({"type": st.just("image_url"), "image_url": URLS}),
    st.fixed_dictionaries({"type": st.just("file"), "file": st.dictionaries(
        st.sampled_from(["file_data", "file_id", "filename"]), st.text(max_size=8))}),
)  # fmt: skip
CALLS = st.lists(
    st.fixed_dictionaries(
        {
            "id": IDS,
            "function": st.fixed_dictionaries(
                {"name": st.text(max_size=5), "arguments": st.text(max_size=5)}
            ),
        }
    ),
    max_size=2,
)
MESSAGES = st.fixed_dictionaries(
    {"role": ROLES, "content": st.one_of(st.text(max_size=20), st.none(), st.lists(PARTS, max_size=3), ANY)},
    optional={
        "tool_call_id": IDS,
        "tool_calls": CALLS,
        "name": st.text(max_size=5),
    },
)
BODIES = st.fixed_dictionaries(
    {"model": MODELS, "messages": st.lists(MESSAGES, max_size=4) | ANY},
    optional={
        "tools": ANY, "tool_choice": ANY, "metadata": ANY, "user": ANY, "n": ANY, "stop": ANY, "seed": ANY,
        "response_format": ANY, "stream_options": ANY, "logit_bias": ANY,
    },
)  # fmt: skip
HEADERS = st.dictionaries(
    st.sampled_from(NAMES),
    st.lists(st.sampled_from([*range(33, 127), *range(128, 256)]), max_size=6).map(bytes),
)


@pytest.mark.shows("openai-chat", "hostile")
def test_no_request_makes_the_host_fail(tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        opened = serving(tmp_path)
        served: Served = runner.run(opened.__aenter__())

        @settings(
            max_examples=60,
            deadline=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(BODIES, HEADERS)
        def fuzz(body: dict[str, Any], headers: dict[str, bytes]) -> None:
            answer = runner.run(
                served.client.post("/v1/chat/completions", json=body, headers=headers)  # type: ignore[arg-type]
            )
            assert answer.status_code < 500, answer.text
            if answer.status_code >= 400:
                error = answer.json()["error"]
                assert set(error) == {"message", "type", "param", "code"}
                assert error["message"]

        try:
            fuzz()
        finally:
            runner.run(opened.__aexit__(None, None, None))
