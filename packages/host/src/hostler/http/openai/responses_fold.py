"""A run as one response: its events, numbered as their frames, and its object. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from hostler.domain.record import Record
from hostler.domain.run_events import (
    Asked,
    Completed,
    ContentAdded,
    Failed,
    FileMade,
    MessageEnded,
    MessageStarted,
    ReasoningAdded,
    ReasoningEnded,
    RunEvent,
    TextAdded,
    ToolCalled,
    ToolDropped,
    ToolReturned,
)
from hostler.http.dialects.answers import answer_id, call_id_of
from hostler.http.dialects.files import artifact_of
from hostler.http.dialects.fold import CLIENT_TOOLS, Answer, Ending, Fold, Waiting
from hostler.http.dialects.notices import where_to_decide
from hostler.http.openai.dialect import error_of
from hostler.http.openai.responses_items import (
    annotation_of,
    approval_id,
    arguments_text,
    json_text,
    split_tool,
    usage_of,
)
from hostler.http.openai.responses_reasoning import ReasoningItems
from hostler.http.openai.responses_types import (
    FunctionCall,
    IncompleteDetails,
    ItemStatus,
    McpApprovalRequest,
    McpCall,
    OutputItem,
    OutputMessage,
    OutputText,
    Response,
    ResponseError,
    ResponseStatus,
    ToolError,
)
from hostler.http.problems import Problem
from hostler_protocol.content import ContentElement, Usage

PREFIX = "resp"
ENDS_AT = CLIENT_TOOLS | {"approval"}
"""Where a response ends, because the next request has what it waits for."""
WHOLE_ENDS_AT = ENDS_AT | {"form", "confirmation", "choice", "in_doubt", "budget"}
"""Where one that is not streamed is answered, too: a client that waited for people would run into its timeout
and send its request again."""
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Finish reasons of a run -> reasons of an incomplete response."""
_CallEvent = ToolCalled | ToolReturned | ToolDropped | Asked


class ResponseFacts(Record):
    """What a response says besides the results of its run. `response` has its fields, and no output.

    `caller_tools`: the names of the tools that the client carries out.
    """

    answer: Answer
    response: Response
    caller_tools: frozenset[str] = frozenset()


@dataclass(slots=True)
class _OpenMessage:
    """A message under way: its item, where that is in the output, and the pieces of its text."""

    item: OutputMessage
    index: int
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        text = "".join(self.pieces)
        self.pieces = [text]
        return text


class ResponseFold(Fold):
    """Writes one answer as the events of a response, and keeps the response itself.

    `whole`: the response is answered at once, so it also ends where people are asked.
    """

    def __init__(self, facts: ResponseFacts, *, whole: bool = False) -> None:
        self.ends_at = WHOLE_ENDS_AT if whole else ENDS_AT
        self.ended = False
        """Whether the response is over, so that `response` is final."""
        self._facts = facts
        self._run_id = facts.answer.run_id
        self._number = -1
        self._output: list[OutputItem] = []
        self._messages: dict[int, _OpenMessage] = {}
        self._reasoning = ReasoningItems(facts.answer, self._output, self._event)
        self._host_calls: dict[str, int] = {}
        """Key of a call that the host carries out -> its place in the output, until it has returned."""
        self._announced: dict[str, ToolCalled] = {}
        """Calls of the caller's tools that have not been put to it yet."""
        self._asked: dict[str, Asked] = {}
        """Key of a call -> how it was put to people or the client, also before this answer."""
        self._shown_requests: set[str] = set()
        self._files: list[ContentElement] = []
        self._state = msgspec.structs.replace(facts.response, id=answer_id(PREFIX, facts.answer))

    # -- what it has become --------------------------------------------------------------------------------

    def response(self, status: ResponseStatus | None = None) -> Response:
        """Return the response as it is so far. `status`: instead of what the results say."""
        for message in self._messages.values():
            message.item.content[0].text = message.text
        self._reasoning.keep()
        return msgspec.structs.replace(
            self._state, output=list(self._output), status=status or self._state.status
        )

    # -- frames --------------------------------------------------------------------------------------------

    def begin(self) -> list[bytes]:
        """Return the frames before any result."""
        return [
            self._event("response.created", response=self._state),
            self._event("response.in_progress", response=self._state),
        ]

    def before(self, sequence: int, event: RunEvent) -> None:
        """Keep what was asked in an answer before: the outcome of an approved call refers to it."""
        if isinstance(event, Asked) and event.key is not None:
            self._asked[event.key] = event

    def take(self, sequence: int, event: RunEvent) -> list[bytes]:
        """Return the frames of an event."""
        match event:
            case MessageStarted() | TextAdded() | ContentAdded() | MessageEnded():
                return self._take_message(event)
            case ReasoningAdded(key=key, text=text):
                return self._reasoning.more(key, text)
            case ReasoningEnded():
                return self._reasoning.end("completed")
            case ToolCalled() | ToolReturned() | ToolDropped() | Asked():
                return self._take_call(sequence, event)
            case FileMade():
                self._files.append(artifact_of(event))
        return []

    def _take_message(self, event: MessageStarted | TextAdded | ContentAdded | MessageEnded) -> list[bytes]:
        match event:
            case MessageStarted(key=key):
                return self._begin_message(key)
            case TextAdded(key=key, text=text):
                message = self._messages[key]
                message.pieces.append(text)
                return [self._of_text("response.output_text.delta", message, delta=text, logprobs=[])]
            case ContentAdded(key=key, element=element):
                return self._annotate(self._messages[key], element)
            case MessageEnded(key=key, incomplete=incomplete):
                return self._end_message(key, "incomplete" if incomplete else "completed")

    def end(self, ending: Ending, usage: Usage | None) -> list[bytes]:
        """Return the frames that end the response."""
        self.ended = not isinstance(ending, Waiting) or any(
            asked.request.kind in ENDS_AT for asked in ending.asked
        )
        frames = self._reasoning.end("incomplete")
        for key in list(self._messages):
            frames += self._end_message(key, "incomplete")
        for index in list(self._host_calls.values()):
            frames += self._end_host_call(index, "incomplete")
        if self._files:
            frames += self._note(f"msg_{self._run_id}_files", "")
        self._state = msgspec.structs.replace(self._state, usage=usage_of(usage), **self._outcome(ending))
        name = {"completed": "completed", "failed": "failed"}.get(self._state.status, "incomplete")
        return [*frames, self._event(f"response.{name}", response=self.response())]

    def refuse(self, problem: Problem) -> list[bytes]:
        """Return an `error` event. It has the number of the event before it, after which a reader goes on."""
        error = error_of(problem)
        data = {"type": "error", "sequence_number": max(self._number, 0), "message": error.message}
        return [_frame("error", {**data, "code": error.code, "param": error.param})]

    def _outcome(self, ending: Ending) -> dict[str, Any]:
        match ending:
            case Completed(finish_reason=reason) if reason in _INCOMPLETE:
                details = IncompleteDetails(reason=_INCOMPLETE[reason])  # type: ignore[arg-type]
                return {"status": "incomplete", "incomplete_details": details}
            case Completed():
                return {"status": "completed"}
            case Failed(code="cancelled"):
                return {"status": "cancelled"}
            case Failed(code=code, error=error):
                return {"status": "failed", "error": ResponseError(message=error or code, type=code)}
            case Waiting():
                return {"status": "completed" if self.ended else "in_progress"}

    # -- messages ------------------------------------------------------------------------------------------

    def _begin_message(self, key: int) -> list[bytes]:
        item = OutputMessage(id=f"msg_{self._run_id}_{key}", status="in_progress", content=[])
        frames = [self._add(item)]
        item.content.append(OutputText(annotations=[]))
        message = self._messages[key] = _OpenMessage(item, len(self._output) - 1)
        frames.append(self._of_text("response.content_part.added", message, part=item.content[0]))
        for element in self._files:
            frames += self._annotate(message, element)
        self._files = []
        return frames

    def _annotate(self, message: _OpenMessage, element: ContentElement) -> list[bytes]:
        annotations = message.item.content[0].annotations
        annotation = annotation_of(element, self._run_id, len(message.text))
        if annotation is None or annotation in annotations:
            return []
        annotations.append(annotation)
        number = len(annotations) - 1
        name = "response.output_text.annotation.added"
        return [self._of_text(name, message, annotation_index=number, annotation=annotation)]

    def _end_message(self, key: int, status: ItemStatus) -> list[bytes]:
        message = self._messages.pop(key)
        item, part = message.item, message.item.content[0]
        part.text, item.status = message.text, status
        return [
            self._of_text("response.output_text.done", message, text=part.text, logprobs=[]),
            self._of_text("response.content_part.done", message, part=part),
            self._event("response.output_item.done", output_index=message.index, item=item),
        ]

    def _note(self, item_id: str, text: str) -> list[bytes]:
        """Return a message that is the host's, with the files that have no other."""
        item = OutputMessage(id=item_id, status="in_progress", content=[], phase="commentary")
        frames = [self._add(item)]
        item.content.append(OutputText(annotations=[]))
        key = -len(self._output)
        message = self._messages[key] = _OpenMessage(item, len(self._output) - 1)
        frames.append(self._of_text("response.content_part.added", message, part=item.content[0]))
        for element in self._files:
            frames += self._annotate(message, element)
        self._files = []
        if text:
            message.pieces.append(text)
            frames.append(self._of_text("response.output_text.delta", message, delta=text, logprobs=[]))
        return frames + self._end_message(key, "completed")

    # -- calls ---------------------------------------------------------------------------------------------

    def _take_call(
        self, sequence: int, event: ToolCalled | ToolReturned | ToolDropped | Asked
    ) -> list[bytes]:
        match event:
            case ToolCalled(name=name) if name in self._facts.caller_tools:
                self._announced[event.key] = event
                return []
            case ToolCalled():
                return self._begin_host_call(f"{sequence}", event.key, event.name, event.arguments)
            case ToolReturned():
                return self._returned(sequence, event)
            case ToolDropped(key=key):
                self._announced.pop(key, None)
                return self._drop(key)
            case Asked():
                return self._ask(event)

    def _ask(self, event: Asked) -> list[bytes]:
        asked, frames = event.request, list[bytes]()
        if event.key is not None:
            self._asked[event.key] = event
            self._announced.pop(event.key, None)
            frames += self._drop(event.key)
        item_id = _request_id(self._run_id, event)
        if item_id in self._shown_requests:
            return frames
        self._shown_requests.add(item_id)
        arguments = arguments_text(asked.arguments)
        match asked.kind:
            case "client_tool":
                call_id = call_id_of(self._facts.answer, asked.call_id)
                item = FunctionCall(item_id, call_id, asked.tool_name or "", "", "in_progress")
                frames.append(self._add(item))
                frames += self._arguments("function_call_arguments", arguments)
                item.arguments, item.status = arguments, "completed"
                return [*frames, self._done(item)]
            case "approval":
                server, name = split_tool(asked.tool_name or "")
                request = McpApprovalRequest(item_id, server, name, arguments)
                return [*frames, self._add(request), self._done(request)]
            case _:
                return frames + self._note(item_id, where_to_decide(self._run_id, asked))

    def _begin_host_call(self, number: str, key: str, tool: str, arguments: Any) -> list[bytes]:
        server, name = split_tool(tool)
        asked = self._asked.get(key)
        item = McpCall(
            id=f"mcp_{self._run_id}_{number}",
            server_label=server,
            name=name,
            arguments="",
            status="in_progress",
            approval_request_id=None if asked is None else _request_id(self._run_id, asked),
        )
        frames = [self._add(item)]
        index = self._host_calls[key] = len(self._output) - 1
        text = arguments_text(arguments)
        frames.append(self._event("response.mcp_call.in_progress", output_index=index, item_id=item.id))
        frames += self._arguments("mcp_call_arguments", text)
        item.arguments = text
        return frames

    def _returned(self, sequence: int, event: ToolReturned) -> list[bytes]:
        asked = self._asked.get(event.key)
        if asked is not None and asked.request.kind == "client_tool":
            return []  # its result is an item of the input
        announced = self._announced.pop(event.key, None)
        frames: list[bytes] = []
        if event.key not in self._host_calls:
            arguments = announced.arguments if announced else asked.request.arguments if asked else None
            frames += self._begin_host_call(f"{sequence}", event.key, event.name, arguments)
        item = self._output[self._host_calls[event.key]]
        assert isinstance(item, McpCall)
        if event.error is not None:
            item.error = ToolError(content=event.error)
            return frames + self._end_host_call(self._host_calls[event.key], "failed")
        item.output = json_text(event.result)
        return frames + self._end_host_call(self._host_calls[event.key], "completed")

    def _drop(self, key: str) -> list[bytes]:
        """End the item of a call that the host does not carry out now."""
        index = self._host_calls.get(key)
        return [] if index is None else self._end_host_call(index, "incomplete")

    def _end_host_call(self, index: int, status: Any) -> list[bytes]:
        item = self._output[index]
        assert isinstance(item, McpCall)
        item.status = status
        self._host_calls = {key: at for key, at in self._host_calls.items() if at != index}
        frames: list[bytes] = []
        if status != "incomplete":
            frames.append(self._event(f"response.mcp_call.{status}", output_index=index, item_id=item.id))
        return [*frames, self._event("response.output_item.done", output_index=index, item=item)]

    # -- events --------------------------------------------------------------------------------------------

    def _add(self, item: OutputItem) -> bytes:
        """Append an item to the output."""
        self._output.append(item)
        return self._event("response.output_item.added", output_index=len(self._output) - 1, item=item)

    def _done(self, item: OutputItem) -> bytes:
        """End the item that was appended last."""
        return self._event("response.output_item.done", output_index=len(self._output) - 1, item=item)

    def _arguments(self, name: str, text: str) -> list[bytes]:
        """Return the arguments of the item that was appended last."""
        index = len(self._output) - 1
        item_id = self._output[index].id
        return [
            self._event(f"response.{name}.delta", output_index=index, item_id=item_id, delta=text),
            self._event(f"response.{name}.done", output_index=index, item_id=item_id, arguments=text),
        ]

    def _of_text(self, name: str, message: _OpenMessage, **fields: Any) -> bytes:
        return self._event(
            name, output_index=message.index, item_id=message.item.id, content_index=0, **fields
        )

    def _event(self, name: str, **fields: Any) -> bytes:
        self._number += 1
        return _frame(name, {"type": name, "sequence_number": self._number, **fields})


def _frame(name: str, data: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(data))


def _request_id(run_id: str, asked: Asked) -> str:
    """Return the id of the item that asks: for an approval with the digest of what it shows."""
    request = asked.request
    match request.kind:
        case "approval":
            return approval_id(run_id, request.call_id, request.args_hash)
        case "client_tool":
            return f"fc_{run_id}_{request.call_id}"
        case _:
            return f"msg_{run_id}_{request.call_id}_{request.args_hash or 'asked'}"[:200]
