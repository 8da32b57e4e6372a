"""What a client of a service says of it, without its secrets."""

from __future__ import annotations

from hostler_sdk.services.http import ServiceHttp


async def test_secrets_are_taken_out_and_ordinary_words_stay() -> None:
    """A key of a few characters is part of words: the rest of them would only tell what it is."""
    secrets = ["x", "app-secret", "app-secret-2", ""]
    async with ServiceHttp("Dify", "http://a.example", secrets=secrets) as http:
        text = http.without_secrets("the sandbox sent app-secret-2, app-secret")
    assert text == "the sandbox sent ***, ***"
