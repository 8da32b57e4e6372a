"""Runs of the coding agent in a scripted host."""

from __future__ import annotations

from typing import Any

from hostler_acp.runner import CodingAgent

from hostler_sdk.testing import Driven, ScriptedHost
from support.acp import command, steps


def config(*flags: str, **settings: Any) -> dict[str, Any]:
    found = {"provider": "custom", "command": command(*flags), "workspace": "work"}
    return found | {name.replace("_", "-"): value for name, value in settings.items()}


async def ask(*listed: Any, host: ScriptedHost | None = None, **options: Any) -> Driven:
    settings = options.pop("config", config())
    answer = await (host or ScriptedHost()).drive(CodingAgent, steps(*listed), config=settings, **options)
    assert answer.warnings == []
    return answer


def of(driven: Driven, type_: str) -> list[Any]:
    return [result.data for result in driven.results if result.type == type_]


def logged(driven: Driven, level: str | None = None) -> list[str]:
    return [one.text for one in of(driven, "log") if level in (None, one.level)]
