"""Skill folders as they are read: the format's rules, and what has no place in one."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from hostler.tools.skills import reader
from hostler.tools.skills.reader import find_skills, read_file, read_skill, read_text
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError
from support.skills import SKILL, make_skill

pytestmark = pytest.mark.gate("skill-files")


def test_a_skill_is_read_with_its_files(tmp_path: Path) -> None:
    folder = make_skill(tmp_path)
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("not part of it")
    skill = read_skill(folder)
    assert (skill.name, skill.text.version) == ("brewing", "1.2")
    assert skill.text.description == "Brews tea. Use it when somebody is thirsty."
    assert skill.text.instructions.startswith("# Brewing")
    assert sorted(skill.files) == ["SKILL.md", "references/times.md"]
    assert read_file(skill, "references/times.md").startswith(b"green")
    (folder / ".git" / "config").write_text("other")
    assert read_skill(folder).digest == skill.digest
    (folder / "references" / "times.md").rename(folder / "references" / "minutes.md")
    assert read_skill(folder).digest != skill.digest


def test_a_path_stands_for_a_skill_or_for_those_in_it(tmp_path: Path) -> None:
    one, two = make_skill(tmp_path), make_skill(tmp_path, "pouring")
    (tmp_path / "notes").mkdir()
    assert find_skills(tmp_path) == [one, two]
    assert find_skills(one) == [one]
    for path in (tmp_path / "notes", tmp_path / "gone", one / "SKILL.md"):
        with pytest.raises(InvalidArgumentError, match=r"SKILL\.md"):
            find_skills(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# Brewing\n", "has to begin with '---'"),
        ("", "has to begin with '---'"),
        ("---\nname: brewing\n", "has no end"),
        ("---\n---\nx", "missing required field `name`"),
        ("---\n- a\n---\nx", "front matter"),
        ("---\nname: brewing\n---\nx", "missing required field `description`"),
        ("---\nname: [brewing\n---\nx", "SKILL.md, line 3"),
        ("---\nname: &n brewing\ndescription: *n\n---\nx", "alias"),
        ("---\nname: Brewing\ndescription: d\n---\nx", "'Brewing' is not one"),
        ("---\nname: brewing-\ndescription: d\n---\nx", "is not one"),
        ("---\nname: pouring\ndescription: d\n---\nx", "make them equal"),
        ("---\nname: brewing\ndescription: ' '\n---\nx", "1 to 1,024"),
        (f"---\nname: brewing\ndescription: {'d' * 1025}\n---\nx", "1,025"),
        (f"---\nname: brewing\ndescription: d\ncompatibility: {'c' * 501}\n---\nx", "compatibility"),
        (f"---\nname: brewing\ndescription: d\nmore: {'m' * 17_000}\n---\nx", "front matter has over"),
        ("---\nname: brewing\ndescription: " + "[" * 2000 + "\n---\nx", "front matter|line"),
    ],
)
def test_what_is_wrong_with_a_skill_is_said(text: str, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        read_text(text.encode(), "brewing")


def test_text_of_other_systems_is_read() -> None:
    told = read_text(
        b"\xef\xbb\xbf" + SKILL.replace("{name}", "brewing").replace("\n", "\r\n").encode(), "brewing"
    )
    assert told.instructions == "# Brewing\n\nRead references/times.md first."
    with pytest.raises(InvalidArgumentError, match="UTF-8"):
        read_text(b"---\nname: \xff\n---\n", "brewing")


def link_out(folder: Path) -> None:
    (folder / "hosts").symlink_to("/etc/hosts")


def link_folder(folder: Path) -> None:
    (folder / "etc").symlink_to("/etc")


def link_within(folder: Path) -> None:
    (folder / "again.md").symlink_to("SKILL.md")


def link_the_text(folder: Path) -> None:
    (folder / "SKILL.md").rename(folder.parent / "elsewhere.md")
    (folder / "SKILL.md").symlink_to("../elsewhere.md")


def fifo(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def unix_socket(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(folder / "s"))


def lost_link(folder: Path) -> None:
    (folder / "SKILL.md").unlink()
    (folder / "SKILL.md").symlink_to("/nowhere/SKILL.md")


def folder_of_that_name(folder: Path) -> None:
    (folder / "SKILL.md").unlink()
    (folder / "SKILL.md").mkdir()


@pytest.mark.parametrize("trick", [lost_link, folder_of_that_name])
def test_a_skill_whose_text_cannot_be_one_is_found_and_refused(
    tmp_path: Path, trick: Callable[[Path], None]
) -> None:
    """It is not passed over in silence: whoever made the folder meant a skill."""
    folder = make_skill(tmp_path)
    trick(folder)
    assert find_skills(tmp_path) == [folder]
    with pytest.raises(InvalidArgumentError, match="skill "):
        read_skill(folder)


@pytest.mark.parametrize("trick", [link_out, link_folder, link_within, link_the_text, fifo, unix_socket])
def test_a_folder_with_more_than_files_is_refused(tmp_path: Path, trick: Callable[[Path], None]) -> None:
    folder = make_skill(tmp_path)
    trick(folder)
    with pytest.raises(InvalidArgumentError, match="no plain file or folder"):
        read_skill(folder)


def test_every_size_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_skill(tmp_path)
    for name, bound, words in (
        ("MAX_FILES", 1, "over 1 files"),
        ("MAX_FILE_BYTES", 10, "over 10 bytes"),
        ("MAX_TEXT_BYTES", 10, "over 10 bytes"),
        ("MAX_SKILL_BYTES", 10, "over 10 bytes together"),
        ("MAX_DEPTH", 0, "over 0 levels"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(reader, name, bound)
            with pytest.raises(InvalidArgumentError, match=words):
                read_skill(folder)


@pytest.mark.parametrize(
    "path", ["../brewing/SKILL.md", "/etc/hosts", "", ".", "references", "a\x00b", "x" * 9999]
)
def test_only_what_was_listed_is_read(tmp_path: Path, path: str) -> None:
    with pytest.raises(NotFoundError, match=r"it has SKILL\.md, references/times\.md"):
        read_file(read_skill(make_skill(tmp_path)), path)


def test_what_changed_since_is_not_read(tmp_path: Path) -> None:
    skill = read_skill(make_skill(tmp_path))
    times = tmp_path / "brewing" / "references" / "times.md"
    secret = tmp_path / "secret"
    secret.write_bytes(times.read_bytes())
    times.unlink()
    times.symlink_to(secret)  # the same content, by another way
    with pytest.raises(ConflictError):
        read_file(skill, "references/times.md")
    times.unlink()
    times.write_text("changed")
    with pytest.raises(ConflictError):
        read_file(skill, "references/times.md")
