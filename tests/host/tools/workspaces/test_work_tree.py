"""Files below a folder that somebody hostile writes in too."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hostler.tools.workspaces.paths import MAX_PATH_CHARS, parts_of
from hostler.tools.workspaces.tree import WorkTree
from hostler.tools.workspaces.tree_removal import MAX_DEPTH, FolderUsage, measure_tree, remove_tree
from hostler_protocol.errors import ConflictError, HostlerError, InvalidArgumentError, NotFoundError

pytestmark = pytest.mark.gate("working-folders")

SECRET = b"what lies outside"


@pytest.fixture
def tree(tmp_path: Path) -> WorkTree:
    for name in ("files", "staging", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside/secret").write_bytes(SECRET)
    return WorkTree(tmp_path / "files", tmp_path / "staging")


def put(tree: WorkTree, path: str, content: bytes) -> bool:
    return tree.write(path, content)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/etc/passwd", "absolute"),
        ("../outside/secret", "upwards"),
        ("a/../../outside/secret", "upwards"),
        ("a\x00b", "NUL"),
        ("x" * 256, "255"),
        ("é" * 128, "256 bytes"),
        ("a/" * MAX_PATH_CHARS, f"{MAX_PATH_CHARS:,}"),
        ("a/" * (MAX_DEPTH + 1), "steps"),
        ("\ud800", "Unicode"),
    ],
)
def test_a_path_that_no_file_of_the_folder_has_is_refused_in_words(
    tree: WorkTree, path: str, words: str
) -> None:
    for use in (tree.read, tree.info, tree.remove, lambda path: put(tree, path, b"x")):
        with pytest.raises(InvalidArgumentError) as refused:
            use(path)
        assert words in refused.value.message


def test_what_is_written_is_read_back_whole_or_not_at_all(tree: WorkTree) -> None:
    assert put(tree, "a/b/ü 1.txt", b"one") is True
    assert put(tree, "./a//b/ü 1.txt", b"two two") is False
    assert tree.read("a/b/ü 1.txt") == (b"two two", 7)
    assert tree.read("a/b/ü 1.txt", offset=4, length=2) == (b"tw", 7)
    assert tree.read("a/b/ü 1.txt", offset=9) == (b"", 7)

    staged = tree.begin()
    staged.write(b"abc")
    staged.discard()
    assert tree.read("a/b/ü 1.txt") == (b"two two", 7)
    assert list((tree.root.parent / "staging").iterdir()) == []
    assert [entry.path for entry in tree.entries("", depth=9)] == ["a", "a/b", "a/b/ü 1.txt"]
    assert [entry.path for entry in tree.entries("a/b")] == ["a/b/ü 1.txt"]


def test_only_ordinary_files_are_opened(tree: WorkTree) -> None:
    root = tree.root
    (root / "folder").mkdir()
    (root / "link").symlink_to(tree.root.parent / "outside/secret")
    (root / "way").symlink_to(tree.root.parent / "outside")
    os.mkfifo(root / "fifo")
    listening = socket.socket(socket.AF_UNIX)
    here = os.open(root, os.O_RDONLY)
    listening.bind(f"/proc/self/fd/{here}/socket")
    os.close(here)
    for path, words in {
        "folder": "folder",
        "link": "symbolic link",
        "way/secret": "symbolic link",
        "fifo": "FIFO",
        "socket": "FIFO",
        "": "working folder itself",
    }.items():
        with pytest.raises(InvalidArgumentError, match=words):
            tree.read(path)
        with pytest.raises(InvalidArgumentError, match=words):
            put(tree, path, b"x")
    with pytest.raises(NotFoundError, match="no 'none'"):
        tree.read("none")
    types = {entry.path: entry.type for entry in tree.entries("", depth=5)}
    assert types == {"folder": "folder", "link": "link", "way": "link", "fifo": "other", "socket": "other"}
    listening.close()
    for path in types:
        tree.remove(path)
    assert list(root.iterdir()) == []
    assert (tree.root.parent / "outside/secret").read_bytes() == SECRET


def test_a_device_is_not_opened(tree: WorkTree) -> None:
    try:
        os.mknod(tree.root / "device", 0o20600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")
    with pytest.raises(InvalidArgumentError, match="device"):
        tree.read("device")


def test_links_that_come_and_go_while_files_are_read_lead_nowhere(tree: WorkTree) -> None:
    """Another process swaps a folder and a file for links to what lies outside, as fast as it can."""
    root, outside = tree.root, tree.root.parent / "outside"
    (root / "good").mkdir()
    (root / "good/secret").write_bytes(b"inside")
    stop = threading.Event()

    def swap() -> None:
        turn, good, following = root / "turn", root / "good", root / "next"
        steps: list[Callable[[], object]] = [
            lambda: turn.symlink_to(outside),
            lambda: remove_tree(turn),
            lambda: good.rename(turn),
            lambda: turn.rename(good),
            lambda: remove_tree(turn),
            lambda: following.symlink_to(outside / "secret"),
            lambda: following.replace(root / "file"),
            lambda: following.write_bytes(b"inside"),
            lambda: following.replace(root / "file"),
        ]
        while not stop.is_set():
            for step in steps:
                with contextlib.suppress(OSError):  # who writes there as well may have been in the way
                    step()

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen: set[bytes | None] = set()
    try:
        for number in range(100_000):
            seen |= {_tried(tree, "turn/secret"), _tried(tree, "file")}
            _written(tree, f"turn/new-{number}")
            if number > 300 and seen >= {None, b"inside"}:
                break
    finally:
        stop.set()
        swapper.join()
    assert seen == {None, b"inside"}
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]
    assert (outside / "secret").read_bytes() == SECRET


def _tried(tree: WorkTree, path: str) -> bytes | None:
    try:
        return tree.read(path)[0]
    except HostlerError:
        return None


def _written(tree: WorkTree, path: str) -> None:
    with contextlib.suppress(HostlerError):
        put(tree, path, b"mine")


def test_what_is_counted_is_no_less_than_what_is_there(tree: WorkTree) -> None:
    root = tree.root
    (root / "a").write_bytes(b"x" * 10_000)
    os.link(root / "a", root / "again")
    with (root / "holes").open("wb") as file:
        file.truncate(5_000_000)
    (root / "inner").mkdir()
    (root / "inner/b").write_bytes(b"y")
    (root / "outside").symlink_to("/")
    usage = tree.measure()
    assert usage.files == 6
    assert 5_010_001 <= usage.size_bytes < 5_100_000
    assert usage.whole
    assert tree.measure(most=FolderUsage(1_000, 100)).whole is False
    assert tree.measure(most=FolderUsage(10**9, 3)).whole is False


def test_a_folder_closed_against_the_count_is_counted(tree: WorkTree) -> None:
    (tree.root / "closed").mkdir()
    (tree.root / "closed/hidden").write_bytes(b"x" * 9_000)
    (tree.root / "closed").chmod(0)
    assert tree.measure().size_bytes >= 9_000


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A tree too deep for any path to name its end."""
    top = tmp_path / "deep"
    top.mkdir()
    at = os.open(top, os.O_RDONLY)
    for number in range(1_200):
        name = f"a-longer-name-{number}"
        os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("end", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.fchmod(at, 0o500)
    os.close(at)
    yield top
    remove_tree(top)


def test_a_tree_too_deep_to_name_is_told_apart_and_removed(deep: Path) -> None:
    usage = measure_tree(deep)
    assert not usage.whole
    assert usage.files <= MAX_DEPTH
    aside = deep.parent / "aside"
    aside.mkdir()
    assert WorkTree(deep, aside).trim() == 1
    assert measure_tree(deep) == FolderUsage(0, MAX_DEPTH - 1)
    assert list(aside.iterdir()) == []
    remove_tree(deep)
    assert not deep.exists()
    remove_tree(deep)  # what is gone is gone


def test_a_tree_too_deep_to_name_is_removed(deep: Path) -> None:
    remove_tree(deep)
    assert not deep.exists()


def test_removing_follows_no_link_and_minds_no_mode(tree: WorkTree) -> None:
    outside = tree.root.parent / "outside"
    inner = tree.root / "a/b"
    inner.mkdir(parents=True)
    (inner / "file").write_bytes(b"x")
    (inner / "away").symlink_to(outside)
    inner.chmod(0)
    (tree.root / "a").chmod(0o500)
    with pytest.raises(ConflictError, match="empty"):
        tree.remove("a")
    tree.remove("a", recursive=True)
    assert list(tree.root.iterdir()) == []
    assert (outside / "secret").read_bytes() == SECRET
    with pytest.raises(InvalidArgumentError, match="itself"):
        tree.remove(".")


def test_names_that_are_no_text_can_still_be_told(tree: WorkTree) -> None:
    at = os.open(tree.root, os.O_RDONLY)
    os.close(os.open(b"latin-\xe9", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)
    assert [entry.path for entry in tree.entries("")] == ["latin-\ufffd"]
    assert parts_of("a/./b//c") == ("a", "b", "c")
