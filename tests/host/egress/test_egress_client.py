"""Requests over real sockets: what is checked is what is connected to, at every hop, and within bounds."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import zlib
from pathlib import Path
from typing import Any

import httpx
import pytest

from hostler.egress import (
    Egress,
    EgressAnswerError,
    EgressError,
    EgressPolicy,
    EgressRefusedError,
    EgressTimeoutError,
    EgressUnreachableError,
    ExchangeLimits,
    Guard,
    GuardedTransport,
    SystemNetwork,
    client,
    httpx2_client,
)
from hostler.egress import network as resolving
from hostler.egress.decompression import Decoder
from hostler.egress.limits import MAX_ADDRESSES
from support.certificates import tls_for
from support.web import Asked, Names, Web, page, redirect

pytestmark = pytest.mark.gate("egress")

LOCAL = ["127.0.0.1"]


def local(*more: str, names: Names | None = None, **options: Any) -> Egress:
    """Local addresses are listed, as an operator would."""
    return Egress(EgressPolicy.of([*LOCAL, *more]), network=names, **options)


async def test_the_socket_goes_to_the_checked_address_and_the_name_stays() -> None:
    names = Names({"shop.example": ["127.0.0.1"]})
    async with Web() as web:
        web.pages["/x"] = page("hello", headers=["x-one: 1"])
        egress = local(names=names)
        got = await egress.request("GET", web.url("/x?a=1", "shop.example"), headers={"X-Mine": "m"})
        await egress.close()
    assert (got.status, got.body, got.headers["x-one"]) == (200, b"hello", "1")
    assert web.asked[0].headers["host"] == f"shop.example:{web.port}"
    assert web.asked[0].headers["x-mine"] == "m"
    assert names.asked == ["shop.example"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "shop.example"])
async def test_what_is_not_listed_is_not_connected_to(host: str) -> None:
    names = None if host == "localhost" else Names({"shop.example": ["127.0.0.1"]})
    async with Web() as web:
        egress = Egress(EgressPolicy(any_port=True), network=names)
        with pytest.raises(EgressRefusedError, match="loopback"):
            await egress.request("GET", web.url("/", host))
        await egress.close()
    assert web.connections == 0


@pytest.mark.parametrize(
    "answer",
    [["93.184.215.14", "127.0.0.1"], ["127.0.0.1", "93.184.215.14"], ["2606:4700::1111", "::1"]],
)
async def test_a_name_at_a_public_and_a_private_address_is_refused_whole(answer: list[str]) -> None:
    async with Web() as web:
        egress = Egress(EgressPolicy(any_port=True), network=Names({"two.example": answer}))
        with pytest.raises(EgressRefusedError):
            await egress.request("GET", web.url("/", "two.example"))
        await egress.close()
    assert web.connections == 0


async def test_a_name_that_changes_its_address_is_checked_and_used_by_the_same_look_up() -> None:
    """The second answer would be private: it is refused when it comes, and not used before."""
    async with Web() as web:
        web.pages["/"] = page("hello", headers=["connection: close"])
        names = Names({"turns.example": [["127.0.0.1"], ["10.0.0.1"]]})
        egress = local(names=names)
        assert (await egress.request("GET", web.url("/", "turns.example"))).status == 200
        assert names.asked == ["turns.example"]  # once: nothing else looked it up
        with pytest.raises(EgressRefusedError, match="private"):
            await egress.request("GET", web.url("/", "turns.example"))
        await egress.close()


async def test_addresses_of_a_name_are_tried_in_turn() -> None:
    async with Web() as web:
        web.pages["/"] = page("hello")
        egress = local("127.0.0.0/8", names=Names({"two.example": ["127.9.9.9", "127.0.0.1"]}))
        assert (await egress.request("GET", web.url("/", "two.example"))).body == b"hello"
        await egress.close()


@pytest.mark.parametrize(
    ("to", "why"),
    [
        ("http://10.0.0.1/", "private"),
        ("http://169.254.169.254/latest/meta-data/", "link-local"),
        ("http://[::1]/", "loopback"),
        ("http://inner.example/", "private"),
        ("http://0x7f.1/", "unusual"),
        ("//user@127.0.0.1/", "user name"),
        ("file:///etc/passwd", "https:// or http://"),
        ("http://[", "no address"),
    ],
)
async def test_a_redirect_is_checked_like_the_first_address(to: str, why: str) -> None:
    names = Names({"inner.example": ["192.168.1.1"]})
    async with Web() as web:
        web.pages["/"] = redirect(to)
        egress = local(names=names)
        with pytest.raises(EgressRefusedError, match=why):
            await egress.request("GET", web.url(), redirects="anywhere")
        await egress.close()


async def test_redirects_are_followed_counted_and_lose_what_is_secret_elsewhere() -> None:
    names = Names({"one.example": LOCAL, "two.example": LOCAL})
    async with Web() as web:
        web.pages["/a"] = redirect("/b")
        web.pages["/b"] = redirect(web.url("/c", "two.example"))
        web.pages["/c"] = page("there")
        web.pages["/loop"] = redirect("/loop")
        egress = local(names=names)
        got = await egress.request(
            "GET",
            web.url("/a", "one.example"),
            headers={"authorization": "secret", "x-key": "secret", "accept": "text/html"},
            redirects="anywhere",
        )
        assert (got.body, got.url) == (b"there", web.url("/c", "two.example"))
        with_secret = ["authorization" in asked.headers for asked in web.asked]
        assert with_secret == [True, True, False]
        assert "x-key" not in web.asked[2].headers
        assert web.asked[2].headers["accept"] == "text/html"

        web.asked.clear()
        with pytest.raises(EgressAnswerError, match="more than 5 times"):
            await egress.request("GET", web.url("/loop"), redirects="anywhere")
        assert len(web.asked) == 6

        stayed = await egress.request("GET", web.url("/b", "one.example"), redirects="same-origin")
        assert stayed.status == 302
        posted = await egress.request("POST", web.url("/a", "one.example"), redirects="anywhere")
        assert posted.status == 302
        never = await egress.request("GET", web.url("/a", "one.example"))
        assert never.status == 302
        await egress.close()


async def test_no_cookie_is_kept_and_no_proxy_of_the_machine_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    async with Web() as web:
        web.pages["/"] = page("hello", headers=["set-cookie: a=b; Path=/"])
        egress = local()
        await egress.request("GET", web.url())
        await egress.request("GET", web.url())
        await egress.close()
    assert ["cookie" in asked.headers for asked in web.asked] == [False, False]
    assert web.connections == 1


async def test_a_body_over_the_limit_is_cut_and_the_rest_not_read() -> None:
    async def endless(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()

    async with Web() as web:
        web.pages["/"] = endless
        egress = local()
        got = await egress.request("GET", web.url(), limits=ExchangeLimits(max_bytes=100_000))
        assert (len(got.body), got.truncated) == (100_000, True)
        await egress.close()


@pytest.mark.parametrize("coding", ["gzip", "deflate", "raw deflate"])
async def test_a_small_body_that_unpacks_to_a_huge_one_is_cut(coding: str) -> None:
    plain = b"\0" * (64 * 1024 * 1024)
    raw = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = {
        "gzip": lambda: gzip.compress(plain),
        "deflate": lambda: zlib.compress(plain, 9),
        "raw deflate": lambda: raw.compress(plain) + raw.flush(),
    }[coding]()
    async with Web() as web:
        web.pages["/"] = page(packed, headers=[f"content-encoding: {coding.rsplit(maxsplit=1)[-1]}"])
        egress = local()
        got = await egress.request("GET", web.url(), limits=ExchangeLimits(max_bytes=1_000_000))
        assert (len(got.body), got.truncated) == (1_000_000, True)
        await egress.close()


def test_no_piece_of_a_bomb_is_large() -> None:
    bomb = zlib.compress(b"\0" * 10_000_000, 9)
    assert max(len(piece) for piece in Decoder("deflate").feed(bomb)) <= 64 * 1024


@pytest.mark.parametrize(
    ("coding", "body", "why"),
    [
        ("br", b"x", "not asked for"),
        ("gzip, gzip", b"x", "not asked for"),
        ("gzip", b"no gzip", "not compressed"),
        ("gzip", gzip.compress(b"x" * 1000, mtime=0)[:-12], "in the middle"),
    ],
)
async def test_a_wrong_encoding_is_an_error(coding: str, body: bytes, why: str) -> None:
    async with Web() as web:
        web.pages["/"] = page(body, headers=[f"content-encoding: {coding}"])
        egress = local()
        with pytest.raises(EgressAnswerError, match=why):
            await egress.request("GET", web.url())
        await egress.close()


async def test_time_is_bounded_where_nothing_comes_and_where_bytes_drip() -> None:
    async def hang(_: Asked, __: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async def drip(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with Web() as web:
        web.pages |= {"/hang": hang, "/drip": drip, "/": page("hello")}
        egress = local()
        for path in ("/hang", "/drip"):
            await egress.request("GET", web.url())  # connected already: only the answer can be late
            with pytest.raises(EgressTimeoutError):
                await egress.request("GET", web.url(path), limits=ExchangeLimits(seconds=1.0))
        await egress.close()


async def test_what_is_no_answer_says_that_it_may_have_arrived() -> None:
    async def noise(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"no http at all\r\n\r\n")
        await writer.drain()

    async def die(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc")
        await writer.drain()

    async def heads(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 300_000)
        await writer.drain()

    async with Web() as web:
        web.pages |= {"/noise": noise, "/die": die, "/heads": heads}
        egress = local()
        for path in web.pages:
            with pytest.raises(EgressAnswerError) as error:
                await egress.request("GET", web.url(path))
            assert error.value.sent
        await egress.close()


async def test_what_never_connected_says_that_it_was_not_sent() -> None:
    async with Web() as web:
        port = web.port
    egress = local(names=Names({"empty.example": []}))
    for url in (f"http://127.0.0.1:{port}/", "http://nowhere.example/", "http://empty.example/"):
        with pytest.raises(EgressUnreachableError) as error:
            await egress.request("GET", url)
        assert not error.value.sent
    await egress.close()


async def test_tls_is_held_against_the_name_and_not_the_address(tmp_path: Path) -> None:
    server, trusting = tls_for("shop.example", tmp_path)
    sent: list[str] = []
    server.sni_callback = lambda _, name, __: sent.append(name)
    names = Names({"shop.example": LOCAL, "other.example": LOCAL})
    async with Web(tls=server) as web:
        web.pages["/"] = page("secure")
        egress = local(names=names, tls=trusting)
        got = await egress.request("GET", web.url("/", "shop.example"))
        assert got.body == b"secure"
        assert sent == ["shop.example"]
        for host in ("other.example", "127.0.0.1"):
            with pytest.raises(EgressUnreachableError):
                await egress.request("GET", web.url("/", host))
        strangers = local(names=names, tls=ssl.create_default_context())
        with pytest.raises(EgressUnreachableError):
            await strangers.request("GET", web.url("/", "shop.example"))
        await egress.close()
        await strangers.close()
    assert [asked.path for asked in web.asked] == ["/"]


async def test_a_redirect_from_https_to_http_is_not_followed(tmp_path: Path) -> None:
    server, trusting = tls_for("shop.example", tmp_path)
    async with Web(tls=server) as web, Web() as plain:
        web.pages["/"] = redirect(plain.url())
        egress = local(names=Names({"shop.example": LOCAL}), tls=trusting)
        got = await egress.request("GET", web.url("/", "shop.example"), redirects="anywhere")
        await egress.close()
    assert (got.status, plain.connections) == (302, 0)


async def test_a_compressed_body_that_goes_on_without_a_byte_is_given_up() -> None:
    async def nothing(_: Asked, writer: asyncio.StreamWriter) -> None:
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        body = packer.compress(b"x") + packer.flush(zlib.Z_SYNC_FLUSH)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + body)
        while True:
            writer.write(b"\0\0\0\xff\xff" * 10_000)  # empty blocks
            await writer.drain()

    async def scenario(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(client, "MAX_PIECES_WITHOUT_OUTPUT", 5)
        async with Web() as web:
            web.pages["/"] = nothing
            egress = local()
            with pytest.raises(EgressAnswerError, match="without saying anything"):
                await egress.request("GET", web.url())
            await egress.close()

    with pytest.MonkeyPatch.context() as patch:
        await scenario(patch)


async def test_a_look_up_has_its_time_and_an_answer_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(SystemNetwork):
        async def resolve(self, host: str, port: int) -> list[Any]:
            await asyncio.Event().wait()
            return []

    monkeypatch.setattr(resolving, "RESOLVE_SECONDS", 0.01)
    slow = Egress(EgressPolicy(), network=Slow())
    with pytest.raises(EgressUnreachableError, match="in time"):
        await slow.request("GET", "http://slow.example/")
    await slow.close()

    monkeypatch.undo()
    names = Names({"many.example": [f"9.9.9.{n}" for n in range(100)]})
    guard = Guard(EgressPolicy(), names)
    found = await guard.addresses(guard.check_url("http://many.example/"))
    assert len(found) == MAX_ADDRESSES


async def test_what_is_under_way_is_finished_before_all_is_closed() -> None:
    arrived, go_on, left = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def wait(_: Asked, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await go_on.wait()
        writer.write(page("done"))
        await writer.drain()

    async def listen(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        arrived.set()
        try:
            while True:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.01)
        except OSError:
            left.set()

    async with Web() as web:
        web.pages |= {"/wait": wait, "/listen": listen}
        egress = local()
        task = asyncio.create_task(egress.request("GET", web.url("/wait")))
        await arrived.wait()
        await egress.close()
        go_on.set()
        assert (await task).body == b"done"

        arrived.clear()
        task = asyncio.create_task(egress.request("GET", web.url("/listen")))
        await arrived.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        await left.wait()  # who leaves takes the connection along


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
async def test_the_guard_fits_under_another_client(library: str) -> None:
    """Whoever follows redirects, and however: the guard sees each request and each connection."""
    names = Names({"shop.example": LOCAL, "inner.example": ["10.0.0.1"]})
    guard = Guard(EgressPolicy.of(LOCAL), names)
    made: Any
    if library == "httpx":
        made = httpx.AsyncClient(
            transport=GuardedTransport(guard),  # type: ignore[arg-type]
            trust_env=False,
            follow_redirects=True,
        )
        refused: Any = httpx.ConnectError
    else:
        httpx2 = pytest.importorskip("httpx2")
        made = httpx2_client(guard, follow_redirects=True)
        refused = httpx2.ConnectError
    async with Web() as web, made:
        web.pages["/"] = page("hello")
        web.pages["/in"] = redirect("http://inner.example/")
        web.pages["/meta"] = redirect("http://169.254.169.254/")
        assert (await made.get(web.url("/", "shop.example"))).text == "hello"
        for path in ("/in", "/meta"):
            with pytest.raises(refused, match="not public") as error:
                await made.get(web.url(path))
            assert isinstance(error.value.__cause__, EgressError)
        with pytest.raises(refused, match="loopback"):
            await made.get("http://127.0.0.2/")
