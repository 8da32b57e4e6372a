"""Entries are added to a configuration's text, whose own lines stay as they were."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hostler.host.config_merge import with_entries
from hostler_protocol.errors import InvalidArgumentError

AGENT = {"name": "new", "runner": "plugin:a/b/c", "config": {"prompt": "one\ntwo: #3\n\n  four", "n": 1}}
MODEL = {"id": "m", "provider": "demo"}

TEXTS = {
    "empty": "",
    "comments": "# only this\n# and this",
    "other section": "models:\n- id: a\n  provider: demo",
    "same section": "agents:\n- name: a  # mine\n  runner: r\n\n# the end\n",
    "indented": "agents:\n    - name: a\n      runner: r\nmodels: []\n",
    "in brackets": "agents: [{name: a, runner: r}]  # short\nmodels:\n  - {id: z}\n",
    "nothing yet": "agents:\nmodels:\n- {id: z}\n",
    "null": "agents: null  # later\n",
    "block text last": "agents:\n- name: a\n  config:\n    t: |\n      hello\n\n# more\nmodels:\n- id: z\n",
    "folded text last": "agents:\n- name: a\n  config:\n    prompt: >-\n      hello\n      you\n",
    "quoted over lines": 'agents:\n- name: "a\n    b"\n- name: c\n',
    "no last line end": "agents:\n- name: a",
    "windows": "agents:\r\n- name: a\r\nmodels:\r\n- id: z\r\n",
    "unicode": "agents:\n- name: 客服 😀\n",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_is_there_stays_and_what_is_added_comes_after_it(text: str) -> None:
    before = yaml.safe_load(text) or {}
    found = with_entries(text, {"models": [MODEL], "agents": [AGENT, {"name": "x"}]}, name="hostler.yaml")
    after = yaml.safe_load(found)
    assert after["agents"] == [*(before.get("agents") or []), AGENT, {"name": "x"}]
    assert after["models"] == [*(before.get("models") or []), MODEL]
    lines = [
        line
        for line in text.splitlines()
        if "[" not in line and line not in ("agents:", "agents: null  # later")
    ]
    kept = iter(found.splitlines())
    assert [line for line in lines if line not in kept] == []  # in their order, comments too


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{agents: [], models: []}", "its style does not allow"),
        ("- a\n- b\n", "expected a mapping"),
        ("agents:\n- &a {name: x}\n- *a\n...\n", "its style does not allow"),
        ("agents: [", "line 1"),
        ("agents: hello\n", "its style does not allow"),
    ],
)
def test_a_text_that_cannot_be_extended_is_refused(text: str, wanted: str) -> None:
    with pytest.raises(InvalidArgumentError, match=wanted):
        with_entries(text, {"agents": [AGENT], "tools": [{"mcp": {}}]}, name="hostler.yaml")


def test_toml_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="added to YAML only"):
        with_entries("", {"agents": [AGENT]}, name="hostler.toml")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@given(before=st.lists(st.dictionaries(TEXT, JSON, max_size=3), max_size=3), new=st.dictionaries(TEXT, JSON))
def test_any_entry_is_read_back_as_it_was(before: list[Any], new: dict[str, Any]) -> None:
    text = yaml.safe_dump({"agents": before, "models": []})
    found = with_entries(text, {"agents": [new]}, name="hostler.yaml")
    assert yaml.safe_load(found)["agents"] == [*before, new]
