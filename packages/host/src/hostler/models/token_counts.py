"""Count tokens without a request to the service.

The estimate counts characters by class of script, as tokenizers of current models differ far less from each
other than scripts do. Measured on prose of ten scripts, source code and JSON, it gives 0.9 to 1.2 times the
tokens of cl100k_base. Vocabularies of 200,000 entries need fewer tokens outside of Latin script, so the
estimate is rather too high: shortening a request too early costs little, but exceeding the window fails it.

With tiktoken installed and its encodings in the folder TIKTOKEN_CACHE_DIR (so that counting never waits for
the network), models that tiktoken knows are counted exactly.
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
"""For role and separators of one message, which take 3 or 4 in the usual chat formats."""
TOKENS_PER_REQUEST = 3
"""For the head of the answer at the end of every request."""
TOKENS_PER_IMAGE = 1_000
"""Services count 85 to about 1,600 per image, by its size, which is not known here."""
TOKENS_PER_FILE = 2_000
"""For a file that is not text: a few pages."""

_log = logging.getLogger(__name__)

# Classes of characters, with the tokens per character. English words have a token per 4 to 5 letters, words
# of other Western languages per 2 to 3; Chinese, Japanese and Korean have 0.6 to 1.3 tokens per character;
# symbols outside all classes are often encoded as bytes.
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
    """Estimate the tokens of a text; at least 1 unless it is empty."""
    tokens = sum(
        sum(end - start for start, end in (m.span() for m in pattern.finditer(text))) * weight
        for pattern, weight in _CLASSES
    )
    tokens += len(_REST.findall(text)) * _REST_TOKENS
    return max(math.ceil(tokens), 1 if text else 0)


async def count_tokens(
    model: str, messages: Sequence[ModelMessage], tools: Sequence[FunctionSpec]
) -> TokenCount:
    """Count the tokens of a request, with tiktoken if possible, else by the estimate (see `counted_by`)."""
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
                yield from _texts_sent_back(call.provider_data)
        if message.provider_data is not None:
            if message.reasoning and message.provider_data.reasoning_as:
                yield message.reasoning
            yield from _texts_sent_back(message.provider_data)
    for tool in tools:
        yield f"{tool.name} {tool.description} {msgspec.json.encode(tool.parameters).decode()}"


def _texts_sent_back(data: ProviderData) -> Iterator[str]:
    if data.fields:
        yield msgspec.json.encode(data.fields).decode()


def _tokens_besides_text(element: object) -> int:
    match element:
        case ImageUrlElement() | ImageBase64Element():
            return TOKENS_PER_IMAGE
        case FileBase64Element(file_base64=inline, mime_type=mime_type, file_name=name):
            return len(inline) * 3 // 16 if is_text(mime_type, name) else TOKENS_PER_FILE  # 4 bytes per token
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
    except (OSError, ValueError) as error:  # the folder lacks the encoding, or it is damaged
        _log.warning("tiktoken has no encoding for %s (%s); its tokens are estimated", model, error)
        return estimate_text, ESTIMATE
    return (lambda text: len(encoding.encode_ordinary(text))), f"tiktoken:{encoding.name}"
