"""Whether attempts of a run, as far as the journal knows, did something that would be done twice."""

from __future__ import annotations

from hostler.domain.recording import is_effect
from hostler.journal.call_records import head_of
from hostler.storage.port import Tx
from hostler.storage.stores import journal

EFFECT_RESULTS = frozenset(
    {"message.completed", "state.updated", "artifact.created", "action.requested", "run.completed"}
)
"""Results that would stand twice if the run began again."""


def had_effects(tx: Tx, run_id: str, since_attempt: int) -> bool:
    """Whether attempts from `since_attempt` on gave out a lasting result, or made a call with an effect.

    A call that was begun counts, whether or not its outcome is known; one that was refused does not.
    """
    for entry in journal.calls_and_results(tx, run_id, since_attempt):
        if entry.kind == "intent" or entry.type in EFFECT_RESULTS:
            return True
        if entry.kind == "call":
            head = head_of(entry.data)
            if head.error is None and is_effect(head.method, head.effect):
                return True
    return False
