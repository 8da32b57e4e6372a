"""What was found in a LangBot configuration, and what became of each item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hostler.domain.record import Record

Kind = Literal[
    "pipeline",
    "agent",
    "model",
    "provider",
    "mcp server",
    "plugin",
    "skill",
    "knowledge base",
    "bot",
    "webhook",
    "api key",
    "table",
]
Outcome = Literal["imported", "changed", "unchanged", "kept", "skipped"]
"""`changed`: imported, and the notes say what is different from LangBot. `unchanged`: the configuration has
this very entry. `kept`: it has another entry of this name, which stays. `skipped`: nothing was made of it."""
MAX_NOTES = 40
"""Notes of one item; more have no reader."""
MAX_NOTE_CHARS = 600


class Row(Record):
    """One stored thing of LangBot. `damage`: why it cannot be used; "" if it can be."""

    kind: Kind
    values: Mapping[str, Any]
    damage: str = ""

    @property
    def name(self) -> str:
        """Its name in LangBot, or what else identifies it."""
        for key in ("name", "plugin_name", "uuid"):
            value = self.values.get(key)
            if isinstance(value, str) and value.strip():
                return value
        return f"{self.kind} without a name"

    @property
    def uuid(self) -> str:
        """Its id in LangBot; "" if it has none."""
        value = self.values.get("uuid")
        return value if isinstance(value, str) else ""


class Source(Record):
    """What was read. `path`: the file that it was read from. `plugins`: LangBot's folder of plugins."""

    path: str
    rows: Sequence[Row]
    plugins: str | None = None


@dataclass(slots=True)
class Item:
    """What became of one item. `entry`: the entry of the configuration, like `agents support`."""

    kind: Kind
    name: str
    uuid: str = ""
    outcome: Outcome = "imported"
    entry: str | None = None
    enabled: bool = True
    """False: an agent that needs what its notes name; it is imported with `enabled: false`."""
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Add a note, unless it has that one or too many."""
        text = text if len(text) <= MAX_NOTE_CHARS else text[: MAX_NOTE_CHARS - 1] + "…"
        if text not in self.notes and len(self.notes) < MAX_NOTES:
            self.notes.append(text)

    def change(self, text: str) -> None:
        """Note a difference from LangBot."""
        self.note(text)
        if self.outcome == "imported":
            self.outcome = "changed"

    def disable(self, text: str) -> None:
        """Note what is missing before the agent can run."""
        self.enabled = False
        self.change(text)

    def skip(self, text: str) -> None:
        """Note why nothing is made of it."""
        self.outcome, self.entry = "skipped", None
        self.note(text)

    @property
    def is_whole(self) -> bool:
        """Whether it is in the configuration and can be used."""
        return self.outcome in ("imported", "changed", "unchanged") and self.enabled


class Entry(Record):
    """An entry to add to the configuration: the section, its name there, and its fields."""

    section: Literal["plugins", "models", "tools", "agents"]
    name: str
    value: dict[str, Any]
    item: Item
