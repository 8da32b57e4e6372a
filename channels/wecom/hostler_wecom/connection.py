"""One open connection to WeCom: calls of the address, what follows from presses, and the bot's account."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from hostler_sdk.channels import (
    ChannelConnection,
    ChannelRequestParams,
    ChannelResponse,
    IngestEventReply,
    NotSent,
    Person,
    SetupError,
    UnclearError,
)
from hostler_sdk.channels.delivery import file_bounds
from hostler_sdk.errors import HostError
from hostler_wecom.actions import Actions
from hostler_wecom.bodies import clipped
from hostler_wecom.delivery import Delivery
from hostler_wecom.envelopes import Envelopes, ForgedError
from hostler_wecom.events import Drafted, event_id_of, unreadable
from hostler_wecom.names import Names
from hostler_wecom.position import Position
from hostler_wecom.requests import Sent, read_request
from hostler_wecom.sender import Sender
from hostler_wecom.web_api import WebApi
from hostler_wecom.xml_fields import UnreadableError, read_fields

if TYPE_CHECKING:
    from hostler_wecom.channel import WeCom

MAX_REPLACEMENT = 30
"""Characters of what a card shows in place of its buttons."""
AGENT_ID = range(1, 2**31)
BASE_URL = "https://qyapi.weixin.qq.com"

logger = logging.getLogger(__name__)


class Connection(ChannelConnection):
    """The connection of an open channel. Raises SetupError if the settings cannot work."""

    sender: Sender

    def __init__(self, channel: WeCom) -> None:
        settings = channel.settings
        corp_id = str(settings.get("corp-id") or "")
        self._agent_id = _agent_id(settings.get("agent-id"))
        self._envelopes = Envelopes(
            str(settings.get("callback-token") or ""), str(settings.get("callback-aes-key") or ""), corp_id
        )
        self._api = WebApi(
            corp_id, str(settings.get("secret") or ""), str(settings.get("base-url") or BASE_URL)
        )
        self._position = Position(channel)
        self.sender = Sender(
            self._api,
            channel,
            self._position,
            self._agent_id,
            markdown=settings.get("format") != "text",
            checks=settings.get("duplicate-check") is not False,
        )
        self.actions = Actions(self._api)
        self._delivery = Delivery(
            self._api,
            channel,
            Names(self._api, ask=settings.get("names") is not False),
            self._position,
            file_bounds(settings),
            self._answer,
        )
        self._group: asyncio.TaskGroup | None = None

    async def open(self) -> Person:
        """Ask for an access token, and who the application is. Raises ConnectionError."""
        self._api.start()
        await self._api.sign_in()
        return Person(person_id=f"app:{self._agent_id}", name=await self._name(), is_bot=True)

    async def _name(self) -> str | None:
        """Return the application's name. Without it, the channel is open all the same.

        WeCom checks the address, which the channel answers, before it lets anybody enter trusted IPs, without
        which it refuses this call.
        """
        try:
            answer = await self._api.call("agent/get", query={"agentid": str(self._agent_id)})
        except (NotSent, UnclearError) as error:
            logger.warning("the application cannot be asked for: %s", error)
            return None
        name = answer.get("name")
        return name if isinstance(name, str) and name else None

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()

    async def run(self) -> None:
        """Deliver what was kept, and what WeCom sends, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            await self._resume(group)
            await asyncio.Event().wait()

    # -- what comes -------------------------------------------------------------------------------

    async def request(self, request: ChannelRequestParams) -> ChannelResponse:
        """Answer a call of WeCom: 200, with nothing in it, once what it brings is durable."""
        try:
            sent = read_request(request, self._envelopes)
        except ForgedError as error:
            logger.warning("a call was refused: %s", error)
            return ChannelResponse(status=401)
        if isinstance(sent, ChannelResponse):
            return sent
        if self._group is None:
            return ChannelResponse(status=503)
        try:
            await self._take(self._group, sent)
        except HostError as error:
            logger.error("what WeCom sent could not be delivered: %s", error.message)
            return ChannelResponse(status=503)
        return ChannelResponse(status=200)

    async def _take(self, group: asyncio.TaskGroup, sent: Sent) -> None:
        try:
            fields = read_fields(sent.content)
        except UnreadableError as error:  # WeCom sealed it, so it comes all the same
            logger.warning("a message could not be read: %s", error)
            await self._delivery.take_unread(unreadable(sent.content, str(error)))
        else:
            await self._delivery.take(group, fields, sent.sealed)

    async def _resume(self, group: asyncio.TaskGroup) -> None:
        """Deliver what an earlier process has kept, and told WeCom that it is stored."""
        for event_id, sealed in list(self._position.pending.items()):
            try:
                fields = read_fields(self._envelopes.unseal(sealed))
            except (ForgedError, UnreadableError) as error:  # as after a change of the key
                logger.error("message %s was kept, and cannot be read any more: %s", event_id, error)
                del self._position.pending[event_id]
                await self._delivery.take_unread(unreadable(sealed.encode(), str(error)))
            else:
                # an earlier version may have named it otherwise
                self._position.pending[event_id_of(fields)] = self._position.pending.pop(event_id)
                self._delivery.resume(group, fields)

    # -- answers to presses -----------------------------------------------------------------------

    def _answer(self, draft: Drafted, reply: IngestEventReply) -> None:
        """Show a decision on its card, and any other notice to who pressed. The event is durable before."""
        if reply.notice is None or draft.event.person is None or self._group is None:
            return
        self._group.create_task(self._show(draft, reply, reply.notice), name="notice")

    async def _show(self, draft: Drafted, reply: IngestEventReply, notice: str) -> None:
        person, event_id = draft.event.person, draft.event.event_id
        assert person is not None
        try:
            if reply.outcome != "decided" or draft.response_code is None:
                await self.sender.tell(person.person_id, notice, f"notice {event_id}")
                return
            update: dict[str, Any] = {
                "userids": [person.person_id],
                "agentid": self._agent_id,
                "response_code": draft.response_code,
                "button": {"replace_name": clipped(notice, MAX_REPLACEMENT)},
            }
            await self._api.call("message/update_template_card", update)
        except (NotSent, UnclearError) as error:  # as a code that was used: the decision stands
            logger.warning("a press could not be answered: %s", error)


def _agent_id(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in AGENT_ID:
        raise SetupError("`agent-id` must be the AgentId of the application, like 1000002")
    return value
