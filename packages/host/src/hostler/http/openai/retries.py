"""The id of a request's event: the same when a client of OpenAI's sends it again, without a key for it."""

from __future__ import annotations

import time

from hostler.domain.narrow_callers import place_of_ids
from hostler.http.dialects.answers import keyed_event_id
from hostler.http.request import ApiRequest
from hostler.storage.stores import events
from hostler_protocol.ids import digest, new_id

RETRY_HEADER = "x-stainless-retry-count"
"""OpenAI's clients say by it that they send the same request again, without a key for it."""
RETRY_SECONDS = 1800.0
"""How long after the first request: the clients give up an attempt after 10 minutes, and repeat it twice."""


async def event_id_of(request: ApiRequest, kind: str, conversation: str | None = None) -> str:
    """Return the event id of a request: that of its Idempotency-Key, if it has one.

    Else it begins with `kind` and the digest of caller, conversation and body, after the place of a narrow
    caller, so that it is stored as it is. When a client says that it
    repeats a request, because it has lost the connection, the first one is found by that, and both are one
    run.
    """
    keyed = keyed_event_id(request)
    if keyed is not None:
        return keyed
    caller = request.caller
    identity = digest([caller.key_id, caller.subject, conversation, request.body.decode("utf-8", "replace")])
    beginning = f"{place_of_ids(caller)}{kind}-{identity[:32]}-"
    retries = request.headers.get(RETRY_HEADER, "0")
    if retries.isdecimal() and retries.strip("0"):
        since = int((time.time() - RETRY_SECONDS) * 1000)
        first = await request.state.host.db.read(
            lambda tx: events.latest_beginning(tx, request.workspace_id, beginning, since=since)
        )
        if first is not None:
            return first.event_id
    return beginning + new_id()
