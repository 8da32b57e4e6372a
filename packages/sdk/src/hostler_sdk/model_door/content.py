"""Parts of messages, from the forms of both of OpenAI's interfaces to the protocol's. Pure."""

from __future__ import annotations

from typing import Any

from hostler_protocol.content import (
    Content,
    ContentElement,
    FileBase64Element,
    FileUrlElement,
    ImageUrl,
    ImageUrlElement,
    TextElement,
)
from hostler_sdk.model_door.problems import invalid, unsupported
from hostler_sdk.model_door.reading import Json, check_known, object_in, objects_in, text_in

_AUDIO_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_COMMON = frozenset({"type", "cache_control", "id"})
"""Known in every part. `cache_control` marks what a service may keep, and changes no answer."""
_TEXTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
"""Types of parts that are text, and where it is."""
_OF_TEXT = _COMMON | {"text", "refusal", "annotations", "logprobs"}


def content_of(value: Any, place: str) -> Content | None:
    """Return the content of a message."""
    if value is None or isinstance(value, str):
        return value
    parts = objects_in(value, place)
    return [_part(part, f"{place}[{number}].") for number, part in enumerate(parts)]


def _part(part: Json, place: str) -> ContentElement:
    kind = text_in(part, "type", place)
    if kind in _TEXTS:
        check_known(part, _OF_TEXT, place)
        return TextElement(text=text_in(part, _TEXTS[kind], place))
    match kind:
        case "image_url":
            return _image(object_in(part, "image_url", place), "url", f"{place}image_url.")
        case "input_image":
            return _image(part, "image_url", place)
        case "input_audio":
            return _audio(object_in(part, "input_audio", place), f"{place}input_audio.")
        case "file":
            return _file(object_in(part, "file", place), f"{place}file.")
        case "input_file":
            return _file(part, place)
    raise unsupported(f"{place}type", f"there are no parts of the type {kind!r:.60}")


def _image(given: Json, name: str, place: str) -> ImageUrlElement:
    check_known(given, _COMMON | {name, "detail"}, place)
    detail = given.get("detail")
    if detail is not None and not isinstance(detail, str):
        raise invalid(f"{place}detail must be a text", f"{place}detail")
    return ImageUrlElement(image_url=ImageUrl(url=text_in(given, name, place), detail=detail))


def _audio(given: Json, place: str) -> FileBase64Element:
    check_known(given, _COMMON | {"data", "format"}, place)
    kind = text_in(given, "format", place)
    if kind not in _AUDIO_TYPES:
        raise unsupported(f"{place}format", f"it is {kind!r:.20}; wav and mp3 are known")
    return FileBase64Element(file_base64=text_in(given, "data", place), mime_type=_AUDIO_TYPES[kind])


def _file(given: Json, place: str) -> FileBase64Element | FileUrlElement:
    check_known(given, _COMMON | {"filename", "file_data", "file_url", "detail"}, place)
    name = given.get("filename")
    name = None if name is None else text_in(given, "filename", place)
    if given.get("file_url") is not None:
        return FileUrlElement(file_url=text_in(given, "file_url", place), file_name=name)
    return FileBase64Element(file_base64=text_in(given, "file_data", place), file_name=name)
