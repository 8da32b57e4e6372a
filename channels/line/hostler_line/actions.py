"""Platform actions of a bot of LINE."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from hostler_line.errors import AcceptedBeforeError
from hostler_line.ids import chat_id_of, person_id_of
from hostler_line.line_api import LineApi
from hostler_line.names import profile_path
from hostler_line.sender import retry_key_of
from hostler_sdk.channels import ChannelActions, NotSent

TYPING_SECONDS = 10
"""LINE takes 5 to 60, in steps of five; it ends with the next message."""
_CALL = re.compile(r"(GET|POST|PUT|DELETE) (/v2/bot/[A-Za-z0-9/_-]{1,200})")
_WITH_RETRY_KEY = {f"/v2/bot/message/{one}" for one in ("broadcast", "multicast", "narrowcast", "push")}

Action = Callable[[dict[str, Any], dict[str, Any], str], Awaitable[Any]]


class Actions(ChannelActions):
    """The actions of one bot. `target`: `chat_id`, `person_id`, as each needs."""

    def __init__(self, api: LineApi) -> None:
        self._api = api
        self._by_name: dict[str, Action] = {
            "group.info": self._group_info,
            "group.leave": self._group_leave,
            "member.info": self._member_info,
            "member.list": self._member_list,
            "platform.call": self._call,
            "typing.start": self._typing,
        }

    async def act(self, action: str, target: dict[str, Any], payload: dict[str, Any], *, key: str) -> Any:
        """Carry out an action, and return its result. Raises NotSent, UnclearError."""
        return await self._by_name[action](target, payload, key)

    async def _group_info(self, target: dict[str, Any], _: dict[str, Any], __: str) -> Any:
        """A group has a name and a picture; a multi-person chat its size alone."""
        place = _group(target)
        summary = await self._api.call("GET", f"{place}/summary") if "/group/" in place else {}
        count = await self._api.call("GET", f"{place}/members/count")
        return {**summary, "count": count.get("count")}

    async def _group_leave(self, target: dict[str, Any], _: dict[str, Any], __: str) -> Any:
        await self._api.call("POST", f"{_group(target)}/leave")
        return {}

    async def _member_info(self, target: dict[str, Any], _: dict[str, Any], __: str) -> Any:
        person_id = person_id_of(target.get("person_id"))
        return await self._api.call("GET", profile_path(chat_id_of(target.get("chat_id")), person_id))

    async def _member_list(self, target: dict[str, Any], payload: dict[str, Any], _: str) -> Any:
        """LINE gives the members to verified and premium accounts only."""
        cursor = payload.get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            raise NotSent("`cursor` must be the text that came as `next_cursor`", final=True)
        query = {"start": cursor} if cursor else {}
        answer = await self._api.call("GET", f"{_group(target)}/members/ids", query=query)
        members = answer.get("memberIds")
        return {"members": members if isinstance(members, list) else [], "next_cursor": answer.get("next")}

    async def _typing(self, target: dict[str, Any], _: dict[str, Any], __: str) -> Any:
        chat_id = chat_id_of(target.get("chat_id"))
        if not chat_id.startswith("U"):
            raise NotSent("LINE shows in private chats only that a bot is at work", final=True)
        body = {"chatId": chat_id, "loadingSeconds": TYPING_SECONDS}
        await self._api.call("POST", "/v2/bot/chat/loading/start", body)
        return {}

    async def _call(self, _: dict[str, Any], payload: dict[str, Any], key: str) -> Any:
        method, params = payload.get("method"), payload.get("params", {})
        found = _CALL.fullmatch(method) if isinstance(method, str) else None
        if found is None or not isinstance(params, dict):
            text = "`method` must be like `GET /v2/bot/followers/ids`, and `params` an object"
            raise NotSent(f"{method!r:.80}: {text}", final=True)
        verb, path = found.groups()
        if path.startswith("/v2/bot/channel/webhook") and verb != "GET":
            raise NotSent(f"{path} would take the channel its connection", final=True)
        if verb in {"GET", "DELETE"}:
            return await self._api.call(verb, path, query=params)
        retry_key = retry_key_of(key) if path in _WITH_RETRY_KEY and verb == "POST" else None
        try:
            return await self._api.call(verb, path, params, retry_key=retry_key)
        except AcceptedBeforeError as error:
            return error.answer


def _group(target: dict[str, Any]) -> str:
    chat_id = chat_id_of(target.get("chat_id"))
    if chat_id.startswith("U"):
        raise NotSent("this is a chat with one person, and no group", final=True)
    return f"/v2/bot/{'group' if chat_id.startswith('C') else 'room'}/{chat_id}"
