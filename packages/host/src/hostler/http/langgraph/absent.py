"""What a LangGraph server has and this host has not: each is refused, and the answer says what to use."""

from __future__ import annotations

from typing import Any, NoReturn

from hostler.http.langgraph.assistants import Anything
from hostler.http.langgraph.dialect import refused
from hostler.http.langgraph.routes import route
from hostler.http.request import ApiRequest
from hostler.http.responses import Json


def _no_crons() -> NoReturn:
    raise refused("schedule", "this host has no schedules yet: begin runs from a scheduler of your own")


@route("POST", "/runs/crons", "events:write")
async def create_cron(request: ApiRequest, body: Anything) -> Json[dict[str, Any]]:
    """Refuse to make a cron job."""
    _no_crons()


@route("POST", "/threads/{thread}/runs/crons", "events:write")
async def create_thread_cron(request: ApiRequest, body: Anything) -> Json[dict[str, Any]]:
    """Refuse to make a cron job of a thread."""
    _no_crons()


@route("POST", "/runs/crons/search", "events:write")
async def search_crons(request: ApiRequest, body: Anything) -> Json[list[dict[str, Any]]]:
    """Refuse to search cron jobs."""
    _no_crons()
