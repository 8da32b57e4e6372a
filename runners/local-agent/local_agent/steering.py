"""Messages that reach the run while it is at work."""

from __future__ import annotations

import msgspec

from hostler_sdk import RunContext, log
from hostler_sdk.types import Input, ModelMessage, SteeringInputItem
from local_agent.conversation import content_of


async def steered(ctx: RunContext) -> list[ModelMessage]:
    """What has arrived since the last time, as messages of the user, in its order."""
    if not ctx.context.available_apis.steering_pull:
        return []
    messages = []
    for item in await ctx.steering.pull():
        if (message := _message_of(item)) is not None:
            messages.append(message)
        else:
            await ctx.emit(log("a message that arrived meanwhile says nothing that could be read", "warning"))
    return messages


def _message_of(item: SteeringInputItem) -> ModelMessage | None:
    try:
        content = content_of(msgspec.convert(item.input, Input))
    except msgspec.ValidationError:
        text = item.input.get("text")  # a form of a newer host: the plain text stands in
        content = text if isinstance(text, str) else ""
    return ModelMessage(role="user", content=content) if content else None
