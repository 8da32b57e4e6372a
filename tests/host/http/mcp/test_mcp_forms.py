"""Forms of every kind of request: what the protocol's own types take, and what comes of them."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.types import ElicitRequestFormParams

from hostler.domain.pause_actions import Action, StaleViewError, UnprocessableError
from hostler.domain.pause_views import CallView
from hostler.domain.run_events import Asked
from hostler.http.mcp.elicitation import (
    Doubt,
    Elicited,
    Refused,
    decision_of,
    form_id,
    form_of,
    read_elicited,
    read_form_id,
)
from hostler_protocol.errors import InvalidArgumentError, NotFoundError
from hostler_protocol.pausing import FormField, InteractionAction
from hostler_protocol.results import InteractionRequested

HASH = "ab" * 32
SIZES = [{"value": 1, "label": "one"}, {"value": "2", "label": "two"}]
FIELDS = [
    FormField(name="line", type="text", label="A line", required=True, default="x"),
    FormField(name="text", type="textarea", description="Long."),
    FormField(
        name="size", type="select", options=[{"value": 1, "label": "one"}, {"value": "2", "label": "two"}]
    ),
    FormField(name="colours", type="multiselect", options=["red", "blue"], default=["red"]),
    FormField(name="count", type="number"),
    FormField(name="sure", type="boolean"),
    FormField(name="paper", type="file"),
]
BUTTONS = [InteractionAction(name="ok", label="OK"), InteractionAction(name="no")]


def asked(kind: Any, **fields: Any) -> Asked:
    request = InteractionRequested(call_id="c_1", kind=kind, title="Well?", args_hash=HASH, **fields)
    return Asked(None if request.tool_name is None else "c_1", request)


def view(kind: str, **fields: Any) -> CallView:
    given: dict[str, Any] = {
        "call_id": "c_1",
        "kind": kind,
        "title": "Well?",
        "tool": None,
        "args": {},
        "args_hash": HASH,
        "args_schema": None,
        "result_schema": None,
        "fields": [],
        "actions": [],
        "editable": False,
        "locked": [],
        "may_decide": True,
        "decision": "undecided",
        "execution": "none",
        "expires_at": None,
        "approvals_needed": 1,
    }
    return CallView(**(given | fields))


@pytest.mark.parametrize(
    ("request_", "required"),
    [
        (asked("approval", tool_name="t", arguments={"a": "你好"}), ["approved"]),
        (asked("budget"), ["approved"]),
        (asked("in_doubt", tool_name="t"), ["happened"]),
        (asked("form", fields=FIELDS), ["line"]),
        (asked("choice", actions=BUTTONS), ["action"]),
        (asked("confirmation"), ["answered"]),
    ],
    ids=lambda value: value.request.kind if isinstance(value, Asked) else "",
)
def test_each_form_is_one_of_the_protocol_and_not_empty(request_: Asked, required: list[str]) -> None:
    form = form_of(request_)
    read = ElicitRequestFormParams.model_validate(form)
    assert read.requested_schema["required"] == required
    assert form["requestedSchema"]["properties"]
    assert form["message"].startswith("Well?")


def test_long_arguments_are_shortened() -> None:
    form = form_of(asked("approval", tool_name="t", arguments={"a": "x" * 100_000}))
    assert len(form["message"]) < 3_000
    assert "100,008 characters" in form["message"]


def test_options_are_texts_and_come_back_as_what_they_were() -> None:
    schema = form_of(asked("form", fields=FIELDS))["requestedSchema"]["properties"]
    assert schema["size"]["oneOf"] == [{"const": "1", "title": "one"}, {"const": "2", "title": "two"}]
    assert schema["colours"]["items"] == {"type": "string", "enum": ["red", "blue"]}
    fields = [
        {"name": field.name, "type": field.type, "options": field.options, "required": field.required}
        for field in FIELDS
    ]
    content = {"line": "l", "size": "1", "colours": ["blue"], "count": 2, "sure": False, "paper": "a1"}
    action = decided("question", content, fields=fields)
    assert isinstance(action, Action)
    assert action.values == content | {"size": 1}


def decided(kind: str, content: dict[str, Any] | None, word: Any = "accept", **fields: Any) -> Any:
    named = read_form_id(form_id("r1", asked("approval"), 7))
    assert named == ("r1", "c_1", HASH[:16])
    return decision_of(named, Elicited(action=word, content=content), view(kind, **fields))


def test_what_comes_of_forms() -> None:
    yes = decided("approval", {"approved": True, "comment": "go"})
    assert (yes.type, yes.args_hash, yes.comment) == ("approve", HASH, "go")
    assert decided("approval", {"approved": False}).type == "deny"
    assert decided("approval", None, "decline").type == "deny"
    assert decided("approval", None, "cancel") is None
    assert decided("question", {}, "decline") == Refused("c_1")
    assert decided("question", {"answered": True}).values == {}
    buttons = [{"name": "ok"}]
    assert decided("question", {"action": "ok"}, actions=buttons).action == "ok"
    assert decided("question", {"surplus": 1}).values == {"surplus": 1}  # refused by its name
    assert decided("approval", {"happened": True, "result": "x"}, review="in_doubt") == Doubt(
        {"happened": True, "result": "x"}
    )
    for content in ({}, {"approved": "true"}, {"approved": 1}, None):
        with pytest.raises(UnprocessableError, match="decides nothing"):
            decided("approval", content)
    with pytest.raises(UnprocessableError, match="another client's tool"):
        decided("client_tool", {})
    with pytest.raises(StaleViewError):
        decided("approval", {"approved": True}, args_hash="cd" * 32)


def test_what_is_no_form() -> None:
    for text in (None, 1, "", "x", "call_r_c.4", "call_r_c.aa.-1", "call_r_c.aa.b", "r.c.1"):
        with pytest.raises(NotFoundError):
            read_form_id(text)
    for given in (None, "accept", {}, {"action": "perhaps"}, {"action": "accept", "content": []}):
        with pytest.raises(InvalidArgumentError):
            read_elicited(given)
