"""`hostler runs show RUN --as DIALECT`: a recorded run in the words of a standard interface."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

from hostler.cli.client import Api
from hostler.cli.routes import route
from hostler.domain.run_view import RunView
from hostler.domain.suggestions import did_you_mean
from hostler.http.dialect_table import FOLDS, ShownRun, frames_as
from hostler_protocol.errors import InvalidArgumentError, NotFoundError
from hostler_protocol.runs import RunRecord

if TYPE_CHECKING:
    from hostler.cli.server import Server


def show_as(server: Server, run_id: str, dialect: str) -> None:
    """Write what a client of a dialect would have read of a run so far. InvalidArgumentError for another
    name.
    """
    if dialect not in FOLDS:
        raise InvalidArgumentError(
            f"--as {dialect}: there is no such interface; {did_you_mean(dialect, FOLDS)}"
        )

    async def ask(api: Api) -> list[bytes]:
        run = msgspec.convert(await api.get(route("runs", run_id)), RunView)
        results = []
        if run.sequence:
            async for result in api.results(run_id):
                results.append(result)
                if result.sequence >= run.sequence:
                    break
        shown = ShownRun(run, await _client_tools(api, run), api.url)
        return list(frames_as(dialect, shown, results))

    sys.stdout.buffer.write(b"".join(server.ask(ask)))
    sys.stdout.flush()


async def _client_tools(api: Api, run: RunRecord) -> frozenset[str]:
    """Return the names of the tools that the run's caller brought; none if its event was deleted."""
    if run.event_id is None:
        return frozenset()
    try:
        event: dict[str, Any] = await api.get(route("events", run.event_id))
    except NotFoundError:
        return frozenset()
    envelope = event.get("envelope") or {}
    return frozenset(tool["name"] for tool in envelope.get("input", {}).get("tools", []))
