"""local-agent and results that are too long to show: kept, and read on in by the model, part by part."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_agent.agent import LocalAgent
from local_agent.stored_results import READ_RESULT, whole_characters

from hostler_sdk.errors import NotFound
from hostler_sdk.testing import Driven, ScriptedHost, drive_sync
from support.local_agents import MAIN, asked, made, requests, wish, wishes

LONG = "".join(f"row {n}: größer\n" for n in range(100))
SHORT: dict[str, Any] = MAIN | {"max-tool-result-chars": 400}


def reading(id_: str, **parameters: Any) -> Any:
    return wishes(wish(READ_RESULT, json.dumps(parameters), id_))


def results(driven: Driven) -> list[str]:
    return [content for role, content in asked(driven) if role == "tool"]


def offered(driven: Driven, place: int) -> list[str]:
    return [spec.name for spec in requests(driven)[place].tools]


def test_a_model_reads_a_long_result_part_by_part() -> None:
    turns = [
        wishes(wish("list")),
        reading("r1", artifact_id="a1"),
        reading("r2", artifact_id="a1", offset=400),
        reading("r3", artifact_id="a1", offset=1_000_000),
        "Read.",
    ]
    host = ScriptedHost(models={"main": turns}, tools={"list": lambda: LONG})
    driven = host.drive_sync(LocalAgent, "?", config=SHORT)
    assert driven.text == "Read."
    assert offered(driven, 0) == ["list"]
    assert [offered(driven, n) for n in range(1, 5)] == [["list", READ_RESULT]] * 4
    told, first, second, past = results(driven)
    assert "kept as artifact a1 (list.txt), which can be read on in part by part" in told
    size = len(LONG.encode())
    head, _, text = first.partition("\n")
    assert head == f"[bytes 0 to {len(text.encode())} of {size}; it goes on at offset {len(text.encode())}]"
    assert LONG.startswith(text)
    assert 396 <= len(text.encode()) <= 400
    text = second.partition("\n")[2]
    assert text in LONG
    assert "\ufffd" not in text
    assert past == f"[nothing: the result has {size:,} bytes, and 1,000,000 is past its end]"
    assert made(driven) == [("list", {})]
    reads = [c.params for c in driven.calls if c.method == "artifact.read"]
    assert [(read.offset, read.limit) for read in reads] == [(0, 400), (400, 400), (1_000_000, 400)]
    shown = [r.data.tool_name for r in driven.results if r.type == "tool.call.completed"]  # type: ignore
    assert shown == ["list", READ_RESULT, READ_RESULT, READ_RESULT]


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"artifact_id": "a7"}, "'a7' is no result of this run; there are: a1"),
        ({}, "None is no result of this run"),
        ({"artifact_id": ["a1"]}, "is no result of this run"),
        ({"artifact_id": "a1", "offset": -1}, "offset -1 must be a whole number, 0 or more"),
        ({"artifact_id": "a1", "offset": "10"}, "must be a whole number"),
        ({"artifact_id": "a1", "offset": True}, "must be a whole number"),
    ],
)
def test_only_results_of_this_run_are_read(parameters: dict[str, Any], says: str) -> None:
    host = ScriptedHost(tools={"list": lambda: LONG})
    turns = [wishes(wish("list")), reading("r", **parameters), "ok"]
    driven = host.drive_sync(LocalAgent, "?", config=SHORT, models={"main": turns})
    assert results(driven)[-1].startswith("Error (invalid_argument): ")
    assert says in results(driven)[-1]
    assert not [c for c in driven.calls if c.method == "artifact.read"]


def test_what_the_host_has_thrown_away_is_told_to_the_model() -> None:
    host = ScriptedHost(tools={"list": lambda: LONG})
    host.world.artifacts.read = lambda params: (_ for _ in ()).throw(NotFound("it is gone"))  # type: ignore
    turns = [wishes(wish("list")), reading("r", artifact_id="a1"), "ok"]
    driven = host.drive_sync(LocalAgent, "?", config=SHORT, models={"main": turns})
    assert (driven.text, results(driven)[-1]) == ("ok", "Error (not_found): it is gone")


def test_a_tool_of_that_name_keeps_it() -> None:
    tools = {READ_RESULT: lambda: LONG}
    turns = [
        wishes(wish(READ_RESULT)),
        wishes(wish(f"{READ_RESULT}_2", '{"artifact_id": "a1"}', "r")),
        "ok",
    ]
    driven = drive_sync(LocalAgent, "?", config=SHORT, models={"main": turns}, tools=tools)
    assert offered(driven, 1) == [READ_RESULT, f"{READ_RESULT}_2"]
    assert made(driven) == [(READ_RESULT, {})]
    assert results(driven)[-1].startswith("[bytes 0 to ")


def test_what_is_offered_counts() -> None:
    """In a window that is nearly full the new function is counted with the rest."""
    config = SHORT | {"context-window-tokens": 600}
    host = ScriptedHost(models={"main": [wishes(wish("list")), "ok"]}, tools={"list": lambda: LONG})
    driven = host.drive_sync(LocalAgent, "word " * 150, config=config)
    counted = [c.params.tools for c in driven.calls if c.method == "model.count_tokens" and c.params.tools]
    assert [[spec.name for spec in tools] for tools in counted] == [["list"], ["list", READ_RESULT]]


def test_nothing_is_offered_where_the_host_lets_nothing_be_read() -> None:
    apis = {"context": {"available_apis": {"artifact_read": False}}}
    models = {"main": [wishes(wish("list")), reading("r", artifact_id="a1"), "ok"]}
    driven = drive_sync(
        LocalAgent, "?", config=SHORT, models=models, tools={"list": lambda: LONG}, context=apis
    )
    assert offered(driven, 1) == ["list"]
    told, refused = results(driven)
    assert "kept as artifact a1 (list.txt); a part of it" in told
    assert "there is no tool 'read_result'; there are: list" in refused


@given(st.text(min_size=1, max_size=40), st.integers(0, 60), st.integers(16, 30))
def test_parts_hold_whole_characters_and_leave_none_out(text: str, begin: int, most: int) -> None:
    data = text.encode()
    read, offset = "", begin
    while offset < len(data):
        part, start, end = whole_characters(data[offset : offset + most], offset)
        assert part.encode() == data[start:end]
        assert start - offset < 4
        assert end > offset
        read, offset = read + part, end
    assert text.endswith(read)
