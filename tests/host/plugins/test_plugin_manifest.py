"""hostler.yaml, sources and what a plugin process inherits."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from hostler.plugins.manifest import parse_manifest, read_manifest
from hostler.plugins.source import (
    Folder,
    Launch,
    SingleFile,
    argv_of,
    fingerprint,
    identity_of,
    launch_of,
    process_environment,
)
from hostler_protocol.errors import PluginStartError
from hostler_protocol.ids import PluginIdentity

GOOD = b"""
plugin: {author: acme, name: echo, version: 1.0.0, label: {en: Echo}}
runners:
  - {name: default, entry: "echo:Echo"}
requires: ["httpx>=0.28"]
network: ["api.example.com:443"]
"""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "does not name its plugin"),
        ("- a list", "does not name its plugin"),
        ("plugin: {author: acme", "is not YAML: line 2"),
        ("plugin: {author: acme, name: 'a/b'}", "'a/b' is not a plugin author or name"),
        ("plugin: {author: acme}", "the key 'name' is missing"),
        ("plugin: {author: a, name: b}\nrunnres: []", "did you mean 'runners'"),
        ("plugin: {author: a, name: b, verison: 1}", "did you mean 'version'"),
        ("plugin: {author: a, name: b}\nrunners: [{name: x, entrie: 'a:B'}]", "did you mean 'entry'"),
        ("plugin: {author: a, name: b}\nrunners: [{name: x, entry: 'a:B'}, {name: x, entry: 'a:C'}]", "'x'"),
        ("plugin: {author: a, name: b}\nrequires: httpx", "expected a list, not a text"),
    ],
)
def test_each_mistake_gives_one_clear_line(text: str, says: str) -> None:
    with pytest.raises(PluginStartError) as caught:
        parse_manifest(text.encode(), "hostler.yaml")
    assert says in caught.value.message
    assert "\n" not in caught.value.message
    assert "hostler.yaml" in caught.value.message


def test_a_missing_folder_and_a_missing_file_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(PluginStartError, match="there is no plugin folder"):
        read_manifest(tmp_path / "nowhere")
    with pytest.raises(PluginStartError, match=r"has no hostler\.yaml"):
        read_manifest(tmp_path)


def test_what_a_folder_starts(tmp_path: Path) -> None:
    (tmp_path / "hostler.yaml").write_bytes(GOOD)
    source = Folder(tmp_path)
    assert identity_of(source).key == "acme/echo"
    launch = launch_of(source)
    assert argv_of(launch, "/env/bin/python") == ["/env/bin/python", "-m", "hostler_sdk.serve"]
    assert launch.requires == ("httpx>=0.28",)
    given = msgspec.json.decode(launch.variables["HOSTLER_PLUGIN_MANIFEST"])
    assert given["runners"] == [{"name": "default", "entry": "echo:Echo"}]
    before = fingerprint(source)
    (tmp_path / "echo.py").write_text("x = 1")
    assert fingerprint(source) != before


def test_a_single_file_is_known_by_its_real_path(tmp_path: Path) -> None:
    path = tmp_path / "my runner.py"
    path.write_text("")
    link = tmp_path / "link.py"
    link.symlink_to(path)
    first = identity_of(SingleFile(path, "Echo"))
    assert first == identity_of(SingleFile(link, "Echo"))
    assert first.author == "local"
    assert first.name.startswith("my-runner-")
    assert launch_of(SingleFile(link, "Echo")).argv[-1] == f"{path}:Echo"
    with pytest.raises(PluginStartError, match=r"there is no file .*gone\.py"):
        launch_of(SingleFile(tmp_path / "gone.py", "Echo"))


def test_the_environment_is_an_allow_list() -> None:
    inherited = {
        "PATH": "/bin",
        "HOME": "/srv/me",
        "LC_TIME": "de_DE",
        "PYTHONPATH": "/own",
        "HTTPS_PROXY": "http://proxy:3128",
        "http_proxy": "http://user:pass@proxy:3128",
        "HOSTLER_ADMIN_KEY": "secret",
        "HOSTLER_PLUGIN_TOKEN": "secret",
        "OPENAI_API_KEY": "secret",
        "DATABASE_URL": "secret",
        "LD_PRELOAD": "/evil.so",
    }
    launch = Launch(PluginIdentity(author="a", name="b"), ("python",), Path(), {"HOSTLER_PLUGIN_NAME": "b"})
    shared = process_environment(launch, sys.executable, inherited)
    assert "secret" not in shared.values()
    assert set(shared) == {
        *("PATH", "HOME", "LC_TIME", "PYTHONPATH", "HTTPS_PROXY"),
        *("HOSTLER_PLUGIN_NAME", "PYTHONUNBUFFERED", "PYTHONIOENCODING"),
    }
    own = process_environment(launch, "/env/bin/python", inherited)
    assert own["PATH"] == "/env/bin:/bin"
    assert "PYTHONPATH" not in own
