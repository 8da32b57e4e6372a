"""The methods of the Web API of a Slack server, people's messages, and what all of it is kept in."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

TOKEN = "xoxb-1-not-a-real-token"
APP_TOKEN = "xapp-1-A111-not-a-real-token"
BOT = "U0BOT"
ADA = "U0ADA"
DM = "D0ADA"
GENERAL = "C0GENERAL"
PEOPLE = {
    ADA: {"id": ADA, "name": "ada", "real_name": "Ada Lovelace", "profile": {"display_name": "Ada L."}},
    "U0BEN": {"id": "U0BEN", "name": "ben", "real_name": "Ben", "profile": {"display_name": ""}},
    "U0CAT": {"id": "U0CAT", "name": "cat", "real_name": "Cat", "is_bot": True, "profile": {}},
}
CHATS = {
    GENERAL: {"id": GENERAL, "name": "general", "is_channel": True, "is_im": False},
    "C0OTHER": {"id": "C0OTHER", "name": "other", "is_channel": True, "is_im": False},
    DM: {"id": DM, "is_im": True, "user": ADA},
}
ROOMS = ("C0ONE", "C0TWO", "C0THREE", "C0FOUR", "C0FIVE", "C0SIX")
CHATS |= {id_: {"id": id_, "name": id_.lower(), "is_channel": True, "is_im": False} for id_ in ROOMS}


class Refused(Exception):
    """An answer with an error."""

    def __init__(self, error: str, *, status: int = 200, retry_after: int | None = None, **more: Any) -> None:
        super().__init__(error)
        self.error, self.status, self.retry_after, self.more = error, status, retry_after, more


@dataclass(slots=True)
class Call:
    """One call of the app."""

    method: str
    params: dict[str, str]

    def json(self, name: str) -> Any:
        return json.loads(self.params[name])


def authorized(method: str, header: str, server: SlackMethods) -> None:
    """Refuse a call with a wrong token."""
    wanted = server.app_token if method == "apps.connections.open" else server.token
    if header != f"Bearer {wanted}":
        raise Refused("not_authed" if not header else "invalid_auth")


@dataclass(slots=True)
class SlackMethods:
    """What a workspace consists of, and the methods by which an app reaches it."""

    token: str = TOKEN
    app_token: str = APP_TOKEN
    other_type: str = "text/html"
    calls: list[Call] = field(default_factory=list)
    history: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By chat: its messages, oldest first."""
    pending: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Files for which there is an address, and nothing more."""
    files: dict[str, bytes] = field(default_factory=dict)
    described: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By id: files as `files.info` describes them."""
    shares_late: bool = False
    """The answer to `files.completeUploadExternal` has no shares yet."""
    tickets: set[str] = field(default_factory=set)
    gone: dict[str, str] = field(default_factory=dict)
    """By chat: why its history cannot be read."""
    page: int = 1_000
    """The most that is in one page of a history."""
    began: int = field(default_factory=lambda: int(time.time()) - 600)
    """When people began to write: not long ago, or it would not be fetched."""
    _time: int = 0
    _tasks: set[asyncio.Future[Any]] = field(default_factory=set)

    def called(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method == method]

    def texts(self, chat: str = DM) -> list[str]:
        """Return what the bot has written in a chat, as it is now."""
        return [one["text"] for one in self.history.get(chat, []) if one.get("user") == BOT]

    def last(self, chat: str = DM) -> dict[str, Any]:
        return self.history[chat][-1]

    def stamp(self) -> str:
        """Return the time of the next message."""
        self._time += 1
        return f"{self.began + self._time}.{self._time:06d}"

    # -- people -----------------------------------------------------------------------------------

    def write(self, text: str = "", chat: str = DM, *, user: str = ADA, **more: Any) -> dict[str, Any]:
        """Somebody writes a message, which is in the history; return it."""
        message = {"type": "message", "user": user, "text": text, "ts": self.stamp(), "team": "T111", **more}
        self.history.setdefault(chat, []).append(message)
        thread = message.get("thread_ts")
        for parent in self.history[chat]:
            if parent["ts"] == thread and parent is not message:
                parent["reply_count"] = parent.get("reply_count", 0) + 1
                parent["latest_reply"] = message["ts"]
        return message

    @staticmethod
    def event(event: dict[str, Any], event_id: str, **more: Any) -> dict[str, Any]:
        """Return an event in what is around each of Slack's events."""
        return {
            "token": "verification",
            "team_id": "T111",
            "api_app_id": "A111",
            "event": event,
            "type": "event_callback",
            "event_id": event_id,
            "event_time": int(time.time()),
            "authorizations": [{"team_id": "T111", "user_id": BOT, "is_bot": True}],
            "is_ext_shared_channel": False,
            **more,
        }

    def said(self, message: dict[str, Any], chat: str = DM, **more: Any) -> dict[str, Any]:
        """Return a message as an event."""
        kind = "im" if chat.startswith("D") else "channel"
        whole = {**message, "channel": chat, "event_ts": message["ts"], "channel_type": kind, **more}
        return self.event(whole, f"Ev{message['ts'].replace('.', '')}")

    @staticmethod
    def press(
        value: str, *, ts: str, chat: str = GENERAL, trigger: str = "13.1", **more: Any
    ) -> dict[str, Any]:
        """Return Ada's press of a button."""
        return {
            "type": "block_actions",
            "user": {"id": ADA, "username": "ada", "name": "ada", "team_id": "T111"},
            "api_app_id": "A111",
            "token": "verification",
            "container": {
                "type": "message",
                "message_ts": ts,
                "channel_id": chat,
                "is_ephemeral": False,
                **more,
            },
            "trigger_id": trigger,
            "team": {"id": "T111", "domain": "example"},
            "channel": {"id": chat, "name": "general"},
            "message": {"type": "message", "ts": ts, "user": BOT, "text": "?"},
            "response_url": "https://hooks.slack.com/actions/T111/1/x",
            "actions": [
                {
                    "action_id": "0.0",
                    "block_id": "b",
                    "text": {"type": "plain_text", "text": "Yes"},
                    "value": value,
                    "type": "button",
                    "action_ts": "1764000100.000001",
                }
            ],
        }

    # -- methods ----------------------------------------------------------------------------------

    def carry_out(self, call: Call, address: str) -> dict[str, Any]:
        """Carry a call out, and return its answer."""
        method = getattr(self, "_" + call.method.replace(".", "_"), None)
        if method is None:
            known = {"chat.getPermalink", "chat.postEphemeral", "chat.delete", "pins.add", "reactions.add"}
            known |= {"reactions.remove", "conversations.leave", "conversations.kick", "bookmarks.add"}
            known |= {"assistant.threads.setStatus"}
            if call.method not in known:
                raise Refused("unknown_method", req_method=call.method)
            return {"permalink": "https://example.slack.com/archives/C0GENERAL/p1"}
        found: dict[str, Any] = method({**call.params, "__address__": address})
        return found

    def _auth_test(self, _: dict[str, str]) -> dict[str, Any]:
        who = {"user": "helper", "user_id": BOT, "bot_id": "B0BOT"}
        return {"url": "https://example.slack.com/", "team": "Example", "team_id": "T111", **who}

    def _apps_connections_open(self, params: dict[str, str]) -> dict[str, Any]:
        ticket = f"t{len(self.calls)}"
        self.tickets.add(ticket)
        address = params["__address__"].replace("http", "ws", 1)
        return {"url": f"{address}/link?ticket={ticket}&app_id=A111"}

    def _users_info(self, params: dict[str, str]) -> dict[str, Any]:
        if params["user"] not in PEOPLE:
            raise Refused("user_not_found")
        return {"user": PEOPLE[params["user"]]}

    def _conversations_info(self, params: dict[str, str]) -> dict[str, Any]:
        return {"channel": self._chat(params["channel"])}

    def _conversations_open(self, params: dict[str, str]) -> dict[str, Any]:
        assert params["users"] == ADA
        return {"channel": {"id": DM}}

    def _conversations_rename(self, params: dict[str, str]) -> dict[str, Any]:
        return {"channel": {**self._chat(params["channel"]), "name": params["name"]}}

    def _conversations_members(self, params: dict[str, str]) -> dict[str, Any]:
        return {"members": [ADA, BOT], "response_metadata": {"next_cursor": ""}, "limit": params["limit"]}

    def _reactions_get(self, _: dict[str, str]) -> dict[str, Any]:
        reactions = [{"name": "eyes", "users": [ADA, BOT], "count": 2}, {"name": "x", "users": [ADA]}]
        return {"type": "message", "message": {"reactions": reactions}}

    @staticmethod
    def _chat(chat: str) -> dict[str, Any]:
        if chat not in CHATS:
            raise Refused("channel_not_found")
        return CHATS[chat]

    def _chat_postMessage(self, params: dict[str, str]) -> dict[str, Any]:
        chat = DM if params["channel"] == ADA else params["channel"]
        self._chat(chat)
        blocks = json.loads(params["blocks"]) if "blocks" in params else None
        if not params.get("text", "").strip() and not blocks:
            raise Refused("no_text")
        _check_blocks(blocks or [])
        message = {
            "type": "message",
            "user": BOT,
            "bot_id": "B0BOT",
            "app_id": "A111",
            "text": params["text"],
        }
        message |= {"ts": self.stamp(), "team": "T111"}
        for name in ("metadata", "blocks"):
            if name in params:
                message[name] = json.loads(params[name])
        if "thread_ts" in params:
            message["thread_ts"] = params["thread_ts"]
        assert len(message["text"]) <= 4_000, "Slack makes several messages of it, and marks break"
        self.history.setdefault(chat, []).append(message)
        return {"channel": chat, "ts": message["ts"], "message": message}

    def _chat_update(self, params: dict[str, str]) -> dict[str, Any]:
        for message in self.history.get(params["channel"], []):
            if message["ts"] == params["ts"]:
                if message["user"] != BOT:
                    raise Refused("cant_update_message")
                blocks = json.loads(params["blocks"])
                _check_blocks(blocks)
                if len(params["text"].encode()) > 4_000:
                    raise Refused("msg_too_long")
                message |= {"text": params["text"], "blocks": blocks, "edited": {"user": BOT, "ts": "9.9"}}
                return {"channel": params["channel"], "ts": params["ts"], "text": params["text"]}
        raise Refused("message_not_found")

    def _conversations_history(self, params: dict[str, str]) -> dict[str, Any]:
        self._chat(params["channel"])
        if params["channel"] in self.gone:
            raise Refused(self.gone[params["channel"]])
        found = [
            one
            for one in self.history.get(params["channel"], [])
            if one.get("thread_ts") in {None, one["ts"]} or one.get("subtype") == "thread_broadcast"
        ]
        return self._page_of(list(reversed(found)), params)

    def _conversations_replies(self, params: dict[str, str]) -> dict[str, Any]:
        found = [
            one
            for one in self.history.get(params["channel"], [])
            if params["ts"] in {one["ts"], one.get("thread_ts")}
        ]
        if not found:
            raise Refused("thread_not_found")
        return self._page_of(found, params)

    def _page_of(self, messages: list[dict[str, Any]], params: dict[str, str]) -> dict[str, Any]:
        found = [one for one in messages if one["ts"] > params.get("oldest", "0")]
        if params.get("include_all_metadata") != "true":
            found = [{name: one[name] for name in one if name != "metadata"} for one in found]
        begin, size = int(params.get("cursor") or 0), min(int(params["limit"]), self.page)
        more = str(begin + size) if begin + size < len(found) else ""
        metadata = {"response_metadata": {"next_cursor": more}} if more else {}
        return {"messages": found[begin : begin + size], "has_more": bool(more), **metadata}

    # -- files ------------------------------------------------------------------------------------

    def _files_getUploadURLExternal(self, params: dict[str, str]) -> dict[str, Any]:
        file_id = f"F{len(self.pending) + 1:04d}"
        self.pending[file_id] = {"name": params["filename"], "size": int(params["length"])}
        return {"upload_url": f"{params['__address__']}/upload/{file_id}", "file_id": file_id}

    def _files_completeUploadExternal(self, params: dict[str, str]) -> dict[str, Any]:
        chat = params["channel_id"]
        self._chat(chat)
        given, ts, shared = json.loads(params["files"]), self.stamp(), []
        for one in given:
            pending = self.pending[one["id"]]
            self.files[one["id"]] = pending["content"]
            file = {"id": one["id"], "name": pending["name"], "title": one["title"], "size": pending["size"]}
            self.described[one["id"]] = {**file, "shares": {"private": {chat: [{"ts": ts}]}}}
            shared.append(file if self.shares_late else self.described[one["id"]])
        message = {"type": "message", "user": BOT, "bot_id": "B0BOT", "text": "", "ts": ts, "files": shared}
        if "thread_ts" in params:
            message["thread_ts"] = params["thread_ts"]
        self.history.setdefault(chat, []).append(message)
        return {"files": shared}

    def _files_info(self, params: dict[str, str]) -> dict[str, Any]:
        if params["file"] not in self.described:
            raise Refused("file_not_found")
        return {"file": self.described[params["file"]]}


def _check_blocks(blocks: list[dict[str, Any]]) -> None:
    """Refuse what Slack refuses."""
    if len(blocks) > 50:
        raise Refused("invalid_blocks")
    if sum(len(block["text"]["text"]) for block in blocks if block["type"] == "section") > 13_000:
        raise Refused("msg_blocks_too_long")
    for block in blocks:
        if block["type"] == "section" and not 0 < len(block["text"]["text"]) <= 3_000:
            messages = ["[ERROR] must be less than 3001 characters [json-pointer:/blocks/0/text/text]"]
            raise Refused("invalid_blocks", response_metadata={"messages": messages})
        for element in block.get("elements", []):
            if len(element["text"]["text"]) > 75 or len(element["value"]) > 2_000:
                raise Refused("invalid_blocks")
