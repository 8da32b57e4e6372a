"""A runner class made of a function of the active run."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hostler_adapters.active_run import ActiveRun
from hostler_sdk import RunContext, Runner

A = TypeVar("A")
CAPABILITIES = frozenset({"streaming", "tool_calling", "multimodal_input", "steering", "resumable"})
PERMISSIONS: Mapping[str, Sequence[str]] = {
    "models": ["invoke", "stream"],
    "tools": ["detail", "call"],
    "history": ["page"],
    "artifacts": ["metadata", "read"],
}
MODEL = {
    "name": "model",
    "type": "model-fallback-selector",
    "required": True,
    "label": {"en": "Model"},
    "description": {
        "en": "The agent's model `default`, and those that are asked if it fails before its first word."
    },
}
MAX_HISTORY = 1_000
"""Earlier messages that a run may read: ten pages."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What every adapter takes.

    `name` is the runner's label. `history`: messages before the run's own that the agent gets, and the most
    that a session of messages keeps. `config`: further items of the form, read as `current_run().ctx.config`.
    """

    name: str
    description: str = ""
    history: int = 50
    config: Sequence[Mapping[str, Any]] = ()

    def __post_init__(self) -> None:
        """Raise ValueError or TypeError for what cannot be meant."""
        if not isinstance(self.name, str) or not self.name.strip():
            raise ValueError(f'name is {self.name!r}: give the agent a name, like name="support"')
        if not 0 <= self.history <= MAX_HISTORY:
            raise ValueError(f"history is {self.history!r}: from 0 to {MAX_HISTORY:,} messages are possible")
        if any(item.get("name") == MODEL["name"] for item in self.config):
            raise ValueError("config has an item `model`, which every adapter has already; name it otherwise")


def check_agent(agent: Any, kind: type, what: str, hint: str = "") -> None:
    """Raise TypeError if `agent` is neither an instance of `kind`, called `what`, nor a function."""
    if not isinstance(agent, kind) and not callable(agent):
        raise TypeError(f"runner() takes {what} or a function that builds one, not {agent!r:.80}{hint}")


async def built_agent(agent: Any, kind: type[A], what: str, ctx: RunContext) -> A:
    """Return the agent of a run: itself, or what a function of the run's context, also a coroutine, builds.

    Raises TypeError if the function builds something else.
    """
    if isinstance(agent, kind):
        return agent
    built = agent(ctx)
    if inspect.isawaitable(built):
        built = await built
    if not isinstance(built, kind):
        raise TypeError(f"the function given to runner() built {built!r:.80}, not {what}")
    return built


def runner_class(
    serve: Callable[[ActiveRun], Awaitable[None]], settings: Settings, *, session_format: str = "none/1"
) -> type[Runner]:
    """Return a runner class whose runs are served by a function.

    Derive from it to state more: `class Support(runner(graph, name="support")): permissions = {...}`.
    """

    class Adapted(Runner):
        label = settings.name
        description = settings.description or settings.name
        capabilities = CAPABILITIES
        permissions = PERMISSIONS
        config = [MODEL, *settings.config]

        async def run(self, ctx: RunContext) -> None:
            run = ActiveRun(ctx, history=settings.history, session_format=session_format)
            with run.active():
                await serve(run)

    Adapted.__name__ = Adapted.__qualname__ = _class_name(settings.name)
    Adapted.__doc__ = f"{settings.name}\n\n{settings.description}".strip()
    return Adapted


def _class_name(name: str) -> str:
    words = re.findall(r"[A-Za-z0-9]+", name)
    joined = "".join(word[:1].upper() + word[1:] for word in words)
    return joined if joined.isidentifier() else f"Agent{joined}"
