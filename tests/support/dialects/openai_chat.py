"""OpenAI's client for Python at `/v1/chat/completions`."""

from __future__ import annotations

from typing import Any

from openai import AsyncOpenAI

from support.http_host import ADMIN_KEY


def client_of(url: str, key: str = ADMIN_KEY, **options: Any) -> AsyncOpenAI:
    """The official client."""
    return AsyncOpenAI(base_url=f"{url}/v1", api_key=key, **{"timeout": 60.0, **options})


def user(text: str) -> Any:
    """A message of a person."""
    return {"role": "user", "content": text}
