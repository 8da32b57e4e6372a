"""A Bot API server: HTTP as Telegram's own, with updates that are kept until they are confirmed.

Methods, answers and errors have the shapes of https://core.telegram.org/bots/api.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from support.platform_server import PlatformServer, application
from support.telegram_texts import Refusal, checked

__all__ = ["Refusal", "TelegramServer"]

TOKEN = "4242:AAF-not-a-real-token"
ME = {"id": 4242, "is_bot": True, "first_name": "Helper", "username": "helper_bot"}
ADA = {
    "id": 7,
    "is_bot": False,
    "first_name": "Ada",
    "last_name": "L.",
    "username": "ada",
    "language_code": "en",
}
PRIVATE = {"id": 7, "type": "private", "first_name": "Ada", "username": "ada"}
GROUP = {"id": -1001234, "type": "supergroup", "title": "The group", "is_forum": True}
NEWS = {"id": -1009876, "type": "channel", "title": "News"}
ROOMS = tuple({"id": -number, "type": "group", "title": f"Room {number}"} for number in range(1, 7))
DATE = 1_764_000_000
TOPIC = ("message_thread_id", "is_topic_message")
"""What a message in a topic of a forum has besides."""
MAX_DOWNLOAD = 20 * 1024 * 1024


@dataclass(slots=True)
class Call:
    """One call of the bot; files are by the name of their field."""

    method: str
    params: dict[str, Any]
    files: dict[str, tuple[str, bytes]]


@dataclass(slots=True)
class TelegramServer(PlatformServer):
    """A running server, and what the bot did on it."""

    calls: list[Call] = field(default_factory=list)
    messages: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What the bot sent, by message id, as it is now."""
    refusals: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    """By method: what comes in place of the usual answers: a Refusal, a text that is no JSON, `cut`;
    `held` never answers, and `mute` does what was asked and does not answer."""
    silent: bool = False
    """Calls other than of updates are carried out and not answered."""
    token: str = TOKEN
    files: dict[str, bytes] = field(default_factory=dict)
    broken_files: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    """By file id: statuses of the next downloads; `cut` breaks one in the middle."""
    webhook: dict[str, Any] | None = None
    waits: list[int] = field(default_factory=list)
    """Of each call of `getUpdates`, how long it would wait for news, in seconds."""
    confirmed: int = 0
    presses: set[str] = field(default_factory=set)
    _updates: list[dict[str, Any]] = field(default_factory=list)
    _all: list[dict[str, Any]] = field(default_factory=list)
    _next: int = 1000
    _message_id: int = 500

    # -- the server -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen on a free port of this machine, or on the one it had before."""
        app = application()
        app.router.add_route("*", "/bot{token}/{method}", self._serve)
        app.router.add_get("/file/bot{token}/{path:.*}", self._download)
        await self.listen(app)

    @property
    def url(self) -> str:
        return self.origin

    async def until(self, method: str, count: int = 1) -> list[Call]:
        """Wait until a method has been called so often, and return these calls."""
        await self.until_true(lambda: len(self.called(method)) >= count)
        return self.called(method)

    async def until_confirmed(self) -> None:
        """Wait until the bot has confirmed all updates."""
        await self.until_true(lambda: not self._updates)

    async def until_polled(self) -> None:
        """Wait until the bot waits for updates."""
        await self.until_true(lambda: self.waits)

    def called(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method == method]

    def texts(self) -> list[str]:
        """Return the texts and captions that the bot has sent, as they are now."""
        return [one.get("text") or one.get("caption") or "" for one in self.messages.values()]

    # -- people -----------------------------------------------------------------------------------

    def update(self, **kind: Any) -> int:
        """Something happens; return its update id."""
        self._next += 1
        self._updates.append({"update_id": self._next, **kind})
        self._all.append(self._updates[-1])
        self._changed.set()
        return self._next

    def update_again(self) -> None:
        """Give all updates anew: what the bot confirmed did not arrive."""
        self._updates = list(self._all)

    def say(self, text: str | None = None, **more: Any) -> int:
        """Ada writes a message; return its id."""
        self._message_id += 1
        message: dict[str, Any] = {"message_id": self._message_id, "from": ADA, "chat": PRIVATE, "date": DATE}
        if text is not None:
            message["text"] = text
        self.update(message={**message, **more})
        return self._message_id

    def press(
        self, message_id: int, value: str, *, chat: dict[str, Any] = PRIVATE, by: dict[str, Any] | None = None
    ) -> str:
        """Somebody, Ada unless said otherwise, presses a button; return the id of the query."""
        query = str(9_000_000_000 + self._next)
        self.presses.add(query)
        message = {"message_id": message_id, "from": ME, "chat": chat, "date": DATE, "text": "?"}
        known = self.messages.get(message_id, {})
        message |= {name: known[name] for name in TOPIC if name in known}
        self.update(
            callback_query={
                "id": query,
                "from": by or ADA,
                "message": message,
                "chat_instance": "-55",
                "data": value,
            }
        )
        return query

    # -- the bot ----------------------------------------------------------------------------------

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self._open.add(request.transport)
        try:
            if request.match_info["token"] != self.token:
                raise Refusal(401, "Unauthorized")
            call = await self._read(request)
            if call.method == "getUpdates":
                return _ok(await self._get_updates(call.params))
            self.calls.append(call)
            fate = self._hold_of(call)
            if fate != "held":
                result = self._usual_or_not(call)
            self._changed.set()
            if fate is not None:
                await asyncio.Event().wait()
            if result == "cut":
                request.transport.close()
            if self.silent or result == "cut":
                await asyncio.Event().wait()
            if isinstance(result, str):
                return web.Response(status=502, text=result, content_type="text/html")
            return _ok(result)
        except Refusal as refusal:
            self._changed.set()
            return web.json_response(refusal.body, status=refusal.code)
        finally:
            self._open.discard(request.transport)

    def _hold_of(self, call: Call) -> str | None:
        for name in (f"{call.method} {call.params.get('chat_id')}", call.method):
            if self.refusals[name][:1] in (["held"], ["mute"]):
                return str(self.refusals[name].pop(0))
        return None

    async def _read(self, request: web.Request) -> Call:
        params: dict[str, Any] = {}
        files = {}
        for name, value in (await request.post()).items():
            if isinstance(value, web.FileField):
                files[name] = value.filename, value.file.read()
            else:
                params[name] = value
        for name, value in params.items():
            if isinstance(value, str) and value.startswith("attach://"):
                files[name] = files.pop(value.removeprefix("attach://"))
        return Call(request.match_info["method"], params, files)

    def _usual_or_not(self, call: Call) -> Any:
        waiting = self.refusals[call.method]
        other = waiting.pop(0) if waiting else None
        if isinstance(other, Refusal):
            raise other
        if other is not None:
            return other
        usual = getattr(self, f"_{call.method}", None)
        if usual is not None:
            return usual(call)
        if call.method.startswith("send"):
            return self._send_file(call)
        if call.method == "nonsense":
            raise Refusal(404, "Not Found")
        return True

    async def _get_updates(self, params: dict[str, Any]) -> list[dict[str, Any]]:
        self.waits.append(int(params.get("timeout", 0)))
        waiting = self.refusals["getUpdates"]
        if waiting:
            raise waiting.pop(0)
        if self.webhook is not None:
            raise Refusal(
                409,
                "Conflict: can't use getUpdates method while webhook is active; "
                "use deleteWebhook to delete the webhook first",
            )
        assert "message_reaction" in json.loads(params["allowed_updates"])
        offset = int(params.get("offset", 0))
        self.confirmed = max(self.confirmed, offset)
        self._updates = [one for one in self._updates if one["update_id"] >= offset]
        self._changed.set()
        ends = time.monotonic() + int(params.get("timeout", 0))
        while not self._updates and (left := ends - time.monotonic()) > 0:
            self._changed.clear()
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                break
        return self._updates[:100]

    def _getMe(self, _: Call) -> Any:
        return {**ME, "can_join_groups": True, "can_read_all_group_messages": False}

    def _setWebhook(self, call: Call) -> Any:
        self.webhook = call.params
        return True

    def _deleteWebhook(self, _: Call) -> Any:
        self.webhook = None
        return True

    def _sendMessage(self, call: Call) -> Any:
        return self._sent(call, text=checked(call.params.get("text", ""), call.params, 4096))

    def _send_file(self, call: Call) -> Any:
        if call.method in {"sendChatAction", "sendPoll"}:
            if call.method == "sendChatAction":
                return True
            options = [{"text": one["text"], "voter_count": 0} for one in json.loads(call.params["options"])]
            poll = {
                "id": "55",
                "question": call.params["question"],
                "options": options,
                "total_voter_count": 0,
            }
            poll |= {"is_closed": False, "is_anonymous": True, "type": "regular"}
            return self._sent(call, poll={**poll, "allows_multiple_answers": False, "allows_revoting": False})
        assert len(call.files) == 1, call
        caption = (
            checked(call.params.get("caption", ""), call.params, 1024) if "caption" in call.params else None
        )
        return self._sent(call, caption=caption)

    def _sent(self, call: Call, **content: Any) -> dict[str, Any]:
        chat_id = call.params["chat_id"]
        chats = {str(chat["id"]): chat for chat in (PRIVATE, GROUP, NEWS, *ROOMS)}
        if chat_id not in chats:
            raise Refusal(400, "Bad Request: chat not found")
        self._message_id += 1
        message = {"message_id": self._message_id, "from": ME, "chat": chats[chat_id], "date": DATE}
        if "reply_markup" in call.params:
            message["reply_markup"] = json.loads(call.params["reply_markup"])
        if "message_thread_id" in call.params:
            message |= {"message_thread_id": int(call.params["message_thread_id"]), "is_topic_message": True}
        message |= {name: value for name, value in content.items() if value is not None}
        self.messages[self._message_id] = message
        return message

    def _editMessageText(self, call: Call) -> Any:
        return self._edit(call, "text", 4096)

    def _editMessageCaption(self, call: Call) -> Any:
        return self._edit(call, "caption", 1024)

    def _edit(self, call: Call, name: str, most: int) -> Any:
        message = self.messages.get(int(call.params["message_id"]))
        if message is None:
            raise Refusal(400, "Bad Request: message to edit not found")
        if name == "text" and "text" not in message:
            raise Refusal(400, "Bad Request: there is no text in the message to edit")
        shown = checked(call.params[name], call.params, most)
        markup = json.loads(call.params["reply_markup"]) if "reply_markup" in call.params else None
        if (message.get(name), message.get("reply_markup")) == (shown, markup):
            raise Refusal(
                400,
                "Bad Request: message is not modified: specified new message content and reply markup are "
                "exactly the same as a current content and reply markup of the message",
            )
        message.pop("reply_markup", None)
        message |= {name: shown, "edit_date": DATE} | ({} if markup is None else {"reply_markup": markup})
        return message

    def _deleteMessage(self, call: Call) -> Any:
        self.messages.pop(int(call.params["message_id"]), None)
        return True

    def _forwardMessage(self, call: Call) -> Any:
        return self._sent(call, text="forwarded")

    def _answerCallbackQuery(self, call: Call) -> Any:
        if call.params["callback_query_id"] not in self.presses:
            raise Refusal(
                400, "Bad Request: query is too old and response timeout expired or query ID is invalid"
            )
        self.presses.discard(call.params["callback_query_id"])
        return True

    def _getChat(self, call: Call) -> Any:
        return {
            **GROUP,
            "id": int(call.params["chat_id"]),
            "accent_color_id": 1,
            "new_field": {"of": "tomorrow"},
        }

    def _getChatMember(self, call: Call) -> Any:
        return {"status": "member", "user": ADA}

    def _getFile(self, call: Call) -> Any:
        file_id = call.params["file_id"]
        if file_id not in self.files:
            raise Refusal(400, "Bad Request: wrong file_id or the file is temporarily unavailable")
        size = len(self.files[file_id])
        if size > MAX_DOWNLOAD:
            raise Refusal(400, "Bad Request: file is too big")
        return {"file_id": file_id, "file_unique_id": "u", "file_size": size, "file_path": f"docs/{file_id}"}

    async def _download(self, request: web.Request) -> web.StreamResponse:
        assert request.match_info["token"] == self.token
        file_id = request.match_info["path"].removeprefix("docs/")
        waiting = self.broken_files[file_id]
        status = waiting.pop(0) if waiting else 200
        content = self.files[file_id]
        if status == "cut":
            response = web.StreamResponse(headers={"content-length": str(len(content))})
            await response.prepare(request)
            await response.write(content[: len(content) // 2])
            assert request.transport is not None
            request.transport.close()
            return response
        return web.Response(status=status, body=content)


def _ok(result: Any) -> web.Response:
    return web.json_response({"ok": True, "result": result})
