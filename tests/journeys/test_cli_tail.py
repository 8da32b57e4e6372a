"""`hostler runs tail --conversation` and `--all`: many runs in one order, over a restart of the server."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

import pytest

from support.command_line import BOUND_SECONDS, ECHO, CommandLine

pytestmark = pytest.mark.timeout(BOUND_SECONDS * 2)


def lines_until(process: subprocess.Popen[str], wanted: str) -> list[str]:
    """The lines of a command up to the one with a text."""
    assert process.stdout is not None
    found: list[str] = []
    for line in process.stdout:
        found.append(line.rstrip("\n"))
        if wanted in line:
            return found
    raise AssertionError(f"it ended after {found}")


def stopped(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=BOUND_SECONDS)
    assert "Traceback" not in err, err
    return err


def said(client: Any, text: str, conversation: str) -> str:
    event = {
        "event_type": "message.received",
        "agent": "echo",
        "conversation_id": conversation,
        "input": {"text": text},
    }
    answer = client.post("/v1/events?wait=60", json=event)
    assert answer.status_code == 200, answer.text
    run_id: str = answer.json()["run_id"]
    return run_id


def configured(hostler: CommandLine) -> str:
    (hostler.cwd / "hostler.yaml").write_text(
        json.dumps(
            {"plugins": [str(ECHO)], "agents": [{"name": "echo", "runner": "plugin:acme/echo/default"}]}
        )
    )
    return "hostler.yaml"


def test_many_runs_are_followed_over_a_restart(hostler: CommandLine) -> None:
    config = configured(hostler)
    with hostler.serving("--config", config) as server, server.client() as client:
        port = server.url.rpartition(":")[2]
        first = said(client, "first", "c1")
        following = hostler.start("runs", "tail", "--conversation", "c1", "--from-start", "--json")
        everything = hostler.start("runs", "tail", "--all", "--from-start")
        lines = [json.loads(line) for line in lines_until(following, '"status":"completed"')]
        assert {line["data"].get("run_id", first) for line in lines} == {first}
        assert [line["type"] for line in lines][:2] == ["event.received", "run.status"]
        said(client, "elsewhere", "c2")
        text = "\n".join(lines_until(everything, "c2  echo  run"))
        assert "c1  echo  admin: first" in text
    with hostler.serving("--config", config, "--port", port) as server, server.client() as client:
        second = said(client, "second", "c1")
        more = [json.loads(line) for line in lines_until(following, '"status":"completed"')]
        assert {line["data"].get("run_id", second) for line in more} == {second}
        assert "second" in "\n".join(lines_until(everything, "second"))
        resumed = hostler.start("runs", "tail", "--all", "--json", "--cursor", lines[-1]["cursor"])
        after = [json.loads(line) for line in lines_until(resumed, more[-1]["cursor"])]
        assert first not in {line["data"].get("run_id") for line in after}
        assert [line for line in after if line in more] == more
        for process in (following, everything, resumed):
            stopped(process)


def test_what_it_refuses(hostler: CommandLine) -> None:
    for arguments in ([], ["r1", "--all"], ["r1", "--agent", "a"], ["--all", "-c", "c1"]):
        ran = hostler("runs", "tail", *arguments)
        assert ran.status == 2, arguments
        assert "--all" in ran.error
    configured(hostler)
    ran = hostler("runs", "tail", "--all")
    assert ran.status != 0
    assert "hostler serve" in ran.error
