"""How the AI SDK is told what went wrong: its clients show the body of a refusal as the error's message."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.http.dialects.dialect import Dialect, Refusal
from hostler.http.problems import Problem
from hostler.http.responses import Headers

STREAM_HEADERS: Headers = [(b"x-vercel-ai-ui-message-stream", b"v1")]
DONE = b"data: [DONE]\n\n"
CODE_HEADER = b"hostler-code"
"""The code of a refusal, since the body is a sentence for people."""


class AiSdk(Dialect):
    """The habits of the AI SDK."""

    name = "ai-sdk"

    def refuse(self, problem: Problem) -> Refusal:
        """Return the sentence of an error, with its code in a header."""
        code = str(problem.details.get("reason", problem.code)).encode("ascii", "replace")
        return Refusal(problem.status, problem.detail, ((CODE_HEADER, code),), "text/plain; charset=utf-8")


AI_SDK = AiSdk()


def chunk(kind: str, **fields: Any) -> bytes:
    """Encode one chunk of a stream; fields of None are left out."""
    return encode({"type": kind, **{name: value for name, value in fields.items() if value is not None}})


def encode(body: dict[str, Any]) -> bytes:
    """Encode one chunk of a stream as it is."""
    return b"data: " + msgspec.json.encode(body) + b"\n\n"
