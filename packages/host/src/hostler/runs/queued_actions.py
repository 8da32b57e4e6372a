"""Platform actions that a run asks for in its results: put into the outbox with their journal entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from hostler.calls.actions import decide_action, record_action
from hostler.calls.artifacts import find_in_reach_of
from hostler.calls.scope import CallScope
from hostler.domain.action_decisions import ActionDecision
from hostler.domain.outcomes import ActionRequest
from hostler.domain.platform_actions import PLATFORM_ACTIONS, PlatformAction
from hostler.storage.port import Tx
from hostler.storage.stores import outbox
from hostler.storage.stores.outbox_rows import NewDelivery
from hostler_protocol.content import ArtifactRef
from hostler_protocol.errors import HostlerError, NotFoundError

NO_ANSWER = "it needs approval, for which only action.request can wait"


class ActionOutbox(Protocol):
    """Turns an action into a row of the outbox: `channels.actions.ChannelActor` is one."""

    def delivery(
        self,
        key: str,
        action: PlatformAction,
        arguments: Mapping[str, Any],
        refs: list[ArtifactRef],
        *,
        run_id: str | None = None,
        conversation_id: str | None = None,
        result_sequence: int | None = None,
    ) -> NewDelivery:
        """Return the row of an action. InvalidArgumentError: the platform cannot take it so."""
        ...


def queue_action(
    tx: Tx, scope: CallScope, request: ActionRequest, sequence: int, queue: ActionOutbox | None
) -> None:
    """Decide on an action that the run waits for no answer of, and put it into the outbox if it may be done.

    What becomes of it is in the audit log: here if it is not done, else once the platform has answered.
    """
    if request.refused is not None:
        record_action(tx, scope, "refused", request, request.refused, sequence=sequence)
    elif not scope.effects:
        record_action(tx, scope, "refused", request, "the run was forked without effects", sequence=sequence)
    else:
        try:
            decision = decide_action(tx, scope, request.action, request.target, request.payload)
            if decision.verdict == "allowed" and queue is not None:
                _queue(tx, scope, decision, request.action, sequence, queue)
                return
        except HostlerError as error:
            record_action(tx, scope, "refused", request, error.message, sequence=sequence)
            return
        outcome = "unsupported" if decision.verdict == "unsupported" else "refused"
        record_action(tx, scope, outcome, request, decision.reason or NO_ANSWER, sequence=sequence)


def _queue(  # noqa: PLR0917
    tx: Tx, scope: CallScope, decision: ActionDecision, name: str, sequence: int, queue: ActionOutbox
) -> None:
    refs = []
    if name == "file.send":
        artifact_id = decision.arguments["artifact_id"]
        found = find_in_reach_of(tx, scope, artifact_id)
        if found is None:
            raise NotFoundError(f"artifact {artifact_id!r:.100} is not one that this run may read")
        refs = [
            ArtifactRef(
                artifact_id=found.artifact_id,
                name=found.name,
                mime_type=found.mime_type,
                size_bytes=found.size_bytes,
            )
        ]
    new = queue.delivery(
        f"{scope.run_id} {sequence}",
        PLATFORM_ACTIONS[name],
        decision.arguments,
        refs,
        run_id=scope.run_id,
        conversation_id=scope.grant.conversation_id,
        result_sequence=sequence,
    )
    outbox.add(tx, scope.workspace_id, new)
