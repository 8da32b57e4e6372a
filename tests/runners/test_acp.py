"""A coding agent's answers, sessions, tools and files, from a real process that speaks the real protocol."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from hostler_acp.runner import CodingAgent

from hostler_sdk.results import Result
from hostler_sdk.testing import Driven, ScriptedHost, drive
from hostler_sdk.types import Usage
from support.acp import seen, steps, until_gone, until_seen
from support.acp.driven import ask, config, logged, of

pytestmark = pytest.mark.usefixtures("forked_agents")

PIXEL = base64.b64encode(b"\x89PNG a picture").decode()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the agent works."""
    monkeypatch.setenv("HOSTLER_PLUGIN_WORKSPACE", str(tmp_path))
    return tmp_path / "work"


@pytest.mark.usefixtures("folder")
async def test_text_thoughts_plans_and_tools_are_results_in_order() -> None:
    driven = await ask(
        ["think", "Let me "],
        ["think", "see."],
        ["plan", ["read it", "in_progress"], ["change it", "pending"]],
        ["say", "I read "],
        ["say", "it."],
        ["tool", "t1", "ls -l", "execute", {"command": "ls -l"}],
        ["tool_update", "t1", "in_progress"],
        ["tool_update", "t1", "completed", "total 0"],
        ["tool", "t2", "Read x", "read"],
        ["tool_update", "t2", "failed", "no such file"],
        ["plan", ["read it", "completed"], ["change it", "pending"]],
        ["say", "Done."],
        ["spend", 10, 5, 15],
    )
    found = [(result.type, _shown(result)) for result in driven.results]
    assert found == [
        ("log", "thought of the agent: Let me see."),
        ("log", "plan of the agent:\n[>] read it\n[ ] change it"),
        ("message.delta", "I read "),
        ("message.delta", "it."),
        ("message.completed", "I read it."),
        ("tool.call.started", ("t1", "acp.execute", {"title": "ls -l", "input": {"command": "ls -l"}})),
        ("tool.call.completed", ("t1", "total 0", None)),
        ("tool.call.started", ("t2", "acp.read", {"title": "Read x"})),
        ("tool.call.completed", ("t2", None, "no such file")),
        ("log", "plan of the agent:\n[x] read it\n[ ] change it"),
        ("message.delta", "Done."),
        ("message.completed", "Done."),
        ("run.completed", "stop"),
    ]
    assert driven.usage == Usage(input_tokens=10, output_tokens=5, total_tokens=15)


def _shown(result: Result) -> Any:
    data: Any = result.data
    match result.type:
        case "log":
            return data.text
        case "message.delta":
            return data.chunk.content
        case "message.completed":
            return data.message.content
        case "tool.call.started":
            return (data.tool_call_id, data.tool_name, data.parameters)
        case "tool.call.completed":
            return (data.tool_call_id, data.result, data.error)
        case "run.completed":
            return data.finish_reason


@pytest.mark.usefixtures("folder")
async def test_messages_of_the_agent_stay_apart_and_pictures_are_artifacts() -> None:
    driven = await ask(
        ["say", "One", "a"], ["say", " more", "a"], ["say", "Two", "b"], ["picture", PIXEL], ["picture", "?"]
    )
    assert [one.message.content for one in of(driven, "message.completed")] == ["One more", "Two"]
    (picture,) = of(driven, "artifact.created")
    assert (picture.mime_type, picture.content_base64) == ("image/png", PIXEL)
    assert "a part of the answer (image) is not valid base64" in logged(driven)
    first, second = of(driven, "message.completed")
    assert first.message.message_id != second.message.message_id


@pytest.mark.usefixtures("folder")
async def test_a_tool_call_that_does_not_end_ends_with_the_turn() -> None:
    driven = await ask(["tool", "t", "sleep", "execute"], ["say", "Bye"])
    (ended,) = of(driven, "tool.call.completed")
    assert ended.error == "the agent's turn ended before this call did"


@pytest.mark.parametrize("resume", [None, "works", "broken"])
async def test_messages_of_a_conversation_go_to_one_session(folder: Path, resume: str | None) -> None:
    host = ScriptedHost()
    settings = config(*(["--resume", resume] if resume else []))
    first = await ask(["count"], host=host, config=settings)
    second = await ask(["count"], host=host, config=settings)
    assert (first.text, second.text) == ("prompts: 1", "prompts: 2")  # and what a load repeats is not shown
    (new,) = seen(folder, "new_session")
    (again,) = seen(folder, "resume_session" if resume == "works" else "load_session")
    assert new["session"] == again["session"] == host.world.snapshot.conversation["external.session_id"]
    assert new["pid"] != again["pid"]
    await until_gone(new["pid"], again["pid"])


async def test_each_message_has_its_own_session_if_the_settings_say_so(folder: Path) -> None:
    host = ScriptedHost()
    for _ in range(2):
        assert (await ask(["count"], host=host, config=config(reuse_session=False))).text == "prompts: 1"
    assert len(seen(folder, "new_session")) == 2
    assert "external.session_id" not in host.world.snapshot.conversation


async def test_an_agent_that_keeps_no_sessions_gets_a_new_one_each_time(folder: Path) -> None:
    host = ScriptedHost()
    assert (await ask(["count"], host=host, config=config("--no-load"))).text == "prompts: 1"
    second = await ask(["count"], host=host, config=config("--no-load"))
    assert second.text == "prompts: 1"
    assert "Each message has a session of its own" in logged(second, "info")[0]
    assert len(seen(folder, "new_session")) == 2


@pytest.mark.usefixtures("folder")
async def test_a_session_that_is_lost_is_replaced_and_the_journal_says_so() -> None:
    host = ScriptedHost()
    await ask(["forget"], ["say", "I forget"], host=host)
    second = await ask(["count"], host=host)
    assert second.text == "prompts: 1"
    (warning,) = logged(second, "warning")
    assert warning.startswith("the agent's session of this conversation cannot be opened again: ")
    assert "A new one begins, without what was said before" in warning
    assert (await ask(["count"], host=host)).text == "prompts: 2"


@pytest.mark.usefixtures("folder")
async def test_a_session_that_is_lost_ends_the_run_if_the_settings_say_so() -> None:
    host = ScriptedHost()
    settings = config(session_lost="fail")
    await ask(["forget"], ["say", "I forget"], host=host, config=settings)
    second = await ask(["count"], host=host, config=settings)
    assert (second.code, second.status) == ("acp.session_lost", "failed")
    assert str(second.error).endswith("The next message begins a new session")
    assert (await ask(["count"], host=host, config=settings)).text == "prompts: 1"


async def test_turns_of_one_session_are_taken_one_after_the_other(folder: Path) -> None:
    """Also the first two of a conversation, which would each make a session."""
    host, runner = ScriptedHost(), CodingAgent()

    async def say(*listed: Any) -> Driven:
        return await host.drive(runner, steps(*listed), config=config())

    async with asyncio.TaskGroup() as group:
        turns = [group.create_task(say(["gate", "open"], ["count"])) for _ in range(3)]
        await until_seen(folder, "at_gate")
        # each of them would be there by now if nothing kept it; what shows it is the order in the log
        (folder / "open").touch()
    assert sorted(turn.result().text for turn in turns) == ["prompts: 1", "prompts: 2", "prompts: 3"]
    order = [one["what"] for one in seen(folder) if one["what"] in ("prompt", "turn_ended")]
    assert order == ["prompt", "turn_ended"] * 3
    assert len({one["session"] for one in seen(folder, "prompt")}) == 1


@pytest.mark.parametrize("flags", [(), ("--http",)], ids=["stdio", "http"])
@pytest.mark.usefixtures("folder")
async def test_the_tools_of_the_run_are_an_mcp_server_of_the_session(flags: tuple[str, ...]) -> None:
    driven = await ask(
        ["mcp_list"],
        ["mcp", "add", {"a": 1, "b": 2}],
        ["mcp", "remove", {}],
        config=config(*flags),
        tools={"add": lambda a, b: a + b},
    )
    assert driven.text.startswith("tools: add3")
    assert "not_found" in driven.text
    calls = [call for call in driven.calls if call.method == "tool.call"]
    assert [(call.params.tool_name, call.error is None) for call in calls] == [
        ("add", True),
        ("remove", False),
    ]


@pytest.mark.parametrize("service", ["OPENAI", "ANTHROPIC"])
async def test_the_agent_may_use_a_model_of_the_host_without_a_key(folder: Path, service: str) -> None:
    settings = config(model={"primary": "main"})
    driven = await ask(["model", service], config=settings, models="Good day.")
    assert driven.text == "Good day."
    assert [call.method for call in driven.calls if call.method.startswith("model.")] == ["model.invoke"]
    own = await ask(["variable", "OPENAI_BASE_URL"], config=settings | {"env": {"OPENAI_BASE_URL": "mine"}})
    assert own.text == "OPENAI_BASE_URL=mine"
    assert (await ask(["variable", "OPENAI_BASE_URL"], models="x")).text == "OPENAI_BASE_URL=None"


@pytest.mark.usefixtures("folder")
async def test_without_tools_there_is_no_server() -> None:
    assert (await ask(["mcp_list"])).text == "tools: none"
    settings = config(offer_tools=False)
    assert (await ask(["mcp_list"], config=settings, tools={"add": lambda a, b: a + b})).text == "tools: none"


async def test_files_of_the_message_reach_the_agent(folder: Path) -> None:
    contents = [
        {"type": "text", "text": steps(["say", "Thanks"])},
        {"type": "image_base64", "image_base64": PIXEL, "mime_type": "image/png"},
        {
            "type": "file_base64",
            "file_base64": base64.b64encode(b"a;b").decode(),
            "file_name": "../../etc/t.csv",
            "mime_type": "text/csv",
        },
    ]
    message = {"contents": contents}
    for flags in ((), ("--media",)):
        driven = await drive(CodingAgent, message, config=config(*flags))
        assert driven.text == "Thanks", driven.error
    linked, embedded = [one["parts"] for one in seen(folder, "prompt")]
    assert [part["type"] for part in linked] == ["resource_link", "resource_link"]
    for part, data in zip(linked, [b"\x89PNG a picture", b"a;b"], strict=True):
        path = Path(part["uri"].removeprefix("file://"))
        assert path.parent == folder / "attachments"
        assert path.read_bytes() == data
    assert [part["type"] for part in embedded] == ["image", "resource"]
    assert embedded[0]["data"] == PIXEL
    assert embedded[1]["resource"]["text"] == "a;b"


async def test_each_conversation_has_a_folder_of_its_own(tmp_path: Path, folder: Path) -> None:
    settings = config(workspace="")
    places = []
    for conversation in ("one", "two", "one"):
        context = {"conversation": {"conversation_id": conversation}}
        places.append((await ask(["place"], config=settings, context=context)).text)
    assert places[0] == places[2] != places[1]
    assert all(Path(place).parent == tmp_path / "conversations" for place in places)
    assert not folder.exists()


async def test_the_agent_gets_its_variables_and_none_of_the_hosts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSTLER_PLUGIN_NAME", "acp")
    settings = config(
        env={"COLOUR": "red"},
        api_key="sk-1",
        api_key_variable="MODEL_KEY",
        secret_env="# keys\nOTHER = two words\n\nEMPTY=",
    )
    names = ["COLOUR", "MODEL_KEY", "OTHER", "EMPTY", "HOSTLER_PLUGIN_NAME", "HOSTLER_PLUGIN_WORKSPACE"]
    driven = await ask(*(["variable", name] for name in names), config=settings)
    assert driven.text == (
        "COLOUR=redMODEL_KEY=sk-1OTHER=two wordsEMPTY=HOSTLER_PLUGIN_NAME=NoneHOSTLER_PLUGIN_WORKSPACE=None"
    )


async def test_a_mode_is_chosen_and_a_sign_in_is_made(folder: Path) -> None:
    settings = config("--modes", "--auth", "method", mode="plan", auth_method="sso")
    assert (await ask(["say", "hi"], config=settings)).text == "hi"
    assert [one["what"] for one in seen(folder)][:4] == ["initialize", "authenticate", "new_session", "mode"]
    for name, text in (("mode", "code, plan"), ("auth-method", "sso")):
        wrong = await ask(["say", "hi"], config=settings | {name: "other"})
        assert wrong.code == "acp.config_invalid"
        assert f"config `{name}` is 'other'; The agent offers {text}" == wrong.error


async def test_a_cancelled_run_cancels_the_turn_and_leaves_no_process(folder: Path) -> None:
    def first_word(result: Result) -> bool:
        return result.type == "message.delta"

    driven = await ask(["child"], ["say", "So"], ["wait"], cancel_on=first_word)
    assert driven.status == "cancelled"
    assert [one["what"] for one in seen(folder)][-2:] == ["cancel", "turn_cancelled"]
    (child,) = seen(folder, "child")
    await until_gone(child["pid"], child["child"])


async def test_an_agent_that_ignores_the_cancellation_is_killed_in_time(folder: Path) -> None:
    driven = await ask(
        ["child"], ["say", "So"], ["ignore_cancel"], cancel_on=lambda one: one.type == "message.delta"
    )
    assert driven.status == "cancelled"
    assert driven.warnings == []  # it stopped within the grace of a cancelled runner
    (child,) = seen(folder, "child")
    await until_gone(child["pid"], child["child"])


async def test_a_message_is_sent_once(folder: Path) -> None:
    """The attempt after a crash does not repeat what the agent may have done."""
    host = ScriptedHost()
    await ask(["say", "hi"], host=host)
    again = await ask(["say", "hi"], host=host, context={"attempt": 2, "run_id": "r2"})
    assert again.text == "hi"  # the crash came before it was sent
    again = await ask(["say", "hi"], host=host, context={"attempt": 3, "run_id": "r2"})
    assert again.code == "acp.already_sent"
    assert len(seen(folder, "prompt")) == 2
