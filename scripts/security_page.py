"""Write the column of tests in docs/security.md from the tests that claim its rows.

A row of the page is a sentence and the name of a gate: `| What holds. | <!-- gate: links --> ... |`. A test
claims it with `@pytest.mark.gate("links")`, a module with `pytestmark`. What follows the name is generated. A
row that no test claims is an error, and so is a claim without a row.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROW = re.compile(r"^\| (?P<what>.+) \| <!-- gate: (?P<gate>[a-z0-9-]+) -->.* \|$")
HEAD = "| what holds | tests |"


def security_page(root: Path) -> str:
    """Return docs/security.md with its tests."""
    return with_tests((root / "docs" / "security.md").read_text("utf-8"), claims(root / "tests"))


def with_tests(page: str, claimed: dict[str, list[str]]) -> str:
    """Return the page with the tests of each row. ValueError names a row or a claim that stands alone."""
    lines, gates, in_table = [], set(), False
    for line in page.splitlines():
        in_table = (in_table and line.startswith("|")) or line == HEAD
        row = ROW.match(line)
        if in_table and row is None and line != HEAD and not line.startswith("| ---"):
            raise ValueError(f"docs/security.md: this row names no gate (<!-- gate: NAME -->): {line[:80]}")
        if row is None:
            lines.append(line)
            continue
        gate = row["gate"]
        if gate in gates:
            raise ValueError(f"docs/security.md: two rows have the gate {gate!r}")
        if gate not in claimed:
            raise ValueError(f"docs/security.md: no test claims the gate {gate!r}: {row['what'][:80]}")
        gates.add(gate)
        tests = ", ".join(f"`{test}`" for test in claimed[gate])
        lines.append(f"| {row['what']} | <!-- gate: {gate} --> {tests} |")
    if left := sorted(set(claimed) - gates):
        raise ValueError(f"tests claim gates that docs/security.md has no row for: {', '.join(left)}")
    return "\n".join(lines) + "\n"


def claims(tests: Path) -> dict[str, list[str]]:
    """Return the tests that claim each gate, by path and name."""
    found: dict[str, list[str]] = {}
    for place, name, gates in marked(tests, "gate"):
        for gate in gates:
            found.setdefault(gate, []).append(place if name is None else f"{place}::{name}")
    return found


def marked(tests: Path, mark: str) -> Iterator[tuple[str, str | None, list[str]]]:
    """Give the file, the test (None: all of the file) and the arguments of each `pytest.mark.MARK(...)`.

    ValueError names a mark of what is no test.
    """
    for path in sorted(tests.rglob("test_*.py")):
        text = path.read_text("utf-8")
        if f"mark.{mark}(" not in text:
            continue
        place = f"tests/{path.relative_to(tests).as_posix()}"
        module = ast.parse(text)
        tests_of = {name for name in _functions_of(module) if name.startswith("test_")}
        for arguments, name in _marks_in(module, mark):
            if not tests_of or (name is not None and name not in tests_of):
                said = ", ".join(map(repr, arguments))
                raise ValueError(f"{place}: the {mark} {said} is claimed by no test: {name or 'the module'}")
            yield place, name, arguments


def _functions_of(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def _marks_in(module: ast.Module, mark: str) -> Iterator[tuple[list[str], str | None]]:
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                for arguments in _arguments(decorator, mark):
                    yield arguments, node.name
        elif isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets
        ):
            for arguments in _arguments(node.value, mark):
                yield arguments, None


def _arguments(expression: ast.expr, mark: str) -> Iterator[list[str]]:
    for node in ast.walk(expression):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == mark:
            yield [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
