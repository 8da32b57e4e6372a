"""Files of answers and of requests, as all dialects have them: where they are, and what they are."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from urllib.parse import quote, unquote

from hostler.domain.run_events import ContentAdded, FileMade
from hostler_protocol.content import (
    ArtifactElement,
    Content,
    ContentElement,
    FileBase64Element,
    FileUrlElement,
    ImageBase64Element,
    ImageUrl,
    ImageUrlElement,
    TextElement,
    text_of,
)
from hostler_protocol.events import CallerTool, Input

UNKNOWN_TYPE = "application/octet-stream"
_ADDRESS = re.compile(r"(https?)://([^/?#]+)(.*)", re.DOTALL | re.IGNORECASE)
_CONTENT = re.compile(r"/v1/artifacts/([^/?#]+)/content")
_USUAL_PORTS = {"http": ":80", "https": ":443"}


class ShownFile(NamedTuple):
    """A file of an answer. `identity`: equal for the same file, however often the results name it.

    `url` of an artifact is a path below the host's address.
    """

    identity: str
    url: str
    mime_type: str
    name: str | None = None
    artifact_id: str | None = None
    size_bytes: int | None = None

    @property
    def is_image(self) -> bool:
        """Whether it can be shown as a picture."""
        return self.mime_type.startswith("image/")


def artifact_url(artifact_id: str) -> str:
    """Return where the bytes of an artifact are, below the host's address."""
    return f"/v1/artifacts/{quote(artifact_id, safe='')}/content"


def artifact_at(url: str, addresses: Iterable[str]) -> str | None:
    """Return the id of the artifact of this host that a URL names; None for a URL of anything else.

    It is a path, or below one of the host's `addresses`: other hosts have such paths, too. Schemes are not
    compared, since TLS may end at a proxy.
    """
    paths = [url]
    if (bare := _without_scheme(url)) is not None:
        own = [one for address in addresses if (one := _without_scheme(address)) is not None]
        paths = [bare.removeprefix(one) for one in own if bare.startswith(one)]
    found = next((found for path in paths if (found := _CONTENT.fullmatch(path)) is not None), None)
    return None if found is None else unquote(found[1])


def _without_scheme(url: str) -> str | None:
    """Return the host, the port unless it is the usual one of the scheme, and what follows.

    None if it is no address in the web.
    """
    if (found := _ADDRESS.fullmatch(url)) is None:
        return None
    scheme, place, rest = found.groups()
    return place.lower().removesuffix(_USUAL_PORTS[scheme.lower()]) + str(rest)


def artifact_of(made: FileMade) -> ArtifactElement:
    """Return a file that a run made as messages name it."""
    file = made.file
    return ArtifactElement(
        artifact_id=file.artifact_id or "",
        mime_type=file.mime_type,
        file_name=file.name,
        size_bytes=file.size_bytes,
    )


def shown_file(event: ContentAdded | FileMade) -> ShownFile:
    """Return the file of an event. TypeError for text, which no event of these has."""
    element = artifact_of(event) if isinstance(event, FileMade) else event.element
    match element:
        case ArtifactElement(artifact_id=own, mime_type=kind, file_name=name, size_bytes=size):
            return ShownFile(f"artifact:{own}", artifact_url(own), kind or UNKNOWN_TYPE, name, own, size)
        case ImageUrlElement(image_url=image):
            return ShownFile(image.url, image.url, "image/*")
        case FileUrlElement(file_url=url, file_name=name):
            return ShownFile(url, url, UNKNOWN_TYPE, name)
        case ImageBase64Element(image_base64=data, mime_type=kind):
            return _inline(data, kind or "image/png", None)
        case FileBase64Element(file_base64=data, mime_type=kind, file_name=name):
            return _inline(data, kind or UNKNOWN_TYPE, name)
        case _:
            raise TypeError(f"{element!r} is text")


def _inline(data: str, kind: str, name: str | None) -> ShownFile:
    """Return a file whose content is in its URL. The content may be a data URL itself."""
    url = data if data.startswith("data:") else f"data:{kind};base64,{data}"
    return ShownFile(url, url, kind, name)


class Inline(NamedTuple):
    """The content of a data URL: its media type, if it says one, and its bytes in base64."""

    mime_type: str | None
    data: str


def web_address(url: str) -> str:
    """Return the address of a file in the web. ValueError for any other: it may be read where the agent runs,
    and there `file:` means another disk than the client's.
    """
    scheme, _, rest = url.partition(":")
    if scheme.lower() in ("http", "https") and rest.startswith("//"):
        return url
    raise ValueError("expected an address with http or https, or a data: URL with base64")


def read_data_url(url: str) -> Inline:
    """Return the content of a data URL. ValueError says what is wrong with it."""
    head, comma, data = url.removeprefix("data:").partition(",")
    if not comma:
        raise ValueError("expected a data: URL, like data:image/png;base64,...")
    kind, *options = head.split(";")
    if "base64" not in options:
        return Inline(kind or None, base64.b64encode(unquote(data).encode()).decode())
    return Inline(kind or None, checked_base64(unquote(data) if "%" in data else data))


def checked_base64(text: str) -> str:
    """Return base64 without white space. ValueError if it is none."""
    text = "".join(text.split())
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"this is not base64: {error}") from None
    return text


def file_of(data: str, mime_type: str | None, name: str | None, *, image: bool) -> ContentElement:
    """Return bytes in base64 that a client sends as content. Images have no name."""
    if image:
        return ImageBase64Element(image_base64=data, mime_type=mime_type)
    return FileBase64Element(file_base64=data, file_name=name, mime_type=mime_type)


def file_at(url: str, name: str | None, *, image: bool) -> ContentElement:
    """Return the file of an address that a client sends as content: of the web, or in the address itself.

    ValueError says what is wrong with the address.
    """
    if url.startswith("data:"):
        inline = read_data_url(url)
        return file_of(inline.data, inline.mime_type, name, image=image)
    url = web_address(url)
    if image:
        return ImageUrlElement(image_url=ImageUrl(url=url))
    return FileUrlElement(file_url=url, file_name=name)


def input_of(contents: list[ContentElement], tools: list[CallerTool]) -> Input:
    """Return what a client says, and the tools that it lends, as the input of an event."""
    only = contents[0] if len(contents) == 1 else None
    if isinstance(only, TextElement):
        return Input(text=only.text, tools=tools)
    return Input(contents=contents, tools=tools)


def content_of(elements: Sequence[ContentElement]) -> Content:
    """Return elements as the content of a message: their text, if they have nothing else."""
    if all(isinstance(element, TextElement) for element in elements):
        return text_of(list(elements))
    return list(elements)
