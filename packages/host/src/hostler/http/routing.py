"""Find the routes of a path.

Paths are matched percent-encoded, because an id may contain a slash. A literal segment takes precedence over
a parameter; a parameter is one non-empty segment.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hostler.http.endpoint import Endpoint

Parameters = dict[str, str]


@dataclass(slots=True)
class _Node:
    names: dict[str, _Node] = field(default_factory=dict)
    parameter: _Node | None = None
    parameter_name: str = ""
    routes: dict[str, Endpoint] = field(default_factory=dict)


class Router:
    """A tree of all routes, by path segment."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._root = _Node()
        for endpoint in endpoints:
            self._add(endpoint)

    def find(self, path: str) -> tuple[dict[str, Endpoint], Parameters] | None:
        """Return the routes of a path by method, and its encoded parameters; None if the path is unknown."""
        parameters: Parameters = {}
        node = _walk(self._root, path.split("/")[1:], parameters)
        return None if node is None else (node.routes, parameters)

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


def _walk(node: _Node, segments: list[str], parameters: Parameters) -> _Node | None:
    if not segments:
        return node if node.routes else None
    first, rest = segments[0], segments[1:]
    if first in node.names and (found := _walk(node.names[first], rest, parameters)) is not None:
        return found
    if first and node.parameter is not None:
        found = _walk(node.parameter, rest, parameters)
        if found is not None:
            parameters[node.parameter_name] = first
        return found
    return None
