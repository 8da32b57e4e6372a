"""Health, readiness, metrics, and the documentation of the API."""

from __future__ import annotations

import asyncio

from hostler.http.docs_page import CONTENT_SECURITY_POLICY
from hostler.http.endpoint import Media, endpoint
from hostler.http.host_metrics import samples_of
from hostler.http.limits import READY_SECONDS
from hostler.http.metrics import CONTENT_TYPE
from hostler.http.request import ApiRequest
from hostler.http.responses import RawBody
from hostler.version import VERSION
from hostler_protocol._base import Strict
from hostler_protocol.errors import StorageError, UnavailableError


class Health(Strict):
    """The status of the process."""

    status: str
    version: str


@endpoint("GET", "/healthz", right=None, tag="operations")
async def healthz(request: ApiRequest) -> Health:
    """Check that the process responds."""
    return Health(status="ok", version=VERSION)


@endpoint("GET", "/readyz", right=None, tag="operations")
async def readyz(request: ApiRequest) -> Health:
    """Check whether the host accepts events; 503 names what is not ready."""
    host = request.state.host
    if host.state != "ready":
        raise UnavailableError(f"not ready: the host is {host.state}", not_ready=["host"])
    if host.lost_lease is not None:
        text = f"not ready: {host.lost_lease}; the host ends its work and joins again"
        raise UnavailableError(text, not_ready=["lease"])
    if failing := [worker.name for worker in host.workers.failing()]:
        text = f"not ready: background work keeps failing ({', '.join(failing)}); the log says why"
        raise UnavailableError(text, not_ready=failing)
    try:
        async with asyncio.timeout(READY_SECONDS):
            await host.db.read(lambda tx: None)
    except (StorageError, TimeoutError) as error:
        raise UnavailableError(
            f"not ready: the database does not answer{f': {error}' if str(error) else ''}",
            not_ready=["database"],
        ) from error
    return Health(status="ready", version=VERSION)


@endpoint(
    "GET",
    "/metrics",
    right="installation",
    tag="operations",
    answers={200: Media("text/plain", "Prometheus' text format")},
)
async def metrics(request: ApiRequest) -> RawBody:
    """Read the metrics, in Prometheus' format."""
    state = request.state
    return RawBody(state.metrics.expose(await samples_of(state.host, state.streams)), CONTENT_TYPE)


@endpoint(
    "GET",
    "/v1/openapi.json",
    right=None,
    tag="operations",
    answers={200: Media("application/json", "The OpenAPI document", schema={"type": "object"})},
)
async def openapi_document(request: ApiRequest) -> RawBody:
    """Get the OpenAPI 3.1 document."""
    return RawBody(request.state.docs.json, "application/json")


@endpoint(
    "GET", "/docs", right=None, tag="operations", answers={200: Media("text/html", "The documentation")}
)
async def docs(request: ApiRequest) -> RawBody:
    """Read this documentation. It needs no internet access."""
    policy = (b"content-security-policy", CONTENT_SECURITY_POLICY.encode("ascii"))
    return RawBody(request.state.docs.html, "text/html; charset=utf-8", headers=[policy])
