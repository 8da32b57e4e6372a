"""Platform actions of an application of WeCom."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from hostler_sdk.channels import ChannelActions, NotSent
from hostler_sdk.channels.sent_parts import ids_of
from hostler_wecom.sender import user_of
from hostler_wecom.web_api import WebApi

_METHOD = re.compile(r"(?:(GET|POST) )?([a-z_]{1,40}(?:/[a-z0-9_]{1,60}){0,4})")
_NOT_CALLED = ("gettoken", "media/")
"""What would take the channel its token, and files, which messages bring."""

Action = Callable[[dict[str, Any], dict[str, Any]], Awaitable[Any]]


class Actions(ChannelActions):
    """The actions of one application. `target`: `chat_id`, `message_id`, `person_id`, as each needs."""

    def __init__(self, api: WebApi) -> None:
        self._api = api
        self._by_name: dict[str, Action] = {
            "member.info": self._member_info,
            "message.delete": self._delete,
            "platform.call": self._call,
        }

    async def act(self, action: str, target: dict[str, Any], payload: dict[str, Any], *, key: str) -> Any:
        """Carry out an action, and return its result. Raises NotSent, UnclearError."""
        return await self._by_name[action](target, payload)

    async def _delete(self, target: dict[str, Any], _: dict[str, Any]) -> Any:
        """Recall all parts of a message, for which WeCom gives 24 hours."""
        message_id = target.get("message_id")
        ids = [one for one in ids_of(str(message_id or "")) if one]
        if not ids:
            raise NotSent("the target needs `message_id`, as WeCom gave it when it was sent", final=True)
        for one in ids:
            await self._api.call("message/recall", {"msgid": one})
        return {}

    async def _member_info(self, target: dict[str, Any], _: dict[str, Any]) -> Any:
        answer = await self._api.call("user/get", query={"userid": user_of(target.get("person_id"))})
        return {name: value for name, value in answer.items() if name not in {"errcode", "errmsg"}}

    async def _call(self, _: dict[str, Any], payload: dict[str, Any]) -> Any:
        named, params = payload.get("method"), payload.get("params", {})
        found = _METHOD.fullmatch(named.removeprefix("/cgi-bin/")) if isinstance(named, str) else None
        if found is None:
            text = f"{named!r:.80} is no method of WeCom, like appchat/create or GET department/list"
            raise NotSent(text, final=True)
        if found[2].startswith(_NOT_CALLED):
            raise NotSent(f"{found[2]} is not called for others: it is of the channel itself", final=True)
        if not isinstance(params, dict):
            raise NotSent("`params` must be an object", final=True)
        if "access_token" in params:
            raise NotSent("`params` must not name a token: the application's own is used", final=True)
        if found[1] == "GET":
            query = {str(name): _plain(value) for name, value in params.items()}
            return await self._api.call(found[2], query=query)
        return await self._api.call(found[2], params)


def _plain(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise NotSent("the `params` of a GET must be texts and numbers", final=True)
    return str(value)
