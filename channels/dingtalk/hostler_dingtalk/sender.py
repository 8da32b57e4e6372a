"""Messages to DingTalk: a card or Markdown with the text first, then each file by itself."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

from hostler_dingtalk.api import Api
from hostler_dingtalk.cards import TRACK, Template, delivery_of, track_id_of
from hostler_dingtalk.fields import fields_of, list_of, text_of
from hostler_dingtalk.files import outgoing_files, stored
from hostler_dingtalk.kept import Card, Kept
from hostler_dingtalk.messages import PRIVATE, UNNAMED
from hostler_dingtalk.text import markdown_of, title_of
from hostler_sdk.channels import Channel, ChannelMessage, ChannelSender, ChannelTarget, NotSent, UnclearError
from hostler_sdk.errors import HostError

MAX_BEGUN = 1_000
"""Messages of several parts of which some could not be sent yet."""
PERSON_LIMIT_SECONDS = 60.0
"""Where DingTalk takes no more messages for one person for a while."""

Part = Callable[[], Awaitable[str]]
"""Sends a part of a message, and returns its id."""


def person_of(chat_id: str) -> str | None:
    """Return whose private chat an id is; None for a group. Raises NotSent if it is none."""
    if chat_id.startswith(UNNAMED):
        text = (
            "DingTalk does not say the id of this person, without which nothing can be sent: publish the app"
        )
        raise NotSent(text, final=True)
    if re.fullmatch(r"cid[\w+/=-]{1,200}", chat_id, re.ASCII):
        return None
    person = chat_id.removeprefix(PRIVATE)
    if chat_id.startswith(PRIVATE) and re.fullmatch(r"[\w.@$:+/=-]{1,200}", person):
        return person
    text = f"{chat_id!r:.80} is no chat of DingTalk, like cid... of a group or {PRIVATE}ID of a person"
    raise NotSent(text, final=True)


class Sender(ChannelSender):
    """Sends and edits messages of one robot. `template`: of its cards; None: it writes none."""

    def __init__(
        self, api: Api, channel: Channel, kept: Kept, robot_code: str, template: Template | None
    ) -> None:
        self._api = api
        self._channel = channel
        self._kept = kept
        self._robot_code = robot_code
        self._template = template
        self._begun: OrderedDict[str, list[str]] = OrderedDict()

    async def send(self, target: ChannelTarget, message: ChannelMessage, *, key: str, attempt: int) -> str:
        """Send a message in as many parts as it needs, and return the id of the first.

        Parts that were sent before another one failed are not sent again in this process. Raises NotSent,
        UnclearError.
        """
        parts = await self._parts(target.chat_id, message, key, attempt)
        sent = self._begun.pop(key, [])
        try:
            for part in parts[len(sent) :]:
                sent.append(await part())
        except (NotSent, UnclearError):
            if sent:
                self._begun[key] = sent
                while len(self._begun) > MAX_BEGUN:
                    self._begun.popitem(last=False)
            raise
        return sent[0]

    async def _parts(self, chat_id: str, message: ChannelMessage, key: str, attempt: int) -> list[Part]:
        """Return what sends each part: nothing of it is sent before all is read, checked and uploaded."""
        person_of(chat_id)
        has_text = bool(message.text.strip()) or any(message.buttons)
        files = await outgoing_files(self._channel, message.attachments)
        if not has_text and not files:
            raise NotSent("the message is empty", final=True)
        parts: list[Part] = []
        if has_text and self._template is not None:
            track_id = track_id_of(self._api.client_id, key, attempt)
            params = self._params(message, last=True)
            parts.append(lambda: self._card(chat_id, track_id, params, has_buttons=any(message.buttons)))
        elif has_text:
            parts.append(self._part(chat_id, *written(message)))
        kinds = [await stored(self._api, file) for file in files]
        return [*parts, *(self._part(chat_id, *kind) for kind in kinds)]

    def _part(self, chat_id: str, kind: str, params: dict[str, Any]) -> Part:
        return lambda: self.message(chat_id, kind, params)

    async def message(self, chat_id: str, kind: str, params: dict[str, Any]) -> str:
        """Send a message of a kind that DingTalk knows, and return its id. Raises NotSent, UnclearError."""
        person = person_of(chat_id)
        body: dict[str, Any] = {
            "robotCode": self._robot_code,
            "msgKey": kind,
            "msgParam": json.dumps(params, ensure_ascii=False),
        }
        if person is None:
            body["openConversationId"] = chat_id
            answer = await self._api.call("POST", "/v1.0/robot/groupMessages/send", body)
        else:
            body["userIds"] = [person]
            answer = await self._api.call("POST", "/v1.0/robot/oToMessages/batchSend", body)
            if list_of(answer.get("flowControlledStaffIdList")):
                text = "DingTalk takes no more messages for this person at the moment"
                raise NotSent(text, retry_after=PERSON_LIMIT_SECONDS)
            if list_of(answer.get("invalidStaffIdList")) or list_of(answer.get("filteredStaffIdList")):
                text = "DingTalk does not deliver to this person: unknown, outside of the app's visible range"
                raise NotSent(f"{text}, or not wanting messages of it", final=True)
        found = text_of(answer.get("processQueryKey"))
        if found is None:
            raise UnclearError("DingTalk does not say that it took the message")
        return found

    # -- cards ------------------------------------------------------------------------------------

    def _params(self, message: ChannelMessage, *, last: bool) -> dict[str, str]:
        assert self._template is not None, "only with cards"
        return self._template.params(markdown_of(message), message.buttons, last=last)

    async def _card(self, chat_id: str, track_id: str, params: dict[str, str], *, has_buttons: bool) -> str:
        assert self._template is not None, "only with cards"
        body = {
            "cardTemplateId": self._template.id,
            "outTrackId": track_id,
            "callbackType": "STREAM",
            "cardData": {"cardParamMap": params},
            "userIdType": 1,
            # a question stays where its conversation is
            **delivery_of(chat_id, person_of(chat_id), self._robot_code, may_be_forwarded=not has_buttons),
        }
        answer = await self._api.call("POST", "/v1.0/card/instances/createAndDeliver", body)
        result = fields_of(answer.get("result"))
        delivered = [fields_of(one) for one in list_of(result.get("deliverResults"))]
        if answer.get("success") is False or any(one.get("success") is False for one in delivered):
            why = next(
                (text for one in delivered if (text := text_of(one.get("errorMsg")))), "it does not say why"
            )
            raise NotSent(f"DingTalk did not deliver the card: {why}"[:500], final=True)
        if not delivered:
            raise UnclearError("DingTalk does not say that it delivered the card")
        self._kept.sent(track_id, Card(chat_id, text_of(delivered[0].get("carrierId"))))
        if has_buttons:
            await self._keep()
        return track_id

    async def _keep(self) -> None:
        """Keep where a card with buttons is, for presses after a restart. It is sent in any case."""
        try:
            await self._channel.keep(self._kept.state)
        except HostError:
            return  # it is kept with the next event

    async def edit(
        self, target: ChannelTarget, message_id: str, message: ChannelMessage, *, last: bool
    ) -> None:
        """Replace text and buttons of a card. Raises NotSent, UnclearError."""
        if self._template is None or not message_id.startswith(TRACK):
            raise NotSent("DingTalk lets cards be edited, and no other messages", final=True)
        if not message.text.strip():
            raise NotSent("a message cannot become empty", final=True)
        body = {
            "outTrackId": message_id,
            "cardData": {"cardParamMap": self._params(message, last=last)},
            "cardUpdateOptions": {"updateCardDataByKey": True},
        }
        answer = await self._api.call("PUT", "/v1.0/card/instances", body)
        if answer.get("success") is False:
            raise NotSent("DingTalk did not change the card", final=True)


def written(message: ChannelMessage) -> tuple[str, dict[str, Any]]:
    """Return the key and the parameters of a text."""
    if message.plain:
        return "sampleText", {"content": message.text}
    return "sampleMarkdown", {"title": title_of(message), "text": markdown_of(message)}
