"""Counting tokens without asking the service.

The estimate counts characters by class of script, since tokenizers of today's models differ far less
between each other than between scripts. Measured on prose of ten scripts, source code and JSON it gives 0.9
to 1.2 times the tokens of cl100k_base; vocabularies of 200,000 entries take fewer outside of Latin script, so
the estimate leans to too many: a budget that is kept too early costs little, one that is missed costs the
request. With tiktoken installed and TIKTOKEN_CACHE_DIR
naming a folder that holds its encodings (so that counting never waits for the network), models that
tiktoken knows are counted exactly.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import importlib.util
import logging
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from hostler.models.attachments import is_text
from hostler.models.limits import COUNT_IN_THREAD_CHARS
from hostler.models.port import TokenCount
from hostler_protocol.content import (
    ArtifactElement,
    FileBase64Element,
    FileUrlElement,
    FunctionSpec,
    ImageBase64Element,
    ImageUrlElement,
    ModelMessage,
    ProviderData,
    TextElement,
)

ESTIMATE = "estimate"
TOKENS_PER_MESSAGE = 4
"""Role and separators of one message in the usual chat formats (3 or 4)."""
TOKENS_PER_REQUEST = 3
"""The head of the answer, which every request ends with."""
TOKENS_PER_IMAGE = 1_000
"""Services take 85 to some 1,600 a picture, by its size, which is not known here."""
TOKENS_PER_FILE = 2_000
"""A file that is no text: some pages."""

_log = logging.getLogger(__name__)

# Characters of a class and the tokens that one of them takes. Western words take a token for 4 to 5 letters
# in English, and for 2 to 3 in other languages; Chinese, Japanese and Korean 0.6 to 1.3 a character; a symbol
# outside all classes is often spelled as bytes.
_CLASSES: tuple[tuple[re.Pattern[str], float], ...] = (
    (re.compile(r"[A-Za-z]+"), 0.25),
    (re.compile(r"[0-9]+"), 0.6),
    (re.compile(r"[!-/:-@\[-`{-~]+"), 0.8),
    (re.compile(r"\s{2,}|\n"), 0.25),
    (re.compile("[\u00aa-\u024f\u0370-\u058f]+"), 0.65),
    (re.compile("[\u0590-\u08ff]+"), 0.9),
    (re.compile("[\u0900-\u1fff]+"), 1.3),
    (re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]+"), 1.1),
)
_REST = re.compile(
    "[\u0250-\u036f\u2000-\u303f\u3100-\u33ff\ua000-\uabff\ue000-\uf8ff\ufb00-\ufeff\U00010000-\U0010ffff]"
)
_REST_TOKENS = 2.0


def estimate_text(text: str) -> int:
    """About how many tokens a text takes; never zero for text that is not empty."""
    tokens = sum(
        sum(end - start for start, end in (m.span() for m in pattern.finditer(text))) * weight
        for pattern, weight in _CLASSES
    )
    tokens += len(_REST.findall(text)) * _REST_TOKENS
    return max(math.ceil(tokens), 1 if text else 0)


async def count_tokens(
    model: str, messages: Sequence[ModelMessage], tools: Sequence[FunctionSpec]
) -> TokenCount:
    """Count a request: exactly where tiktoken serves, else by the estimate; `counted_by` says which."""
    size = sum(len(text) for text in _texts(messages, tools))
    if size > COUNT_IN_THREAD_CHARS or _encodings_folder():
        return await asyncio.to_thread(_count, model, messages, tools)
    return _count(model, messages, tools)


def _count(model: str, messages: Sequence[ModelMessage], tools: Sequence[FunctionSpec]) -> TokenCount:
    counter, name = _counter(model)
    total = TOKENS_PER_REQUEST + TOKENS_PER_MESSAGE * (len(messages) + len(tools))
    total += sum(map(counter, _texts(messages, tools)))
    for message in messages:
        if isinstance(message.content, list):
            total += sum(_tokens_besides_text(element) for element in message.content)
    return TokenCount(total, name)


def _texts(messages: Sequence[ModelMessage], tools: Sequence[FunctionSpec]) -> Iterator[str]:
    for message in messages:
        if isinstance(message.content, str):
            yield message.content
        elif message.content is not None:
            for element in message.content:
                if isinstance(element, TextElement):
                    yield element.text
        for call in message.tool_calls:
            yield call.function.name
            yield call.function.arguments
            if call.provider_data is not None:
                yield from _texts_given_back(call.provider_data)
        if message.provider_data is not None:
            if message.reasoning and message.provider_data.reasoning_as:
                yield message.reasoning
            yield from _texts_given_back(message.provider_data)
    for tool in tools:
        yield f"{tool.name} {tool.description} {msgspec.json.encode(tool.parameters).decode()}"


def _texts_given_back(data: ProviderData) -> Iterator[str]:
    if data.fields:
        yield msgspec.json.encode(data.fields).decode()


def _tokens_besides_text(element: object) -> int:
    match element:
        case ImageUrlElement() | ImageBase64Element():
            return TOKENS_PER_IMAGE
        case FileBase64Element(file_base64=inline, mime_type=mime_type, file_name=name):
            return len(inline) * 3 // 16 if is_text(mime_type, name) else TOKENS_PER_FILE  # 4 bytes a token
        case ArtifactElement(mime_type=mime_type, size_bytes=size, file_name=name):
            if is_text(mime_type, name) and size is not None:
                return size // 4
            return TOKENS_PER_IMAGE if (mime_type or "").startswith("image/") else TOKENS_PER_FILE
        case FileUrlElement(file_url=url):
            return estimate_text(url)
        case _:
            return 0


def _encodings_folder() -> str | None:
    return os.environ.get("TIKTOKEN_CACHE_DIR") or None


@functools.lru_cache(maxsize=256)
def _counter(model: str) -> tuple[Callable[[str], int], str]:
    if _encodings_folder() is None or importlib.util.find_spec("tiktoken") is None:
        return estimate_text, ESTIMATE
    tiktoken = importlib.import_module("tiktoken")
    try:
        encoding = tiktoken.encoding_for_model(model)
    except KeyError:
        return estimate_text, ESTIMATE
    except (OSError, ValueError) as error:  # the folder lacks the encoding, or holds a damaged one
        _log.warning("tiktoken has no encoding for %s (%s); its tokens are estimated", model, error)
        return estimate_text, ESTIMATE
    return (lambda text: len(encoding.encode_ordinary(text))), f"tiktoken:{encoding.name}"
