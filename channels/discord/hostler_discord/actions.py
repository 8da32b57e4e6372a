"""Platform actions of a Discord bot."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from hostler_discord.messages import text_of
from hostler_discord.places import Places
from hostler_discord.rest import Rest
from hostler_discord.sender import Sender, id_of, part_key
from hostler_sdk.channels import ChannelActions, NotSent
from hostler_sdk.channels.sent_parts import ids_of, joined_ids

MAX_MUTE_SECONDS = 28 * 86_400
"""Of a time-out; there is none without end."""
MAX_PAGE = 100
MAX_POLL_OPTIONS = 10
MAX_POLL_OPTION_CHARS = 55
MAX_POLL_QUESTION_CHARS = 300
_CALL = re.compile(r"(GET|POST|PUT|PATCH|DELETE) (/[\w@.~%:+-]+(?:/[\w@.~%:+-]+)*)", re.ASCII)
_OF_THE_CHANNEL = re.compile(r"/(gateway|oauth2|auth)\b|/applications/[^/]+$|/interactions/", re.ASCII)
"""Calls that would take the channel its connection or its presses."""
_MESSAGE = "/channels/{channel_id}/messages/{message_id}"
_MEMBER = "/guilds/{guild_id}/members/{user_id}"
_FORWARD = 1

Target = dict[str, Any]
Payload = dict[str, Any]


class Actions(ChannelActions):
    """The actions of one bot. `target`: `chat_id`, `thread_id`, `message_id`, `person_id`, as each needs."""

    def __init__(self, rest: Rest, places: Places, sender: Sender) -> None:
        self._rest = rest
        self._places = places
        self._sender = sender
        self._by_name: dict[str, Callable[[Target, Payload], Awaitable[Any]]] = {
            "group.info": self._group_info,
            "group.leave": self._group_leave,
            "group.rename": self._group_rename,
            "history.fetch": self._history,
            "member.ban": self._ban,
            "member.info": self._member_info,
            "member.kick": self._kick,
            "member.list": self._member_list,
            "member.mute": self._mute,
            "member.unmute": self._unmute,
            "message.delete": self._delete,
            "message.pin": self._pin,
            "message.react": self._react,
            "message.unreact": self._unreact,
            "platform.call": self._call,
            "typing.start": self._typing,
        }

    async def act(self, action: str, target: Target, payload: Payload, *, key: str) -> Any:
        """Carry out an action, and return its result. Raises NotSent, UnclearError, ConnectionError."""
        match action:
            case "message.forward":
                return {"message_id": await self._forward(target, payload, key)}
            case "poll.create":
                return {"message_id": await self._poll(target, payload, key)}
        return await self._by_name[action](target, payload)

    async def _done(self, verb: str, path: str, **more: Any) -> dict[str, Any]:
        await self._rest.call(verb, path, **more)
        return {}

    # -- messages ---------------------------------------------------------------------------------

    async def _delete(self, target: Target, _: Payload) -> Any:
        for at in _messages(target):
            await self._done("DELETE", _MESSAGE, **at)
        return {}

    async def _react(self, target: Target, payload: Payload) -> Any:
        path = _MESSAGE + "/reactions/{emoji}/@me"
        return await self._done("PUT", path, **_message(target), emoji=_emoji(payload))

    async def _unreact(self, target: Target, payload: Payload) -> Any:
        if payload.get("emoji") is not None:
            path = _MESSAGE + "/reactions/{emoji}/@me"
            return await self._done("DELETE", path, **_message(target), emoji=_emoji(payload))
        found = await self._rest.message("GET", _MESSAGE, **_message(target))
        for one in found.get("reactions") or []:
            if one.get("me"):
                emoji = one["emoji"]
                name = f"{emoji['name']}:{emoji['id']}" if emoji.get("id") else emoji["name"]
                await self._unreact(target, {"emoji": name})
        return {}

    async def _pin(self, target: Target, _: Payload) -> Any:
        path = "/channels/{channel_id}/messages/pins/{message_id}"
        return await self._done("PUT", path, **_message(target))

    async def _forward(self, target: Target, payload: Payload, key: str) -> str | None:
        to, sent = id_of(payload.get("to_chat_id", target.get("chat_id")), "channel"), []
        for number, at in enumerate(_messages(target)):
            reference = {"type": _FORWARD, **at}
            sent.append(await self._sender.post(to, {"message_reference": reference}, part_key(key, number)))
        return joined_ids(sent)

    async def _typing(self, target: Target, _: Payload) -> Any:
        return await self._done("POST", "/channels/{channel_id}/typing", channel_id=_channel(target))

    async def _poll(self, target: Target, payload: Payload, key: str) -> str:
        options = payload.get("options")
        if not isinstance(options, list) or not all(isinstance(one, str) and one for one in options):
            raise NotSent("poll.create needs `options`, a list of texts, in its payload", final=True)
        if len(options) > MAX_POLL_OPTIONS or any(len(one) > MAX_POLL_OPTION_CHARS for one in options):
            text = f"Discord takes {MAX_POLL_OPTIONS} options of {MAX_POLL_OPTION_CHARS} characters in a poll"
            raise NotSent(text, final=True)
        question = _text(payload, "question")
        if len(question) > MAX_POLL_QUESTION_CHARS:
            text = f"Discord takes {MAX_POLL_QUESTION_CHARS} characters as the question of a poll"
            raise NotSent(text, final=True)
        poll = {
            "question": {"text": question},
            "answers": [{"poll_media": {"text": one}} for one in options],
            "allow_multiselect": payload.get("multiple") is True,
        }
        return await self._sender.post(_channel(target), {"poll": poll}, key)

    async def _history(self, target: Target, payload: Payload) -> Any:
        params = {"limit": str(_limit(payload))}
        if payload.get("cursor") is not None:
            params["before"] = id_of(payload["cursor"], "message")
        channel_id = _channel(target)
        path = "/channels/{channel_id}/messages"
        page = await self._rest.call("GET", path, channel_id=channel_id, params=params)
        more = len(page) == int(params["limit"])
        return {
            "messages": [_shown(one) for one in page],
            "cursor": str(page[-1]["id"]) if page and more else None,
        }

    # -- channels, servers and their members -------------------------------------------------------

    async def _guild(self, target: Target) -> str:
        return await self._places.guild_of(id_of(target.get("chat_id"), "channel"))

    async def _member(self, target: Target) -> dict[str, str]:
        user_id = id_of(target.get("person_id"), "person")
        return {"guild_id": await self._guild(target), "user_id": user_id}

    async def _group_info(self, target: Target, _: Payload) -> Any:
        return await self._rest.message("GET", "/channels/{channel_id}", channel_id=_channel(target))

    async def _group_leave(self, target: Target, _: Payload) -> Any:
        guild_id = await self._guild(target)
        return await self._done("DELETE", "/users/@me/guilds/{guild_id}", guild_id=guild_id)

    async def _group_rename(self, target: Target, payload: Payload) -> Any:
        path, name = "/channels/{channel_id}", _text(payload, "title")
        return await self._done("PATCH", path, channel_id=_channel(target), json={"name": name})

    async def _member_info(self, target: Target, _: Payload) -> Any:
        at = await self._member(target)
        return await self._rest.call("GET", _MEMBER, guild_id=at["guild_id"], user_id=at["user_id"])

    async def _member_list(self, target: Target, payload: Payload) -> Any:
        params = {"limit": str(_limit(payload))}
        if payload.get("cursor") is not None:
            params["after"] = id_of(payload["cursor"], "person")
        path = "/guilds/{guild_id}/members"
        page = await self._rest.call("GET", path, guild_id=await self._guild(target), params=params)
        more = len(page) == int(params["limit"])
        return {"members": page, "cursor": str(page[-1]["user"]["id"]) if page and more else None}

    async def _mute(self, target: Target, payload: Payload) -> Any:
        seconds = payload.get("seconds", MAX_MUTE_SECONDS)
        if isinstance(seconds, bool) or not isinstance(seconds, int) or not 0 < seconds <= MAX_MUTE_SECONDS:
            raise NotSent(f"`seconds` must be a number from 1 to {MAX_MUTE_SECONDS}", final=True)
        until = datetime.now(UTC) + timedelta(seconds=seconds)
        return await self._time_out(target, payload, until.isoformat())

    async def _unmute(self, target: Target, payload: Payload) -> Any:
        return await self._time_out(target, payload, None)

    async def _time_out(self, target: Target, payload: Payload, until: str | None) -> Any:
        body = {"communication_disabled_until": until}
        return await self._done(
            "PATCH", _MEMBER, **await self._member(target), json=body, reason=_reason(payload)
        )

    async def _kick(self, target: Target, payload: Payload) -> Any:
        return await self._done("DELETE", _MEMBER, **await self._member(target), reason=_reason(payload))

    async def _ban(self, target: Target, payload: Payload) -> Any:
        path = "/guilds/{guild_id}/bans/{user_id}"
        return await self._done("PUT", path, **await self._member(target), json={}, reason=_reason(payload))

    # -- the platform's own -----------------------------------------------------------------------

    async def _call(self, _: Target, payload: Payload) -> Any:
        method, params = _text(payload, "method"), payload.get("params", {})
        match = _CALL.fullmatch(method)
        if match is None or ".." in method:
            text = f"{method!r:.80} is no call of the API of Discord, like GET /channels/123/messages"
            raise NotSent(text, final=True)
        verb, path = match.groups()
        if _OF_THE_CHANNEL.search(path) and verb != "GET":
            raise NotSent(f"{method} would take the channel its connection or its presses", final=True)
        if not isinstance(params, dict):
            raise NotSent("`params` must be an object", final=True)
        if verb == "GET":
            query = {name: _query(value) for name, value in params.items()}
            return await self._rest.call(verb, path, params=query)
        return await self._rest.call(verb, path, json=params)


def _text(payload: Payload, name: str) -> str:
    value = payload.get(name)
    if not isinstance(value, str) or not value:
        raise NotSent(f"the payload needs `{name}`, a text", final=True)
    return value


def _reason(payload: Payload) -> str | None:
    reason = payload.get("reason")
    return reason if isinstance(reason, str) else None


def _emoji(payload: Payload) -> str:
    """Return an emoji as Discord takes it: itself, or `name:id` of a custom one, however that is written."""
    emoji = _text(payload, "emoji")
    custom = re.fullmatch(r"<?a?:?(\w+:\d+)>?", emoji, re.ASCII)
    return custom[1] if custom else emoji


def _limit(payload: Payload) -> int:
    limit = payload.get("limit", 50)
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 < limit <= MAX_PAGE:
        raise NotSent(f"`limit` must be a number from 1 to {MAX_PAGE}", final=True)
    return limit


def _query(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _channel(target: Target) -> str:
    if target.get("chat_id") is None:
        raise NotSent("the target needs `chat_id`", final=True)
    return id_of(target.get("thread_id") or target["chat_id"], "channel")


def _message(target: Target) -> dict[str, str]:
    """Return a message; of one in several parts the first."""
    return _messages(target)[0]


def _messages(target: Target) -> list[dict[str, str]]:
    """Return all parts of a message."""
    channel_id, ids = _channel(target), ids_of(target.get("message_id"))
    return [{"channel_id": channel_id, "message_id": id_of(one, "message")} for one in ids]


def _shown(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message of the history: who said what when, and what it answers."""
    author = message["author"]
    return {
        "message_id": str(message["id"]),
        "person_id": str(author["id"]),
        "name": author.get("global_name") or author.get("username"),
        "is_bot": author.get("bot") is True,
        "time": message.get("timestamp"),
        "text": text_of(message),
        "files": [one.get("filename") for one in message.get("attachments") or []],
        "reply_to": (message.get("message_reference") or {}).get("message_id"),
    }
