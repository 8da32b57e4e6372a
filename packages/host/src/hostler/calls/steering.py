"""`steering.pull`: the messages that a run absorbed, in order."""

from __future__ import annotations

import msgspec

from hostler.calls.pages import PAGE_ROOM_BYTES, capped
from hostler.calls.scope import CallScope, Effect
from hostler.domain.context import conversation_of, event_ref_of
from hostler.storage.port import Tx
from hostler.storage.stores import events, steering, steering_outcomes
from hostler.storage.stores.steering import Steer
from hostler_protocol.calls import SteeringPullParams, SteeringPullReply
from hostler_protocol.errors import CancelledCallError, HostlerError
from hostler_protocol.events import EventEnvelope
from hostler_protocol.limits import MAX_PAGE_ITEMS
from hostler_protocol.runs import SteeringInputItem


async def pull(scope: CallScope, params: SteeringPullParams) -> Effect:
    """`steering.pull`: messages that this run absorbed, in order."""
    limit = 1 if params.mode == "one-at-a-time" else capped(params.limit or MAX_PAGE_ITEMS)

    def work(tx: Tx) -> SteeringPullReply | HostlerError:
        items = take(tx, scope, limit)
        return items if isinstance(items, HostlerError) else SteeringPullReply(items=items)

    return Effect(work)


def take(tx: Tx, scope: CallScope, limit: int) -> list[SteeringInputItem] | HostlerError:
    """Take up to `limit` messages, in the order they arrived: at most about 4 MiB, at least one.

    CancelledCallError, as a value, where the attempt was superseded.
    """
    taken: list[Steer] = []
    gone: list[Steer] = []
    items: list[SteeringInputItem] = []
    room = PAGE_ROOM_BYTES
    for steer in steering.queued(tx, scope.workspace_id, scope.run_id, limit):
        event = events.find(tx, scope.workspace_id, steer.event_id)
        if event is None or event.envelope is None:
            gone.append(steer)
            continue
        item = _item_of(steer, event.envelope, scope.grant.runner_id)
        room -= len(msgspec.json.encode(item))
        if items and room < 0:
            break
        taken.append(steer)
        items.append(item)
    if not taken and not gone:
        return []
    if not steering_outcomes.inject(
        tx, scope.workspace_id, scope.run_id, scope.attempt, taken=taken, gone=gone
    ):
        return CancelledCallError("this attempt of the run was superseded")
    return items


def _item_of(steer: Steer, envelope: EventEnvelope, runner_id: str) -> SteeringInputItem:
    """A message as the runner pulls it. Tools that it brings are among those of the run already."""
    return SteeringInputItem(
        claimed_run_id=steer.run_id,
        runner_id=runner_id,
        claimed_at=steer.claimed_at / 1000,
        event=event_ref_of(envelope),
        input=msgspec.structs.replace(envelope.input, tools=[]),
        conversation=conversation_of(envelope),
        actor=envelope.actor,
        subject=envelope.subject,
        metadata=envelope.metadata,
    )
