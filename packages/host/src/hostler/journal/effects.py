"""Find in the journal whether repeating a run from its beginning would repeat an effect."""

from __future__ import annotations

from hostler.domain.recording import is_effect
from hostler.journal.call_records import head_of
from hostler.storage.port import Tx
from hostler.storage.stores import journal

EFFECT_RESULTS = frozenset(
    {"message.completed", "state.updated", "artifact.created", "action.requested", "run.completed"}
)
"""Types of results that would exist twice if the run began again."""


def had_effects(tx: Tx, run_id: str, since_attempt: int) -> bool:
    """Return whether attempts since `since_attempt` made a lasting result or a call with an effect.

    A call with an intent counts even without an outcome; a refused one does not.
    """
    for entry in journal.calls_and_results(tx, run_id, since_attempt):
        if entry.kind == "intent" or entry.type in EFFECT_RESULTS:
            return True
        if entry.kind == "call":
            head = head_of(entry.data)
            if head.error is None and is_effect(head.method, head.effect):
                return True
    return False
