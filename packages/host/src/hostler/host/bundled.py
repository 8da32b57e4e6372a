"""Runners, channels and examples that come with the host: in a checkout next to the packages, else in the
wheel."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Literal

from hostler_protocol.errors import NotFoundError

Kind = Literal["runners", "channels", "examples"]
_PACKAGE = Path(__file__).resolve().parents[1]
_PLACES = (_PACKAGE / "_bundled", *_PACKAGE.parents[3:4])


def bundled(kind: Kind, name: str) -> Path:
    """Return the plugin folder of a shipped plugin or example. NotFoundError if the installation lacks it."""
    for place in _PLACES:
        folder = place / kind / name
        if (folder / "hostler.yaml").is_file():
            return folder
    raise NotFoundError(f"{kind}/{name} did not come with this installation: install the released package")


def shipped_plugin(plugin_key: str) -> Path | None:
    """Return the folder of a shipped runner or channel by its key, like `hostler/local-agent`, or None."""
    author, _, name = plugin_key.partition("/")
    if author != "hostler":
        return None
    kinds: tuple[Kind, ...] = ("runners", "channels")
    for kind in kinds:
        try:
            return bundled(kind, name)
        except NotFoundError:
            continue
    return None


def shipped_runners() -> list[str]:
    """Return the plugin keys of all shipped runners, sorted."""
    return list(_keys("runners"))


def shipped_channels() -> list[str]:
    """Return the plugin keys of all shipped channels, sorted."""
    return list(_keys("channels"))


def shipped_plugins() -> list[str]:
    """Return the plugin keys of all shipped runners and channels, sorted."""
    return sorted([*_keys("runners"), *_keys("channels")])


@functools.cache
def _keys(kind: Kind) -> tuple[str, ...]:
    """Looked for once in a process: an installation does not change under it."""
    names = {path.parent.name for place in _PLACES for path in (place / kind).glob("*/hostler.yaml")}
    return tuple(sorted(f"hostler/{name}" for name in names))
