"""Results of a plugin's run, as results of the protocol. Pure.

Plugins of LangBot stream in two ways that the wire does not tell apart: chunks that are pieces, and chunks
that each repeat the whole text so far. Many end without a completed message, since LangBot shows the last
chunk. `RunTranslation` follows both, and completes what was only streamed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hostler_langbot.messages import ROLES, content_in, text_in, usage_in
from hostler_sdk import InvalidArgument, Result, failed, log
from hostler_sdk.errors import writable
from hostler_sdk.results import LogLevel
from hostler_sdk.types import Usage

TERMINAL = frozenset({"run.completed", "run.failed"})
REPEATED_CHARS = 16
"""A text of so many characters that is repeated at the start of the next chunk is no coincidence: from then
on the message's chunks are the whole text each."""
MAX_STREAMED_CHARS = 4 * 1024 * 1024
"""Text of one streamed message; a result has at most 1 MiB, so that a longer one could not be completed."""
MAX_LOG_CHARS = 65_536
MAX_QUESTION_CHARS = 2_000
"""Text of a question to people, in the error of the run that asked it."""
_PASSED = frozenset(
    {"tool.call.started", "tool.call.completed", "state.updated", "artifact.created", "action.requested"}
)


class StreamedMessage:
    """The message that is being streamed."""

    def __init__(self, message_id: str | None) -> None:
        self.message_id = message_id
        self.parts: list[dict[str, Any]] = []
        """Elements that are no text."""
        self.final = False
        self._pieces: list[str] = []
        self._length = 0
        self._shown = ""
        self._last = ""
        self._repeats: bool | None = None
        """Whether each chunk is the whole text; None: not yet known."""
        self._certain = False

    @property
    def text(self) -> str:
        """The text so far."""
        return self._last if self._repeats else "".join(self._pieces)

    def add(self, text: str, whole: str | None) -> str:
        """Take the text of a chunk, and the whole text if the chunk has that as well. Return what is new.

        Raises InvalidArgument for a text over MAX_STREAMED_CHARS.
        """
        if whole is not None and whole.endswith(text):
            self._repeats, self._certain, text = True, True, whole
        extends = bool(self._last) and text.startswith(self._last)
        if self._pieces and not self._certain:
            self._repeats = extends and self._repeats is not False
            self._certain = self._repeats and len(self._last) >= REPEATED_CHARS
        self._last = text
        if not self._certain:
            self._length += len(text)
            self._pieces.append(text)
        if max(self._length, len(text)) > MAX_STREAMED_CHARS:
            raise InvalidArgument(f"a streamed message has over {MAX_STREAMED_CHARS:,} characters")
        if not self._repeats:
            self._shown += text
            return text
        if not text.startswith(self._shown):
            return ""  # the text was replaced: the completed message shows it
        new = text[len(self._shown) :]
        self._shown = text
        return new


class RunTranslation:
    """Translates the results of one run, in order."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.ended = False
        """Whether the last result ends the run."""
        self._streamed: StreamedMessage | None = None
        self._unknown: set[str] = set()

    def take(self, data: Any) -> list[Result]:
        """Return the results of one item of the stream."""
        if self.ended:
            return []
        if not isinstance(data, Mapping) or not isinstance(data.get("type"), str):
            return [log("the plugin sent a result without a type; it is left out", "warning")]
        if data.get("run_id") not in (self.run_id, None):
            return [log("the plugin sent a result of another run; it is left out", "warning")]
        kind, payload = data["type"], data.get("data")
        if not isinstance(payload, Mapping):
            return [log(f"{kind[:100]}: its data is no object; the result is left out", "warning")]
        try:
            return self._results(kind, payload, usage_in(data.get("usage")))
        except (InvalidArgument, TypeError) as error:  # TypeError: values that JSON does not carry
            return [log(writable(f"{kind[:100]} is left out: {error}")[:MAX_LOG_CHARS], "warning")]

    def finish(self) -> list[Result]:
        """Return what is still to be said when the stream ends: the message that was only streamed."""
        return [] if self.ended else self._complete()

    def _results(self, kind: str, data: Mapping[str, Any], usage: Usage | None) -> list[Result]:
        match kind:
            case "message.delta":
                return self._delta(data.get("chunk"))
            case "message.completed":
                return self._message(data, usage)
            case "run.completed":
                return self._completed(data, usage)
            case "run.failed":
                self.ended = True
                fields = {name: data[name] for name in ("code", "error", "retryable") if name in data}
                return [Result(kind, fields, usage)]
            case "processor.log":
                return [_log_of(data)]
        return self._passed(kind, data, usage) if kind in _PASSED else self._not_known(kind)

    def _passed(self, kind: str, data: Mapping[str, Any], usage: Usage | None) -> list[Result]:
        if kind == "action.requested" and data.get("action") == "interaction.requested":
            return self._asked(data.get("payload"))
        return [Result(kind, _without_none(data), usage)]

    def _asked(self, question: Any) -> list[Result]:
        """Return the end of a run that waits for an answer, which no later run could take to it."""
        results = self._complete()
        self.ended = True
        known = question if isinstance(question, Mapping) else {}
        text = str(known.get("fallback_text") or known.get("title") or "it has no text")[:MAX_QUESTION_CHARS]
        error = f"the plugin asks people a question, and plugins of LangBot get no answers here: {text}"
        return [*results, failed("runner.error", writable(error))]

    def _message(self, data: Mapping[str, Any], usage: Usage | None) -> list[Result]:
        self._streamed = None
        message = _message_of(data.get("message"))
        results = [Result("message.completed", {"message": message}, usage)] if message is not None else []
        if data.get("file_ids"):
            results.append(log("files of a box cannot be sent here; they are left out", "warning"))
        return results

    def _not_known(self, kind: str) -> list[Result]:
        if kind in self._unknown or len(self._unknown) >= 20:
            return []
        self._unknown.add(kind)
        return [log(f"results of the type {kind[:100]!r} are not known here; they are left out", "warning")]

    def _delta(self, chunk: Any) -> list[Result]:
        if not isinstance(chunk, Mapping):
            raise InvalidArgument("it has no chunk")
        found = content_in(chunk.get("content"))
        text, whole = text_in(found), chunk.get("all_content")
        parts = [one for one in found if one["type"] != "text"] if isinstance(found, list) else []
        if not text and not parts:
            if self._streamed is not None:
                self._streamed.final |= chunk.get("is_final") is True
            return []
        id_ = chunk.get("resp_message_id")
        message_id = id_ if isinstance(id_, str) and id_ else None
        results = self._complete() if self._begins_another(message_id, text) else []
        if self._streamed is None:
            self._streamed = StreamedMessage(message_id)
        streamed = self._streamed
        streamed.final |= chunk.get("is_final") is True
        streamed.parts += parts
        new = streamed.add(text, whole if isinstance(whole, str) else None) if text else ""
        content: Any = [*([{"type": "text", "text": new}] if new else []), *parts] if parts else new
        if content:
            piece = {"role": "assistant", "content": content} | _named(streamed.message_id)
            results.append(Result("message.delta", {"chunk": piece}))
        return results

    def _begins_another(self, message_id: str | None, text: str) -> bool:
        now = self._streamed
        if now is None:
            return False
        if message_id is not None and now.message_id is not None and message_id != now.message_id:
            return True
        return now.final and not text.startswith(now.text)

    def _completed(self, data: Mapping[str, Any], usage: Usage | None) -> list[Result]:
        message = _message_of(data.get("message"))
        if message is not None:
            self._streamed = None
        results = self._complete()
        self.ended = True
        reason = data.get("finish_reason")
        fields: dict[str, Any] = {"finish_reason": reason if isinstance(reason, str) and reason else "stop"}
        return [*results, Result("run.completed", fields | ({"message": message} if message else {}), usage)]

    def _complete(self) -> list[Result]:
        streamed, self._streamed = self._streamed, None
        if streamed is None or not (streamed.text or streamed.parts):
            return []
        text = [{"type": "text", "text": streamed.text}] if streamed.text else []
        content: Any = [*text, *streamed.parts] if streamed.parts else streamed.text
        message = {"role": "assistant", "content": content} | _named(streamed.message_id)
        return [Result("message.completed", {"message": message})]


def _log_of(data: Mapping[str, Any]) -> Result:
    level = data.get("level")
    known: LogLevel = level if level in ("debug", "warning", "error") else "info"
    return log(str(data.get("text", ""))[:MAX_LOG_CHARS], known)


def _named(message_id: str | None) -> dict[str, Any]:
    return {} if message_id is None else {"message_id": message_id}


def _message_of(message: Any) -> dict[str, Any] | None:
    """Return a completed message; None for one that only asks for tools, or says nothing."""
    if message is None:
        return None
    if not isinstance(message, Mapping):
        raise InvalidArgument("its message is no object")
    content = content_in(message.get("content"))
    if not content:
        return None
    role, id_ = message.get("role"), message.get("resp_message_id")
    named = _named(id_ if isinstance(id_, str) and id_ else None)
    return {"role": role if role in ROLES else "assistant", "content": content} | named


def _without_none(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are stated: LangBot's SDK writes null for the others. A null `value` is one."""
    return {name: value for name, value in data.items() if value is not None or name == "value"}
