"""Token buckets: a burst, then the rate; many keys stay bounded."""

from __future__ import annotations

import pytest

from hostler.domain.token_bucket import TokenBucket, TokenBuckets


def test_a_rate_below_one_a_second() -> None:
    bucket = TokenBucket(0.5, 0.5, 0.0)
    assert bucket.take(0.0) == 0.0
    assert bucket.take(0.0) == 2.0
    assert bucket.take(1.0) == 1.0
    assert bucket.take(2.0) == 0.0


def test_a_clock_that_goes_back_gives_no_tokens() -> None:
    bucket = TokenBucket(1.0, 2.0, 100.0)
    assert [bucket.take(100.0) for _ in range(3)] == [0.0, 0.0, 1.0]
    assert bucket.take(50.0) == 1.0
    assert bucket.take(100.5) == 0.5


def test_keys_have_a_bucket_each_and_the_least_recently_used_one_is_dropped() -> None:
    now = 1000.0
    buckets = TokenBuckets(10.0, 3.0, clock=lambda: now, max_buckets=100)
    assert [buckets.take("a") for _ in range(3)] == [0.0, 0.0, 0.0]
    assert buckets.take("a") == pytest.approx(0.1)
    assert buckets.wait("a") == pytest.approx(0.1)
    assert buckets.take("b") == 0.0
    assert buckets.wait("unknown") == 0.0
    now += 0.1
    assert buckets.take("a") == 0.0
    assert buckets.take("a") > 0
    now += 3600
    assert [buckets.take("a") > 0 for _ in range(4)] == [False, False, False, True]
    for number in range(99):
        buckets.take(f"other {number}")
    assert buckets.wait("a") > 0, "it was used after b, which made room"
    buckets.take("one more")
    assert buckets.wait("a") == 0.0
    assert len(buckets._buckets) == 100
