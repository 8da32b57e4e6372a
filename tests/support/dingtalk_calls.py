"""DingTalk's calls over HTTP: the token, messages of robots, cards, reactions, files, and what is refused.

Paths, bodies, answers and errors have the shapes of https://open.dingtalk.com/document and of its library.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

CLIENT_ID = "dingabcdefg"
SECRET = "s3cret-of-the-app"
ADA = "manager4711"
GROUP = "cidAbc+12/3=="
TEMPLATE = "382e4302-551d-4880-bf29-a30acfab2e71.schema"
OWN_TEMPLATE = "11111111-2222-3333-4444-555555555555.schema"


class Refused(Exception):
    """An error of DingTalk: `more` are further fields of its body."""

    def __init__(self, code: str, status: int = 400, message: str = "no", **more: Any) -> None:
        super().__init__(code)
        self.status, self.headers = status, more.pop("headers", {})
        self.body = {"code": code, "message": message, "requestid": "C0FFEE", **more}


Answer = Refused | int | str | dict[str, Any]
"""In place of the usual answer: an error, a status with a page, `cut`, `mute`, `lost`, `held`, a text,
or JSON."""


@dataclass(slots=True)
class Call:
    """A call that the robot made."""

    path: str
    body: dict[str, Any]
    query: dict[str, str]


@dataclass(slots=True)
class DingTalkCalls:
    """What the robot did."""

    calls: list[Call] = field(default_factory=list)
    answers: dict[str, list[Answer]] = field(default_factory=lambda: defaultdict(list))
    """By path, or by path and group: what comes in place of the next answers. At `cut` and `mute` it is done,
    at `lost` and `held` not."""
    written: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    """By chat: messages and cards, in order."""
    tokens: list[str] = field(default_factory=list)
    """Of which the last one is valid."""
    token_seconds: int = 7200
    tickets: set[str] = field(default_factory=set)
    media: dict[str, tuple[str, str, bytes]] = field(default_factory=dict)
    """What was uploaded, by id: kind, name and content."""
    files: dict[str, bytes] = field(default_factory=dict)
    """What people sent, by download code."""
    emotions: list[dict[str, Any]] = field(default_factory=list)
    endpoint: str = ""
    address: str = ""
    _numbers: int = 0

    def called(self, path: str) -> list[Call]:
        """The calls of a path so far."""
        return [call for call in self.calls if call.path == path]

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    def texts(self, chat: str) -> list[str]:
        """What is read in a chat, as Markdown or text."""
        return [one["text"] for one in self.written[chat] if "text" in one]

    def card(self, track_id: str | None) -> dict[str, Any]:
        """A card as it is now."""
        found = [one for chat in self.written.values() for one in chat if one.get("track") == track_id]
        assert len(found) == 1
        return found[0]

    def chat_of(self, body: dict[str, Any]) -> str | None:
        """The group to which a card is sent, or in which it is."""
        if "openSpaceId" in body:
            return str(body["openSpaceId"]).partition(".")[2].partition(".")[2]
        track = body.get("outTrackId", "")
        cards = ((chat, card) for chat, told in self.written.items() for card in told)
        return next((chat for chat, card in cards if card.get("track") == track), None)

    # -- calls ------------------------------------------------------------------------------------

    async def carry_out(self, call: Call, token: str) -> dict[str, Any]:
        """Do what a call says, and return DingTalk's answer."""
        method = self._methods().get(call.path)
        if method is None:
            raise Refused("InvalidAction.NotFound", 404)
        if call.path not in {"/v1.0/oauth2/accessToken", "/v1.0/gateway/connections/open"}:
            self._check(call, token)
        answer: dict[str, Any] = method(call.body)
        await asyncio.sleep(0)
        return answer

    def _check(self, call: Call, token: str) -> None:
        given = call.query.get("access_token", token)
        if not self.tokens or given != self.tokens[-1]:
            if "access_token" in call.query:
                raise Refused("old", 200, errcode=40014, errmsg="不合法的access_token")
            raise Refused("InvalidAuthentication", 400, "不合法的access_token")

    def _methods(self) -> dict[str, Any]:
        return {
            "/v1.0/oauth2/accessToken": self._token,
            "/v1.0/gateway/connections/open": self._connection,
            "/v1.0/robot/groupMessages/send": self._to_group,
            "/v1.0/robot/oToMessages/batchSend": self._to_person,
            "/v1.0/robot/groupMessages/recall": self._recall,
            "/v1.0/robot/otoMessages/batchRecall": self._recall,
            "/v1.0/robot/emotion/reply": self._emotion,
            "/v1.0/robot/emotion/recall": self._emotion,
            "/v1.0/robot/messageFiles/download": self._file,
            "/v1.0/card/instances/createAndDeliver": self._card,
            "/v1.0/card/instances": self._update,
            "/v1.0/robot/groups/robots/query": lambda body: {"chatbotInstanceVOList": [body]},
            "/topapi/v2/user/get": self._person,
        }

    def _token(self, body: dict[str, Any]) -> dict[str, Any]:
        if body != {"appKey": CLIENT_ID, "appSecret": SECRET}:
            raise Refused("invalidClientIdOrSecret", 400, "无效的clientId或者clientSecret")
        self.tokens.append(f"token-{len(self.tokens) + 1}")
        return {"accessToken": self.tokens[-1], "expireIn": self.token_seconds}

    def _connection(self, body: dict[str, Any]) -> dict[str, Any]:
        if (body["clientId"], body["clientSecret"]) != (CLIENT_ID, SECRET):
            raise Refused("authFailed", 401, "鉴权失败")
        assert {one["type"] for one in body["subscriptions"]} == {"EVENT", "CALLBACK"}
        ticket = f"ticket-{self.number()}+/="
        self.tickets.add(ticket)
        return {"endpoint": self.endpoint, "ticket": ticket}

    def _message(self, chat: str, body: dict[str, Any]) -> str:
        assert body["robotCode"] == CLIENT_ID
        params = json.loads(body["msgParam"])
        told = {"id": f"key-{self.number()}==", "kind": body["msgKey"], "params": params}
        match body["msgKey"]:
            case "sampleText":
                told["text"] = params["content"]
            case "sampleMarkdown":
                assert params["title"]
                told["text"] = params["text"]
            case "sampleFile":
                told["file"] = self.media[params["mediaId"]]
                if params["fileType"] not in {"xlsx", "pdf", "zip", "rar", "doc", "docx"}:
                    raise Refused("invalidParameter.fileType", 400, "文件类型不支持")
            case "sampleImageMsg":
                told["file"] = self.media[params["photoURL"]]
            case other:
                raise Refused("invalidParameter.msgKey", 400, other)
        self.written[chat].append(told)
        return str(told["id"])

    def _to_group(self, body: dict[str, Any]) -> dict[str, Any]:
        if not body["openConversationId"].startswith("cid"):
            raise Refused("invalidParameter.openConversationId", 400, "群不存在")
        return {"processQueryKey": self._message(body["openConversationId"], body)}

    def _to_person(self, body: dict[str, Any]) -> dict[str, Any]:
        (person,) = body["userIds"]
        lists: dict[str, list[str]] = {"flowControlledStaffIdList": [], "invalidStaffIdList": []}
        if person == "nobody":
            return {"processQueryKey": "key-none", **lists, "invalidStaffIdList": [person]}
        return {"processQueryKey": self._message(f"user:{person}", body), **lists}

    def _recall(self, body: dict[str, Any]) -> dict[str, Any]:
        (key,) = body["processQueryKeys"]
        for chat, told in self.written.items():
            kept = [one for one in told if one.get("id") != key]
            if len(kept) < len(told):
                assert body.get("openConversationId", chat) == chat
                self.written[chat] = kept
                return {"successResult": [key], "failedResult": {}}
        return {"successResult": [], "failedResult": {key: "消息不存在"}}

    def _emotion(self, body: dict[str, Any]) -> dict[str, Any]:
        assert body["openConversationId"].startswith("cid")
        assert body["emotionName"] == body["textEmotion"]["text"]
        self.emotions.append(body)
        return {"success": True}

    # -- cards ------------------------------------------------------------------------------------

    def _card(self, body: dict[str, Any]) -> dict[str, Any]:
        params = body["cardData"]["cardParamMap"]
        track = body["outTrackId"]
        if body["cardTemplateId"] not in {TEMPLATE, OWN_TEMPLATE}:
            raise Refused("param.templateUnpublished", 400)
        if any(one.get("track") == track for chat in self.written.values() for one in chat):
            raise Refused("param.outTrackIdDuplicate", 400)
        assert body["callbackType"] == "STREAM"
        kind, _, space = body["openSpaceId"].removeprefix("dtv1.card//").partition(".")
        chat = space if kind == "IM_GROUP" else f"user:{space}"
        model = body["imGroupOpenDeliverModel" if kind == "IM_GROUP" else "imRobotOpenDeliverModel"]
        assert model["robotCode"] == CLIENT_ID
        told = {"spaceId": space, "spaceType": kind, "success": space != "nobody"}
        if space == "nobody":
            return {
                "success": True,
                "result": {"deliverResults": [{**told, "errorMsg": "spaceId is illegal"}]},
            }
        carrier = f"carrier-{self.number()}"
        card = {"track": track, "carrier": carrier, "template": body["cardTemplateId"], "history": []}
        self.written[chat].append(card)
        _show(card, params)
        return {
            "success": True,
            "result": {"outTrackId": track, "deliverResults": [{**told, "carrierId": carrier}]},
        }

    def _update(self, body: dict[str, Any]) -> dict[str, Any]:
        assert body["cardUpdateOptions"] == {"updateCardDataByKey": True}
        cards = [
            one for chat in self.written.values() for one in chat if one.get("track") == body["outTrackId"]
        ]
        if not cards:
            raise Refused("param.outTrackIdNotExist", 400)
        _show(cards[0], body["cardData"]["cardParamMap"])
        return {"success": True, "result": True}

    # -- files and people -------------------------------------------------------------------------

    def upload(self, kind: str, name: str, content: bytes) -> dict[str, Any]:
        """Store a file."""
        media_id = f"@media{self.number()}"
        self.media[media_id] = kind, name, content
        return {"errcode": 0, "errmsg": "ok", "media_id": media_id, "type": kind, "created_at": 1}

    def _file(self, body: dict[str, Any]) -> dict[str, Any]:
        assert body["robotCode"] == CLIENT_ID
        if body["downloadCode"] not in self.files:
            raise Refused("invalidParameter.downloadCode", 400, "downloadCode无效")
        return {"downloadUrl": f"{self.address}/files/{body['downloadCode']}?Signature=x"}

    def _person(self, body: dict[str, Any]) -> dict[str, Any]:
        if body["userid"] != ADA:
            return {"errcode": 60121, "errmsg": "找不到该用户", "request_id": "x"}
        return {"errcode": 0, "errmsg": "ok", "result": {"userid": ADA, "name": "Ada L."}, "request_id": "x"}


def _show(card: dict[str, Any], params: dict[str, Any]) -> None:
    """Show the variables of a card as its template does."""
    assert all(isinstance(value, str) for value in params.values())  # a map of texts, as documented
    if card["template"] == TEMPLATE:
        layout = json.loads(params["sys_full_json_obj"])
        assert "msgContent" in layout["order"]
        card["text"], card["buttons"] = params["msgContent"], layout["msgButtons"]
    else:
        card["text"], card["buttons"] = params["content"], json.loads(params["buttons"])
    card["status"] = params["flowStatus"]
    card["history"].append((card["text"], card["status"]))
