"""The channel as the host sees it: its form, abilities and actions. What it does is in `connection`."""

from __future__ import annotations

from hostler_sdk.channels import ConnectedChannel

MAX_MESSAGE = 1_800
"""Bytes of UTF-8: WeCom takes 2,048, with the marks and the invisible key."""


class WeCom(ConnectedChannel):
    """WeCom (WeChat Work).

    A self-built application of WeCom: private chats with the members of a company.
    """

    connection = "hostler_wecom.connection:Connection"
    label = {"en": "WeCom (WeChat Work)", "zh": "企业微信"}
    abilities = {
        "buttons": True,
        "files": True,
        "webhook": True,
        "repeat": "look_up",  # by WeCom's duplicate check: see `find` in sender.py
        "max_message": MAX_MESSAGE,
        "message_unit": "bytes",
    }
    actions = ("member.info", "message.delete", "platform.call")
    withheld = ("wecom/ResponseCode", "wecom/PicUrl")
    """With the one anybody could change a card; the other is the address of a picture, which expires."""
    config = (
        {
            "name": "corp-id",
            "type": "string",
            "required": True,
            "label": {"en": "Company ID", "zh": "企业 ID"},
            "description": {"en": "On the page “My Company” of the admin console; it begins with ww."},
        },
        {
            "name": "agent-id",
            "type": "integer",
            "required": True,
            "label": {"en": "AgentId of the application", "zh": "应用 AgentId"},
        },
        {
            "name": "secret",
            "type": "secret",
            "required": True,
            "label": {"en": "Secret of the application", "zh": "应用 Secret"},
        },
        {
            "name": "callback-token",
            "type": "secret",
            "required": True,
            "label": {"en": "Token of “Receive messages”", "zh": "接收消息的 Token"},
        },
        {
            "name": "callback-aes-key",
            "type": "secret",
            "required": True,
            "label": {"en": "EncodingAESKey of “Receive messages”", "zh": "接收消息的 EncodingAESKey"},
        },
        {
            "name": "format",
            "type": "select",
            "options": ["markdown", "text"],
            "default": "markdown",
            "label": {"en": "Format of answers", "zh": "回复格式"},
            "description": {"en": "text: for people who read in WeChat, which does not show Markdown."},
        },
        {
            "name": "duplicate-check",
            "type": "boolean",
            "default": True,
            "label": {"en": "Let WeCom drop repetitions", "zh": "启用重复消息检查"},
            "description": {"en": "Each text ends with an invisible key, by which WeCom tells them apart."},
        },
        {
            "name": "names",
            "type": "boolean",
            "default": True,
            "label": {"en": "Look up the names of members", "zh": "查询成员姓名"},
        },
        {
            "name": "max-file-mib",
            "type": "integer",
            "default": 20,
            "label": {"en": "Largest file that is fetched, in MiB", "zh": "接收文件的最大体积 (MiB)"},
            "description": {"en": "0 to 100."},
        },
        {
            "name": "base-url",
            "type": "string",
            "default": "https://qyapi.weixin.qq.com",
            "label": {"en": "Address of the server API", "zh": "服务端 API 地址"},
            "description": {"en": "Of a WeCom on premises."},
        },
    )
