"""`@tool`: the manifest, schema and calls of a function."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import msgspec
import pytest

from hostler_sdk import InvalidArgument, ToolContext, tool

CTX = ToolContext(run_id="r", call_id="c", effect_key="k")


class Guest(msgspec.Struct):
    name: str
    age: int | None = None


@tool(effect="reconcilable")
async def book(
    seat: str,
    nights: Annotated[int, msgspec.Meta(ge=1)] = 1,
    kind: Literal["single", "double"] = "single",
    guests: list[Guest] = [],  # noqa: B006 - a copy is made for each call
    *,
    ctx: ToolContext,
) -> dict[str, Any]:
    """Books a seat.

    Only for tonight.

    seat: the seat's name, like 12C
    nights: how many
    """
    guests.append(Guest("added"))
    return {"seat": seat, "nights": nights, "kind": kind, "guests": guests, "key": ctx.effect_key}


@book.lookup
async def booked(effect_key: str) -> Any:
    return {"seat": "1A"} if effect_key == "known" else None


def test_signature_and_docstring_become_json_schema() -> None:
    assert book.name == "book"
    assert book.description == "Books a seat.\n\nOnly for tonight."
    assert book.parameters == {
        "type": "object",
        "properties": {
            "seat": {"type": "string", "description": "the seat's name, like 12C"},
            "nights": {"type": "integer", "minimum": 1, "default": 1, "description": "how many"},
            "kind": {"enum": ["double", "single"], "default": "single"},
            "guests": {"type": "array", "items": {"$ref": "#/$defs/Guest"}},
        },
        "required": ["seat"],
        "additionalProperties": False,
        "$defs": {
            "Guest": {
                "title": "Guest",
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "age": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
                },
                "required": ["name"],
            }
        },
    }


def test_parameters_are_checked_and_typed() -> None:
    async def body() -> None:
        given = {"seat": "1A", "guests": [{"name": "Ada"}]}
        first = await book.invoke(given, CTX)
        assert first["guests"] == [Guest("Ada"), Guest("added")]
        assert (first["nights"], first["kind"], first["key"]) == (1, "single", "k")
        for _ in range(2):  # a mutable default is fresh each time
            assert (await book.invoke({"seat": "1A"}, CTX))["guests"] == [Guest("added")]

    asyncio.run(body())


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({}, "missing required field `seat`"),
        ({"seat": 1}, "Expected `str`, got `int` - at `$.seat`"),
        ({"seat": "a", "nights": 0}, "Expected `int` >= 1"),
        ({"seat": "a", "kind": "triple"}, "Invalid enum value 'triple'"),
        ({"seat": "a", "extra": 1}, "unknown field `extra`"),
        ({"seat": "a", "ctx": {}}, "unknown field `ctx`"),  # nobody sets the context from outside
    ],
)
def test_wrong_parameters_are_named(parameters: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        asyncio.run(book.invoke(parameters, CTX))
    assert says in caught.value.message
    assert caught.value.message.startswith("book: ")


def test_a_reconcilable_tool_tells_what_came_of_a_call() -> None:
    assert asyncio.run(book.outcome_of("known")) == {"seat": "1A"}
    assert asyncio.run(book.outcome_of("unknown")) is None


def test_plain_functions_and_client_tools() -> None:
    @tool
    def add(a: int, b: int = 2) -> int:
        """Adds."""
        return a + b

    @tool(client=True, approval="required")
    def locate(precision: float) -> dict[str, float]:
        """Where the client is."""
        raise AssertionError("runs on the client")

    assert add(1) == 3  # still a function
    assert asyncio.run(add.invoke({"a": 1, "b": 5}, CTX)) == 6
    assert (add.effect, add.client, add.approval) == ("default", False, None)
    assert (locate.client, locate.approval) == (True, "required")
    assert locate.parameters["required"] == ["precision"]
    with pytest.raises(InvalidArgument, match="runs on the client"):
        asyncio.run(locate.invoke({"precision": 1.0}, CTX))
    with pytest.raises(InvalidArgument, match="has no lookup"):
        asyncio.run(add.outcome_of("k"))


def test_a_wrong_declaration_is_refused_where_it_stands() -> None:
    def anything(*names: str) -> None:
        pass

    def plain(a: int) -> None:
        pass

    with pytest.raises(TypeError, match=r"tool anything: \*names"):
        tool(anything)
    with pytest.raises(ValueError, match="effect 'sometimes' is unknown; it is one of default, pure"):
        tool(effect="sometimes")(plain)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="approval can only be"):
        tool(approval="never")(plain)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r'plain\.lookup needs @tool\(effect="reconcilable"\)'):
        tool(plain).lookup(booked)
