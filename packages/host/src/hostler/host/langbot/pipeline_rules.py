"""The parts of a LangBot pipeline that are rules of its chats, and not settings of its runner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hostler.domain.agents import MAX_DEBOUNCE_SECONDS
from hostler.host.langbot.items import Item

STAGES = ("trigger", "safety", "output")
DEFAULTS: Mapping[str, Any] = {
    "trigger.group-respond-rules.at": True,
    "trigger.group-respond-rules.prefix": ["ai"],
    "trigger.access-control.mode": "blacklist",
    "trigger.message-aggregation.delay": 1.5,
    "trigger.misc.combine-quote-message": True,
    "safety.content-filter.scope": "all",
    "safety.content-filter.check-sensitive-words": True,
    "safety.rate-limit.window-length": 60,
    "safety.rate-limit.limitation": 60,
    "safety.rate-limit.strategy": "drop",
    "output.long-text-processing.threshold": 1000,
    "output.long-text-processing.strategy": "none",
    "output.misc.exception-handling": "show-hint",
    "output.misc.failure-hint": "Request failed.",
    "output.misc.at-sender": True,
    "output.misc.quote-origin": True,
    "output.misc.hide-exception": True,
}
"""What LangBot sets by itself; all else is false, empty or 0. Only what differs was chosen."""
_EMPTY: tuple[Any, ...] = (None, False, "", 0, [], {})


def debounce_of(config: Mapping[str, Any], item: Item) -> float | None:
    """Return the seconds for which LangBot collected messages of one person; None: it did not."""
    found = _at(config, "trigger", "message-aggregation")
    if not isinstance(found, Mapping) or found.get("enabled") is not True:
        return None
    delay = found.get("delay", DEFAULTS["trigger.message-aggregation.delay"])
    if (
        isinstance(delay, bool)
        or not isinstance(delay, int | float)
        or not 0 <= delay <= MAX_DEBOUNCE_SECONDS
    ):
        item.change("trigger.message-aggregation.delay is no time of at most a minute, and is left out")
        return None
    return float(delay)


def removes_think(config: Mapping[str, Any]) -> bool:
    """Whether the pipeline left out `<think>` parts."""
    misc = _at(config, "output", "misc")
    return isinstance(misc, Mapping) and misc.get("remove-think") is True


def left_out(config: Mapping[str, Any]) -> list[str]:
    """Return the places of rules that differ from LangBot's own and have no counterpart in an agent."""
    handled = ("trigger.message-aggregation.", "output.misc.remove-think")
    return [
        place
        for stage in STAGES
        for place, value in _flat(config.get(stage), stage, 0)
        if not place.startswith(handled)
        and value not in _EMPTY
        and (place not in DEFAULTS or value != DEFAULTS[place])
    ]


def _at(config: Mapping[str, Any], stage: str, group: str) -> Any:
    found = config.get(stage)
    return found.get(group) if isinstance(found, Mapping) else None


def _flat(value: Any, place: str, depth: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and depth < 3:
        for name, inner in value.items():
            yield from _flat(inner, f"{place}.{name}", depth + 1)
    else:
        yield place, value
