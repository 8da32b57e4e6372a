"""Forms of the console find the mistakes that the host finds: its scripts in Node.js against its checks."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from msgspec.structs import FieldInfo

from hostler.console.files import FOLDER
from hostler.domain import forms
from hostler.domain.config_checks import config_mistakes
from hostler.domain.forms import FormError
from hostler.domain.model_entries import ModelEntry
from hostler.domain.tool_entries import ToolEntry
from hostler.host.config_entries import SkillFolder
from hostler.tools.schema import ToolSchema
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.manifest import FormItem
from hostler_protocol.pausing import FormField
from support.node_clients import node_clients

pytestmark = [pytest.mark.gate("console"), pytest.mark.timeout(60)]
SCRIPT = """
import { readFileSync } from "node:fs";
const at = (name) => import(process.argv[2] + "/lib/" + name);
const { fieldsOfQuestion, fieldsOfRunner, fieldsOfSchema } = await at("schema_fields.js");
const { mistakesOf } = await at("schema_check.js");
const kinds = { question: fieldsOfQuestion, runner: fieldsOfRunner, schema: fieldsOfSchema };
const cases = JSON.parse(readFileSync(0, "utf8"));
const places = ([kind, form, values]) => [...mistakesOf(kinds[kind](form), values).keys()];
console.log(JSON.stringify(cases.map(places)));
"""
TRIED: list[Any] = [
    *(None, "", " ", "a", "a\nb", "x" * 10_001, "nul\0", "😀" * 10_000, 0, -1, 1, 2.5, 1e300, True, False),
    *([], ["a"], ["b", "a"], ["c"], {}, {"primary": "m"}, {"primary": ""}, "__none__"),
]
"""What a person, or a page that was changed, may send for any field."""
ABSENT = object()


def found(cases: list[tuple[str, Any, Any]], tmp_path: Path) -> list[set[str]]:
    """The places in which the console finds mistakes, per case."""
    script = tmp_path / "check.mjs"
    script.write_text(SCRIPT)
    process = node_clients().start(script, tmp_path, FOLDER.as_posix())
    told, wrong = process.communicate(json.dumps(cases), timeout=50)
    assert process.returncode == 0, wrong
    return [set(places) for places in json.loads(told)]


def is_valid(schema: dict[str, Any], value: Any) -> bool:
    try:
        ToolSchema(schema).check(value, "value")
    except InvalidArgumentError:
        return False
    return True


def test_a_question_is_checked_as_the_host_does(tmp_path: Path) -> None:
    made: list[FormField] = []
    for kind in ("text", "textarea", "select", "multiselect", "number", "boolean"):
        for required in (False, True):
            options = ["a", {"value": "b", "label": "B"}, 1] if "select" in kind else []
            made.append(FormField(name="f", type=kind, required=required, options=options))
    made.append(FormField(name="f", type="number", required=True, default=3))
    cases = [(field, value) for field in made for value in TRIED]
    seen = found(
        [("question", [msgspec.to_builtins(field)], {"f": value}) for field, value in cases], tmp_path
    )
    for (field, value), places in zip(cases, seen, strict=True):
        try:
            forms.check_values([field], {"f": value})
            expected = set[str]()
        except FormError as error:
            expected = {one["field"] for one in error.errors}
        assert places == expected, (field, value)


def test_the_form_of_a_runner_is_checked_as_the_host_does(tmp_path: Path) -> None:
    def item(kind: str, **fields: Any) -> FormItem:
        return FormItem(name="f", type=kind, **fields)  # type: ignore[arg-type]

    fitting: dict[str, list[Any]] = {
        "string": ["", "a", None],
        "text": ["", "a\nb"],
        "integer": [None, 0, -3, 2.5],
        "float": [None, 2.5, 0],
        "boolean": [None, True, False],
        "select": [None, "a", "b", "zz"],
        "multiselect": [None, [], ["a"], ["zz"]],
        "secret": [None, "", "***", "secret://x"],
        "llm-model-selector": [None, "", "__none__", "m"],
        "model-fallback-selector": [None, "", "m", {}, {"primary": None, "fallbacks": []}, {"primary": "m"}],
        "tool-multi-selector": [None, [], ["shop.*"]],
        "knowledge-base-multi-selector": [None, [], ["k"]],
        "prompt-editor": [None, "", "be brief", [{"role": "system", "content": "x"}]],
        "json": [None, {}, [1]],
    }
    cases = [
        (item(kind, required=required, **({"options": ["a", "b"]} if "select" in kind[-6:] else {})), value)
        for kind, values in fitting.items()
        for required in (False, True)
        for value in values
    ]
    seen = found([("runner", [msgspec.to_builtins(one)], {"f": value}) for one, value in cases], tmp_path)
    for (one, value), places in zip(cases, seen, strict=True):
        # the host names the wrong one of several
        expected = {mistake.place.partition("[")[0] for mistake in config_mistakes([one], {"f": value})}
        assert places == expected, (one, value)


def test_what_is_shown_follows_the_conditions_of_the_host(tmp_path: Path) -> None:
    conditions: list[Any] = [
        None,
        {},
        {"kind": "a"},
        {"kind": ["a", "b"]},
        {"kind": None},
        {"on": True},
        {"kind": "a", "on": True},
        {"field": "kind", "operator": "neq", "value": "a"},
        {"field": "kind", "operator": "in", "value": ["a"]},
        {"field": "kind", "value": "a"},
    ]
    stored: list[dict[str, Any]] = [{}, {"kind": "a"}, {"kind": "b", "on": True}, {"kind": "a", "on": True}]
    cases = [
        (
            [
                FormItem(name="kind", type="string", default="b"),
                FormItem(name="on", type="boolean"),
                FormItem(name="f", type="string", required=True, show_if=condition),
            ],
            values,
        )
        for condition in conditions
        for values in stored
    ]
    seen = found([("runner", msgspec.to_builtins(form), values) for form, values in cases], tmp_path)
    for (form, values), places in zip(cases, seen, strict=True):
        assert places == {one.place for one in config_mistakes(form, values)}, (form[2].show_if, values)


def test_a_json_schema_is_checked_as_the_host_does(tmp_path: Path) -> None:
    properties: dict[str, Any] = {
        "word": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
        "count": {"type": "integer", "minimum": 1, "exclusiveMaximum": 9},
        "part": {"type": "number", "multipleOf": 0.5},
        "kind": {"enum": ["a", 1, None]},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "inner": {"$ref": "#/$defs/inner"},
        "list": {"type": "array", "items": {"type": "integer", "maximum": 3}, "maxItems": 2},
        "map": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 1}},
    }
    inner = {"type": "object", "properties": {"deep": {"type": "boolean"}}, "required": ["deep"]}
    schema = {"type": "object", "properties": properties, "$defs": {"inner": inner}, "required": ["word"]}
    chance = random.Random(7)
    values: dict[str, list[Any]] = {
        "word": ["ab", "a", "abcde", "AB", "😀😀"],
        "count": [1, 0, 8, 9, 2.5],
        "part": [0.5, 1.0, 0.3],
        "kind": ["a", 1, "b"],
        "maybe": [1, None],
        "inner": [{"deep": True}, {}],
        "list": [[], [1], [4], [1, 2, 3]],
        "map": [{}, {"x": "a"}, {"x y": "ab"}],
    }
    cases = [{"word": "ab"}, {}]
    cases += [{"word": "ab", name: one} for name, tried in values.items() for one in tried]
    cases += [{name: chance.choice(tried) for name, tried in values.items()} for _ in range(60)]
    seen = found([("schema", schema, one) for one in cases], tmp_path)
    for one, places in zip(cases, seen, strict=True):
        assert (places == set()) == is_valid(schema, one), (one, places)
    by_value = dict(zip(map(json.dumps, cases), seen, strict=True))
    assert by_value[json.dumps({"word": "ab", "map": {"x y": "ab"}})] == {'map["x y"]'}
    assert by_value[json.dumps({"word": "ab", "list": [4]})] == {"list[0]"}
    assert by_value[json.dumps({"word": "ab", "inner": {}})] == {"inner.deep"}


def test_a_schema_that_refers_to_itself_and_a_pattern_that_never_ends_do_no_harm(tmp_path: Path) -> None:
    loop = {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#/nowhere"}, "c": True}}
    wild = {"type": "object", "properties": {"w": {"type": "string", "pattern": "^(a+)+$"}}}
    twisted = {
        "type": "object",
        "properties": {"p": {"$ref": "#/properties/q"}, "q": {"$ref": "#/properties/p"}},
    }
    assert found(
        [
            ("schema", loop, {"a": {"a": {}}}),
            ("schema", wild, {"w": "a" * 60 + "!"}),
            ("schema", twisted, {"p": 1}),
        ],
        tmp_path,
    ) == [set(), set(), set()]


KEPT = """
import { readFileSync } from "node:fs";
const at = (name) => import(process.argv[2] + "/lib/" + name);
const { changesOf, withChanges } = await at("form_changes.js");
const { fieldsOfRunner } = await at("schema_fields.js");
const { channelFields, hookFields, moreHookFields } = await at("source_fields.js");
const { modelFields, moreModelFields, moreToolFields, toolFields } = await at("resource_fields.js");
const [form, tries] = JSON.parse(readFileSync(0, "utf8"));
const kinds = {
  hook: [...hookFields([]), ...moreHookFields()],
  model: [...modelFields(), ...moreModelFields()],
  mcp: [...toolFields({ kind: "mcp" }), ...moreToolFields({ kind: "mcp" })],
  openapi: [...toolFields({ kind: "openapi" }), ...moreToolFields({ kind: "openapi" })],
  channel: channelFields([], [], form), unknown: channelFields([], [], null), none: channelFields([], [], []),
};
console.log(JSON.stringify(tries.map(([kind, before, after, later]) => {
  const kept = JSON.stringify(changesOf(kinds[kind], before, after));
  return [kept, withChanges(later, JSON.parse(kept))];
})));
"""


def test_what_is_kept_of_a_form_is_what_was_changed_without_secrets(tmp_path: Path) -> None:
    form = [
        msgspec.to_builtins(FormItem(name="token", type="secret", required=True)),
        msgspec.to_builtins(FormItem(name="port", type="integer")),
    ]
    config = {"token": "hunter2", "port": 9, "left of another channel": "hunter2"}
    stored = {"channel": "a", "config": {"token": "env:T", "port": 1}}
    bell: dict[str, Any] = {"name": "bell", "verify": "github", "secrets": ["env:S"], "agent": "a"}
    typed = {**bell, "agent": "b", "secrets": ["hunter2"], "challenge_token": "hunter2", "map": {"text": "x"}}
    tries: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]] = [
        ("hook", bell, bell, bell, bell),
        ("hook", bell, typed, bell, {**bell, "agent": "b", "map": {"text": "x"}}),
        # what another changed meanwhile stays, in an object too; what was taken away is away
        (
            "hook",
            {**bell, "map": {"text": "x", "id": "y"}},
            {**bell, "map": {"text": "z"}},
            {"verify": "none", "map": {"text": "x", "id": "y", "data": "later"}},
            {"verify": "none", "map": {"text": "z", "data": "later"}},
        ),
        ("hook", bell, {"name": "bell", "verify": "github"}, bell, {**bell, "agent": ABSENT}),
        ("channel", {}, {"channel": "a", "config": config}, {}, {"channel": "a", "config": {"port": 9}}),
        (
            "channel",
            stored,
            {**stored, "config": config},
            stored,
            {**stored, "config": {"token": "env:T", "port": 9}},
        ),
        # without its form any setting of a channel may be a secret
        ("unknown", {}, {"channel": "b", "config": config}, {}, {"channel": "b"}),
        ("none", {}, {"agent": "a", "config": config}, {}, {"agent": "a"}),
        (
            "model",
            {},
            {"model": "m", "api_key": "hunter2", "extra_args": {"user": "hunter2"}},
            {},
            {"model": "m"},
        ),
        (
            "mcp",
            {"url": "a"},
            {"url": "b", "token": "hunter2", "headers": {"X": "hunter2"}, "environment": {"X": "hunter2"}},
            {"url": "a"},
            {"url": "b"},
        ),
        ("openapi", {}, {"document": "d", "auth": {"key": "hunter2"}}, {}, {"document": "d"}),
    ]
    script = tmp_path / "kept.mjs"
    script.write_text(KEPT)
    process = node_clients().start(script, tmp_path, FOLDER.as_posix())
    told, wrong = process.communicate(json.dumps([form, [each[:4] for each in tries]]), timeout=50)
    assert process.returncode == 0, wrong
    assert "hunter2" not in told
    for (_, _, _, _, expected), (_, found) in zip(tries, json.loads(told), strict=True):
        assert found == {name: value for name, value in expected.items() if value is not ABSENT}


FIELDS = """
const at = await import(process.argv[2] + "/lib/resource_fields.js");
const { modelFields, modelName, moreModelFields, moreToolFields, skillName } = at;
const { toolEntry, toolFields, toolName, toolValues } = at;
const plain = (fields) => Object.fromEntries(fields.map((one) => [one.name, one.fallback ?? null]));
const own = (kind) => [...toolFields({ kind }), ...moreToolFields({ kind })];
const tool = (kind) => plain([...toolName(kind).slice(1), ...own(kind)]);
const kinds = ["mcp", "openapi", "fetch", "files", "exec"];
console.log(JSON.stringify({
  models: plain([...modelName(), ...modelFields(), ...moreModelFields()]), skills: plain(skillName()),
  ...Object.fromEntries(kinds.map((kind) => [kind, tool(kind)])),
  back: [{ mcp: { name: "a", url: "b" } }, { exec: {} }].map((entry) => toolEntry(toolValues(entry))),
}));
"""


def test_forms_of_entries_have_each_field_with_the_default_of_the_host(tmp_path: Path) -> None:
    script = tmp_path / "fields.mjs"
    script.write_text(FIELDS)
    process = node_clients().start(script, tmp_path, FOLDER.as_posix())
    told, wrong = process.communicate(timeout=50)
    assert process.returncode == 0, wrong
    shown = json.loads(told)
    assert shown.pop("back") == [{"mcp": {"name": "a", "url": "b"}}, {"exec": {"name": "exec"}}]
    tools = {field.name: field.type for field in msgspec.structs.fields(ToolEntry)}
    structs = {"models": ModelEntry, "skills": SkillFolder} | {
        kind: next(one for one in get_args(tools[kind]) if one is not type(None)) for kind in tools
    }
    for kind, struct in structs.items():
        own = {field.name: _default(field) for field in msgspec.structs.fields(struct)}
        form = {name: value for name, value in shown.pop(kind).items() if name != "reached"}
        assert form.keys() == own.keys(), kind
        differing = {name for name, value in form.items() if value is not None and value != own[name]}
        assert differing == set(), kind
        assert {name for name, value in own.items() if value and form[name] is None} <= {"name"}, kind
    assert shown == {}


def _default(field: FieldInfo) -> Any:
    made = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
    return None if made is msgspec.NODEFAULT else made


REMOVED = """
const { removeEntry } = await import(process.argv[2] + "/lib/config_entries.js");
const missing = (name) => ({ kind: "agent", name, place: "config.model", problem: "there is none" });
const answers = [
  () => Response.json({ items: [missing("old")] }),
  () => Promise.reject(new TypeError("the answer is lost")),
  () => Response.json({}, { status: 404 }),
  () => Response.json({ items: [missing("old"), missing("new")] }),
];
globalThis.fetch = async () => answers.shift()();
console.log(JSON.stringify(await removeEntry("models", "main")));
"""


def test_what_misses_an_entry_is_known_although_the_answer_to_its_removal_was_lost(tmp_path: Path) -> None:
    script = tmp_path / "removed.mjs"
    script.write_text(REMOVED)
    process = node_clients().start(script, tmp_path, FOLDER.as_posix())
    told, wrong = process.communicate(timeout=50)
    assert process.returncode == 0, wrong
    assert json.loads(told) == ["agent new: config.model: there is none"]
