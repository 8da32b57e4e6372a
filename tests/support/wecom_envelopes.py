"""WeCom's side of its encrypted calls, by its description: sealed messages, and calls of an address."""

from __future__ import annotations

import base64
import hashlib
import itertools
import os
import struct
import time
from typing import Any
from xml.sax.saxutils import escape

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

CORP = "ww5823bf96d3bd56c7"
TOKEN = "QDG6eK"
AES_KEY = "jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C"
AGENT = 1000002
_numbers = itertools.count(7_000_000_000_000_000)


def seal(content: bytes, *, key: str = AES_KEY, receiver: str = CORP) -> str:
    """Encrypt a message."""
    secret = base64.b64decode(key + "=")
    plain = os.urandom(16) + struct.pack(">I", len(content)) + content + receiver.encode()
    missing = 32 - len(plain) % 32
    encryptor = Cipher(algorithms.AES(secret), modes.CBC(secret[:16])).encryptor()
    return base64.b64encode(encryptor.update(plain + bytes([missing]) * missing)).decode()


def sign(timestamp: str, nonce: str, sealed: str, token: str = TOKEN) -> str:
    """Sign what was encrypted."""
    return hashlib.sha1("".join(sorted([token, timestamp, nonce, sealed])).encode()).hexdigest()


def call_of(
    content: bytes | str,
    *,
    method: str = "POST",
    age: float = 0,
    token: str = TOKEN,
    key: str = AES_KEY,
    receiver: str = CORP,
) -> dict[str, Any]:
    """Return a call of the address: `method`, `query` and `body_base64`."""
    whole = content.encode() if isinstance(content, str) else content
    sealed = seal(whole, key=key, receiver=receiver)
    timestamp, nonce = str(int(time.time() - age)), "1372623149"
    query = {"msg_signature": sign(timestamp, nonce, sealed, token), "timestamp": timestamp, "nonce": nonce}
    if method == "GET":
        return {"method": "GET", "query": {**query, "echostr": sealed}}
    body = (
        f"<xml><ToUserName><![CDATA[{receiver}]]></ToUserName><AgentID><![CDATA[{AGENT}]]></AgentID>"
        f"<Encrypt><![CDATA[{sealed}]]></Encrypt></xml>"
    )
    return {"method": "POST", "query": query, "body_base64": base64.b64encode(body.encode()).decode()}


def message(kind: str = "text", user: str = "ada", **fields: str) -> str:
    """Return the XML of a message of a member."""
    return _xml(user, MsgType=kind, **fields, MsgId=str(next(_numbers)), AgentID=str(AGENT))


def event(name: str, user: str = "ada", **fields: str) -> str:
    """Return the XML of an event, which has no id."""
    return _xml(user, MsgType="event", Event=name, **fields, AgentID=str(AGENT))


def press(value: str, user: str = "ada", *, task: str = "t", code: str = "code-1") -> str:
    """Return the XML of a press of a button."""
    return event(
        "template_card_event",
        user,
        EventKey=value,
        TaskId=task,
        CardType="button_interaction",
        ResponseCode=code,
    )


def _xml(user: str, **fields: str) -> str:
    head = {"ToUserName": CORP, "FromUserName": user, "CreateTime": str(int(time.time()))}
    inner = "".join(f"<{name}>{_value(name, value)}</{name}>" for name, value in (head | fields).items())
    return f"<xml>{inner}</xml>"


def _value(name: str, value: str) -> str:
    if name in {"CreateTime", "MsgId", "AgentID"} or "]]>" in value:
        return escape(value)
    return f"<![CDATA[{value}]]>"
