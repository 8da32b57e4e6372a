"""Known values: what was read is taken out of errors and of the output of programs, in any pieces."""

from __future__ import annotations

import os
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.domain.redaction import MARK
from hostler.secrets import known_values
from hostler.secrets.known_values import MAX_KNOWN, KnownValues, OutputRedactor, redact, redact_error
from hostler.secrets.resolver import resolve_secret
from hostler_protocol.errors import Fault, InvalidArgumentError, RemoteFaultError

pytestmark = pytest.mark.gate("redaction")

SECRET = "hunter2-of-this-test"


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> KnownValues:
    values = KnownValues()
    monkeypatch.setattr(known_values, "KNOWN", values)
    return values


def test_what_is_read_is_known_from_then_on() -> None:
    assert redact(f"said {SECRET}") == f"said {SECRET}"
    resolve_secret("env:K", {"K": SECRET})
    assert redact(f"said {SECRET}") == f"said {MARK}"
    resolve_secret("env:K", {"K": "no"})
    assert redact("no, said nobody") == "no, said nobody", "what is as short as that is not redacted"


def test_errors_lose_their_secrets_in_message_and_details(known: KnownValues) -> None:
    known.remember(SECRET)
    error = redact_error(InvalidArgumentError(f"wrong: {SECRET}", errors=[{"got": SECRET, "at": 3}]))
    assert (error.message, str(error)) == (f"wrong: {MARK}", f"wrong: {MARK}")
    assert error.details == {"errors": [{"got": MARK, "at": 3}]}
    fault = Fault(code="conflict", message=f"no {SECRET}", details={"a": {"b": SECRET}})
    remote = redact_error(RemoteFaultError(fault))
    assert (remote.fault.message, remote.fault.details) == (f"no {MARK}", {"a": {"b": MARK}})


def test_so_many_values_are_remembered_and_long_ones_by_line(known: KnownValues) -> None:
    for number in range(MAX_KNOWN + 10):
        known.remember(f"value-{number:05}")
    assert known.replaced("value-00000 value-00010") == f"value-00000 {MARK}"
    known.remember("\n".join(f"line {number:04} of a certificate" for number in range(500)))
    assert known.replaced("x line 0007 of a certificate x") == f"x {MARK} x"


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from([SECRET, "hunter2-of", SECRET[1:], "\n", "x", "|", 'a"\u00fc\n42']), max_size=12
    ),
    st.data(),
)
def test_output_in_pieces_of_any_length_shows_no_secret(words: list[str], data: st.DataObject) -> None:
    values = KnownValues()
    values.remember(SECRET)
    values.remember('a"\u00fc\n42')
    whole = "".join(words).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    redactor = OutputRedactor(values)
    pieces = [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    shown = b"".join([*map(redactor.take, pieces), redactor.end()])
    assert shown == whole.replace(SECRET.encode(), b"***").replace('a"\u00fc\n42'.encode(), b"***")


def test_output_is_held_back_only_where_a_secret_may_begin(known: KnownValues) -> None:
    known.remember(SECRET)
    redactor = OutputRedactor()
    assert redactor.take(b"a line\nhalf of one") == b"a line\nhalf of one"
    assert redactor.take(b" hunter2-") == b" "
    assert redactor.take(b"hunter") == b"hunter2-"
    assert redactor.end() == b"hunter"


def test_a_flood_is_redacted_in_reasonable_time(known: KnownValues) -> None:
    for number in range(50):
        known.remember(f"{number:02}{os.urandom(16).hex()}")
    known.remember("a line" + os.urandom(2_000).hex())
    redactor, began = OutputRedactor(), time.process_time()
    for _ in range(64):
        redactor.take(b"a line of a program that writes a lot, as fast as it can\n" * 1_150)
    assert time.process_time() - began < 10, "4 MiB, what a plugin may write in a second"
    print(f"4 MiB in {time.process_time() - began:.3f} s of CPU")


def test_keys_and_run_tokens_of_the_host_are_no_output(known: KnownValues) -> None:
    token = "hostler_run_" + "aB3-_" * 9
    for cut in range(len(token) + 1):
        redactor = OutputRedactor()
        whole = redactor.take(f"see {token[:cut]}".encode()) + redactor.take(f"{token[cut:]}, done".encode())
        assert whole + redactor.end() == b"see ***, done"
    redactor = OutputRedactor()
    assert (
        redactor.take(b"about hostler_sdk and hostler_protocol\n")
        == b"about hostler_sdk and hostler_protocol\n"
    )
