"""Hooks: requests of other services, which become events; their state, and what a sample would become."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlencode

import msgspec

from hostler.domain.events import Caller
from hostler.domain.hook_answers import HookReply
from hostler.domain.hook_mapping import Unmapped, is_readable_type, said_by
from hostler.domain.hook_signatures import HookRequest
from hostler.domain.hooks import Hook, Verifier
from hostler.domain.ingest import event_of
from hostler.domain.routing_explanations import RoutingExplanation
from hostler.http.endpoint import Media, endpoint
from hostler.http.problems import UnsupportedMediaTypeError
from hostler.http.proxies import rate_key
from hostler.http.request import ApiRequest, check_not_encoded, read_body
from hostler.http.responses import Listing, RawBody
from hostler_protocol._base import Strict
from hostler_protocol.events import EventEnvelope
from hostler_protocol.limits import KIB

_ANY = {"type": "string", "format": "binary"}
TAKEN = Media(
    "application/json", "What became of it", {"$ref": "#/components/schemas/HookReply"}, (HookReply,)
)
CHALLENGED = Media("text/plain", "The challenge, or what the maker of the sender asks for")


class HookRecord(Strict):
    """A hook. `path`: where its sender sends to. `secrets`: how many are valid: two while the sender gets a
    new one. `requests`: their number by outcome since this host started.
    """

    name: str
    verify: Verifier
    path: str
    workspace_id: str
    agent: str | None
    secrets: int
    requests: dict[str, int]
    problems: list[str]


class HookSample(Strict):
    """A request, for a preview. `body`: JSON, or a text as it would arrive; `headers` of any case."""

    headers: dict[str, str] = {}
    query: str | dict[str, str] = ""
    body: Any = None


class HookPreview(Strict):
    """The event of a sample. `unmapped`: fields that the mapping did not give, and why."""

    envelope: EventEnvelope
    unmapped: list[Unmapped]
    routing: RoutingExplanation


@endpoint(
    "POST",
    "/v1/hooks/{hook}",
    right=None,
    tag="hooks",
    status=202,
    media=Media("application/json", "What the sender sends: JSON, a form or text", schema=_ANY),
    answers={200: CHALLENGED, 202: TAKEN},
)
async def receive_hook(request: ApiRequest) -> RawBody:
    """Take a request of another service, which needs no key: it is signed, as the hook's entry says.

    Its event is stored before the response. A message that was sent before starts nothing, and gets the same
    response. One with a wrong, old or repeated signature is refused with 401 and audited.
    """
    hooks, name = request.state.host.hooks, request.parameters["hook"]
    hook = hooks.get(name)
    check_not_encoded(request.headers.get("content-encoding"))
    body = await read_body(request, limit=hook.max_body_kib * KIB)
    given = HookRequest(_url(request, hook), request.headers, _query(request), body)
    if not is_readable_type(given.content_type):
        raise UnsupportedMediaTypeError(
            f"the body is {given.content_type[:80]!r}; expected JSON, a form or plain text"
        )
    answer = await hooks.receive(name, given, rate_key(request.address))
    return RawBody(answer.body, answer.media_type, answer.status)


@endpoint("GET", "/v1/hooks/{hook}", right=None, tag="hooks", answers={200: CHALLENGED})
async def answer_challenge(request: ApiRequest) -> RawBody:
    """Answer a service that asks whether it may send (`hub.mode=subscribe`), if the hook takes that."""
    hooks, name = request.state.host.hooks, request.parameters["hook"]
    answer = await hooks.challenge(name, _query(request), rate_key(request.address))
    return RawBody(answer.body, answer.media_type, answer.status)


@endpoint("GET", "/v1/hooks", right="installation", tag="hooks")
async def list_hooks(request: ApiRequest) -> Listing[HookRecord]:
    """List the hooks by name, with what came in since the host started. Their entries: `/v1/config/hooks`."""
    hooks = request.state.host.hooks
    problems: dict[str, list[str]] = {}
    for problem in await hooks.problems():
        problems.setdefault(problem.name, []).append(problem.problem)
    return Listing(
        items=[
            HookRecord(
                name=hook.name,
                verify=hook.verify,
                path=hook.path,
                workspace_id=hooks.workspace_of(hook),
                agent=hook.agent,
                secrets=len(hook.secrets),
                requests={
                    outcome: count for (name, outcome), count in hooks.counts.items() if name == hook.name
                },
                problems=problems.get(hook.name, []),
            )
            for hook in hooks.entries
        ]
    )


@endpoint("POST", "/v1/hooks/{hook}/preview", right="installation", tag="hooks")
async def preview_hook(request: ApiRequest, body: HookSample) -> HookPreview:
    """Say what event a request would become, and which agent would take it. Nothing is verified or stored."""
    host = request.state.host
    hook = host.hooks.get(request.parameters["hook"])
    found = await host.hooks.mapped(hook, said_by(hook, _sample(hook, body)))
    workspace = host.hooks.workspace_of(hook)
    event, _ = event_of(
        found.envelope, Caller(workspace, f"hook:{hook.name}", "preview"), int(time.time() * 1000)
    )
    routing = await host.event_router.explain(event)
    return HookPreview(envelope=found.envelope, unmapped=list(found.unmapped), routing=routing)


def _sample(hook: Hook, given: HookSample) -> HookRequest:
    headers = {name.lower(): value for name, value in given.headers.items()}
    if isinstance(given.body, str):
        body = given.body.encode()
    else:
        body = b"" if given.body is None else msgspec.json.encode(given.body)
        headers.setdefault("content-type", "application/json")
    query = given.query if isinstance(given.query, str) else urlencode(given.query)
    return HookRequest(hook.url or hook.path, headers, query, body)


def _query(request: ApiRequest) -> str:
    query: bytes = request.scope["query_string"]
    return query.decode("latin-1")


def _url(request: ApiRequest, hook: Hook) -> str:
    """Return the address that the sender called, as far as this host can know it."""
    query = _query(request)
    url = hook.url or f"{request.base}{request.path}"
    return f"{url}?{query}" if query else url
