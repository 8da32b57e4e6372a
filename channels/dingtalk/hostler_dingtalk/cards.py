"""Cards: what DingTalk is told of one, and what it tells of a press.

The template is that of DingTalk's own library, which every app may use. One of the operator's has the
variables `content` (Markdown), `buttons` (a list, as the card builder's group of buttons reads it) and
`flowStatus`.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from dingtalk_stream import AICardStatus, AIMarkdownCardInstance

from hostler_dingtalk.fields import fields_of, list_of, text_of
from hostler_sdk.channels import Button, NotSent

MAX_BUTTONS = 20
MAX_LABEL = 60
TRACK = "hostler-"
"""How the ids of cards begin: no other message of DingTalk has one like it."""
_COLORS = {"primary": "blue", "danger": "red"}


def track_id_of(client_id: str, key: str, attempt: int) -> str:
    """Return the id of a card. Each attempt has its own: one may be taken whose card nobody got."""
    digest = hashlib.sha256(f"{client_id}\n{key}\n{attempt}".encode()).hexdigest()
    return f"{TRACK}{digest[:40]}"


class Template:
    """The template of a robot's cards. `own`: the id of one of the operator's."""

    def __init__(self, own: str | None) -> None:
        self.id = own or AIMarkdownCardInstance(None, None).card_template_id
        self._is_own = own is not None

    def params(self, text: str, rows: list[list[Button]], *, last: bool) -> dict[str, str]:
        """Return the variables of a card. Raises NotSent if it has too many buttons."""
        buttons = [button for row in rows for button in row]
        if len(buttons) > MAX_BUTTONS:
            raise NotSent(
                f"the message has {len(buttons)} buttons; a card has at most {MAX_BUTTONS}", final=True
            )
        status = AICardStatus.FINISHED if last else AICardStatus.INPUTING
        if self._is_own:
            told = [_own_button(button) for button in buttons]
            return {"content": text, "buttons": _json(told), "flowStatus": status.value}
        layout: dict[str, Any] = {"order": ["msgContent", "msgButtons"]}
        layout["msgButtons"] = [
            {
                "text": button.label[:MAX_LABEL],
                "color": _COLORS.get(button.style, "gray"),
                "id": button.value,
                "request": True,
            }
            for button in buttons
        ]
        return {
            "msgContent": text,
            "staticMsgContent": "",
            "flowStatus": status.value,
            "sys_full_json_obj": _json(layout),
        }


def _own_button(button: Button) -> dict[str, Any]:
    event = {
        "type": "sendCardRequest",
        "params": {"actionId": button.value, "params": {"value": button.value}},
    }
    color = _COLORS.get(button.style, "gray")
    return {"text": button.label[:MAX_LABEL], "color": color, "status": "normal", "event": event}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def delivery_of(
    chat_id: str, person_id: str | None, robot_code: str, *, may_be_forwarded: bool
) -> dict[str, Any]:
    """Return where a card goes. `person_id`: whose private chat it is; None for a group."""
    model = {"supportForward": may_be_forwarded}
    if person_id is None:
        return {
            "openSpaceId": f"dtv1.card//IM_GROUP.{chat_id}",
            "imGroupOpenSpaceModel": model,
            "imGroupOpenDeliverModel": {"robotCode": robot_code},
        }
    return {
        "openSpaceId": f"dtv1.card//IM_ROBOT.{person_id}",
        "imRobotOpenSpaceModel": model,
        "imRobotOpenDeliverModel": {"spaceType": "IM_ROBOT", "robotCode": robot_code},
    }


def pressed(data: dict[str, Any]) -> str | None:
    """Return the value of the button that was pressed; None if it was none."""
    private = fields_of(fields_of(data.get("content")).get("cardPrivateData"))
    value = text_of(fields_of(private.get("params")).get("value"))
    return value or next((one for one in list_of(private.get("actionIds")) if text_of(one)), None)
