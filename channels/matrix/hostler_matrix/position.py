"""What the channel keeps from one opening to the next: where it is, and what is yet to be done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MAX_JOINS = 50
MAX_TOLD = 150
"""Rooms in each list; the host keeps 64 KiB of a channel."""


@dataclass(slots=True)
class Position:
    """`since`: the position of `/sync`; None before the first. `joins`: invitations that are to be accepted.

    `told`: encrypted rooms in which the channel has said that it cannot read there.
    """

    since: str | None = None
    joins: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, state: Any) -> Position:
        """Return the position that was kept."""
        kept = state if isinstance(state, dict) else {}
        since = kept.get("since")
        return cls(
            since=since if isinstance(since, str) else None,
            joins=_texts(kept.get("joins")),
            told=_texts(kept.get("told")),
        )

    def state(self) -> dict[str, Any]:
        """Return it as it is kept."""
        return {"since": self.since, "joins": list(self.joins), "told": list(self.told)}

    def join(self, room_id: str) -> None:
        """Note an invitation that is to be accepted; over the bound the oldest is left."""
        if room_id not in self.joins:
            self.joins = [*self.joins, room_id][-MAX_JOINS:]

    def tell(self, room_id: str) -> None:
        """Note that the people of a room were told."""
        self.told = [*self.told, room_id][-MAX_TOLD:]


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
