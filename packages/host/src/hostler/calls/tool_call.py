"""One call of a tool: what was asked for, what was decided of it, and what the tool gets."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from hostler.calls.tool_arguments import PlatformCall, tool_of
from hostler.calls.tool_artifacts import CallArtifacts
from hostler.domain.record import Record
from hostler.domain.recording import CallName
from hostler.domain.tool_pins import ToolPin
from hostler.journal.call_log import CallRecord
from hostler.pauses.question import Question, QuestionKind, Verdict
from hostler_protocol.calls import ToolCallParams

_REPEATABLE = frozenset({"pure", "idempotent"})


class ToolCall(Record):
    """One call. `arguments` are those that the tool gets."""

    record: CallRecord
    pin: ToolPin
    arguments: dict[str, Any]
    action: PlatformCall | None = None
    resolution: int = 0
    verdict: Verdict | None = None
    artifacts: CallArtifacts | None = None
    """The artifacts that the tool made in this request."""

    @property
    def name(self) -> CallName:
        """Its name in the journal."""
        return self.record.name

    @property
    def proposed(self) -> dict[str, Any] | None:
        """The arguments as the runner wrote them; None where they are not what the tool gets."""
        params = self.record.params
        return params.parameters if isinstance(params, ToolCallParams) else None

    @property
    def model_call_id(self) -> str | None:
        """The model's own id of the call, if the runner gave one."""
        params = self.record.params
        return params.tool_call_id if isinstance(params, ToolCallParams) else None

    @property
    def tool(self) -> str:
        """The tool's name; of a platform action the tool that stands for it."""
        return tool_of(self.record)

    @property
    def is_pure(self) -> bool:
        """Whether the tool only reads."""
        return self.pin.effect == "pure"

    @property
    def may_be_repeated(self) -> bool:
        """Whether the tool may be asked again under the same key if no answer comes."""
        return self.pin.effect in _REPEATABLE

    def decided(self, verdict: Verdict) -> ToolCall:
        """Return the call with what was decided of it; a tool approved anew is called as it is now."""
        return replace(self, verdict=verdict, pin=verdict.pin or self.pin)

    def question(self, kind: QuestionKind) -> Question:
        """Return what is asked of people, or of the client, about this call."""
        return Question(
            kind=kind,
            name=self.name,
            parameters=self.arguments,
            tool_name=self.tool,
            pin=self.pin,
            model_call_id=self.model_call_id,
            resolution=self.resolution,
        )
