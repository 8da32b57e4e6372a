"""The form of mutants: pieces of sources of the product that change, each found in its file exactly once.

A file of them holds, for each: `## NAME`, a sentence that says what the product does wrong with it, and its
changes. A change is `=== FILE` (in the source folder), then lines as in a diff, without line numbers.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import hostler
import hostler_protocol
import hostler_sdk
from hostler.host.bundled import bundled

FOLDER = Path(__file__).parent
PACKAGES = {
    package.__name__: Path(package.__path__[0]) for package in (hostler, hostler_protocol, hostler_sdk)
}


class StaleMutantError(Exception):
    """A file no longer holds a piece that a mutant changes exactly once: the code has changed."""


@dataclass(frozen=True)
class Change:
    """Lines of a file, and what replaces them."""

    file: str
    old: str
    new: str

    def apply(self, source: str) -> str:
        """Return the source with the change. StaleMutantError if the lines are not there exactly once."""
        changed, count = re.subn(f"^{re.escape(self.old)}", lambda _: self.new, source, flags=re.MULTILINE)
        if count != 1:
            raise StaleMutantError(f"{self.file} has these lines {count} times, not once:\n{self.old}")
        return changed


@dataclass(frozen=True)
class Mutant:
    """A defect put into the product, listed in a file. `defect` says what the product does wrong with it."""

    name: str
    defect: str
    changes: tuple[Change, ...]
    listed: str

    def sources(self) -> dict[str, str]:
        """Return the changed files, by name. StaleMutantError."""
        changed: dict[str, str] = {}
        for change in self.changes:
            try:
                changed[change.file] = change.apply(changed.get(change.file) or source_of(change.file))
            except StaleMutantError as error:
                raise StaleMutantError(
                    f"mutant {self.name} does not fit the code any more: {error}\nWrite these lines in"
                    f" {self.listed} as {change.file} has them now, so that again: {self.defect}"
                ) from None
        return changed

    def write(self, folder: Path) -> list[Path]:
        """Copy the packages that it changes into a folder, with its changes; return what to import from."""
        sources = self.sources()
        roots = []
        for name in sorted({file.split("/")[0] for file in sources}):
            roots.append(folder / name)
            shutil.copytree(PACKAGES[name], roots[-1] / name)
            if name == hostler.__name__:  # where an installation has them
                shipped = roots[-1] / name / "_bundled"
                shipped.mkdir()
                (shipped / "runners").symlink_to(bundled("runners", "local-agent").parent)
        for file, text in sources.items():
            (folder / file.split("/")[0] / file).write_text(text)
        return roots


def source_of(file: str) -> str:
    """Return the source of a file of the product."""
    package, _, rest = file.partition("/")
    return (PACKAGES[package] / rest).read_text()


def read_mutants() -> dict[str, Mutant]:
    """Return all mutants by name, in the order of the files. ValueError if two have one name."""
    found = [mutant for file in sorted(FOLDER.glob("*.diff")) for mutant in _parsed(file)]
    by_name = {mutant.name: mutant for mutant in found}
    if len(by_name) < len(found):
        raise ValueError("two mutants have the same name")
    return by_name


def _parsed(file: Path) -> Iterable[Mutant]:
    for part in file.read_text().split("\n## ")[1:]:
        head, *changes = part.split("\n=== ")
        name, _, defect = head.partition("\n")
        yield Mutant(name, " ".join(defect.split()), tuple(_change(one) for one in changes), file.name)


def _change(text: str) -> Change:
    file, _, body = text.rstrip().partition("\n")
    lines = body.split("\n")
    if not all(line[:1] in {" ", "+", "-", ""} for line in lines):
        raise ValueError(f"a change of {file} has lines without a mark: {lines}")
    old = [line[1:] for line in lines if line[:1] != "+"]
    new = [line[1:] for line in lines if line[:1] != "-"]
    return Change(file, "".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new))
