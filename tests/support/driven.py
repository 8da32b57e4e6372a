"""Runners made for one test."""

from __future__ import annotations

from typing import Any

from hostler_sdk import Runner


def of(body: Any, **attributes: Any) -> type[Runner]:
    """A runner class around one `run` function of the context alone."""
    return type("Told", (Runner,), {"run": lambda self, ctx: body(ctx), **attributes})
