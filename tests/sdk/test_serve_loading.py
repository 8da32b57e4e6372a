"""Loading of served plugins: folders, single files, and messages about those that cannot be served."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.child_plugins import (
    EXAMPLES,
    SERVE,
    environment,
    folder_plugin,
    one_run,
    runner_file,
    texts,
    within,
)

SECONDS = 110.0


def test_a_folder_gets_its_manifest_from_the_host_and_its_own_modules(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "__init__.py").write_text("")
    (tmp_path / "inner" / "told.py").write_text(
        "from hostler_sdk import Runner, tool\nfrom words import WORD\n\n"
        "class Told(Runner):\n    async def run(self, ctx):\n        return WORD\n\n"
        "@tool\nasync def look(place: str) -> str:\n    '''Looks.'''\n"
    )
    (tmp_path / "words.py").write_text("WORD = 'found'\n")
    manifest = {
        "plugin": {"author": "acme", "name": "inner", "version": "2.0"},
        "runners": [{"name": "first", "entry": "inner.told:Told", "label": "First"}],
        "tools": ["inner.told:look"],
    }
    candidate = folder_plugin(tmp_path, HOSTLER_PLUGIN_MANIFEST=json.dumps(manifest))

    async def body() -> None:
        async with candidate.started() as plugin:
            (listed,) = await plugin.runners()
            assert (listed.id, listed.label) == ("plugin:acme/inner/first", {"en": "First"})
            assert texts(await one_run(plugin)) == ["found"]

    within(SECONDS, body)


def test_a_single_file_has_the_identity_that_the_host_gives(tmp_path: Path) -> None:
    code = """
    from hostler_sdk import Runner

    class Told(Runner):
        async def run(self, ctx):
            return "x"
    """
    named = {"HOSTLER_PLUGIN_AUTHOR": "acme", "HOSTLER_PLUGIN_NAME": "told", "HOSTLER_PLUGIN_VERSION": "3"}

    async def body() -> None:
        async with runner_file(tmp_path, code, **named).started() as plugin:
            assert (await plugin.runners())[0].id == "plugin:acme/told/Told"
        async with runner_file(tmp_path, code).started() as plugin:
            (own,) = await plugin.runners()
            assert own.id.startswith("plugin:local/told-")
            assert own.id.endswith("/Told")

    within(SECONDS, body)


BROKEN_FILES = {
    "syntax.py": "def broken(:\n",
    "raises.py": "1 / 0\n",
    "exits.py": "import sys\nsys.exit(7)\n",
    "needs.py": "import a_package_nobody_has\n",
    "empty.py": "class Other:\n    pass\n",
    "picky.py": (
        "from hostler_sdk import Runner\n"
        "class Picky(Runner):\n    def __init__(self, key):\n        pass\n"
        "class Odd(Runner):\n    capabilities = {'flying'}\n"
    ),
}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--runner", "gone.py:Told"], "there is no file gone.py"),
        (["--runner", "empty.py"], "'empty.py' is not a runner: write it as file.py:Class"),
        (["--runner", "empty.py:Told"], "empty.py has no such class; it defines no class derived from"),
        (["--runner", "empty.py:Other"], "Other is not a class derived from hostler_sdk.Runner"),
        (["--runner", "picky.py:Told"], "its runners are Odd, Picky"),
        (["--runner", "picky.py:Picky"], "Picky() fails: TypeError"),
        (["--runner", "picky.py:Odd"], "Odd: unknown capability 'flying'"),
        (["--runner", "syntax.py:Told"], "line 1: SyntaxError: invalid syntax"),
        (["--runner", "raises.py:Told"], "fails while it is imported: ZeroDivisionError: division by zero"),
        (["--runner", "exits.py:Told"], "fails while it is imported: SystemExit: 7"),
        (["--runner", "needs.py:Told"], "imports 'a_package_nobody_has', which is not installed"),
        (["--folder", "nowhere"], "there is no plugin folder"),
        ([], "there is no hostler.yaml in"),
        (["--distribution", "no-such-package"], "no package 'no-such-package' is installed"),
        (["--distribution", "msgspec"], "has no entry points in the group hostler.runners"),
        (["--connect", "ws://127.0.0.1:1/"], "needs the plugin's token in the variable HOSTLER_PLUGIN_TOKEN"),
    ],
)
def test_what_cannot_be_served_says_so_in_one_line(tmp_path: Path, arguments: list[str], says: str) -> None:
    for name, code in BROKEN_FILES.items():
        (tmp_path / name).write_text(code)
    _assert_refused(tmp_path, arguments, says)


@pytest.mark.parametrize(
    ("yaml", "says"),
    [
        ("plugin: [", "hostler.yaml is not YAML"),
        ("just text", "hostler.yaml must be a mapping"),
        ("plugin: {author: acme}", "missing required field `name` - at `$.plugin`"),
        ("plugin: {author: acme, name: x}", "hostler.yaml offers nothing: add runners"),
        ("plugin: {author: acme, name: x}\nrunners: [{name: a}]", "runner 'a' needs an entry"),
        ("plugin: {author: acme, name: x}\nrunners: [{entry: told}]", "is not of the form module:Class"),
        ("plugin: {author: acme, name: x}\nrunners: [{entry: 'gone:X'}]", "there is no module 'gone'"),
        (
            "plugin: {author: acme, name: x}\nrunners: [{entry: 'empty:Other'}]",
            "Other is not a class derived",
        ),
        ("plugin: {author: acme, name: x}\ntools: ['empty:Other']", "is not a function decorated with @tool"),
    ],
)
def test_a_bad_folder_says_so_in_one_line(tmp_path: Path, yaml: str, says: str) -> None:
    (tmp_path / "hostler.yaml").write_text(yaml)
    (tmp_path / "empty.py").write_text(BROKEN_FILES["empty.py"])
    _assert_refused(tmp_path, [], says)


def _assert_refused(folder: Path, arguments: list[str], says: str) -> None:
    done = subprocess.run(
        [*SERVE, *arguments],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 3
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("hostler-plugin-error: ")
    assert says in line


def test_a_file_instead_of_a_pipe_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out:
        done = subprocess.run(
            SERVE,
            cwd=EXAMPLES / "echo",
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            timeout=110,
            check=False,
        )
    assert done.returncode == 3
    assert "standard output must be a pipe" in done.stderr


def test_without_pyyaml_the_error_says_what_to_do(tmp_path: Path) -> None:
    code = "import sys; sys.modules['yaml'] = None; from hostler_sdk.serve import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=EXAMPLES / "echo",
        env=environment(),
        input="",
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 3
    assert "needs PyYAML, which is not installed here" in done.stderr
