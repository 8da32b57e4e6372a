"""Every action of a plugin, by the proxies of LangBot's real SDK, against a scripted host."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from hostler_langbot import context
from hostler_langbot.actions import ACTIONS
from hostler_protocol.content import FunctionCall, ModelMessage, ProviderData, ToolCall, Usage
from hostler_sdk import RuntimeFailure
from hostler_sdk.testing import ScriptedHost
from support.langbot_plugins import started, steps, told

pytestmark = pytest.mark.timeout(600)  # the SDK is installed
USER = {"role": "user", "content": "hi"}
WISH = ModelMessage(
    role="assistant",
    content="Let me <think>hm</think>look.",
    reasoning="I wonder",
    tool_calls=[
        ToolCall(
            id="c1",
            function=FunctionCall(name="price", arguments='{"thing": "lamp"}'),
            provider_data=ProviderData(source="s", fields={"signature": "x"}),
        )
    ],
    provider_data=ProviderData(source="s", fields={"id": "m"}),
)


def api(name: str, **arguments: Any) -> tuple[str, str, dict[str, Any]]:
    return ("api", name, arguments)


async def test_models_are_called_and_what_they_need_comes_back(tmp_path: Path) -> None:
    host = ScriptedHost(
        models={"main": [WISH, WISH, "Twelve.", RuntimeFailure("overloaded", retryable=True)]},
        tools={"price": lambda thing: {"euros": 12}},
    )
    func = {"name": "price", "description": "Price", "human_desc": "", "parameters": {"type": "object"}}
    async with started(tmp_path) as puppet:
        call = {"llm_model_uuid": "main", "messages": [USER], "funcs": [func], "extra_args": {"top_p": 1}}
        driven = await host.drive(
            puppet.runner,
            steps(
                api("count_tokens", llm_model_uuid="main", messages=[USER, USER]),
                api("invoke_llm_with_usage", **call, remove_think=True),
                ("stream", {**call, "remove_think": True}),
                api("invoke_rerank", rerank_model_uuid="main", query="a", documents=["b", "a"], top_k=1),
                api("invoke_embedding", embedding_model_uuid="main", texts=["a"]),
                api("get_tool_detail", tool_name="price"),
                api("call_tool", tool_name="price", parameters={"thing": "lamp"}),
                api("invoke_llm", llm_model_uuid="other", messages=[USER]),
            ),
        )
        tokens, invoked, *streamed = told(driven)
        assert tokens == 2
        message = invoked["message"]
        assert message["content"] == "Let me look."
        assert message["tool_calls"][0]["function"] == {"name": "price", "arguments": '{"thing": "lamp"}'}
        assert invoked["usage"]["completion_tokens"] == 3
        events = [event for event in streamed if isinstance(event, dict)]
        chunks = [event["chunk"] for event in events if event.get("chunk")]
        assert "".join(chunk["content"] for chunk in chunks) == "Let me look."
        assert [chunk["is_final"] for chunk in chunks][-2:] == [False, True]
        assert chunks[-1]["provider_specific_fields"]["finish_reason"] == "tool_calls"
        assert [call["id"] for chunk in chunks for call in chunk["tool_calls"] or []] == ["c1"]
        *_, usage, ranked, vectors, detail, called, other = streamed
        assert usage["usage"]["prompt_tokens"] == 1
        assert ranked == [{"index": 1, "relevance_score": ranked[0]["relevance_score"]}]
        assert len(vectors[0]) == 8
        assert detail["parameters"]["type"] == "object"
        assert called == {"euros": 12}
        assert other["raised"].startswith("PermissionDeniedError")  # of the SDK: it is not in the context
        request = next(c.params for c in driven.calls if c.method == "model.invoke")
        assert (request.tools[0].name, request.extra_args) == ("price", {"top_p": 1})

        # what only the host understands comes back with the message, streamed or not
        for seen in (message, chunks[-1]):
            host.world.script(models={"main": ["Twelve."]})
            calls = [{**call, "provider_specific_fields": None} for call in message["tool_calls"]]
            fields = {"provider_specific_fields": seen["provider_specific_fields"], "tool_calls": calls}
            sent = {"role": "assistant", "content": seen["content"], **fields}
            result = {"role": "tool", "tool_call_id": "c1", "content": "12"}
            again = await host.drive(
                puppet.runner, steps(api("invoke_llm", llm_model_uuid="main", messages=[USER, sent, result]))
            )
            assert told(again)[0]["content"] == "Twelve."
            back = next(c.params for c in again.calls if c.method == "model.invoke").messages
            assert back[1].reasoning == "I wonder"
            assert back[1].provider_data == WISH.provider_data
            assert back[1].tool_calls == WISH.tool_calls
            assert (back[2].role, back[2].tool_call_id) == ("tool", "c1")


async def test_a_call_states_how_much_its_model_thinks(tmp_path: Path) -> None:
    host = ScriptedHost(models={"main": ["Twelve."] * 6})
    taken = {
        "provider_default": {},  # as LangBot's own agent states it in every call
        "enabled": {},
        "disabled": {"reasoning_effort": "none"},
        "high": {"reasoning_effort": "high"},
    }
    call = {"llm_model_uuid": "main", "messages": [USER]}
    async with started(tmp_path) as puppet:
        driven = await host.drive(
            puppet.runner,
            steps(
                *[api("invoke_llm", **call, reasoning_level=level) for level in taken],
                api("invoke_llm", **call, reasoning_level="low", extra_args={"reasoning_effort": "xhigh"}),
                ("stream", {**call, "reasoning_level": "low"}),
            ),
        )
        answers = [one["content"] for one in told(driven)[:5]]
        assert answers == ["Twelve."] * 5
        invoked = [c.params.extra_args for c in driven.calls if c.method == "model.invoke"]
        assert invoked == [*taken.values(), {"reasoning_effort": "xhigh"}]
        (streamed,) = [c.params.extra_args for c in driven.calls if c.method == "model.stream"]
        assert streamed == {"reasoning_effort": "low"}


async def test_errors_of_the_host_are_structured(tmp_path: Path) -> None:
    host = ScriptedHost(models=[RuntimeFailure("overloaded", retryable=True, details={"status": 529})])
    async with started(tmp_path) as puppet:
        driven = await host.drive(
            puppet.runner,
            steps(
                api("invoke_llm", llm_model_uuid="any-model", messages=[USER]),
                api("state_set", scope="planet", key="k", value=1),
                api("get_plugin_storage", key="nothing"),
                api("history_page", before_cursor="c1", after_cursor="c1"),
                api("run_events_page", direction="backward"),
                ("raw", "invoke_llm", {"run_id": "not-mine", "llm_model_uuid": "m", "messages": []}),
                ("raw", "state_get", {"scope": "actor", "key": "k"}),
                ("raw", "get_bots", {}),
                ("raw", "vector_search", {"run_id": "not-mine"}),
            ),
        )
        failed, scope, missing, cursors, backward, foreign, nameless, bots, vectors = told(driven)
        assert failed["error"] == {
            "code": "runtime_error",
            "message": "overloaded",
            "retryable": True,
            "details": {"status": 529},
        }
        assert scope["error"]["code"] == "invalid_argument"
        assert missing["error"]["code"] == "not_found"
        assert cursors["error"]["code"] == "invalid_argument"
        assert "forward" in backward["error"]["message"]
        for refused in (foreign, nameless, bots, vectors):
            assert refused["data"]["error"]["code"] == "unauthorized", refused
        assert "'not-mine' is no run at work in this plugin" in foreign["data"]["error"]["message"]
        assert "needs the run's run_id" in nameless["data"]["error"]["message"]


async def test_an_action_that_the_host_does_not_have_is_named(tmp_path: Path) -> None:
    async with started(tmp_path) as puppet:
        host = ScriptedHost()
        calls: list[tuple[str, dict[str, Any]]] = [
            ("vector_search", {"run_id": "r"}),
            ("state_get", {"run_id": "r", "scope": 7}),
            (
                "run_append_result",
                {"run_id": "r", "result": {"type": "log", "data": {}}},
            ),
            ("run_finalize", {"run_id": "r", "status": "completed", "reason": "done"}),
        ]
        text = steps(*(("raw", *call) for call in calls))
        driven = await host.drive(puppet.runner, text, context={"run_id": "r"})
        unknown, wrong, appended, finalized = told(driven)
        assert (appended["type"], finalized["run_id"]) == ("log", "r")
        assert unknown["data"]["error"]["code"] == "invalid_argument"
        assert "no action 'vector_search'; it has call_tool, " in unknown["data"]["error"]["message"]
        assert wrong["data"]["error"]["message"] == "Expected `str`, got `int` - at `$.scope`"


async def test_facts_state_and_storage(tmp_path: Path) -> None:
    host = ScriptedHost(
        history=["Hello", "Hi Ada"],
        knowledge={"house": ["Dogs are welcome.", "The pool closes at nine."]},
        steering=["and in dollars?", "and in yen?"],
        prompt=[{"role": "system", "content": "Be brief."}],
    )
    async with started(tmp_path) as puppet:
        driven = await host.drive(
            puppet.runner,
            steps(
                api("history_page", limit=1, include_attachments=True),
                api("history_page", direction="forward"),
                api("history_search", query="ada"),
                api("event_get", event_id="e"),
                api("event_page", event_types=["message.received"]),
                api("retrieve_knowledge", kb_id="house", query_text="dogs", top_k=1),
                api("steering_pull", mode="one"),
                api("steering_pull"),
                api("get_prompt"),
                api("state_set", scope="conversation", key="a.b", value={"x": [1, None]}),
                api("state_get", scope="conversation", key="a.b"),
                api("state_list", scope="conversation", prefix="a."),
                api("state_delete", scope="conversation", key="a.b"),
                api("state_get", scope="conversation", key="a.b"),
                api("set_plugin_storage", key="k", value="bytes", bytes=True),
                api("get_plugin_storage", key="k"),
                api("get_plugin_storage_keys"),
                api("delete_plugin_storage", key="k"),
                api("set_workspace_storage", key="w", value="more", bytes=True),
                api("get_workspace_storage", key="w"),
                api("get_workspace_storage_keys"),
                api("delete_workspace_storage", key="w"),
                api("run_get"),
                api("run_list"),
                api("run_events_page"),
                api("run_get", run_id="another"),
                api("run_cancel", run_id="another", reason="enough"),
                api("get_langbot_version"),
            ),
        )
        found = iter(told(driven))
        newest, forward, search, event, events, passages = (next(found) for _ in range(6))
        assert [item["content"] for item in newest["items"]] == ["Hi Ada"]
        assert newest["has_more"]
        assert newest["items"][0]["content_json"] == {"role": "assistant", "content": "Hi Ada"}
        assert [item["role"] for item in forward["items"]] == ["user", "assistant"]
        assert (search["query"], search["total_count"], len(search["items"])) == ("ada", 1, 1)
        assert event["event_type"] == "message.received"
        assert len(events["items"]) == 1
        assert passages[0]["content"] == [{"type": "text", "text": "Dogs are welcome."}]
        assert passages[0]["distance"] == pytest.approx(1 - passages[0]["score"])
        one, rest, prompt = (next(found) for _ in range(3))
        assert [item["input"]["text"] for item in one["items"] + rest["items"]] == [
            "and in dollars?",
            "and in yen?",
        ]
        assert (prompt[0]["role"], prompt[0]["content"]) == ("system", "Be brief.")
        assert next(found)["success"]
        assert next(found) == {"value": {"x": [1, None]}}
        assert next(found) == {"keys": ["a.b"], "has_more": False}
        assert next(found) == {"success": True}
        assert next(found) == {"value": None}
        assert [next(found) for _ in range(4)] == [None, "bytes", ["k"], None]
        assert [next(found) for _ in range(4)] == [None, "more", ["w"], None]
        own, runs, journal, another, cancelled, version = found
        assert (own["status"], own["cancel_requested_at"]) == ("running", None)
        assert (len(runs["items"]), runs["total_count"], journal["items"]) == (1, 0, [])
        assert (another["status"], cancelled["status"]) == ("running", "running")
        assert version == "scripted"
        assert sum(call.method == "run.get" for call in driven.calls) == 1  # that of the run itself is free


def test_every_action_of_the_table_is_here() -> None:
    listed = """run_get get_prompt get_tool_detail call_tool retrieve_knowledge_base invoke_rerank
    count_tokens invoke_llm history_page history_search state_get state_set state_delete state_list
    steering_pull event_get
    event_page set_plugin_storage get_plugin_storage delete_plugin_storage get_plugin_storage_keys
    set_workspace_storage get_workspace_storage delete_workspace_storage get_workspace_storage_keys run_list
    run_events_page run_cancel run_append_result run_finalize get_langbot_version"""
    assert set(listed.split()) - ACTIONS.keys() == set()


async def test_the_context_is_what_the_sdk_accepts(tmp_path: Path) -> None:
    host = ScriptedHost(models="x", tools={"price": 12}, states={"actor": {"name": "Ada"}})
    picture = base64.b64encode(b"a picture").decode()
    shelf = host.world.artifacts
    added = shelf.add("r", b"a stored one", artifact_type="image", mime_type="image/png", name="p")
    stored = added.artifact_id
    other_file = {"artifact_type": "file", "mime_type": "text/plain", "name": "l.txt"}
    listed = shelf.add("r", b"only listed", **other_file).artifact_id
    parts = {
        "trigger": {"type": "message.received", "source": "webhook", "timestamp": 1.5},
        "event": {"event_id": "e", "event_type": "message.received", "event_time": 2.5, "raw_ref": "raw"},
        "delivery": {"surface": "chat", "reply_target": "here", "supports_streaming": True},
        "subject": {"subject_type": "group", "subject_id": "g"},
        "adapter": {"extra": {"params": {"a": 1}}},
        "resources": {
            **context.plain(host.world.resources),
            "models": [
                {"model_id": "x", "operations": ["invoke", "embed"]},
                {"model_id": "e", "operations": ["embed"]},
            ],
        },
    }
    given = {
        "text": steps(("context",)),
        "contents": [
            {"type": "text", "text": "see"},
            {"type": "image_base64", "image_base64": picture, "mime_type": "image/jpeg"},
            {"type": "artifact", "artifact_id": stored, "mime_type": "image/png"},
            {"type": "artifact", "artifact_id": "gone", "mime_type": "application/pdf", "file_name": "a.pdf"},
            {"type": "file_url", "file_url": "https://x.example/a", "file_name": "a"},
        ],
        "attachments": [
            {"artifact_id": stored, "mime_type": "image/png", "name": "p", "size_bytes": 12},
            {"artifact_id": listed},
        ],
    }
    async with started(tmp_path) as puppet:
        driven = await host.drive(puppet.runner, given, context=parts, config={"tone": "dry"})
    (seen,) = told(driven)
    assert (seen["trigger"]["source"], seen["trigger"]["timestamp"]) == ("api", 1)
    assert (seen["event"]["event_time"], seen["event"]["raw_ref"]["ref_id"]) == (2, "raw")
    assert seen["delivery"]["reply_target"] == {"target": "here"}
    assert seen["subject"]["subject_id"] == "g"
    assert seen["adapter"] == {"extra": {"params": {"a": 1}}}
    assert [model["model_id"] for model in seen["resources"]["models"]] == ["x"]
    assert seen["resources"]["models"][0]["operations"] == ["invoke"]
    assert [tool["tool_name"] for tool in seen["resources"]["tools"]] == ["price"]
    assert seen["state"]["actor"] == {"name": "Ada"}
    assert seen["config"] == {"tone": "dry"}
    apis = seen["context"]["available_apis"]
    assert apis["prompt_get"]
    assert apis["steering_pull"]
    assert not apis["box"]
    assert seen["runtime"]["langbot_version"] == "scripted"
    assert seen["runtime"]["metadata"]["streaming_supported"] is True
    _, inline, fetched, reference, link, other = seen["input"]["contents"]
    assert inline["image_base64"] == f"data:image/jpeg;base64,{picture}"
    assert fetched["image_base64"] == f"data:image/png;base64,{base64.b64encode(b'a stored one').decode()}"
    assert (reference["file_url"], reference["file_name"]) == ("artifact:gone", "a.pdf")
    assert link["file_url"] == "https://x.example/a"
    assert other["file_base64"] == f"data:text/plain;base64,{base64.b64encode(b'only listed').decode()}"
    files = seen["input"]["attachments"]
    assert [one.get("ref") for one in files] == [None, stored, "gone", None, listed]
    data = [inline["image_base64"], fetched["image_base64"], None, None, other["file_base64"]]
    assert [one.get("content") for one in files] == data
    assert [one.get("url") for one in files] == [None, None, None, "https://x.example/a", None]
    assert (files[1]["name"], files[4]["name"]) == ("p", "l.txt")


async def test_two_runs_are_at_work_at_once(tmp_path: Path) -> None:
    async with started(tmp_path) as puppet, asyncio.timeout(60):
        one, two = await asyncio.gather(
            *(
                ScriptedHost(states={"actor": {"who": who}}).drive(
                    puppet.runner,
                    steps(("meet", "middle"), api("state_get", scope="actor", key="who"), ("delta", who)),
                )
                for who in ("ada", "bob")
            )
        )
        assert (told(one), told(two)) == ([{"value": "ada"}], [{"value": "bob"}])


async def test_what_a_plugin_yields_becomes_results(tmp_path: Path) -> None:
    async with started(tmp_path) as puppet:
        driven = await ScriptedHost(tools={"price": 12}).drive(
            puppet.runner,
            steps(
                ("log", "beginning"),
                ("tool", "own"),
                ("traced", "price", {}),
                ("state", "k", {"x": 1}),
                ("unknown",),
                ("delta", "a"),
                ("delta", " b"),
                ("done",),
            ),
        )
        types = [result.type for result in driven.results]
        assert types.count("tool.call.started") == types.count("tool.call.completed") == 2
        assert driven.usage == Usage(input_tokens=3, output_tokens=4, total_tokens=7)
        assert (driven.text, driven.warnings) == ("a b", [])
        assert "state.updated" in types
        logs = [result.data.text for result in driven.results if result.type == "log"]  # type: ignore[union-attr]
        assert logs[0] == "beginning"
        assert "'puppet.dance'" in logs[1]


async def test_failures_are_told_as_the_plugin_states_them(tmp_path: Path) -> None:
    async with started(tmp_path) as puppet:
        host = ScriptedHost()
        raised = await host.drive(puppet.runner, steps(("delta", "so far"), ("raise", "no luck")))
        assert (raised.status, raised.code) == ("failed", "runner.exception")
        assert "no luck" in str(raised.error)
        failed = await host.drive(puppet.runner, steps(("fail", "I will not")))
        assert (failed.code, failed.error) == ("puppet.unwilling", "I will not")
        silent = await host.drive(puppet.runner, steps(("log", "nothing to say")))
        assert silent.status == "completed"  # the SDK completes it
        large = await host.drive(
            puppet.runner, {"text": "x", "contents": [{"type": "text", "text": "é" * 3_000_000}]}
        )
        assert (large.status, large.code) == ("failed", "runner.error")
        assert "at most 16,777,216 are possible" in str(large.error)
        well = await host.drive(puppet.runner, "Ada")
        assert well.text == "Hello, Ada"


async def test_a_cancelled_run_is_cancelled_in_the_plugin(tmp_path: Path) -> None:
    async with started(tmp_path) as puppet:
        host = ScriptedHost()
        for step in ("wait", "stubborn", "until-cancelled"):
            text = steps(("delta", "so far"), (step,))
            driven = await host.drive(
                puppet.runner, text, cancel_on=lambda result: result.type == "message.delta"
            )
            assert driven.status == "cancelled", step
            assert puppet.bridge.runs == {}
        assert (await host.drive(puppet.runner, "Ada")).text == "Hello, Ada"


async def test_large_and_many_messages_pass_both_ways(tmp_path: Path) -> None:
    async with started(tmp_path) as puppet:
        host = ScriptedHost()
        value = '"é\\' * 20_000
        text = steps(
            api("state_set", scope="actor", key="k", value=value), api("state_get", scope="actor", key="k")
        )
        assert told(await host.drive(puppet.runner, text))[1] == {"value": value}
        many = [f"w{number} " for number in range(500)]
        driven = await host.drive(puppet.runner, steps(*(("delta", word) for word in many)), credit=3)
        assert driven.text == "".join(many)


async def test_the_earlier_generation_runs_on_the_published_sdk(tmp_path: Path) -> None:
    async with started(tmp_path, "earlier") as puppet:
        host = ScriptedHost(tools={"price": 12})
        driven = await host.drive(puppet.runner, "hello")
        chunks = [r.data.chunk.content for r in driven.results if r.type == "message.delta"]  # type: ignore[union-attr]
        assert (chunks, driven.text) == (["You ", "said ", "hello."], "You said hello.")
        assert (await host.drive(puppet.runner, "tool price")).text == '{"result": 12}'
