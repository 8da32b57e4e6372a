"""A console whose text commands nothing, wherever it comes from."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from hostler.cli.terminal_text import harmless


class HarmlessConsole(Console):
    """Rich's console, which also escapes what commands a terminal; Rich lets most of that pass."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as pieces of text; Rich's own commands (colours, cursor) stay."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(harmless(segment.text), segment.style)
