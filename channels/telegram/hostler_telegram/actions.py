"""Platform actions of a Telegram bot."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiogram import methods
from aiogram.methods.base import TelegramMethod
from aiogram.types import ChatPermissions, InputPollOption, ReactionTypeCustomEmoji, ReactionTypeEmoji

from hostler_sdk.channels import ChannelActions, NotSent
from hostler_sdk.channels.sent_parts import ids_of, joined_ids
from hostler_telegram.bot_api import BotApi, any_call
from hostler_telegram.sender import chat_id_of, number_of

_OF_THE_CHANNEL = {"getupdates", "setwebhook", "deletewebhook", "logout", "close"}
"""Methods that would take the channel its connection."""
MIN_SECONDS = 35
MAX_SECONDS = 366 * 86_400 - 60
"""Of a restriction: Telegram takes one of under 30 seconds or over 366 days as one without end."""
_PERMISSIONS = tuple(name for name in ChatPermissions.model_fields if name.startswith("can_"))

Action = Callable[[dict[str, Any], dict[str, Any]], Awaitable[Any]]


class Actions(ChannelActions):
    """The actions of one bot. `target`: `chat_id`, `thread_id`, `message_id`, `person_id`, as each needs."""

    def __init__(self, api: BotApi) -> None:
        self._api = api
        self._by_name: dict[str, Action] = {
            "group.info": self._group_info,
            "group.leave": self._group_leave,
            "group.rename": self._group_rename,
            "member.ban": self._ban,
            "member.info": self._member_info,
            "member.kick": self._kick,
            "member.mute": self._mute,
            "member.unmute": self._unmute,
            "message.delete": self._delete,
            "message.forward": self._forward,
            "message.pin": self._pin,
            "message.react": self._react,
            "message.unreact": self._unreact,
            "platform.call": self._call,
            "poll.create": self._poll,
            "typing.start": self._typing,
        }

    async def act(self, action: str, target: dict[str, Any], payload: dict[str, Any], *, key: str) -> Any:
        """Carry out an action, and return its result. Raises NotSent, UnclearError."""
        return await self._by_name[action](target, payload)

    # -- messages ---------------------------------------------------------------------------------

    async def _delete(self, target: dict[str, Any], _: dict[str, Any]) -> Any:
        for at in _messages(target):
            await self._api.done(methods.DeleteMessage(**at))
        return {}

    async def _react(self, target: dict[str, Any], payload: dict[str, Any]) -> Any:
        emoji = _text(payload, "emoji")
        reaction = (
            ReactionTypeCustomEmoji(custom_emoji_id=emoji)
            if emoji.isdecimal()
            else ReactionTypeEmoji(emoji=emoji)
        )
        return await self._done(methods.SetMessageReaction(**_message(target), reaction=[reaction]))

    async def _unreact(self, target: dict[str, Any], _: dict[str, Any]) -> Any:
        return await self._done(methods.SetMessageReaction(**_message(target), reaction=[]))

    async def _pin(self, target: dict[str, Any], _: dict[str, Any]) -> Any:
        return await self._done(methods.PinChatMessage(**_message(target), disable_notification=True))

    async def _forward(self, target: dict[str, Any], payload: dict[str, Any]) -> Any:
        there, sent = payload.get("to_chat_id", target.get("chat_id")), []
        for at in _messages(target):
            method = methods.ForwardMessage(
                chat_id=chat_id_of(there), from_chat_id=at["chat_id"], message_id=at["message_id"]
            )
            sent.append(await self._api.sent(method))
        return {"message_id": joined_ids(sent)}

    async def _typing(self, target: dict[str, Any], _: dict[str, Any]) -> Any:
        return await self._done(methods.SendChatAction(**_place(target), action="typing"))

    async def _poll(self, target: dict[str, Any], payload: dict[str, Any]) -> Any:
        options = payload.get("options")
        if not isinstance(options, list) or not all(isinstance(one, str) and one for one in options):
            raise NotSent("poll.create needs `options`, a list of texts, in its payload", final=True)
        method = methods.SendPoll(
            **_place(target),
            question=_text(payload, "question"),
            options=[InputPollOption(text=one) for one in options],
            allows_multiple_answers=payload.get("multiple") is True,
        )
        return {"message_id": await self._api.sent(method)}

    # -- groups and their members -----------------------------------------------------------------

    async def _group_info(self, target: dict[str, Any], _: dict[str, Any]) -> Any:
        return await self._raw("getChat", {"chat_id": _chat(target)})

    async def _group_leave(self, target: dict[str, Any], _: dict[str, Any]) -> Any:
        return await self._done(methods.LeaveChat(chat_id=_chat(target)))

    async def _group_rename(self, target: dict[str, Any], payload: dict[str, Any]) -> Any:
        return await self._done(methods.SetChatTitle(chat_id=_chat(target), title=_text(payload, "title")))

    async def _member_info(self, target: dict[str, Any], _: dict[str, Any]) -> Any:
        return await self._raw("getChatMember", _member(target))

    async def _mute(self, target: dict[str, Any], payload: dict[str, Any]) -> Any:
        return await self._restrict(target, False, payload)

    async def _unmute(self, target: dict[str, Any], payload: dict[str, Any]) -> Any:
        return await self._restrict(target, True, payload)

    async def _restrict(self, target: dict[str, Any], allowed: bool, payload: dict[str, Any]) -> Any:
        permissions = ChatPermissions(**dict.fromkeys(_PERMISSIONS, allowed))
        method = methods.RestrictChatMember(
            **_member(target), permissions=permissions, until_date=_until(payload)
        )
        return await self._done(method)

    async def _ban(self, target: dict[str, Any], _: dict[str, Any]) -> Any:
        return await self._done(methods.BanChatMember(**_member(target)))

    async def _kick(self, target: dict[str, Any], _: dict[str, Any]) -> Any:
        """Remove a member, who may come back: to lift a ban of somebody who is there does just that."""
        return await self._done(methods.UnbanChatMember(**_member(target), only_if_banned=False))

    # -- the platform's own -----------------------------------------------------------------------

    async def _call(self, _: dict[str, Any], payload: dict[str, Any]) -> Any:
        method, params = _text(payload, "method"), payload.get("params", {})
        if not re.fullmatch(r"[A-Za-z]{1,64}", method):
            raise NotSent(f"{method!r:.80} is no method of the Bot API, like sendDice", final=True)
        if method.lower() in _OF_THE_CHANNEL:
            raise NotSent(f"{method} would take the channel its connection", final=True)
        if not isinstance(params, dict):
            raise NotSent("`params` must be an object", final=True)
        return await self._raw(method, params)

    async def _raw(self, method: str, params: dict[str, Any]) -> Any:
        return await self._api.call(any_call(method, params))

    async def _done(self, method: TelegramMethod[bool]) -> dict[str, Any]:
        await self._api.done(method)
        return {}


def _text(payload: dict[str, Any], name: str) -> str:
    value = payload.get(name)
    if not isinstance(value, str) or not value:
        raise NotSent(f"the payload needs `{name}`, a text", final=True)
    return value


def _chat(target: dict[str, Any]) -> int | str:
    if target.get("chat_id") is None:
        raise NotSent("the target needs `chat_id`", final=True)
    return chat_id_of(target["chat_id"])


def _place(target: dict[str, Any]) -> dict[str, Any]:
    thread = target.get("thread_id")
    thread_id = None if thread is None else number_of(thread, "topic")
    return {"chat_id": _chat(target), "message_thread_id": thread_id}


def _message(target: dict[str, Any]) -> dict[str, Any]:
    """Return a message; of one in several parts the first."""
    return _messages(target)[0]


def _messages(target: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all parts of a message."""
    chat_id, ids = _chat(target), ids_of(target.get("message_id"))
    return [{"chat_id": chat_id, "message_id": number_of(one, "message")} for one in ids]


def _member(target: dict[str, Any]) -> dict[str, Any]:
    return {"chat_id": _chat(target), "user_id": number_of(target.get("person_id"), "person")}


def _until(payload: dict[str, Any]) -> int | None:
    """Return the end of a restriction, UTC epoch seconds; None: it has none."""
    seconds = payload.get("seconds")
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int) or not 0 < seconds <= MAX_SECONDS:
        raise NotSent(f"`seconds` must be a number from 1 to {MAX_SECONDS}", final=True)
    return int(time.time()) + max(seconds, MIN_SECONDS)
