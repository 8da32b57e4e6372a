"""Pages of other origins: what browsers are told, on every path, and what a stranger's page is told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from hostler.domain.cors import CorsEntry, origin_mistake
from hostler.http import limits
from hostler.http.app import ENDPOINTS
from hostler.http.cors import EXPOSED_HEADERS, Cors
from hostler.http.narrow import SUBPROTOCOL, socket_token
from hostler.http.problems import UnauthenticatedError
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import tokens
from support.front_ends import ORIGIN, front_end, make_token
from support.http_host import Served, read_events, serving
from support.identity_provider import SECRET
from support.route_walk import path_of
from support.sign_in_desk import desk

pytestmark = pytest.mark.gate("cors")

EVIL = "https://evil.example"
PREFLIGHT = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,x-a"}
DIALECTS = (
    "/v1/chat/completions",
    "/v1/responses",
    "/ag-ui/puppet",
    "/ai-sdk/puppet",
    "/mcp",
    "/a2a/puppet",
    "/langgraph/threads",
    "/no/such/path",
)


@asynccontextmanager
async def allowing(tmp_path: Path, **entry: Any) -> AsyncIterator[Served]:
    async with serving(tmp_path) as served:
        answer = await served.client.put("/v1/config/cors/policy", json={"origins": [ORIGIN], **entry})
        assert answer.status_code == 200, answer.text
        yield served


def access(answer: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith("access-control-")}


async def test_a_listed_origin_may_call_every_path_and_no_other_may(tmp_path: Path) -> None:
    async with allowing(tmp_path) as served, served.as_key(None) as client:
        for path in (*{path_of(one) for one in ENDPOINTS}, *DIALECTS):
            answer = await client.options(path, headers={"origin": ORIGIN, **PREFLIGHT})
            assert answer.status_code == 204, (path, answer.text)
            assert access(answer) == {
                "access-control-allow-origin": ORIGIN,
                "access-control-allow-methods": "DELETE, GET, HEAD, PATCH, POST, PUT",
                "access-control-allow-headers": "authorization, x-a",
                "access-control-max-age": "600",
                "access-control-expose-headers": ", ".join(EXPOSED_HEADERS),
            }
            assert "Origin" in answer.headers["vary"]
            for foreign in (
                EVIL,
                "null",
                f"{ORIGIN}.evil.example",
                ORIGIN.upper(),
                "http://app.example.com",
                "*",
            ):
                refused = await client.options(path, headers={"origin": foreign, **PREFLIGHT})
                assert (refused.status_code, access(refused)) == (403, {}), (path, foreign)
        assert "cors.origins" in refused.json()["detail"]


async def test_answers_and_errors_can_be_read_from_a_listed_origin_alone(tmp_path: Path) -> None:
    async with allowing(tmp_path) as served, front_end(served) as page:
        made = await page.send("say 0", wait=None)
        assert "access-control-allow-origin" not in made.headers
        assert made.headers["vary"] == "Origin"
        run = made.json()["run"]["run_id"]
        body = {"event_type": "message.received", "input": {"text": "say 0"}}
        async with served.as_key(None) as nobody:
            for origin, told in ((ORIGIN, ORIGIN), (EVIL, None), ("null", None)):
                headers = {"origin": origin}
                answers = [
                    await page.client.get(f"/v1/runs/{run}", headers=headers),
                    await page.client.get("/v1/runs/none", headers=headers),
                    await page.client.post("/v1/events", json={}, headers=headers),
                    await page.client.post("/v1/events", json=body, headers=headers),
                    await page.client.put("/v1/runs", headers=headers),
                    await page.client.get("/no/such", headers=headers),
                    await page.client.post("/mcp", headers=headers),
                    await nobody.get("/v1/runs", headers=headers),
                    await nobody.get("/healthz", headers=headers),
                    await page.client.get(f"/v1/runs/{run}/stream", headers=headers),
                ]
                statuses = [answer.status_code for answer in answers]
                assert {200, 202, 400, 401, 404, 405} <= set(statuses), statuses
                for answer in answers:
                    assert answer.headers.get("access-control-allow-origin") == told
                    assert "access-control-allow-credentials" not in answer.headers
                    assert answer.headers["vary"] == "Origin"
        exposed = {name.lower() for name in EXPOSED_HEADERS}
        assert {"location", "retry-after"} <= exposed
        assert answers[3].headers["location"].startswith("/v1/runs/")


async def test_every_origin_is_allowed_without_credentials(tmp_path: Path) -> None:
    async with allowing(tmp_path, origins=["*"]) as served, served.as_key(None) as client:
        for origin in (EVIL, "null", ORIGIN):
            answer = await client.options("/v1/events", headers={"origin": origin, **PREFLIGHT})
            assert access(answer)["access-control-allow-origin"] == "*"
            assert "access-control-allow-credentials" not in answer.headers


async def test_the_entry_is_changed_while_the_host_runs(tmp_path: Path) -> None:
    async with allowing(tmp_path) as served, served.as_key(None) as client:
        ask = {"origin": EVIL, **PREFLIGHT}
        assert (await client.options("/v1/events", headers=ask)).status_code == 403
        entry = {"origins": [EVIL], "max_age": 5, "private_network": True}
        assert (await served.client.put("/v1/config/cors/policy", json=entry)).status_code == 200
        assert (await served.client.get("/v1/config/cors/policy")).json()["entry"] == entry
        answer = await client.options("/v1/events", headers=ask)
        assert access(answer)["access-control-max-age"] == "5"
        assert "access-control-allow-private-network" not in answer.headers
        private = {**ask, "access-control-request-private-network": "true"}
        answer = await client.options("/v1/events", headers=private)
        assert access(answer)["access-control-allow-private-network"] == "true"
        wrong = await served.client.put("/v1/config/cors/policy", json={"origins": ["a.example", "null"]})
        assert wrong.status_code == 400
        fields = [one["field"] for one in wrong.json()["details"]["errors"]]
        assert fields == ["origins[0]", "origins[1]"]
        assert (await served.client.delete("/v1/config/cors/policy")).status_code == 200
        assert (await client.options("/v1/events", headers=ask)).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"access-control-request-method": "TRACE"},
        {"access-control-request-method": "GET\tX"},
        {"access-control-request-method": "POST", "access-control-request-headers": "a b"},
        {"access-control-request-method": "POST", "access-control-request-headers": "x: y"},
        {"access-control-request-method": "POST", "access-control-request-headers": "é"},
        {
            "access-control-request-method": "POST",
            "access-control-request-headers": ",".join(map(str, range(65))),
        },
        {"access-control-request-method": "POST", "access-control-request-headers": "a" * 101},
    ],
)
async def test_a_preflight_that_no_browser_sends_is_not_echoed(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    async with allowing(tmp_path) as served, served.as_key(None) as client:
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        answer = await client.request("OPTIONS", "/v1/events", headers=[(b"origin", ORIGIN.encode()), *raw])
        assert answer.status_code == 400, answer.text
        assert "access-control-allow-headers" not in answer.headers


async def test_two_origins_in_one_request_are_none(tmp_path: Path) -> None:
    async with allowing(tmp_path) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        head = f"host: a\r\norigin: {ORIGIN}\r\norigin: {EVIL}\r\nconnection: close"
        writer.write(f"GET /healthz HTTP/1.1\r\n{head}\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        assert b" 200 " in answer.partition(b"\r\n")[0]
        assert b"access-control" not in answer


async def test_a_token_brings_its_origins_and_is_good_for_no_other(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.as_key(None) as client:
        ask = {"origin": ORIGIN, **PREFLIGHT}
        assert (await client.options("/v1/events", headers=ask)).status_code == 403
        async with front_end(served, origins=[ORIGIN]) as page:
            assert page.made["origins"] == [ORIGIN]
            assert (await client.options("/v1/events", headers=ask)).status_code == 204
            answer = await page.client.get("/v1/runs", headers={"origin": ORIGIN})
            assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, ORIGIN)
            foreign = await page.client.get("/v1/runs", headers={"origin": EVIL})
            assert foreign.status_code == 403
            assert ORIGIN in foreign.json()["detail"]
            assert "access-control-allow-origin" not in foreign.headers
            assert (await page.client.get("/v1/runs")).status_code == 200  # a program says no origin, or any


async def test_origins_of_tokens_are_forgotten_with_the_last_of_them(database: SqlDatabase) -> None:
    class Clock:
        now = 1000.0

        def __call__(self) -> float:
            return self.now

    clock, entry = Clock(), CorsEntry()
    cors, elsewhere = [Cors(database, lambda: entry, clock=clock) for _ in range(2)]
    assert await cors.allowed(ORIGIN, "a") is None

    def make(milliseconds: int) -> Any:
        return database.write(
            lambda tx: tokens.create(
                tx,
                "w",
                made_by="k",
                agent="a",
                conversation_id="c",
                milliseconds=milliseconds,
                rights=["runs:read"],
                origins=[ORIGIN],
            )
        )

    await make(60_000)
    assert await cors.allowed(ORIGIN, "a") is None  # it is remembered for a second that none does
    cors.learn((ORIGIN,))
    assert await cors.allowed(ORIGIN, "a") == ORIGIN
    assert await elsewhere.allowed(ORIGIN, "a") == ORIGIN
    await make(1)  # it does not shorten the other
    clock.now += 60
    assert await cors.allowed(ORIGIN, "a") == ORIGIN


async def test_strangers_ask_the_database_about_few_origins(database: SqlDatabase) -> None:
    entry, asked = CorsEntry(), 0
    cors = Cors(database, lambda: entry, clock=lambda: 0.0)
    found = tokens.knows_origin

    def counting(tx: Any, origin: str) -> bool:
        nonlocal asked
        asked += 1
        return found(tx, origin)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hostler.http.cors.tokens.knows_origin", counting)
        for number in range(3_000):
            assert await cors.allowed(f"https://s{number}.example", "10.0.0.1") is None
        assert asked == limits.ORIGIN_LOOKUP_BURST
        for text in ("null", "no origin", "https://a.example/x", "https://a\r\nx: y", "https://" + "a" * 400):
            assert await cors.allowed(text, "10.0.0.2") is None
        assert asked == limits.ORIGIN_LOOKUP_BURST
        for number in range(3_000):
            await cors.allowed(f"https://s{number}.example", f"10.1.{number // 256}.{number % 256}")
        assert len(cors._known) == limits.MAX_CACHED_ORIGINS


async def test_a_session_counts_from_no_other_origin_whatever_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSTLER_TEST_CLIENT_SECRET", SECRET)
    async with asyncio.timeout(100), desk(tmp_path) as made:
        entry = {"origins": [ORIGIN]}
        assert (await made.served.client.put("/v1/config/cors/policy", json=entry)).status_code == 200
        browser = await made.signed_in()
        assert (await browser.request("GET", "/v1/runs")).status_code == 200
        own = await browser.request("GET", "/v1/runs", headers={"origin": made.entry.origin})
        assert own.status_code == 200
        for path in ("/v1/runs", "/v1/auth/session", "/v1/auth/sessions"):
            for origin in (ORIGIN, EVIL, "null"):
                answer = await browser.request("GET", path, headers={"origin": origin})
                assert (answer.status_code, "items" in answer.json()) == (403, False), (path, origin)


@pytest.mark.parametrize(
    ("origin", "is_one"),
    [
        ("https://a.example", True),
        ("http://localhost:3000", True),
        ("http://[::1]:3000", True),
        ("capacitor://localhost", True),
        ("https://xn--bcher-kva.example", True),
        ("https://bücher.example", False),
        ("https://user@a.example", False),
        ("https://a.example:0", False),
        ("http://a.example:80", False),
        ("https://a.example\n", False),
        ("", False),
    ],
)
def test_what_an_origin_is(origin: str, is_one: bool) -> None:
    assert (origin_mistake(origin) is None) is is_one


async def test_an_event_source_sends_its_token_in_the_address_and_nothing_keeps_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(tmp_path) as served, front_end(served) as page, served.as_key(None) as client:
        run = (await page.send("say 3")).json()["run_id"]
        path, token = f"/v1/runs/{run}/stream", page.made["token"]
        async with client.stream("GET", path, params={"access_token": token, "last_event_id": "1"}) as answer:
            events = await read_events(answer)
        assert (events[0].id, events[-1].type) == (2, "run.completed")
        for query, status in (
            ({"access_token": "hostler_fe_" + "x" * 43}, 401),
            ({"access_token": ""}, 401),
            ({"access_token": await served.key()}, 401),
            ({"access_token": [token, token]}, 401),
            ({"access_token": token, "no_such": "1"}, 400),
        ):
            refused = await client.get(path, params=query)
            assert refused.status_code == status, refused.text
            assert token not in refused.text
        for other in (f"/v1/runs/{run}", "/v1/runs", f"/v1/conversations/{page.conversation}/history"):
            assert (await client.get(other, params={"access_token": token})).status_code == 401
        body = {"event_type": "message.received", "input": {"text": "say 0"}}
        assert (await client.post("/v1/events", json=body, params={"access_token": token})).status_code == 401
        neighbour = await make_token(served)
        foreign = await client.get(path, params={"access_token": neighbour["token"]})
        assert foreign.status_code == 404
        told = [(await served.client.get(one)).text for one in ("/metrics", "/v1/audit", "/v1/events")]
        clients = ("httpx", "httpcore")
        told += [one.getMessage() for one in caplog.records if not one.name.startswith(clients)]
        assert not [text for text in told if token in text]
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert token.encode() not in file.read_bytes(), file


def test_a_web_socket_of_a_browser_offers_its_token() -> None:
    token = "hostler_fe_" + "x" * 43
    assert socket_token({}) is None
    assert socket_token({"sec-websocket-protocol": "chat"}) is None
    good = {"sec-websocket-protocol": f"{SUBPROTOCOL}, hostler.token.{token}"}
    assert socket_token(good) == token
    for wrong in (
        f"hostler.token.{token}",
        f"{SUBPROTOCOL}, hostler.token.{token}, hostler.token.{token}",
        f"{SUBPROTOCOL}, hostler.token.hostler_{'x' * 43}",
    ):
        with pytest.raises(UnauthenticatedError):
            socket_token({"sec-websocket-protocol": wrong})
