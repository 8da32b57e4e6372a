"""Which of the paths that a sandboxed process asks for are told, over links and files as a test has them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.sandbox.path_visibility import (
    MAX_LINKS,
    SHOWN_CHARS,
    PathAccess,
    VisiblePaths,
    check_access,
    resolve,
    shown,
)

VISIBLE = VisiblePaths(read=["/usr/lib", "/code"], write=["/desk"], ignored=["/elsewhere/packages"])
LINKS = {"/desk/link": "/etc/shadow", "/desk/up": "..", "/desk/own": "file", "/desk/loop": "loop"}
THERE = frozenset(
    {
        "/etc/shadow",
        "/etc",
        "/etc/passwd",
        "/home/hostler/.netrc",
        "/home/hostler",
        "/code/main.py",
        "/code",
        "/proc/7/environ",
    }
)


def told(verb: str, path: str, *, follows: bool = True) -> str | None:
    found = check_access(PathAccess(verb, path, follows), VISIBLE, LINKS.get, lambda path, _: path in THERE)
    return None if found is None else found.text


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("reading", "/usr/lib/libc.so.6"),
        ("reading", "/code/main.py"),
        ("reading", "/desk/own"),
        ("writing", "/desk/new"),
        ("reading", "/etc/ld.so.preload"),  # probed by every program, and nowhere
        ("reading", "/etc/passwd"),
        ("reading", "/sys/fs/cgroup/cpu.max"),
        ("reading", "/proc/loadavg"),
        ("reading", "/elsewhere/packages"),
        ("writing", "/code/__pycache__/main.cpython-311.pyc.139"),
        ("making the folder", "/code/__pycache__"),
        ("writing", "/nowhere/at/all"),
        ("removing", "/desk/link"),
        ("reading", "/desk/loop"),
    ],
)
def test_what_works_and_what_leads_nowhere_is_not_told(verb: str, path: str) -> None:
    assert told(verb, path, follows=verb != "removing") is None


@pytest.mark.parametrize(
    ("verb", "path", "text"),
    [
        ("reading", "/etc/shadow", "reading /etc/shadow: not among what it may see"),
        ("executing", "/home/hostler/.netrc", "executing /home/hostler/.netrc: not among what it may see"),
        ("writing", "/etc/new", "writing /etc/new: not among what it may change"),
        ("writing", "/code/main.py", "writing /code/main.py: not among what it may change"),
        (
            "reading",
            "/desk/link",
            "reading /etc/shadow through a link (/desk/link): not among what it may see",
        ),
        (
            "writing",
            "/desk/up/etc/new",
            "writing /etc/new through a link (/desk/up/etc/new): not among what it may change",
        ),
        (
            "reading",
            "/desk/../etc/shadow",
            "reading /etc/shadow by way of .. (/desk/../etc/shadow): not among what it may see",
        ),
        ("reading", "/proc/7/environ", "reading /proc/7/environ: not among what it may see"),
        ("making the folder", "/etc/a\nb", "making the folder /etc/a\\nb: not among what it may change"),
    ],
)
def test_what_is_there_and_not_allowed_is_told_in_one_line(verb: str, path: str, text: str) -> None:
    assert told(verb, path) == text


@given(st.binary(min_size=1, max_size=4096).map(os.fsdecode))
def test_whatever_a_path_is_made_of_one_short_line_is_shown(path: str) -> None:
    line = shown(path)
    assert line.isprintable()
    assert "\n" not in line
    assert len(line) <= SHOWN_CHARS * len("\\U0001f600")
    line.encode()


def test_links_that_never_end_are_given_up() -> None:
    path, links = resolve(PathAccess("reading", "/desk/loop/x", follows=True), LINKS.get)
    assert (path, links) == ("/desk/loop/x", MAX_LINKS)
    growing = resolve(PathAccess("reading", "/a", follows=True), lambda _: "a/" * 2000)
    assert growing[1] <= MAX_LINKS


NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(st.sampled_from(["a", "b", "c", "..", ".", ""]), min_size=1, max_size=6).map("/".join)


@settings(max_examples=50)
@given(st.lists(st.tuples(NAMES, NAMES, PATHS), max_size=6), PATHS)
def test_a_path_leads_where_the_system_says_it_leads(links: list[tuple[str, str, str]], asked: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        (root / "a" / "b").mkdir(parents=True)
        (root / "b").mkdir()
        for folder, link, target in links:
            where = root / folder / link
            if (root / folder).is_dir() and not os.path.lexists(where):
                where.symlink_to(target or ".")
        path = f"{root}/{asked}"
        found, _ = resolve(PathAccess("reading", path, follows=True), link_at)
        try:
            expected = os.path.realpath(path, strict=True)
        except OSError:
            return  # it leads nowhere
        assert found == expected


def link_at(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
