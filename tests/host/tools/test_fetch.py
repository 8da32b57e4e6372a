"""`fetch` over real sockets: what a model is told of pages, files and refusals."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.tool_entries import FetchEntry, ToolEntry
from hostler.tools.builtin.fetch import FetchTools
from hostler.tools.builtin.html_text import MAX_LINKS, MAX_TOKENS, page_text
from hostler.tools.errors import OutcomeUnknownError, ToolChangedError, ToolFailedError
from hostler.tools.untrusted import decoded, is_text
from hostler_protocol.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    PayloadTooLargeError,
    UnavailableError,
    to_fault,
)
from support.invocations import Calling
from support.web import Names, Web, page, redirect

pytestmark = pytest.mark.gate("egress")

PAGE = """<!doctype html><html><head><title>All &amp; sundry</title>
<style>p { color: red }</style><script>if (a < b) { alert("no") }</script></head>
<body><nav><a href="/home">Home</a></nav><h1>Hello <em>there</em></h1>
<p>One   line,
   another&nbsp;one.<br>And a third.</p>
<ul><li>first<li>second <a href="more.html?a=1&amp;b=2">more</a></ul>
<pre>  kept
    as it is</pre>
<table><tr><th>name<td>value</tr></table>
<template>hidden</template><svg><text>drawn</text></svg><!-- a > comment --><img alt="a picture">
5 < 6 &copy; <a href="javascript:alert(1)">x</a></body></html>"""


@asynccontextmanager
async def fetching(names: Names | None = None, **fields: Any) -> AsyncIterator[tuple[Web, Calling]]:
    source = FetchTools(network=names)
    entry = ToolEntry(fetch=msgspec.convert({"network": ["127.0.0.1"], **fields}, FetchEntry))
    source.check([entry])
    await source.configure([entry])
    async with Web() as web:
        try:
            yield web, Calling([source])
        finally:
            await source.close()


async def test_a_page_comes_as_its_text_marked_as_foreign() -> None:
    async with fetching() as (web, calling):
        web.pages["/a/page"] = page(PAGE)
        got = await calling.call("fetch", url=web.url("/a/page#part"), links=True)
        assert got == {
            "source": "fetch",
            "untrusted": True,
            "url": web.url("/a/page"),
            "status": 200,
            "content_type": "text/html",
            "title": "All & sundry",
            "links": [
                {"text": "Home", "url": web.url("/home")},
                {"text": "more", "url": web.url("/a/more.html?a=1&b=2")},
            ],
            "text": "Home\n\n# Hello there\n\nOne line, another one.\n"
            "And a third.\n\n- first\n- second more\n\n"
            "  kept\n    as it is\n\nname\tvalue\n\n[image: a picture] 5 < 6 © x",
            "total_chars": 142,
        }
        source = await calling.call("fetch", url=web.url("/a/page"), format="source")
        assert source["text"] == PAGE
        assert web.asked[0].headers["user-agent"].startswith("hostler/")
        [tool] = calling.tools.offered("main").values()
        assert tool.pin.effect == "pure"


async def test_a_long_text_comes_in_parts_and_json_as_it_is() -> None:
    async with fetching(page_kib=1) as (web, calling):
        text = "".join(chr(97 + n % 26) for n in range(900))
        web.pages["/text"] = page(text, kind="text/plain")
        web.pages["/json"] = page('{"a": 1}', kind="application/json")
        web.pages["/long"] = page("x" * 5000, kind="text/plain")
        parts: list[str] = []
        start: int | None = 0
        while start is not None:
            got = await calling.call("fetch", url=web.url("/text"), start=start, max_chars=400)
            parts.append(got["text"])
            start = got.get("next_start")
        assert ("".join(parts), len(parts)) == (text, 3)
        assert (await calling.call("fetch", url=web.url("/json")))["text"] == '{"a": 1}'
        cut = await calling.call("fetch", url=web.url("/long"))
        assert (cut["truncated"], len(cut["text"])) == (True, 1024)


async def test_what_is_no_text_becomes_an_artifact_and_head_asks_for_nothing_more() -> None:
    async with fetching(file_kib=1) as (web, calling):
        web.pages["/pictures/cat.png"] = page(b"\x89PNG\r\n\x1a\n\0", kind="image/png")
        web.pages["/large"] = page(b"\0" * 2000, kind="application/octet-stream")
        got = await calling.call("fetch", url=web.url("/pictures/cat.png?x=1"))
        assert got["artifact"]["name"] == "cat.png"
        assert calling.files.kept == [(b"\x89PNG\r\n\x1a\n\0", "cat.png", "image/png")]
        with pytest.raises(ToolFailedError, match="over 1,024 bytes") as error:
            await calling.call("fetch", url=web.url("/large"))
        assert to_fault(error.value).code == PayloadTooLargeError.code
        web.pages["/head"] = b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 999\r\n\r\n"
        head = await calling.call("fetch", url=web.url("/head"), head=True)
        assert head["headers"] == {"content-type": "image/png", "content-length": "999"}
        assert web.asked[-1].method == "HEAD"


async def test_errors_of_servers_are_told_and_refusals_name_what_is_wrong() -> None:
    names = Names({"inner.example": ["10.0.0.1"], "bad.example": ["127.0.0.1"]})
    names.answers["example.org"] = ["93.184.215.14"]
    async with fetching(names, deny=["bad.example"], redirects=1) as (web, calling):
        web.pages["/missing"] = page("<h1>Nothing here</h1><script>x</script>", status="404 Not Found")
        web.pages["/in"] = redirect("http://inner.example/")
        web.pages["/loop"] = redirect("/loop")
        with pytest.raises(ToolFailedError, match=r"404 Not Found: # Nothing here$") as failed:
            await calling.call("fetch", url=web.url("/missing"))
        assert to_fault(failed.value).code == "not_found"
        for url, why in [
            ("http://inner.example/", "private"),
            (web.url("/in"), "private"),
            (web.url("/", "bad.example"), "denied"),
            ("http://169.254.169.254/latest/", "link-local"),
            ("file:///etc/passwd", "https://"),
            ("http://example.org:22/", "port 22"),
        ]:
            with pytest.raises(InvalidArgumentError, match=why):
                await calling.call("fetch", url=url)
        with pytest.raises(InvalidArgumentError, match="/max_chars"):
            await calling.call("fetch", url=web.url(), max_chars=10**9)
        with pytest.raises(OutcomeUnknownError, match="more than 1 times"):
            await calling.call("fetch", url=web.url("/loop"))
        with pytest.raises(UnavailableError, match=r"no host nowhere\.example"):
            await calling.call("fetch", url="http://nowhere.example/")


async def test_only_narrows_deadlines_hold_and_a_changed_tool_is_not_called() -> None:
    async with fetching(only=["docs.example"]) as (web, calling):
        with pytest.raises(InvalidArgumentError, match="none of the hosts"):
            await calling.call("fetch", url=web.url())
    async with fetching() as (web, calling):
        late = calling.invocation("fetch", {"url": web.url()}, deadline=time.time() - 1)
        with pytest.raises(DeadlineExceededError):
            await calling.tools.call(late)
        before = calling.invocation("fetch", {"url": web.url()})
        [source] = calling.sources
        assert isinstance(source, FetchTools)
        await source.configure([ToolEntry(fetch=FetchEntry(description="another"))])
        with pytest.raises(ToolChangedError):
            await calling.tools.call(before)
        assert web.connections == 0


@pytest.mark.parametrize("field", ["only", "deny", "network"])
def test_a_wrong_list_is_refused_when_it_is_configured(field: str) -> None:
    source = FetchTools()
    with pytest.raises(InvalidArgumentError, match="fetch 'fetch'"):
        source.check([ToolEntry(fetch=msgspec.convert({field: ["http://x"]}, FetchEntry))])


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("text/html; charset=utf-8", "é".encode(), "é"),
        ("text/html; charset=ISO-8859-1", b"\xe9\x80", "é€"),
        ('text/plain; charset="koi8-r"', "да".encode("koi8-r"), "да"),
        (
            "text/html",
            b'<meta charset="shift_jis">' + "日本".encode("shift_jis"),
            '<meta charset="shift_jis">日本',
        ),
        ("text/plain", b"caf\xe9 au lait", "café au lait"),
        ("text/plain", "cut é".encode()[:-1], "cut \ufffd"),
        ("text/plain; charset=utf-8", b"\xff\xfea\0", "a"),
        ("text/plain; charset=nonsense", "é".encode(), "é"),
        ("text/plain; charset=zlib", b"x", "x"),
        ("application/json", '"é"'.encode(), '"é"'),
    ],
)
def test_characters_are_read_as_they_were_meant(kind: str, body: bytes, text: str) -> None:
    assert decoded({"content-type": kind}, body) == text


@given(st.binary(max_size=200), st.text(max_size=40))
def test_any_bytes_are_read_as_some_text(body: bytes, charset: str) -> None:
    assert isinstance(decoded({"content-type": f"text/html; charset={charset}"}, body), str)
    is_text("", body)


@given(
    st.lists(
        st.sampled_from(
            [
                "<",
                ">",
                "a",
                "/",
                "'",
                '"',
                "=",
                " ",
                "!",
                "-",
                "&",
                "#",
                "9",
                "x",
                ";",
                "title",
                "script",
                "pre",
                "svg",
                "li",
                "href",
                "http://",
                "[",
            ]
        ),
        max_size=60,
    )
)
def test_any_page_at_all_gives_some_text(parts: list[str]) -> None:
    page_text("".join(parts), "http://a.example/")


HOSTILE = [
    "<a ",
    "<!--",
    "</",
    "<![CDATA[",
    "<a b='",
    '<a b="',
    "&#",
    "&#9",
    "<script>",
    "<?x",
    "<div>",
    "<svg>",
    "<",
    "<a =",
    "<pre> ",
    "<a href='x'>y</a>",
    "<title>",
]


@pytest.mark.parametrize("part", HOSTILE)
def test_a_page_made_to_be_slow_is_read_like_any_other(part: str) -> None:
    """Where each part looked at all that follows it, this would take minutes."""
    page_text(part * (200_000 // len(part)), "http://a.example/")


def test_bounds_of_pages_are_reached() -> None:
    assert page_text("<br>" * (MAX_TOKENS + 1), "http://x/").cut
    assert len(page_text("<a href=x>y</a>" * (MAX_LINKS * 2), "http://x/").links) == MAX_LINKS
    numbers = page_text("&#" + "9" * 10_000 + ";&#x" + "f" * 10_000 + ";", "http://x/")
    assert len(numbers.text) < 10
