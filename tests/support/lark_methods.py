"""The API of a Lark server: what a tenant consists of, and the calls by which an app reaches it.

Paths, answers, bounds and codes are those of https://open.feishu.cn/document.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

SECRET = "not-a-real-secret"
BOT, ADA, BEN = "ou_bot", "ou_ada", "ou_ben"
DM, GROUP, OTHER = "oc_dm", "oc_group", "oc_other"
ROOMS = tuple(f"oc_room_{number}" for number in range(6))
MAX_CARD = 30 * 1024
MAX_TEXT = 150 * 1024


class Refused(Exception):
    """An answer with a code."""

    def __init__(self, code: int, msg: str = "no", *, status: int = 400, **more: Any) -> None:
        super().__init__(msg)
        self.code, self.msg, self.status = code, msg, status
        self.headers: dict[str, str] = more.pop("headers", {})
        self.more = more


LIMITED: Callable[[], Refused] = lambda: Refused(  # noqa: E731
    99991400, "request trigger frequency limit", status=429, headers={"x-ogw-ratelimit-reset": "7"}
)


@dataclass(slots=True)
class Call:
    """One call of the app."""

    name: str
    path: dict[str, str]
    query: dict[str, str]
    body: Any
    files: dict[str, tuple[str, bytes, str]] = field(default_factory=dict)


@dataclass(slots=True)
class LarkMethods:
    """A tenant with two people, a private chat, and groups, of which the bot is in all but one."""

    app_id: str = "cli_test"
    token: str = "t-1"
    calls: list[Call] = field(default_factory=list)
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    uuids: dict[str, str] = field(default_factory=dict)
    """Which message was sent under a `uuid` within the last hour."""
    uploads: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """By key: what kind of file it is, and its content."""
    files: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    """By key: what people sent, and its type."""
    reactions: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    """By id: message, emoji, and who reacted."""
    pinned: list[str] = field(default_factory=list)
    chats: dict[str, dict[str, Any]] = field(default_factory=dict)
    people: dict[str, str] = field(default_factory=lambda: {ADA: "Ada", BEN: "Ben"})
    removed: list[str] = field(default_factory=list)
    _count: int = 0

    def __post_init__(self) -> None:
        self.chats = {
            DM: {"chat_mode": "p2p", "name": ""},
            GROUP: {"chat_mode": "group", "name": "General"},
            OTHER: {"chat_mode": "group", "name": "Other"},
            **{room: {"chat_mode": "group", "name": room} for room in ROOMS},
        }

    def id_of(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}_{self._count:08d}"

    def called(self, name: str) -> list[Call]:
        """The calls of one name."""
        return [call for call in self.calls if call.name == name]

    def sent(self, chat_id: str = DM) -> list[dict[str, Any]]:
        """What the bot has sent to a chat."""
        return [
            one
            for one in self.messages.values()
            if one["chat_id"] == chat_id and one["sender"]["sender_type"] == "app"
        ]

    def texts(self, chat_id: str = DM) -> list[str]:
        """The texts of the bot's cards in a chat."""
        return [text_of(one) for one in self.sent(chat_id)]

    def carry_out(self, call: Call) -> dict[str, Any]:
        """Do what a call asks for; return what it answers beside code and msg."""
        done: dict[str, Any] = getattr(self, "do_" + call.name.replace(".", "_"))(call)
        return done

    # -- the app ----------------------------------------------------------------------------------

    def do_token(self, call: Call) -> dict[str, Any]:
        if call.body != {"app_id": self.app_id, "app_secret": SECRET}:
            raise Refused(10014, "app secret invalid", status=200)
        return {"tenant_access_token": self.token, "expire": 7200}

    def do_bot_info(self, _: Call) -> dict[str, Any]:
        return {"bot": {"activate_status": 2, "app_name": "helper", "open_id": BOT}}

    # -- messages ---------------------------------------------------------------------------------

    def do_message_create(self, call: Call) -> dict[str, Any]:
        receiver, kind = call.body["receive_id"], call.query.get("receive_id_type")
        if kind == "open_id":
            if receiver not in self.people:
                raise Refused(230034, "The receive_id is invalid.")
            receiver = DM
        elif kind != "chat_id" or receiver not in self.chats:
            raise Refused(
                230001, "Your request contains an invalid request parameter, ext=invalid receive_id."
            )
        return self._send(call, receiver, {})

    def do_message_reply(self, call: Call) -> dict[str, Any]:
        parent = self._message(call)
        if parent.get("deleted"):
            raise Refused(230011, "The message was withdrawn.")
        root = parent.get("root_id") or parent["message_id"]
        more = {"root_id": root, "parent_id": parent["message_id"]}
        if call.body.get("reply_in_thread") or parent.get("thread_id"):
            thread = parent.setdefault("thread_id", f"omt_{root}")
            more |= {"thread_id": thread, "parent_id": root}
        return self._send(call, parent["chat_id"], more)

    def _send(self, call: Call, chat_id: str, more: dict[str, Any]) -> dict[str, Any]:
        if chat_id == OTHER:
            raise Refused(230002, "The bot can not be outside the group.")
        body = call.body
        assert len(body["uuid"]) <= 50
        if body["uuid"] in self.uuids:  # at most one message within an hour
            return {"data": self.messages[self.uuids[body["uuid"]]]}
        self._check(body["msg_type"], body["content"])
        message_id = self.id_of("om")
        message = {
            "message_id": message_id,
            "msg_type": body["msg_type"],
            "create_time": str(int(time.time() * 1000)),
            "chat_id": chat_id,
            "sender": {"id": self.app_id, "id_type": "app_id", "sender_type": "app"},
            "body": {"content": body["content"]},
            "deleted": False,
            **more,
        }
        self.messages[message_id] = message
        self.uuids[body["uuid"]] = message_id
        return {"data": message}

    def _check(self, kind: str, content: str) -> None:
        told = json.loads(content)
        if kind == "interactive":
            check_card(content)
        else:
            key = told.get("image_key") or told["file_key"]
            if key not in self.uploads:
                raise Refused(230017, "Bot is NOT the owner of the resource.")
            wanted = {"image": "image", "opus": "audio", "mp4": "media"}.get(self.uploads[key][0], "file")
            if wanted != kind:
                raise Refused(230055, "The type of file upload does not match the type of message.")

    def do_message_patch(self, call: Call) -> dict[str, Any]:
        message = self._message(call)
        if message["sender"]["id"] != self.app_id or message["msg_type"] != "interactive":
            raise Refused(230001, "This message is NOT a card.")
        check_card(call.body["content"])
        message["body"] = {"content": call.body["content"]}
        return {"data": {}}

    def do_message_delete(self, call: Call) -> dict[str, Any]:
        self._message(call)["deleted"] = True
        return {"data": {}}

    def do_message_get(self, call: Call) -> dict[str, Any]:
        return {"data": {"items": [self._message(call)]}}

    def do_message_list(self, call: Call) -> dict[str, Any]:
        query = call.query
        field_ = "thread_id" if query["container_id_type"] == "thread" else "chat_id"
        found = [one for one in self.messages.values() if one.get(field_) == query["container_id"]][::-1]
        at, size = int(query.get("page_token") or 0), int(query["page_size"])
        more = at + size < len(found)
        page = {
            "items": found[at : at + size],
            "has_more": more,
            "page_token": str(at + size) if more else "",
        }
        return {"data": page}

    def do_message_forward(self, call: Call) -> dict[str, Any]:
        told = self._message(call)
        body = {"msg_type": "interactive", "content": told["body"]["content"], "uuid": call.query["uuid"]}
        return self._send(Call(call.name, {}, {}, body), call.body["receive_id"], {})

    def do_message_pin(self, call: Call) -> dict[str, Any]:
        self.pinned.append(call.body["message_id"])
        return {"data": {"pin": {"message_id": call.body["message_id"]}}}

    def _message(self, call: Call) -> dict[str, Any]:
        message = self.messages.get(call.path["message_id"])
        if message is None:
            raise Refused(
                230001, "Your request contains an invalid request parameter, ext=invalid message_id"
            )
        return message

    # -- reactions --------------------------------------------------------------------------------

    def do_reaction_create(self, call: Call) -> dict[str, Any]:
        message, id_ = self._message(call), self.id_of("r")
        emoji = call.body["reaction_type"]["emoji_type"]
        if emoji not in {"THUMBSUP", "HEART", "DONE"}:
            raise Refused(231001, "reaction type is invalid.")
        self.reactions[id_] = (message["message_id"], emoji, self.app_id)
        return {"data": {"reaction_id": id_}}

    def do_reaction_list(self, call: Call) -> dict[str, Any]:
        items = [
            {
                "reaction_id": id_,
                "operator": {"operator_id": who, "operator_type": "app" if who[:3] == "cli" else "user"},
                "reaction_type": {"emoji_type": emoji},
            }
            for id_, (message_id, emoji, who) in self.reactions.items()
            if message_id == call.path["message_id"] and call.query.get("reaction_type", emoji) == emoji
        ]
        at = int(call.query.get("page_token") or 0)
        more = at + 1 < len(items)
        return {"data": {"items": items[at : at + 1], "has_more": more, "page_token": str(at + 1)}}

    def do_reaction_delete(self, call: Call) -> dict[str, Any]:
        if self.reactions.pop(call.path["reaction_id"])[2] != self.app_id:
            raise Refused(231007, "The operator is NOT the reaction's.")
        return {"data": {}}

    # -- files ------------------------------------------------------------------------------------

    def do_image_create(self, call: Call) -> dict[str, Any]:
        assert call.body == {"image_type": "message"}
        key = self.id_of("img_v3")
        self.uploads[key] = ("image", call.files["image"][1])
        return {"data": {"image_key": key}}

    def do_file_create(self, call: Call) -> dict[str, Any]:
        assert call.body["file_name"]
        key = self.id_of("file_v3")
        self.uploads[key] = (call.body["file_type"], call.files["file"][1])
        return {"data": {"file_key": key}}

    # -- people and chats -------------------------------------------------------------------------

    def do_user_get(self, call: Call) -> dict[str, Any]:
        person = call.path["user_id"]
        if call.query != {"user_id_type": "open_id"} or person not in self.people:
            raise Refused(41050, "no user authority error")
        return {"data": {"user": {"open_id": person, "name": self.people[person]}}}

    def do_chat_get(self, call: Call) -> dict[str, Any]:
        return {"data": self._chat(call)}

    def do_chat_update(self, call: Call) -> dict[str, Any]:
        self._chat(call)["name"] = call.body["name"]
        return {"data": {}}

    def do_members_list(self, call: Call) -> dict[str, Any]:
        self._chat(call)
        items = [{"member_id": id_, "name": name} for id_, name in self.people.items()]
        return {"data": {"items": items, "has_more": False, "member_total": len(items)}}

    def do_members_delete(self, call: Call) -> dict[str, Any]:
        self._chat(call)
        (who,) = call.body["id_list"]
        if who not in self.people and who != self.app_id:
            return {"data": {"invalid_id_list": [who]}}
        self.removed.append(who)
        return {"data": {"invalid_id_list": []}}

    def _chat(self, call: Call) -> dict[str, Any]:
        if call.path["chat_id"] not in self.chats:
            raise Refused(232006, "Your request specifies a chat_id which is invalid.")
        return self.chats[call.path["chat_id"]]


def check_card(content: str) -> None:
    """Refuse a card as Lark does."""
    if len(content.encode()) > MAX_CARD:
        raise Refused(230025, "The length of the message content reaches its limit.")
    card = json.loads(content)
    if card["schema"] != "2.0" or card["config"]["update_multi"] is not True:
        raise Refused(
            230099, "Failed to create card content, ext=ErrCode: 200621; ErrMsg: parse card json err"
        )
    for element in card["body"]["elements"]:
        if element["tag"] not in {"markdown", "div", "column_set"}:
            raise Refused(230099, f"Failed to create card content, ext=ErrCode: 200861; {element['tag']}")
        marked = re.sub(r"(?s)(`{3,}).*?\1|`[^`\n]*`", "", element.get("content", ""))
        if re.search(r"<(at|person)\b", marked):
            raise Refused(230099, "Failed to create card content, ext=ErrCode: 100290; ErrMsg: invalid user")
        if re.search(r"!\[[^\]]*\]\(", marked):
            raise Refused(230099, "Failed to create card content, ext=ErrCode: 200570; ErrMsg: image keys")


def elements_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The elements of a card."""
    found: list[dict[str, Any]] = json.loads(message["body"]["content"])["body"]["elements"]
    return found


def text_of(message: dict[str, Any]) -> str:
    """The text of a card; of another message its content."""
    if message["msg_type"] != "interactive":
        return str(message["body"]["content"])
    first = elements_of(message)[0]
    text = first["content"] if first["tag"] == "markdown" else first["text"]["content"]
    return str(text)


def buttons_of(message: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The buttons of a card: label, style, and what Lark sends when one is pressed."""
    found = []
    for element in elements_of(message):
        for column in element.get("columns", []):
            (button,) = column["elements"]
            (behavior,) = button["behaviors"]
            assert behavior["type"] == "callback"
            found.append((button["text"]["content"], button["type"], json.dumps(behavior["value"])))
    return found
