"""Ids, keys, depth and base64: the last value that passes, and the first that does not."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from hostler.domain.keys import (
    MAX_ID_CHARS,
    base64_of,
    base64_size,
    check_depth,
    check_id,
    check_key,
    state_key_of,
    state_value_of,
)
from hostler_protocol.calls import STATE_KEY_ALIASES
from hostler_protocol.errors import InvalidArgumentError, PayloadTooLargeError
from hostler_protocol.limits import MAX_JSON_DEPTH, MAX_KEY_CHARS, MAX_STATE_VALUE_BYTES


def nested(levels: int) -> Any:
    value: Any = 0
    for number in range(levels):
        value = [value] if number % 2 else {"a": value}
    return value


def test_ids_and_keys_have_a_length_and_no_nul() -> None:
    check_id("run_id", "x" * MAX_ID_CHARS)
    check_key("key", "x" * MAX_KEY_CHARS)
    for bad in ("", "x" * (MAX_ID_CHARS + 1), "a\x00"):
        with pytest.raises(InvalidArgumentError, match="run_id"):
            check_id("run_id", bad)
    for bad in ("", "x" * (MAX_KEY_CHARS + 1), "a\x00", "half \ud800"):
        with pytest.raises(InvalidArgumentError, match="key"):
            check_key("key", bad)


def test_aliases_of_state_keys_are_resolved() -> None:
    assert state_key_of("plain") == "plain"
    for alias, key in STATE_KEY_ALIASES.items():
        assert state_key_of(alias) == key


def test_values_are_bounded_in_depth_and_size() -> None:
    check_depth("value", nested(MAX_JSON_DEPTH))
    with pytest.raises(InvalidArgumentError, match="nested"):
        check_depth("value", nested(MAX_JSON_DEPTH + 1))
    assert state_value_of("x" * (MAX_STATE_VALUE_BYTES - 2)) == f'"{"x" * (MAX_STATE_VALUE_BYTES - 2)}"'
    with pytest.raises(PayloadTooLargeError, match="262,144"):
        state_value_of("x" * (MAX_STATE_VALUE_BYTES - 1))
    with pytest.raises(InvalidArgumentError, match="not JSON"):
        state_value_of({"now": object()})


@pytest.mark.parametrize("size", range(7))
def test_base64_is_measured_as_it_is_decoded(size: int) -> None:
    text = base64.b64encode(b"x" * size).decode()
    assert base64_size("data", text) == size
    assert base64_of("data", text, 6) == b"x" * size
    if size:
        with pytest.raises(PayloadTooLargeError):
            base64_of("data", text, size - 1)


@pytest.mark.parametrize("text", ["a", "ab==c", "a b=", "####"])
def test_what_is_not_base64_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="data is not base64"):
        base64_of("data", text, 100)
