"""Fold an answer into the chunks of one assistant message.

A message has steps. A step ends once a text is complete or a tool has returned, and the next part begins
another: so `reset-step`, which takes back all parts of a step, retracts the text of a superseded attempt and
little else.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from hostler.domain.run_events import (
    ActionWanted,
    Asked,
    Completed,
    ContentAdded,
    Failed,
    FileMade,
    MessageEnded,
    MessageRetracted,
    ReasoningAdded,
    ReasoningEnded,
    RunEvent,
    StateChanged,
    TextAdded,
    ToolCalled,
    ToolDropped,
    ToolReturned,
)
from hostler.http.ai_sdk.asked import APPROVALS, QUESTIONS, about, approval_id_of, call_of, reason_of
from hostler.http.ai_sdk.dialect import DONE, chunk
from hostler.http.ai_sdk.message_facts import MessageFacts
from hostler.http.ai_sdk.parts import Part, drop, given, goes_on_below, holds, output, text_of
from hostler.http.dialects.files import ShownFile, shown_file
from hostler.http.dialects.fold import Ending, Fold, Waiting
from hostler.http.dialects.notices import where_to_decide
from hostler.http.problems import Problem
from hostler_protocol.content import Usage

WAITS_NO_MORE = "this waits no more"
"""The end of what was decided while it was read, or by people whose decisions the reader may not see."""
_FINISH = {"stop", "length", "content-filter", "tool-calls", "error", "other"}


class MessageFold(Fold):
    """One answer as chunks of an assistant message."""

    ends_at = frozenset({"client_tool", "in_doubt", *APPROVALS, *QUESTIONS})
    retracts = True

    def __init__(self, facts: MessageFacts) -> None:
        self._facts = facts
        self._step: list[Part] | None = None
        self._full = False
        """Whether the next part begins a new step."""
        self._texts: dict[int, Part] = {}
        """Key of a message -> its text part, if it has one that is not over."""
        self._thoughts: dict[int, Part] = {}
        """Key of a message -> its part with reasoning, if it has one that is not over."""
        self._numbers = itertools.count(1)
        self._tools: dict[str, ToolCalled] = {}
        """Calls of the message, by key, as they were shown last."""
        self._parts: dict[str, Part] = {}
        """Key of a call -> its part in this answer."""
        self._under_way: set[str] = set()
        """Keys of calls that the run makes without asking, and that have not returned."""
        self._in_doubt: set[str] = set()
        """Keys of calls of which nobody has said yet whether they were made."""
        self._budgets: dict[str, str] = {}
        """The host's id of a request for more budget -> the key of its call."""
        self._unanswered: dict[str, str] = {}
        """Keys of calls in `_of_client` that have no output -> the host's id of the request."""
        self._of_client: set[str] = set()
        """Keys of the calls of this answer that its client makes or answers."""
        self._files: set[str] = set()

    def begin(self) -> list[bytes]:
        """Begin the message, or go on with it."""
        facts = self._facts
        metadata = {"runId": facts.answer.run_id, "conversationId": facts.conversation_id}
        return [chunk("start", messageId=facts.message_id, messageMetadata=metadata)]

    def before(self, sequence: int, event: RunEvent) -> None:
        """Keep in mind the calls that the message has from earlier answers."""
        if sequence <= self._facts.first:
            return  # it is in another message
        if isinstance(event, ToolCalled):
            self._tools[event.key] = event
            self._begin_call(event)
        elif isinstance(event, ToolReturned | ToolDropped):
            self._under_way.discard(event.key)
        elif isinstance(event, Asked) and event.request.kind != "in_doubt":
            self._keep(event)

    def take(self, sequence: int, event: RunEvent) -> list[bytes]:
        """Return the chunks of an event."""
        match event:
            case TextAdded(key=key, text=text):
                chunks = self._text(key, text)
            case ReasoningAdded(key=key, text=text):
                chunks = self._reasoned(key, text)
            case ReasoningEnded(key=key):
                chunks = self._end_reasoning(key)
            case MessageRetracted(key=key, text=text, reasoning=reasoning):
                chunks = self._retract(key, text, reasoning)
            case MessageEnded(key=key):
                chunks = self._end_text(key)
            case ToolCalled():
                chunks = self._called(event)
            case ToolReturned(key=key, result=result, error=error):
                chunks = self._returned(key, result, error)
            case ToolDropped(key=key):
                chunks = self._returned(key, None, "the attempt that made this call was superseded")
            case Asked():
                chunks = self._asked(event)
            case _:
                chunks = self._aside(event)
        return chunks

    def _aside(self, event: RunEvent) -> list[bytes]:
        """Return the chunks of what is neither text nor a call."""
        match event:
            case ContentAdded() | FileMade():
                return self._file(shown_file(event))
            case StateChanged(update=update):
                data = {"scope": update.scope, "key": update.key, "value": update.value}
                return [chunk("data-state", id=f"{update.scope}/{update.key}", data=data, transient=True)]
            case ActionWanted(action=action):
                return [chunk("data-action", data=msgspec.to_builtins(action), transient=True)]
            case _:
                return []

    def end(self, ending: Ending, usage: Usage | None) -> list[bytes]:
        """End the message for now: complete, failed, or waiting for its client."""
        chunks = [found for key in list(self._thoughts) for found in self._end_reasoning(key)]
        chunks += [found for key in list(self._texts) for found in self._end_text(key)]
        chunks += self._end_asked(ending)
        if isinstance(ending, Waiting):  # clients send decisions once each call of the step has an output
            left = self._under_way if _is_all_in_doubt(ending) else self._under_way | self._in_doubt
            chunks += [goes_on_below(key) for key in sorted(left & self._parts.keys())]
        if not isinstance(ending, Waiting) and self._ends_decided():
            chunks += [*([] if self._step is None else [chunk("finish-step")]), chunk("start-step")]
            self._step = []  # clients send a message again as long as its last step is what was decided
        if self._step is not None:
            chunks.append(chunk("finish-step"))
        metadata = {
            "runId": self._facts.answer.run_id,
            "usage": None if usage is None else msgspec.to_builtins(usage),
        }
        match ending:
            case Completed(finish_reason=reason):
                known = reason if reason in _FINISH else "other"
                chunks.append(chunk("finish", finishReason=known, messageMetadata=metadata))
            case Failed(code="cancelled", error=error):
                chunks.append(chunk("abort", reason=error))
            case Failed(code=code, error=error):
                chunks.append(chunk("error", errorText=f"{code}: {error}"))
            case _:
                chunks.append(chunk("finish", finishReason="tool-calls", messageMetadata=metadata))
        return [*chunks, DONE]

    def refuse(self, problem: Problem) -> list[bytes]:
        """Say why the stream ends."""
        return [chunk("error", errorText=problem.detail), DONE]

    # -- parts ------------------------------------------------------------------------------------------

    def _new_part(self, part: Part) -> list[bytes]:
        """Add a part to the step, or to a new one; return what precedes it."""
        chunks: list[bytes] = []
        if self._step is None or self._full:
            if self._step is not None:
                chunks.append(chunk("finish-step"))
            chunks.append(chunk("start-step"))
            self._step, self._full = [], False
        self._step.append(part)
        return chunks

    def _text(self, key: int, text: str) -> list[bytes]:
        part = self._texts.get(key)
        chunks: list[bytes] = []
        if part is None:
            part = self._texts[key] = Part(text_id=self._part_id("text", key))
            chunks = [*self._new_part(part), *part.start()]
        part.text += text
        return [*chunks, part.more(text)]

    def _reasoned(self, key: int, text: str) -> list[bytes]:
        chunks: list[bytes] = []
        part = self._thoughts.get(key)
        if part is None:
            part = self._thoughts[key] = Part(text_id=self._part_id("reasoning", key), kind="reasoning")
            chunks = [*self._new_part(part), *part.start()]
        part.text += text
        return [*chunks, part.more(text)]

    def _part_id(self, kind: str, key: int) -> str:
        return f"{kind}-{self._facts.answer.after}-{key}-{next(self._numbers)}"

    def _end_text(self, key: int) -> list[bytes]:
        part = self._texts.pop(key, None)
        if part is None:
            return []
        part.ended = self._full = True
        return [part.end()] if part.text else []

    def _end_reasoning(self, key: int) -> list[bytes]:
        part = self._thoughts.pop(key, None)
        if part is None:
            return []
        part.ended = True
        return [part.end()]

    def _retract(self, key: int, text: str, reasoning: str) -> list[bytes]:
        """Take back what a superseded attempt said of a message, if that is in the step; else it stays."""
        step = self._step or []
        part, thought = self._texts.get(key), self._thoughts.get(key)
        if part is not None and not holds(step, part):
            chunks = self._end_text(key)
            return [*chunks, *self._text(key, text)] if text else chunks
        has_thought = thought is not None and holds(step, thought)
        if part is None and not has_thought:
            return []
        if part is not None:
            part.text = text
            if not text:
                del self._texts[key]
                drop(step, part)
        if thought is not None and has_thought:
            thought.text = reasoning
            if not reasoning:
                del self._thoughts[key]
                drop(step, thought)
        return [chunk("reset-step"), *(again for one in step for again in one.said_again())]

    def _file(self, file: ShownFile) -> list[bytes]:
        """Show a file once, however often the results name it."""
        if file.identity in self._files:
            return []
        self._files.add(file.identity)
        part = Part([chunk("file", url=file.url, mediaType=file.mime_type, filename=file.name)])
        return [*self._new_part(part), *part.chunks]

    # -- calls ------------------------------------------------------------------------------------------

    def _begin_call(self, event: ToolCalled) -> None:
        if event.name not in self._facts.client_tools:
            self._under_way.add(event.key)

    def _called(self, event: ToolCalled) -> list[bytes]:
        self._begin_call(event)
        if event.name in self._facts.client_tools:  # it is the client's turn once the host asks it
            said = chunk("tool-input-start", toolCallId=event.key, toolName=event.name)
        else:
            said = given(event, dynamic=True, providerExecuted=True)
        return self._call_part(event, said)

    def _call_part(self, called: ToolCalled, said: bytes) -> list[bytes]:
        self._tools[called.key] = called
        part = self._parts[called.key] = Part([said])
        return [*self._new_part(part), said]

    def _returned(self, key: str, result: Any, error: Any) -> list[bytes]:
        if key not in self._tools:
            return []  # its call is in another message
        chunks: list[bytes] = []
        if key in self._under_way and key not in self._parts:  # the answer before ended while it was made
            called = self._tools[key]
            chunks += self._call_part(called, given(called, dynamic=True, providerExecuted=True))
        self._under_way.discard(key)
        self._in_doubt.discard(key)
        self._unanswered.pop(key, None)
        self._full = True
        if error is not None:
            return [*chunks, chunk("tool-output-error", toolCallId=key, errorText=text_of(error))]
        return [*chunks, output(key, result)]

    def _asked(self, event: Asked) -> list[bytes]:
        request, answer = event.request, self._facts.answer
        own = about(answer, request)
        self._under_way.discard(call_of(answer, event).key)
        if request.kind == "in_doubt":
            self._in_doubt.add(call_of(answer, event).key)
            doubt = chunk("data-in-doubt", id=request.call_id, data=own)
            return [doubt, *self._note(where_to_decide(answer.run_id, request))]
        if request.kind in APPROVALS:
            return self._approval(event, own)
        called = self._as_shown(event)
        is_shown = called.key in self._tools
        if is_shown and request.kind in QUESTIONS:
            return []
        clients = request.kind in QUESTIONS or called.name in self._facts.client_tools
        fields = {} if clients else {"dynamic": True, "providerExecuted": False}
        said = given(called, **fields, toolMetadata={"hostler": own})
        chunks = self._said(called.key, said) if is_shown else self._call_part(called, said)
        self._of_client.add(called.key)
        settled = self._facts.decision_of(request.call_id)
        if settled is None:
            self._unanswered[called.key] = request.call_id
            return chunks
        self._full = True
        return [*chunks, *self._said(called.key, settled.outcome(called.key))]

    def still_asked(
        self, asked: Sequence[Asked], others: Sequence[Asked], shown: Collection[str], usage: Usage | None
    ) -> list[bytes]:
        """Return a piece of the message after decisions that are not all: what is `asked` is asked again.

        It begins another step, without the calls that were decided: clients would send those for ever.
        `others` are for other people, or for tools of the client, which are under way; `shown`: the keys of
        calls in the message.
        """
        run_id = self._facts.answer.run_id
        keys = [call_of(self._facts.answer, one).key for one in asked]
        chunks = [goes_on_below(key) for key in keys if key in shown]
        chunks += [found for one in asked for found in self._asked(one)]
        for one in others:
            if one.request.kind != "client_tool":
                chunks += self._note(where_to_decide(run_id, one.request))
        if self._step is None:
            self._step = []
            chunks.append(chunk("start-step"))
        return [*self.begin(), *chunks, *self.end(Waiting((*asked, *others)), usage)]

    def _approval(self, event: Asked, own: dict[str, Any]) -> list[bytes]:
        """Ask whether a call may be made, or more be spent, where these very arguments are shown.

        That is in the last step: clients send what is decided there.
        """
        called, request = self._as_shown(event), event.request
        shown, part = self._tools.get(called.key), self._parts.get(called.key)
        is_last = part is not None and holds(self._step or [], part)
        chunks: list[bytes] = []
        if shown is not None and not is_last:
            chunks.append(goes_on_below(called.key))
            self._full = True
        if shown is None or not is_last or (shown.arguments or {}) != called.arguments:
            if request.kind == "budget":
                self._full = self._full or not self._has_only_budgets()
            chunks += self._call_part(called, given(called, dynamic=True, providerExecuted=True))
        self._keep(event)
        approval_id = approval_id_of(self._facts.answer, request)
        said = chunk(
            "tool-approval-request",
            approvalId=approval_id,
            toolCallId=called.key,
            reason=reason_of(request),
            approvalDescriptor=own,
        )
        chunks += self._said(called.key, said)
        settled = self._facts.decision_of(request.call_id)
        return chunks if settled is None else [*chunks, *self._said(called.key, settled.verdict(approval_id))]

    def _as_shown(self, asked: Asked) -> ToolCalled:
        """Return the call of a request under the name that it has in the message."""
        called = call_of(self._facts.answer, asked)
        shown = self._tools.get(called.key)
        return called if shown is None else msgspec.structs.replace(called, name=shown.name)

    def _keep(self, asked: Asked) -> None:
        """Keep in mind how the message shows a request."""
        called = self._as_shown(asked)
        self._tools[called.key] = called
        self._under_way.discard(called.key)
        if asked.request.kind == "budget":
            self._budgets[asked.request.call_id] = called.key
            self._under_way.clear()  # they are in the step before

    def _has_only_budgets(self) -> bool:
        """Whether the step has nothing else: clients send decisions once all calls of a step have theirs."""
        budgets = [self._parts[key] for key in self._budgets.values() if key in self._parts]
        return all(holds(budgets, part) for part in self._step or ())

    def _end_asked(self, ending: Ending) -> list[bytes]:
        """End the calls of requests that wait no more: clients send again what has no output."""
        waiting = {one.request.call_id for one in ending.asked} if isinstance(ending, Waiting) else set()
        over = [output(key, None) for call_id, key in self._budgets.items() if call_id not in waiting]
        left = [key for key, call_id in self._unanswered.items() if call_id not in waiting]
        return over + [chunk("tool-output-error", toolCallId=key, errorText=WAITS_NO_MORE) for key in left]

    def _ends_decided(self) -> bool:
        """Whether the message ends with what its client has decided: it would send that again."""
        if self._step is None:
            return self._facts.goes_on_from is not None
        return any(holds(self._step, self._parts[key]) for key in self._of_client & self._parts.keys())

    def _note(self, text: str) -> list[bytes]:
        """Say something that is the host's, where the interface has no word for it."""
        part = Part(text_id=self._part_id("note", 0), text=text, ended=True)
        return [*self._new_part(part), *part.said_again()]

    def _said(self, key: str, said: bytes) -> list[bytes]:
        """Say more of a call; a retraction of its step says it again."""
        if key in self._parts:
            self._parts[key].chunks.append(said)
        return [said]


def _is_all_in_doubt(waiting: Waiting) -> bool:
    """Whether clients have nothing to send: they have no word for a call in doubt."""
    return all(one.request.kind == "in_doubt" for one in waiting.asked)
