"""docs/front-ends.md, as printed, in a real browser: a page of one origin, the host of another."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from support.chromium import NEEDS_CHROMIUM, browsing
from support.command_line import EXAMPLES, CommandLine, environment
from support.loopback import NO_CERTIFICATES

pytestmark = [pytest.mark.gate("front-end-tokens", "cors"), pytest.mark.timeout(300)]
PAGE = Path(__file__).parents[2] / "docs" / "front-ends.md"
RIGHTS = ("events:write", "runs:read", "runs:write", "conversations:read")


def printed(language: str) -> str:
    """The block of the page in this language."""
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.asynccontextmanager
async def site(folder: Path, port: int, url: str, key: str, *, minutes: str = "15") -> AsyncIterator[None]:
    """The server of the page, as printed."""
    (folder / "page.html").write_text(printed("html"))
    (folder / "server.py").write_text(printed("python").replace('"minutes": 15', f'"minutes": {minutes}'))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "server.py",
        cwd=folder,
        env=environment(PORT=str(port), HOSTLER_URL=url, HOSTLER_KEY=key),
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with httpx.AsyncClient(verify=NO_CERTIFICATES, trust_env=False) as client:
            while True:
                with contextlib.suppress(httpx.TransportError):
                    assert (await client.get(f"http://localhost:{port}")).status_code == 200
                    break
                assert process.returncode is None
                await asyncio.sleep(0.05)
        yield
    finally:
        process.terminate()
        await process.wait()


def configured(hostler: CommandLine, port: int) -> Path:
    (hostler.cwd / "examples").symlink_to(EXAMPLES)
    config = hostler.cwd / "hostler.yaml"
    config.write_text(printed("yaml").replace("3000", str(port)))
    return config


def key_of(hostler: CommandLine, *rights: str) -> str:
    made = hostler("keys", "create", "front-end", *(f"--right={right}" for right in rights))
    assert made.status == 0, made.err
    return made.out.strip()


SAYS = """(() => { text.value = %r; form.requestSubmit(); })()"""
LOG = "[...document.querySelectorAll('#log p')].map((p) => p.textContent)"


@NEEDS_CHROMIUM
async def test_the_page_chats_from_another_origin(hostler: CommandLine, tmp_path: Path) -> None:
    port = free_port()
    config = configured(hostler, port)
    with hostler.serving("--config", config) as server:
        key = key_of(hostler, *RIGHTS)
        async with asyncio.timeout(240), site(hostler.cwd, port, server.url, key), browsing() as page:
            await page.open(f"http://localhost:{port}/")
            await page.evaluate(SAYS % "my name is Ada")
            await page.until(f"{LOG}.length >= 2 && {LOG}[1].includes('Ada')")
            await page.evaluate(SAYS % "who am I?")
            said = await page.until(f"{LOG}.length >= 4 && {LOG}[3].includes('Ada') && {LOG}")
            assert said[0] == "my name is Ada"
            conversation = await page.evaluate("access.conversation_id")
            history = hostler("runs", "list", "--json").json
            assert {run["conversation_id"] for run in history} == {conversation}
            assert len(history) == 2

            # an EventSource, which can send no header, from the same page
            stream = f"{server.url}/v1/runs/{history[0]['run_id']}/stream"
            script = f"""new Promise((done) => {{
                const source = new EventSource({stream!r} + "?access_token=" + access.token);
                source.addEventListener("run.completed", (event) => {{
                    source.close();
                    done(event.lastEventId);
                }});
            }})"""
            assert int(await page.evaluate(script)) > 0

            # a token that is over: the page gets another one, and goes on in its conversation
            await page.evaluate("access.expires_at = 0")
            await page.evaluate(SAYS % "who am I?")
            await page.until(f"{LOG}.length >= 6 && {LOG}[5].includes('Ada')")
            assert await page.evaluate("access.conversation_id") == conversation
            token = await page.evaluate("access.token")

            # a page of an origin that is not listed, with the very token
            await page.open(f"http://127.0.0.1:{port}/")
            for options in (
                f'{{headers: {{Authorization: "Bearer {token}"}}}}',
                '{credentials: "include"}',
                "{}",
            ):
                script = f"fetch({server.url!r} + '/v1/runs', {options}).then(() => 'read', (e) => e.name)"
                assert await page.evaluate(script) == "TypeError"
        assert token not in server.log


@NEEDS_CHROMIUM
async def test_a_page_goes_on_with_the_next_token_in_the_middle_of_an_answer(
    hostler: CommandLine, tmp_path: Path
) -> None:
    """Tokens of three seconds, and an answer that takes longer than that."""
    port = free_port()
    config = configured(hostler, port)
    (hostler.cwd / "slow").mkdir()
    slow = hostler.cwd / "slow" / "hostler.yaml"
    slow.write_text(
        "plugin: {author: hostler, name: guide, version: 0.1.0, label: {en: Slow}}\n"
        'runners:\n  - {name: default, entry: "slow:Slow", label: {en: Slow}}\n'
    )
    (hostler.cwd / "slow" / "slow.py").write_text(SLOW % {"flag": hostler.cwd / "go-on"})
    config.write_text(config.read_text().replace("[examples/guide]", "[{path: slow, level: trusted}]"))
    with hostler.serving("--config", config) as server:
        key = key_of(hostler, *RIGHTS)
        async with (
            asyncio.timeout(240),
            site(hostler.cwd, port, server.url, key, minutes="0.05"),
            browsing() as page,
        ):
            await page.open(f"http://localhost:{port}/")
            await page.evaluate(PATIENT)
            await page.evaluate(SAYS % "go")
            await page.until("shown && shown.textContent.length > 0")
            first = await page.evaluate("access.token")
            await page.until(f"access.token !== {first!r}")
            (hostler.cwd / "go-on").touch()
            said = await page.until(f"{LOG}.length === 2 && {LOG}[1].includes('the end') && {LOG}")
            assert said[1] == "the whole text, to the end"
            assert await page.evaluate("pieces.join('')") == "one two three "


PATIENT = """(() => {
    window.pieces = [];
    const before = show;
    show = (type, data) => {
        if (type === "message.delta") pieces.push(data.chunk.content);
        before(type, data);
    };
})()"""
SLOW = '''
import asyncio
from pathlib import Path

from hostler_sdk import Runner, delta, message


class Slow(Runner):
    """Says a part, and the rest once a file is there."""

    capabilities = {"streaming"}

    async def run(self, ctx):
        yield delta("one ")
        while not Path("%(flag)s").exists():
            await asyncio.sleep(0.05)
        yield delta("two ")
        yield delta("three ")
        yield message("the whole text, to the end")
'''
