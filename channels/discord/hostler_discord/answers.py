"""Answers to presses, commands and forms, for which Discord waits three seconds."""

from __future__ import annotations

import logging
from typing import Any

from hostler_discord.rest import Rest
from hostler_sdk.channels import NotSent, UnclearError

ANSWER_SECONDS = 15.0
MAX_NOTICE_CHARS = 2000
_MESSAGE, _MESSAGE_LATER, _NOTHING, _CHOICES = 4, 5, 6, 8
_FOR_ONE = 1 << 6
"""The flag of a message that only one person sees."""
_AUTOCOMPLETE = 4

logger = logging.getLogger(__name__)


class Answers:
    """The answers of one bot."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    async def answer(self, interaction: dict[str, Any], notice: str | None) -> None:
        """Answer, with a notice to the person alone or without a word.

        The event is durable: if the answer fails, as after a crash, Discord tells the person that it did.
        """
        try:
            await self._answer(interaction, notice)
        except (NotSent, UnclearError) as error:
            logger.warning("an interaction could not be answered: %s", error)

    async def _answer(self, interaction: dict[str, Any], notice: str | None) -> None:
        if interaction.get("type") == _AUTOCOMPLETE:
            await self._call(interaction, {"type": _CHOICES, "data": {"choices": []}})
        elif notice is not None:
            data = {
                "content": notice[:MAX_NOTICE_CHARS],
                "flags": _FOR_ONE,
                "allowed_mentions": {"parse": []},
            }
            await self._call(interaction, {"type": _MESSAGE, "data": data})
        elif interaction.get("message"):
            await self._call(interaction, {"type": _NOTHING})
        else:  # to a command a message is needed: the one that says it waits is taken away at once
            await self._call(interaction, {"type": _MESSAGE_LATER, "data": {"flags": _FOR_ONE}})
            await self._rest.call(
                "DELETE",
                "/webhooks/{webhook_id}/{webhook_token}/messages/@original",
                seconds=ANSWER_SECONDS,
                webhook_id=str(interaction.get("application_id")),
                webhook_token=str(interaction.get("token")),
            )

    async def _call(self, interaction: dict[str, Any], body: dict[str, Any]) -> None:
        await self._rest.call(
            "POST",
            "/interactions/{webhook_id}/{webhook_token}/callback",
            seconds=ANSWER_SECONDS,
            webhook_id=str(interaction.get("id")),
            webhook_token=str(interaction.get("token")),
            json=body,
        )
