"""Platform actions of a Matrix account."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote, unquote, urlencode

from nio import Api

from hostler_matrix.events import is_readable
from hostler_matrix.home_server import HomeServer, Refused
from hostler_matrix.rooms import Rooms, relation, text_in
from hostler_matrix.sender import Sender, event_id_of, txn_id, user_id_of
from hostler_matrix.timeline import listed
from hostler_sdk.channels import ChannelActions, NotSent

TYPING_MS = 30_000
MAX_PAGE = 100
MAX_RELATION_PAGES = 10
"""Of the reactions to one message, in which the bot's are looked for."""
POLL = "org.matrix.msc3381.poll.start"
POLL_TEXT = "org.matrix.msc1767.text"
"""As clients write polls: few read those of the specification yet."""
_OF_THE_CHANNEL = re.compile(
    r"/_matrix/client/[^/]+/(?:(?:sync|login|logout|refresh|register|account|delete_devices|devices|keys)(?:/.*)?"
    r"|user/[^/]+/openid/.*)",
    re.IGNORECASE,
)
"""Methods that would take the channel its connection, or give the account away."""
_METHOD = re.compile(r"(GET|PUT|POST|DELETE) (/_matrix/(?:client|media)/[^?#\s]{1,2000})")

Action = Callable[[dict[str, Any], dict[str, Any], str], Awaitable[Any]]


class Actions(ChannelActions):
    """The actions of one account. `target`: `chat_id`, `thread_id`, `message_id`, `person_id`, as each needs.

    What is sent has a transaction id of the action's key: done again, it is done once.
    """

    def __init__(self, server: HomeServer, sender: Sender, rooms: Rooms) -> None:
        self._server = server
        self._sender = sender
        self._rooms = rooms
        self.user_id = ""
        self._by_name: dict[str, Action] = {
            "group.info": self._group_info,
            "group.leave": self._group_leave,
            "group.rename": self._group_rename,
            "history.fetch": self._history,
            "member.ban": self._ban,
            "member.info": self._member_info,
            "member.kick": self._kick,
            "member.list": self._members,
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
        return await self._by_name[action](target, payload, key)

    async def _room(self, target: dict[str, Any]) -> str:
        if target.get("chat_id") is None:
            raise NotSent("the target needs `chat_id`", final=True)
        return await self._sender.room_id(target["chat_id"])

    async def _message(self, target: dict[str, Any]) -> tuple[str, str]:
        return await self._room(target), event_id_of(target.get("message_id"))

    async def _member(self, target: dict[str, Any]) -> tuple[str, str]:
        return await self._room(target), user_id_of(target.get("person_id"))

    async def _done(self, request: tuple[str, ...]) -> dict[str, Any]:
        await self._server.call(request)
        return {}

    # -- messages ---------------------------------------------------------------------------------

    async def _delete(self, target: dict[str, Any], _: dict[str, Any], key: str) -> Any:
        room_id, event_id = await self._message(target)
        return await self._done(Api.room_redact("", room_id, event_id, txn_id(key)))

    async def _react(self, target: dict[str, Any], payload: dict[str, Any], key: str) -> Any:
        room_id, event_id = await self._message(target)
        relates = {"rel_type": "m.annotation", "event_id": event_id, "key": _text(payload, "emoji")}
        content = {"m.relates_to": relates}
        try:
            return {"reaction_id": await self._sender.put(room_id, "m.reaction", content, txn_id(key))}
        except Refused as error:
            if error.errcode != "M_DUPLICATE_ANNOTATION":
                raise
            return {}  # it is there

    async def _unreact(self, target: dict[str, Any], payload: dict[str, Any], key: str) -> Any:
        room_id, event_id = await self._message(target)
        emoji = payload.get("emoji")
        mine = [
            str(one["event_id"])
            for one in await self._reactions(room_id, event_id)
            if one["sender"] == self.user_id and emoji in {None, relation(one["content"]).get("key")}
        ]
        for number, reaction in enumerate(mine):
            await self._server.call(
                Api.room_redact("", room_id, reaction, txn_id(f"{key} {reaction}", number))
            )
        return {"removed": len(mine)}

    async def _reactions(self, room_id: str, event_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        start = None
        for _ in range(MAX_RELATION_PAGES):
            request = Api.room_get_event_relations("", room_id, event_id, paginate_from=start, limit=MAX_PAGE)
            page = await self._server.call(request)
            found += [
                one for one in listed(page, "chunk") if is_readable(one) and one["type"] == "m.reaction"
            ]
            start = text_in(page, "next_batch")
            if start is None:
                break
        return found

    async def _pin(self, target: dict[str, Any], _: dict[str, Any], __: str) -> Any:
        room_id, event_id = await self._message(target)
        pinned = [
            one
            for one in listed(await self._state(room_id, "m.room.pinned_events"), "pinned")
            if one != event_id
        ]
        content = {"pinned": [*pinned, event_id]}
        return await self._done(Api.room_put_state("", room_id, "m.room.pinned_events", content, ""))

    async def _forward(self, target: dict[str, Any], payload: dict[str, Any], key: str) -> Any:
        room_id, event_id = await self._message(target)
        to = await self._sender.open_room(payload.get("to_chat_id", target["chat_id"]))
        event = await self._rooms.event(room_id, event_id)
        if not is_readable(event) or event["type"] not in {"m.room.message", "m.sticker"}:
            raise NotSent("only messages can be forwarded", final=True)
        content = {name: value for name, value in event["content"].items() if name != "m.relates_to"}
        sent = await self._sender.put(to, event["type"], {**content, "m.mentions": {}}, txn_id(key))
        return {"message_id": sent}

    async def _typing(self, target: dict[str, Any], _: dict[str, Any], __: str) -> Any:
        room_id = await self._room(target)
        return await self._done(Api.room_typing("", room_id, self.user_id, True, TYPING_MS))

    async def _poll(self, target: dict[str, Any], payload: dict[str, Any], key: str) -> Any:
        question, options = _text(payload, "question"), payload.get("options")
        if not isinstance(options, list) or not all(isinstance(one, str) and one for one in options):
            raise NotSent("poll.create needs `options`, a list of texts, in its payload", final=True)
        listing = "\n".join(f"{number}. {one}" for number, one in enumerate(options, 1))
        content = {
            POLL_TEXT: f"{question}\n{listing}",
            POLL: {
                "kind": "org.matrix.msc3381.poll.disclosed",
                "max_selections": len(options) if payload.get("multiple") is True else 1,
                "question": {POLL_TEXT: question, "msgtype": "m.text", "body": question},
                "answers": [{"id": str(number), POLL_TEXT: one} for number, one in enumerate(options, 1)],
            },
        }
        room_id = await self._sender.open_room(await self._room(target))
        return {"message_id": await self._sender.put(room_id, POLL, content, txn_id(key))}

    async def _history(self, target: dict[str, Any], payload: dict[str, Any], _: str) -> Any:
        room_id = await self._room(target)
        limit, cursor = _limit(payload, 20), payload.get("cursor")
        page = await self._server.call(
            Api.room_messages("", room_id, start=cursor, direction="b", limit=limit)
        )
        messages = [
            {
                "message_id": one["event_id"],
                "person_id": one["sender"],
                "time": one.get("origin_server_ts"),
                "type": one["type"],
                "text": text_in(one["content"], "body"),
            }
            for one in listed(page, "chunk")
            if is_readable(one)
        ]
        return {"messages": messages, "cursor": text_in(page, "end")}

    # -- groups and their members -----------------------------------------------------------------

    async def _state(self, room_id: str, event_type: str) -> dict[str, Any]:
        try:
            return await self._server.call(Api.room_get_state_event("", room_id, event_type, ""))
        except Refused as error:
            if error.errcode == "M_NOT_FOUND":
                return {}
            raise

    async def _group_info(self, target: dict[str, Any], _: dict[str, Any], __: str) -> Any:
        room_id = await self._room(target)
        room = await self._rooms.known(room_id)
        topic = await self._state(room_id, "m.room.topic")
        return {
            "chat_id": room_id,
            "title": room.title,
            "topic": text_in(topic, "topic"),
            "members": room.joined,
            "is_encrypted": room.is_encrypted,
        }

    async def _group_leave(self, target: dict[str, Any], _: dict[str, Any], __: str) -> Any:
        return await self._done(Api.room_leave("", await self._room(target)))

    async def _group_rename(self, target: dict[str, Any], payload: dict[str, Any], _: str) -> Any:
        room_id = await self._room(target)
        content = {"name": _text(payload, "title")}
        return await self._done(Api.room_put_state("", room_id, "m.room.name", content, ""))

    async def _members(self, target: dict[str, Any], payload: dict[str, Any], _: str) -> Any:
        """Return members, sorted by their ids; the cursor is the last one of the page before."""
        answer = await self._server.call(Api.joined_members("", await self._room(target)))
        joined = answer.get("joined")
        people = sorted((joined if isinstance(joined, dict) else {}).items())
        after = payload.get("cursor") or ""
        page = [one for one in people if one[0] > after][: _limit(payload, MAX_PAGE)]
        found = [{"person_id": person, "name": text_in(member, "display_name")} for person, member in page]
        more = bool(page) and page[-1][0] != people[-1][0]
        return {"members": found, "total": len(people), "cursor": page[-1][0] if more else None}

    async def _member_info(self, target: dict[str, Any], _: dict[str, Any], __: str) -> Any:
        room_id, person = await self._member(target)
        member = await self._server.call(Api.room_get_state_event("", room_id, "m.room.member", person))
        levels = await self._state(room_id, "m.room.power_levels")
        return {"person_id": person, **member, "power_level": _level(levels, person)}

    async def _mute(self, target: dict[str, Any], payload: dict[str, Any], _: str) -> Any:
        if payload.get("seconds") is not None:
            text = "a mute on Matrix has no end: leave `seconds` out, and undo it with member.unmute"
            raise NotSent(text, final=True)
        return await self._set_level(target, is_muted=True)

    async def _unmute(self, target: dict[str, Any], _: dict[str, Any], __: str) -> Any:
        return await self._set_level(target, is_muted=False)

    async def _set_level(self, target: dict[str, Any], *, is_muted: bool) -> Any:
        """Set a member's power level below that of messages, or take the one that was set away."""
        room_id, person = await self._member(target)
        levels = await self._state(room_id, "m.room.power_levels")
        needed = levels.get("events_default", 0)
        muted = (needed if isinstance(needed, int) else 0) - 1
        users = dict(levels["users"]) if isinstance(levels.get("users"), dict) else {}
        if is_muted == (_level(levels, person) <= muted):
            return {}
        if is_muted:
            users[person] = muted
        else:
            users.pop(person, None)
        content = {**levels, "users": users}
        return await self._done(Api.room_put_state("", room_id, "m.room.power_levels", content, ""))

    async def _kick(self, target: dict[str, Any], payload: dict[str, Any], _: str) -> Any:
        return await self._done(Api.room_kick("", *await self._member(target), payload.get("reason")))

    async def _ban(self, target: dict[str, Any], payload: dict[str, Any], _: str) -> Any:
        return await self._done(Api.room_ban("", *await self._member(target), payload.get("reason")))

    # -- the platform's own -----------------------------------------------------------------------

    async def _call(self, _: dict[str, Any], payload: dict[str, Any], __: str) -> Any:
        method, params = _text(payload, "method"), payload.get("params", {})
        found = _METHOD.fullmatch(method)
        if found is None:
            text = f"{method!r:.80} is no method like `PUT /_matrix/client/v3/rooms/ID/state/m.room.topic`"
            raise NotSent(text, final=True)
        if not isinstance(params, dict):
            raise NotSent("`params` must be an object", final=True)
        segments = [unquote(one) for one in found[2].split("/")[1:]]
        if any(one in {"", ".", ".."} for one in segments):
            raise NotSent(f"{method!r:.80} has an empty part, or one of dots", final=True)
        if _OF_THE_CHANNEL.fullmatch("/" + "/".join(segments)):
            raise NotSent(f"{method!r:.80} would take the channel its connection", final=True)
        path = "/" + "/".join(quote(one, safe="") for one in segments)
        if found[1] == "GET":
            return await self._server.call(("GET", f"{path}?{urlencode(params)}" if params else path))
        return await self._server.call((found[1], path, Api.to_json(params)))


def _level(levels: dict[str, Any], person: str) -> int:
    users = levels.get("users")
    level = users.get(person) if isinstance(users, dict) else None
    default = levels.get("users_default", 0)
    found = default if level is None else level
    return found if isinstance(found, int) else 0


def _limit(payload: dict[str, Any], usual: int) -> int:
    value = payload.get("limit", usual)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MAX_PAGE:
        raise NotSent(f"`limit` must be a number from 1 to {MAX_PAGE}", final=True)
    return value


def _text(payload: dict[str, Any], name: str) -> str:
    value = payload.get(name)
    if not isinstance(value, str) or not value:
        raise NotSent(f"the payload needs `{name}`, a text", final=True)
    return value
