"""What services write when a request is longer than the window, and what only looks like it."""

from __future__ import annotations

import pytest

from hostler.models.errors import CONTEXT_OVERFLOW, ModelEndpoint, ModelFailedError
from hostler_protocol.errors import HostlerError, InvalidArgumentError

ENDPOINT = ModelEndpoint("main", "some-model", "http://models.example/v1")
OVERFLOWS = [
    (
        400,
        "context_length_exceeded This model's maximum context length is 8192 tokens. However, you sent 9000",
    ),
    (400, "Your input exceeds the context window of this model. Please adjust your input and try again."),
    (400, "invalid_request_error prompt is too long: 213462 tokens > 200000 maximum"),
    (400, "input length and `max_tokens` exceed context limit: 199759 + 20000 > 200000"),
    (400, "Input is too long for requested model."),
    (400, "exceed_context_size_error the request exceeds the available context size, try increasing it"),
    (400, "prompt too long; exceeded max context length by 12 tokens"),
    (400, "the input length exceeds the context length"),
    (400, "The decoder prompt (length 5016) is longer than the maximum model length of 4096."),
    (400, "The prompt (total length 25938) is too long to fit into the model (context length 4096)."),
    (400, "max_tokens must be at least 1, got -904."),
    (400, "The input (9001 tokens) is longer than the model's context length (8192 tokens)."),
    (422, "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000"),
    (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000"),
    (400, "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."),
    (400, "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768"),
    (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    (400, "Please reduce the length of the messages or completion."),
    (400, "tokens to keep from the initial prompt is greater than the context length"),
    (400, "prompt token count of 70000 exceeds the limit of 64000"),
    (400, "invalid params, context window exceeds limit"),
    (400, "Invalid request: Your request exceeded model token limit: 8192 (requested: 9000)"),
    (400, "InvalidParameter: Range of input length should be [1, 30720]"),
    (500, "upstream said: prompt is too long: 213462 tokens > 200000 maximum"),
]
OTHERS = [
    (400, "Invalid value for 'temperature': must be at most 2"),
    (400, "Invalid 'messages[2].tool_calls': array too long. Expected an array with maximum length 128"),
    (400, "max_tokens is too large: at most 4096 completion tokens"),
    (400, "tool description is too long"),
    (503, "overloaded; the context window of others is no reason"),
    (429, "Request too large: tokens per minute: Limit 6000, Requested 9000"),
]


@pytest.mark.parametrize(("status", "said"), OVERFLOWS)
def test_an_overflow_is_known_in_the_words_of_many_services(status: int, said: str) -> None:
    error = ENDPOINT.refused(status, said)
    assert type(error) is InvalidArgumentError
    assert error.details["reason"] == CONTEXT_OVERFLOW
    assert "send less" in error.message
    assert said[:40] in error.message
    assert not error.retryable


@pytest.mark.parametrize(("status", "said"), OTHERS)
def test_what_is_no_overflow_is_not_taken_for_one(status: int, said: str) -> None:
    error: HostlerError = ENDPOINT.refused(status, said)
    assert error.details.get("reason") != CONTEXT_OVERFLOW
    assert said in error.message


def test_a_failure_of_the_service_stays_one() -> None:
    assert type(ENDPOINT.refused(500, "out of memory")) is ModelFailedError
