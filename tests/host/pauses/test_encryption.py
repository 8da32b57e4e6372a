"""Encryption of pauses: nothing readable is stored, nothing altered or moved opens, and keys can change."""

from __future__ import annotations

import base64
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.domain.pause_sealing import PLAIN, SealedError
from hostler.pauses.encryption import LiveCipher, Locked, PauseCipher, open_vault
from hostler.secrets.key_references import KEY_BYTES
from hostler_protocol.errors import InvalidArgumentError

pytestmark = pytest.mark.gate("sealed-pauses")

OLD, NEW = os.urandom(KEY_BYTES), os.urandom(KEY_BYTES)
EXAMPLES = 2_000 if os.environ.get("HOSTLER_SOAK") else 100


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.binary(max_size=200))
def test_what_was_sealed_opens_and_shows_nothing(data: bytes) -> None:
    vault = PauseCipher([NEW])
    key = vault.new_key("p1")
    sealed = vault.seal("p1", key, "state", data)
    assert vault.open("p1", key, "state", sealed) == data
    assert data not in sealed or len(data) < 4
    assert vault.seal("p1", key, "state", data) != sealed, "the same bytes must not look the same twice"


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
    key = before.new_key("p1")
    sealed = before.seal("p1", key, "args", b"{}")
    both = PauseCipher([NEW, OLD])
    assert both.open("p1", key, "args", sealed) == b"{}"
    again = both.rewrapped("p1", key)
    assert again is not None
    assert both.rewrapped("p1", again) is None
    only_new = PauseCipher([NEW])
    assert only_new.open("p1", again, "args", sealed) == b"{}"
    with pytest.raises(SealedError, match="none of the keys in pause_key opens it"):
        only_new.open("p1", key, "args", sealed)
    with pytest.raises(SealedError):
        before.open("p1", again, "args", b"\x01" + bytes(40))


def test_installations_without_a_key_have_no_data_keys_and_store_nothing_in_a_sealed_pause() -> None:
    assert PLAIN.new_key("p1") is None
    vault = PauseCipher([NEW])
    key = vault.new_key("p1")
    with pytest.raises(SealedError):
        PLAIN.seal("p1", key, "args", b"{}")
    with pytest.raises(SealedError):
        PLAIN.open("p1", key, "args", vault.seal("p1", key, "args", b"{}"))


def test_keys_come_from_the_environment_and_from_files(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(OLD.hex() + "\n")
    environment = {"K": base64.urlsafe_b64encode(NEW).decode().rstrip("=")}
    vault = open_vault(["env:K", f"file:{file}"], environment)
    new, old = PauseCipher([NEW]), PauseCipher([OLD])
    key = vault.new_key("p")
    assert key is not None
    assert new.open("p", key, "f", vault.seal("p", key, "f", b"x")) == b"x"
    key = old.new_key("p")
    assert vault.open("p", key, "f", old.seal("p", key, "f", b"x")) == b"x"
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
    assert live.new_key("p") is None, "nothing is configured"
    live.replace(PauseCipher([NEW]))
    key = live.new_key("p")
    assert key is not None
    sealed = live.seal("p", key, "args", b"{}")
    live.replace(Locked("env:K: the environment variable K is not set"))
    with pytest.raises(SealedError, match="the environment variable K is not set"):
        live.new_key("q")
    with pytest.raises(SealedError):
        live.open("p", key, "args", sealed)
    with pytest.raises(SealedError):
        live.seal("p", key, "args", b"{}")
    live.replace(PauseCipher([OLD, NEW]))
    assert live.open("p", key, "args", sealed) == b"{}"
    assert live.rewrapped("p", key) is not None


def test_pauses_of_earlier_versions_open() -> None:
    key = bytes(range(32))
    data_key = bytes.fromhex(
        "01bb0bc6a2b53501df8a12215b2a36ab2535e8f90c1fc9a5386f34dc52490dd220776de46f57"
        "2e751e96cb71e3e54590a1c6ee2277f4ddc155fa14cbdc0e077e8a6406a838"
    )
    sealed = bytes.fromhex("0190ec07446cf9f35586175622c075f8ec721841c89af6843c7d1f7a4ab40fedf0a310b4a2b8ae33")
    assert PauseCipher([NEW, key]).open("pause-1", data_key, "state", sealed) == b'{"step": 3}'
