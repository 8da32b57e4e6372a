"""Names for what is imported."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection

from hostler.domain.agent_review import MAX_AGENT_NAME_CHARS

MAX_SLUG_CHARS = 60
_KB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_SEPARATED = re.compile(r"[^A-Za-z0-9]+")


def slug(text: str) -> str:
    """Return the ASCII letters and digits of a text, in lower case, joined by `-`; "" if it has none."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return _SEPARATED.sub("-", plain).strip("-").lower()[:MAX_SLUG_CHARS].strip("-")


def plain_name(text: str) -> str:
    """Return a name without control characters, invisible ones and half surrogate pairs, on one line."""
    shown = "".join(
        char if unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} else " "
        for char in text[: 4 * MAX_AGENT_NAME_CHARS]
    )
    return " ".join(shown.split())


def knowledge_base_id(name: str, uuid: str) -> str:
    """Return the id under which a knowledge base of LangBot can be made here: its name, if it can be one."""
    for one in (plain_name(name), plain_name(uuid)):
        if _KB_ID.fullmatch(one):
            return one
    return re.sub(r"[^A-Za-z0-9_-]+", "-", plain_name(uuid)).strip("-_")[:100] or "langbot"


def agent_name(text: str, uuid: str, taken: Collection[str]) -> str:
    """Return a name for an agent that no other has. A pipeline's name may be any text, and used twice."""
    name = plain_name(text)[: MAX_AGENT_NAME_CHARS - 40].strip()
    if name in {"", ".", ".."}:
        name = f"langbot {plain_name(uuid)[:8]}".strip()
    return _distinct(name, uuid, taken)


def entry_name(text: str, uuid: str, taken: Collection[str]) -> str:
    """Return a name for an entry whose names are letters, digits, `-` and `_`: at most 32, a letter first."""
    name = slug(text)[:24].strip("-") or slug(f"server {uuid[:8]}")
    if not name[0].isalpha():
        name = f"s-{name}"
    found, number = name, 2
    while found in taken:
        found, number = f"{name}-{number}", number + 1
    return found


def _distinct(name: str, uuid: str, taken: Collection[str]) -> str:
    if name not in taken:
        return name
    mark = plain_name(uuid)[:8]
    found, number = f"{name} ({mark})" if mark else f"{name} 2", 3
    while found in taken:
        found, number = f"{name} ({mark} {number})" if mark else f"{name} {number}", number + 1
    return found
