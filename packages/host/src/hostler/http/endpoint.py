"""The table of routes.

A route is a function decorated with `endpoint`: `async def get_run(request) -> RunRecord`. What it reads is
declared by its parameters (`query`: a struct of the query string, `body`: the JSON body, or `Fitted` of it),
what it answers by its return type; the OpenAPI document is made of the same declarations. No route can be
without a decision on who may call it: `right` has no default.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import msgspec

from hostler.http.auth import Right
from hostler.http.request import Fitted
from hostler.http.responses import Empty, Json

Method = Literal["GET", "POST", "PUT", "DELETE"]
F = TypeVar("F", bound=Callable[..., Awaitable[Any]])
_PARAMETER = re.compile(r"{([a-z_]+)}")


@dataclass(frozen=True, slots=True)
class Media:
    """A body that is not made of our structs, for the documentation.

    `schema`: of the body; of a stream of events, of each event.
    """

    type: str
    description: str
    schema: dict[str, Any] = field(default_factory=lambda: {"type": "string"})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One route. `right` None: open to everybody.

    `answers`: status -> type of the JSON body, Media, None for no body, or a tuple of such.
    """

    method: Method
    path: str
    right: Right | None
    function: Callable[..., Awaitable[Any]]
    tag: str
    summary: str
    description: str
    query: type[Any] | None
    body: Any
    reads_body: bool
    status: int
    answers: dict[int, Any] = field(default_factory=dict)
    media: Media | None = None
    idempotent: bool = False
    keeps_keys: bool = False
    """It sees to Idempotency-Key itself, in the transaction of what it does."""
    fits_body: bool = False
    """It takes a body that does not fit, too, as `Fitted`, and tells what is wrong with it."""

    @property
    def name(self) -> str:
        """`get_run`: also its operation id."""
        return self.function.__name__

    @property
    def parameters(self) -> list[str]:
        """Names in the path, in order."""
        return _PARAMETER.findall(self.path)

    @property
    def body_optional(self) -> bool:
        """Whether an empty body stands for `{}`: every field has a default."""
        if not self.reads_body or not issubclass(self.body, msgspec.Struct):
            return False
        return not any(f.required for f in msgspec.structs.fields(self.body))


def endpoint(
    method: Method,
    path: str,
    *,
    right: Right | None,
    tag: str,
    status: int = 200,
    answers: dict[int, Any] | None = None,
    media: Media | None = None,
    keeps_keys: bool = False,
) -> Callable[[F], F]:
    """Make a function a route. `media`: it reads its body itself, of that type, as it comes.

    Every POST honours Idempotency-Key, except those that read their own body or are idempotent by
    themselves and say so with `media` or by being an event.
    """

    def declare(function: F) -> F:
        hints = typing.get_type_hints(function)
        returned = hints.pop("return")
        body = hints.get("body")
        fits_body = typing.get_origin(body) is Fitted
        summary, _, description = (inspect.getdoc(function) or "").partition("\n")
        entry = Endpoint(
            method=method,
            path=path,
            right=right,
            function=function,
            tag=tag,
            summary=summary.rstrip("."),
            description=description.strip(),
            query=hints.get("query"),
            body=typing.get_args(body)[0] if fits_body else body,
            reads_body="body" in hints,
            status=status,
            answers=answers if answers is not None else _answers_of(returned, status),
            media=media,
            idempotent=method == "POST" and media is None and path != "/v1/events",
            keeps_keys=keeps_keys,
            fits_body=fits_body,
        )
        function.__endpoint__ = entry  # type: ignore[attr-defined]
        return function

    return declare


def endpoints_of(*modules: Any) -> list[Endpoint]:
    """The routes of some modules, in the order of the files."""
    return [
        value.__endpoint__
        for module in modules
        for value in vars(module).values()
        if hasattr(value, "__endpoint__") and value.__module__ == module.__name__
    ]


def _answers_of(returned: Any, status: int) -> dict[int, Any]:
    if returned is Empty:
        return {204 if status == 200 else status: None}
    if typing.get_origin(returned) is Json:
        return {status: typing.get_args(returned)[0]}
    return {status: returned}
