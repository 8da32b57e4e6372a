"""Read a skill's folder: SKILL.md with its front matter, and its other files.

A folder is used as a whole: links, sockets and devices make it unusable, so that nothing outside can be
reached through it. Names that begin with a dot are ignored. Each file is identified by its digest, which
later reads must match. Everything here blocks and runs in threads.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from hostler.domain.skills import Skill, SkillFile, SkillText
from hostler.domain.untrusted_yaml import read_foreign_yaml
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError
from hostler_protocol.ids import digest
from hostler_protocol.limits import KIB, MIB

SKILL_FILE = "SKILL.md"
MAX_TEXT_BYTES = 128 * KIB
"""Size of SKILL.md, which is sent to a model as a whole."""
MAX_FRONT_MATTER_CHARS = 16 * 1024
MAX_DESCRIPTION_CHARS = 1024
"""The limit of the format."""
MAX_COMPATIBILITY_CHARS = 500
MAX_VERSION_CHARS = 100
MAX_FILES = 500
"""Files of one skill; its activation lists them all."""
MAX_FILE_BYTES = 4 * MIB
MAX_SKILL_BYTES = 32 * MIB
"""Size of all files of one skill: they are read whenever skills are reloaded."""
MAX_DEPTH = 8
"""Nesting of folders."""
MAX_SKILLS = 100
"""Skills of one host: the names and descriptions of all go to every run that may see them."""

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MAX_NAME_CHARS = 64
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO must not block


class _FrontMatter(msgspec.Struct):
    """The keys used here; others are for other programs. `allowed-tools` grants nothing."""

    name: str
    description: str
    compatibility: str | None = None
    metadata: dict[str, Any] = {}


def find_skills(path: Path) -> list[Path]:
    """Return the skill folders of a path: itself, or those directly in it. Raises InvalidArgumentError."""
    if "\x00" in str(path):
        raise InvalidArgumentError(f"{str(path)!r} is no path: it holds a NUL character")
    root = Path(os.path.realpath(path))
    if not os.path.isdir(root):  # noqa: PTH112 - unlike Path.is_dir it raises nothing
        raise InvalidArgumentError(f"{path} is no folder: name a folder with a {SKILL_FILE}, or one of such")
    if _may_have_text(root):
        return [root]
    try:
        with os.scandir(root) as entries:
            found = sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError as error:
        raise InvalidArgumentError(f"{path} cannot be read: {error.strerror}") from error
    skills = [Path(folder) for folder in found if _may_have_text(Path(folder))]
    if not skills:
        raise InvalidArgumentError(f"{path} has no {SKILL_FILE}, and no folder in it has one")
    return skills


def _may_have_text(folder: Path) -> bool:
    """Whether there is a SKILL.md of any file type, or that cannot be determined.

    Reading the skill then reports one that is a folder or a link.
    """
    try:
        (folder / SKILL_FILE).lstat()
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def read_skill(folder: Path) -> Skill:
    """Read one skill. Raises InvalidArgumentError that says what is wrong with it."""
    try:
        files = {file.path: file for file in _walk(folder)}
        with _opened(folder, SKILL_FILE) as descriptor:
            data = _content(descriptor, MAX_TEXT_BYTES, SKILL_FILE)
        text = read_text(data, folder.name)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"skill {folder}: {error.message}") from None
    except OSError as error:
        raise InvalidArgumentError(f"skill {folder}: it cannot be read: {error}") from error
    if hashlib.sha256(data).hexdigest() != files[SKILL_FILE].sha256:
        raise InvalidArgumentError(f"skill {folder}: it changes while it is read")
    whole = digest({path: file.sha256 for path, file in files.items()})
    return Skill(text=text, source=str(folder), digest=whole, files=files)


def read_file(skill: Skill, path: str) -> bytes:
    """Return a file of a skill. Raises NotFoundError, or ConflictError if it has changed since
    `read_skill`."""
    known = skill.files.get(path)
    if known is None:
        some = ", ".join(list(skill.files)[:20])
        raise NotFoundError(f"skill {skill.name!r} has no file {path!r:.200}; it has {some}")
    try:
        with _opened(Path(skill.source), path) as descriptor:
            data = _content(descriptor, MAX_FILE_BYTES, path)
    except (OSError, InvalidArgumentError):
        data = b""
    if hashlib.sha256(data).hexdigest() != known.sha256:
        raise ConflictError(f"the files of skill {skill.name!r} changed since they were confirmed")
    return data


def read_text(data: bytes, folder_name: str) -> SkillText:
    """Parse a SKILL.md. Raises InvalidArgumentError that says what is wrong with it."""
    try:
        text = data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise InvalidArgumentError(f"{SKILL_FILE} is not UTF-8") from None
    head, instructions = _split(text)
    front = _front_matter(head)
    if not _NAME.fullmatch(front.name) or len(front.name) > MAX_NAME_CHARS:
        raise InvalidArgumentError(
            f"the name {front.name!r:.100} is not one: small letters, digits and single hyphens between, "
            f"at most {MAX_NAME_CHARS}"
        )
    if front.name != folder_name:
        raise InvalidArgumentError(
            f"its name is {front.name!r}, and its folder's {folder_name!r}: make them equal"
        )
    description = front.description.strip()
    if not 0 < len(description) <= MAX_DESCRIPTION_CHARS:
        raise InvalidArgumentError(
            f"the description has {len(description):,} characters; 1 to {MAX_DESCRIPTION_CHARS:,} are right"
        )
    if len(front.compatibility or "") > MAX_COMPATIBILITY_CHARS:
        raise InvalidArgumentError(f"compatibility has over {MAX_COMPATIBILITY_CHARS} characters")
    version = front.metadata.get("version")
    return SkillText(
        name=front.name,
        description=description,
        version=None if version is None else str(version)[:MAX_VERSION_CHARS],
        compatibility=front.compatibility,
        instructions=instructions.strip(),
    )


def _split(text: str) -> tuple[str, str]:
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[0].rstrip() != "---":
        raise InvalidArgumentError(f"{SKILL_FILE} has to begin with '---' and its front matter")
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == "---":
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :])
    raise InvalidArgumentError(f"the front matter of {SKILL_FILE} has no end: a line with '---' is missing")


def _front_matter(head: str) -> _FrontMatter:
    if len(head) > MAX_FRONT_MATTER_CHARS:
        raise InvalidArgumentError(f"the front matter has over {MAX_FRONT_MATTER_CHARS:,} characters")
    try:
        value = read_foreign_yaml(f"\n{head}")  # after the line with '---'
    except ValueError as error:
        raise InvalidArgumentError(f"{SKILL_FILE}, {error}") from None
    try:
        return msgspec.convert(value or {}, _FrontMatter)
    except msgspec.ValidationError as error:
        raise InvalidArgumentError(f"the front matter of {SKILL_FILE}: {error}") from None


def _walk(folder: Path) -> Iterator[SkillFile]:
    """Yield all files in order of name. Raises InvalidArgumentError for other file types, or above a
    limit."""
    count, size = 0, 0
    for below, folders, names, at in os.fwalk(folder):
        place = os.path.relpath(below, folder)
        depth = 0 if place == "." else place.count("/") + 1
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if folders and depth == MAX_DEPTH:
            raise InvalidArgumentError(f"{place}: folders are over {MAX_DEPTH} levels deep")
        for name in folders:
            _demand(os.stat(name, dir_fd=at, follow_symlinks=False), stat.S_ISDIR, place, name)
        for name in sorted(name for name in names if not name.startswith(".")):
            path = name if depth == 0 else f"{place}/{name}"
            _demand(os.stat(name, dir_fd=at, follow_symlinks=False), stat.S_ISREG, place, name)
            count += 1
            if count > MAX_FILES:
                raise InvalidArgumentError(f"it has over {MAX_FILES} files")
            file = _hashed(at, name, path)
            size += file.size_bytes
            if size > MAX_SKILL_BYTES:
                raise InvalidArgumentError(f"its files have over {MAX_SKILL_BYTES:,} bytes together")
            yield file


def _demand(found: os.stat_result, right: Any, place: str, name: str) -> None:
    if not right(found.st_mode):
        raise InvalidArgumentError(
            f"{os.path.normpath(os.path.join(place, name))} is no plain file or folder: "  # noqa: PTH118
            "links, sockets and devices have no place in a skill"
        )


def _hashed(at: int, name: str, path: str) -> SkillFile:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"the file name {path!r:.200} is no Unicode text") from None
    descriptor = os.open(name, _READ, dir_fd=at)
    try:
        data = _content(descriptor, MAX_FILE_BYTES, path)
    finally:
        os.close(descriptor)
    return SkillFile(path, len(data), hashlib.sha256(data).hexdigest())


@contextlib.contextmanager
def _opened(folder: Path, path: str) -> Iterator[int]:
    """Open a file below the folder, each step relative to the one before and never through a link."""
    at = os.open(folder, _DIRECTORY)
    try:
        *steps, name = path.split("/")
        for step in steps:
            below = os.open(step, _DIRECTORY, dir_fd=at)
            os.close(at)
            at = below
        descriptor = os.open(name, _READ, dir_fd=at)
    finally:
        os.close(at)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _content(descriptor: int, limit: int, path: str) -> bytes:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise InvalidArgumentError(f"{path} is no plain file")
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise InvalidArgumentError(f"{path} has over {limit:,} bytes")
    return data
