"""Sum of the tokens of several answers. Pure."""

from __future__ import annotations

from hostler_sdk.types import Usage

_FIELDS = ("input_tokens", "output_tokens", "total_tokens", "cached_tokens", "reasoning_tokens")


class UsageSum:
    """Adds up usages. A number that is unknown for one answer is unknown for the sum."""

    def __init__(self) -> None:
        self._sums: dict[str, int | None] | None = None

    def add(self, usage: Usage | None) -> None:
        """Add the usage of one answer."""
        counts = {name: None if usage is None else getattr(usage, name) for name in _FIELDS}
        if self._sums is None:
            self._sums = counts
            return
        for name in _FIELDS:
            known, new = self._sums[name], counts[name]
            self._sums[name] = None if known is None or new is None else known + new

    @property
    def total(self) -> Usage | None:
        """The sum, or None if no number is known."""
        if self._sums is None or not any(value is not None for value in self._sums.values()):
            return None
        return Usage(**self._sums)
