"""Sealed values: what opens, what does not, and what they show."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.storage.sealing.envelope import (
    DataKey,
    SealedError,
    bytes_head_of,
    head_of,
    key_id_in,
    new_data_key,
)

pytestmark = pytest.mark.gate("sealed-unaltered")

KEY = new_data_key()


@given(st.one_of(st.text(min_size=1), st.binary(min_size=1)))
def test_what_is_sealed_opens_again_and_names_its_key(plain: str | bytes) -> None:
    sealed = KEY.seal(b"column", plain)
    assert KEY.open(b"column", sealed) == plain
    assert type(sealed) is type(plain)
    assert key_id_in(sealed) == KEY.key_id
    head = head_of(KEY.key_id) if isinstance(sealed, str) else bytes_head_of(KEY.key_id)
    assert sealed[: len(head)] == head


def test_a_value_opens_with_its_key_in_its_column_only() -> None:
    sealed = KEY.seal(b"body", "a text")
    other = DataKey(KEY.key_id, new_data_key().secret)
    for key, label in ((other, b"body"), (KEY, b"metadata")):
        with pytest.raises(SealedError, match="altered, or moved"):
            key.open(label, sealed)


@pytest.mark.parametrize("plain", ["a text of some length", b"bytes of some length"])
def test_no_byte_of_it_can_be_changed_and_none_cut_off(plain: str | bytes) -> None:
    sealed = KEY.seal(b"c", plain)
    head = len(head_of(KEY.key_id)) if isinstance(sealed, str) else len(bytes_head_of(KEY.key_id))
    for at in range(head, len(sealed)):
        changed: str | bytes
        if isinstance(sealed, str):
            changed = f"{sealed[:at]}{'B' if sealed[at] == 'A' else 'A'}{sealed[at + 1 :]}"
        else:
            changed = sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
        if isinstance(changed, str) and _decoded(changed, head) == _decoded(sealed, head):
            continue  # bits that are no part of any byte
        for wrong in (changed, sealed[:at]):
            with pytest.raises(SealedError):
                KEY.open(b"c", wrong)


def _decoded(sealed: str | bytes, head: int) -> bytes | None:
    try:
        return base64.b64decode(sealed[head:])
    except ValueError:
        return None


def test_equal_texts_are_told_apart_only_where_asked() -> None:
    assert KEY.seal(b"c", "yes") != KEY.seal(b"c", "yes")
    assert KEY.seal(b"c", "yes", "equal") == KEY.seal(b"c", "yes", "equal")
    assert KEY.seal(b"c", "yes", "equal") != KEY.seal(b"d", "yes", "equal")
    assert KEY.open(b"c", KEY.seal(b"c", "yes", "equal")) == "yes"


@pytest.mark.parametrize("plain", ["", "text", '{"a": 1}', "\x02", "\x02short", b"", b"\x02hs", 7, None])
def test_other_values_are_not_taken_for_sealed_ones(plain: object) -> None:
    assert key_id_in(plain) is None


def test_a_key_is_in_no_representation() -> None:
    key = new_data_key()
    shown = repr(key) + str(key)
    assert key.secret.hex() not in shown
    assert repr(key.secret) not in shown
