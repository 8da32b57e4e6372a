"""What was said while no session received it: read from the history of channels once a new session begins."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

from hostler_discord.messages import seconds_of, snowflake_of
from hostler_discord.places import patiently
from hostler_discord.rest import Rest
from hostler_sdk.channels import NotSent

LONGEST_SECONDS = 86_400.0
"""What is older is not answered any more."""
MARGIN_SECONDS = 5.0
"""Read anew before the newest message that was heard: events of different channels come in no order."""
PAGE = 100
MAX_PAGES = 10
"""Of one channel."""
_WITHOUT_MESSAGES = {4, 14, 15, 16}


def begin_after(last: int) -> int:
    """Return the id after which messages are read, if `last` is the newest that was heard."""
    return snowflake_of(max(seconds_of(last) - MARGIN_SECONDS, time.time() - LONGEST_SECONDS))


def channels_of(guild: dict[str, Any], after: int) -> list[str]:
    """Return the channels and threads of a server in which something was said since."""
    found = []
    for channel in [*(guild.get("channels") or []), *(guild.get("threads") or [])]:
        last = channel.get("last_message_id")
        if channel.get("type") not in _WITHOUT_MESSAGES and last and int(last) > after:
            found.append(str(channel["id"]))
    return found


async def messages_after(rest: Rest, channel_id: str, after: int) -> AsyncIterator[dict[str, Any]]:
    """Yield the messages of a channel since, oldest first; none where the bot may not read them.

    Raises ConnectionError if Discord does not answer in the end.
    """

    async def page() -> Any:
        params = {"after": str(after), "limit": str(PAGE)}
        path = "/channels/{channel_id}/messages"
        return await rest.call("GET", path, channel_id=channel_id, params=params)

    for _ in range(MAX_PAGES):
        try:
            found = sorted(await patiently(page), key=lambda one: int(one["id"]))
        except NotSent:
            return
        for message in found:
            yield message
        if len(found) < PAGE:
            return
        after = int(found[-1]["id"])
