"""The channel as the host sees it: its form, abilities and actions. What it does is in `connection`."""

from __future__ import annotations

from hostler_sdk.channels import ConnectedChannel

MAX_MESSAGE = 4_000
"""Of the text of a message with its marks: Slack makes several of a longer one, wherever that cuts it, and
refuses an edit of over so many bytes.
"""
_ADDRESSES = (
    "url",
    "url_*",
    "permalink*",
    "thumb_*",
    "edit_link",
    "converted_pdf",
    "deanimate*",
    "pjpeg",
    "mp4*",
    "hls*",
    "aac",
    "vtt",
)
"""Of a file and its previews, for which the bot's token or a session is needed."""


class Slack(ConnectedChannel):
    """Slack.

    An app of Slack: direct messages, channels and threads.
    """

    connection = "hostler_slack.connection:Connection"
    abilities = {
        "edit": True,
        "typing": True,
        "reactions": True,
        "buttons": True,
        "threads": True,
        "files": True,
        "webhook": True,
        "repeat": "look_up",  # by the metadata of its messages; `client_msg_id` is no documented argument
        "max_message": MAX_MESSAGE,
        "message_unit": "characters",
        "edit_seconds": 2.0,  # of an app in a workspace, about 50 edits a minute
    }
    actions = (
        "group.info",
        "group.leave",
        "group.rename",
        "history.fetch",
        "member.info",
        "member.kick",
        "member.list",
        "message.delete",
        "message.forward",
        "message.pin",
        "message.react",
        "message.unreact",
        "platform.call",
        "typing.start",
    )
    withheld = (
        "slack/token",
        "response_url",  # with which anybody could write in the chat
        *(f"{parent}/{name}" for parent in ("file", "files", "slack_file") for name in _ADDRESSES),
    )
    config = (
        {
            "name": "token",
            "type": "secret",
            "required": True,
            "label": {"en": "Bot token"},
            "description": {"en": "Of the app's page “OAuth & Permissions”; it begins with xoxb-."},
        },
        {
            "name": "receive",
            "type": "select",
            "options": ["socket", "webhook"],
            "default": "socket",
            "label": {"en": "How events arrive"},
            "description": {"en": "socket: by Socket Mode, which needs no public address."},
        },
        {
            "name": "app-token",
            "type": "secret",
            "show_if": {"receive": "socket"},
            "label": {"en": "App-level token"},
            "description": {"en": "Of “Basic Information”, with connections:write; it begins with xapp-."},
        },
        {
            "name": "signing-secret",
            "type": "secret",
            "show_if": {"receive": "webhook"},
            "label": {"en": "Signing secret"},
            "description": {"en": "Of “Basic Information”. Slack signs its requests with it."},
        },
        {
            "name": "answer-in-threads",
            "type": "boolean",
            "default": True,
            "label": {"en": "Answer in channels by threads"},
            "description": {"en": "Each message outside of threads begins one, a conversation of its own."},
        },
        {
            "name": "catch-up",
            "type": "boolean",
            "default": True,
            "label": {"en": "Fetch what was said while the connection was lost"},
            "description": {"en": "Of the last 24 hours, in chats where something was said before."},
        },
        {
            "name": "max-file-mib",
            "type": "integer",
            "default": 20,
            "label": {"en": "Largest file that is fetched, in MiB"},
            "description": {"en": "0 to 100."},
        },
        {
            "name": "link-previews",
            "type": "boolean",
            "default": False,
            "label": {"en": "Show previews of links"},
        },
        {
            "name": "base-url",
            "type": "string",
            "default": "https://slack.com/api/",
            "label": {"en": "Address of the Web API"},
            "description": {"en": "https://slack-gov.com/api/ for GovSlack."},
        },
    )
