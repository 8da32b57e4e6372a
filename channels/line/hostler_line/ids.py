"""Ids of LINE: a letter with 32 hexadecimal digits, U of people, C of groups, R of multi-person chats."""

from __future__ import annotations

import re
from typing import Any

from hostler_sdk.channels import NotSent

_ID = re.compile(r"[UCR][0-9a-f]{32}")


def is_id(id_: Any, kinds: str) -> bool:
    """Whether this is an id of one of these kinds, such as `UC`."""
    return isinstance(id_, str) and _ID.fullmatch(id_) is not None and id_[0] in kinds


def chat_id_of(id_: object) -> str:
    """Return the id of a chat. Raises NotSent."""
    if is_id(id_, "UCR"):
        return str(id_)
    text = "is no id of a chat of LINE: U, C or R with 32 digits 0-9 and a-f"
    raise NotSent(f"{id_!r:.80} {text}", final=True)


def person_id_of(id_: object) -> str:
    """Return the id of a person. Raises NotSent."""
    if is_id(id_, "U"):
        return str(id_)
    raise NotSent(f"{id_!r:.80} is no id of a person of LINE: U with 32 digits 0-9 and a-f", final=True)
