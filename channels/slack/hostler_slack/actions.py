"""Platform actions of an app of Slack."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from hostler_sdk.channels import ChannelActions, NotSent
from hostler_slack.emoji import name_of
from hostler_slack.look_up import LookUp
from hostler_slack.messages import fields_of, text_of
from hostler_slack.sender import chat_id_of, ts_of
from hostler_slack.web_api import RefusedError, WebApi

_OF_THE_CHANNEL = {"apps.connections.open", "auth.revoke", "apps.uninstall"}
"""Methods that would take the channel its connection."""
MAX_PAGE = 200
DEFAULT_PAGE = 50
TYPING = "is typing…"

Action = Callable[[dict[str, Any], dict[str, Any]], Awaitable[Any]]


class Actions(ChannelActions):
    """The actions of one app. `target`: `chat_id`, `thread_id`, `message_id`, `person_id`, as each needs."""

    def __init__(self, api: WebApi, look_up: LookUp) -> None:
        self._api = api
        self._look_up = look_up
        self.me = ""
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
            "typing.start": self._typing,
        }

    async def act(self, action: str, target: dict[str, Any], payload: dict[str, Any], *, key: str) -> Any:
        """Carry out an action, and return its result. Raises NotSent, UnclearError."""
        return await self._by_name[action](target, payload)

    # -- messages ---------------------------------------------------------------------------------

    async def _delete(self, target: dict[str, Any], _: dict[str, Any]) -> Any:
        await self._api.call("chat.delete", channel=await self._chat(target), ts=_message(target))
        return {}

    async def _react(self, target: dict[str, Any], payload: dict[str, Any]) -> Any:
        name = name_of(_text(payload, "emoji"))
        await self._unless("already_reacted", "reactions.add", target, name)
        return {}

    async def _unreact(self, target: dict[str, Any], payload: dict[str, Any]) -> Any:
        """Take a reaction back; without an emoji all that the bot has."""
        if payload.get("emoji"):
            names = [name_of(_text(payload, "emoji"))]
        else:
            names = await self._own_reactions(target)
        for name in names:
            await self._unless("no_reaction", "reactions.remove", target, name)
        return {}

    async def _unless(self, so_already: str, method: str, target: dict[str, Any], name: str) -> None:
        """Call a method for a reaction; that it is so already is no error."""
        try:
            await self._api.call(
                method, channel=await self._chat(target), timestamp=_message(target), name=name
            )
        except RefusedError as error:
            if error.code != so_already:
                raise

    async def _own_reactions(self, target: dict[str, Any]) -> list[str]:
        answer = await self._api.call(
            "reactions.get", channel=await self._chat(target), timestamp=_message(target), full=True
        )
        reactions = fields_of(answer.get("message")).get("reactions")
        return [
            str(one.get("name"))
            for one in (reactions if isinstance(reactions, list) else [])
            if self.me in (one.get("users") or [])
        ]

    async def _pin(self, target: dict[str, Any], _: dict[str, Any]) -> Any:
        try:
            await self._api.call("pins.add", channel=await self._chat(target), timestamp=_message(target))
        except RefusedError as error:
            if error.code != "already_pinned":
                raise
        return {}

    async def _forward(self, target: dict[str, Any], payload: dict[str, Any]) -> Any:
        """Share a message as people do: by its address, below which Slack shows the message."""
        to = chat_id_of(payload.get("to_chat_id", target.get("chat_id")))
        link = await self._api.call(
            "chat.getPermalink", channel=await self._chat(target), message_ts=_message(target)
        )
        answer = await self._api.call(
            "chat.postMessage", channel=to, text=f"<{link.get('permalink')}>", unfurl_links=True
        )
        return {"message_id": answer.get("ts"), "chat_id": answer.get("channel")}

    async def _typing(self, target: dict[str, Any], _: dict[str, Any]) -> Any:
        if target.get("thread_id") is None:
            raise NotSent(
                "Slack shows in threads only that an app is at work: `thread_id` is needed", final=True
            )
        await self._api.call(
            "assistant.threads.setStatus",
            channel_id=await self._chat(target),
            thread_ts=ts_of(target["thread_id"], "thread"),
            status=TYPING,
        )
        return {}

    async def _history(self, target: dict[str, Any], payload: dict[str, Any]) -> Any:
        thread = target.get("thread_id")
        answer = await self._api.call(
            "conversations.history" if thread is None else "conversations.replies",
            channel=await self._chat(target),
            ts=None if thread is None else ts_of(thread, "thread"),
            **_page(payload),
        )
        return {"messages": answer.get("messages", []), "next_cursor": _cursor(answer)}

    # -- groups and their members -----------------------------------------------------------------

    async def _group_info(self, target: dict[str, Any], _: dict[str, Any]) -> Any:
        answer = await self._api.call(
            "conversations.info", channel=await self._chat(target), include_num_members=True
        )
        return answer.get("channel")

    async def _group_leave(self, target: dict[str, Any], _: dict[str, Any]) -> Any:
        await self._api.call("conversations.leave", channel=await self._chat(target))
        return {}

    async def _group_rename(self, target: dict[str, Any], payload: dict[str, Any]) -> Any:
        answer = await self._api.call(
            "conversations.rename", channel=await self._chat(target), name=_text(payload, "title")
        )
        return {"name": fields_of(answer.get("channel")).get("name")}

    async def _member_info(self, target: dict[str, Any], _: dict[str, Any]) -> Any:
        return (await self._api.call("users.info", user=_person(target))).get("user")

    async def _member_list(self, target: dict[str, Any], payload: dict[str, Any]) -> Any:
        answer = await self._api.call(
            "conversations.members", channel=await self._chat(target), **_page(payload)
        )
        return {"members": answer.get("members", []), "next_cursor": _cursor(answer)}

    async def _kick(self, target: dict[str, Any], _: dict[str, Any]) -> Any:
        await self._api.call("conversations.kick", channel=await self._chat(target), user=_person(target))
        return {}

    # -- the platform's own -----------------------------------------------------------------------

    async def _call(self, _: dict[str, Any], payload: dict[str, Any]) -> Any:
        method, params = _text(payload, "method"), payload.get("params", {})
        if not re.fullmatch(r"[a-z]+(\.[A-Za-z]+){1,4}", method):
            raise NotSent(f"{method!r:.80} is no method of the Web API, like bookmarks.add", final=True)
        if method in _OF_THE_CHANNEL:
            raise NotSent(f"{method} would take the channel its connection", final=True)
        if not isinstance(params, dict):
            raise NotSent("`params` must be an object", final=True)
        if "token" in params or "app_token" in params:
            raise NotSent("`params` must not name a token: the app's own is used", final=True)
        return await self._api.call(method, **params)

    async def _chat(self, target: dict[str, Any]) -> str:
        if target.get("chat_id") is None:
            raise NotSent("the target needs `chat_id`", final=True)
        return await self._look_up.conversation(chat_id_of(target["chat_id"]))


def _text(payload: dict[str, Any], name: str) -> str:
    value = text_of(payload.get(name))
    if value is None:
        raise NotSent(f"the payload needs `{name}`, a text", final=True)
    return value


def _message(target: dict[str, Any]) -> str:
    return ts_of(target.get("message_id"))


def _person(target: dict[str, Any]) -> str:
    person = target.get("person_id")
    if not isinstance(person, str) or not re.fullmatch(r"[UW][A-Z0-9]{1,30}", person):
        raise NotSent(f"{person!r:.80} is no id of a person of Slack, like U0123456789", final=True)
    return person


def _page(payload: dict[str, Any]) -> dict[str, Any]:
    limit = payload.get("limit", DEFAULT_PAGE)
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise NotSent("`limit` must be a number from 1", final=True)
    return {"limit": min(limit, MAX_PAGE), "cursor": text_of(payload.get("cursor"))}


def _cursor(answer: dict[str, Any]) -> str | None:
    return text_of(fields_of(answer.get("response_metadata")).get("next_cursor"))
