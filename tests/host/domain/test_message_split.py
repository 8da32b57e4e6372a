"""Long texts become messages that a platform takes, at places where a reader would pause."""

from __future__ import annotations

import re
import sys
from types import FrameType
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.domain.message_split import MIN_LIMIT, is_boundary, length_of, split_message
from hostler_protocol.channels import MessageUnit

UNITS = get_args(MessageUnit)
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
FLAGS = "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7"


def _steps(text: str, most: int) -> int:
    """Return how many lines of the module run while a text is split."""
    module, count = split_message.__code__.co_filename, 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename != module:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert len(split_message(text, 200, most=most)) == most
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("word", ["word ", "It is so. ", "x", "這是。", "```"])
def test_a_message_of_a_long_line_costs_no_more_than_one_of_a_short_line(word: str) -> None:
    short, long = (word * (size // len(word)) for size in (20_000, 1_048_576))
    assert _steps(long, 20) == _steps(short, 20)


def test_short_text_is_one_message() -> None:
    assert split_message("Hello *there*", 100) == ["Hello *there*"]
    assert split_message("\n \n", 100) == []


def test_paragraphs_go_before_sentences_and_these_before_words() -> None:
    paragraphs = "One is here. It has two sentences.\n\nTwo comes after it, and it is long."
    assert split_message(paragraphs, 50) == [
        "One is here. It has two sentences.",
        "Two comes after it, and it is long.",
    ]
    assert split_message("The first sentence is short. The second one does not fit.", 45) == [
        "The first sentence is short.",
        "The second one does not fit.",
    ]
    assert split_message("word " * 20, 42) == [
        ("word " * 8).strip(),
        ("word " * 8).strip(),
        ("word " * 4).strip(),
    ]
    assert split_message("这是第一句话。" * 10, 45) == ["这是第一句话。" * 6, "这是第一句话。" * 4]


def test_a_code_block_that_fits_stays_whole() -> None:
    text = "Some words before it.\n\n```python\nprint(1)\nprint(2)\n```\nand after."
    assert split_message(text, 50) == [
        "Some words before it.",
        "```python\nprint(1)\nprint(2)\n```\nand after.",
    ]


def test_a_long_code_block_is_closed_and_opened_again_in_its_language() -> None:
    code = "\n".join(f"line_{number} = {number}" for number in range(8))
    pieces = split_message(f"See:\n```python\n{code}\n```\nDone.", 60)
    assert len(pieces) > 2
    assert all(piece.count("```") % 2 == 0 for piece in pieces), pieces
    assert pieces[1].startswith("```python\n"), pieces
    inside = [line for piece in pieces for line in piece.splitlines() if line.startswith("line_")]
    assert "\n".join(inside) == code
    assert pieces[-1].endswith("Done.")


def test_a_block_of_tildes_and_one_of_four_marks_are_closed_by_their_own() -> None:
    code = "\n".join(["```", *["x = 1"] * 12, "```"])
    for mark in ("~~~", "````"):
        pieces = split_message(f"{mark}md\n{code}\n{mark}", 50)
        assert len(pieces) > 1
        for piece in pieces:
            assert piece.startswith(f"{mark}md\n"), piece
            assert piece.endswith(f"\n{mark}"), piece


def test_units_of_platforms() -> None:
    assert [length_of("aé€\U0001f600", unit) for unit in UNITS] == [4, 5, 10]
    smile = "\U0001f600" * 50
    assert [len(piece) for piece in split_message(smile, 40, "characters")] == [40, 10]
    assert [len(piece) for piece in split_message(smile, 40, "utf16")] == [20, 20, 10]
    assert [len(piece) for piece in split_message(smile, 40, "bytes")] == [10] * 5


def test_characters_of_readers_stay_whole() -> None:
    for one in (FAMILY, FLAGS[:2], "e\u0301", "\U0001f44d\U0001f3fd", "\u1112\u1161\u11ab", "नि"):
        pieces = split_message(one * 60, 41)
        assert "".join(pieces) == one * 60
        assert all(len(piece) % len(one) == 0 for piece in pieces), (one, pieces)


def test_a_character_that_is_longer_than_a_message_is_split_nevertheless() -> None:
    zalgo = "a" + "\u0301" * 300
    pieces = split_message(zalgo, 50)
    assert "".join(pieces) == zalgo
    assert all(len(piece) <= 50 for piece in pieces)


def test_a_limit_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(ValueError, match="too short"):
        split_message("text", MIN_LIMIT - 1)


_words = st.text(st.characters(codec="utf-8", exclude_characters="`~\r"), max_size=30)
_lines = st.one_of(
    _words,
    st.sampled_from(
        ["", "", "```", "```py", "~~~", "````js", "  ```", "One sentence. Another!", FAMILY, FLAGS]
    ),
    st.text("ab .", min_size=60, max_size=200),
)
_texts = st.lists(_lines, max_size=25).map("\n".join)


@given(_texts, st.integers(MIN_LIMIT, 400), st.sampled_from(UNITS))
@settings(max_examples=400, deadline=None)
def test_any_text(text: str, limit: int, unit: MessageUnit) -> None:
    pieces = split_message(text, limit, unit)
    for piece in pieces:
        assert length_of(piece, unit) <= limit
        assert piece.strip()
    assert _said("\n".join(pieces)) == _said(text)


@given(
    st.text(
        st.sampled_from([*FAMILY, *FLAGS, "e", "\u0301", "\u1112", "\u1161", "\u11ab", "각"]), max_size=200
    )
)
@settings(max_examples=200, deadline=None)
def test_ends_are_between_characters(text: str) -> None:
    at = 0
    for piece in split_message(text, 60)[:-1]:
        at += len(piece)
        assert is_boundary(text, at) or not any(is_boundary(text, one) for one in range(at - 59, at))


@given(
    st.lists(st.tuples(st.text("abc. \n", max_size=120), st.text("xyz= \n", max_size=300)), max_size=4),
    st.integers(50, 200),
)
@settings(max_examples=200, deadline=None)
def test_blocks_are_whole_in_every_message(parts: list[tuple[str, str]], limit: int) -> None:
    text = "\n".join(f"{said}\n```python\n{code}\n```" for said, code in parts)
    for piece in split_message(text, limit):
        fences = [line for line in piece.splitlines() if line.startswith("```")]
        assert fences == ["```python", "```"] * (len(fences) // 2), piece


def _said(text: str) -> str:
    """Return all that is said, without space and marks of code blocks."""
    lines = (line for line in text.split("\n") if not re.fullmatch(r" {0,3}(`{3,}|~{3,})[^`]*", line))
    return re.sub(r"\s", "", "".join(lines))
