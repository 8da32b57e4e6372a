"""The files of an answer, as links.

Chat Completions has no word for a file that an agent gives. So they are links in the text, in Markdown, which
belong to no message of the run, with an annotation where each is.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote

from hostler.domain.run_events import ContentAdded, FileMade
from hostler.http.dialects.files import shown_file

_UNSAFE = re.compile(r"[\[\]()<>\\`*_\r\n]")


class Link(NamedTuple):
    """A file of an answer."""

    title: str
    url: str
    image: bool = False

    @property
    def markdown(self) -> str:
        """The link as Markdown."""
        return f"{'!' if self.image else ''}[{self.title}]({self.url})"


class Files:
    """The files of an answer, each once: a run tells of those that it makes, and its messages name them."""

    def __init__(self, base: str) -> None:
        """`base`: the address of this host."""
        self._base = base
        self._known: set[str] = set()

    def link(self, event: ContentAdded | FileMade) -> Link | None:
        """Return the link to a file; None if the answer has it."""
        file = shown_file(event)
        if file.identity in self._known:
            return None
        self._known.add(file.identity)
        title = _plain(file.name or ("image" if file.is_image else "file"))
        url = file.url if file.artifact_id is None else self._base + file.url
        return Link(title, _url(url), file.is_image)


def _plain(text: str) -> str:
    """Return a text that cannot end its place in Markdown."""
    return " ".join(_UNSAFE.sub(" ", text).split())


def _url(text: str) -> str:
    return quote(text, safe=":/?#[]@!$&'*+,;=%-._~")
