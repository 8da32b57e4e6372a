"""The recording that a forked run inherits from its source.

Up to the step that both share, its calls get the answers of the source and are recorded as its own. Every
other call is carried out; unless the fork was requested with effects, nothing outside of it changes.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.domain.record import Record
from hostler.domain.recording import CallName, RecordedCall, is_effect
from hostler.journal.call_records import RecordedAnswer
from hostler.journal.resume import RecordingReader, read_answer
from hostler.storage.port import Database
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.run_sources import Source
from hostler_protocol.errors import DeniedError
from hostler_protocol.events import AgentRunContext

OWN_EFFECTS = frozenset({"artifact.upload", "steering.pull"})
"""Their effects are limited to the run itself."""


class Inherited(Record):
    """The recorded calls of a fork's source, and the source's first context."""

    db: Database
    blobs: BlobFolder
    source: Source
    context: AgentRunContext | None = None
    calls: dict[CallName, RecordedCall] = msgspec.field(default_factory=dict)

    def find(self, name: CallName) -> RecordedCall | None:
        """Return the call of the source if it was answered before the fork, else None."""
        call = self.calls.get(name)
        return None if call is None or call.position is None else call

    async def answer(self, call: RecordedCall) -> RecordedAnswer:
        """Return the answer that the source run got. HostError if retention has dropped it."""
        return await read_answer(self.db, self.blobs, self.source.source_run_id, call)


async def inherited_of(db: Database, blobs: BlobFolder, source: Source | None) -> Inherited | None:
    """Return the recording that a fork inherits, or None if the run is no fork."""
    if source is None or source.kind != "fork":
        return None
    loaded = RecordingReader(source.source_run_id, source.base_attempt, source.until_position)
    await loaded.read_rest(db)
    return Inherited(db, blobs, source, loaded.context, loaded.recording.calls)


def forked_context(fresh: AgentRunContext, inherited: Inherited) -> AgentRunContext:
    """Return a fork's context: `fresh` with the state and the place in the history of its source's start."""
    recorded = inherited.context
    if recorded is None:
        return fresh
    access = msgspec.structs.replace(recorded.context, available_apis=fresh.context.available_apis)
    return msgspec.structs.replace(
        fresh, state=recorded.state, context=access, continuation=recorded.continuation
    )


def check_effects(method: str, effect_class: str | None, params: Any) -> None:
    """Raise DeniedError for a call with an effect outside of a run that was forked without effects."""
    if method in OWN_EFFECTS or not is_effect(method, effect_class):
        return
    tool = getattr(params, "tool_name", None)
    what = method if tool is None else f"{method} of {tool}"
    raise DeniedError(
        f"{what} was not carried out: this run was forked without effects, and its recording does not hold "
        "this call; fork with effects to let it happen"
    )
