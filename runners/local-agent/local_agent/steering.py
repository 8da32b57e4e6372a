"""Messages that arrive while the run works."""

from __future__ import annotations

from hostler_sdk import RunContext, log
from hostler_sdk.types import ModelMessage
from local_agent.conversation import content_of


async def pulled_messages(ctx: RunContext) -> list[ModelMessage]:
    """Return the messages that arrived since the last call, in order, as messages of the user."""
    if not ctx.context.available_apis.steering_pull:
        return []
    messages = []
    for item in await ctx.steering.pull():
        if content := content_of(item.input):
            messages.append(ModelMessage(role="user", content=content))
        else:
            await ctx.emit(log("a message that arrived meanwhile says nothing that could be read", "warning"))
    return messages
