"""A plugin of LangBot as a plugin of a host: its YAML translated to what `hostler.yaml` would say. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

from hostler_langbot import BRIDGE_REQUIREMENT, SDK_REQUIREMENT
from hostler_langbot.form import form_of, locales_of
from hostler_sdk.types import Capability, Permissions

MANIFEST_NAME = "manifest.yaml"
RUNNER_KINDS = ("Runner", "AgentRunner")
"""Kinds of components that are served: of the published SDK, and of the generation before it."""
COMMAND = ["python", "-P", "-m", "hostler_langbot.serve"]
"""-P: no module of the plugin's folder takes the place of one that the bridge imports."""
MAX_COMPONENTS = 200
"""Component files of one plugin."""

_PERMITTED = {kind: get_args(get_args(of)[0]) for kind, of in get_type_hints(Permissions).items()}
_INDEX_OPTIONS = ("-i", "-f", "--index-url", "--extra-index-url", "--trusted-host", "--find-links")
_OWN_NEEDS = {"runs": ["get", "list", "events", "cancel"], "artifacts": ["metadata", "read"]}
"""What every runner may ask for: LangBot has no names for these. The SDK looks at its own run for
cancellation, and files of an input are read for it."""


class LangBotManifestError(ValueError):
    """The YAML of a plugin is not what LangBot's SDK accepts. The text names file and field."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where component files are: a file, or a folder with `depth` levels of folders below it."""

    path: str
    depth: int = 0
    """0: a file; 1: the files of a folder; 2: also those of its folders."""


@dataclass(frozen=True, slots=True)
class Translated:
    """What `hostler.yaml` would say, and notes for the operator about what is different from LangBot."""

    plugin_file: dict[str, Any]
    notes: tuple[str, ...]


def is_langbot_manifest(value: Any) -> bool:
    """Whether a parsed `manifest.yaml` describes a plugin of LangBot."""
    return isinstance(value, Mapping) and value.get("kind") == "Plugin" and "metadata" in value


def component_places(manifest: Mapping[str, Any]) -> list[Place]:
    """Return where the plugin's component files are. Raises LangBotManifestError."""
    groups = _mapping(_mapping(manifest, "spec", MANIFEST_NAME), "components", MANIFEST_NAME)
    places: list[Place] = []
    for kind, group in groups.items():
        if not isinstance(group, Mapping):
            raise LangBotManifestError(f"{MANIFEST_NAME}: spec.components.{kind} names fromDirs or fromFiles")
        places += [Place(_inner(path, kind)) for path in _listed(group, "fromFiles", kind)]
        for stated in _listed(group, "fromDirs", kind):
            path = stated.get("path") if isinstance(stated, Mapping) else None
            depth = stated.get("maxDepth", 1) if isinstance(stated, Mapping) else 1
            if not isinstance(depth, int) or isinstance(depth, bool) or not 1 <= depth <= 20:
                raise LangBotManifestError(
                    f"{MANIFEST_NAME}: spec.components.{kind}: maxDepth is a number from 1 to 20"
                )
            places.append(Place(_inner(path, kind), depth))
    return places


def _listed(group: Mapping[str, Any], field: str, kind: Any) -> Sequence[Any]:
    found = group.get(field) or []
    if not isinstance(found, list):
        raise LangBotManifestError(f"{MANIFEST_NAME}: spec.components.{kind}.{field} is a list")
    return found


def _inner(path: Any, kind: Any) -> str:
    if not isinstance(path, str) or not path.strip("/. ") or path.startswith("/") or "\0" in path:
        raise LangBotManifestError(
            f"{MANIFEST_NAME}: spec.components.{kind}: {str(path)[:100]!r} is no path in the plugin's folder"
        )
    if ".." in re.split(r"[/\\]", path):
        raise LangBotManifestError(
            f"{MANIFEST_NAME}: spec.components.{kind}: {path[:100]!r} leads out of the plugin's folder"
        )
    return path


def translate(
    manifest: Mapping[str, Any], components: Mapping[str, Any], requirements: str = ""
) -> Translated:
    """Translate a plugin: its parsed manifest, its parsed component files by path, its requirements.txt.

    Raises LangBotManifestError that names what is wrong.
    """
    metadata = _readable(manifest, MANIFEST_NAME)
    plugin = {field: _text(metadata, field, f"{MANIFEST_NAME}: metadata") for field in ("author", "name")}
    spec = _mapping(manifest, "spec", MANIFEST_NAME)
    version = metadata.get("version") or spec.get("version")  # the latter in earlier manifests
    plugin |= {"version": str(version)} if version else {}
    plugin |= _for_people(metadata)
    runners: list[dict[str, Any]] = []
    others: list[str] = []
    notes: list[str] = []
    for path, component in components.items():
        if not isinstance(component, Mapping) or "kind" not in component or "metadata" not in component:
            continue  # LangBot ignores other YAML files in these folders, too
        if component["kind"] in RUNNER_KINDS:
            runner, said = _runner(component, path)
            runners.append(runner)
            notes += said
        else:
            others.append(str(component["kind"])[:60])
    if not runners:
        has = f"its components are of the kinds {', '.join(sorted(set(others)))}" if others else "it has none"
        raise LangBotManifestError(
            f"{MANIFEST_NAME}: it offers no runner, a component of the kind Runner or AgentRunner; {has}"
        )
    notes += [f"its components of the kind {kind} are not served" for kind in sorted(set(others))]
    settings, _ = _form(spec.get("config"), MANIFEST_NAME)
    if settings:
        names = ", ".join(item["name"] for item in settings)
        notes.append(f"settings of the whole plugin have their defaults: {names}")
    requires, said = requires_of(requirements)
    file = {"plugin": plugin, "runners": runners, "requires": requires, "network": ["*"], "command": COMMAND}
    return Translated(file, (*notes, *said))


def _runner(component: Mapping[str, Any], path: str) -> tuple[dict[str, Any], list[str]]:
    metadata = _readable(component, path)
    spec = _mapping(component, "spec", path)
    name = _text(metadata, "name", f"{path}: metadata")
    form, notes = _form(spec.get("config"), path)
    capabilities, unserved = _capabilities(spec.get("capabilities"), path)
    permissions, unknown = _permissions(spec.get("permissions"), path)
    usages = spec.get("usages")
    if isinstance(usages, list) and "agent" not in usages:
        notes.append(
            f"{path}: it is made for events of LangBot's platforms, whose typed form is not sent here"
        )
    notes += [f"{path}: capability {flag!r} is not served" for flag in unserved]
    notes += [f"{path}: permission {what} is not known here, and not asked for" for what in unknown]
    stated = {"name": name, "capabilities": capabilities, "permissions": permissions, "config": form}
    kind = {"kind": str(component["kind"]), "component": path}
    return {**stated, **_for_people(metadata), "metadata": {"langbot": kind}}, notes


def _form(items: Any, path: str) -> tuple[list[dict[str, Any]], list[str]]:
    try:
        return form_of(items, path)
    except ValueError as error:
        raise LangBotManifestError(str(error)) from error


def _capabilities(stated: Any, path: str) -> tuple[list[str], list[str]]:
    if stated is None:
        return [], []
    if not isinstance(stated, Mapping):
        raise LangBotManifestError(f"{path}: spec.capabilities is a mapping like {{streaming: true}}")
    wanted = [str(flag) for flag, on in stated.items() if on is True]
    # a plugin of LangBot cannot be started again from a journal, and continues nothing
    known = set(get_args(Capability)) - {"resumable", "continuation"}
    return sorted(known.intersection(wanted)), sorted(set(wanted) - known)


def _permissions(stated: Any, path: str) -> tuple[dict[str, list[str]], list[str]]:
    found: dict[str, list[str]] = {}
    unknown: list[str] = []
    if stated is not None and not isinstance(stated, Mapping):
        raise LangBotManifestError(f"{path}: spec.permissions is a mapping like {{models: [invoke]}}")
    for kind, operations in (stated or {}).items():
        if not isinstance(operations, Sequence) or isinstance(operations, str):
            raise LangBotManifestError(f"{path}: spec.permissions.{kind} is a list of operations")
        for operation in operations:
            if operation in _PERMITTED.get(kind, ()):
                found.setdefault(kind, []).append(operation)
            else:
                unknown.append(f"{kind}: {operation}"[:100])
    for kind, operations in _OWN_NEEDS.items():
        found[kind] = list(dict.fromkeys([*found.get(kind, []), *operations]))
    return found, unknown


def _for_people(metadata: Mapping[str, Any]) -> dict[str, Any]:
    texts = {field: locales_of(metadata.get(field)) for field in ("label", "description")}
    return {field: text for field, text in texts.items() if text is not None}


def requires_of(text: str) -> tuple[list[str], list[str]]:
    """Return what `requirements.txt` asks for, with the SDK and this bridge, and notes about lines left out.

    The SDK comes in the release that this bridge speaks with, whichever a line asks for.
    """
    requires, notes = [BRIDGE_REQUIREMENT, SDK_REQUIREMENT], []
    for number, written in enumerate(_joined(text), 1):
        line = re.sub(r"(^|\s)#.*", "", written).strip()
        line = re.sub(r"\s--hash[= ]\S+", "", line).strip()
        if not line:
            continue
        if line.startswith(_INDEX_OPTIONS):
            notes.append(f"requirements.txt: {line[:80]!r} is left out: the operator names the index")
        elif line.startswith("-"):
            raise LangBotManifestError(
                f"requirements.txt, line {number}: {line[:80]!r} is not followed: "
                "name packages, like httpx>=0.28"
            )
        elif re.split(r"[^A-Za-z0-9_.-]", line)[0].replace("_", "-").lower() == "langbot-plugin":
            if line.replace(" ", "").replace("_", "-") != SDK_REQUIREMENT:
                notes.append(f"requirements.txt: {line[:80]!r} is answered by {SDK_REQUIREMENT}")
        else:
            requires.append(line)
    return requires, notes


def _joined(text: str) -> Iterable[str]:
    return re.sub(r"\\\r?\n", " ", text).splitlines()


def _readable(value: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Return the metadata of a file, if it has what LangBot's SDK needs: it passes over a file without."""
    if "apiVersion" not in value:
        raise LangBotManifestError(f"{where}: apiVersion is missing, like apiVersion: v1")
    metadata = _mapping(value, "metadata", where)
    _text(_mapping(metadata, "label", f"{where}: metadata"), "en_US", f"{where}: metadata.label")
    python = _mapping(_mapping(value, "execution", where), "python", f"{where}: execution")
    for field in ("path", "attr"):
        _text(python, field, f"{where}: execution.python")
    return metadata


def _mapping(value: Mapping[str, Any], field: str, where: str) -> Mapping[str, Any]:
    found = value.get(field)
    if not isinstance(found, Mapping):
        raise LangBotManifestError(f"{where}: {field} is missing, or no mapping")
    return found


def _text(value: Mapping[str, Any], field: str, where: str) -> str:
    found = value.get(field)
    if not isinstance(found, str) or not found:
        raise LangBotManifestError(f"{where}.{field} is missing, or no text")
    return found
