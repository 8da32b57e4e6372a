"""Files of answers and requests: one place says where they are, for all interfaces."""

from __future__ import annotations

import pytest

from hostler.domain.run_events import ContentAdded, FileMade
from hostler.http.dialects.files import (
    UNKNOWN_TYPE,
    ShownFile,
    checked_base64,
    content_of,
    read_data_url,
    shown_file,
)
from hostler_protocol.content import (
    ArtifactElement,
    ContentElement,
    FileBase64Element,
    FileUrlElement,
    ImageBase64Element,
    ImageUrl,
    ImageUrlElement,
    TextElement,
)
from hostler_protocol.results import ArtifactCreated

URL = "https://x/y"
HI = "data:a/b;base64,aGk="
PNG = "data:image/png;base64,iVBORw=="
SHOWN: list[tuple[ContentElement, ShownFile]] = [
    (
        ArtifactElement(artifact_id="a/b", mime_type="image/png", file_name="p.png", size_bytes=3),
        ShownFile("artifact:a/b", "/v1/artifacts/a%2Fb/content", "image/png", "p.png", "a/b", 3),
    ),
    (ImageUrlElement(image_url=ImageUrl(url=URL)), ShownFile(URL, URL, "image/*")),
    (FileUrlElement(file_url=URL, file_name="n"), ShownFile(URL, URL, UNKNOWN_TYPE, "n")),
    (ImageBase64Element(image_base64="iVBORw=="), ShownFile(PNG, PNG, "image/png")),
    (ImageBase64Element(image_base64=PNG), ShownFile(PNG, PNG, "image/png")),
    (FileBase64Element(file_base64="aGk=", mime_type="a/b"), ShownFile(HI, HI, "a/b")),
]


@pytest.mark.parametrize(("element", "shown"), SHOWN)
def test_where_a_file_is(element: ContentElement, shown: ShownFile) -> None:
    assert shown_file(ContentAdded(1, element)) == shown


def test_a_file_that_a_run_made_is_the_one_that_its_message_names() -> None:
    made = ArtifactCreated(
        artifact_type="file", artifact_id="a", mime_type="text/plain", name="n.txt", size_bytes=2
    )
    named = ArtifactElement(artifact_id="a", mime_type="text/plain", file_name="n.txt", size_bytes=2)
    assert shown_file(FileMade(made)) == shown_file(ContentAdded(1, named))


@pytest.mark.parametrize(
    ("url", "content"),
    [
        (PNG, ("image/png", "iVBORw==")),
        ("data:text/plain;charset=utf-8;base64,aGk=", ("text/plain", "aGk=")),
        ("data:,a%20b", (None, "YSBi")),
        ("data:text/plain;base64,aGk%3D", ("text/plain", "aGk=")),
    ],
)
def test_data_urls_are_read(url: str, content: tuple[str | None, str]) -> None:
    assert read_data_url(url) == content


@pytest.mark.parametrize("url", ["data:", "data:image/png", "data:image/png;base64,!", "data:;base64,a"])
def test_what_is_no_data_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"expected a data: URL|not base64"):
        read_data_url(url)


def test_white_space_in_base64_does_no_harm() -> None:
    assert checked_base64("aG\nk=") == "aGk="


def test_content_of_nothing_but_text_is_text() -> None:
    parts = [TextElement(text="a"), TextElement(text="b")]
    assert content_of(parts) == "a\nb"
    mixed: list[ContentElement] = [*parts, ArtifactElement(artifact_id="a")]
    assert content_of(mixed) == mixed
