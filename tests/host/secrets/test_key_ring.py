"""The key ring: nothing altered or moved opens, keys can change, and without its keys it locks."""

from __future__ import annotations

import base64
import os
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.secrets.key_command import COMMAND_SECONDS, MAX_OUTPUT_BYTES, run_key_command
from hostler.secrets.key_ring import (
    SEALED_OVERHEAD,
    KeyRing,
    KeyRingError,
    LiveKeyRing,
    Locked,
    UnknownKeyError,
    key_ring_mistake,
    new_key,
    open_key_ring,
    open_sealed,
    seal,
)
from hostler.secrets.resolver import SecretUnreadableError
from hostler_protocol.errors import InvalidArgumentError

pytestmark = pytest.mark.gate("master-key")

OLD, NEW, DATA = new_key(), new_key(), new_key()
EXAMPLES = 2_000 if os.environ.get("HOSTLER_SOAK") else 100


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=50))
def test_what_was_sealed_opens_in_its_place_and_shows_nothing(plain: bytes, bound: bytes) -> None:
    sealed = seal(DATA, bound, plain)
    assert open_sealed(DATA, bound, sealed) == plain
    assert len(sealed) == len(plain) + SEALED_OVERHEAD
    assert plain not in sealed or len(plain) < 4
    with pytest.raises(KeyRingError):
        open_sealed(DATA, bound + b"x", sealed)
    with pytest.raises(KeyRingError):
        open_sealed(NEW, bound, sealed)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.data())
def test_one_altered_bit_or_a_cut_anywhere_is_found(data: st.DataObject) -> None:
    wrapped, sealed = KeyRing([NEW]).wrap(b"place", DATA), seal(DATA, b"place", b"plain")

    def damaged(whole: bytes) -> bytes:
        if data.draw(st.booleans()):
            return whole[: data.draw(st.integers(0, len(whole) - 1))]
        at = data.draw(st.integers(0, len(whole) * 8 - 1))
        changed = bytearray(whole)
        changed[at // 8] ^= 1 << at % 8
        return bytes(changed)

    with pytest.raises(KeyRingError):
        KeyRing([NEW, OLD]).unwrap(b"place", damaged(wrapped))
    with pytest.raises(KeyRingError):
        open_sealed(DATA, b"place", damaged(sealed))


def test_the_current_key_changes_and_the_old_one_goes_once_nothing_is_left_under_it() -> None:
    before = KeyRing([OLD])
    wrapped = before.wrap(b"place", DATA)
    both = KeyRing([NEW, OLD])
    assert both.ids == [both.current_id, before.current_id]
    assert (before.is_current(wrapped), both.is_current(wrapped)) == (True, False)
    again = both.rewrap(b"place", wrapped)
    assert again is not None
    assert both.rewrap(b"place", again) is None
    after = KeyRing([NEW])
    assert after.unwrap(b"place", again) == both.unwrap(b"place", wrapped) == DATA
    with pytest.raises(UnknownKeyError, match=before.current_id):
        after.unwrap(b"place", wrapped)
    with pytest.raises(KeyRingError):
        both.rewrap(b"another place", wrapped)
    assert OLD.hex() not in both.current_id
    assert KeyRing([OLD]).current_id == before.current_id, "an id is that of the key, on each host"


def test_what_a_newer_version_wrapped_is_no_other_key() -> None:
    ring = KeyRing([NEW])
    with pytest.raises(KeyRingError, match="a newer version"):
        ring.unwrap(b"", b"\x02" + ring.wrap(b"", DATA)[1:])
    assert not ring.is_current(b"\x02" + ring.wrap(b"", DATA)[1:])
    with pytest.raises(KeyRingError, match="a newer version"):
        open_sealed(DATA, b"", b"\x02" + seal(DATA, b"", b"x")[1:])


def test_keys_come_from_the_environment_from_files_and_from_commands(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(OLD.hex() + "\n")
    environment = {"K": base64.urlsafe_b64encode(NEW).decode().rstrip("=")}
    third = new_key()
    command = f"command:{sys.executable} -c 'print(\"{third.hex()}\")'"
    ring = open_key_ring(["env:K", f"file:{file}", command], environment)
    assert ring is not None
    assert ring.ids == [KeyRing([key]).current_id for key in (NEW, OLD, third)]
    assert open_key_ring([]) is None


@pytest.mark.parametrize(
    ("references", "environment", "message"),
    [
        (["env:K"], {}, "env:K: the environment variable K is not set"),
        (["env:K"], {"K": "dG9vIHNob3J0"}, "env:K holds no key: 32 bytes"),
        (["file:/nowhere/key"], {}, "file:/nowhere/key: the file cannot be read"),
        ([NEW.hex()], {}, "never written out"),
        (["secret://master"], {}, "env:NAME, file:PATH or command:PROGRAM"),
        (["env:K", "env:L"], {"K": NEW.hex(), "L": NEW.hex()}, "twice"),
        (["env:K"] * 17, {"K": NEW.hex()}, "at most 16"),
        (["command:"], {}, "names no program"),
        (["command:no-such-program-anywhere x"], {}, "cannot be started"),
        ([f"command:echo {NEW.hex()}00"], {}, r"command:echo \.\.\. holds no key"),
    ],
)
def test_a_wrong_key_is_named_and_not_shown(
    references: list[str], environment: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as error:
        open_key_ring(references, environment)
    assert error.value.message.startswith(("master_key: ", "command:"))
    assert NEW.hex() not in error.value.message
    assert "dG9vIHNob3J0" not in error.value.message


def test_without_the_extra_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(InvalidArgumentError, match=r"hostler\[encryption\]"):
        open_key_ring(["env:K"], {"K": NEW.hex()})


def test_keys_that_cannot_be_read_lock() -> None:
    live = LiveKeyRing()
    assert (live.ring, live.locked) == (None, None)
    ring = KeyRing([NEW])
    live.replace(ring)
    assert (live.ring, live.locked) == (ring, None)
    live.replace(Locked("env:K: the environment variable K is not set"))
    assert live.locked == "env:K: the environment variable K is not set"
    with pytest.raises(KeyRingError, match="the environment variable K is not set"):
        _ = live.ring


@pytest.mark.parametrize(
    ("reference", "severity", "message"),
    [
        ("env:HOSTLER_KEY_THAT_IS_NOT_SET", "warning", "is not set"),
        ("command:no-such-program-anywhere", "warning", "there is no such program"),
        ("command:'", "error", "this is no command"),
        ("hunter2", "error", "never written out"),
    ],
)
def test_a_review_finds_what_is_wrong_and_runs_no_command(
    tmp_path: Path, reference: str, severity: str, message: str
) -> None:
    ran = tmp_path / "ran"
    mistake = key_ring_mistake([f"command:touch {ran}", reference])
    assert mistake is not None
    assert (mistake.severity, message in mistake.text) == (severity, True)
    assert key_ring_mistake([f"command:touch {ran}"]) is None
    assert not ran.exists()


def python(code: str) -> str:
    return f"command:{sys.executable} -c '{code}'"


def test_a_command_runs_without_a_shell_and_its_output_is_the_key(tmp_path: Path) -> None:
    assert run_key_command(python('import sys; print("  key\\n"); sys.stderr.write("debug")')) == "key"
    ran = tmp_path / "ran"
    assert run_key_command(f"command:echo $(touch {ran}) ; touch {ran} | x") == (
        f"$(touch {ran}) ; touch {ran} | x"
    )
    assert not ran.exists()
    assert run_key_command(python("import sys; print(sys.stdin.read())")) == ""


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ('import sys; print("key"); print("no access", file=sys.stderr); sys.exit(3)', "status 3: no access"),
        ("import os; os.kill(os.getpid(), 9)", "ended by signal 9"),
        ('print("key" * 10_000)', "prints more than a key"),
        ('while True: print("x" * 1000)', "prints more than a key"),
        ('import sys; sys.stderr.write("e" * 10_000_000); sys.exit(1)', "status 1: eee"),
        ("import time; time.sleep(600)", "did not end in time"),
        ("import os, time; os.close(1); os.close(2); time.sleep(600)", "did not end in time"),
    ],
)
def test_a_command_that_fails_says_why_and_not_what_it_printed(code: str, message: str) -> None:
    with pytest.raises(SecretUnreadableError, match=message) as failed:
        run_key_command(python(code), 2.0 if "sleep" in code else COMMAND_SECONDS)
    assert "keykey" not in failed.value.message
    assert len(failed.value.message) < MAX_OUTPUT_BYTES / 4


def test_what_a_command_leaves_behind_is_ended_and_not_waited_for() -> None:
    code = (
        "import subprocess, sys; "
        'one = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]); print(one.pid)'
    )
    began = time.monotonic()
    pid = int(run_key_command(python(code)))
    assert time.monotonic() - began < COMMAND_SECONDS
    until = time.monotonic() + 20
    while Path(f"/proc/{pid}/stat").exists() and ") Z" not in Path(f"/proc/{pid}/stat").read_text("utf-8"):
        assert time.monotonic() < until, "what the command started is still there"
