"""The runners and examples that come with the host: in a checkout next to the packages, else in the wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from hostler_protocol.errors import NotFoundError

Kind = Literal["runners", "examples"]
_PACKAGE = Path(__file__).resolve().parents[1]
_PLACES = (_PACKAGE / "_bundled", *_PACKAGE.parents[3:4])


def bundled(kind: Kind, name: str) -> Path:
    """Return the plugin folder of a shipped runner or example. NotFoundError if the installation lacks it."""
    for place in _PLACES:
        folder = place / kind / name
        if (folder / "hostler.yaml").is_file():
            return folder
    raise NotFoundError(f"{kind}/{name} did not come with this installation: install the released package")


def shipped_runner(plugin_key: str) -> Path | None:
    """Return the folder of a shipped runner by its plugin key, like `hostler/local-agent`, or None."""
    author, _, name = plugin_key.partition("/")
    if author != "hostler":
        return None
    try:
        return bundled("runners", name)
    except NotFoundError:
        return None


def shipped_runners() -> list[str]:
    """Return the plugin keys of all shipped runners, sorted."""
    names = {path.parent.name for place in _PLACES for path in (place / "runners").glob("*/hostler.yaml")}
    return sorted(f"hostler/{name}" for name in names)
