"""The tools that callers bring to a run that has not started: of its event, its turn, its queued messages."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hostler.domain.caller_tools import all_of, by_name
from hostler.runs.debounce import whole
from hostler.storage.port import Tx
from hostler.storage.stores import events, steering
from hostler.storage.stores.events import StoredEvent
from hostler.storage.stores.run_rows import Run
from hostler_protocol.events import CallerTool


def with_tools_of_steers(tx: Tx, run: Run, event: StoredEvent) -> StoredEvent:
    """Return the event of a run with the tools of the messages that wait to steer it, too.

    Those that a run left to the next one may bring tools that were the former run's.
    """
    if run.grant_json is not None or not run.steers or event.envelope is None:
        return event
    brought = [event.envelope.input.tools]
    for steer in steering.queued(tx, run.workspace_id, run.run_id):
        found = events.find(tx, run.workspace_id, steer.event_id)
        if found is not None and found.envelope is not None:
            brought.append(found.envelope.input.tools)
    given = msgspec.structs.replace(event.envelope.input, tools=all_of(brought))
    return msgspec.structs.replace(event, envelope=msgspec.structs.replace(event.envelope, input=given))


def tools_ahead(tx: Tx, run: Run) -> Mapping[str, CallerTool]:
    """Return the tools of the caller that a run will get when it starts."""
    event = None if run.event_id is None else events.find(tx, run.workspace_id, run.event_id)
    if event is None:
        return {}
    event, _ = whole(tx, run, event)
    event = with_tools_of_steers(tx, run, event)
    return {} if event.envelope is None else by_name(event.envelope.input.tools)
