"""What a LangGraph server has and this host has not: each is refused, and the answer says what to use."""

from __future__ import annotations

from typing import Any, NoReturn

from hostler.http.endpoint import endpoint
from hostler.http.langgraph.assistants import Anything
from hostler.http.langgraph.dialect import LANGGRAPH, refused
from hostler.http.request import ApiRequest
from hostler.http.responses import Json


def _no_store() -> NoReturn:
    raise refused("store", "this host has no store for its clients: agents keep state, GET /v1/conversations")


def _no_crons() -> NoReturn:
    raise refused("schedule", "this host has no schedules yet: begin runs from a scheduler of your own")


@endpoint("PUT", "/langgraph/store/items", right="conversations:write", tag="langgraph", dialect=LANGGRAPH)
async def put_store_item(request: ApiRequest, body: Anything) -> Json[dict[str, Any]]:
    """Refuse to store an item."""
    _no_store()


@endpoint("GET", "/langgraph/store/items", right="conversations:read", tag="langgraph", dialect=LANGGRAPH)
async def get_store_item(request: ApiRequest) -> Json[dict[str, Any]]:
    """Refuse to get an item."""
    _no_store()


@endpoint(
    "POST", "/langgraph/store/items/search", right="conversations:read", tag="langgraph", dialect=LANGGRAPH
)
async def search_store_items(request: ApiRequest, body: Anything) -> Json[dict[str, Any]]:
    """Refuse to search items."""
    _no_store()


@endpoint(
    "POST", "/langgraph/store/namespaces", right="conversations:read", tag="langgraph", dialect=LANGGRAPH
)
async def list_store_namespaces(request: ApiRequest, body: Anything) -> Json[dict[str, Any]]:
    """Refuse to list namespaces."""
    _no_store()


@endpoint("POST", "/langgraph/runs/crons", right="events:write", tag="langgraph", dialect=LANGGRAPH)
async def create_cron(request: ApiRequest, body: Anything) -> Json[dict[str, Any]]:
    """Refuse to make a cron job."""
    _no_crons()


@endpoint(
    "POST",
    "/langgraph/threads/{thread}/runs/crons",
    right="events:write",
    tag="langgraph",
    dialect=LANGGRAPH,
)
async def create_thread_cron(request: ApiRequest, body: Anything) -> Json[dict[str, Any]]:
    """Refuse to make a cron job of a thread."""
    _no_crons()


@endpoint("POST", "/langgraph/runs/crons/search", right="events:write", tag="langgraph", dialect=LANGGRAPH)
async def search_crons(request: ApiRequest, body: Anything) -> Json[list[dict[str, Any]]]:
    """Refuse to search cron jobs."""
    _no_crons()
