"""The console says all that a plugin may do, each with a risk and a text in both languages."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from hostler.console.files import FOLDER
from hostler_protocol.manifest import Capability, Permissions, ToolEffect
from support.node_clients import node_clients

pytestmark = [pytest.mark.gate("console"), pytest.mark.timeout(120)]
SCRIPT = """
import { readFileSync } from "node:fs";
const { highest, permissionsOf } = await import(process.argv[2] + "/lib/permissions.js");
const cases = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(cases.map(([plugin, runners, tools]) => {
  const found = permissionsOf(plugin, runners, tools);
  return { found, risk: highest(found) };
})));
"""
SANDBOXED: dict[str, Any] = {"level": "sandboxed", "network": []}
TEXTS = {name: json.loads((FOLDER / "locales" / f"{name}.json").read_text("utf-8")) for name in ("en", "zh")}


def said(tmp_path: Path, *cases: Any) -> list[Any]:
    """What the page says of each plugin, with its runners and tools."""
    script = tmp_path / "script.mjs"
    script.write_text(SCRIPT)
    node = node_clients("typescript@5.9.3").program
    asked = json.dumps(cases)
    ran = subprocess.run(
        [node, script, str(FOLDER)], input=asked, capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    found: list[Any] = json.loads(ran.stdout)
    return found


def runner(*secrets: str, **permissions: list[str]) -> dict[str, Any]:
    form = [{"name": name, "type": "secret"} for name in secrets]
    return {"permissions": permissions, "config_schema": form}


def test_each_operation_of_a_manifest_is_said(tmp_path: Path) -> None:
    operations = [
        (field.name, operation)
        for field in msgspec.structs.fields(Permissions)
        for operation in get_args(get_args(field.type)[0]) or ("an action",)
    ]
    assert len(operations) > 20
    cases: list[Any] = [(SANDBOXED, [runner(**{kind: [operation]})], []) for kind, operation in operations]
    for (kind, operation), answer in zip(operations, said(tmp_path, *cases), strict=True):
        (one,) = [found for found in answer["found"] if found["area"] == "calls"]
        assert one["key"] not in ("other", "calls_none"), (kind, operation)
        for texts in TEXTS.values():
            assert f"permission.{one['key']}" in texts, (kind, operation)
            assert f"risk.{one['risk']}" in texts
    for capability in get_args(Capability):
        assert all(f"capability.{capability}" in texts for texts in TEXTS.values())


def test_what_is_risky_is_called_so(tmp_path: Path) -> None:
    tools = [
        {"name": f"t.{effect}", "effect": effect, "approval": "never", "client": False}
        for effect in get_args(ToolEffect)
    ]
    held = [{**tool, "approval": "required"} for tool in tools]
    answers = said(
        tmp_path,
        (SANDBOXED, [], []),
        ({**SANDBOXED, "network": ["api.example:443"]}, [], []),
        ({**SANDBOXED, "network": ["api.example:443", "*"]}, [], []),
        ({"level": "trusted", "network": []}, [], []),
        ({"level": "remote", "network": []}, [], []),
        (SANDBOXED, [runner("api-key"), runner("api-key", "other")], []),
        (SANDBOXED, [runner(runs=["create"])], []),
        (SANDBOXED, [], tools),
        (SANDBOXED, [], held),
        (SANDBOXED, [runner(new_kind=["new"])], []),
    )
    risks = ["low", "medium", "high", "high", "high", "medium", "high", "medium", "low", "medium"]
    assert [answer["risk"] for answer in answers] == risks
    keys = {one["key"]: one for answer in answers for one in answer["found"]}
    assert keys["secrets_some"]["fields"] == {"names": "api-key, other"}
    assert keys["other"]["fields"] == {"kind": "new_kind", "operations": "new"}
    for effect in get_args(ToolEffect):
        assert keys[f"effect_{effect}"]["fields"]["tools"] == f"t.{effect}"
    for key in keys:
        assert all(f"permission.{key}" in texts for texts in TEXTS.values()), key
    areas = [[one["area"] for one in answer["found"]] for answer in answers]
    assert {area for found in areas for area in found} == set(areas[0])  # each is said, also what is nothing
