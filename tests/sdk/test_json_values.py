"""Values that JSON cannot carry are refused where the author's code stands; others arrive as given."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import math
import pathlib
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler_protocol.json_values import json_problem
from hostler_protocol.limits import MAX_JSON_DEPTH
from hostler_sdk import (
    Conflict,
    InvalidArgument,
    Result,
    RunContext,
    Runner,
    action,
    artifact,
    completed,
    delta,
    failed,
    log,
    message,
    paused,
    state_updated,
    tool,
    tool_completed,
    tool_started,
)
from hostler_sdk.runner import ManifestError
from hostler_sdk.testing import ScriptedHost, drive_sync
from hostler_sdk.types import ModelMessage, TextElement
from support.driven import of


class Colour(enum.Enum):
    RED = 1


class Plain(enum.StrEnum):
    RED = "red"


class Point(NamedTuple):
    x: int


@dataclasses.dataclass
class Booking:
    room: str
    nights: set[int] = dataclasses.field(default_factory=set)


class Guest(msgspec.Struct):
    name: str


class Odd(str):
    __slots__ = ()


async def coroutine() -> int:
    return 1


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


CYCLE: list[Any] = []
CYCLE.append(CYCLE)

BAD: list[tuple[Any, str]] = [
    (math.nan, "is nan"),
    (math.inf, "is inf"),
    (-math.inf, "is -inf"),
    ({1, 2}, "is a set: use a list, like sorted(...)"),
    (frozenset({1}), "is a frozenset: use a list"),
    (b"x", "is bytes: use text, base64 or an artifact"),
    (bytearray(b"x"), "is a bytearray: use text"),
    (datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), "is a datetime: use .isoformat() or .timestamp()"),
    (datetime.date(2026, 1, 2), "is a date: use .isoformat()"),
    (datetime.timedelta(1), "is a timedelta: use .total_seconds()"),
    (decimal.Decimal("1.5"), "is a Decimal: use str() or float()"),
    (uuid.UUID(int=1), "is a UUID: use str()"),
    (pathlib.Path("a"), "use str()"),
    (Colour.RED, "is a Colour: use .value"),
    (Odd("a"), "is an Odd: use str()"),
    (Point(1), "is a Point: use ._asdict()"),
    (Booking("1"), "is a Booking: use dataclasses.asdict()"),
    (Guest("Ada"), "is a Guest: use msgspec.to_builtins()"),
    (object(), "is an object: use None, bool, int, float, str, list or dict"),
    (deque([1]), "is a deque: use list()"),
    (range(3), "is a range: use list()"),
    (2**64, "is an integer of 65 bits: at most 64 are carried, use text"),
    (-(2**63) - 1, "is an integer of 64 bits and a sign"),
    ("a\ud83d", "holds half a surrogate pair"),
    ({1: 2}, "has the key 1: keys are text, use '1'"),
    ({None: 2}, "has the key None: keys are text"),
    ({"\udc00": 2}, "has a key that holds half a surrogate pair"),
    (CYCLE, f"holds itself, or is nested more than {MAX_JSON_DEPTH} deep"),
    (nested(MAX_JSON_DEPTH), "nested more than"),
    (msgspec.Raw(b"NaN"), "is a Raw that is not JSON"),
]
GOOD: list[Any] = [
    None,
    True,
    2**64 - 1,
    -(2**63),
    1.5,
    -0.0,
    "é\U0001f600\x00",
    [1, [2]],
    {"a": {"b": []}},
    OrderedDict(a=1),
    nested(MAX_JSON_DEPTH - 1),
]


@pytest.mark.parametrize(("value", "says"), BAD, ids=[says[:30] for _, says in BAD])
def test_what_json_cannot_carry_is_named_by_its_place(value: Any, says: str) -> None:
    assert json_problem(value, "value") is not None
    problem = json_problem({"rooms": [0, {"price": value}]}, "value")
    assert problem is not None
    assert problem.startswith("value['rooms'][1]['price']"[:60])
    assert says in problem
    assert len(problem) < 400


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_what_json_can_carry_arrives_as_it_was(value: Any) -> None:
    assert json_problem(value, "value") is None
    assert msgspec.json.decode(msgspec.json.encode(value)) == value


# -- results -----------------------------------------------------------------------------------------

NAN = {"a": [math.nan]}
RESULTS: list[tuple[Callable[[], Result], str]] = [
    (lambda: state_updated("actor", "k", NAN), "state.updated: value['a'][0] is nan"),
    (lambda: state_updated("actor", "k", {1, 2}), "state.updated: value is a set"),
    (lambda: tool_started("c", "t", NAN), "tool.call.started: parameters['a'][0] is nan"),
    (lambda: tool_completed("c", "t", NAN), "tool.call.completed: result['a'][0] is nan"),
    (lambda: tool_completed("c", "t", error=NAN), "tool.call.completed: error['a'][0] is nan"),
    (lambda: artifact("file", "x", metadata=NAN), "artifact.created: metadata['a'][0] is nan"),
    (lambda: artifact("file", "\ud800"), "artifact(): content holds half a surrogate pair"),
    (lambda: action("a", NAN), "action.requested: target['a'][0] is nan"),
    (lambda: action("a", None, NAN), "action.requested: payload['a'][0] is nan"),
    (lambda: paused([], state=NAN), "run.paused: state['a'][0] is nan"),
    (
        lambda: paused([{"tool_name": "t", "arguments": NAN, "kind": "approval"}]),
        "run.paused: pending[0].arguments['a'][0] is nan",
    ),
    (lambda: delta("a\ud800"), "message.delta: chunk.content holds half a surrogate pair"),
    (lambda: message([TextElement(text="\ud800")]), "message.completed: message.content[0].text holds half"),
    (lambda: completed(message="\ud800"), "run.completed: message.content holds half"),
    (lambda: failed("a.b", "\ud800"), "run.failed: error holds half"),
    (lambda: log("\ud800"), "log: text holds half"),
    (lambda: Result("own.type", {"a": math.nan}), "own.type: data['a'] is nan"),
]


@pytest.mark.parametrize(("make", "says"), RESULTS, ids=[says[:40] for _, says in RESULTS])
def test_a_result_is_refused_where_it_is_made(make: Callable[[], Result], says: str) -> None:
    with pytest.raises(TypeError) as caught:
        make()
    assert says in str(caught.value)


def test_a_result_that_is_spoilt_before_it_leaves_is_refused_too() -> None:
    async def run(ctx: RunContext) -> None:
        value: dict[str, Any] = {}
        result = state_updated("actor", "k", value)
        value["when"] = datetime.date(2026, 1, 2)
        with pytest.raises(TypeError, match=r"state\.updated: value\['when'\] is a date"):
            await ctx.emit(result)
        await ctx.emit(message("done"))

    assert drive_sync(of(run)).text == "done"


@pytest.mark.parametrize("value", GOOD, ids=range(len(GOOD)))
def test_a_result_and_a_state_come_as_they_were_given(value: Any) -> None:
    async def run(ctx: RunContext) -> None:
        await ctx.states.set("actor", "k", value)
        assert await ctx.states.get("actor", "k", "absent") == value
        await ctx.emit(state_updated("actor", "other", value))

    host = ScriptedHost()
    assert host.drive_sync(of(run)).error is None
    assert host.world.snapshot.actor == {"k": value, "other": value}


def test_tuples_and_types_of_the_sdk_are_taken_as_lists_and_objects() -> None:
    async def run(ctx: RunContext) -> None:
        said = ModelMessage(role="user", content="hi")
        await ctx.states.set("actor", "k", {"pair": (1, 2), "said": [said]})
        stored = await ctx.states.get("actor", "k")
        assert stored == {"pair": [1, 2], "said": [{"role": "user", "content": "hi"}]}
        await ctx.states.set("actor", "k", Plain.RED)
        assert await ctx.states.get("actor", "k") == Plain.RED
        wrong: Any = ModelMessage(role="user", tool_calls={1})  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match=r"value\[0\]\.tool_calls is a set"):
            await ctx.states.set("actor", "k", [wrong])
        await ctx.emit(message("done"))

    assert drive_sync(of(run)).text == "done"


# -- calls -------------------------------------------------------------------------------------------


def test_a_call_is_refused_before_it_leaves() -> None:
    async def run(ctx: RunContext) -> None:
        found: list[str] = []
        user = {"role": "user", "content": "hi"}
        for call in (
            ctx.states.set("actor", "k", NAN),
            ctx.tools.call("t", NAN),
            ctx.tools.call("t", {"when": datetime.date(2026, 1, 2)}),
            ctx.models.invoke("m", [user], temperature=math.nan),
            ctx.models.invoke("m", [{"role": "user", "content": "\ud800"}]),
            ctx.models.invoke("m", [user], [{"name": "f", "parameters": {"enum": {1}}}]),
            ctx.knowledge.retrieve("kb", "x", filters=NAN),
            ctx.events.page(event_types={"a"}),  # type: ignore[arg-type]
            ctx.artifacts.upload(b"x", metadata=NAN),
            ctx.storage.plugin.set("k", "\ud800"),
            ctx.runs.create("a", "x", data=NAN),
            ctx.ask("a", fields=[{"name": "f", "type": "number", "default": math.nan}]),
            ctx.call("state.set", scope="actor", key="k", value=b"x"),
        ):
            with pytest.raises(InvalidArgument) as caught:
                await call
            found.append(caught.value.message)
        stream = ctx.models.stream("m", [user], stop={"a"})
        with pytest.raises(InvalidArgument) as caught:
            await anext(aiter(stream))
        found.append(caught.value.message)
        for line in found:
            await ctx.emit(message(line))

    driven = drive_sync(of(run), models="x", tools={"t": 1}, knowledge={"kb": []}, agents={"a": "b"})
    assert driven.error is None
    assert [message_.content for message_ in driven.messages] == [
        "state.set: value['a'][0] is nan: JSON has no such number, use None",
        "tool.call: parameters['a'][0] is nan: JSON has no such number, use None",
        "tool.call: parameters['when'] is a date: use .isoformat()",
        "model.invoke: extra_args['temperature'] is nan: JSON has no such number, use None",
        "model.invoke: messages[0]['content'] holds half a surrogate pair, which UTF-8 cannot write: "
        "use value.encode('utf-8', 'replace').decode()",
        "model.invoke: tools[0]['parameters']['enum'] is a set: use a list, like sorted(...)",
        "knowledge.retrieve: filters['a'][0] is nan: JSON has no such number, use None",
        "event.page: event_types is a set: use a list, like sorted(...)",
        "artifact.upload: metadata['a'][0] is nan: JSON has no such number, use None",
        "storage.set: content holds half a surrogate pair, which UTF-8 cannot write: use "
        "value.encode('utf-8', 'replace').decode()",
        "run.create: data['a'][0] is nan: JSON has no such number, use None",
        "interaction.request: fields[0]['default'] is nan: JSON has no such number, use None",
        "state.set: value is bytes: use text, base64 or an artifact",
        "model.stream: extra_args['stop'] is a set: use a list, like sorted(...)",
    ]
    assert driven.calls == []


def test_the_run_ends_with_the_place_in_the_author_s_code() -> None:
    async def run(ctx: RunContext) -> None:
        await ctx.states.set("actor", "k", {"rooms": [{"price": math.nan}]})

    driven = drive_sync(of(run))
    assert (driven.status, driven.code) == ("failed", "runner.error")
    assert driven.error == (
        "InvalidArgument: state.set: value['rooms'][0]['price'] is nan: JSON has no such number, use None"
    )
    (trace,) = [result.data.text for result in driven.results if result.type == "log"]  # type: ignore[union-attr]
    assert 'await ctx.states.set("actor", "k", {"rooms"' in trace


def test_an_exception_whose_text_no_utf8_can_hold_still_ends_the_run() -> None:
    async def run(ctx: RunContext) -> None:
        raise ValueError("a\ud800b")

    driven = drive_sync(of(run))
    assert (driven.code, driven.error) == ("runner.error", "ValueError: a?b")


# -- tools, forms, scripts -----------------------------------------------------------------------------


@tool
async def broken(kind: str) -> dict[str, Any]:
    """Gives what JSON cannot carry."""
    return {"of": {"nan": math.nan, "set": {1}, "text": "\ud800", "booking": Booking("1")}[kind]}


@tool
async def booking() -> Booking:
    """Gives what it declares."""
    return Booking("1", {2})


@tool
async def raising() -> None:
    """Raises with details that are no JSON."""
    raise Conflict("taken", details={"at": datetime.date(2026, 1, 2)})


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("nan", "the result of broken is not JSON: result['of'] is nan"),
        ("set", "the result of broken is not JSON: result['of'] is a set"),
        ("text", "the result of broken is not JSON: result['of'] holds half a surrogate pair"),
        ("booking", "the result of broken is not JSON: result['of'] is a Booking: use dataclasses.asdict()"),
    ],
)
def test_a_tool_s_result_is_refused_with_its_place(kind: str, says: str) -> None:
    async def run(ctx: RunContext) -> str:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - its text is the point
            await ctx.tools.call("broken", {"kind": kind})
        return str(caught.value)

    assert says in drive_sync(of(run), tools=[broken]).text


def test_a_tool_may_give_what_its_signature_declares() -> None:
    async def run(ctx: RunContext) -> None:
        assert await ctx.tools.call("booking") == {"room": "1", "nights": [2]}
        await ctx.emit(message("done"))

    assert drive_sync(of(run), tools=[booking]).text == "done"


def test_details_of_an_error_are_checked_where_it_is_raised() -> None:
    with pytest.raises(TypeError, match=r"details\['at'\] is a date"):
        Conflict("taken", details={"at": datetime.date(2026, 1, 2)})

    async def run(ctx: RunContext) -> str:
        with pytest.raises(Exception, match=r"details\['at'\] is a date"):
            await ctx.tools.call("raising")
        return "done"

    assert drive_sync(of(run), tools=[raising]).text == "done"


def test_scripted_answers_are_checked_like_those_of_a_host() -> None:
    async def run(ctx: RunContext) -> str:
        with pytest.raises(Exception, match=r"the scripted answer to tool\.call: result is a set"):
            await ctx.tools.call("t")
        return "done"

    assert drive_sync(of(run), tools={"t": lambda: {1, 2}}).text == "done"
    with pytest.raises(InvalidArgument, match=r"states: actor/k is a set"):
        drive_sync(of(run), states={"actor": {"k": {1}}})
    with pytest.raises(TypeError, match=r"config\['pace'\] is nan"):
        drive_sync(of(run), config={"pace": math.nan})


def test_forms_and_signatures_are_checked_where_they_stand() -> None:
    class Wrong(Runner):
        config = ({"name": "pace", "type": "float", "default": math.nan},)

        async def run(self, ctx: RunContext) -> None:
            raise NotImplementedError

    with pytest.raises(ManifestError, match=r"config_schema\[0\]\.default is nan"):
        drive_sync(Wrong)
    with pytest.raises(
        TypeError, match=r"tool wait: parameters\['properties'\]\['seconds'\]\['default'\] is inf"
    ):

        @tool
        async def wait(seconds: float = math.inf) -> None:
            """Waits."""
