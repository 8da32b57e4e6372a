"""What a message of Slack consists of: its text with marks, sections of bounded length, and buttons."""

from __future__ import annotations

import html
from dataclasses import dataclass, replace
from typing import Any

from hostler_protocol.channels import MessageUnit
from hostler_sdk.channels import Button, ChannelMessage, NotSent
from hostler_sdk.channels.markup import MRKDWN, PLAIN
from hostler_sdk.channels.parts import render_parts
from hostler_slack.channel import MAX_MESSAGE

MAX_SECTION = 3_000
MAX_SECTIONS_TOGETHER = 12_000
"""Characters of a section, and of all of a message: Slack refuses it from about 13,000."""
MAX_BLOCKS = 50
MAX_ROW = 25
MAX_LABEL = 75
"""Of a message, a row of buttons, and the label of one."""
_STYLES = {"primary": "primary", "danger": "danger"}
_ESCAPED = replace(PLAIN, escape=lambda text: html.escape(text, quote=False))


@dataclass(frozen=True, slots=True)
class Body:
    """A text as Slack takes it. `blocks` are shown in its place; then it is what notifications show, and may
    be its beginning. `mrkdwn`: it has marks.
    """

    text: str
    mrkdwn: bool
    blocks: list[dict[str, Any]]


def body_of(message: ChannelMessage, *, edits: bool = False) -> Body:
    """Return a message's text and buttons. A text that marks and `&lt;` make too long is in sections.

    `edits`: Slack counts the text of an edit in bytes, and reads marks in it. Raises NotSent if Slack cannot
    take them.
    """
    unit: MessageUnit = "bytes" if edits else "characters"
    marked = not message.plain
    texts = render_parts(message.text, MRKDWN, MAX_MESSAGE, unit) if marked else []
    if not texts:
        marked = False
        texts = render_parts(message.text, _ESCAPED, MAX_MESSAGE, unit, plain=True)
    first = texts[0] if texts else ""
    rows = [row for row in message.buttons if row]
    if len(texts) < 2 and not rows and (marked or not edits):
        return Body(first, marked, [])
    found = [*_sections(message, marked=marked), *(_row(number, row) for number, row in enumerate(rows))]
    if len(found) > MAX_BLOCKS:
        raise NotSent(f"the message has {len(rows)} rows of buttons, more than Slack takes", final=True)
    return Body(first, marked, found)


def _sections(message: ChannelMessage, *, marked: bool) -> list[dict[str, Any]]:
    """Return a text as sections: with marks, unless there is no room for them."""
    kind, texts = "mrkdwn", render_parts(message.text, MRKDWN, MAX_SECTION) if marked else []
    if not texts or sum(map(len, texts)) > MAX_SECTIONS_TOGETHER:
        kind, texts = "plain_text", render_parts(message.text, PLAIN, MAX_SECTION, plain=True)
    # without `expand`, Slack shows the beginning of a long section alone
    return [{"type": "section", "expand": True, "text": {"type": kind, "text": text}} for text in texts]


def _row(number: int, row: list[Button]) -> dict[str, Any]:
    if len(row) > MAX_ROW:
        text = f"a row has {len(row)} buttons; Slack takes at most {MAX_ROW}"
        raise NotSent(text, final=True)
    return {
        "type": "actions",
        "elements": [_button(f"{number}.{place}", button) for place, button in enumerate(row)],
    }


def _button(action_id: str, button: Button) -> dict[str, Any]:
    label = button.label if len(button.label) <= MAX_LABEL else button.label[: MAX_LABEL - 1] + "…"
    style = {"style": _STYLES[button.style]} if button.style in _STYLES else {}
    text = {"type": "plain_text", "text": label or "…", "emoji": True}
    return {"type": "button", "action_id": action_id, "text": text, "value": button.value, **style}
