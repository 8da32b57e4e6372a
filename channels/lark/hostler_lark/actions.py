"""Platform actions of an app of Lark."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl

from hostler_lark.api import Api
from hostler_lark.emoji import name_of
from hostler_lark.names import fields_of, text_of
from hostler_lark.sender import id_of, receiver_of, uuid_of
from hostler_sdk.channels import ChannelActions, NotSent

MAX_PAGE = 50
DEFAULT_PAGE = 20
MAX_REACTION_PAGES = 10
_MESSAGE = "/open-apis/im/v1/messages/:message_id"
_CHAT = "/open-apis/im/v1/chats/:chat_id"
_CALL = re.compile(r"(GET|POST|PUT|PATCH|DELETE) (/open-apis(?:/[\w@=+.-]+)+)(?:\?([\w=&.%+-]*))?", re.ASCII)
_OF_THE_CHANNEL = re.compile(r"/open-apis/(auth|authen)/")
"""Calls that give out or take back tokens."""

Target = dict[str, Any]
Payload = dict[str, Any]
Action = Callable[[Target, Payload, str], Awaitable[Any]]


class Actions(ChannelActions):
    """The actions of one app. `target`: `chat_id`, `thread_id`, `message_id`, `person_id`, as each needs."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._by_name: dict[str, Action] = {
            "group.info": self._group_info,
            "group.leave": self._group_leave,
            "group.rename": self._group_rename,
            "history.fetch": self._history,
            "member.info": self._member_info,
            "member.kick": self._kick,
            "member.list": self._member_list,
            "message.delete": self._delete,
            "message.forward": self._forward,
            "message.pin": self._pin,
            "message.react": self._react,
            "message.unreact": self._unreact,
            "platform.call": self._call,
        }

    async def act(self, action: str, target: Target, payload: Payload, *, key: str) -> Any:
        """Carry out an action, and return its result. Raises NotSent, UnclearError."""
        return await self._by_name[action](target, payload, key)

    # -- messages ---------------------------------------------------------------------------------

    async def _delete(self, target: Target, _: Payload, __: str) -> Any:
        await self._api.call("DELETE", _MESSAGE, message_id=_message(target))
        return {}

    async def _forward(self, target: Target, payload: Payload, key: str) -> Any:
        receiver, kind = receiver_of(payload.get("to_chat_id", target.get("chat_id")))
        query = {"receive_id_type": kind, "uuid": uuid_of(key)}
        path, body = f"{_MESSAGE}/forward", {"receive_id": receiver}
        sent = await self._api.data("POST", path, query, body, message_id=_message(target))
        return {"message_id": sent.get("message_id"), "chat_id": sent.get("chat_id")}

    async def _pin(self, target: Target, _: Payload, __: str) -> Any:
        await self._api.call("POST", "/open-apis/im/v1/pins", None, {"message_id": _message(target)})
        return {}

    async def _react(self, target: Target, payload: Payload, _: str) -> Any:
        body = {"reaction_type": {"emoji_type": name_of(_text(payload, "emoji"))}}
        path = f"{_MESSAGE}/reactions"
        await self._api.call("POST", path, None, body, message_id=_message(target))
        return {}

    async def _unreact(self, target: Target, payload: Payload, _: str) -> Any:
        """Take a reaction back; without an emoji all that the bot has."""
        emoji = name_of(_text(payload, "emoji")) if payload.get("emoji") else None
        path, message_id = f"{_MESSAGE}/reactions", _message(target)
        for reaction_id in await self._own_reactions(message_id, emoji):
            await self._api.call(
                "DELETE", f"{path}/:reaction_id", message_id=message_id, reaction_id=reaction_id
            )
        return {}

    async def _own_reactions(self, message_id: str, emoji: str | None) -> list[str]:
        found: list[str] = []
        token: str | None = None
        for _ in range(MAX_REACTION_PAGES):
            query = {"reaction_type": emoji, "page_size": MAX_PAGE, "page_token": token}
            page = await self._api.data("GET", f"{_MESSAGE}/reactions", query, message_id=message_id)
            items = page.get("items")
            for one in items if isinstance(items, list) else []:
                operator, id_ = fields_of(fields_of(one).get("operator")), fields_of(one).get("reaction_id")
                if operator.get("operator_id") == self._api.app_id and text_of(id_):
                    found.append(str(id_))
            token = text_of(page.get("page_token"))
            if page.get("has_more") is not True or token is None:
                break
        return found

    async def _history(self, target: Target, payload: Payload, _: str) -> Any:
        kind, container = "chat", id_of(target.get("chat_id"), "chat", "oc_")
        if target.get("thread_id") is not None:
            root = id_of(target["thread_id"], "message", "om_")
            items = (await self._api.data("GET", _MESSAGE, message_id=root)).get("items")
            told = fields_of(items[0]) if isinstance(items, list) and items else {}
            kind, container = "thread", text_of(told.get("thread_id")) or ""
            if not container:
                raise NotSent("the message of `thread_id` begins no topic", final=True)
        query = {"container_id_type": kind, "container_id": container, "sort_type": "ByCreateTimeDesc"}
        page = await self._api.data("GET", "/open-apis/im/v1/messages", query | _page(payload))
        return {"messages": page.get("items") or [], "next_cursor": _cursor(page)}

    # -- groups and their members -----------------------------------------------------------------

    async def _group_info(self, target: Target, _: Payload, __: str) -> Any:
        return await self._api.data("GET", _CHAT, chat_id=_chat(target))

    async def _group_rename(self, target: Target, payload: Payload, _: str) -> Any:
        await self._api.call("PUT", _CHAT, None, {"name": _text(payload, "title")}, chat_id=_chat(target))
        return {}

    async def _group_leave(self, target: Target, _: Payload, __: str) -> Any:
        return await self._remove(_chat(target), "app_id", self._api.app_id)

    async def _kick(self, target: Target, _: Payload, __: str) -> Any:
        return await self._remove(_chat(target), "open_id", _person(target))

    async def _remove(self, chat_id: str, kind: str, id_: str) -> Any:
        path, query, body = f"{_CHAT}/members", {"member_id_type": kind}, {"id_list": [id_]}
        done = await self._api.data("DELETE", path, query, body, chat_id=chat_id)
        if done.get("invalid_id_list"):
            raise NotSent(f"Lark does not know {id_} in this chat", final=True)
        return {}

    async def _member_info(self, target: Target, _: Payload, __: str) -> Any:
        path, query = "/open-apis/contact/v3/users/:user_id", {"user_id_type": "open_id"}
        return (await self._api.data("GET", path, query, user_id=_person(target))).get("user")

    async def _member_list(self, target: Target, payload: Payload, _: str) -> Any:
        query = {"member_id_type": "open_id"} | _page(payload)
        page = await self._api.data("GET", f"{_CHAT}/members", query, chat_id=_chat(target))
        return {"members": page.get("items") or [], "next_cursor": _cursor(page)}

    # -- the platform's own -----------------------------------------------------------------------

    async def _call(self, _: Target, payload: Payload, __: str) -> Any:
        method, params = _text(payload, "method"), payload.get("params", {})
        match = _CALL.fullmatch(method)
        if match is None or "/.." in method or "/./" in method:
            text = f"{method!r:.80} is no call of the API of Lark, like GET /open-apis/im/v1/chats"
            raise NotSent(text, final=True)
        verb, path, given = match.groups()
        if _OF_THE_CHANNEL.match(f"{path}/"):
            raise NotSent(f"{path} gives out tokens, which nobody needs here", final=True)
        if not isinstance(params, dict):
            raise NotSent("`params` must be an object", final=True)
        query: dict[str, Any] = dict(parse_qsl(given or "", keep_blank_values=True))
        if verb == "GET":
            answer = await self._api.call(verb, path, query | params)
        else:
            answer = await self._api.call(verb, path, query, params or None)
        return answer.get(
            "data", {name: value for name, value in answer.items() if name not in {"code", "msg"}}
        )


def _text(payload: Payload, name: str) -> str:
    value = text_of(payload.get(name))
    if value is None:
        raise NotSent(f"the payload needs `{name}`, a text", final=True)
    return value


def _message(target: Target) -> str:
    return id_of(target.get("message_id"), "message", "om_")


def _chat(target: Target) -> str:
    return id_of(target.get("chat_id"), "chat", "oc_")


def _person(target: Target) -> str:
    return id_of(target.get("person_id"), "person", "ou_")


def _page(payload: Payload) -> dict[str, Any]:
    limit = payload.get("limit", DEFAULT_PAGE)
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise NotSent("`limit` must be a number from 1", final=True)
    return {"page_size": min(limit, MAX_PAGE), "page_token": text_of(payload.get("cursor"))}


def _cursor(page: dict[str, Any]) -> str | None:
    return text_of(page.get("page_token")) if page.get("has_more") is True else None
