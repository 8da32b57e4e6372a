"""The exported schema holds the whole protocol, and the package's own documents hold true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler_protocol import CALLS, METHODS, RESULT_TYPES
from hostler_protocol.errors import ERROR_CODES, RUN_FAILURES
from hostler_protocol.schema import document, wire_types
from support.samples import values

README = Path(__file__).parents[2] / "packages" / "protocol" / "README.md"
DOCUMENT = document()


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(references(each) for each in value.values()))
    return set().union(*(references(each) for each in value)) if isinstance(value, list) else set()


def test_every_reference_leads_somewhere() -> None:
    targets = {f"#/$defs/{name}" for name in DOCUMENT["$defs"]}
    assert references(DOCUMENT) <= targets


def test_the_document_holds_every_row_of_every_table() -> None:
    assert set(DOCUMENT["methods"]) == set(METHODS)
    assert set(DOCUMENT["calls"]) == set(CALLS)
    assert set(DOCUMENT["results"]) == set(RESULT_TYPES)
    assert set(DOCUMENT["errors"]) == ERROR_CODES
    assert set(DOCUMENT["run_failures"]) == set(RUN_FAILURES)
    assert set(DOCUMENT["retryable_run_failures"]) == {"runner.timeout", "runner.crashed", "host.restarted"}
    for name, row in DOCUMENT["methods"].items():
        assert row["sender"] == METHODS[name].sender.value
        assert ("reply" in row) is METHODS[name].is_request
    assert DOCUMENT["calls"]["tool.call"] == {
        "method": "host/tool.call",
        "effect": True,
        "permission": {"tools": "call"},
        "resource": "tool_name",
    }
    assert DOCUMENT["calls"]["model.stream"]["chunk"] == {"$ref": "#/$defs/ModelChunk"}
    assert DOCUMENT["results"]["attempt.started"]["sender"] == "host"
    assert DOCUMENT["results"]["run.failed"]["terminal"] is True


def test_fields_that_the_code_keeps_undecoded_are_described() -> None:
    runners = DOCUMENT["$defs"]["RunnerList"]["properties"]["runners"]
    assert runners["items"] == {"$ref": "#/$defs/AgentRunnerManifest"}
    for name, definition in DOCUMENT["$defs"].items():
        for field, described in definition.get("properties", {}).items():
            if described == {}:
                assert field in {"value", "result", "parameters", "error", "state", "default"}, (name, field)


TYPES = {getattr(kind, "__name__", ""): kind for kind in wire_types()}


@given(st.sampled_from(sorted(set(TYPES) & set(DOCUMENT["$defs"]))), st.data())
@settings(deadline=None, max_examples=200)
def test_what_the_code_writes_is_what_the_schema_says(name: str, data: st.DataObject) -> None:
    """Names only: values and their types come from the same declarations."""
    written = msgspec.json.decode(msgspec.json.encode(data.draw(values(TYPES[name]))))
    definition = DOCUMENT["$defs"][name]
    assert set(written) <= set(definition["properties"])
    assert set(definition.get("required", [])) <= set(written)


def test_the_module_prints_the_document() -> None:
    command = [sys.executable, "-m", "hostler_protocol.schema"]
    printed = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    assert msgspec.json.decode(printed)["$defs"].keys() == DOCUMENT["$defs"].keys()


def test_the_package_imports_no_io() -> None:
    code = "import hostler_protocol, sys; print(*({'asyncio', 'socket', 'ssl', 'http'} & set(sys.modules)))"
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60).stdout
    assert loaded.split() == []


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL))
def test_the_example_of_the_readme_runs(code: str) -> None:
    exec(compile(code, str(README), "exec"), {})
