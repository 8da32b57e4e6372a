"""Markdown as chats show it: whatever a model writes becomes valid marks, and its words stay."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler_sdk.channels.markdown import MAX_DEPTH, parse
from hostler_sdk.channels.markup import CHAT_HTML, MRKDWN, PLAIN, page_html, render, utf16_length
from support.chat_html import Tags


@pytest.mark.parametrize(
    ("markdown", "html", "mrkdwn", "plain"),
    [
        ("**b** *i* ~~s~~ `c`", "<b>b</b> <i>i</i> <s>s</s> <code>c</code>", "*b* _i_ ~s~ `c`", "b i s c"),
        ("__b__ _i_ ***both***", "<b>b</b> <i>i</i> <b><i>both</i></b>", "*b* _i_ *_both_*", "b i both"),
        ("a < b & c > d", "a &lt; b &amp; c &gt; d", "a &lt; b &amp; c &gt; d", "a < b & c > d"),
        ("<b>no tag</b>", "&lt;b&gt;no tag&lt;/b&gt;", "&lt;b&gt;no tag&lt;/b&gt;", "<b>no tag</b>"),
        ("2 * 3 * 4, snake_case_name", *["2 * 3 * 4, snake_case_name"] * 3),
        ("**注意：**这里", "<b>注意：</b>这里", "*注意：*这里", "注意：这里"),
        ("\\*not bold\\* &amp; &lt;", "*not bold* &amp; &lt;", "*not bold* &amp; &lt;", "*not bold* & <"),
        ("`` a ` **b** ``", "<code>a ` **b**</code>", "`a ` **b**`", "a ` **b**"),
        ("**open *and `un", *["**open *and `un"] * 3),
        (
            "[t](https://a.b/c_(d)?x=1&y)",
            '<a href="https://a.b/c_(d)?x=1&amp;y">t</a>',
            "<https://a.b/c_(d)?x=1&amp;y|t>",
            "t (https://a.b/c_(d)?x=1&y)",
        ),
        (
            "![cat](https://a.b/c.png)",
            '<a href="https://a.b/c.png">cat</a>',
            "<https://a.b/c.png|cat>",
            "cat (https://a.b/c.png)",
        ),
        ("[x](javascript:alert(1))", *["x (javascript:alert(1))"] * 3),
        (
            '[x](https://a"onclick="b)',
            '<a href="https://a&quot;onclick=&quot;b">x</a>',
            '<https://a"onclick="b|x>',
            'x (https://a"onclick="b)',
        ),
        (
            "see https://a.b/_c_d_e.",
            'see <a href="https://a.b/_c_d_e">https://a.b/_c_d_e</a>.',
            "see <https://a.b/_c_d_e|https://a.b/_c_d_e>.",
            "see https://a.b/_c_d_e.",
        ),
        ("# Big **title** #", "<b>Big title</b>", "*Big title*", "Big title"),
        ("one\ntwo\n\nthree", *["one\ntwo\n\nthree"] * 3),
        ("- a\n  - b\n    c\n- d", *["• a\n  • b\n    c\n• d"] * 3),
        ("3. c\n4. d", *["3. c\n4. d"] * 3),
        ("a\n\n---\nb", *["a\n\n———\n\nb"] * 3),
        (
            "```py\nx = '**' < 1\n```",
            "<pre><code class=\"language-py\">x = '**' &lt; 1</code></pre>",
            "```\nx = '**' &lt; 1\n```",
            "x = '**' < 1",
        ),
        ("```\nnever closed", "<pre>never closed</pre>", "```\nnever closed\n```", "never closed"),
        (
            "> a\n> > <b>\n> c",
            "<blockquote>a\n&gt; &lt;b&gt;\nc</blockquote>",
            "> a\n> > &lt;b&gt;\n> c",
            "> a\n> > <b>\n> c",
        ),
        (
            "|a|b|\n|-|:-:|\n|1|漢|",
            "<pre>a | b\n--+---\n1 | 漢</pre>",
            "```\na | b\n--+---\n1 | 漢\n```",
            "a | b\n--+---\n1 | 漢",
        ),
    ],
)
def test_what_each_mark_becomes(markdown: str, html: str, mrkdwn: str, plain: str) -> None:
    assert render(markdown, CHAT_HTML) == html
    assert render(markdown, MRKDWN) == mrkdwn
    assert render(markdown, PLAIN) == plain


def test_a_table_too_wide_for_a_telephone_becomes_a_list() -> None:
    table = f"|Name|What it does|\n|-|-|\n|**one**|{'x' * 60}|\n|two||"
    assert render(table, CHAT_HTML) == f"• <b>one</b>\n   What it does: {'x' * 60}\n• <b>two</b>"


def test_a_page_has_its_own_tags() -> None:
    text = "# T\na\nb\n\n2. x\n   - y\n\n> q\n\n|a|\n|-|\n|<i>|\n\n---\n[x](javascript:y)"
    assert page_html(text) == (
        "<h1>T</h1>\n<p>a<br>\nb</p>\n"
        '<ol start="2">\n<li>x<ul>\n<li>y</li>\n</ul>\n</li>\n</ol>\n'
        "<blockquote>\n<p>q</p>\n</blockquote>\n"
        "<table>\n<tr><th>a</th></tr>\n<tr><td>&lt;i&gt;</td></tr>\n</table>\n"
        "<hr>\n<p>x (javascript:y)</p>\n"
    )


def test_length_is_counted_as_platforms_do() -> None:
    assert [utf16_length(text) for text in ("abc", "漢", "👋", "\ud800")] == [3, 1, 2, 1]


# -- whatever is written --------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        "*",
        "**",
        "_",
        "~~",
        "`",
        "```",
        "\n",
        "\n\n",
        "> ",
        "- ",
        "1. ",
        "  ",
        "|",
        "|-|-|",
        "#",
        " ",
        "[",
        "]",
        "(",
        ")",
        "<",
        "&",
        "\\",
        "https://a.b",
        "&lt;",
        "word",
        "漢字",
        "👋",
        "!",
        "---",
        "\t",
    ]
)


def words(text: str) -> list[str]:
    return re.findall(r"word|漢字|👋", text)


@given(st.lists(PIECES, max_size=60).map("".join))
def test_any_text_becomes_valid_marks_and_loses_no_word(text: str) -> None:
    tags = Tags()
    tags.feed(render(text, CHAT_HTML))
    tags.close()
    assert tags.open == []
    if not any(part in text for part in ("```", "~~~", "|")):  # info strings, cells without a column
        assert words(tags.text) == words(text)
        assert words(render(text, PLAIN)) == words(text)
    page_html(text)
    render(text, MRKDWN)


@pytest.mark.parametrize(
    "piece",
    [
        "*",
        "* a ",
        "[",
        "[a](",
        "`",
        "> ",
        "- ",
        "_a",
        "**a ",
        "|-",
        "&",
        "\\",
        "https://",
        "[[a]",
        "~~",
        "1. ",
        "<a",
        "(",
        "\t- ",
    ],
)
def test_time_grows_with_the_length(piece: str) -> None:
    """Counted in lines of Python, not in seconds: twice the text may cost at most three times as much."""
    short, long = (steps(piece * (size // len(piece))) for size in (1_500, 3_000))
    assert long < 3 * short + 20_000


def steps(text: str) -> int:
    import sys

    count = 0

    def trace(frame: object, event: str, arg: object) -> object:
        nonlocal count
        count += 1
        return trace

    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        render(text, CHAT_HTML)
    finally:
        sys.settrace(None)
    return count


def test_nesting_ends() -> None:
    deep = "".join("  " * level + "- x\n" for level in range(200)) + "> " * 200 + "y"
    assert render(deep, PLAIN).count("x") == 200
    assert str(parse("> " * 200 + "y")).count("Quote") == MAX_DEPTH
