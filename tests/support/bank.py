"""A model service that counts the money that it takes: for each request as it comes in, answered or not."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from hostler.domain.model_entries import ModelEntry, Price
from support.gates import Gate
from support.model_answers import Answer, Recorded
from support.model_server import ModelServer

PRICE = Price(input=3.0, output=100.0)
MILLION = Decimal(1_000_000)


@dataclass(frozen=True)
class Payment:
    """One paid request. `number`: how many-th it was, as its answer says too."""

    number: int
    question: str
    cost: Decimal


@dataclass
class Bank:
    """Charges a token for three bytes of a message, and all the output that a request allows.

    Requests after the `held_after`-th are answered once they are released, if ever.
    """

    server: ModelServer
    payments: list[Payment] = field(default_factory=list)
    held_after: int | None = None
    unlimited: list[str] = field(default_factory=list)
    """Questions that came without a limit of the output."""
    _held: list[Gate] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server.always(self._answer)

    @property
    def paid(self) -> Decimal:
        """All that was taken."""
        return sum((one.cost for one in self.payments), Decimal(0))

    def entry(self) -> ModelEntry:
        """The model as a host knows it; it never asks twice by itself."""
        return ModelEntry(id="m", base_url=self.server.base_url, model="x", price=PRICE, max_retries=0)

    def hold_after(self, payments: int | None) -> None:
        """Answer no request after so many more; None: answer all."""
        self.held_after = None if payments is None else len(self.payments) + payments

    def release(self) -> None:
        """Answer what was held."""
        held, self._held = self._held, []
        for gate in held:
            gate.open()

    def _answer(self, request: Recorded) -> Answer:
        question, number = request.last_text, len(self.payments) + 1
        tokens = sum(len(str(message["content"]).encode()) for message in request.json["messages"]) // 3
        output = request.json.get("max_tokens")
        if output is None:
            self.unlimited.append(question)
            output = 100_000
        cost = (Decimal(str(PRICE.input)) * tokens + Decimal(str(PRICE.output)) * output) / MILLION
        self.payments.append(Payment(number, question, cost))
        usage = {"prompt_tokens": tokens, "completion_tokens": output, "total_tokens": tokens + output}
        answer = Answer(pieces=[f"{question}#{number}"], usage=usage)
        if self.held_after is not None and number > self.held_after:
            answer.hold = Gate()
            self._held.append(answer.hold)
        return answer
