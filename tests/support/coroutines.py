"""How tests that are coroutines are run: by anyio's plugin, on a loop of asyncio each, within a bound."""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import pytest

TEST_SECONDS = 200
"""Bound of one test, or of one of its examples: generous, since it only has to end what hangs."""
MARGIN_SECONDS = 20
"""A test that hangs is ended this long before pytest-timeout ends the whole process."""


@pytest.fixture
def anyio_backend() -> str:
    """One loop per test, of asyncio: nothing here runs on another."""
    return "asyncio"


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Bound the test, by its mark `timeout` where it has one; with Hypothesis, bound each of its examples."""
    test = pyfuncitem.obj
    mark = pyfuncitem.get_closest_marker("timeout")
    seconds = TEST_SECONDS if mark is None else mark.args[0] - MARGIN_SECONDS
    if inspect.iscoroutinefunction(test):
        pyfuncitem.obj = bounded(test, seconds)
    elif inspect.iscoroutinefunction(inner := getattr(getattr(test, "hypothesis", None), "inner_test", None)):
        test.hypothesis.inner_test = bounded(inner, seconds)
    return (yield)


def bounded(
    test: Callable[..., Coroutine[Any, Any, None]], seconds: float
) -> Callable[..., Coroutine[Any, Any, None]]:
    """End a test that hangs, after printing where each of its tasks waits."""

    @functools.wraps(test)
    async def within(**given: Any) -> None:
        printing = asyncio.get_running_loop().call_later(seconds - 0.1, print_tasks)
        try:
            async with asyncio.timeout(seconds):
                await test(**given)
        finally:
            printing.cancel()

    return within


def print_tasks() -> None:
    """Print the stack of each task of this loop, down to what it waits for."""
    for task in asyncio.all_tasks():
        print(f"{task.get_name()}:", file=sys.stderr)
        awaited: Any = task.get_coro()
        while (frame := getattr(awaited, "cr_frame", None)) is not None:
            print(f"  {frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}", file=sys.stderr)
            awaited = awaited.cr_await
        print(f"  waits for {awaited!r}", file=sys.stderr)
