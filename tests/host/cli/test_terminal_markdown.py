"""Markdown on a terminal, as it streams in."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.cli.markdown import MarkdownStream

PLAIN = re.compile(r"\x1b\[[0-9;]*m")
TEXTS = st.text(alphabet="ab *`#-\n", max_size=60)


def rendered(pieces: list[str]) -> str:
    stream = MarkdownStream()
    return "".join(stream.feed(piece) for piece in pieces) + stream.end()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a **bold** word", "a \x1b[0m\x1b[1mbold\x1b[0m word"),
        ("run `ls` now", "run \x1b[0m\x1b[36mls\x1b[0m now"),
        ("- one\n* two", "• one\n• two"),
        ("# Title\nbody", "\x1b[0m\x1b[1mTitle\x1b[0m\nbody"),
        ("2 * 3 and #tag", "2 * 3 and #tag"),
        ("```\n**x**\n```\ny", "\x1b[0m\x1b[2m```\x1b[0m\x1b[36m\n**x**\n\x1b[0m\x1b[2m```\x1b[0m\ny"),
    ],
)
def test_marks_become_colours(text: str, shown: str) -> None:
    assert rendered([text]) == shown


@given(TEXTS, st.lists(st.integers(1, 5), max_size=60))
def test_it_looks_the_same_however_it_is_cut(text: str, sizes: list[int]) -> None:
    pieces, rest = [], text
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    assert rendered([*pieces, rest]) == rendered([text])


@given(TEXTS)
def test_no_word_is_lost_and_no_colour_is_left_on(text: str) -> None:
    shown = rendered([text])
    assert re.sub(r"[^ab]", "", PLAIN.sub("", shown)) == re.sub(r"[^ab]", "", text)
    colours = PLAIN.findall(shown)
    assert not colours or colours[-1] == "\x1b[0m"


@given(st.text(alphabet="ab \n", max_size=60))
def test_text_without_marks_is_written_at_once(text: str) -> None:
    stream = MarkdownStream()
    assert "".join(stream.feed(char) for char in text) == text
