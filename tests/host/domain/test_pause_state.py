"""The state that a runner leaves with a pause: it is read back as it was, or refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.pause_sealing import PLAIN, SealedError
from hostler.domain.pause_state import decode_state, encode_state
from hostler.domain.pauses import STATE_FORMAT
from hostler.pauses.encryption import PauseCipher
from hostler.pauses.explicit_states import load
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import pauses
from hostler.storage.stores.blobs import BlobFolder
from hostler_protocol.errors import InvalidArgumentError, PayloadTooLargeError, StorageError, UnavailableError
from support.pauses import WORKSPACE, keep_state, open_pause, open_run

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_20_open_close_load_gives_the_same_state_digest(state: Any) -> None:
    encoded = encode_state(state)
    opened = decode_state(encoded.data, encoded.digest, encoded.format)
    assert opened == state
    assert encode_state(opened) == encoded


@pytest.mark.parametrize(
    ("state", "path"),
    [
        ({"a": [1, {"b": float("nan")}]}, "state.a[1].b"),
        ({"when": object()}, "state.when"),
        ({"text": "\ud800"}, "state.text"),
        ({"keys": {1: "one"}}, "state.keys"),
        (["x", float("-inf")], "state[1]"),
        ({"big": {2, 3}}, "state.big"),
    ],
)
def test_19_what_cannot_be_read_back_is_refused_by_its_path(state: Any, path: str) -> None:
    with pytest.raises(InvalidArgumentError, match=path.replace("[", r"\[").replace("]", r"\]")):
        encode_state(state)


def test_too_deep_and_too_large_states_are_refused() -> None:
    deep: Any = None
    for _ in range(1_000):
        deep = [deep]
    with pytest.raises(InvalidArgumentError, match="nested"):
        encode_state(deep)
    with pytest.raises(PayloadTooLargeError):
        encode_state("x" * 9_000_000)


def test_a_damaged_or_newer_state_is_not_loaded() -> None:
    encoded = encode_state({"step": 3})
    with pytest.raises(StorageError, match="damaged"):
        decode_state(encoded.data.replace(b"3", b"4"), encoded.digest, encoded.format)
    with pytest.raises(UnavailableError, match="format"):
        decode_state(encoded.data, encoded.digest, STATE_FORMAT + 1)


@pytest.mark.parametrize("size", [10, 300_000])
@pytest.mark.parametrize("codec", [PLAIN, PauseCipher([b"k" * 32])], ids=["plain", "sealed"])
async def test_20_a_state_is_kept_in_its_row_or_as_a_blob_sealed_or_not(
    database: SqlDatabase, tmp_path: Path, size: int, codec: Any
) -> None:
    blobs = BlobFolder(tmp_path / "blobs")
    state = {"text": "canary" + "x" * size, "list": [1, 2.5, None]}
    kept = await keep_state(blobs, codec, state)
    assert (kept["state_blob"] is not None) == (size > 262_144)
    await database.write(open_run)
    await database.write(lambda tx: open_pause(tx, form="explicit", **kept))
    pause = await database.read(lambda tx: pauses.get(tx, WORKSPACE, "p1"))
    assert await load(blobs, codec, pause) == state
    if codec is not PLAIN:
        assert b"canary" not in (pause.state or b"")
        with pytest.raises(SealedError):
            await load(blobs, PauseCipher([b"o" * 32]), pause)
    blobs.close()
