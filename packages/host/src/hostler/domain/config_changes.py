"""Changes that applying a configuration would make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from hostler.domain.config_mistakes import Severity
from hostler.domain.struct_fields import struct_fields
from hostler_protocol._base import Strict

Kind = Literal[
    "plugin",
    "model",
    "agent",
    "retention",
    "webhook",
    "pause_key",
    "master_key",
    "tool",
    "working_folders",
    "skill",
    "workspace",
    "audit_anchors",
    "cors",
    "sign_in",
    "hook",
    "schedule",
    "channel",
    "widget",
]
ChangeType = Literal["added", "changed", "unchanged", "removed", "kept"]


class Change(Strict):
    """The change of one entry. `kept`: not in the file, but not removed, since pruning was not requested."""

    kind: Kind
    name: str
    change: ChangeType
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


class ConfigProblem(Strict):
    """A stored entry that does not work, or a skill or server that an entry leads to.

    `kind` and `name` are those of a change, except that a skill has its own name, and a plugin is
    `author/name` if that is known. `problem`: the reason, a sentence without its full stop. `place`: the path
    of keys within the entry, "" for the whole entry. A warning may turn out to be no problem.
    """

    kind: Kind
    name: str
    problem: str
    place: str = ""
    severity: Severity = "error"

    @property
    def sentence(self) -> str:
        """Kind, name, place and problem as one sentence."""
        place = f"{self.place}: " if self.place else ""
        return f"{self.kind} {self.name}: {place}{self.problem}"


class ConfigDiff(Strict):
    """The changes, in the order plugins, models, agents, and the problems of the resulting configuration."""

    changes: list[Change]
    applied: bool
    problems: list[ConfigProblem] = []

    @property
    def effective(self) -> list[Change]:
        """The changes without unchanged and kept entries."""
        return [change for change in self.changes if change.change in {"added", "changed", "removed"}]


Shown = Callable[[msgspec.Struct], msgspec.Struct]
"""Return an entry as it may be read."""


def compare(
    kind: Kind,
    before: Mapping[str, msgspec.Struct],
    after: Mapping[str, msgspec.Struct],
    *,
    prune: bool,
    shown: Shown,
) -> list[Change]:
    """Compare stored entries with those of a file, by name."""
    changes: list[Change] = []
    for name, new in after.items():
        old = before.get(name)
        if old is None:
            changes.append(Change(kind=kind, name=name, change="added", after=sparse(shown(new))))
        elif old == new:
            changes.append(Change(kind=kind, name=name, change="unchanged"))
        else:
            changes.append(
                Change(
                    kind=kind,
                    name=name,
                    change="changed",
                    before=sparse(shown(old)),
                    after=sparse(shown(new)),
                )
            )
    for name, old in before.items():
        if name not in after:
            change: ChangeType = "removed" if prune else "kept"
            gone = sparse(shown(old)) if prune else None
            changes.append(Change(kind=kind, name=name, change=change, before=gone))
    return changes


def sparse(entry: msgspec.Struct) -> dict[str, Any]:
    """Return an entry as in a configuration file: plain data, without fields that have their default."""
    found: dict[str, Any] = {}
    for field in struct_fields(type(entry)).values():
        value = getattr(entry, field.name)
        made = field.default_factory
        default = field.default if made is msgspec.NODEFAULT else made()
        if value != default:
            found[field.encode_name] = _sparse(value)
    return found


def _sparse(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return sparse(value)
    if isinstance(value, list):
        return [_sparse(inner) for inner in value]
    if isinstance(value, dict):
        return {name: _sparse(inner) for name, inner in value.items()}
    return value
