"""The files of an answer, as links.

Chat Completions has no word for a file that an agent gives. So they are links in the text, in Markdown, which
belong to no message of the run, with an annotation where each is.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote

from hostler.domain.run_events import ContentAdded, FileMade
from hostler_protocol.content import (
    ArtifactElement,
    FileBase64Element,
    FileUrlElement,
    ImageBase64Element,
    ImageUrlElement,
)

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
        identity, link = _link_of(event, self._base)
        if identity in self._known:
            return None
        self._known.add(identity)
        return link


def _link_of(event: ContentAdded | FileMade, base: str) -> tuple[str, Link]:
    if isinstance(event, FileMade):
        file = event.file
        found = ArtifactElement(
            artifact_id=file.artifact_id or "", mime_type=file.mime_type, file_name=file.name
        )
        return _artifact(found, base)
    match event.element:
        case ArtifactElement() as artifact:
            return _artifact(artifact, base)
        case ImageUrlElement(image_url=image):
            return image.url, Link("image", _url(image.url), image=True)
        case ImageBase64Element(image_base64=data, mime_type=kind):
            url = data if data.startswith("data:") else f"data:{kind or 'image/png'};base64,{data}"
            return url, Link("image", _url(url), image=True)
        case FileUrlElement(file_url=url, file_name=name):
            return url, Link(_plain(name or "file"), _url(url))
        case FileBase64Element(file_base64=data, file_name=name, mime_type=kind):
            kind = kind or "application/octet-stream"
            url = data if data.startswith("data:") else f"data:{kind};base64,{data}"
            return url, Link(_plain(name or "file"), _url(url))
        case _:
            raise TypeError(f"{event.element!r} is text")


def _artifact(element: ArtifactElement, base: str) -> tuple[str, Link]:
    url = f"{base}/v1/artifacts/{quote(element.artifact_id, safe='')}/content"
    image = (element.mime_type or "").startswith("image/")
    title = _plain(element.file_name or ("image" if image else "file"))
    return f"artifact:{element.artifact_id}", Link(title, url, image)


def _plain(text: str) -> str:
    """Return a text that cannot end its place in Markdown."""
    return " ".join(_UNSAFE.sub(" ", text).split())


def _url(text: str) -> str:
    return quote(text, safe=":/?#[]@!$&'*+,;=%-._~")
