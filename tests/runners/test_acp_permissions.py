"""Permission requests of a coding agent: put to people by a pause, or held where no session can be loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hostler_acp import turn
from hostler_acp.limits import MAX_ASKED_BYTES
from hostler_acp.runner import CodingAgent

from hostler_sdk.results import Result
from hostler_sdk.testing import Driven, ScriptedHost
from support.acp import seen, steps, until_gone
from support.acp.driven import ask, config, logged, of

pytestmark = pytest.mark.usefixtures("forked_agents")

RUN = ["ask", "t1", "rm -rf build", "execute", {"command": "rm -rf build"}]
DECISION = {"allow": "approved", "reject": "denied"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the agent works."""
    monkeypatch.setenv("HOSTLER_PLUGIN_WORKSPACE", str(tmp_path))
    return tmp_path / "work"


def pause_of(driven: Driven) -> dict[str, Any]:
    assert driven.status == "paused", driven.error
    found: dict[str, Any] = msgspec.to_builtins(of(driven, "run.paused")[0])
    return found


async def decided(host: ScriptedHost, paused: Driven, *decisions: Any, **settings: Any) -> Driven:
    """Go on after a pause; a decision is an outcome, or an outcome with a comment."""
    pause = pause_of(paused)
    pairs = [one if isinstance(one, tuple) else (one, None) for one in decisions]
    told = [
        {"call_id": call["call_id"], "decision": outcome, "comment": comment}
        for call, (outcome, comment) in zip(pause["pending"], pairs, strict=True)
    ]
    continuation = {"state": pause["state"], "decisions": told, "resumed_by": "ada"}
    return await host.drive(
        CodingAgent,
        steps(["say", "not sent again"]),
        config=config(**settings),
        context={"continuation": continuation, "attempt": 2},
    )


async def test_a_request_pauses_the_run_and_ends_the_process(folder: Path) -> None:
    paused = await ask(["say", "I clean up."], RUN)
    (call,) = pause_of(paused)["pending"]
    assert call == {
        "tool_name": "acp.execute",
        "arguments": {"title": "rm -rf build", "input": {"command": "rm -rf build"}},
        "kind": "approval",
        "title": "rm -rf build",
        "call_id": "1-1",
        "editable": False,
        "executor": "runner",
    }
    assert paused.text == "I clean up."
    assert [one["what"] for one in seen(folder)][-3:] == ["cancel", "permission", "turn_cancelled"]
    await until_gone(seen(folder)[0]["pid"])


@pytest.mark.parametrize(
    ("outcome", "chosen", "told"),
    [
        ("approved", "allow_once!", "- Allowed, once: rm -rf build. The person who decided says: go ahead"),
        ("denied", "reject_once!", "- Refused: rm -rf build. The person who decided says: go ahead"),
        ("expired", "reject_once!", "- Nobody decided in time, so it is not allowed: rm -rf build."),
        ("cancelled", "reject_once!", "- Withdrawn, so it is not allowed: rm -rf build."),
    ],
)
async def test_the_session_goes_on_with_the_decision(
    folder: Path, outcome: str, chosen: str, told: str
) -> None:
    host = ScriptedHost()
    paused = await ask(RUN, ["count"], host=host)
    ended = await decided(host, paused, (outcome, "go ahead"))
    assert ended.text == f"rm -rf build: {chosen}. prompts: 2"
    first, second = seen(folder, "prompt")
    assert first["session"] == second["session"]
    assert told in second["text"]
    assert "nothing of what you asked for has been done" in second["text"]
    assert (await ask(["count"], host=host)).text == "prompts: 3"  # the next message, in the same session


async def test_an_approval_is_for_one_call_and_for_what_was_shown(folder: Path) -> None:
    host = ScriptedHost()
    other = ["ask", "t9", "rm -rf build", "execute", {"command": "rm -rf /"}]
    paused = await ask(RUN, RUN, host=host)
    again = await decided(host, paused, "approved")
    (second,) = pause_of(again)["pending"]  # the same command, a second time
    assert (second["call_id"], second["arguments"]["input"]) == ("2-1", {"command": "rm -rf build"})
    assert [one["outcome"] for one in seen(folder, "permission")] == ["cancelled", "allow_once!", "cancelled"]

    host = ScriptedHost()
    paused = await ask(other, RUN, host=host)
    again = await decided(host, paused, "approved")
    (second,) = pause_of(again)["pending"]  # another command under the same title
    assert second["arguments"]["input"] == {"command": "rm -rf build"}


async def test_what_was_refused_is_not_asked_again() -> None:
    host = ScriptedHost()
    paused = await ask(RUN, RUN, ["ask", "t2", "ls", "read", {"path": "."}], host=host)
    again = await decided(host, paused, "denied")
    assert again.text == "rm -rf build: reject_once!. rm -rf build: reject_once!. "
    ended = await decided(host, again, "approved")  # of a later pause of the run
    assert ended.text == "ls: allow_once!. "
    assert pause_of(again)["state"]["rejected"]


async def test_requests_of_one_step_are_one_pause_and_decided_alone() -> None:
    host = ScriptedHost()
    listed = [["t1", "one", "edit", {"n": 1}], ["t2", "two", "edit", {"n": 2}]]
    paused = await ask(["ask_all", *listed], host=host)
    assert [call["title"] for call in pause_of(paused)["pending"]] == ["one", "two"]
    ended = await decided(host, paused, "approved", "denied")
    assert ended.text == "one: allow_once!. two: reject_once!. "


async def test_a_request_shows_what_was_reported_of_its_call() -> None:
    reported = ["tool", "t1", "Write x.py", "edit", {"path": "x.py", "text": "1"}]
    (call,) = pause_of(await ask(reported, ["ask", "t1", "May I?"]))["pending"]
    assert call["tool_name"] == "acp.edit"
    assert call["arguments"] == {"title": "May I?", "input": {"path": "x.py", "text": "1"}}


async def test_what_nobody_could_be_shown_whole_is_rejected() -> None:
    large = ["ask", "t1", "Write", "edit", {"text": "x" * MAX_ASKED_BYTES}]
    driven = await ask(large)
    assert driven.text == "Write: reject_once!. "
    assert "a permission request of over 49,152 bytes is rejected" in logged(driven, "warning")[0]


@pytest.mark.parametrize(("policy", "chosen"), [("allow", "allow_once!"), ("reject", "reject_once!")])
async def test_the_settings_decide_without_people(policy: str, chosen: str) -> None:
    driven = await ask(RUN, config=config(permissions=policy))
    assert driven.text == f"rm -rf build: {chosen}. "


async def test_the_option_that_fits_best_is_chosen_and_none_is_a_cancellation() -> None:
    settings = config(permissions="allow")
    always = await ask([*RUN, "allow_always", "reject_once"], config=settings)
    assert always.text == "rm -rf build: allow_always!. "
    none = await ask([*RUN, "reject_once"], config=settings, cancel_on=lambda one: one.type == "log")
    assert "offered no way to allow" in logged(none, "warning")[0]
    assert none.status == "cancelled"


async def test_the_time_to_decide_is_passed_on() -> None:
    paused = await ask(RUN, config=config(permission_expires_in=600))
    assert pause_of(paused)["expires_in"] == 600


async def test_a_session_that_is_lost_while_people_decide_ends_the_run(folder: Path) -> None:
    host = ScriptedHost()
    paused = await ask(RUN, host=host)
    for file in (folder / "sessions").iterdir():
        file.unlink()
    ended = await decided(host, paused, "approved")
    assert ended.code == "acp.session_lost"
    assert "What was decided cannot be passed on: ask again" in str(ended.error)
    assert len(seen(folder, "prompt")) == 1
    assert (await ask(["count"], host=host)).text == "prompts: 1"


async def test_what_was_said_before_the_pause_is_an_answer() -> None:
    host = ScriptedHost()
    silent = ["tool", "t3", "x", "think"]
    paused = await ask(["say", "I do it."], ["ask_silently", "t1", "x", "execute", 1], silent, host=host)
    ended = await decided(host, paused, "approved")
    assert (ended.status, ended.text) == ("completed", "")


async def test_an_agent_that_asks_without_an_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "MAX_PAUSES", 2)
    host = ScriptedHost()
    paused = await ask(RUN, RUN, RUN, host=host)
    ended = await decided(host, paused, "approved")
    assert ended.code == "acp.too_much_output"
    assert "asked people 2 times in one run" in str(ended.error)


async def test_a_state_of_another_version_is_refused() -> None:
    continuation = {"state": {"version": 99}, "decisions": []}
    driven = await ask(context={"continuation": continuation, "attempt": 2})
    assert driven.code == "acp.session_lost"
    assert "made by another version of the runner" in str(driven.error)


@pytest.mark.parametrize(
    ("outcome", "chosen"),
    [("approved", "allow_once!"), ("denied", "reject_once!"), ("expired", "reject_once!")],
)
async def test_an_agent_without_stored_sessions_is_held_while_people_decide(
    folder: Path, outcome: str, chosen: str
) -> None:
    driven = await ask(RUN, ["count"], config=config("--no-load"), decisions=[{"decision": outcome}])
    assert driven.text == f"rm -rf build: {chosen}. prompts: 1"
    (question,) = [call for call in driven.calls if call.method == "interaction.request"]
    assert question.params.title == "rm -rf build"
    assert '"command": "rm -rf build"' in question.params.description
    assert len({one["pid"] for one in seen(folder)}) == 1


async def test_a_pause_leaves_no_process(folder: Path) -> None:
    host = ScriptedHost()
    paused = await ask(["child"], RUN, ["say", "ok"], host=host)
    (child,) = seen(folder, "child")
    await until_gone(child["pid"], child["child"])
    assert (await decided(host, paused, "approved")).text == "rm -rf build: allow_once!. ok"


async def test_a_cancellation_while_a_request_is_open_withdraws_it(folder: Path) -> None:
    def at_question(result: Result) -> bool:
        return result.type == "tool.call.started"

    driven = await ask(["tool", "t1", "x", "execute"], RUN, config=config("--no-load"), cancel_on=at_question)
    assert driven.status == "cancelled"
    await until_gone(seen(folder)[0]["pid"])
