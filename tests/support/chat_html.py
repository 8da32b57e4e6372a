"""HTML of chats, read as strictly as a platform reads it."""

from __future__ import annotations

from html.parser import HTMLParser


class Tags(HTMLParser):
    """Checks that tags are closed in order, and none is in a place where chats refuse it."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in {"b", "i", "s", "code", "pre", "a", "blockquote"}
        assert not {"code", "pre"} & set(self.open) or (self.open[-1], tag) == ("pre", "code")
        assert tag != "blockquote" or "blockquote" not in self.open
        assert {name for name, _ in attrs} <= {"href", "class"}
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
