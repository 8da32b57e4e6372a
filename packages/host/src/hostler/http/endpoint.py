"""The table of routes.

A route is a function decorated with `endpoint`: `async def get_run(request) -> RunRecord`. Its parameters
declare its input (`query`: a struct of the query string; `body`: the type of the JSON body, or a
`LenientBody` of it), its return type declares its response. The OpenAPI document is generated from the same
declarations. `right` has no default, so that every route states who may call it.

`Router` finds the routes of a path. Paths are matched percent-encoded, because an id may contain a slash. A
literal segment takes precedence over a parameter; a parameter is one non-empty segment.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import msgspec

from hostler.domain.record import Record
from hostler.http.auth import Right
from hostler.http.dialects.dialect import Dialect
from hostler.http.request import LenientBody
from hostler.http.responses import Empty, Json

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
AnyKey = Literal["any key"]
ANY_KEY: AnyKey = "any key"
"""In place of a right: the route itself looks at the rights of the key."""
NARROW_PARAMETERS = frozenset(
    {"run_id", "conversation_id", "chat", "thread", "artifact_id", "agent", "pause_id"}
)
"""Parameters of paths that are checked for a narrow caller (http/narrow.py) before its route is called."""
NARROW_FIELDS = frozenset({"agent", "conversation_id"})
F = TypeVar("F", bound=Callable[..., Awaitable[Any]])
_PARAMETER = re.compile(r"{([a-z_]+)}")


class Media(Record):
    """A body that is not one of the API's structs, for the OpenAPI document.

    `schema` describes the body; for an event stream, each event. `holds`: structs that it refers to.
    """

    type: str
    description: str
    schema: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "string"})
    holds: tuple[Any, ...] = ()


class Endpoint(Record):
    """One route. `right` None: no key is needed. `signed_in`: only people who have signed in may use it, with
    whatever role. `narrow`: how holders of front-end tokens may use it; None: they may not.

    `answers`: status -> type of the JSON body, Media, None for no body, or a tuple of these.
    """

    method: Method
    path: str
    right: Right | AnyKey | None
    function: Callable[..., Awaitable[Any]]
    tag: str
    summary: str
    description: str
    query: type[Any] | None
    body: Any
    reads_body: bool
    status: int
    answers: dict[int, Any] = msgspec.field(default_factory=dict)
    media: Media | None = None
    idempotent: bool = False
    handles_idempotency: bool = False
    """The route handles Idempotency-Key itself, in the transaction of its change."""
    signed_in: bool = False
    dialect: Dialect | None = None
    """The standard interface that the route belongs to: its errors are in that one's words."""
    lenient_body: bool = False
    """The route takes a `LenientBody`: it also accepts a body with mistakes, and reports them."""
    narrow: tuple[str, ...] | None = None
    """For narrow callers: the fields of the query that are filled in with their agent and conversation."""
    narrow_right: Right | None = None
    """The right that narrow callers need in place of `right`, where no token has that."""
    takes_below: bool = False
    """The route takes all paths below its own, too, and finds in the request's what comes after it."""

    @property
    def name(self) -> str:
        """The name of the function, like `get_run`; also the operation id."""
        return self.function.__name__

    @property
    def parameters(self) -> list[str]:
        """The names of the path parameters, in order."""
        return _PARAMETER.findall(self.path)

    @property
    def streams(self) -> bool:
        """Whether a browser's EventSource may open it: a GET that answers with an event stream."""
        kinds = [kind for answer in self.answers.values() for kind in _all_of(answer)]
        return self.method == "GET" and any(
            isinstance(kind, Media) and kind.type == "text/event-stream" for kind in kinds
        )

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
    right: Right | AnyKey | None,
    tag: str,
    status: int = 200,
    answers: dict[int, Any] | None = None,
    media: Media | None = None,
    handles_idempotency: bool = False,
    signed_in: bool = False,
    dialect: Dialect | None = None,
    narrow: tuple[str, ...] | None = None,
    checks: tuple[str, ...] = (),
    narrow_right: Right | None = None,
    takes_below: bool = False,
) -> Callable[[F], F]:
    """Declare a function as a route. `media`: the route reads its body itself, of that type, as a stream.

    Without `narrow` the holders of front-end tokens are refused. With it, everything that the path names is
    checked before the function is called, and the named fields of the query are filled in; `()` where there
    are none. What a body names the function has to check itself, and the parameters of the path in `checks`:
    see http/narrow.py. ValueError if another parameter of the path cannot be checked.

    Every POST honours Idempotency-Key, except routes with `media`, those of sessions, whose answers set
    cookies, and `POST /v1/events`, whose events have ids of their own. Routes of a `dialect` make the key
    the id of the event that they send; they are documented by their dialect, not by the OpenAPI document.
    """

    unchecked = set(_PARAMETER.findall(path)) - NARROW_PARAMETERS - set(checks)
    if narrow is not None and (unchecked or not set(narrow) <= NARROW_FIELDS):
        raise ValueError(f"{path}: {unchecked or narrow} cannot be checked for narrow callers")

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
            idempotent=(
                method == "POST"
                and media is None
                and path != "/v1/events"
                and right is not None
                and dialect is None
            ),
            handles_idempotency=handles_idempotency,
            signed_in=signed_in,
            dialect=dialect,
            lenient_body=lenient_body,
            narrow=narrow,
            narrow_right=narrow_right,
            takes_below=takes_below,
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


def _all_of(answer: Any) -> tuple[Any, ...]:
    return answer if isinstance(answer, tuple) else (answer,)


def _answers_of(returned: Any, status: int) -> dict[int, Any]:
    if returned is Empty:
        return {204 if status == 200 else status: None}
    if typing.get_origin(returned) is Json:
        return {status: typing.get_args(returned)[0]}
    return {status: returned}


@dataclass(slots=True)
class _Node:
    names: dict[str, _Node] = field(default_factory=dict)
    parameter: _Node | None = None
    parameter_name: str = ""
    routes: dict[str, Endpoint] = field(default_factory=dict)
    below: dict[str, Endpoint] = field(default_factory=dict)
    """Those of its routes that take all paths below it, too."""


class Router:
    """A tree of all routes, by path segment."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._root = _Node()
        for endpoint in endpoints:
            self._add(endpoint)

    def find(self, path: str) -> tuple[dict[str, Endpoint], dict[str, str]] | None:
        """Return the routes of a path by method, and its encoded parameters; None if the path is unknown."""
        parameters: dict[str, str] = {}
        routes = _walk(self._root, path.split("/")[1:], parameters)
        return (routes, parameters) if routes else None

    def _add(self, endpoint: Endpoint) -> None:
        node = self._root
        for segment in endpoint.path.split("/")[1:]:
            if not segment.startswith("{"):
                node = node.names.setdefault(segment, _Node())
                continue
            name = segment[1:-1]
            if node.parameter is None:
                node.parameter, node.parameter_name = _Node(), name
            elif node.parameter_name != name:
                raise ValueError(f"{endpoint.path}: {{{name}}} is called {{{node.parameter_name}}} elsewhere")
            node = node.parameter
        if endpoint.method in node.routes:
            raise ValueError(f"{endpoint.method} {endpoint.path} is defined twice")
        node.routes[endpoint.method] = endpoint
        if endpoint.takes_below:
            node.below[endpoint.method] = endpoint


def _walk(node: _Node, segments: list[str], parameters: dict[str, str]) -> dict[str, Endpoint]:
    if not segments:
        return node.routes
    first, rest = segments[0], segments[1:]
    if first in node.names and (found := _walk(node.names[first], rest, parameters)):
        return found
    if first and node.parameter is not None and (found := _walk(node.parameter, rest, parameters)):
        parameters[node.parameter_name] = first
        return found
    if first and node.below:
        return node.below
    return {}
