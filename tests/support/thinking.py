"""Model services that think, and refuse a round whose earlier answers do not come back as they gave them.

Each `Service` is a script of rounds: what it answers, whole and in pieces, and what it must see again of it.
`of(service)` is what `ModelServer.always` takes: the round is known by how many answers with tool calls the
request holds. Field names, forms and refusals are those of the services that are named.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from support.model_answers import Answer, Recorded

Json = dict[str, Any]
FINAL = "It is 7."


@dataclass(frozen=True)
class Round:
    """One answer: the message as it is given whole, and its deltas where it is streamed."""

    message: Json
    deltas: list[Json]


@dataclass(frozen=True)
class Service:
    """`kept`: the keys of each round's message, and `call_kept`: of each of its calls, that must come back.

    `wants_all`: every answer with calls must have all of `kept`, also one that another model gave.
    """

    name: str
    rounds: list[Round]
    kept: tuple[str, ...]
    refusal: str
    call_kept: tuple[str, ...] = ()

    def missing(self, messages: list[Json]) -> str | None:
        """What is wrong with the answers that a request repeats."""
        said = [message for message in messages if message.get("tool_calls")]
        for message, round_ in zip(said, self.rounds, strict=False):
            for key in self.kept:
                if message.get(key) != round_.message.get(key) or key not in message:
                    return f"{key}: {message.get(key)!r}"
            calls = zip(message["tool_calls"], round_.message["tool_calls"], strict=True)
            for call, given in calls:
                for key in self.call_kept:
                    if call.get(key) != given.get(key):
                        return f"{key} of {call['id']}: {call.get(key)!r}"
        return None


def call(id_: str, a: int, b: int, **more: Any) -> Json:
    return {"id": id_, "type": "function", "function": _function({"a": a, "b": b}), **more}


def _function(arguments: Json) -> Json:
    return {"name": "add", "arguments": json.dumps(arguments)}


def in_pieces(index: int, given: Json) -> list[Json]:
    """A call as most services stream it: its head with all else it has, then its arguments."""
    head = {**given, "index": index, "function": {"name": given["function"]["name"], "arguments": ""}}
    text = given["function"]["arguments"]
    parts = [text[:4], text[4:]]
    return [{"tool_calls": [head]}] + [
        {"tool_calls": [{"index": index, "function": {"arguments": part}}]} for part in parts
    ]


def _message(calls: list[Json], **more: Any) -> Json:
    return {"role": "assistant", "content": None, "tool_calls": calls, **more}


def _of_reasoning(field: str) -> list[Round]:
    first = [call("c1", 1, 2), call("c2", 3, 4)]
    second = [call("c3", 3, 4)]
    empty = {"role": "assistant", "content": None, field: ""}
    return [
        Round(
            _message(first, **{field: "Two sums, I think."}),
            [
                empty,
                {"content": None, field: "Two sums,"},
                {"content": None, field: " I think."},
                *in_pieces(0, first[0]),
                *in_pieces(1, first[1]),
            ],
        ),
        Round(_message(second, **{field: ""}), [empty, *in_pieces(0, second[0])]),  # it did not think at all
    ]


DEEPSEEK = Service(
    "deepseek",
    _of_reasoning("reasoning_content"),
    ("reasoning_content",),
    "The `reasoning_content` in the thinking mode must be passed back to the API.",
)
REASONING = Service("reasoning", _of_reasoning("reasoning"), ("reasoning",), "reasoning is missing")


def _signed(signature: str) -> Json:
    return {"extra_content": {"google": {"thought_signature": signature}}}


def _gemini() -> list[Round]:
    first = [call("f-1", 1, 2, **_signed("EjQKMgEMOdbH+/w==")), call("f-2", 3, 4)]
    second = [call("f-3", 3, 4, **_signed("AXsecond"))]
    return [
        Round(  # whole calls, one to a piece, without an index
            _message(first),
            [
                {"role": "assistant", "tool_calls": [first[0]]},
                {"role": "assistant", "tool_calls": [first[1]]},
            ],
        ),
        Round(_message(second), [{"role": "assistant", "tool_calls": second}]),
    ]


GEMINI = Service(
    "gemini",
    _gemini(),
    (),
    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
    "correctly, and missing thought_signature may lead to degraded model performance.",
    ("extra_content",),
)


def _detail(kind: str, index: int, **more: Any) -> Json:
    return {"type": f"reasoning.{kind}", "format": "anthropic-claude-v1", "index": index, **more}


def _openrouter() -> list[Round]:
    first = [call("toolu_1", 1, 2), call("toolu_2", 3, 4)]
    details = [
        _detail("text", 0, text="Two sums. Two sums.", signature="ErcBCkgIBxAB"),
        _detail("encrypted", 0, data="gAAAAABo", id="rs_1"),
        _detail("summary", 1, summary="Adding."),
    ]
    second = [call("toolu_3", 3, 4)]
    return [
        Round(
            _message(first, reasoning="Two sums. Two sums.", reasoning_details=details),
            [
                {
                    "role": "assistant",
                    "content": "",
                    "reasoning_details": [_detail("text", 0, text="Two sums.")],
                },
                {"reasoning": "Two sums."},
                {"reasoning": " Two sums.", "reasoning_details": [_detail("text", 0, text=" Two sums.")]},
                {"content": "", "reasoning_details": [_detail("text", 0, signature="ErcBCkgIBxAB")]},
                {"reasoning_details": [details[1]]},
                {"reasoning_details": [_detail("summary", 1, summary="Add")]},
                {"reasoning_details": [_detail("summary", 1, summary="ing.")]},
                *in_pieces(0, first[0]),
                *in_pieces(1, first[1]),
            ],
        ),
        Round(
            _message(second, reasoning_details=[_detail("encrypted", 0, data="gAAAAABp")]),
            [
                {"role": "assistant", "reasoning_details": [_detail("encrypted", 0, data="gAAAAABp")]},
                *in_pieces(0, second[0]),
            ],
        ),
    ]


OPENROUTER = Service(
    "openrouter",
    _openrouter(),
    ("reasoning_details",),
    "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
)


def _anthropic() -> list[Round]:
    first = [call("toolu_1", 1, 2), call("toolu_2", 3, 4)]
    blocks = [
        {"type": "thinking", "thinking": "Two sums.", "signature": "EqoBCkgIARAB"},
        {"type": "redacted_thinking", "data": "EmwKAhgBEgy"},
        {"type": "thinking", "thinking": "So: add.", "signature": "EqoBsecond"},
    ]
    second = [call("toolu_3", 3, 4)]

    def thought(**more: Any) -> Json:
        block = {"type": "thinking", **more}
        return {"thinking_blocks": [block], "provider_specific_fields": {"thinking_blocks": [block]}}

    return [
        Round(
            _message(first, reasoning_content="Two sums.So: add.", thinking_blocks=blocks),
            [
                {"role": "assistant", "content": "", "reasoning_content": "Two ", **thought(thinking="Two ")},
                {"reasoning_content": "sums.", **thought(thinking="sums.", signature=None)},
                {"reasoning_content": "", **thought(thinking="", signature="EqoBCkgIARAB")},
                {"thinking_blocks": [blocks[1]]},
                {"reasoning_content": "So: add.", **thought(thinking="So: add.")},
                {"reasoning_content": "", **thought(thinking="", signature="EqoBsecond")},
                *in_pieces(0, first[0]),
                *in_pieces(1, first[1]),
            ],
        ),
        Round(
            _message(second, thinking_blocks=[blocks[1]]),
            [{"role": "assistant", "thinking_blocks": [blocks[1]]}, *in_pieces(0, second[0])],
        ),
    ]


ANTHROPIC = Service(
    "anthropic",
    _anthropic(),
    ("thinking_blocks",),
    "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When "
    "`thinking` is enabled, a final `assistant` message must start with a thinking block.",
)

SERVICES = (DEEPSEEK, REASONING, GEMINI, OPENROUTER, ANTHROPIC)


def calling(service: Service, function: str) -> Service:
    """The same service, asking for another function."""
    text = json.dumps([{"message": one.message, "deltas": one.deltas} for one in service.rounds])
    rounds = [Round(**one) for one in json.loads(text.replace('"name": "add"', f'"name": "{function}"'))]
    return replace(service, rounds=rounds)


def of(service: Service, final: str = FINAL) -> Callable[[Recorded], str | Answer]:
    """What the service answers to a request."""

    def answer(request: Recorded) -> str | Answer:
        messages: list[Json] = request.json["messages"]
        wrong = service.missing(messages)
        if wrong is not None:
            return refused(service.refusal, wrong)
        done = sum(bool(message.get("tool_calls")) for message in messages)
        if done >= len(service.rounds):
            return final
        return spoken(service.rounds[done])

    return answer


def spoken(round_: Round) -> Answer:
    """One round as an answer, streamed or whole, as it is asked for."""
    return Answer(message=round_.message, deltas=round_.deltas, finish_reason="tool_calls", split=7)


def refused(message: str, found: str = "") -> Answer:
    """A refusal as such services write it; `found` is for whoever reads the test's log."""
    body = {"error": {"message": message, "type": "invalid_request_error", "found": found}}
    return Answer(status=400, body=json.dumps(body).encode())
