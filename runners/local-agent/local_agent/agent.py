"""The runner: asks a model, makes the tool calls it asks for, and asks again until it answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from hostler_sdk import RunContext, Runner, completed, failed, log, message
from hostler_sdk.errors import HostError
from hostler_sdk.types import ModelMessage
from local_agent.answer import Answer
from local_agent.conversation import content_of
from local_agent.fallback import Candidate, ModelsFailed, candidates, out_of_time
from local_agent.models import Models
from local_agent.requested_calls import RequestedCall, read_calls
from local_agent.settings import Settings, SettingsError, read_settings
from local_agent.steering import pulled_messages
from local_agent.stored_results import StoredResults
from local_agent.tool_round import refused_round, tool_round
from local_agent.toolbox import Toolbox, open_toolbox
from local_agent.working_context import WorkingContext

MAX_CALLS_OF_MESSAGE = 128
"""Tool calls of one message, a limit of common services."""
MAX_STEERED_ENDINGS = 32
"""How often a message that arrives at the end prolongs a run; later messages start the next run."""
_WHY_EMPTY: Final = {
    "length": "it used up its tokens before it wrote anything: raise its `max_tokens`",
    "content_filter": "its service held the answer back by its content rules: ask differently",
    "tool_calls": "it asked for a tool and named none, twice: choose another model",
}
_CUT = "the answer of model {!r} was cut off: {}"
_WHY_CUT: Final = {
    "length": "its tokens ran out; raise its `max_tokens`",
    "content_filter": "its service held the rest back by its content rules",
}
MAX_HOPELESS_ROUNDS = 8
"""Successive rounds in which no requested call could be made."""
_ENOUGH = "not called: config `max-tool-iterations` of this run is reached. Answer with what you have"
_HOPELESS = (
    f"not called: {MAX_HOPELESS_ROUNDS} rounds one after the other asked for nothing that can be called. "
    "Answer with what you have"
)


class LocalAgent(Runner):
    """Local agent

    A complete agent on the host's own models: history, tools, knowledge, summaries, fallbacks.
    """

    async def run(self, ctx: RunContext) -> None:
        """Answer one event."""
        try:
            settings = read_settings(ctx.config)
        except SettingsError as error:
            await ctx.emit(failed("local-agent.config_invalid", str(error)))
            return
        if not content_of(ctx.input):
            text = "the event carries neither text nor a file to answer to"
            await ctx.emit(failed("local-agent.empty_input", text))
            return
        allowed, refused = candidates(settings.models, ctx.resources.models)
        for model_id in refused:
            await ctx.emit(log(f"model {model_id!r} is not granted to this run and was left out", "warning"))
        if not allowed:
            text = (
                f"none of the chosen models ({', '.join(settings.models)}) may be asked; configure one under "
                "`models`, and allow it in the agent's resource policy"
            )
            await ctx.emit(failed("local-agent.config_invalid", text))
            return
        try:
            await _serve(ctx, settings, allowed)
        except ModelsFailed as failure:
            await ctx.emit(failed(failure.code, failure.text, failure.retryable))
        except HostError as error:
            if error.code != "deadline_exceeded":
                raise
            over = out_of_time(error.message)
            await ctx.emit(failed(over.code, over.text, over.retryable))


async def _serve(ctx: RunContext, settings: Settings, allowed: list[Candidate]) -> None:
    models = Models(ctx, settings, allowed)
    toolbox = await open_toolbox(ctx) if settings.max_tool_iterations else Toolbox()
    context = await WorkingContext.of(ctx, settings, models, toolbox)
    await _Work(ctx, settings, models, toolbox, context).done()


class _Work:
    """The loop of one run."""

    def __init__(
        self, ctx: RunContext, settings: Settings, models: Models, toolbox: Toolbox, context: WorkingContext
    ) -> None:
        self._ctx = ctx
        self._settings = settings
        self._models = models
        self._toolbox = toolbox
        self._context = context
        self._kept = StoredResults(ctx, settings.max_tool_result_chars)
        self._call_ids: set[str] = set()
        self._round = 0
        self._tool_rounds = 0
        self._hopeless_rounds = 0
        self._refused = False
        self._steered_endings = 0
        self._said = False

    async def done(self) -> None:
        """Ask and call until the answer is complete, then end the run."""
        while True:
            self._round += 1
            answer = await self._context.ask(self._extra())
            if answer.text.strip():
                await self._ctx.emit(message(answer.text, reasoning=answer.shown_reasoning))
                self._said = True
            if answer.tool_calls:
                if self._refused:
                    await self._end_without_answer(answer)
                    return
                await self._call(answer)
            elif not await self._goes_on(answer):
                await self._end(answer)
                return

    @property
    def _is_enough(self) -> bool:
        is_hopeless = self._hopeless_rounds >= MAX_HOPELESS_ROUNDS
        return is_hopeless or self._tool_rounds >= self._settings.max_tool_iterations

    def _extra(self) -> dict[str, Any]:
        return {"tool_choice": "none"} if self._toolbox.specs and self._is_enough else {}

    async def _call(self, answer: Answer) -> None:
        """Make the calls of an answer, and add them and their results to the context."""
        requested = read_calls(
            answer.tool_calls, self._toolbox, self._call_ids, self._round, is_cut=answer.is_cut
        )
        is_hopeless = all(one.problem for one in requested)
        if self._is_enough:
            self._refused = True
            why = _HOPELESS if self._hopeless_rounds >= MAX_HOPELESS_ROUNDS else _ENOUGH
            results = await refused_round(self._ctx, requested, why)
        else:
            results = await tool_round(self._ctx, self._settings, requested, self._kept)
            if self._kept.is_offered and self._toolbox.reading is None:
                self._toolbox.offer_reading()
                await self._context.measure_again()
        self._tool_rounds += 1
        self._hopeless_rounds = self._hopeless_rounds + 1 if is_hopeless else 0
        arrived = await pulled_messages(self._ctx)
        await self._context.add([*_as_messages(answer, requested, results), *arrived], self._round)

    async def _goes_on(self, answer: Answer) -> bool:
        """Whether a message arrived that this run must answer too."""
        if self._steered_endings >= MAX_STEERED_ENDINGS:
            return False
        arrived = await pulled_messages(self._ctx)
        if not arrived:
            return False
        self._steered_endings += 1
        own = [answer.as_message()] if answer.text.strip() else []
        await self._context.add([*own, *arrived], self._round)
        return True

    async def _end(self, answer: Answer) -> None:
        if self._said:
            if answer.is_cut:
                await self._ctx.emit(
                    log(_CUT.format(answer.model_id, _WHY_CUT[answer.finish_reason]), "warning")
                )
            await self._ctx.emit(completed(answer.finish_reason, usage=self._models.usage.total))
            return
        why = _WHY_EMPTY.get(
            answer.finish_reason, "asked once more; try again later, or choose another model"
        )
        text = f"model {answer.model_id!r} gave an empty answer ({answer.finish_reason}); {why}"
        retryable = answer.finish_reason == "stop"
        await self._ctx.emit(failed("local-agent.empty_answer", text, retryable))

    async def _end_without_answer(self, answer: Answer) -> None:
        if self._tool_rounds > self._settings.max_tool_iterations:
            after = f"{self._settings.max_tool_iterations} rounds of them"
            remedy = "raise config `max-tool-iterations`, or ask for less at once"
        else:
            after = f"{MAX_HOPELESS_ROUNDS} rounds of calls that cannot be made"
            remedy = "choose a model that can use tools"
        text = f"model {answer.model_id!r} goes on asking for tools after {after}; {remedy}"
        await self._ctx.emit(failed("local-agent.tool_limit", text))


def _as_messages(
    answer: Answer, requested: Sequence[RequestedCall], results: Sequence[ModelMessage]
) -> Iterator[ModelMessage]:
    """Yield an answer and its results as messages. More calls than one message may hold become several.

    The model's reasoning goes with the first message; the others have none.
    """
    for start in range(0, len(requested), MAX_CALLS_OF_MESSAGE):
        part = slice(start, start + MAX_CALLS_OF_MESSAGE)
        whole = answer.as_message([one.call for one in requested[part]])
        yield whole if start == 0 else _continued(whole)
        yield from results[part]


def _continued(message: ModelMessage) -> ModelMessage:
    data = message.provider_data and msgspec.structs.replace(message.provider_data, fields={})
    return msgspec.structs.replace(message, content=None, reasoning=None, provider_data=data)
