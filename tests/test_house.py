"""The house rules that a program can check."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Callable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import grimp
import pytest
from hypothesis.internal.conjecture.providers import HypothesisProvider

from hostler.models.errors import CONTEXT_OVERFLOW
from hostler.version import VERSION
from hostler_protocol import errors, limits, schema
from hostler_sdk.services import FAILURES
from support.examples import SOAK

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("hostler_protocol", "hostler_sdk", "hostler_adapters", "hostler_langbot", "hostler")
TEST_FOLDERS = {
    "adapters",
    "channels",
    "conformance",
    "faults",
    "host",
    "journeys",
    "langbot",
    "properties",
    "simulation",
    "protocol",
    "runners",
    "sdk",
    "support",
}


def tracked(*patterns: str) -> list[Path]:
    """Give the files of the project: those in the index, and new ones that are not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(path for name in listed.splitlines() if (path := ROOT / name).is_file())


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- generated files ------------------------------------------------------------------------------

GENERATED: dict[Path, Callable[[], str]] = load(ROOT / "scripts" / "generate_docs.py").pages()


@pytest.mark.parametrize("path", GENERATED, ids=[path.name for path in GENERATED])
def test_generated_files_are_what_the_code_says(path: Path) -> None:
    same = path.exists() and path.read_text() == GENERATED[path]()  # no diff: it may have thousands of lines
    assert same, f"{path.relative_to(ROOT)} is out of date: run `uv run python scripts/generate_docs.py`"


def test_every_error_code_is_documented() -> None:
    page = (ROOT / "docs" / "errors.md").read_text()
    told = set(re.findall(r"^\| `([^`]+)` \| \S.+ \|", page, re.MULTILINE))
    assert (errors.ERROR_CODES | set(errors.RUN_FAILURES)) - told == set()


def test_every_code_has_one_class_and_every_plugin_error_a_known_ending() -> None:
    assert set(errors.ERRORS) == errors.ERROR_CODES
    assert {kind.status_code for kind in _subclasses(errors.PluginError)} <= set(errors.RUN_FAILURES)


SINKS = {
    "fail",
    "failed",
    "RunFailed",
    "RunBroken",
    "on_broken",
    "end_waiting",
    "_break",
    "_end_before_start",
    "Settlement",
}
"""What is called with the code that a run ends with."""
HOLDERS = {"code", "status_code", "STATUS_CODES"}
"""Names that such a code is put into."""
CODE = re.compile(r"[a-z][a-z-]*(\.[a-z_]+)+")


def _codes_in(tree: ast.AST) -> set[str]:
    """String constants of the form of a code that reach a sink or a holder."""
    found: set[str] = set()
    for node in ast.walk(tree):
        values: list[ast.AST] = []
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            values = [*node.args, *node.keywords] if name in SINKS else []
            values += [keyword.value for keyword in node.keywords if keyword.arg in HOLDERS]
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            inner = [n for target in targets for n in ast.walk(target)]
            names = {getattr(n, "id", getattr(n, "attr", "")) for n in inner}
            values = [node.value] if names & HOLDERS else []
        constants = [n for value in values for n in ast.walk(value) if isinstance(n, ast.Constant)]
        found |= {n.value for n in constants if isinstance(n.value, str) and CODE.fullmatch(n.value)}
    return found


def _codes_of(*patterns: str) -> set[str]:
    return {code for path in tracked(*patterns) for code in _codes_in(ast.parse(path.read_text()))}


def test_every_code_that_a_run_can_end_with_is_documented() -> None:
    found = _codes_of("packages/**/src/**/*.py")
    assert {"runner.config_invalid", "runner.crashed", "host.error", "replay.diverged"} <= found
    assert found <= set(errors.RUN_FAILURES)
    assert set(get_args(errors.RunFailure)) == set(errors.RUN_FAILURES)


def test_every_code_of_a_shipped_runner_is_in_its_readme() -> None:
    for readme in tracked("runners/*/README.md"):
        found = _codes_of(f"runners/{readme.parent.name}/**/*.py") - set(errors.RUN_FAILURES)
        found |= _codes_of_service(readme.parent)
        assert found, readme
        told = set(re.findall(r"`([^`\s]+)`", readme.read_text()))
        assert found <= told, readme


def _codes_of_service(folder: Path) -> set[str]:
    """The codes of a runner of a service: those of its base class, under the name of its service."""
    names = {
        node.value.value
        for path in tracked(f"runners/{folder.name}/**/*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assign) and [getattr(t, "id", "") for t in node.targets] == ["service"]
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    asks = "continuation" in (folder / "hostler.yaml").read_text()
    whats = [what for what in FAILURES if asks or what != "unanswered"]
    return {f"{name}.{what}" for name in names for what in whats}


def test_every_reason_of_an_error_is_documented() -> None:
    found: set[str] = set()
    for path in tracked("packages/**/src/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = node.func if isinstance(node, ast.Call) else None
            called = getattr(name, "id", getattr(name, "attr", ""))
            if isinstance(node, ast.Call) and (called == "__init__" or called.endswith("Error")):
                reasons = [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
                found |= {
                    r.value for r in reasons if isinstance(r, ast.Constant) and isinstance(r.value, str)
                }
    assert "stale_view" in found
    assert found | {CONTEXT_OVERFLOW} <= set(errors.REASONS)
    page = (ROOT / "docs" / "errors.md").read_text()
    assert [reason for reason in errors.REASONS if f"| `{reason}` |" not in page] == []


def _subclasses(kind: type[Any]) -> list[type[Any]]:
    return [kind, *(each for child in kind.__subclasses__() for each in _subclasses(child))]


def test_every_number_has_its_reason_beside_it() -> None:
    numbers = {name for name, value in vars(limits).items() if name.isupper() and isinstance(value, int)}
    documented = {name for name, _, _ in schema.constants(limits)}
    assert numbers - documented == {"KIB", "MIB"}


# -- packages -------------------------------------------------------------------------------------


def public_names() -> list[tuple[str, str]]:
    return [
        (package, name)
        for package in PACKAGES
        for name in getattr(importlib.import_module(package), "__all__", [])
    ]


def test_the_public_face_can_be_imported_and_says_what_it_is() -> None:
    silent = []
    for package, name in public_names():
        value = getattr(importlib.import_module(package), name)
        if (inspect.isclass(value) or inspect.isroutine(value)) and not inspect.getdoc(value):
            silent.append((package, name))
    assert public_names()
    assert silent == []


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_what_it_is(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__doc__
    names = getattr(module, "__all__", [])
    assert len(set(names)) == len(names)


def test_every_module_says_what_it_is_for() -> None:
    texts = {path: path.read_text().strip() for path in tracked("packages/**/src/**/*.py")}
    silent = [path for path, text in texts.items() if text and not text.startswith(('"""', "'''", 'r"""'))]
    assert len(texts) > 100
    assert silent == []


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    """Imports inside functions and under TYPE_CHECKING count as well."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert imports["hostler.runs.attempt"]
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        raise AssertionError(" is imported by ".join(error.args[1])) from None


# -- tests ----------------------------------------------------------------------------------------


def test_no_clock_is_bound_when_a_module_is_imported() -> None:
    """A default like `clock=time.time` would escape a simulated world, which replaces what `time` has."""
    bound = re.compile(r"[=(] ?(time\.(time|time_ns|monotonic|perf_counter)|random\.random)\b(?!\()")
    files = tracked("packages/host/src/**/*.py", "packages/sdk/src/**/*.py", "packages/protocol/src/**/*.py")
    outside = [path for path in files if not {"http", "simulation", "cli"} & set(path.parts)]
    found = [
        f"{path.name}:{number}"
        for path in outside
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if bound.search(line)
    ]
    assert not found, f"take hostler.domain.clock: {found}"


def test_tests_stand_where_the_tree_says() -> None:
    files = tracked("tests/**/*.py", "tests/*.py")
    folders = {path.relative_to(ROOT / "tests").parts[0] for path in files if path.parent != ROOT / "tests"}
    assert folders <= TEST_FOLDERS
    in_support = [path for path in files if "support" in path.parts]
    world = ROOT / "tests" / "simulation"  # lives and judges, and the tests that live and judge them
    strays = [
        path
        for path in files
        if not path.name.startswith("test_") and path not in in_support and not path.is_relative_to(world)
    ]
    assert {path.name for path in strays} <= {"conftest.py"}
    assert not [path for path in in_support if path.name.startswith("test_")]


def test_test_modules_have_names_of_their_own() -> None:
    names = Counter(path.name for path in tracked("tests/**/test_*.py", "tests/test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


# -- the project speaks of itself alone -----------------------------------------------------------


def test_the_version_in_the_code_is_the_package_s() -> None:
    for package in ("host", "sdk", "protocol"):
        project = tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text())["project"]
        assert project["version"] == VERSION, package


def test_no_file_names_a_place_on_the_machine_it_was_written_on() -> None:
    homes = "|".join(["/Users", "/home/(?!hostler)", r"[A-Z]:\\\\?Users"])
    places = re.compile(
        "|".join([re.escape(f"{ROOT}/"), re.escape(f"{ROOT.parent}/"), f"(?:{homes})[/\\\\]?\\w"])
    )
    found = []
    for path in tracked():
        if path == Path(__file__).resolve() or path.name == "uv.lock":
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue  # an image or another binary file
        found += [f"{path.relative_to(ROOT)}: {match.group()}" for match in places.finditer(text)]
    assert found == []


@pytest.mark.skipif(SOAK, reason="the long form tries constants of the code, too")
def test_examples_of_properties_do_not_depend_on_what_was_imported() -> None:
    assert list(HypothesisProvider(None)._local_constants) == []
