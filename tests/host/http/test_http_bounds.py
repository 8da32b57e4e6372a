"""What a stranger can send: too much, too slowly, too often, or no HTTP at all."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from hostler.http import auth
from hostler.http.app import ENDPOINTS
from hostler.http.connection import BoundedConnection
from hostler.http.endpoint import Router
from hostler.http.limits import FAILED_AUTH_BURST, MAX_BODY_BYTES
from support.http_host import ADMIN_KEY, Served, serving

pytestmark = pytest.mark.gate("http-authentication", "http-bounds", "fuzzed-http")

AUTHORIZATION = f"authorization: Bearer {ADMIN_KEY}"


async def speak(served: Served, *said: bytes) -> bytes:
    """Send bytes on a connection of one's own; all that comes back until it is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    try:
        for piece in said:
            writer.write(piece)
            await writer.drain()
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def problem_in(answer: bytes) -> dict[str, Any]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head, answer
    found: dict[str, Any] = json.loads(body)
    return found


async def test_a_body_over_its_limit_is_refused_stated_or_not(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        big = b'{"x":"' + b"y" * MAX_BODY_BYTES + b'"}'

        async def unstated() -> Any:
            for start in range(0, len(big), 65536):
                yield big[start : start + 65536]

        for content in (big, unstated()):
            answer = await served.client.post("/v1/events", content=content)
            assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
            assert f"{MAX_BODY_BYTES:,}" in answer.json()["detail"]
        text = "x" * (1024 * 1024 + 1)
        answer = await served.client.post(
            "/v1/events", json={"event_type": "message.received", "input": {"text": text}}
        )
        assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
        headers = {f"x-{number}": "y" * 1000 for number in range(20)}
        answer = await served.client.get("/v1/agents", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (431, "payload_too_large")
        assert (await served.client.get("/healthz")).status_code == 200

    await _with(tmp_path, scenario)


@pytest.mark.gate("request-length")
@pytest.mark.parametrize(
    "said",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"y" * 40_000,
        b"GET /\xff HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n",
    ],
    ids=[
        "nonsense",
        "tls",
        "large headers",
        "bytes in the path",
        "no host",
        "two lengths",
        "a length and chunks",
        "chunks and a length",
    ],
)
async def test_what_is_no_http_gets_a_problem_and_the_end(tmp_path: Path, said: bytes) -> None:
    async def scenario(served: Served) -> None:
        answer = await speak(served, said)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert problem_in(answer)["code"] == "invalid_argument"
        assert (await served.client.get("/healthz")).status_code == 200

    await _with(tmp_path, scenario)


async def test_headers_that_do_not_come_end_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(served: Served) -> None:
        for said in (b"", b"GET / HT"):
            answer = await speak(served, said)
            assert answer.startswith(b"HTTP/1.1 408 Request Timeout")
            assert problem_in(answer)["code"] == "deadline_exceeded"
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")
        await reader.readuntil(b"}")  # a whole answer first
        writer.write(b"GET / HTT")
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
        writer.close()

    monkeypatch.setattr(BoundedConnection, "header_seconds", 0.2)
    await _with(tmp_path, scenario)


async def test_a_body_that_does_not_come_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(served: Served) -> None:
        head = f"POST /v1/events HTTP/1.1\r\nhost: a\r\n{AUTHORIZATION}\r\ncontent-length: 10\r\n\r\n{{"
        answer = await speak(served, head.encode())
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"connection: close" in answer
        assert problem_in(answer)["code"] == "deadline_exceeded"

    monkeypatch.setattr("hostler.http.request.BODY_IDLE_SECONDS", 0.2)
    monkeypatch.setattr("hostler.http.middleware.DRAIN_SECONDS", 0.1)
    await _with(tmp_path, scenario)


async def test_too_many_connections_are_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(served: Served) -> None:
        monkeypatch.setattr(BoundedConnection, "max_connections", 3)
        open_ones = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(3)]
        answer = await speak(served)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert problem_in(answer)["retryable"] is True
        for _, writer in open_ones:
            writer.close()

    await _with(tmp_path, scenario)


async def test_a_key_that_asks_too_often_has_to_wait(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        answers = [await served.client.get("/v1/agents") for _ in range(8)]
        codes = [answer.status_code for answer in answers]
        assert codes[:5] == [200] * 5
        refused = [answer for answer in answers if answer.status_code == 429]
        assert refused
        assert refused[0].json()["code"] == "rate_limited"
        assert refused[0].json()["details"]["retry_after"] > 0
        assert int(refused[0].headers["retry-after"]) >= 1
        async with served.as_key(await served.key()) as other:
            assert (await other.get("/v1/agents")).status_code == 200

    await _with(tmp_path, scenario, requests_per_second=0.001 * 5000)


async def test_an_address_that_guesses_keys_has_to_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "KEY_CACHE_SECONDS", 600.0)  # however long the guesses take
    monkeypatch.setattr(auth, "FAILED_AUTH_PER_SECOND", 0.001)

    async def scenario(served: Served) -> None:
        known = await served.key()
        async with served.as_key(known) as right, served.as_key("wrong") as wrong:
            assert (await right.get("/v1/agents")).status_code == 200
            codes = [(await wrong.get("/v1/agents")).status_code for _ in range(int(FAILED_AUTH_BURST) + 1)]
            assert codes == [401] * int(FAILED_AUTH_BURST) + [429]
            assert (await right.get("/v1/agents")).status_code == 200
            assert (await served.client.get("/v1/agents")).status_code == 200

    await _with(tmp_path, scenario)


async def test_methods_heads_and_options(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        wrong = await served.client.put("/v1/runs", json={})
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
        assert wrong.json()["code"] == "invalid_argument"
        async with served.as_key(None) as client:
            options = await client.options("/v1/agents/x")
            assert (options.status_code, options.content) == (204, b"")
            assert options.headers["allow"] == "DELETE, GET, HEAD, OPTIONS, PUT"
            cors = await client.options(
                "/v1/agents",
                headers={"origin": "https://evil.example", "access-control-request-method": "GET"},
            )
            assert not [name for name in cors.headers if name.startswith("access-control")]
        whole = await served.client.get("/v1/agents")
        head = await served.client.head("/v1/agents")
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == whole.headers["content-length"]
        missing = await served.client.head("/v1/runs/none")
        assert (missing.status_code, missing.content) == (404, b"")
        for path in ("/v1", "/v1/runs/", "/v1//runs", "/V1/runs", "/v1/agents//versions"):
            answer = await served.client.get(path)
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), path
        kinds = await served.client.post("/v1/events", content=b"a=b", headers={"content-type": "text/plain"})
        assert (kinds.status_code, kinds.json()["code"]) == (415, "invalid_argument")

    await _with(tmp_path, scenario)


async def test_an_error_inside_shows_nothing_of_the_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(served: Served) -> None:
        def broken(*_: Any, **__: Any) -> None:
            raise ZeroDivisionError("the secret inside")

        monkeypatch.setattr("hostler.storage.stores.agents.page", broken)
        answer = await served.client.get("/v1/agents")
        assert (answer.status_code, answer.json()["code"]) == (500, "runtime_error")
        assert "secret" not in answer.text
        assert "the secret inside" in caplog.text

    await _with(tmp_path, scenario)


def test_paths_are_matched_as_they_came() -> None:
    router = Router(ENDPOINTS)

    def names(path: str) -> tuple[str, dict[str, str]] | None:
        found = router.find(path)
        return None if found is None else (found[0]["GET"].path, found[1])

    assert names("/v1/conversations/a%2Fb/history") == (
        "/v1/conversations/{conversation_id}/history",
        {"conversation_id": "a%2Fb"},
    )
    assert names("/v1/plugins/connect") == ("/v1/plugins/connect", {})
    assert names("/v1/plugins/connec") == ("/v1/plugins/{plugin}", {"plugin": "connec"})
    assert names("/v1/plugins/connect/logs") == ("/v1/plugins/{plugin}/logs", {"plugin": "connect"})
    for path in ("", "/", "v1/runs", "/v1/runs/", "/v1/runs//stream", "/v1/runs/a/b/c"):
        assert names(path) is None


async def _with(tmp_path: Path, scenario: Any, **settings: Any) -> None:
    async with serving(tmp_path, **settings) as served:
        await scenario(served)
