"""The console says in words all that the policies of an agent say: each field changes a sentence."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest

from hostler.console.files import FOLDER
from hostler.domain.agents import AgentSpec, OnBusy, OnCrash, ScopeType
from hostler.domain.approvers import ToolApprovalPolicy
from hostler.domain.budget_limits import Budget, OnDenied, OnExceeded
from hostler.domain.pauses import OnMessage
from hostler.domain.prompts import (
    MAX_ARGUMENTS,
    MAX_DESCRIPTION_CHARS,
    MAX_NAME_CHARS,
    MAX_PROMPTS,
    MAX_TEXT_CHARS,
    MAX_TITLE_CHARS,
    Prompt,
    PromptArgument,
)
from hostler_protocol.grants import STATE_SCOPES
from support.node_clients import node_clients

pytestmark = [pytest.mark.gate("console"), pytest.mark.timeout(60)]
SCRIPT = """
import { readFileSync } from "node:fs";
const root = process.argv[2];
// parts of texts are cut from one file of their language when they are served
const fileOf = (part) => new URL(`../${part.pathname.split("/").at(-2)}.json`, part);
globalThis.fetch = async (url) => ({ ok: true, json: async () => JSON.parse(readFileSync(fileOf(url))) });
globalThis.localStorage = { getItem: () => null, setItem: () => {} };
globalThis.document = { documentElement: {} };
const { speak } = await import(root + "/lib/i18n.js");
const { wordsOf } = await import(root + "/lib/policy_words.js");
const { DEFAULTS } = await import(root + "/lib/agent_fields.js");
const fields = await import(root + "/lib/agent_fields.js");
const specs = JSON.parse(readFileSync(0, "utf8"));
const found = {};
for (const language of ["en", "zh"]) {
  await speak(language);
  const names = ["resource", "budget", "rate", "quota", "approval", "state", "delivery", "concurrency",
    "recovery", "attendance", "binding", "scope", "prompt"];
  const forms = names.map((name) => [name, fields[name + "Fields"]()]);
  found[language] = { words: specs.map((spec) => wordsOf(spec)), forms: Object.fromEntries(forms) };
}
console.log(JSON.stringify({ ...found, defaults: DEFAULTS }));
"""
PLAIN = msgspec.to_builtins(AgentSpec(name="a", runner="plugin:a/b/c"))
RULE = {"approval": "required", "subjects": ["role:boss"], "min_approvals": 2, "separation_of_duty": True,
        "expires_in": 90, "editable": True, "locked": ["amount"], "on_expiry": "cancel"}  # fmt: skip
OTHER: dict[str, list[Any]] = {
    "on_busy": list(get_args(OnBusy)),
    "on_pause": list(get_args(OnMessage)),
    "leftover": ["requeue", "drop"],
    "on_crash": list(get_args(OnCrash)),
    "on_exceeded": list(get_args(OnExceeded)),
    "on_denied": list(get_args(OnDenied)),
    "tool_approval": [{"shop.*": "never"}, {"shop.*": "required"}, {"shop.*": RULE}],
    "state_scopes": [[], ["conversation"], list(STATE_SCOPES)],
    "approvers": [["user:ada"]],
    "allowed_actions": [["only.this"]],
    "ask_in": [["ops/4711"], [{"channel": "ops", "chat_id": "4711", "thread_id": "7"}]],
    "actions_without_approval": [["member.ban"]],
    "action_actors": [{"member.*": ["person:town/4711"]}, {"member.*": []}],
}
"""Other values of fields that are no truth value, number or list of names."""
CHANGED = (
    "resource_policy", "state_policy", "delivery_policy", "concurrency", "recovery", "allow_questions",
    "idle_timeout",
)  # fmt: skip
"""What the words are about; the form of the runner and the bindings are shown elsewhere."""


def variants() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Each field of the policies with another value: its place, and a specification without and with it."""
    base = copy.deepcopy(PLAIN)
    # what holds at the bounds of a budget is said where there is one
    base["resource_policy"]["budget"] |= {"max_calls_per_run": 7, "on_exceeded": "ask"}
    for name in CHANGED:
        yield from changed(base, [name], base[name])
    for field, value in RULE.items():
        before, after = copy.deepcopy(base), copy.deepcopy(base)
        rule = dict(msgspec.to_builtins(ToolApprovalPolicy(editable=True)))
        other = {"approval": "never", "editable": False}.get(field, value)
        before["resource_policy"]["tool_approval"] = {"shop.*": rule}
        after["resource_policy"]["tool_approval"] = {"shop.*": rule | {field: other}}
        yield f"tool_approval.{field}", before, after


def changed(base: dict[str, Any], place: list[str], value: Any) -> Iterator[tuple[str, Any, Any]]:
    name = place[-1]
    if isinstance(value, dict) and name not in OTHER:
        for key, one in value.items():
            yield from changed(base, [*place, key], one)
        return
    if name in OTHER:
        others = OTHER[name]
    elif isinstance(value, bool):
        others = [not value]
    elif name.startswith("allowed_"):
        others = [["only.this"]] if name == "allowed_agents" else [[], ["only.this"]]
    else:
        others = [23]
    for other in others:
        if other != value:
            after = copy.deepcopy(base)
            inner = after
            for step in place[:-1]:
                inner = inner[step]
            inner[name] = other
            yield f"{'.'.join(place)} = {other}", base, after


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("words")
    script = folder / "words.mjs"
    script.write_text(SCRIPT)
    process = node_clients().start(script, folder, FOLDER.as_posix())
    specs = [spec for _, before, after in variants() for spec in (before, after)]
    told, wrong = process.communicate(json.dumps([PLAIN, *specs]), timeout=50)
    assert process.returncode == 0, wrong
    found: dict[str, Any] = json.loads(told)
    return found


@pytest.mark.parametrize("language", ["en", "zh"])
def test_each_field_of_a_policy_changes_what_is_said(said: dict[str, Any], language: str) -> None:
    words = said[language]["words"][1:]
    places = [place for place, _, _ in variants()]
    assert len(places) > 90
    for number, place in enumerate(places):
        before, after = words[2 * number], words[2 * number + 1]
        assert before != after, f"{place} is not said"
    for text in sentences(said[language]["words"]):
        assert not re.search(r"\bagents\.\w", text), text
        assert not any(mark in text for mark in ("{", "undefined", "null", "NaN")), text


def sentences(words: list[Any]) -> Iterator[str]:
    for chapters in words:
        for chapter in chapters:
            yield from (one["text"] for one in chapter["sentences"])


def test_what_is_forbidden_is_said_as_forbidden(said: dict[str, Any]) -> None:
    kinds = {one["text"]: one["kind"] for chapter in said["en"]["words"][0] for one in chapter["sentences"]}
    assert kinds["It may not start runs of agents."] == "not"
    assert kinds["It may read the history of its own conversation only."] == "not"
    assert kinds["It may call the tools that its settings choose."] == "may"


def test_the_forms_have_all_fields_and_the_hosts_defaults(said: dict[str, Any]) -> None:
    spec = msgspec.to_builtins(AgentSpec(name="a", runner="r"))
    defaults = said["defaults"]
    budget = defaults["resource_policy"].pop("budget")
    expected = {name: copy.deepcopy(value) for name, value in spec.items() if name not in ("name", "runner")}
    plain = expected["resource_policy"].pop("budget")
    assert defaults == expected
    assert budget == {name: value for name, value in plain.items() if value is not None}
    for language in ("en", "zh"):
        forms = {name: {field["name"] for field in form} for name, form in said[language]["forms"].items()}
        assert forms["resource"] | {"tool_approval", "budget", "rate", "quota"} == set(
            spec["resource_policy"]
        )
        bounds = {name for name in Budget.__struct_fields__ if name.startswith("max_")}
        assert forms["budget"] | bounds == set(Budget.__struct_fields__)
        assert forms["rate"] == set(spec["resource_policy"]["rate"])
        assert forms["quota"] == set(spec["resource_policy"]["quota"])
        assert forms["approval"] | {"approval"} == set(ToolApprovalPolicy.__struct_fields__)
        assert forms["state"] == set(spec["state_policy"])
        assert forms["delivery"] == set(spec["delivery_policy"])
        assert forms["concurrency"] == set(spec["concurrency"])
        assert forms["recovery"] == set(spec["recovery"])
        assert forms["scope"] == set(spec["scope"])
        shown = {*CHANGED, *forms["binding"], *forms["attendance"], *forms["prompt"], "scope"}
        assert shown | {"name", "runner", "config", "enabled", "metadata"} == set(spec)
        (prompts,) = said[language]["forms"]["prompt"]
        prompt = {field["name"]: field for field in prompts["items"]["fields"]}
        argument = {field["name"]: field for field in prompt["arguments"]["items"]["fields"]}
        assert set(prompt) == set(Prompt.__struct_fields__)
        assert set(argument) == set(PromptArgument.__struct_fields__)
        assert (prompts["maximum"], prompt["arguments"]["maximum"]) == (MAX_PROMPTS, MAX_ARGUMENTS)
        longest = {name: field["maxLength"] for name, field in prompt.items() if "maxLength" in field}
        assert longest == {
            "name": MAX_NAME_CHARS,
            "title": MAX_TITLE_CHARS,
            "description": MAX_DESCRIPTION_CHARS,
            "text": MAX_TEXT_CHARS,
        }
        for form in (*said[language]["forms"].values(), prompt.values(), argument.values()):
            for field in form:
                options = [option["label"] for option in field.get("options") or []]
                texts = [field["label"], field["help"], field.get("blank") or "", *options]
                assert not any(text.startswith("agents.") for text in texts), (language, field)
        (scope,) = (one for one in said[language]["forms"]["scope"] if one["name"] == "type")
        assert {option["value"] for option in scope["options"]} == set(get_args(ScopeType))
