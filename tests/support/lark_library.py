"""The clients of lark-oapi itself: one message is sent, and what is received is printed."""

from __future__ import annotations

import json
import sys
from typing import Any

import lark_oapi
from lark_oapi.api.im.v1 import CreateMessageRequest, CreateMessageRequestBody

APP_ID, SECRET, ADDRESS = sys.argv[1:]
CARD = {
    "schema": "2.0",
    "config": {"update_multi": True},
    "body": {"elements": [{"tag": "markdown", "content": "sent by the library"}]},
}


def received(data: Any) -> None:
    sys.stdout.write(json.loads(data.event.message.content)["text"] + "\n")
    sys.stdout.flush()


client = lark_oapi.Client.builder().app_id(APP_ID).app_secret(SECRET).domain(ADDRESS).build()
body = CreateMessageRequestBody.builder().receive_id("oc_dm").msg_type("interactive")
body = body.content(json.dumps(CARD)).uuid("u-1").build()
request = CreateMessageRequest.builder().receive_id_type("chat_id").request_body(body).build()
answer = client.im.v1.message.create(request)
assert answer.success(), answer.msg
handler = lark_oapi.EventDispatcherHandler.builder("", "").register_p2_im_message_receive_v1(received).build()
lark_oapi.ws.Client(APP_ID, SECRET, event_handler=handler, domain=ADDRESS).start()
