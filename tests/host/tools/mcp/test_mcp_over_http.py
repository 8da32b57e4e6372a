"""MCP servers over HTTP: sessions, redirects, headers, and addresses that are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.tools.errors import OutcomeUnknownError, ToolFailedError
from hostler.tools.mcp.limits import McpLimits
from hostler_protocol.errors import (
    InvalidArgumentError,
    UnavailableError,
)
from support.mcp_bench import (
    WORKSPACE,
    Bench,
    Pins,
    answer_all,
    benched,
    http_server,
    on_loop,
    over_http,
)

pytestmark = [pytest.mark.gate("mcp-servers"), pytest.mark.timeout(300)]
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    folder = tmp_path_factory.mktemp("mcp") / "server"
    with http_server(folder) as url:
        yield folder, url


@pytest.fixture
def web(served: tuple[Path, str]) -> Iterator[tuple[Path, str]]:
    yield served
    for told in ("answer", "description", "endless", "more"):
        (served[0] / told).unlink(missing_ok=True)


async def down(bench: Bench) -> str:
    """Why the server cannot be connected to."""
    await bench.until(lambda: bench.state[1])
    return bench.state[1]


@on_loop
async def test_a_list_without_an_end_and_tools_that_come_later(web: tuple[Path, str], tmp_path: Path) -> None:
    (folder, url), pins = web, Pins()
    (folder / "more").write_text("first")
    async with benched(over_http(url), folder, tmp_path, pins=pins) as bench:
        assert bench.offered("first").problem is None
    (folder / "more").write_text("later slash/ed")
    (folder / "description").write_text("Another.")
    async with benched(over_http(url), folder, tmp_path, pins=pins) as bench:
        problems = {name: bench.offered(name).problem or "" for name in ("first", "later", "say", "wait")}
        assert problems["first"] == "its server does not list it any more"
        assert problems["later"].startswith("its server did not have it at first")
        assert problems["say"].startswith("its server changed what it says of it")  # also after a restart
        assert problems["wait"] == ""
        (warning,) = bench.tools.servers(WORKSPACE)[0].warnings
        assert "'slash/ed' is no name that it may have" in warning
        waiting = bench.tools.waiting(WORKSPACE, "s.later")
        assert waiting is not None
        assert waiting.approved is None
    (folder / "endless").touch()
    before = bench.journal.count("list")
    async with benched(over_http(url), folder, tmp_path) as bench:
        assert len(bench.tools.offered(WORKSPACE)) == 256
        assert bench.journal.count("list") - before < 110


@on_loop
async def test_private_addresses_are_refused_also_where_a_server_redirects_to_them(
    web: tuple[Path, str], tmp_path: Path
) -> None:
    folder, url = web
    async with benched(over_http(url, network=[]), folder, tmp_path, ready=False) as bench:
        assert "not public (loopback)" in await down(bench)
    answer_all(folder, 307, {"location": "http://169.254.169.254/latest/meta-data"})
    async with benched(over_http(url), folder, tmp_path, ready=False) as bench:
        assert "Redirect to http://169.254.169.254/latest/meta-data not followed" in await down(bench)
        with pytest.raises(UnavailableError, match=r"mcp server s is down: .*not followed"):
            await bench.tools._servers["s"].connection()
    assert not [line for line in bench.journal if line.startswith("call")]


@on_loop
async def test_a_redirect_in_the_middle_reaches_nothing(web: tuple[Path, str], tmp_path: Path) -> None:
    folder, url = web
    async with benched(over_http(url), folder, tmp_path) as bench:
        answer_all(folder, 307, {"location": url.replace("127.0.0.1", "127.0.0.2")})
        with pytest.raises(ToolFailedError, match=r"Redirect to http://127.0.0.2:\d+/mcp not followed"):
            await bench.call("say", text="hello")


@pytest.mark.parametrize(
    ("status", "headers", "body", "error", "told"),
    [
        (401, {}, "", UnavailableError, "was not called: it answered 401 Unauthorized"),
        (403, JSON, '{"error": "no"}', UnavailableError, "403 Forbidden"),
        (500, {}, "", OutcomeUnknownError, "it may have done its work: it answered 500"),
        (
            200,
            {"content-type": "application/json", "content-encoding": "gzip"},
            "x",
            OutcomeUnknownError,
            "compressed",
        ),
        (200, JSON, "{", OutcomeUnknownError, "Failed to parse JSON"),
        (200, {"content-type": "text/html"}, "<p>", ToolFailedError, "Unexpected content type: text/html"),
        (202, {}, "", ToolFailedError, "202 Accepted"),
    ],
)
@on_loop
async def test_what_an_answer_says_of_the_call(
    web: tuple[Path, str],
    tmp_path: Path,
    status: int,
    headers: dict[str, str],
    body: str,
    error: type[Exception],
    told: str,
) -> None:
    folder, url = web
    async with benched(over_http(url), folder, tmp_path, limits=McpLimits(probe_seconds=0.5)) as bench:
        answer_all(folder, status, headers, body)
        with pytest.raises(error, match=told):
            await bench.call("say", text="hello")


@pytest.mark.gate("service-secrets")
@on_loop
async def test_a_token_and_headers_are_sent_and_nothing_of_the_machine(
    web: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, url = web
    monkeypatch.setenv("WEB_TOKEN", "s3cret")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    entry = over_http(url, token="env:WEB_TOKEN", headers={"X-Tenant": "acme"})
    async with benched(entry, folder, tmp_path) as bench:
        headers = json.loads(await bench.text("around"))["headers"]
        assert headers["authorization"] == "Bearer s3cret"
        assert headers["x-tenant"] == "acme"
        assert headers["accept-encoding"] == "identity"


@on_loop
async def test_a_server_that_forgot_the_session_is_connected_to_again(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    with http_server(folder, "--old") as url:
        async with benched(over_http(url), folder, tmp_path / "data") as bench:
            answer_all(folder, 404, {})
            with pytest.raises(UnavailableError, match="was not called: it has forgotten the session"):
                await bench.call("say", text="hello")
            (folder / "answer").unlink()
            await bench.until(lambda: bench.tools.servers(WORKSPACE)[0].restarts)
            await bench.until_ready()
            assert await bench.text("say", text="again") == "said again"


@on_loop
async def test_a_name_is_looked_up_and_held_against_the_rules(tmp_path: Path) -> None:
    entry = over_http("http://localhost:9/mcp", network=[])
    async with benched(entry, tmp_path, tmp_path, ready=False) as bench:
        assert "not public (loopback)" in await down(bench)


@on_loop
async def test_an_address_list_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    entry = over_http("http://localhost:9/mcp", network=["10.0.0.0/99"])
    with pytest.raises(InvalidArgumentError, match=r"tools: mcp 's': network: '10.0.0.0/99' is neither"):
        async with benched(entry, tmp_path, tmp_path, ready=False):
            pass
