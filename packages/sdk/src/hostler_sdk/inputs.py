"""What a message gives a runner, at the start of a run and while it is at work."""

from __future__ import annotations

from typing import Any

from hostler_protocol.content import text_of
from hostler_protocol.events import Input
from hostler_protocol.runs import SteeringInputItem


class RunInput(Input):
    """What the agent is given. `text` is never None here: it is empty where there is none."""

    text: str = ""

    def __getitem__(self, field: str) -> Any:
        """Give a field by its name: runners read `item.input["text"]` before steering items had types."""
        if field not in self.__struct_fields__:
            raise KeyError(field)
        return getattr(self, field)


class SteeringItem(SteeringInputItem):
    """A message that reached this run at work. Its parts are those of the context, `input` as `ctx.input`."""

    input: RunInput


def run_input(given: Input) -> RunInput:
    """Make an input with its text filled in: that of its contents where none is stated."""
    text = given.text if given.text is not None else text_of(given.contents)
    return RunInput(text=text, contents=given.contents, attachments=given.attachments)


def steering_item(given: SteeringInputItem) -> SteeringItem:
    """Make the item that a runner gets from the one that the host sent."""
    return SteeringItem(
        claimed_run_id=given.claimed_run_id,
        runner_id=given.runner_id,
        claimed_at=given.claimed_at,
        event=given.event,
        input=run_input(given.input),
        conversation=given.conversation,
        actor=given.actor,
        subject=given.subject,
        metadata=given.metadata,
    )
