"""Files of answers and requests: one place says where they are, for all interfaces."""

from __future__ import annotations

import pytest

from hostler.domain.run_events import ContentAdded, FileMade
from hostler.http.dialects.files import (
    UNKNOWN_TYPE,
    ShownFile,
    artifact_at,
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


OWN = ("https://host.test", "http://127.0.0.1:8700")


@pytest.mark.parametrize(
    "url",
    [
        "/v1/artifacts/a%2Fb/content",
        "https://host.test/v1/artifacts/a%2Fb/content",
        "http://HOST.test:80/v1/artifacts/a%2Fb/content",
        "HTTPS://host.test:443/v1/artifacts/a%2Fb/content",
        "http://127.0.0.1:8700/v1/artifacts/a%2Fb/content",
    ],
)
def test_an_artifact_is_named_by_a_path_or_below_an_own_address(url: str) -> None:
    assert artifact_at(url, OWN) == "a/b"
    assert artifact_at(url, ("", "")) == ("a/b" if url.startswith("/") else None)


def test_an_address_may_have_a_path() -> None:
    below = ("https://host.test/hostler",)
    assert artifact_at("https://host.test/hostler/v1/artifacts/a/content", below) == "a"
    assert artifact_at("https://host.test/v1/artifacts/a/content", below) is None


@pytest.mark.parametrize(
    "place",
    [
        *("https://other.test", "https://host.test:8443", "http://127.0.0.1", "https://host.test@other.test"),
        *("https://host.test.other.test", "//host.test", "//other.test", "ftp://host.test", "host.test", "x"),
        *("https://other.test/https://host.test", "https://", "https://[", "\\other.test", "javascript:"),
        "https://other.test/?u=https://host.test",
    ],
)
def test_what_is_elsewhere_is_no_artifact_of_this_host(place: str) -> None:
    assert artifact_at(f"{place}/v1/artifacts/a/content", OWN) is None
    assert artifact_at(f"{place}/v1/artifacts/a/content", ("", "")) is None
    assert artifact_at("https://host.test/v1/artifacts/a/content?x=1", OWN) is None


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
