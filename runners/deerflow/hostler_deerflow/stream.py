"""The stream of a DeerFlow run: that of LangGraph, with questions and with tasks of other agents. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hostler_sdk.services import Item, LangGraphStream, Note, ServiceFailure, text_in, text_of

MAX_FAILED_TASKS = 5
"""Tasks named in one message."""
_FAILED = frozenset({"task_failed", "task_timed_out"})


class DeerFlowStream(LangGraphStream):
    """One run. A question that the agent asks the user is its answer."""

    title = "DeerFlow"

    def __init__(self) -> None:
        super().__init__()
        self._failed: list[str] = []

    def answer_in(self, message: Mapping[str, Any]) -> str:
        """Return the text of a message of the agent, or of its question."""
        if message.get("type") == "tool" and message.get("name") == "ask_clarification":
            return text_of(message.get("content"))
        return super().answer_in(message)

    def custom(self, data: Any) -> Iterator[Item]:
        """Note the tasks that failed."""
        for event in data if isinstance(data, list) else [data]:
            if isinstance(event, dict) and event.get("type") in _FAILED:
                yield from self._task_failed(event)

    def _task_failed(self, event: Mapping[str, Any]) -> Iterator[Item]:
        why = text_in(event, "error") or ("out of time" if event["type"] == "task_timed_out" else "no reason")
        text = f"{text_in(event, 'task_id') or 'a task'}: {why:.200}"
        if text not in self._failed and len(self._failed) < MAX_FAILED_TASKS:
            self._failed.append(text)
            yield Note(f"a task of DeerFlow failed: {text}", "warning")

    def sum_up(self) -> Iterator[Item]:
        """Return the whole answer. Raises ServiceFailure if there is none because tasks failed."""
        if self._failed and not self.answer and not self._streamed:
            raise ServiceFailure(
                "service_error",
                f"DeerFlow gave no answer, since its tasks failed ({'; '.join(self._failed):.600}); look at "
                "this run there",
            )
        yield from super().sum_up()
