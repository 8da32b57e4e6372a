"""What a call of a model may use at most: its input by its bytes, its output by a limit that is sent."""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any

import pytest

from hostler.domain.model_bounds import (
    DEFAULT_OUTPUT_TOKENS,
    artifacts_in,
    asked_output,
    check_args,
    default_output,
    input_bound,
    limited,
    need_of,
)
from hostler.domain.model_entries import ModelEntry, Price
from hostler.domain.reservations import Need
from hostler_protocol.content import (
    ArtifactElement,
    FileBase64Element,
    FunctionSpec,
    ImageBase64Element,
    ModelMessage,
    TextElement,
)
from hostler_protocol.errors import InvalidArgumentError

pytestmark = pytest.mark.gate("budgets")

MODEL = ModelEntry(id="m")


def user(content: Any) -> ModelMessage:
    return ModelMessage(role="user", content=content)


def bound(*contents: Any, tools: Any = (), entry: ModelEntry = MODEL, **sizes: int) -> int:
    return input_bound([user(content) for content in contents], tools, {}, entry, sizes)


@pytest.mark.parametrize("text", ["hello there", "z" * 5_000, "世界" * 500, "🦆" * 500, 'q"\\\n\x00' * 300])
def test_a_text_has_no_more_tokens_than_bytes(text: str) -> None:
    assert bound(text) >= len(text.encode())
    assert bound([TextElement(text=text)]) >= len(text.encode())
    assert bound(text, text) > bound(text) + len(text.encode())


def test_everything_that_a_service_reads_counts() -> None:
    tools = [FunctionSpec(name="add", description="d" * 300, parameters={"type": "object"})]
    assert bound("hi", tools=tools) > bound("hi") + 300
    schema = {"response_format": {"schema": "s" * 700}}
    assert input_bound([user("hi")], (), schema, MODEL, {}) > bound("hi") + 700
    set_by_operator = ModelEntry(id="m", extra_args=schema)
    assert bound("hi", entry=set_by_operator) > bound("hi") + 700


def test_images_count_what_the_entry_says_and_other_files_their_bytes() -> None:
    data = base64.b64encode(b"x" * 30_000).decode()
    image = ImageBase64Element(image_base64=data, mime_type="image/png")
    assert 3_000 < bound([image]) < 3_500
    assert 50_000 < bound([image], entry=ModelEntry(id="m", max_image_tokens=50_000)) < 50_500
    assert bound([FileBase64Element(file_base64=data, file_name="a.pdf")]) > 30_000
    stored = ArtifactElement(artifact_id="a1")
    assert bound([stored], a1=90_000) > 90_000
    assert bound([stored]) < 500, "what is gone is told in a line"
    assert artifacts_in([user([stored, TextElement(text="t")]), user("hi")]) == ["a1"]


@pytest.mark.parametrize(
    ("by_operator", "by_runner", "expected"),
    [
        ({}, {}, None),
        ({"max_tokens": 300}, {}, 300),
        ({"max_tokens": 300}, {"max_tokens": 900}, 900),
        ({"max_tokens": 300}, {"max_completion_tokens": 200}, 200),
        ({}, {"max_tokens": None}, None),
    ],
)
def test_the_output_is_bounded_by_whoever_set_a_limit(
    by_operator: Any, by_runner: Any, expected: int | None
) -> None:
    assert asked_output(by_runner, ModelEntry(id="m", extra_args=by_operator)) == expected


@pytest.mark.parametrize(
    ("most", "window", "estimate", "expected"),
    [
        (None, None, 0, DEFAULT_OUTPUT_TOKENS),
        (700, None, 0, 700),
        (None, 200_000, 1_000, DEFAULT_OUTPUT_TOKENS),
        (None, 4_096, 800, 4_096 - 64 - 900),
        (700, 4_096, 800, 700),
        (None, 4_096, 4_000, 256),
        (100, 4_096, 4_000, 100),
    ],
)
def test_a_limit_that_nobody_set_fits_beside_the_input(
    most: int | None, window: int | None, estimate: int, expected: int
) -> None:
    assert default_output(ModelEntry(id="m", max_output_tokens=most), window, estimate) == expected


@pytest.mark.parametrize("wrong", [0, -1, True, "1000", 1.5, 2**70, [5]])
def test_a_limit_of_the_output_is_a_number(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="whole number of tokens"):
        asked_output({"max_tokens": wrong}, MODEL)


def test_the_limit_goes_out_under_the_name_that_was_used() -> None:
    assert limited({}, MODEL, 100) == {"max_tokens": 100}
    assert limited({"seed": 1, "max_tokens": 500}, MODEL, 100) == {"seed": 1, "max_tokens": 100}
    assert limited({"max_tokens": 50}, MODEL, 100) == {"max_tokens": 50}
    newer = ModelEntry(id="m", extra_args={"max_completion_tokens": 400})
    assert limited({}, newer, 100) == {"max_completion_tokens": 100}
    assert limited({"max_tokens": 50}, newer, 100) == {"max_completion_tokens": 100, "max_tokens": 50}


@pytest.mark.parametrize("name", ["service_tier", "n_predict", "best_of", "plugins", "web_search_options"])
def test_a_runner_may_not_send_what_changes_the_price(name: str) -> None:
    check_args({"temperature": 1, "max_tokens": 5})
    with pytest.raises(InvalidArgumentError, match=name):
        check_args({"temperature": 1, name: 1})


def test_what_a_call_needs_by_the_prices_of_its_model() -> None:
    free = need_of(1_000, 200, MODEL, None)
    assert free == Need(spends=True, tokens=1_000, output=200)
    priced = ModelEntry(id="m", price=Price(input=0.15, output=0.6, cached=0.075))
    assert need_of(1_000, 200, priced, None)[2:6] == (1_000, 150_000, 200, Decimal(600))
    assert need_of(1_000, 200, priced, 400)[2:4] == (400, 60_000), "more does not fit into the window"
    odd = ModelEntry(id="m", price=Price(input=0.0000015, output=0.0000015, cached=9.0))
    assert need_of(1, 0, odd, None).cost == 9_000, "the dearest price of input"
    assert need_of(1, 0, ModelEntry(id="m", price=Price(input=0.0005)), None).cost == 1, "rounded up"
