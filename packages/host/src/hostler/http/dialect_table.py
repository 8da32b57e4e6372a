"""All dialects in which a recorded run can be shown: `hostler runs show RUN --as NAME`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from hostler.http.a2a.bindings import HTTP_JSON_EVENTS
from hostler.http.a2a.fold import TaskFacts, TaskFold
from hostler.http.ag_ui.fold import AgUiFold
from hostler.http.ag_ui.fold import Facts as AgUiFacts
from hostler.http.ai_sdk.message_facts import MessageFacts
from hostler.http.ai_sdk.message_fold import MessageFold
from hostler.http.ai_sdk.routes import PREFIX as MESSAGE
from hostler.http.dialects.answers import answer_id
from hostler.http.dialects.fold import Answer, Fold, Folding
from hostler.http.langgraph.fold import MODES, RunFold
from hostler.http.langgraph.fold import Facts as LangGraphFacts
from hostler.http.mcp.call_fold import CallFacts, CallFold
from hostler.http.mcp.levels import LEVELS
from hostler.http.openai.chat_fold import ChatFacts, ChatStream
from hostler.http.openai.responses_fold import ResponseFacts, ResponseFold
from hostler.http.openai.responses_types import ConversationRef, Response
from hostler.journal.feed import StoredResult
from hostler_protocol.runs import RunRecord


class ShownRun(NamedTuple):
    """A run that is shown. `client_tools`: the names of its caller's tools; `base`: the host's address."""

    run: RunRecord
    client_tools: frozenset[str]
    base: str

    @property
    def answer(self) -> Answer:
        """The whole run, as one answer."""
        return Answer(self.run.run_id)


def _ai_sdk(shown: ShownRun) -> Fold:
    message_id = answer_id(MESSAGE, shown.answer)
    return MessageFold(MessageFacts(shown.answer, message_id, shown.run.conversation_id, shown.client_tools))


def _chat_completions(shown: ShownRun) -> Fold:
    run = shown.run
    return ChatStream(ChatFacts(shown.answer, run.agent, int(run.created_at), shown.base), usage=True)


def _responses(shown: ShownRun) -> Fold:
    run = shown.run
    place = None if run.conversation_id is None else ConversationRef(run.conversation_id)
    response = Response(id="", created_at=int(run.created_at), model=run.agent, conversation=place)
    return ResponseFold(ResponseFacts(shown.answer, response, shown.client_tools))


def _ag_ui(shown: ShownRun) -> Fold:
    run = shown.run
    return AgUiFold(shown.answer, AgUiFacts(run.conversation_id or "", run.run_id))


def _langgraph(shown: ShownRun) -> Fold:
    run = shown.run
    return RunFold(shown.answer, LangGraphFacts(run.conversation_id or "", run.agent, modes=MODES))


def _mcp(shown: ShownRun) -> Fold:
    """Show a call with all that its client may ask for: progress, all log messages, forms."""
    run = shown.run
    facts = CallFacts(
        shown.answer,
        run.agent,
        request_id=1,
        conversation_id=run.conversation_id,
        progress=1,
        level=LEVELS[0],
        elicits=True,
        event_ids=run.run_id.encode(),
    )
    return CallFold(facts)


def _a2a(shown: ShownRun) -> Fold:
    return TaskFold(TaskFacts(shown.run.run_id, shown.run.conversation_id, shown.base), HTTP_JSON_EVENTS)


FOLDS: Mapping[str, Callable[[ShownRun], Fold]] = {
    "a2a": _a2a,
    "ag-ui": _ag_ui,
    "ai-sdk": _ai_sdk,
    "chat-completions": _chat_completions,
    "langgraph": _langgraph,
    "mcp": _mcp,
    "responses": _responses,
}
"""Name of a dialect -> how it writes a run."""


def frames_as(name: str, shown: ShownRun, results: Iterable[StoredResult]) -> Iterator[bytes]:
    """Yield what a client of a dialect would have read of a run, over the pauses that were decided.

    KeyError for a name that is not in FOLDS.
    """
    folding = Folding(FOLDS[name](shown), shown.answer, through=True)
    yield from folding.begin()
    for result in results:
        yield from folding.take(result)
    folding.cut()
    yield from folding.finish(shown.run.usage)
