"""Write docs/gates.md: every call, route and place for a reference, with what each gate says.

The tables are those that the tests walk (tests/support/*_walk.py). Host calls are made for the page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from hostler.domain.members import ROLE_RIGHTS
from hostler.http.app import ENDPOINTS

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))

from support.call_walk import WAYS, walk  # noqa: E402
from support.reference_bodies import (  # noqa: E402
    IN_AGENTS,
    IN_BODIES,
    IN_CONFIG,
    body_places,
)
from support.reference_walk import (  # noqa: E402
    IN_CALLS,
    IN_ROUTES,
    LOOKING_UP,
    SECRET_PLACES,
    Bound,
    call_places,
    route_parameters,
)
from support.route_walk import NARROW, REFUSED, rows  # noqa: E402

INTRODUCTION = """\
# Gates

Every host call in every way to be unauthorised, every HTTP route by every kind of key, and every place
where a reference can stand. The lists come from the code: its table of calls, its routes, the structs of
its configuration. A call, route, right or place that is added and not decided fails a test. What else
holds, and what does not: [security.md](security.md)."""
CALLS = """\
Each call of a runner, made in each way, with the code that the gate (or, for whole messages, the
wire) refuses it with. None is let through. Test: `tests/host/calls/test_call_walk.py`."""
ROUTES = """\
A key is let in where it has one of the rights named; each right is tried alone on each route. A key
of another workspace reads and changes its own, and is answered about others as about what is not
there. The token of a remote plugin has the right `plugins:connect`. A personal key has no more than
its member's role, whatever it says, and less as soon as the role is less. Tests:
`tests/host/http/test_route_walk.py`, `tests/host/http/test_http_tenancy.py`."""
REFERENCES = """\
In host calls: what names something, and what it can name. Anything else in their parameters is
text. What is out of reach is answered in the same words as what does not exist; so it is in requests
over HTTP. `[]` is an item of a list, `{}` a value of a mapping and `{key}` one of its keys. Tests:
`tests/host/calls/test_reference_walk.py`, `tests/host/http/test_http_reach.py`."""
SECRETS = """\
References to secrets are looked up at these places of a configuration, and nowhere else: not in
other entries, defaults of forms, events, arguments, results, or what models say. No other module
can. A reference of each kind is written into every place above, of every table, and the process is
watched for what it opens. Tests: `tests/journeys/test_walked_lookups.py`,
`tests/journeys/test_secret_references.py`."""


def gate_page() -> Iterator[str]:
    """Give the parts of docs/gates.md."""
    yield INTRODUCTION
    yield from _calls()
    yield from _routes()
    yield from _references()


def _calls() -> Iterator[str]:
    yield "\n## Host calls\n"
    yield CALLS + "\n"
    yield from _table(["way", "what is wrong", "`-`"], [[way.name, way.what, way.none] for way in WAYS])
    yield ""
    short = {
        "unauthorized": "unauth.",
        "not_found": "not found",
        "deadline_exceeded": "deadline",
        "invalid_argument": "invalid",
        "payload_too_large": "too large",
        "rate_limited": "rate",
        "cancelled": "cancelled",
    }
    rows = [
        [f"`{method}`", *("-" if code is None else short.get(code, f"**{code}**") for code in row.values())]
        for method, row in walk().items()
    ]
    yield from _table(["call", *(way.name for way in WAYS)], rows)


def _routes() -> Iterator[str]:
    yield "\n## HTTP routes\n"
    yield "These are let in nowhere but where everybody is:\n"
    yield from _table(["kind", "what it is"], [[kind, what] for kind, what in REFUSED.items()])
    yield ""
    yield ROUTES + "\n"
    yield from _table(["method", "path", "lets in"], rows(ENDPOINTS))
    yield "\nFront-end tokens reach one agent and one conversation, and these routes alone:\n"
    yield from _table(
        ["route", "what keeps them within"], [[f"`{name}`", how] for name, how in NARROW.items()]
    )
    yield "\nSessions have the rights of their member's role, and the routes for people:\n"
    yield from _table(
        ["role", "rights"],
        [[role, ", ".join(f"`{right}`" for right in sorted(rights))] for role, rights in ROLE_RIGHTS.items()],
    )


def _references() -> Iterator[str]:
    yield "\n## References\n"
    yield REFERENCES + "\n"
    places = call_places()
    yield from _table(
        ["place", "names", "bounded by", "calls"],
        [[f"`{p}`", bound.kind, bound.by, _some(places[p])] for p, bound in IN_CALLS.items()],
    )
    yield "\nIn paths and queries of routes:\n"
    parameters = route_parameters()
    yield from _table(
        ["parameter", "names", "bounded by", "routes"],
        [[f"`{name}`", bound.kind, bound.by, _some(parameters[name])] for name, bound in IN_ROUTES.items()],
    )
    yield "\nIn bodies of requests:\n"
    bodies = body_places()
    yield from _table(
        ["place", "names", "bounded by", "routes"],
        [[f"`{p}`", bound.kind, bound.by, _some(bodies[p])] for p, bound in IN_BODIES.items()],
    )
    yield "\nIn agents, in a configuration and over HTTP:\n"
    yield from _bounds(IN_AGENTS)
    yield "\nIn other entries of a configuration, which take the right `installation`:\n"
    yield from _bounds({p: bound for p, bound in IN_CONFIG.items() if not p.startswith("agents.")})
    yield "\n" + SECRETS + "\n"
    by = {place: module for module, found in LOOKING_UP.items() for place in found}
    yield from _table(
        ["place", "kinds", "looked up by"],
        [
            [f"`{p}`", ", ".join(f"`{kind}`" for kind in kinds), f"`{by[p]}`"]
            for p, kinds in SECRET_PLACES.items()
        ],
    )


def _bounds(places: Mapping[str, Bound]) -> Iterator[str]:
    rows = [[f"`{place}`", bound.kind, bound.by] for place, bound in places.items()]
    yield from _table(["place", "names", "bounded by"], rows)


def _some(names: list[str]) -> str:
    return "all" if len(names) > 20 else ", ".join(f"`{name}`" for name in names)


def _table(heads: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{' --- |' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
