"""The request shown to people: title, arguments, schemas, deciders; frozen when the pause opens."""

from __future__ import annotations

import msgspec

from hostler.domain.approvers import ToolApprovalPolicy, rule_of
from hostler.domain.pause_checks import check_calls
from hostler.domain.pause_values import DecisionRequest, NewCall, PausedCall
from hostler.domain.pauses import CallKind
from hostler.domain.record import Record
from hostler.domain.top_ups import Asked, schema_of
from hostler.journal.call_records import effect_key_of
from hostler.pauses.question import Question
from hostler.tools.port import ToolService, present_tool
from hostler_protocol.calls import InteractionParams
from hostler_protocol.pausing import PendingCall, PendingKind
from hostler_protocol.results import InteractionKind, InteractionRequested


class Questions(Record):
    """Turns what a run asks into calls of a pause."""

    workspace_id: str
    run_id: str
    tools: ToolService | None

    async def call_of(self, question: Question) -> NewCall:
        """Return the call as it is shown. PayloadTooLargeError or InvalidArgumentError if it cannot be."""
        if question.kind == "budget":
            call = NewCall(call_id=question.call_id, kind="budget", asked=_budget(question))
        elif question.form is not None:
            call = NewCall(call_id=question.call_id, kind="question", asked=_form(question.form))
        else:
            key = None
            if question.kind == "in_doubt":
                key = effect_key_of(self.run_id, question.call_id, question.parameters, question.resolution)
            call = NewCall(
                call_id=question.call_id, kind=question.kind, asked=self._tool(question), effect_key=key
            )
        check_calls([call])
        return call

    def _tool(self, question: Question) -> DecisionRequest:
        name = question.tool_name or ""
        tool = None if self.tools is None else present_tool(self.tools, self.workspace_id, name)
        policy = question.rule or ToolApprovalPolicy()
        description = None if tool is None else tool.description
        return DecisionRequest(
            title=_TITLES[question.kind].format(name),
            tool_name=name,
            arguments=question.parameters,
            description=question.reason if question.kind == "in_doubt" else description,
            tool_call_id=question.model_call_id,
            pin=question.pin,
            definition=None if tool is None or tool.pin != question.pin else tool.definition,
            args_schema=None if tool is None else tool.args_schema,
            result_schema=None if tool is None else tool.result_schema,
            rule=rule_of(question.rule),
            editable=policy.editable and question.kind == "approval",
            locked=policy.locked,
            on_expiry=policy.on_expiry,
            expires_in=None if question.kind == "in_doubt" else policy.expires_in,
        )


_TITLES = {
    "approval": "May {} be called?",
    "client_tool": "{} is for the client to run",
    "in_doubt": "Did {} do its work?",
    "budget": "May this run use more of its budget of {}?",
}


def _budget(question: Question) -> DecisionRequest:
    policy, asked = question.rule or ToolApprovalPolicy(), msgspec.convert(question.parameters, Asked)
    return DecisionRequest(
        title=_TITLES["budget"].format(asked.budget.replace("_", " ")),
        arguments=question.parameters,
        description=question.reason,
        args_schema=schema_of(asked.budget),
        rule=rule_of(question.rule),
        editable=policy.editable,
        locked=policy.locked,
        expires_in=policy.expires_in,
    )


def _form(form: InteractionParams) -> DecisionRequest:
    return DecisionRequest(
        title=form.title,
        description=form.description,
        question_kind=form.kind,
        fallback_text=form.fallback_text,
        fields=form.fields,
        actions=form.actions,
        expires_in=form.expires_in,
    )


_PENDING: dict[CallKind, PendingKind] = {
    "approval": "approval",
    "client_tool": "client_tool",
    "question": "question",
    "in_doubt": "question",
    "budget": "approval",
}


def pending_of(call: NewCall | PausedCall) -> PendingCall:
    """A call that waits, as `run.paused` shows it: one in doubt as a question, more budget as an approval."""
    asked = call.asked
    return PendingCall(
        tool_name=asked.tool_name or "",
        arguments=asked.arguments,
        kind=_PENDING[call.kind],
        title=asked.title,
        call_id=call.call_id,
        description=asked.explained or asked.fallback_text,
        schema=asked.fields or None,
        editable=asked.editable,
        executor=asked.executor,
    )


def request_of(call: PausedCall) -> InteractionRequested:
    """A call that waits, as `interaction.requested` shows it."""
    asked = call.asked
    in_doubt = call.review == "in_doubt"
    return InteractionRequested(
        call_id=call.call_id,
        kind=_kind_of(call),
        title=_TITLES["in_doubt"].format(asked.tool_name) if in_doubt else asked.title,
        description=asked.explained,
        fields=asked.fields,
        actions=asked.actions,
        expires_in=None if in_doubt else asked.expires_in,
        fallback_text=asked.fallback_text,
        tool_name=asked.tool_name,
        arguments=call.effective,
        args_hash=call.args_hash,
        tool_call_id=asked.tool_call_id,
        executor=asked.executor,
        expires_at=None if in_doubt or call.expires_at is None else call.expires_at / 1000,
    )


def _kind_of(call: PausedCall) -> InteractionKind:
    if call.review == "in_doubt":
        return "in_doubt"
    if call.kind != "question":
        return call.kind
    return call.asked.question_kind or ("form" if call.asked.fields else "confirmation")
