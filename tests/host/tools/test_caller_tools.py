"""What an event may bring as tools of its sender: names, schemas, number and size."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from hostler.domain.caller_tools import all_of, check_caller_tools, within_bounds
from hostler.domain.events import Caller
from hostler.domain.ingest import event_of
from hostler.tools.caller_tools import check_schemas
from hostler_protocol.errors import InvalidArgumentError, PayloadTooLargeError
from hostler_protocol.events import CallerTool, EventEnvelope
from hostler_protocol.limits import MAX_CALLER_TOOLS


def accepted(*tools: dict[str, Any]) -> list[CallerTool]:
    """The tools of an event that passes every check of its input."""
    body = {"event_type": "message.received", "input": {"text": "hi", "tools": list(tools)}}
    event, _ = event_of(msgspec.convert(body, EventEnvelope), Caller("main", "ada", "key"), 0)
    given = event.envelope.input.tools
    asyncio.run(check_schemas(given))
    return given


@pytest.mark.parametrize(
    ("tool", "wrong"),
    [
        ({"name": ""}, r"tools\[0\]\.name ''"),
        ({"name": "a b"}, r"tools\[0\]\.name 'a b'"),
        ({"name": ".hidden"}, r"tools\[0\]\.name"),
        ({"name": "a" * 65}, r"at most 64"),
        ({"name": "a\u202eb"}, r"tools\[0\]\.name"),
        ({"name": "a\n"}, r"tools\[0\]\.name"),
        ({"name": "a", "parameters": {"type": "string"}}, "must be of an object"),
        ({"name": "a", "parameters": {"type": ["object", "null"]}}, "must be of an object"),
        ({"name": "a", "parameters": {"properties": {"x": {"type": "objekt"}}}}, "cannot be used"),
        ({"name": "a", "parameters": {"properties": {"x": {"$ref": "http://evil/x"}}}}, "outside of itself"),
        ({"name": "a", "parameters": {"properties": {"x": {"$ref": "file:///etc/passwd"}}}}, "outside of"),
        ({"name": "a", "parameters": {"$ref": "#"}}, "refers to itself"),
        (
            {"name": "a", "parameters": {"properties": {"x": {"pattern": "(a{999}){999}"}}}},
            "cannot be used",
        ),
    ],
)
def test_hostile_names_and_schemas_are_refused(tool: dict[str, Any], wrong: str) -> None:
    with pytest.raises(InvalidArgumentError, match=wrong):
        accepted(tool)


def test_a_schema_nested_without_end_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100):
        schema = {"properties": {"x": schema}}
    with pytest.raises(InvalidArgumentError, match="nested"):
        accepted({"name": "a", "parameters": schema})


def test_names_of_common_clients_are_taken() -> None:
    names = ["get_weather", "get-weather", "mcp__server__tool", "_private", "2fa", "-x", "files.read"]
    assert [tool.name for tool in accepted(*({"name": name} for name in names))] == names


def test_there_are_bounds() -> None:
    most = [{"name": f"t{number}"} for number in range(MAX_CALLER_TOOLS)]
    assert len(accepted(*most)) == MAX_CALLER_TOOLS
    large = {"name": "a", "parameters": {"description": "x" * 65_536}}
    half = {"parameters": {"description": "x" * 60_000}}
    for tools, wrong in (
        ([*most, {"name": "one-more"}], "has 129 tools; at most 128"),
        ([large], r"'a'\) has 65,\d+ bytes"),
        ([{"name": f"t{n}", **half} for n in range(5)], "bytes of JSON; at most 262,144"),
        ([{"name": "a", "description": "x" * 8_001}], "description has 8,001 characters"),
    ):
        with pytest.raises(PayloadTooLargeError, match=wrong):
            accepted(*tools)
    with pytest.raises(InvalidArgumentError, match="'a' appears twice"):
        accepted({"name": "a"}, {"name": "a"})
    with pytest.raises(msgspec.ValidationError, match="strict"):
        accepted({"name": "a", "strict": True})


def test_a_turn_keeps_the_newest_that_one_run_may_have() -> None:
    def tools(start: int, count: int, description: str) -> list[CallerTool]:
        return [CallerTool(name=f"t{n}", description=description) for n in range(start, start + count)]

    notes: list[str] = []
    kept = within_bounds(all_of([tools(0, 100, "old"), tools(50, 100, "new")]), notes)
    check_caller_tools(list(kept.values()))
    assert len(kept) == MAX_CALLER_TOOLS
    assert [one.description for one in kept.values()] == ["new"] * 100 + ["old"] * 28
    assert len(notes) == 22
    assert "'t28' of the caller is left out" in notes[0]
