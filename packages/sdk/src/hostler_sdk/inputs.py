"""The input of a run: of the event that started it, and of messages that arrive while it works."""

from __future__ import annotations

from typing import Any

from hostler_protocol.content import text_of
from hostler_protocol.events import Input
from hostler_protocol.runs import SteeringInputItem


class RunInput(Input):
    """The input of the agent: `text`, `contents`, `attachments`. `text` may be empty, but is never None."""

    text: str = ""

    def __getitem__(self, field: str) -> Any:
        """Return a field by its name, as in `item.input["text"]`. Raises KeyError for another name."""
        if field not in self.__struct_fields__:
            raise KeyError(field)
        return getattr(self, field)


class SteeringItem(SteeringInputItem):
    """A message that arrived while the run works. Its parts are those of the context: `item.input.text`."""

    input: RunInput


def run_input(given: Input) -> RunInput:
    """Convert the host's input. `text` becomes the text of `contents` if the host sent none."""
    text = given.text if given.text is not None else text_of(given.contents)
    return RunInput(text=text, contents=given.contents, attachments=given.attachments)


def steering_item(given: SteeringInputItem) -> SteeringItem:
    """Convert the host's steering item."""
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
