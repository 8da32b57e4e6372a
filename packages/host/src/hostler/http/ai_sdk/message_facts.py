"""What a message of the assistant says besides its results."""

from __future__ import annotations

from hostler.domain.record import Record
from hostler.http.ai_sdk.settled import Settled
from hostler.http.dialects.fold import Answer


class MessageFacts(Record):
    """What a message says besides its results. `client_tools`: the names of the tools of the caller.

    `message_id` is that of the assistant message. `goes_on_from`: the answer with which the message began, if
    it is another: the client has what comes between. `settled`: the decisions of its requests, where the
    whole message is read again.
    """

    answer: Answer
    message_id: str
    conversation_id: str | None
    client_tools: frozenset[str] = frozenset()
    goes_on_from: Answer | None = None
    settled: tuple[Settled, ...] = ()

    @property
    def first(self) -> int:
        """The sequence of the last result before the message."""
        return (self.goes_on_from or self.answer).after

    def decision_of(self, call_id: str) -> Settled | None:
        """Return how a request was decided, by the host's id of its call; None as long as it waits."""
        return next((one for one in self.settled if one.call_id == call_id), None)
