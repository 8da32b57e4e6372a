"""`ctx.actions`: actions on the chat platform of the run's conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hostler_protocol.calls import ActionReply
from hostler_sdk.host_api.port import Group, stated


class Actions(Group):
    """`ctx.actions`: actions on the chat platform of the run's conversation.

    Needs the permission `actions`, a list of names and patterns of actions.
    """

    async def request(
        self,
        action: str,
        target: Mapping[str, Any] | str | None = None,
        payload: Mapping[str, Any] | None = None,
    ) -> ActionReply:
        """Have an action carried out, and return what became of it.

        What `target` leaves out is taken from the run's event: its chat, and the message that is answered. As
        a text it is the message, person or chat that the action is about. `.outcome` is `done`, with the
        platform's answer in `.result`; `unsupported`, if this platform cannot do it; or `in_doubt`, if it may
        have been done and nobody could find out. `.reason` says why.

        Unauthorized: runner, agent, actor or channel do not allow it. Denied, Expired: it needed approval.
        InvalidArgument: target or payload do not fit. RuntimeFailure: the platform refused it; nothing was
        done.

            reply = await ctx.actions.request("message.react", payload={"emoji": "\N{THUMBS UP SIGN}"})
        """
        reply: ActionReply = await self._host.call(
            "action.request", stated(action=action, target=target, payload=payload)
        )
        return reply
