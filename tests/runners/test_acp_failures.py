"""What goes wrong with a coding agent, and what the run says about it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shlex
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest
from hostler_acp import limits, runner, transport
from hostler_acp.failures import FAILURES
from hostler_acp.runner import CodingAgent

from hostler_sdk.services import Turn
from hostler_sdk.testing import Driven, ScriptedHost, drive
from support.acp import WAIT_SECONDS, command, seen, steps, until_gone, until_seen
from support.acp.driven import ask, config, logged, of

pytestmark = pytest.mark.usefixtures("forked_agents")

PAGE = Path(__file__).parents[2] / "docs" / "runners" / "acp.md"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the agent works."""
    monkeypatch.setenv("HOSTLER_PLUGIN_WORKSPACE", str(tmp_path))
    return tmp_path / "work"


def failed(driven: Driven, code: str, *parts: str) -> None:
    assert (driven.status, driven.code) == ("failed", f"acp.{code}"), driven
    for part in parts:
        assert part in str(driven.error)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"provider": ""}, "config `provider` is ''; it must be claude-code or codex or"),
    ({"command": ""}, "config `command` is empty; the provider `custom` needs one"),
    ({"command": "agent 'open"}, "config `command` cannot be split into words"),
    ({"workspace": "/nowhere/at/all"}, "config `workspace` is /nowhere/at/all, and there is no such folder"),
    ({"workspace": "../up"}, "config `workspace` has `..`"),
    ({"env": {"A": 1}}, "config `env` has A = 1; each value must be a text"),
    ({"env": {"KEY": "env:KEY"}}, "has a reference as KEY, which is not resolved there"),
    ({"env": {"a b": "x"}}, "config `env` has 'a b', which is no name of a variable"),
    ({"env": {"HOSTLER_X": "x"}}, "names that begin with HOSTLER_ are the host's own"),
    ({"env": {"A": "x\0y"}}, "a zero byte in A"),
    ({"secret-env": "A=1\nthe key"}, "config `secret-env` has no NAME=value in line 2"),
    ({"api-key": "k"}, "config `api-key-variable` is empty"),
    ({"permissions": "maybe"}, "config `permissions` is 'maybe'; it must be ask or allow or reject"),
    ({"permission-expires-in": 5}, "config `permission-expires-in` is 5; it must be from 60 to 2592000"),
    ({"timeout": -1}, "config `timeout` is -1"),
    ({"startup-timeout": 0}, "config `startup-timeout` is 0; it must be from 1 to 3600"),
]


@pytest.mark.parametrize(("settings", "text"), WRONG)
async def test_a_wrong_setting_is_named(settings: dict[str, Any], text: str, folder: Path) -> None:
    driven = await ask(["say", "hi"], config=config() | settings)
    failed(driven, "config_invalid", text)
    assert "the key" not in str(driven.error)
    assert not seen(folder)


async def test_the_program_is_missing_or_no_program(folder: Path) -> None:
    driven = await drive(CodingAgent, "hi", config={"provider": "claude-code"})
    failed(driven, "command_not_found", "no program `claude-agent-acp`", "npm install -g @agentcl")
    folder.mkdir()
    (folder / "agent").write_bytes(b"\x7fnonsense")
    (folder / "agent").chmod(0o755)
    driven = await drive(CodingAgent, "hi", config=config() | {"command": str(folder / "agent")})
    failed(driven, "command_not_found", "cannot be executed", "check config `command`")


async def test_it_ends_before_it_has_a_session() -> None:
    driven = await ask(config=config("--die-at-start", "no licence"))
    failed(driven, "start_failed", "ended with status 3 before it had a session; it said: no licence")


async def test_it_is_no_agent_at_all() -> None:
    driven = await drive(CodingAgent, "hi", config=config() | {"command": "yes welcome"})
    failed(driven, "not_acp", "over 100 lines", "at last: welcome", "many agents need a flag such as --acp")
    driven = await drive(CodingAgent, "hi", config=config() | {"command": "true"})
    failed(driven, "start_failed", "ended with status 0", "and said nothing")


@pytest.mark.parametrize("where", ["start", "session"])
async def test_it_does_not_get_ready_in_time(where: str, folder: Path) -> None:
    driven = await ask(["say", "hi"], config=config("--hang", where, startup_timeout=3))
    failed(driven, "startup_timeout", "had no session after 3 s; raise config `startup-timeout`")
    await until_gone(*{one["pid"] for one in seen(folder)})


async def test_it_speaks_another_version() -> None:
    driven = await ask(["say", "hi"], config=config("--version", "7"))
    failed(driven, "version_unsupported", "speaks version 7", "this runner speaks 1")


async def test_it_wants_a_sign_in_and_the_key_is_not_repeated() -> None:
    settings = config("--auth", "key", api_key="sk-wrong-one", api_key_variable="MODEL_KEY")
    driven = await ask(["say", "hi"], config=settings)
    failed(driven, "auth_required", "the key *** is wrong", "Set config `api-key`", "sso (Company sign-in)")
    assert "sk-wrong-one" not in str(driven)
    assert (await ask(["say", "hi"], config=settings | {"api-key": "right"})).text == "hi"


async def test_an_answer_without_the_form_of_the_protocol() -> None:
    driven = await ask(["say", "hi"], config=config("--bad-session"))
    failed(driven, "response_invalid", "sessionId: Input should be a valid string")


async def test_it_dies_in_the_middle(folder: Path) -> None:
    driven = await ask(["child"], ["say", "So "], ["errors", "out of luck"], ["die", 9])
    failed(driven, "agent_died", "ended with status 9 in the middle of its answer; it said: out of luck")
    assert of(driven, "message.delta")
    (child,) = seen(folder, "child")
    await until_gone(child["child"])


async def test_it_is_killed_in_the_middle(folder: Path) -> None:
    driving = asyncio.create_task(ask(["say", "So"], ["wait"]))
    (prompt,) = await until_seen(folder, "prompt")
    os.kill(prompt["pid"], 9)
    failed(await driving, "agent_died", "ended by signal 9")


async def test_it_reports_an_error(folder: Path) -> None:
    driven = await ask(["fail", "the model is overloaded"])
    failed(driven, "agent_error", "the model is overloaded")
    assert of(driven, "run.failed")[0].retryable


@pytest.mark.parametrize(
    ("reason", "text", "code"),
    [
        ("refusal", "no", "refused"),
        ("cancelled", "so", "stopped_early"),
        ("max_tokens", "", "stopped_early"),
        ("end_turn", "", "empty_answer"),
        ("end_turn", " \n", "empty_answer"),
    ],
)
async def test_a_turn_that_ends_without_an_answer(reason: str, text: str, code: str) -> None:
    failed(await ask(["say", text], ["end", reason]), code)


@pytest.mark.parametrize(("reason", "shown"), [("max_tokens", "length"), ("max_turn_requests",) * 2])
async def test_a_turn_that_was_cut_short_is_marked(reason: str, shown: str) -> None:
    driven = await ask(["say", "as far as I got"], ["end", reason])
    assert (driven.status, driven.finish_reason) == ("completed", shown)


async def test_what_it_prints_besides_is_written_down_and_nothing_else() -> None:
    driven = await ask(["line", "Loading plugins ..."], ["say", "hi"], config=config("--banner", "3"))
    assert driven.text == "hi"
    warnings = logged(driven, "warning")
    assert warnings == [
        *(f"a line of the agent is no message: Welcome! {number}" for number in range(3)),
        "a line of the agent is no message: Loading plugins ...",
    ]


STRANGE = [
    ({"sessionUpdate": "dance", "to": "music"}, "an update of the agent is not understood: 'dance'"),
    (
        {"sessionUpdate": "tool_call", "title": "no id"},
        "an update of the agent is not understood: 'tool_call'",
    ),
    ({"sessionUpdate": "agent_message_chunk", "content": {"type": "hologram"}}, "'agent_message_chunk'"),
    ({}, "an update of the agent is not understood: None"),
    ("text", "an update of the agent is not understood: None"),
    (
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": 7}},
        "'agent_message_chunk': Input should be a valid string",
    ),
]


@pytest.mark.parametrize(("update", "text"), STRANGE)
async def test_an_update_that_it_does_not_know_is_written_down(update: Any, text: str) -> None:
    driven = await ask(["update", update], ["say", "hi"])
    assert driven.text == "hi"
    assert text in logged(driven, "warning")[0]


async def test_other_messages_that_it_does_not_know_are_answered_or_written_down() -> None:
    driven = await ask(
        ["request", "fs/read_text_file", {"sessionId": "s", "path": "/etc/passwd"}],
        ["request", "terminal/teleport", {}],
        [
            "raw",
            {"jsonrpc": "2.0", "method": "news", "params": {}},
            {"jsonrpc": "2.0", "id": 99, "result": 1},
        ],
        ["raw", [1, 2], 7, {"method": 1}, {"id": {}, "result": 2}],
        ["line", '{"method": "session/update", "params": NaN}'],
        ["line", "[" * 100_000],
        ["say", "hi"],
    )
    assert driven.text == "fs/read_text_file: -32601. terminal/teleport: -32601. hi"
    assert logged(driven, "info") == ["unknown notification of the agent: 'news'"]
    assert len(logged(driven, "warning")) == 6


async def test_a_text_that_is_no_unicode_is_passed_on_as_far_as_it_goes() -> None:
    lone = '{"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a\\ud800b"}}'
    driven = await ask(
        [
            "line",
            '{"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": '
            + lone
            + "}}",
        ],
        ["tool", "t", "run", "execute", {"deep": "x" * 200_000}],
        ["say", "c"],
    )
    assert driven.text == "a?b\nc"
    (started,) = of(driven, "tool.call.started")
    assert started.parameters["input"].endswith("... (200,012 bytes in all)")


async def test_an_agent_that_floods_is_stopped(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Each bound ends the run and the process; the figures are made small, their order is as it is."""
    monkeypatch.setattr(transport, "MAX_UPDATES", 500)
    failed(await ask(["flood", 1]), "too_much_output", "over 500 updates")
    failed(await ask(["thoughts"]), "too_much_output", "over 500 updates")
    monkeypatch.undo()
    monkeypatch.setenv("HOSTLER_PLUGIN_WORKSPACE", str(folder.parent))
    monkeypatch.setattr(transport, "MAX_OUTPUT_BYTES", 1024 * 1024)
    failed(
        await ask(["tool", "t", "run", "execute"], ["huge", 600_000], ["huge", 600_000], ["wait"]),
        "too_much_output",
    )
    await until_gone(*{one["pid"] for one in seen(folder)})


async def test_a_text_or_a_message_that_is_too_long_ends_the_run() -> None:
    driven = await ask(["flood", 100_000])
    failed(driven, "answer_too_long", "over 921,600 bytes of text", "write a file")
    driven = await ask(["huge", limits.MAX_LINE_BYTES + 1], ["wait"])
    failed(driven, "too_much_output", "a message of the agent has over 8 MiB")


async def test_too_many_requests_end_the_run() -> None:
    driven = await ask(["many_requests", 100], config=config("--no-load"))
    failed(driven, "too_much_output", "over 64 requests of the agent wait")


async def test_entries_of_the_journal_are_bounded() -> None:
    listed = [["update", {"sessionUpdate": f"new{number}"}] for number in range(200)]
    notes = logged(await ask(*listed, ["say", "hi"]))
    assert len(notes) == limits.MAX_NOTES + 1
    assert notes[-1] == "there is more of this kind; it is not written down"


@pytest.fixture
def limits_made(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.Timeout]:
    """The times for answers, which a test lets run out once what it waits for is there."""
    made: list[asyncio.Timeout] = []
    limit_of = runner.limit_of

    def noted(turn: Turn) -> asyncio.Timeout:
        made.append(limit_of(turn))
        return made[-1]

    monkeypatch.setattr(runner, "limit_of", noted)
    return made


async def test_an_answer_that_takes_too_long_is_cancelled(
    folder: Path, limits_made: list[asyncio.Timeout]
) -> None:
    driving = asyncio.create_task(ask(["say", "So"], ["child"], ["wait"]))
    (child,) = await until_seen(folder, "child")
    limits_made[0].reschedule(asyncio.get_running_loop().time())
    failed(await driving, "timeout", "raise config `timeout`")
    assert [one["what"] for one in seen(folder)][-2:] == ["cancel", "turn_cancelled"]
    await until_gone(child["pid"], child["child"])


@pytest.mark.parametrize(
    ("timeout", "deadline", "most"), [(100, 1000, 97), (0, 1000, 1000), (8, 1000, 6), (500, 40, 40)]
)
async def test_the_time_for_an_answer_ends_before_that_of_the_host(
    timeout: int, deadline: int, most: int, limits_made: list[asyncio.Timeout]
) -> None:
    now = asyncio.get_running_loop().time()
    context = {"runtime": {"host_version": "1", "trace_id": "t", "deadline_at": time.time() + deadline}}
    await ask(["say", "hi"], config=config(timeout=timeout), context=context)
    when = limits_made[0].when()
    assert when is not None
    spent = asyncio.get_running_loop().time() - now
    assert most * 0.7 <= when - now <= most + spent


DEAF = """
import json, os, sys, time
about = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
for number, result in enumerate([about, {"sessionId": "s"}]):
    id_ = json.loads(sys.stdin.buffer.raw.readline())["id"]
    print(json.dumps({"jsonrpc": "2.0", "id": id_, "result": result}), flush=True)
open("deaf", "w").write(str(os.getpid()))
os.rename("deaf", "pid")
time.sleep(1000)
"""


async def test_an_agent_that_reads_nothing_is_killed_in_time(
    folder: Path, limits_made: list[asyncio.Timeout]
) -> None:
    """The prompt is larger than what a pipe holds, so neither it nor the cancellation gets through."""
    folder.mkdir()
    (folder / "deaf.py").write_text(DEAF)
    settings = config() | {"command": command(agent=folder / "deaf.py")}
    driving = asyncio.create_task(ask(["say", "x" * 5_000_000], config=settings))
    async with asyncio.timeout(WAIT_SECONDS):
        while not (folder / "pid").exists():
            await asyncio.sleep(0.02)
        pid = int((folder / "pid").read_text())
        while waiting_at(pid) < 60_000:
            await asyncio.sleep(0.02)
    limits_made[0].reschedule(asyncio.get_running_loop().time())
    failed(await driving, "timeout")
    await until_gone(pid)


def waiting_at(pid: int) -> int:
    """Bytes that a process has not read from its standard input."""
    pipe = os.open(f"/proc/{pid}/fd/0", os.O_RDONLY | os.O_NONBLOCK)
    try:
        return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)
    finally:
        os.close(pipe)


async def test_an_agent_that_stays_when_its_input_is_closed_is_killed(folder: Path) -> None:
    stubborn = shlex.join(["sh", "-c", "trap '' TERM; echo $$ > pid; exec sleep 1000"])
    driven = await ask(config=config(startup_timeout=3) | {"command": stubborn})
    failed(driven, "startup_timeout")
    await until_gone(int((folder / "pid").read_text()))


async def test_an_empty_message_is_refused_before_it_is_sent(folder: Path) -> None:
    failed(await drive(CodingAgent, "  ", config=config()), "empty_input")
    assert not seen(folder, "prompt")


async def test_a_sandbox_without_a_loopback_says_that_tools_cannot_be_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from hostler_sdk.errors import RuntimeFailure
    from hostler_sdk.host_api.resources import Tools

    def refused(self: Tools) -> str:
        raise RuntimeFailure("this process may not listen")

    monkeypatch.setattr(Tools, "mcp_url", property(refused))
    options: dict[str, Any] = {"tools": {"add": lambda a, b: a + b}}
    failed(await ask(["say", "hi"], **options), "loopback_refused", "set config `offer-tools` to false")
    assert (await ask(["say", "hi"], config=config(offer_tools=False), **options)).text == "hi"


def test_the_page_lists_each_code() -> None:
    text = PAGE.read_text("utf-8")
    assert [code for code in FAILURES if f"| `{code}` |" not in text] == []


def test_the_limits_fit_within_those_of_a_cancelled_runner() -> None:
    assert limits.CANCEL_SECONDS + 2 * limits.EXIT_SECONDS < 5.0


async def test_a_host_that_answers_slowly_keeps_the_agent_waiting() -> None:
    """Little credit: the agent's pieces wait in its pipe, and none is lost."""
    driven = await ScriptedHost().drive(
        CodingAgent, steps(*(["say", f"{number} "] for number in range(300))), config=config(), credit=1
    )
    assert driven.text == "".join(f"{number} " for number in range(300))
