"""Tests that are coroutines have a loop, and a bound at which they say where they wait."""

from __future__ import annotations

import asyncio

import pytest

from support.coroutines import bounded


async def test_a_test_that_hangs_is_ended_and_says_where_its_tasks_wait(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def beside() -> None:
        await asyncio.Event().wait()

    async def hangs() -> None:
        task = asyncio.create_task(beside(), name="the one beside")
        await task

    with pytest.raises(TimeoutError):
        await bounded(hangs, 0.2)()
    told = capsys.readouterr().err
    assert "the one beside:" in told
    assert __file__ in told
    assert "waits for <" in told


async def test_a_test_gets_its_fixtures_and_its_outcome_is_its_own() -> None:
    async def fails(number: int) -> None:
        assert number == 2

    await bounded(fails, 5)(number=2)
    with pytest.raises(AssertionError):
        await bounded(fails, 5)(number=1)
