"""How long a platform says to wait: whatever stands in a header or a body, it is a wait or none."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler_sdk.channels.channel import MAX_RETRY_SECONDS, NotSent
from hostler_sdk.channels.retry_after import wait_of

NOW = 1_764_000_000.0  # Mon, 24 Nov 2025 16:00:00 GMT


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("1.5", 1.5),
        ("007", 7.0),
        (7, 7.0),
        (0.25, 0.25),
        ("Mon, 24 Nov 2025 16:00:30 GMT", 30.0),
        ("Monday, 24-Nov-25 16:00:30 GMT", 30.0),
        ("Mon Nov 24 16:00:30 2025", 30.0),
        ("Mon, 24 Nov 2025 17:01:00 +0100", 60.0),
        ("Mon, 24 Nov 2025 15:00:00 GMT", 0.0),
        ("Thu, 24 Nov 2095 16:00:00 GMT", MAX_RETRY_SECONDS),
        ("9" * 400, MAX_RETRY_SECONDS),
        ("9" * 10_000, MAX_RETRY_SECONDS),
        (10**400, MAX_RETRY_SECONDS),
        (1e300, MAX_RETRY_SECONDS),
        ("86401", MAX_RETRY_SECONDS),
    ],
)
def test_a_number_or_a_date_is_a_wait_of_at_most_a_day(value: Any, seconds: float) -> None:
    assert wait_of(value, now=NOW) == seconds


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        " ",
        "-1",
        -1,
        -0.5,
        "+7",
        "7s",
        "7, 8",
        "1e3",
        "nan",
        "NaN",
        "inf",
        "-inf",
        math.nan,
        math.inf,
        -math.inf,
        -(10**400),
        True,
        False,
        "٧",
        "soon",
        [7],
        {"seconds": 7},
        b"7",
        "Mon, 24 Nov 99999999999 16:00:30 GMT",
        "Mon, 44 Nov 2025 26:00:30 GMT",
        "Mon, 24 Nov 2025 16:00:30 +99999999999",
        "Mon, 24 Nov 2025 " + "0" * 100,
    ],
)
def test_what_is_neither_says_nothing(value: Any) -> None:
    assert wait_of(value, now=NOW) is None


def test_numbers_of_a_body_may_be_milliseconds() -> None:
    assert wait_of(1500, unit=0.001) == 1.5
    assert wait_of("1500", unit=0.001) == 1.5
    assert wait_of(10**30, unit=0.001) == MAX_RETRY_SECONDS


@given(
    st.one_of(
        st.text(max_size=80),
        st.text("0123456789:, +-GMTMonNov.eE", max_size=60),
        st.floats(),
        st.integers(),
        st.none(),
        st.booleans(),
    )
)
def test_whatever_comes_it_is_a_wait_or_none(value: Any) -> None:
    seconds = wait_of(value)
    assert seconds is None or 0 <= seconds <= MAX_RETRY_SECONDS
    assert NotSent("limited", retry_after=seconds).retry_after == seconds
