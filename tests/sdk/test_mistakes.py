"""Mistakes of runner authors: each message says what is wrong, and what to do instead."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hostler_protocol.limits import MAX_MESSAGE_BYTES, MAX_RESULT_BYTES
from hostler_sdk import Result, RunContext, Runner, completed, message
from hostler_sdk.testing import drive_sync
from support.driven import of


class Calling(Runner):
    """Makes one call."""

    def __init__(self, method: str, **params: Any) -> None:
        self.method, self.params = method, params

    async def run(self, ctx: RunContext) -> None:
        await ctx.call(self.method, **self.params)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("history.pages", "there is no host call 'history.pages'; there are history.page, history.search"),
        ("nothing", "there is no host call 'nothing'; there are model.invoke, model.stream"),
    ],
)
def test_an_unknown_call_is_refused_with_the_known_ones(method: str, words: str) -> None:
    driven = drive_sync(Calling(method))
    assert driven.code == "runner.error"
    assert driven.error is not None
    assert driven.error.startswith(f"InvalidArgument: {words}")


def test_a_call_over_the_message_size_is_named() -> None:
    value = "x" * MAX_MESSAGE_BYTES
    driven = drive_sync(Calling("state.set", scope="conversation", key="k", value=value))
    assert driven.error is not None
    assert driven.error.startswith("PayloadTooLarge: state.set: the message has")


def test_a_result_over_its_size_says_where_large_content_belongs() -> None:
    async def run(_: RunContext) -> Result:
        return message("x" * MAX_RESULT_BYTES)

    driven = drive_sync(of(run))
    assert driven.code == "payload_too_large"
    assert driven.error is not None
    assert driven.error.startswith("a result of ")
    assert driven.error.endswith("put large content into an artifact")


def test_a_result_after_the_end_is_dropped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def run(ctx: RunContext) -> None:
        await ctx.emit(completed(message="bye"))
        await ctx.emit(message("too late"))

    driven = drive_sync(of(run))
    assert driven.text == "bye"
    assert [record.getMessage().partition(" of run")[0] for record in caplog.records] == [
        "a message.completed after the end"
    ]


def test_a_plain_function_is_no_runner() -> None:
    class Plain(Runner):
        """Plain."""

        def run(self, ctx: RunContext) -> AsyncIterator[Result]:
            return "hello"  # type: ignore[return-value]

    driven = drive_sync(Plain)
    assert driven.error is not None
    assert "must be an async generator" in driven.error
    assert "it gave str" in driven.error
