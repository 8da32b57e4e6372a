"""The file of the erasure key: replaced durably, with its copies, and what a crash leaves behind."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Barrier

import pytest

from hostler.secrets.key_ring import new_key
from hostler.storage.sealing import erasure_key as module
from hostler.storage.sealing.erasure_key import ErasureKey, ErasureKeyBusyError, ErasureKeyError

pytestmark = pytest.mark.gate("erased-copies")


def test_a_key_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    key = ErasureKey([tmp_path / "keys" / "erasure.key"])
    assert not key.exists
    key.create()
    first = key.ring().ids
    key.create()
    assert key.reread().ids == first
    assert stat.S_IMODE(key.paths[0].stat().st_mode) == 0o600
    assert ErasureKey(key.paths).ring().ids == first


def test_it_is_replaced_in_two_steps_and_both_open_in_between(tmp_path: Path) -> None:
    key = ErasureKey([tmp_path / "a", tmp_path / "b"])
    key.create()
    (old,) = key.ring().ids
    old_bytes = key.paths[0].read_bytes().strip()
    key.begin()
    new, second = key.ring().ids
    assert second == old
    key.begin()
    newest, *others = key.ring().ids
    assert others == [new, old], "what was begun and interrupted is replaced as well"
    key.finish(newest)
    assert key.ring().ids == [newest]
    for path in key.paths:
        assert old_bytes not in path.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a.lock", "a", "b"]


def test_the_bytes_of_the_old_file_are_written_over(tmp_path: Path) -> None:
    key = ErasureKey([tmp_path / "a"])
    key.create()
    old = os.open(key.paths[0], os.O_RDONLY)
    key.finish(key.begin())
    assert os.pread(old, 1000, 0).strip(b"\0") == b""
    os.close(old)


@pytest.mark.parametrize("crash_at", range(4))
def test_a_crash_between_the_copies_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash_at: int
) -> None:
    key = ErasureKey([tmp_path / "a", tmp_path / "b"])
    key.create()
    (old,) = key.ring().ids
    writes = iter(range(100))
    replace = module._replace

    def crashing(path: Path, content: bytes) -> None:
        if next(writes) == crash_at:
            raise OSError(5, "crash")
        replace(path, content)

    monkeypatch.setattr(module, "_replace", crashing)
    with pytest.raises(ErasureKeyError):
        _replaced(key)
    monkeypatch.undo()
    later = ErasureKey(key.paths)
    known = later.ring().ids
    assert old in known or crash_at == 3, "what is wrapped by the old one opens, until it is no longer needed"
    later.copy()
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    later.finish(later.begin())
    assert len(later.ring().ids) == 1


def _replaced(key: ErasureKey) -> None:
    key.finish(key.begin())


def test_a_host_that_slept_destroys_no_key_that_a_later_erasure_needs(tmp_path: Path) -> None:
    sleeper, other = ErasureKey([tmp_path / "a"]), ErasureKey([tmp_path / "a"])
    sleeper.create()
    first = sleeper.begin()
    second = other.begin()
    sleeper.finish(first)
    assert other.reread().ids == [second, first]
    other.finish(second)
    sleeper.finish(first)
    assert sleeper.reread().ids == [second]


def test_hosts_that_make_the_first_key_at_the_same_time_have_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has looked and found none before any writes."""
    hosts = [ErasureKey([tmp_path / "keys" / "a"]) for _ in range(8)]
    together, fresh = Barrier(len(hosts)), new_key
    made: list[bytes] = []
    locked = ErasureKey._locked

    def waiting(key: ErasureKey) -> AbstractContextManager[None]:
        together.wait(60)
        return locked(key)

    def counted() -> bytes:
        made.append(fresh())
        return made[-1]

    monkeypatch.setattr(ErasureKey, "_locked", waiting)
    monkeypatch.setattr(module, "new_key", counted)
    with ThreadPoolExecutor(len(hosts)) as threads:
        list(threads.map(lambda host: host.create(), hosts))
    assert len(made) == 1
    assert len({tuple(host.reread().ids) for host in hosts}) == 1


def test_keys_that_hosts_begin_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    hosts = [ErasureKey([tmp_path / "a", tmp_path / "b"]) for _ in range(8)]
    hosts[0].create()
    with ThreadPoolExecutor(len(hosts)) as threads:
        begun = list(threads.map(lambda host: host.begin(), hosts))
    assert set(begun) < set(hosts[0].reread().ids)


def test_a_host_that_was_stopped_while_it_wrote_keeps_the_others_waiting_for_a_while_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOCK_SECONDS", 0.0)
    stopped, other = ErasureKey([tmp_path / "a"]), ErasureKey([tmp_path / "a"])
    stopped.create()
    with stopped._locked(), pytest.raises(ErasureKeyBusyError, match="was it stopped"):
        other.begin()
    assert len(other.reread().ids) == 1
    other.begin()


def test_one_file_that_is_lost_is_written_again(tmp_path: Path) -> None:
    key = ErasureKey([tmp_path / "a", tmp_path / "b"])
    key.create()
    ids = key.ring().ids
    (tmp_path / "a").unlink()
    again = ErasureKey(key.paths)
    assert again.ring().ids == ids
    again.copy()
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("content", [None, b"", b"no key", b"12" * 31, b"\xff" * 64])
def test_without_a_readable_file_it_says_what_to_do(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "erasure.key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ErasureKeyError, match=r"erasure\.key.*put it back from its copy"):
        ErasureKey([path]).ring()


def test_a_link_is_not_followed_to_what_it_would_write_over(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    key = ErasureKey([tmp_path / "key"])
    key.create()
    content = key.paths[0].read_bytes()
    key.paths[0].unlink()
    key.paths[0].symlink_to(victim)
    with pytest.raises(ErasureKeyError):
        key._write([bytes.fromhex(content.decode().strip())])
    assert victim.read_text() == "precious"
