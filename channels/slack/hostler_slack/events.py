"""What Slack sends as events: messages, reactions, members, presses and commands.

What has a common type gets it; everything else is `platform.<name>`. `data.slack` is what Slack sent. The
id of a message consists of its chat and its time, so that it is one event however it comes: as a message, as
a mention of the app, or fetched after the connection was lost.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from hostler_sdk.channels import ChannelEvent
from hostler_slack.messages import (
    CONTENT,
    Drafted,
    Reader,
    fields_of,
    is_own,
    text_of,
    time_of,
)

_BOT_GONE = {"channel_left", "group_left"}
_MEMBERS = {"member_joined_channel": "group.member_joined", "member_left_channel": "group.member_left"}
_REACTIONS = {"reaction_added": "message.reaction_added", "reaction_removed": "message.reaction_removed"}
_CHANGES = {"user_change", "user_profile_changed", "channel_rename", "group_rename"}
"""Events that say that a name may be another now."""
_PRESSED = ("value", "selected_option", "selected_date", "selected_time", "selected_user", "selected_channel")
MAX_TEXT = 512

TookPart = Callable[[str, str], bool]
"""Whether the bot has written in a thread of a chat."""


class Events:
    """Reads what Slack sends."""

    def __init__(self, reader: Reader, took_part: TookPart) -> None:
        self._reader = reader
        self._me = reader.me
        self._took_part = took_part

    async def of(self, kind: str, payload: dict[str, Any]) -> list[Drafted]:
        """Return the events of an envelope, in order; none for what the bot did itself."""
        match kind:
            case "events_api":
                return [draft async for draft in self._event(payload)]
            case "slash_commands":
                return [Drafted(await self._command(payload))]
            case "interactive" if payload.get("type") == "block_actions":
                return [Drafted(one) for one in await self._presses(payload)]
        name = text_of(payload.get("type")) or kind
        return [Drafted(await self._other(name, payload, f"{kind}:{_interaction_id(payload)}"))]

    async def message(self, message: dict[str, Any], chat_id: str) -> Drafted | None:
        """Return a message of a chat's history as an event; None for what nobody wrote, and the bot's own."""
        if message.get("subtype") not in CONTENT or is_own(message, self._me):
            return None
        return await self._message(message, chat_id, "message.received")

    async def _event(self, payload: dict[str, Any]) -> AsyncIterator[Drafted]:
        event = fields_of(payload.get("event"))
        kind = text_of(event.get("type")) or text_of(payload.get("type")) or "event"
        event_id = text_of(payload.get("event_id"))
        if kind in _CHANGES:
            changed = event.get("user") or event.get("channel")
            self._reader.names.forget(fields_of(changed).get("id"))
        chat_id, ts = text_of(event.get("channel")), text_of(event.get("ts"))
        if kind in {"message", "app_mention"} and chat_id and ts:
            async for draft in self._of_chat(event, chat_id, event_id):
                yield draft
        elif kind in _REACTIONS and fields_of(event.get("item")).get("type") == "message":
            if event.get("user") != self._me.user_id:
                yield Drafted(await self._reaction(kind, event, event_id))
        else:
            yield Drafted(await self._happened(kind, event or payload, event_id))

    # -- messages ---------------------------------------------------------------------------------

    async def _of_chat(
        self, event: dict[str, Any], chat_id: str, event_id: str | None
    ) -> AsyncIterator[Drafted]:
        """Yield what an event of the type `message` says: written, changed, deleted, or what happened."""
        subtype = event.get("subtype")
        if subtype in CONTENT:
            if not is_own(event, self._me):
                yield await self._message(event, chat_id, "message.received")
            return
        changed, before = fields_of(event.get("message")), fields_of(event.get("previous_message"))
        if is_own(before or changed or event, self._me):
            return
        if subtype == "message_deleted" or changed.get("subtype") == "tombstone":
            yield Drafted(await self._recalled(event, chat_id, before or changed, event_id))
        elif subtype == "message_changed" and _is_edited(changed, before):
            draft = await self._message(changed, chat_id, "message.edited", kind=event.get("channel_type"))
            yield _with_id(draft, event_id, event)
        else:
            yield Drafted(await self._happened(str(subtype), event, event_id))

    async def _message(
        self, message: dict[str, Any], chat_id: str, event_type: str, *, kind: Any = None
    ) -> Drafted:
        thread = text_of(message.get("thread_ts"))
        return await self._reader.message(
            message,
            chat_id,
            event_type=event_type,
            kind=kind or message.get("channel_type"),
            took_part=thread is not None and self._took_part(chat_id, thread),
        )

    async def _recalled(
        self, event: dict[str, Any], chat_id: str, gone: dict[str, Any], event_id: str | None
    ) -> ChannelEvent:
        return ChannelEvent(
            event_type="message.recalled",
            event_id=event_id,
            source_event_type=str(event.get("subtype")),
            event_time=time_of(event.get("event_ts") or event.get("ts")),
            chat=await self._reader.chat(
                chat_id, kind=event.get("channel_type"), thread=gone.get("thread_ts")
            ),
            person=await self._reader.person(gone.get("user")),
            message_id=text_of(event.get("deleted_ts")) or text_of(gone.get("ts")),
            data={"slack": event},
        )

    async def _reaction(self, kind: str, event: dict[str, Any], event_id: str | None) -> ChannelEvent:
        item = fields_of(event.get("item"))
        return ChannelEvent(
            event_type=_REACTIONS[kind],
            event_id=event_id,
            source_event_type=kind,
            event_time=time_of(event.get("event_ts")),
            chat=await self._reader.chat(item.get("channel")),
            person=await self._reader.person(event.get("user")),
            message_id=text_of(item.get("ts")),
            data={"emoji": str(event.get("reaction") or ""), "slack": event},
        )

    # -- what happened ----------------------------------------------------------------------------

    async def _happened(self, kind: str, event: dict[str, Any], event_id: str | None) -> ChannelEvent:
        """Return who came and left, and the rest by its name."""
        found = await self._other(kind, event, event_id)
        of_the_bot = event.get("user") == self._me.user_id
        if kind in _BOT_GONE:
            return msgspec.structs.replace(found, event_type="group.bot_removed")
        if kind not in _MEMBERS:
            return found
        by = await self._reader.person(event.get("inviter"))
        event_type = _MEMBERS[kind]
        if of_the_bot:
            event_type = "group.bot_invited" if kind == "member_joined_channel" else "group.bot_removed"
        data = {"by": None if by is None else msgspec.to_builtins(by), **found.data}
        person = by if of_the_bot else found.person
        return msgspec.structs.replace(found, event_type=event_type, person=person, data=data)

    async def _other(self, kind: str, event: dict[str, Any], event_id: str | None) -> ChannelEvent:
        channel, user = event.get("channel"), event.get("user")
        item = fields_of(event.get("item"))
        return ChannelEvent(
            event_type="platform." + (re.sub(r"[^a-z0-9_]", "_", kind.lower())[:100].strip("_") or "event"),
            event_id=None if event_id is None else event_id[:MAX_TEXT],
            source_event_type=kind[:MAX_TEXT],
            event_time=time_of(event.get("event_ts") or event.get("ts") or event.get("action_ts")),
            chat=await self._reader.chat(
                channel if isinstance(channel, str) else fields_of(channel).get("id") or item.get("channel"),
                kind=event.get("channel_type"),
                thread=event.get("thread_ts"),
            ),
            person=await self._reader.person(user if isinstance(user, str) else fields_of(user).get("id")),
            message_id=text_of(event.get("ts")) or text_of(fields_of(event.get("message")).get("ts")),
            data={"slack": event},
        )

    # -- people's presses and commands ------------------------------------------------------------

    async def _command(self, payload: dict[str, Any]) -> ChannelEvent:
        """Return a slash command. Nobody but who wrote it sees it, so that it is no message."""
        name, arguments = str(payload.get("command") or "/"), str(payload.get("text") or "")
        return ChannelEvent(
            event_type="command.invoked",
            event_id=f"command:{payload.get('trigger_id')}"[:MAX_TEXT],
            source_event_type="slash_commands",
            chat=await self._reader.chat(payload.get("channel_id"), thread=payload.get("thread_ts")),
            person=await self._reader.person(payload.get("user_id"), name=payload.get("user_name")),
            text=arguments or None,
            addressed=["command"],
            data={"command": {"name": name.removeprefix("/"), "arguments": arguments}, "slack": payload},
        )

    async def _presses(self, payload: dict[str, Any]) -> list[ChannelEvent]:
        """Return an event for each element of a message that somebody pressed or set."""
        container, user = fields_of(payload.get("container")), fields_of(payload.get("user"))
        message = fields_of(payload.get("message"))
        chat_id = text_of(fields_of(payload.get("channel")).get("id")) or container.get("channel_id")
        ts = text_of(container.get("message_ts")) or text_of(message.get("ts"))
        thread = container.get("thread_ts") or message.get("thread_ts")
        chat = await self._reader.chat(chat_id, thread=thread)
        person = await self._reader.person(user.get("id"), name=user.get("name"))
        actions = payload.get("actions")
        found = []
        for action in actions if isinstance(actions, list) else []:
            told = fields_of(action)
            value = next((told[name] for name in _PRESSED if told.get(name) is not None), None)
            if isinstance(value, dict):
                value = value.get("value")
            is_press = isinstance(value, str)
            event_id = (
                f"press:{chat_id}:{ts}:{told.get('action_id')}:{told.get('action_ts')}:{user.get('id')}"
            )
            event = ChannelEvent(
                event_type="interaction.submitted" if is_press else "platform.block_actions",
                event_id=event_id[:MAX_TEXT],
                source_event_type="block_actions",
                event_time=time_of(told.get("action_ts")),
                chat=chat,
                person=person,
                message_id=ts,
                data={**({"value": value} if is_press else {}), "slack": payload},
            )
            found.append(event)
        return found or [await self._other("block_actions", payload, f"press:{_interaction_id(payload)}")]


def _is_edited(changed: dict[str, Any], before: dict[str, Any]) -> bool:
    """Whether its author changed a message; previews of links change it as well."""
    if changed.get("subtype") not in CONTENT or text_of(changed.get("ts")) is None:
        return False
    return changed.get("edited") is not None and changed.get("edited") != before.get("edited")


def _with_id(draft: Drafted, event_id: str | None, event: dict[str, Any]) -> Drafted:
    time = time_of(event.get("event_ts")) or draft.event.event_time
    return Drafted(msgspec.structs.replace(draft.event, event_id=event_id, event_time=time), draft.files)


def _interaction_id(payload: dict[str, Any]) -> str:
    """Return what tells an interaction from others: Slack gives each a trigger."""
    ids = ("trigger_id", "action_ts", "callback_id", "type")
    return next((str(payload[name]) for name in ids if payload.get(name)), "")
