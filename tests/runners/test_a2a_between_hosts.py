"""Hostler to Hostler: the runner of A2A agents asks an agent of a real host."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hostler_a2a.runner import A2A

from hostler_sdk.testing import Driven, ScriptedHost
from support.dialects.players import playing, script
from support.http_host import ADMIN_KEY, Served
from support.local_agents import deltas
from support.services.pausing import RUN, answered, go_on, pending


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Served]:
    async with playing(tmp_path) as made:
        yield made


def settings(host: Served, **more: Any) -> dict[str, Any]:
    return {
        "agent-card-url": f"{host.url}/a2a/player/.well-known/agent-card.json",
        "api-key": ADMIN_KEY,
        **more,
    }


async def ask(host: Served, text: str, **more: Any) -> Driven:
    return await ScriptedHost().drive(A2A, text, config=settings(host, **more), context={"run_id": RUN})


async def test_it_streams_the_answer(host: Served) -> None:
    driven = await ask(host, script(["delta", "你好 "], ["delta", "🙂"], ["say", "你好 🙂"], ["say", "Bye."]))
    assert (driven.status, driven.text) == ("completed", "你好 🙂\n\nBye.")
    assert "".join(deltas(driven)) == driven.text
    assert len(deltas(driven)) > 2


async def test_it_says_what_went_wrong(host: Served) -> None:
    driven = await ask(host, script(["fail", "no tea left"]))
    assert driven.code == "a2a.service_error"
    assert "no tea left" in str(driven.error)
    assert (await ask(host, "x", **{"api-key": "wrong"})).code == "a2a.auth_error"


async def test_a_question_is_handed_on_to_people_and_back(host: Served) -> None:
    asked = await ask(host, script(["ask", "Which size?"], ["say", "Thanks."]))
    (call,) = pending(asked)
    assert "Which size?" in call.title
    driven = await go_on(A2A, settings(host), asked, answered(call.call_id, "xl"))
    assert driven.text == 'answered: {"size": "xl"}\n\nThanks.'
