"""The events of a task of an A2A agent, as JSON objects of version 1.0 of the protocol. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from hostler_sdk.services import (
    Ask,
    Done,
    Item,
    Note,
    ServiceFailure,
    Session,
    Task,
    Text,
    Whole,
    asked,
    object_in,
    text_in,
)

SESSION = "context_id"
QUESTION = "answer"
"""The id of the call that asks for the input of a task."""
ENDED = {"FAILED": "failed", "REJECTED": "was rejected", "CANCELED": "was cancelled"}
_AT_WORK = frozenset({"SUBMITTED", "WORKING", "UNSPECIFIED", ""})


class TaskEvents:
    """One message to an agent: it answers with a message, or with a task and its artifacts."""

    def __init__(self, task_id: str = "", context_id: str = "") -> None:
        self.task_id = task_id
        self.context_id = context_id
        self.is_done = False
        self._artifacts: dict[str, str] = {}

    def take(self, event: Mapping[str, Any]) -> Iterator[Item]:
        """Return the items of one event: `task`, `message`, `statusUpdate` or `artifactUpdate`."""
        if message := object_in(event, "message"):
            yield from self._named("", text_in(message, "contextId"))
            yield from self._text(message)
            yield from self._done()
        elif task := object_in(event, "task"):
            yield from self.take_task(task)
        elif update := object_in(event, "statusUpdate"):
            yield from self._named(text_in(update, "taskId"), text_in(update, "contextId"))
            yield from self._status(object_in(update, "status"))
        elif update := object_in(event, "artifactUpdate"):
            yield from self._named(text_in(update, "taskId"), text_in(update, "contextId"))
            yield from self._artifact(object_in(update, "artifact"), is_more=update.get("append") is True)
        else:
            yield Note("the agent sent an event of an unknown kind")

    def take_task(self, task: Mapping[str, Any]) -> Iterator[Item]:
        """Return the items of a whole task."""
        yield from self._named(text_in(task, "id"), text_in(task, "contextId"))
        for artifact in _listed(task, "artifacts"):
            yield from self._artifact(artifact, is_more=False)
        yield from self._status(object_in(task, "status"))

    def _named(self, task_id: str, context_id: str) -> Iterator[Item]:
        if task_id and task_id != self.task_id:
            self.task_id = task_id
            yield Task(task_id)
        if context_id and context_id != self.context_id:
            self.context_id = context_id
            yield Session(SESSION, context_id)

    def _status(self, status: Mapping[str, Any]) -> Iterator[Item]:
        state = text_in(status, "state").removeprefix("TASK_STATE_")
        message = object_in(status, "message")
        said = "".join(_texts(message))
        match state:
            case "COMPLETED":
                if said and not self._artifacts:
                    yield Text(said)
                yield from self._done()
            case "INPUT_REQUIRED":
                question = asked(QUESTION, said)
                yield Ask((question,), {"task_id": self.task_id, SESSION: self.context_id})
                yield from self._done()
            case "AUTH_REQUIRED":
                raise ServiceFailure(
                    "auth_error",
                    f"the agent wants an authorization of its own: {said or 'it does not say which':.300}; "
                    "give it that, and ask again",
                )
            case _ if state in ENDED:
                why = said or "it gives no reason"
                raise ServiceFailure(
                    "service_error", f"the agent's task {ENDED[state]}: {why:.300}; look at it there"
                )
            case _ if said:
                yield Note(f"the agent is at work: {said:.300}", "info")
            case _ if state not in _AT_WORK:
                yield Note(f"the agent's task has an unknown state: {state:.60}")

    def _done(self) -> Iterator[Item]:
        self.is_done = True
        yield Done()

    def _artifact(self, artifact: Mapping[str, Any], *, is_more: bool) -> Iterator[Item]:
        """Return the text of an artifact: a new one, more of it, or one that replaces it."""
        name = text_in(artifact, "artifactId")
        pieces: list[str] = []
        for item in self._text(artifact):
            if isinstance(item, Text):
                pieces.append(item.text)
            else:
                yield item
        said = "".join(pieces)
        known = self._artifacts.get(name)
        if known == said and not is_more:
            return
        if known is not None and not is_more:
            self._artifacts[name] = said
            yield Whole("\n\n".join(text for text in self._artifacts.values() if text))
            return
        if known is None and said and any(self._artifacts.values()):
            yield Text("\n\n")
        self._artifacts[name] = (known or "") + said
        if said:
            yield Text(said)

    def _text(self, holder: Mapping[str, Any]) -> Iterator[Item]:
        for text in _texts(holder):
            yield Text(text)
        for part in _listed(holder, "parts"):
            if "raw" in part or "url" in part:
                name = text_in(part, "filename") or text_in(part, "url") or "without a name"
                yield Note(f"the agent sent a file, which is not passed on: {name:.200}", "warning")


def _texts(holder: Mapping[str, Any]) -> Iterator[str]:
    """Return the texts of parts; data is shown as JSON."""
    for part in _listed(holder, "parts"):
        if text := text_in(part, "text"):
            yield text
        elif "data" in part:
            yield msgspec.json.encode(_plain(part["data"])).decode()


def _plain(value: Any) -> Any:
    """Return data with whole numbers as they were written: the library makes floats of all."""
    match value:
        case float() if value.is_integer() and abs(value) < 2**53:
            return int(value)
        case list():
            return [_plain(one) for one in value]
        case dict():
            return {name: _plain(one) for name, one in value.items()}
        case _:
            return value


def _listed(holder: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = holder.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
