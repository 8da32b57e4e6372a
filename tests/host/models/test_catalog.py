"""From configuration to models: providers, keys, prices; counting tokens; the optional extras."""

from __future__ import annotations

import asyncio
import importlib.util
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.model_entries import ModelEntry, Price
from hostler.models.catalog import build_catalog, cost_of, usable_catalog
from hostler.models.port import EmbedRequest, ModelRequest, RerankRequest
from hostler.models.token_counts import count_tokens, estimate_text
from hostler_protocol.content import FunctionSpec, ImageUrl, ImageUrlElement, ModelMessage, TextElement, Usage
from hostler_protocol.errors import HostlerError, InvalidArgumentError, NotFoundError
from support.model_server import ModelServer

ASK = ModelRequest([ModelMessage(role="user", content="hi")])


async def test_a_configured_model_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MODEL_KEY", "sk-env")
    (tmp_path / "key").write_text("sk-file\n")
    async with asyncio.timeout(110), ModelServer() as server:
        server.always("ok")
        catalog = build_catalog(
            [
                ModelEntry(id="a", base_url=server.base_url, model="gpt-a", api_key="env:MODEL_KEY"),
                ModelEntry(id="b", base_url=server.base_url + "/", api_key=f"file:{tmp_path / 'key'}"),
                ModelEntry(id="c", base_url=server.base_url + "?api-version=3", type="rerank"),
            ]
        )
        for model_id in ("a", "b", "c"):
            await catalog.get(model_id).provider.invoke(ASK)
        await catalog.close()
    assert [r.json["model"] for r in server.requests] == ["gpt-a", "b", "c"]
    assert [r.headers.get("authorization") for r in server.requests] == [
        "Bearer sk-env",
        "Bearer sk-file",
        None,
    ]
    assert [r.path for r in server.requests][1:] == [
        "/v1/chat/completions",
        "/v1/chat/completions?api-version=3",
    ]
    assert [m.resource().operations for m in catalog.list()] == [
        ["invoke", "stream", "count_tokens"],
        ["invoke", "stream", "count_tokens"],
        ["rerank"],
    ]
    with pytest.raises(NotFoundError, match="did you mean"):
        build_catalog([ModelEntry(id="main")]).get("mian")


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"provider": "opnai"}, "did you mean 'openai'?"),
        ({"provider": "acme"}, "demo, litellm, openai"),
        ({"api_key": "env:NOT_SET_ANYWHERE"}, "NOT_SET_ANYWHERE is not set"),
        ({"api_key": "sk with spaces"}, "API key"),
        ({"base_url": "localhost:8080"}, "http address"),
        ({"base_url": "http://me:pass@host/v1"}, "api_key"),
        ({"timeout": 0}, "timeout"),
        ({"max_retries": -1}, "max_retries"),
    ],
)
def test_a_wrong_configuration_says_what_would_be_right(entry: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        build_catalog([ModelEntry(id="main", **entry)])
    assert says in caught.value.message
    assert "main" in caught.value.message
    assert "spaces" not in str(entry.get("api_key")) or "sk with" not in caught.value.message


def test_a_stored_model_without_its_key_is_left_out_and_told() -> None:
    entries = [ModelEntry(id="main"), ModelEntry(id="other", api_key="env:NOT_SET_ANYWHERE")]
    catalog, wrong = usable_catalog(entries)
    assert [model.model_id for model in catalog.list()] == ["main"]
    assert list(wrong) == ["other"]
    assert "NOT_SET_ANYWHERE is not set" in wrong["other"]


@pytest.mark.parametrize(
    ("usage", "price", "cost"),
    [
        (Usage(input_tokens=1_000_000, output_tokens=100_000), Price(input=0.15, output=0.6), "0.21"),
        (
            Usage(input_tokens=10, output_tokens=0, cached_tokens=4),
            Price(input=1, output=1, cached=0.1),
            "0.0000064",
        ),
        (Usage(input_tokens=10, output_tokens=0, cached_tokens=4), Price(input=1, output=1), "0.00001"),
        (Usage(input_tokens=10), Price(input=1, output=1), None),
    ],
)
def test_cost_is_exact_and_never_guessed(usage: Usage, price: Price, cost: str | None) -> None:
    assert cost_of(usage, price) == (None if cost is None else Decimal(cost))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        # tokens as cl100k_base counts them
        ("The quick brown fox jumps over the lazy dog. It was not amused.", 15),
        ("def accept(self, event: Event) -> Accepted:\n    return self.runs.open(event)\n", 19),
        ('{"id": 12345, "name": "Ada", "values": [1.5, 2.25, 3], "ok": true}', 34),
        ("今天天气很好，我们一起去公园散步吧。", 22),
        ("東京は日本の首都であり、世界で最も人口の多い都市の一つです。", 30),
        ("Сегодня хорошая погода, и мы пошли гулять в парк.", 25),
    ],
)
def test_the_estimate_is_near_for_many_scripts(text: str, tokens: int) -> None:
    assert 0.6 <= estimate_text(text) / tokens <= 1.5


async def test_counting_covers_all_of_a_request_and_says_what_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)

    async def count(*contents: Any, tools: tuple[FunctionSpec, ...] = ()) -> int:
        messages = [ModelMessage(role="user", content=content) for content in contents]
        found = await count_tokens("gpt-4o", messages, tools)
        assert found.counted_by == "estimate"
        return found.input_tokens

    one, two = await count("hi"), await count("hi", "hi")
    assert 0 < one < two < await count("hi", "hi", tools=(FunctionSpec(name="add"),))
    picture = ImageUrlElement(image_url=ImageUrl(url="http://x/1.png"))
    assert await count([TextElement(text="hi"), picture]) > await count([TextElement(text="hi")]) + 500
    assert await count("word " * 100_000) == pytest.approx(100_000, rel=0.2)
    assert estimate_text("") == 0


@pytest.mark.skipif(importlib.util.find_spec("litellm") is not None, reason="the extra is installed")
async def test_litellm_says_how_to_install_it() -> None:
    provider = build_catalog([ModelEntry(id="main", provider="litellm")]).get("main").provider
    for call in (
        provider.invoke(ASK),
        provider.stream(ASK).__anext__(),
        provider.rerank(RerankRequest("q", ["a"])),
        provider.embed(EmbedRequest(["a"])),
    ):
        with pytest.raises(HostlerError, match=r"hostler\[litellm\]"):
            await call
    with pytest.raises(InvalidArgumentError, match="api_base"):
        await provider.invoke(ModelRequest(ASK.messages, extra_args={"api_base": "http://elsewhere"}))


@pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is not None, reason="the extra is installed")
async def test_the_demo_model_says_how_to_install_it() -> None:
    model = build_catalog([ModelEntry(id="main", provider="demo")]).get("main")
    assert model.context_window == 4096
    with pytest.raises(HostlerError, match=r"hostler\[demo-model\]"):
        await model.provider.invoke(ASK)
    await model.provider.close()
