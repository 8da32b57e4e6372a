"""The table of routes.

A route is a function decorated with `endpoint`: `async def get_run(request) -> RunRecord`. Its parameters
declare its input (`query`: a struct of the query string; `body`: the type of the JSON body, or a
`LenientBody` of it), its return type declares its response. The OpenAPI document is generated from the same
declarations. `right` has no default, so that every route states who may call it.
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
from hostler.http.request import LenientBody
from hostler.http.responses import Empty, Json

Method = Literal["GET", "POST", "PUT", "DELETE"]
F = TypeVar("F", bound=Callable[..., Awaitable[Any]])
_PARAMETER = re.compile(r"{([a-z_]+)}")


@dataclass(frozen=True, slots=True)
class Media:
    """A body that is not one of the API's structs, for the OpenAPI document.

    `schema` describes the body; for an event stream, each event.
    """

    type: str
    description: str
    schema: dict[str, Any] = field(default_factory=lambda: {"type": "string"})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One route. `right` None: no key is needed.

    `answers`: status -> type of the JSON body, Media, None for no body, or a tuple of these.
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
    handles_idempotency: bool = False
    """The route handles Idempotency-Key itself, in the transaction of its change."""
    lenient_body: bool = False
    """The route takes a `LenientBody`: it also accepts a body with mistakes, and reports them."""

    @property
    def name(self) -> str:
        """The name of the function, like `get_run`; also the operation id."""
        return self.function.__name__

    @property
    def parameters(self) -> list[str]:
        """The names of the path parameters, in order."""
        return _PARAMETER.findall(self.path)

    @property
    def body_optional(self) -> bool:
        """Whether an empty body is read as `{}`, because every field has a default."""
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
    handles_idempotency: bool = False,
) -> Callable[[F], F]:
    """Declare a function as a route. `media`: the route reads its body itself, of that type, as a stream.

    Every POST honours Idempotency-Key, except routes with `media` and `POST /v1/events`, whose events have
    ids of their own.
    """

    def declare(function: F) -> F:
        hints = typing.get_type_hints(function)
        returned = hints.pop("return")
        body = hints.get("body")
        lenient_body = typing.get_origin(body) is LenientBody
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
            body=typing.get_args(body)[0] if lenient_body else body,
            reads_body="body" in hints,
            status=status,
            answers=answers if answers is not None else _answers_of(returned, status),
            media=media,
            idempotent=method == "POST" and media is None and path != "/v1/events",
            handles_idempotency=handles_idempotency,
            lenient_body=lenient_body,
        )
        function.__endpoint__ = entry  # type: ignore[attr-defined]
        return function

    return declare


def endpoints_of(*modules: Any) -> list[Endpoint]:
    """Return the routes of some modules, in the order of their definitions."""
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
