"""Markdown in messages of a chat: each one fits as it is rendered, in every dialect, and no word is lost."""

from __future__ import annotations

import re

import pytest
from hostler_discord.text import DISCORD
from hypothesis import given
from hypothesis import strategies as st

from hostler_protocol.channels import MessageUnit
from hostler_sdk.channels.markup import CHAT_HTML, MRKDWN, PLAIN, Marks, render
from hostler_sdk.channels.parts import MIN_LENGTH, render_parts
from support.chat_html import Tags

DIALECTS = {"html": CHAT_HTML, "mrkdwn": MRKDWN, "plain": PLAIN, "discord": DISCORD}
FAMILY = "👨‍👩‍👧"
BLOCKS = st.sampled_from(
    [
        "word " * 30,
        "*_<&>_*" * 20,
        "漢字" * 60,
        f"{FAMILY}👋🏽🇯🇵" * 8,
        "w\u0301" * 70,
        f"# {'Heading **word** ' * 6}",
        "- word\n  - 漢字 " + "word " * 20 + "\n    - deep `code` " + "& " * 20 + "\n- last",
        "7. word\n8. " + "x" * 90,
        "> quoted **word**\n> > inner " + "word " * 20,
        "> - a\n> - " + "word " * 20,
        "```python\n" + "x = '<&>' * 2\n" * 12 + "```",
        "```" + "language" * 8 + "\n" + "y" * 90 + "\n```",
        "|Name|What it does|\n|-|-|\n" + f"|**one**|{'word ' * 12}|\n" * 3,
        "|a|b|\n|-|-|\n" + "|1|漢|\n" * 12,
        "|" + "word & " * 20 + "|\n|-|",
        f"[{'a link ' * 10}](https://a.b/{'path/' * 12})",
        "![](https://a.b/" + "c" * 70 + ")",
        "**_~~" + "word " * 25 + "~~_**",
        f"`{'code ' * 20}`",
        "---",
    ]
)
UNITS = st.sampled_from(["characters", "utf16", "bytes"])
NAMES = st.sampled_from(sorted(DIALECTS))
ANYTHING = st.text("*_`~|>-#[]()<&\\!1. \nwa漢👋\u200d\u0301\t", max_size=200)


def length(text: str, unit: MessageUnit) -> int:
    if unit == "characters":
        return len(text)
    return len(text.encode("utf-16-le")) // 2 if unit == "utf16" else len(text.encode())


def check(text: str, marks: Marks, most: int, unit: MessageUnit) -> None:
    parts = render_parts(text, marks, most, unit)
    for part in parts:
        assert part.strip()
        assert length(part, unit) <= most, part
        if marks is CHAT_HTML:
            tags = Tags()
            tags.feed(part)
            tags.close()
            assert tags.open == []
    whole = render(text, marks)
    if length(whole, unit) <= most:
        assert parts == ([whole] if whole.strip() else [])
    if marks is PLAIN and "|" not in text:  # a table repeats its titles
        assert ink("".join(parts)) == ink(whole)


def ink(text: str) -> str:
    """What a reader sees, without blanks, bullets, numbers and lines around it."""
    return re.sub(r"[\s•>\d.()]", "", text)


@given(
    st.lists(BLOCKS, max_size=4).map("\n\n".join),
    NAMES,
    st.integers(40, 300),
    UNITS,
)
def test_each_message_fits_as_it_is_rendered(text: str, name: str, most: int, unit: MessageUnit) -> None:
    check(text, DIALECTS[name], most, unit)


@given(ANYTHING, NAMES, UNITS)
def test_whatever_is_written_fits(text: str, name: str, unit: MessageUnit) -> None:
    check(text, DIALECTS[name], MIN_LENGTH, unit)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("one\n\ntwo", ["one\n\ntwo"]),
        ("a" * 30 + "\n\n" + "b" * 30, ["a" * 30, "b" * 30]),
        ("- a\n- " + "b " * 16 + "\n- c\n- d", ["• a\n• " + "b " * 15 + "b", "• c\n• d"]),
        ("3. " + "a " * 14 + "\n4. " + "b " * 14, ["3. " + "a " * 13 + "a", "4. " + "b " * 13 + "b"]),
        ("> " + "a " * 14 + "\n>\n> " + "b " * 14, ["> " + "a " * 13 + "a", "> " + "b " * 13 + "b"]),
        ("a\n\n" + f"{FAMILY}" * 10, ["a\n\n" + FAMILY * 5, FAMILY * 5]),
        ("", []),
        ("\n \n", []),
    ],
)
def test_where_a_text_is_split(text: str, parts: list[str]) -> None:
    assert render_parts(text, PLAIN, 40) == parts


def test_code_and_tables_are_whole_in_each_message() -> None:
    code = "```py\n" + "\n".join(f"line_{number} < 1" for number in range(8)) + "\n```"
    parts = render_parts(code, CHAT_HTML, 120)
    assert len(parts) > 1
    assert all(part.startswith('<pre><code class="language-py">') for part in parts)
    assert re.findall(r"line_\d", "".join(parts)) == [f"line_{number}" for number in range(8)]
    table = "|Name|Age|\n|-|-|\n" + "".join(f"|row{number}|{number}|\n" for number in range(9))
    parts = render_parts(table, MRKDWN, 80)
    assert len(parts) > 1
    assert all(part.startswith("```\nName | Age\n") for part in parts)


@given(ANYTHING, UNITS, NAMES)
def test_what_is_no_markdown_is_escaped_and_fits(text: str, unit: MessageUnit, name: str) -> None:
    marks = DIALECTS[name]
    parts = render_parts(text, marks, MIN_LENGTH, unit, plain=True)
    whole = marks.escape(text)
    assert all(part.strip() and length(part, unit) <= MIN_LENGTH for part in parts)
    if length(whole, unit) <= MIN_LENGTH:
        assert parts == ([whole] if whole.strip() else [])
    if marks is PLAIN:
        assert "".join("".join(parts).split()) == "".join(text.split())


def test_a_platform_may_count_in_its_own_way_and_no_flag_is_torn() -> None:
    text = "**<&>** " * 10
    assert len(render_parts(text, CHAT_HTML, 40)) > 2
    assert len(render_parts(text, CHAT_HTML, 40, lambda html: len(re.sub("<.*?>|&.*?;", "x", html)))) == 2
    flags = render_parts("🇯🇵🇫🇷" * 25, PLAIN, 41)
    assert len(flags) > 2
    assert all(len(part) % 2 == 0 and part[:2] in {"🇯🇵", "🇫🇷"} for part in flags)


def test_too_short_messages_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 40"):
        render_parts("x", PLAIN, 39)
