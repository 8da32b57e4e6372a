"""The stream of a run of a graph, which may end with questions. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from hostler_langgraph.interrupts import asked_by
from hostler_sdk.services import Ask, Item, LangGraphStream

MESSAGES = "messages"


class GraphStream(LangGraphStream):
    """One run on a thread. `output` is the key of the state that has the answer."""

    title = "the LangGraph server"

    def __init__(self, thread: str = "", output: str = MESSAGES) -> None:
        super().__init__()
        self._thread = thread
        self._output = output

    def answer_in(self, message: Mapping[str, Any]) -> str:
        """Return the text of a message if the answer is a message."""
        return super().answer_in(message) if self._output == MESSAGES else ""

    def update(self, node: str, values: Mapping[str, Any]) -> None:
        """Take the answer if it is no message."""
        if self._output != MESSAGES and values.get(self._output) is not None:
            value = values[self._output]
            self.answer = value if isinstance(value, str) else msgspec.json.encode(value).decode()

    def sum_up(self) -> Iterator[Item]:
        """Return the answer, the tokens, and what the graph asks."""
        yield from super().sum_up()
        if self.interrupts:
            calls, waiting = asked_by(self.interrupts)
            yield Ask(calls, {"thread_id": self._thread, "interrupts": waiting})
