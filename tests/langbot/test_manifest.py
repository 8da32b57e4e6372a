"""A folder of LangBot as a plugin folder: what of its YAML becomes what, and damaged ones."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hostler.plugins.manifest import read_manifest
from hostler.plugins.source import Folder, identity_of, launch_of
from hostler_langbot.form import defaults_of, form_of
from hostler_langbot.manifest import LangBotManifestError, requires_of
from hostler_protocol.errors import PluginStartError
from support.langbot_plugins import PLUGINS


def changed(
    folder: Path, edit: dict[str, Any] | None = None, component: dict[str, Any] | None = None
) -> Path:
    """A copy of the plugin, with fields of its manifest or its component replaced by their paths (a.b.c)."""
    plugin = folder / "plugin"
    shutil.copytree(PLUGINS / "current", plugin, ignore=shutil.ignore_patterns("__pycache__"))
    for file, edits in (("manifest.yaml", edit), ("components/runners/default.yaml", component)):
        value = yaml.safe_load((plugin / file).read_text())
        for path, new in (edits or {}).items():
            *outer, last = path.split(".")
            place = value
            for step in outer:
                place = place[step]
            if new is ...:
                del place[last]
            else:
                place[last] = new
        (plugin / file).write_text(yaml.safe_dump(value, sort_keys=False))
    return plugin


def test_the_current_generation_is_recognised() -> None:
    manifest = read_manifest(PLUGINS / "current")
    assert (manifest.identity.key, manifest.identity.version) == ("tests/Puppet", "1.2.0")
    (runner,) = manifest.file.runners
    assert (runner.name, runner.label) == ("default", {"en": "Puppet", "zh-Hans": "木偶"})
    assert runner.capabilities == ["knowledge_retrieval", "steering", "streaming", "tool_calling"]
    assert runner.permissions is not None
    assert runner.permissions["models"] == ["invoke", "stream", "rerank", "count_tokens"]
    assert runner.permissions["runs"] == ["get", "list", "events", "cancel"]
    assert runner.config is not None
    assert [(item["name"], item["type"]) for item in runner.config] == [
        ("model", "model-fallback-selector"),
        ("rerank", "rerank-model-selector"),
        ("knowledge-bases", "knowledge-base-multi-selector"),
        ("prompt", "prompt-editor"),
        ("tone", "select"),
        ("tags", "json"),
        ("color", "json"),
    ]
    assert manifest.file.requires == ["hostler-langbot", "langbot-plugin==0.7.18"]
    assert "'color' has the type 'color-wheel', which this host does not know" in manifest.notes[0]
    assert manifest.notes[1] == "settings of the whole plugin have their defaults: greeting"
    assert launch_of(Folder(PLUGINS / "current")).argv == ("python", "-P", "-m", "hostler_langbot.serve")


def test_the_earlier_generation_is_recognised() -> None:
    manifest = read_manifest(PLUGINS / "earlier")
    (runner,) = manifest.file.runners
    assert manifest.identity.key == "tests/OldPuppet"
    assert runner.capabilities == ["streaming", "tool_calling"]
    assert runner.metadata == {
        "langbot": {"kind": "AgentRunner", "component": "components/runners/default.yaml"}
    }
    assert manifest.notes == (
        "components/runners/default.yaml: capability 'event_context' is not served",
        "requirements.txt: 'langbot-plugin>=0.5.0' is answered by langbot-plugin==0.7.18",
    )


def test_components_of_other_kinds_are_listed(tmp_path: Path) -> None:
    plugin = changed(tmp_path)
    component = yaml.safe_load((plugin / "components/runners/default.yaml").read_text())
    for kind in ("Tool", "Command"):
        (plugin / f"components/runners/{kind}.yml").write_text(yaml.safe_dump({**component, "kind": kind}))
    (plugin / "components/runners/notes.yaml").write_text("just: notes\n")
    (plugin / "components/runners/below").mkdir()
    (plugin / "components/runners/below/deep.yaml").write_text("[")  # deeper than maxDepth: not read
    notes = read_manifest(plugin).notes
    assert "its components of the kind Command are not served" in notes
    assert "its components of the kind Tool are not served" in notes


def test_the_version_may_be_where_earlier_manifests_have_it(tmp_path: Path) -> None:
    plugin = changed(tmp_path, {"metadata.version": ..., "spec.version": "0.3.0"})
    assert read_manifest(plugin).identity.version == "0.3.0"


def test_one_that_is_made_for_events_of_platforms_is_noted(tmp_path: Path) -> None:
    plugin = changed(tmp_path, component={"spec.usages": ["event"], "spec.events": ["*"]})
    assert any("made for events of LangBot's platforms" in note for note in read_manifest(plugin).notes)


def test_a_hostler_yaml_wins(tmp_path: Path) -> None:
    plugin = changed(tmp_path)
    (plugin / "hostler.yaml").write_text("plugin: {author: a, name: b}\n")
    assert identity_of(Folder(plugin)).key == "a/b"


def test_another_manifest_yaml_is_no_plugin_of_langbot(tmp_path: Path) -> None:
    (tmp_path / "manifest.yaml").write_text("kind: Deployment\nmetadata: {name: x}\n")
    with pytest.raises(PluginStartError, match=r"is not a plugin folder: it has no hostler\.yaml"):
        read_manifest(tmp_path)


MISTAKES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"metadata": ...}, {}, r"manifest\.yaml: metadata is missing"),
    ({"metadata.author": ...}, {}, r"manifest\.yaml: metadata\.author is missing, or no text"),
    ({"metadata.name": "not a name"}, {}, "is not a plugin author or name"),
    ({"metadata.name": 7}, {}, r"metadata\.name is missing, or no text"),
    ({"spec": []}, {}, r"manifest\.yaml: spec is missing, or no mapping"),
    ({"spec.components": ...}, {}, "components is missing, or no mapping"),
    ({"spec.components.Runner": "x"}, {}, "names fromDirs or fromFiles"),
    ({"spec.components.Runner.fromDirs": [{"path": "../other"}]}, {}, "leads out of the plugin's folder"),
    ({"spec.components.Runner.fromDirs": [{"path": "/etc"}]}, {}, "is no path in the plugin's folder"),
    ({"spec.components.Runner.fromDirs": 5}, {}, r"Runner\.fromDirs is a list"),
    ({"spec.components.Runner.fromFiles": "x.yaml"}, {}, r"Runner\.fromFiles is a list"),
    ({"spec.components.Runner.fromDirs": ["x"]}, {}, "is no path in the plugin's folder"),
    ({"spec.components.Runner.fromDirs": [{"path": "components", "maxDepth": 99}]}, {}, "from 1 to 20"),
    ({"spec.components.Runner.fromDirs": [{"path": "nowhere"}]}, {}, "nowhere cannot be read: No such file"),
    ({"spec.components.Runner.fromFiles": ["x.yaml"]}, {}, r"x\.yaml cannot be read: No such file"),
    ({"spec.components.Runner.fromDirs": []}, {}, "it offers no runner, .* it has none"),
    ({"apiVersion": ...}, {}, r"manifest\.yaml: apiVersion is missing, like apiVersion: v1"),
    ({"metadata.label": "Puppet"}, {}, r"metadata: label is missing, or no mapping"),
    ({"execution": ...}, {}, r"manifest\.yaml: execution is missing"),
    ({}, {"apiVersion": ...}, r"default\.yaml: apiVersion is missing"),
    ({}, {"metadata.label.en_US": ...}, r"default\.yaml: metadata\.label\.en_US is missing"),
    ({}, {"execution.python.attr": ...}, r"execution\.python\.attr is missing"),
    ({}, {"spec": ...}, r"default\.yaml: spec is missing"),
    ({"spec.config": "x"}, {}, "config is a list of items"),
    ({}, {"kind": "Tool"}, "it offers no runner, .* of the kinds Tool"),
    ({}, {"metadata.name": "a/b"}, "default"),
    ({}, {"spec.config": [{"type": "string"}]}, "item 1 of config has no name"),
    (
        {},
        {"spec.config": [{"name": "a", "type": "text"}, {"name": "a", "type": "text"}]},
        "two items of config are named 'a'",
    ),
    ({}, {"spec.capabilities": ["streaming"]}, r"spec\.capabilities is a mapping like \{streaming: true\}"),
    ({}, {"spec.permissions": ["models"]}, r"spec\.permissions is a mapping like"),
    ({}, {"spec.permissions": {"models": "invoke"}}, r"spec\.permissions\.models is a list"),
    ({}, {"spec": "x"}, "spec is missing, or no mapping"),
]


@pytest.mark.parametrize(("manifest", "component", "why"), MISTAKES, ids=[why[:40] for *_, why in MISTAKES])
def test_a_damaged_one_says_what_is_wrong(
    tmp_path: Path, manifest: dict[str, Any], component: dict[str, Any], why: str
) -> None:
    plugin = changed(tmp_path, manifest, component)
    if why == "default":
        assert read_manifest(plugin).file.runners[0].name == "a/b"  # the host skips it by name, and says so
        return
    with pytest.raises(PluginStartError, match=why):
        read_manifest(plugin)


def test_files_that_are_none_are_not_read(tmp_path: Path) -> None:
    plugin = changed(tmp_path)
    component = plugin / "components/runners/default.yaml"
    component.unlink()
    component.symlink_to("/etc/hostname")
    with pytest.raises(PluginStartError, match="is a link that leads out of the plugin's folder"):
        read_manifest(plugin)
    component.unlink()
    os.mkfifo(component)
    with pytest.raises(PluginStartError, match="is not an ordinary file"):
        read_manifest(plugin)
    component.unlink()
    component.write_text("a: [")
    with pytest.raises(PluginStartError, match=r"default\.yaml is not YAML: line"):
        read_manifest(plugin)
    component.write_bytes(b"# " + b"x" * 300_000)
    with pytest.raises(PluginStartError, match="has over 262,144 bytes"):
        read_manifest(plugin)
    component.unlink()
    for number in range(201):
        (component.parent / f"c{number}.yaml").write_text("{}")
    with pytest.raises(PluginStartError, match="201 component files; at most 200"):
        read_manifest(plugin)
    (plugin / "manifest.yaml").write_text("kind: [Plugin")
    with pytest.raises(PluginStartError, match=r"manifest\.yaml is not YAML"):
        read_manifest(plugin)


def test_without_the_bridge_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hostler_langbot", None)
    with pytest.raises(PluginStartError, match=r'install hostler\[langbot\], as in pip install "hostler'):
        read_manifest(PLUGINS / "current")


def test_requirements_become_those_of_the_environment() -> None:
    text = """
    # what it needs
    httpx>=0.28   # for requests
    Pillow==11 --hash=sha256:aa
    pydantic[email] ; python_version > '3.8'
    langbot_plugin == 0.7.18
    --index-url https://pypi.example/simple
    a>1, \\
      <2
    """
    requires, notes = requires_of(text)
    assert requires[2:] == [
        "httpx>=0.28",
        "Pillow==11",
        "pydantic[email] ; python_version > '3.8'",
        "a>1,        <2",
    ]
    left_out = "'--index-url https://pypi.example/simple' is left out: the operator names the index"
    assert notes == [f"requirements.txt: {left_out}"]
    for line in ("-r more.txt", "-e .", "--no-binary :all:"):
        with pytest.raises(LangBotManifestError, match=r"line 1: .* is not followed"):
            requires_of(line)


def test_forms_keep_what_a_host_understands() -> None:
    items = [
        {"name": "a", "type": "number", "default": 1.5, "label": "A", "placeholder": "x"},
        {"name": "b", "type": "select", "allow_custom": True, "options": [{"name": "x"}], "required": True},
        {"name": "c", "type": "password", "description": {"en_US": "Secret", "zh_Hans": ""}},
        {"name": "d", "type": None},
    ]
    form, notes = form_of(items, "here")
    assert form == [
        {"name": "a", "type": "float", "default": 1.5, "label": {"en": "A"}},
        {"name": "b", "type": "string", "required": True},
        {"name": "c", "type": "secret", "description": {"en": "Secret"}},
        {"name": "d", "type": "json"},
    ]
    assert len(notes) == 1
    assert defaults_of(items) == {"a": 1.5}
