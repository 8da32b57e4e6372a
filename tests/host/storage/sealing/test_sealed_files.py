"""Sealed files: ranges without the rest, and every change found."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.storage.sealing.envelope import DataKey, SealedError, new_data_key
from hostler.storage.sealing.files import (
    CHUNK_BYTES,
    DIGEST_BYTES,
    HEAD_BYTES,
    TAG_BYTES,
    FileSealer,
    is_whole,
    key_id_of,
    plain_size,
    read_sealed,
)

pytestmark = pytest.mark.gate("sealed-unaltered")

KEY = new_data_key()
SIZES = [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES, 3 * CHUNK_BYTES + 7]


def content(size: int) -> bytes:
    return (hashlib.sha256(b"seed").digest() * (size // 32 + 1))[:size]


def sealed(path: Path, plain: bytes, pieces: int = 1000, key: DataKey = KEY) -> Path:
    sealer = FileSealer(key)
    parts = [sealer.add(plain[start : start + pieces]) for start in range(0, len(plain), pieces)]
    path.write_bytes(b"".join([*parts, sealer.finish()]))
    return path


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("pieces", [997, CHUNK_BYTES, 10 * CHUNK_BYTES])
def test_a_file_opens_as_a_whole_and_its_size_is_known(tmp_path: Path, size: int, pieces: int) -> None:
    plain = content(size)
    path = sealed(tmp_path / "f", plain, pieces)
    assert read_sealed(path, KEY, 0, 10**9) == plain
    assert plain_size(path.stat().st_size) == size
    assert (key_id_of(path), is_whole(path)) == (KEY.key_id, True)
    assert size < 32 or plain[:32] not in path.read_bytes()


@given(st.sampled_from(SIZES), st.integers(0, 4 * CHUNK_BYTES), st.integers(0, 4 * CHUNK_BYTES))
def test_any_range_is_that_of_the_plain_bytes(
    tmp_path_factory: pytest.TempPathFactory, size: int, offset: int, length: int
) -> None:
    plain = content(size)
    path = sealed(tmp_path_factory.mktemp("f") / "f", plain, CHUNK_BYTES)
    assert read_sealed(path, KEY, offset, length) == plain[offset : offset + length]


def test_chunks_cannot_be_changed_swapped_repeated_or_cut_off(tmp_path: Path) -> None:
    plain = content(3 * CHUNK_BYTES + 7)
    path = sealed(tmp_path / "f", plain)
    whole, size = path.read_bytes(), CHUNK_BYTES + TAG_BYTES
    head, body, end = whole[:HEAD_BYTES], whole[HEAD_BYTES:-DIGEST_BYTES], whole[-DIGEST_BYTES:]
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    assert len(chunks) == 4
    wrong = {
        "changed": [chunks[0][:9] + b"!" + chunks[0][10:], *chunks[1:]],
        "swapped": [chunks[1], chunks[0], *chunks[2:]],
        "repeated": [chunks[0], *chunks],
        "without the last": chunks[:3],
        "without the first": chunks[1:],
        "cut inside": [*chunks[:3], chunks[3][:-1]],
        "longer": [*chunks, chunks[3]],
    }
    for how, changed in wrong.items():
        path.write_bytes(head + b"".join(changed) + end)
        assert not is_whole(path), how
        with pytest.raises(SealedError):
            read_sealed(path, KEY, 0, 10**9)
    for cut in (0, 1, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + DIGEST_BYTES, HEAD_BYTES + DIGEST_BYTES + 3):
        path.write_bytes(whole[:cut])
        assert not is_whole(path) or cut == 0
        with pytest.raises(SealedError):
            read_sealed(path, KEY, 0, 1)


def test_a_plain_file_has_no_key_even_if_it_begins_like_a_sealed_one(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for plain in (b"", b"plain", b"\x02hostler file 1\n", b"\x02hostler file 2\n" + b"x" * 99):
        path.write_bytes(plain)
        assert key_id_of(path) is None
