"""Pins of plugins: what the operator confirmed of a plugin's folder, and what differs from that. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from hostler.domain.record import Record
from hostler_protocol._base import Strict
from hostler_protocol.ids import digest

PinKind = Literal["requirements", "files"]
"""What may not change without the operator: `requires` of the manifest, or all files of the folder too."""
Verdict = Literal["new", "known", "moved", "widened", "changed"]
MAX_NAMED = 5
"""Requirements named in a sentence."""
_PACKAGE = re.compile(
    r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:==\s*(?P<version>[^\s;\\]+)|@\s*(?P<place>[^\s;\\]+))"
)
_HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})")


class PluginFacts(Record):
    """A plugin folder as it is now. `files`: the digest of its files, None if it was not looked at."""

    source: str
    version: str
    requires: tuple[str, ...]
    files: str | None = None

    @property
    def digest(self) -> str:
        """The digest that a person confirms."""
        return digest([sorted(self.requires), self.files])


class PluginPin(Record):
    """A plugin as it was first started, or as a person confirmed it since. Times in epoch milliseconds."""

    plugin: str
    facts: PluginFacts
    recorded_at: int
    confirmed_at: int | None = None
    confirmed_by: str | None = None


class LockedPackage(Strict):
    """One package of a plugin's environment; `version` is an address for a wheel that the operator listed."""

    name: str
    version: str
    digests: list[str]


def judge_pin(pin: PluginPin | None, facts: PluginFacts) -> Verdict:
    """Compare a folder with its pin. Only `changed` keeps the plugin from starting.

    Another folder is the operator's own choice: the entry names it. So is looking at the files from now on.
    """
    if pin is None:
        return "new"
    if pin.facts.source != facts.source:
        return "moved"
    if sorted(pin.facts.requires) != sorted(facts.requires):
        return "changed"
    if facts.files is None or facts.files == pin.facts.files:
        return "known"
    return "widened" if pin.facts.files is None else "changed"


def what_changed(pin: PluginPin, facts: PluginFacts) -> str:
    """Say what differs from the pin."""
    before, now = set(pin.facts.requires), set(facts.requires)
    found = []
    if more := sorted(now - before):
        found.append(f"it requires {_named(more)} now")
    if less := sorted(before - now):
        found.append(f"it no longer requires {_named(less)}")
    if facts.files is not None and pin.facts.files not in (None, facts.files):
        found.append("its files are other ones")
    return " and ".join(found)


def packages_of(plan: str) -> list[LockedPackage]:
    """Return the packages of a plan that uv wrote, by name."""
    found: list[LockedPackage] = []
    for line in plan.replace("\\\n", " ").splitlines():
        match = _PACKAGE.match(line.strip())
        if match is not None:
            version = match["version"] or match["place"]
            found.append(LockedPackage(name=match["name"], version=version, digests=_HASH.findall(line)))
    return sorted(found, key=lambda package: package.name)


def package_changes(before: Sequence[LockedPackage], after: Sequence[LockedPackage]) -> list[str]:
    """Return a line for each package that was added, removed, or has another version or other files."""
    old: Mapping[str, LockedPackage] = {one.name: one for one in before}
    new: Mapping[str, LockedPackage] = {one.name: one for one in after}
    lines = []
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            lines.append(f"{name} {new[name].version} is new")
        elif name not in new:
            lines.append(f"{name} {old[name].version} is gone")
        elif old[name].version != new[name].version:
            lines.append(f"{name} {old[name].version} -> {new[name].version}")
        elif set(old[name].digests) != set(new[name].digests):
            lines.append(f"{name} {new[name].version} has other files")
    return lines


def _named(requirements: Sequence[str]) -> str:
    more = f" and {len(requirements) - MAX_NAMED} more" if len(requirements) > MAX_NAMED else ""
    return ", ".join(repr(one[:80]) for one in requirements[:MAX_NAMED]) + more
