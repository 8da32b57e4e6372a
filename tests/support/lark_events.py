"""What people do on a Lark server, as the events of version 2.0 that it sends, by its documentation."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7

from support.lark_methods import ADA, BOT, DM, GROUP
from support.lark_server import LarkServer

TOKEN = "verification-token"
KEY = "an-encrypt-key"


def ids(open_id: str) -> dict[str, str]:
    return {"union_id": f"on_{open_id[3:]}", "user_id": f"u{open_id[3:]}", "open_id": open_id}


def event(server: LarkServer, kind: str, told: dict[str, Any], **header: Any) -> dict[str, Any]:
    """An event in its envelope."""
    return {
        "schema": "2.0",
        "header": {
            "event_id": server.id_of("ev"),
            "token": TOKEN,
            "create_time": str(int(time.time() * 1000)),
            "event_type": kind,
            "tenant_key": "736588c9260f175e",
            "app_id": server.app_id,
            **header,
        },
        "event": told,
    }


def said(
    server: LarkServer,
    content: str | dict[str, Any],
    chat_id: str = DM,
    *,
    kind: str = "text",
    person: str = ADA,
    sender_type: str = "user",
    mentions: dict[str, tuple[str, str]] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A message of somebody. `mentions`: by key, whom it mentions, and the name."""
    message_id, now = server.id_of("om"), str(int(time.time() * 1000))
    told = json.dumps({"text": content} if isinstance(content, str) else content)
    message = {
        "message_id": message_id,
        "create_time": now,
        "update_time": now,
        "chat_id": chat_id,
        "chat_type": "p2p" if chat_id == DM else "group",
        "message_type": kind,
        "content": told,
        **more,
    }
    if mentions:
        message["mentions"] = [
            {"key": key, "id": ids(who), "name": name, "tenant_key": "736588c9260f175e"}
            for key, (who, name) in mentions.items()
        ]
    server.messages[message_id] = {
        "message_id": message_id,
        "msg_type": kind,
        "create_time": now,
        "chat_id": chat_id,
        "sender": {"id": person, "id_type": "open_id", "sender_type": sender_type},
        "body": {"content": told},
        **more,
    }
    sender = {"sender_id": ids(person), "sender_type": sender_type, "tenant_key": "736588c9260f175e"}
    return event(server, "im.message.receive_v1", {"sender": sender, "message": message})


def message_id_of(payload: dict[str, Any]) -> str:
    return str(payload["event"]["message"]["message_id"])


def to_bot(text: str) -> dict[str, Any]:
    """The arguments of a message of a group that mentions the bot."""
    return {"content": f"@_user_1 {text}", "chat_id": GROUP, "mentions": {"@_user_1": (BOT, "helper")}}


def pressed(
    server: LarkServer, value: Any, message_id: str, chat_id: str = DM, *, person: str = ADA, **action: Any
) -> dict[str, Any]:
    """The press of a button, which counts time in microseconds."""
    told = {
        "operator": {"tenant_key": "736588c9260f175e", **ids(person)},
        "token": "c-295ee57216a5dc9de90fefd0aadb4b1d7d",
        "action": {"value": value, "tag": "button", "timezone": "", "name": "", **action},
        "host": "im_message",
        "context": {"open_message_id": message_id, "open_chat_id": chat_id},
    }
    return event(server, "card.action.trigger", told, create_time=str(int(time.time() * 1_000_000)))


def encrypted(payload: Any, key: str = KEY) -> bytes:
    """Encrypt as Lark does: AES-256-CBC with the digest of the key, the vector first, in base64."""
    content = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    pad, vector = PKCS7(128).padder(), b"0123456789abcdef"
    cipher = Cipher(algorithms.AES(hashlib.sha256(key.encode()).digest()), modes.CBC(vector)).encryptor()
    whole = vector + cipher.update(pad.update(content) + pad.finalize()) + cipher.finalize()
    return json.dumps({"encrypt": base64.b64encode(whole).decode()}).encode()


def signed(body: bytes, key: str = KEY) -> dict[str, str]:
    """The headers of a request that Lark signs."""
    stamp, nonce = str(int(time.time())), "nonce"
    digest = hashlib.sha256((stamp + nonce + key).encode() + body).hexdigest()
    names = ("x-lark-request-timestamp", "x-lark-request-nonce", "x-lark-signature")
    return {"content-type": "application/json", **dict(zip(names, (stamp, nonce, digest), strict=True))}
