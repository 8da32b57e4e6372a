"""Declare routes of the LangGraph interface: below `/langgraph`, with its keys and its errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from hostler.http.auth import Right
from hostler.http.endpoint import AnyKey, Media, Method, endpoint
from hostler.http.langgraph.dialect import LANGGRAPH
from hostler.http.sse import EVENT_STREAM

STREAM = Media(EVENT_STREAM, "Events of a LangGraph run; `id` is what `Last-Event-ID` continues after")
F = TypeVar("F", bound=Callable[..., Awaitable[Any]])


def route(
    method: Method,
    path: str,
    right: Right | AnyKey,
    *,
    narrow: bool = False,
    answer: Any = None,
    status: int = 200,
) -> Callable[[F], F]:
    """Declare a function as a route, as `endpoint` does.

    `narrow`: holders of front-end tokens may use it; the function checks the run that `{answer}` names.
    `answer`: what it answers with, where its type does not say that.
    """
    return endpoint(
        method,
        f"/langgraph{path}",
        right=right,
        tag="langgraph",
        dialect=LANGGRAPH,
        status=status,
        answers=None if answer is None else {status: answer},
        narrow=() if narrow else None,
        checks=("answer",) if narrow and "{answer}" in path else (),
    )
