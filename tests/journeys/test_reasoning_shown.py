"""A model's thinking, shown to who watches a run: streamed and stored with the run, in no history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hostler.cli.run_output import Show
from hostler.domain.caller_history import with_history
from hostler.journal.feed import StoredResult
from hostler_protocol.content import HistoryMessage
from support.agent_host import ask, hosting
from support.grants import event_of
from support.http_host import Event
from support.model_answers import Answer
from support.model_server import ModelServer
from support.stepping import stage, within

THOUGHT = ["She asks ", "for the answer."]


def parts(found: list[Event], kind: str, part: str) -> list[dict[str, Any]]:
    return [json.loads(one.data)["data"][part] for one in found if one.type == kind]


@pytest.mark.parametrize("shown", [False, True], ids=["by default", "asked for"])
async def test_local_agent_shows_it_where_it_is_asked_for(tmp_path: Path, shown: bool) -> None:
    config = {"show_reasoning": True} if shown else {}
    async with (
        ModelServer(api_key="k") as server,
        hosting(tmp_path / "data", server, config=config) as served,
    ):
        server.add(Answer(pieces=["4", "2"], reasoning=THOUGHT))
        found = await ask(served, "what?")
        deltas = parts(found, "message.delta", "chunk")
        (said,) = parts(found, "message.completed", "message")
        assert "".join(one["content"] for one in deltas) == said["content"] == "42"
        thought = [one["reasoning"] for one in deltas if "reasoning" in one]
        assert (thought, said.get("reasoning")) == ((THOUGHT, "".join(THOUGHT)) if shown else ([], None))
        run_id = json.loads(found[0].data)["run_id"]
        record = (await served.client.get(f"/v1/runs/{run_id}")).json()
        assert record["output"]["text"] == "42"
        for path in ("/v1/conversations/c/history", "/v1/conversations/c/search?q=asks"):
            assert "She asks" not in (await served.client.get(path)).text
        server.say("43")
        await ask(served, "and now?")
        assert "She asks" not in json.dumps(server.requests[-1].json["messages"])


async def test_a_runner_s_thinking_is_in_its_results_alone(tmp_path: Path, database_url: str) -> None:
    url = database_url if database_url.startswith("postgres") else None
    said = {"role": "assistant", "content": "42", "reasoning": "I think"}
    steps = [
        ["result", "message.delta", {"chunk": {"role": "assistant", "content": "", "reasoning": "I "}}],
        ["result", "message.completed", {"message": said}],
        ["call", "history.page", {}],
        ["result", "message.delta", {"chunk": {"role": "assistant", "content": "", "reasoning": 7}}],
        ["result", "message.completed", {"message": {**said, "reasoning": "x" * 65_537}}],
        ["result", "run.completed", {"finish_reason": "stop", "message": {**said, "content": "bye"}}],
    ]
    async with within(), stage(tmp_path / "data", database=url) as host:
        ended = await host.run(steps, conversation_id="c")
        assert ended.types[:2] == ["message.delta", "message.completed"]
        assert ended.results[0]["data"]["chunk"]["reasoning"] == "I "
        assert ended.results[1]["data"]["message"]["reasoning"] == "I think"
        assert ended.last["message"]["reasoning"] == "I think"
        assert len([one for one in ended.warnings if "reasoning" in one]) == 2, ended.warnings
        search = ["call", "history.search", {"query": "think", "filters": {"role": "assistant"}}]
        (hits,) = (await host.run([search, ["tell"]], conversation_id="c")).told
        assert hits["items"] == []
        (page,) = (
            await host.run(
                [["call", "history.page", {"direction": "forward"}], ["tell"]], conversation_id="c"
            )
        ).told
        assert [item["content"] for item in page["items"]][1:3] == ["42", "bye"]
        said_items = [item["content_json"] for item in page["items"] if item["role"] == "assistant"][:2]
        assert [set(item) for item in said_items] == [{"role", "content", "message_id"}] * 2


def test_a_history_of_a_caller_brings_none() -> None:
    brought = HistoryMessage(role="assistant", content="42", reasoning="made up")
    _, _, (kept,) = with_history(event_of(), [], [brought])
    assert (kept.content, kept.reasoning) == ("42", None)


def test_the_command_line_dims_it_at_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def result(sequence: int, content: str, reasoning: str | None = None) -> StoredResult:
        chunk = {"role": "assistant", "content": content}
        if reasoning is not None:
            chunk["reasoning"] = reasoning
        body = {"run_id": "r", "type": "message.delta", "sequence": sequence, "data": {"chunk": chunk}}
        return StoredResult(sequence, "message.delta", json.dumps(body).encode())

    for is_terminal in (False, True):
        monkeypatch.setattr("sys.stderr.isatty", lambda is_terminal=is_terminal: is_terminal, raising=False)
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm")
        show = Show()
        for one in (result(1, "", "hm\x1b[2J, "), result(2, "", "so"), result(3, "42")):
            show.result(one)
        show.end()
        shown = capsys.readouterr()
        assert shown.out == "42\n"
        assert ("hm" in shown.err) == is_terminal
        if is_terminal:
            assert "\x1b[2m" in shown.err
            assert "\x1b[2J" not in shown.err
            assert shown.err.endswith("\n")
