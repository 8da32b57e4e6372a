"""Encryption of pauses: nothing readable is stored, nothing altered or moved opens, and keys can change."""

from __future__ import annotations

import base64
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.domain.pause_sealing import PLAIN, Box, SealedError
from hostler.pauses.encryption import KEY_BYTES, LiveCipher, Locked, PauseCipher, open_vault
from hostler_protocol.errors import InvalidArgumentError

OLD, NEW = os.urandom(KEY_BYTES), os.urandom(KEY_BYTES)
EXAMPLES = 2_000 if os.environ.get("HOSTLER_SOAK") else 100


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.text(max_size=200), st.binary(max_size=200))
def test_what_was_sealed_opens_and_shows_nothing(text: str, data: bytes) -> None:
    box = Box.new(PauseCipher([NEW]), "p1")
    sealed_text, sealed = box.seal_text("args", text), box.seal("state", data)
    assert sealed_text is not None
    assert sealed is not None
    assert box.open_text("args", sealed_text) == text
    assert box.open("state", sealed) == data
    assert text not in sealed_text or len(text) < 6
    assert data not in sealed or len(data) < 4
    assert box.seal_text("args", text) != sealed_text, "the same text must not look the same twice"


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.data())
def test_one_altered_bit_anywhere_is_found(data: st.DataObject) -> None:
    vault = PauseCipher([NEW])
    key = vault.new_key("p1")
    sealed = vault.seal("p1", key, "args", b"the arguments")

    def flipped(whole: bytes) -> bytes:
        at = data.draw(st.integers(0, len(whole) * 8 - 1))
        changed = bytearray(whole)
        changed[at // 8] ^= 1 << at % 8
        return bytes(changed)

    with pytest.raises(SealedError):
        vault.open("p1", key, "args", flipped(sealed))
    with pytest.raises(SealedError):
        vault.open("p1", flipped(key), "args", sealed)


def test_values_do_not_open_in_another_place() -> None:
    vault = PauseCipher([NEW])
    key = vault.new_key("p1")
    sealed = vault.seal("p1", key, "args", b"x")
    for pause_id, data_key, field in [
        ("p2", key, "args"),
        ("p1", key, "result"),
        ("p1", vault.new_key("p1"), "args"),
        ("p1", vault.new_key("p2"), "args"),
    ]:
        with pytest.raises(SealedError):
            vault.open(pause_id, data_key, field, sealed)


def test_keys_rotate_without_touching_what_is_sealed() -> None:
    before = PauseCipher([OLD])
    box = Box.new(before, "p1")
    assert box.data_key is not None
    sealed = box.seal_text("args", "{}")
    both = PauseCipher([NEW, OLD])
    assert Box(both, "p1", box.data_key).open_text("args", sealed) == "{}"
    again = both.rewrapped("p1", box.data_key)
    assert again is not None
    assert both.rewrapped("p1", again) is None
    only_new = PauseCipher([NEW])
    assert Box(only_new, "p1", again).open_text("args", sealed) == "{}"
    with pytest.raises(SealedError, match="none of the keys in pause_key opens it"):
        Box(only_new, "p1", box.data_key).open_text("args", sealed)
    with pytest.raises(SealedError):
        before.open("p1", again, "args", b"\x01" + bytes(40))


def test_without_its_data_key_a_text_is_gone() -> None:
    box = Box.new(PauseCipher([NEW]), "p1")
    sealed = box.seal_text("args", "secret")
    assert Box(PauseCipher([NEW]), "p1", None).open_text("args", sealed) is None


def test_installations_without_a_key_store_texts_as_they_are_and_never_into_a_sealed_pause() -> None:
    box = Box.new(PLAIN, "p1")
    assert box.data_key is None
    assert box.seal_text("args", "{}") == box.open_text("args", "{}") == "{}"
    assert box.seal("state", b"x") == box.open("state", b"x") == b"x"
    assert box.seal_text("args", None) is box.open_text("args", None) is None
    sealed = Box.new(PauseCipher([NEW]), "p1")
    no_keys = Box(PLAIN, "p1", sealed.data_key)
    with pytest.raises(SealedError):
        no_keys.seal_text("args", "{}")
    with pytest.raises(SealedError):
        no_keys.open_text("args", sealed.seal_text("args", "{}"))


def test_keys_come_from_the_environment_and_from_files(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(OLD.hex() + "\n")
    environment = {"K": base64.urlsafe_b64encode(NEW).decode().rstrip("=")}
    vault = open_vault(["env:K", f"file:{file}"], environment)
    box = Box.new(vault, "p")
    assert Box(PauseCipher([NEW]), "p", box.data_key).open_text("f", box.seal_text("f", "x")) == "x"
    old = Box.new(PauseCipher([OLD]), "p")
    assert Box(vault, "p", old.data_key).open_text("f", old.seal_text("f", "x")) == "x"
    assert open_vault([]) is PLAIN


@pytest.mark.parametrize(
    ("references", "environment", "message"),
    [
        (["env:K"], {}, "env:K: the environment variable K is not set"),
        (["env:K"], {"K": "dG9vIHNob3J0"}, "env:K holds no key: 32 bytes"),
        (["file:/nowhere/key"], {}, "file:/nowhere/key: the file cannot be read"),
        ([NEW.hex()], {}, "never written out"),
        (["env:K", "env:L"], {"K": NEW.hex(), "L": NEW.hex()}, "twice"),
        (["env:K"] * 17, {"K": NEW.hex()}, "at most 16"),
    ],
)
def test_a_wrong_key_is_named_and_not_shown(
    references: list[str], environment: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as error:
        open_vault(references, environment)
    assert NEW.hex() not in error.value.message
    assert "dG9vIHNob3J0" not in error.value.message


def test_without_the_extra_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(InvalidArgumentError, match=r"hostler\[encryption\]"):
        open_vault(["env:K"], {"K": NEW.hex()})


def test_where_the_keys_are_missing_nothing_is_stored_in_the_clear() -> None:
    live = LiveCipher()
    assert Box.new(live, "p").data_key is None, "nothing is configured"
    live.replace(PauseCipher([NEW]))
    box = Box.new(live, "p")
    sealed = box.seal_text("args", "{}")
    live.replace(Locked("env:K: the environment variable K is not set"))
    with pytest.raises(SealedError, match="the environment variable K is not set"):
        Box.new(live, "q")
    with pytest.raises(SealedError):
        box.open_text("args", sealed)
    with pytest.raises(SealedError):
        box.seal_text("args", "{}")
    live.replace(PauseCipher([OLD, NEW]))
    assert box.open_text("args", sealed) == "{}"
    assert live.rewrapped("p", box.data_key or b"") is not None
