"""Platform actions of a robot of DingTalk."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from hostler_dingtalk.api import Api
from hostler_dingtalk.cards import TRACK
from hostler_dingtalk.fields import fields_of, text_of
from hostler_dingtalk.kept import Kept
from hostler_dingtalk.sender import person_of
from hostler_sdk.channels import ChannelActions, NotSent

_CALL = re.compile(r"(GET|POST|PUT|DELETE) (/v[0-9]\.[0-9]/[\w/.%~+=@:-]+)|(POST) (/topapi/[\w/]+)", re.ASCII)
_DETOUR = re.compile(r"\.\.|//|%2e|%2f|%5c", re.IGNORECASE)
_OF_THE_CHANNEL = ("/v1.0/gateway/", "/v1.0/oauth2/")
"""Paths of calls that would take the channel its connection, or give out a token."""
_EMOTION = {"emotionId": "2659900", "backgroundId": "im_bg_1"}
"""Of a reaction that is a text: DingTalk's robots have no others."""
MAX_EMOTION = 20

Action = Callable[[dict[str, Any], dict[str, Any]], Awaitable[Any]]


class Actions(ChannelActions):
    """The actions of one robot. `target`: `chat_id`, `message_id`, `person_id`, as each needs."""

    def __init__(self, api: Api, kept: Kept, robot_code: str) -> None:
        self._api = api
        self._kept = kept
        self._robot_code = robot_code
        self._by_name: dict[str, Action] = {
            "member.info": self._member_info,
            "message.delete": self._delete,
            "message.react": self._react,
            "message.unreact": self._unreact,
            "platform.call": self._call,
        }

    async def act(self, action: str, target: dict[str, Any], payload: dict[str, Any], *, key: str) -> Any:
        """Carry out an action, and return its result. Raises NotSent, UnclearError."""
        return await self._by_name[action](target, payload)

    async def _delete(self, target: dict[str, Any], _: dict[str, Any]) -> Any:
        chat_id, message_id = _needed(target, "chat_id"), _needed(target, "message_id")
        if message_id.startswith(TRACK):
            raise NotSent("DingTalk lets no card be recalled; it can be edited", final=True)
        body: dict[str, Any] = {"robotCode": self._robot_code, "processQueryKeys": [message_id]}
        path = "/v1.0/robot/otoMessages/batchRecall"
        if person_of(chat_id) is None:
            body["openConversationId"] = chat_id
            path = "/v1.0/robot/groupMessages/recall"
        answer = await self._api.call("POST", path, body)
        failed = fields_of(answer.get("failedResult"))
        if failed:
            raise NotSent(f"DingTalk: {next(iter(failed.values()))}"[:500], final=True)
        return {}

    async def _react(self, target: dict[str, Any], payload: dict[str, Any]) -> Any:
        await self._emotion("reply", target, payload)
        return {}

    async def _unreact(self, target: dict[str, Any], payload: dict[str, Any]) -> Any:
        await self._emotion("recall", target, payload)
        return {}

    async def _emotion(self, what: str, target: dict[str, Any], payload: dict[str, Any]) -> None:
        chat_id, emoji = _needed(target, "chat_id"), _needed(payload, "emoji")[:MAX_EMOTION]
        conversation = self._kept.conversation_of(chat_id)
        if conversation is None:
            text = (
                "nobody has written in this chat since the channel knows it: DingTalk's id of it is not known"
            )
            raise NotSent(text, final=True)
        await self._api.call(
            "POST",
            f"/v1.0/robot/emotion/{what}",
            {
                "robotCode": self._robot_code,
                "openConversationId": conversation,
                "openMsgId": _needed(target, "message_id"),
                "emotionType": 2,
                "emotionName": emoji,
                "textEmotion": {**_EMOTION, "emotionName": emoji, "text": emoji},
            },
        )

    async def _member_info(self, target: dict[str, Any], _: dict[str, Any]) -> Any:
        answer = await self._api.old_call("/topapi/v2/user/get", {"userid": _needed(target, "person_id")})
        return fields_of(answer.get("result"))

    async def _call(self, _: dict[str, Any], payload: dict[str, Any]) -> Any:
        method, params = _needed(payload, "method"), payload.get("params", {})
        found = _CALL.fullmatch(method)
        if found is None or _DETOUR.search(method):
            text = f"{method!r:.80} is no call of DingTalk, like POST /v1.0/robot/groups/robots/query"
            raise NotSent(f"{text} or POST /topapi/v2/user/get", final=True)
        verb, path = (part for part in found.groups() if part is not None)
        if path.lower().startswith(_OF_THE_CHANNEL):
            raise NotSent(f"{path} is the channel's own", final=True)
        if not isinstance(params, dict):
            raise NotSent("`params` must be an object", final=True)
        if path.startswith("/topapi/"):
            if "access_token" in params:
                raise NotSent("`params` must not name a token: the app's own is used", final=True)
            return await self._api.old_call(path, params)
        if verb in {"GET", "DELETE"}:
            return await self._api.call(
                verb, path, query={name: str(value) for name, value in params.items()}
            )
        return await self._api.call(verb, path, params)


def _needed(fields: dict[str, Any], name: str) -> str:
    value = text_of(fields.get(name))
    if value is None:
        raise NotSent(f"`{name}` is needed, a text", final=True)
    return value
