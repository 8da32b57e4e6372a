"""Plain functions as runners, and what all adapters share, against a scripted host."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest

import hostler_adapters
from hostler_adapters import HostTool, Turn, Unanswered, Verdict, current_run
from hostler_adapters.conversation import MAX_IMAGE_BYTES
from hostler_adapters.door import http_client
from hostler_adapters.functions import FunctionTurn, runner
from hostler_adapters.host_tools import MAX_TOOLS
from hostler_adapters.runner_class import built_agent, check_agent
from hostler_adapters.sessions import MAX_EVENTS, MAX_INLINE_BYTES, MAX_SESSION_BYTES, latest
from hostler_sdk import Runner
from hostler_sdk.errors import Denied
from hostler_sdk.testing import Driven, ScriptedHost, drive_sync


def wish(name: str, arguments: str, call_id: str = "c1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def logged(driven: Driven) -> list[str]:
    return [result.data.text for result in driven.results if result.type == "log"]  # type: ignore[union-attr]


def made(function: Any, **options: Any) -> type[Runner]:
    return runner(function, name="suite", **options)


async def answering(turn: FunctionTurn) -> str | None:
    answer = await turn.client.chat.completions.create(model="default", messages=turn.messages)  # type: ignore[arg-type]
    return answer.choices[0].message.content


def test_a_coroutine_answers_with_the_run_s_model_and_history() -> None:
    host = ScriptedHost(history=["before", "answered"])
    driven = host.drive_sync(made(answering), "hi", models="hello there")
    assert driven.text == "hello there"
    sent = next(call.params.messages for call in driven.calls if call.method == "model.invoke")
    assert [(one.role, one.content) for one in sent] == [
        ("user", "before"),
        ("assistant", "answered"),
        ("user", "hi"),
    ]


def test_history_is_bounded_and_can_be_switched_off() -> None:
    async def counted(turn: FunctionTurn) -> str:
        return " ".join(message["content"] for message in turn.messages)

    said = [f"m{number}" for number in range(250)]
    assert drive_sync(made(counted, history=0), "x", history=said).text == "x"
    assert drive_sync(made(counted, history=3), "x", history=said).text == "m247 m248 m249 x"
    assert len(drive_sync(made(counted, history=150), "x", history=said).text.split()) == 151


def test_pieces_are_streamed() -> None:
    async def counting(turn: FunctionTurn) -> AsyncIterator[str]:
        for number in range(3):
            yield f"{number} "

    driven = drive_sync(made(counting), "x")
    assert [result.type for result in driven.results] == ["message.delta"] * 3 + ["message.completed"]
    assert driven.text == "0 1 2 "


def test_tools_are_called_under_names_that_services_accept_and_failures_go_to_the_model() -> None:
    async def calling(turn: FunctionTurn) -> str:
        names = [tool["function"]["name"] for tool in turn.tools]
        answers = [
            await turn.call(wish("shop_book", '{"seat": "2A"}')),
            await turn.call(wish("shop_pay", "{}")),
            await turn.call(wish("shop_broken", "{}")),
            await turn.call(wish("shop_book", "no json")),
            await turn.call(wish("shop_book", "[1]")),
            await turn.call(wish("unknown", "{}")),
        ]
        return "\n".join([*names, *(answer["content"] for answer in answers)])

    tools = {
        "shop.book": lambda seat: {"seat": seat},
        "shop.pay": Denied("too dear"),
        "shop.broken": ValueError("oh"),
    }
    lines = drive_sync(made(calling), "x", tools=tools).text.splitlines()
    assert lines[:4] == ["shop_book", "shop_broken", "shop_pay", '{"seat": "2A"}']
    assert lines[4].startswith("error: a person refused this call; do not make it again")
    assert "too dear" in lines[4]
    assert "oh" in lines[5]
    assert lines[6].startswith("error: the arguments are not JSON")
    assert lines[7] == "error: the arguments must be a JSON object"
    assert lines[8] == "error: there is no function 'unknown'; there are shop_book, shop_broken, shop_pay"


def test_more_tools_than_services_take_are_left_out_with_a_warning() -> None:
    async def counted(turn: FunctionTurn) -> str:
        return str(len(turn.tools))

    driven = drive_sync(made(counted), "x", tools={f"t{n:03}": n for n in range(MAX_TOOLS + 2)})
    assert driven.text == str(MAX_TOOLS)
    assert f"{MAX_TOOLS + 2} tools are granted" in logged(driven)[0]


def test_memory_lasts_from_one_run_to_the_next_in_place_and_as_an_artifact() -> None:
    async def growing(turn: FunctionTurn) -> str:
        size = int(turn.text)
        before = len(turn.memory.get("kept", ""))
        turn.memory["kept"] = "x" * size
        return str(before)

    host = ScriptedHost()
    sizes = [5, MAX_INLINE_BYTES, MAX_INLINE_BYTES * 2, MAX_SESSION_BYTES, 7, 7]
    driven = [host.drive_sync(made(growing), str(size)) for size in sizes]
    assert [one.text for one in driven] == [
        "0",
        "5",
        str(MAX_INLINE_BYTES),
        str(MAX_INLINE_BYTES * 2),
        "0",
        "7",
    ]
    assert "is not kept" in logged(driven[3])[0]
    uploads = [[call.method for call in one.calls].count("artifact.upload") for one in driven]
    assert [bool(count) for count in uploads] == [False, True, True, False, False, False]
    assert "state.set" not in [call.method for call in driven[5].calls]  # nothing changed


def test_a_session_of_another_format_is_not_used_and_said_so() -> None:
    async def remembering(turn: FunctionTurn) -> str:
        return str(turn.memory)

    stored: Any = {"format": "functions/99", "events": [], "data": {"a": 1}, "artifact_id": None}
    for value in (stored, {"what": 1}, "text"):
        driven = drive_sync(made(remembering), "x", states={"conversation": {"adapter.functions": value}})
        assert driven.text == "{}"
        assert "the stored session is not used" in logged(driven)[0]


def test_people_are_asked() -> None:
    async def asking(turn: FunctionTurn) -> str:
        first = await turn.approve("pay", {"amount": 3})
        second = await turn.approve("pay", {"amount": 4})
        third = await turn.approve("pay", {"amount": 5})
        form = await turn.ask({"question": "Which?", "fields": [{"name": "size", "type": "number"}]})
        button = await turn.ask({"title": "Go?", "actions": ["yes", "no"], "why": "because"})
        free = await turn.ask("Your name?")
        return repr([first, second, third, form, button, free])

    decisions: list[dict[str, Any]] = [
        {"decision": "answered", "result": "approve"},
        {"decision": "answered", "result": "deny", "comment": "too much"},
        {"decision": "expired"},
        {"values": {"size": 4}},
        {"result": "yes"},
        {"values": {"answer": "Ada"}},
    ]
    driven = drive_sync(made(asking), "x", decisions=decisions)
    verdicts = [
        Verdict(True),
        Verdict(False, "a person refused this call: too much"),
        Verdict(False, "nobody decided about this call in time, so it was not made"),
    ]
    assert driven.text == repr([*verdicts, {"size": 4}, "yes", "Ada"])
    asked = [call.params for call in driven.calls if call.method == "interaction.request"]
    assert '"amount": 3' in asked[0].description
    assert '"why": "because"' in asked[4].description


def test_a_question_that_nobody_answers_ends_the_run_and_says_which() -> None:
    async def asking(turn: FunctionTurn) -> str:
        return str(await turn.ask("Which size?"))

    driven = drive_sync(made(asking), "x", decisions=[{"decision": "expired"}])
    assert driven.status == "failed"
    assert driven.error is not None
    assert "the agent asked 'Which size?' and cannot go on: the question was expired" in driven.error
    assert issubclass(Unanswered, Exception)


def test_pictures_are_passed_on_and_other_files_are_named_in_the_journal() -> None:
    async def seeing(turn: FunctionTurn) -> str:
        return repr(turn.messages[-1]["content"])

    picture = base64.b64encode(b"png").decode()
    given = {
        "text": "look",
        "contents": [
            {"type": "text", "text": "look"},
            {"type": "image_base64", "image_base64": picture, "mime_type": "image/gif"},
            {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
            {"type": "file_url", "file_url": "https://example.com/a.pdf"},
        ],
    }
    driven = drive_sync(made(seeing), given)
    assert f"data:image/gif;base64,{picture}" in driven.text
    assert "https://example.com/a.png" in driven.text
    assert logged(driven) == ["a FileUrlElement was left out: adapters pass text and images on"]


@pytest.mark.parametrize(("size", "seen"), [(MAX_IMAGE_BYTES, True), (MAX_IMAGE_BYTES + 1, False)])
def test_a_stored_picture_is_read_up_to_a_size(size: int, seen: bool) -> None:
    async def seeing(turn: FunctionTurn) -> str:
        content = turn.messages[-1]["content"]
        return "text" if isinstance(content, str) else str(len(content[1]["image_url"]["url"]))

    host = ScriptedHost()
    stored = host.world.artifacts.add(
        "other", b"x" * size, artifact_type="file", mime_type="image/png", name="p.png"
    )
    element = {
        "type": "artifact",
        "artifact_id": stored.artifact_id,
        "mime_type": "image/png",
        "file_name": "p.png",
    }
    driven = host.drive_sync(
        made(seeing), {"text": "look", "contents": [{"type": "text", "text": "look"}, element]}
    )
    assert (driven.text != "text") == seen, driven.error
    assert logged(driven) == (
        [] if seen else [f"image p.png was left out: it has over {MAX_IMAGE_BYTES:,} bytes"]
    )


def test_steers_are_read_where_they_are_asked_for() -> None:
    async def patient(turn: FunctionTurn) -> str:
        steers = await turn.steers()
        return " and ".join([turn.text, *(one["content"] for one in steers)])

    assert (
        drive_sync(made(patient), "tea", steering=["no, coffee", "black"]).text
        == "tea and no, coffee and black"
    )


def test_a_blocking_client_works_in_a_thread_and_says_so_on_the_loop() -> None:
    async def blocking(turn: FunctionTurn) -> str:
        import openai

        client = openai.OpenAI(
            api_key="k", base_url="http://model-door.invalid/v1", http_client=http_client(), max_retries=0
        )

        def ask() -> str:
            stream = client.chat.completions.create(
                model="default", messages=[{"role": "user", "content": "x"}], stream=True
            )
            return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)

        with pytest.raises(openai.APIConnectionError) as caught:
            ask()
        assert "asyncio.to_thread" in str(caught.value.__cause__)
        return await asyncio.to_thread(ask)

    driven = drive_sync(made(blocking), "x", models="in a thread")
    assert (driven.text, driven.error) == ("in a thread", None)


def test_a_client_in_a_thread_reads_whole_answers_and_errors() -> None:
    async def blocking(turn: FunctionTurn) -> str:
        import openai

        client = openai.OpenAI(
            api_key="k", base_url="http://model-door.invalid/v1", http_client=http_client(), max_retries=0
        )

        def ask(model: str) -> str:
            messages: Any = [{"role": "user", "content": "x"}]
            answer = client.chat.completions.create(model=model, messages=messages)
            return answer.choices[0].message.content or ""

        try:
            return await asyncio.to_thread(ask, "another")
        except openai.NotFoundError as error:
            assert error.code == "model_not_found"  # noqa: PT017 - pytest's own failure would end no run
        return await asyncio.to_thread(ask, "default")

    driven = drive_sync(
        made(blocking), "x", models={"main": "all at once"}, config={"model": {"primary": "main"}}
    )
    assert (driven.text, driven.error) == ("all at once", None)
    assert [call.params.model_id for call in driven.calls if call.method == "model.invoke"] == [
        "another",
        "main",
    ]


def test_what_cannot_be_meant_is_refused_where_the_runner_is_made() -> None:
    def plain(turn: Any) -> str:
        return ""

    with pytest.raises(TypeError, match="takes an async function of one argument"):
        made(plain)
    with pytest.raises(ValueError, match="give the agent a name"):
        runner(answering, name=" ")
    with pytest.raises(ValueError, match="from 0 to 1,000"):
        made(answering, history=1_001)
    with pytest.raises(ValueError, match="which every adapter has already"):
        made(answering, config=[{"name": "model", "type": "string"}])
    with pytest.raises(RuntimeError, match="no run is active here"):
        current_run()


def test_wrong_answers_of_the_function_are_named() -> None:
    async def wrong(turn: FunctionTurn) -> Any:
        return 3

    async def wrong_piece(turn: FunctionTurn) -> AsyncIterator[Any]:
        yield 3

    assert "returned a int" in (drive_sync(made(wrong), "x").error or "")
    assert "yielded a int" in (drive_sync(made(wrong_piece), "x").error or "")


def test_a_runner_can_be_derived_from_and_has_a_form() -> None:
    class Mine(made(answering, config=[{"name": "tone", "type": "string", "default": "calm"}])):  # type: ignore[misc]
        permissions = {"models": ["invoke"], "history": ["page"]}

    assert [item["name"] for item in Mine.config] == ["model", "tone"]
    assert drive_sync(Mine, "x", models="ok").text == "ok"
    assert made(answering).__name__ == "Suite"


def test_the_latest_messages_begin_with_a_turn() -> None:
    messages = ["u1", "a", "t", "u2", "a", "t", "t", "u3", "a"]

    def begins(message: str) -> bool:
        return message.startswith("u")

    assert latest(messages, 9, begins) == messages
    assert latest(messages, 6, begins) == messages[3:]
    assert latest(messages, 5, begins) == messages[7:]
    assert latest(messages, 1, begins) == messages[7:]


def test_ids_of_events_are_bounded_and_the_public_face_is_there() -> None:
    async def steered(turn: FunctionTurn) -> str:
        return str(len(await turn.steers()))

    assert drive_sync(made(steered), "x", steering=["s"] * (MAX_EVENTS + 5)).text == str(MAX_EVENTS + 5)
    assert all(hasattr(hostler_adapters, name) for name in hostler_adapters.__all__)
    assert Turn("user", "x").openai == {"role": "user", "content": "x"}
    assert HostTool.__doc__


class Framework:
    """A framework's agent."""


async def test_an_agent_is_given_or_built_by_a_function() -> None:
    ctx: Any = object()
    agent = Framework()

    async def later(_ctx: Any) -> Framework:
        return agent

    for given in (agent, lambda _ctx: agent, later):
        check_agent(given, Framework, "a Framework")
        assert await built_agent(given, Framework, "a Framework", ctx) is agent
    with pytest.raises(TypeError, match="takes a Framework or a function that builds one, not 3; try 4"):
        check_agent(3, Framework, "a Framework", "; try 4")
    with pytest.raises(TypeError, match=r"the function given to runner\(\) built 'text', not a Framework"):
        await built_agent(lambda _ctx: "text", Framework, "a Framework", ctx)
