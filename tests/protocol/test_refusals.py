"""Refusals: their encoding within the message size, errors of a peer, and the queue of unsent ones."""

from __future__ import annotations

import json

import msgspec
import pytest

from hostler_protocol.errors import JSONRPC_FAULT, HostlerError, InvalidArgumentError, NotFoundError
from hostler_protocol.frames import ErrorResponse
from hostler_protocol.limits import MAX_REASON_CHARS, MAX_UNSENT_ANSWER_BYTES
from hostler_protocol.methods import METHODS
from hostler_protocol.refusals import UnsentRefusals, brief, encode_refusal, error_in, wrong_method

ERROR = InvalidArgumentError("no", place="here")


def test_refusals_are_taken_once_in_order() -> None:
    refusals = UnsentRefusals()
    assert refusals.add(1, JSONRPC_FAULT, ERROR)
    assert refusals.add(2, JSONRPC_FAULT, ERROR)
    assert [json.loads(line)["id"] for line in refusals.take().splitlines()] == [1, 2]
    assert refusals.take() == b""


def test_refusals_are_bounded_and_dropped_beyond() -> None:
    refusals = UnsentRefusals()
    large = InvalidArgumentError("x" * (MAX_UNSENT_ANSWER_BYTES // 7))  # a refusal holds its text twice
    assert [refusals.add(number, JSONRPC_FAULT, large) for number in range(4)] == [True, True, True, False]
    assert refusals.take() == b""
    assert refusals.add(5, JSONRPC_FAULT, ERROR)


def test_a_refusal_within_the_size_is_whole() -> None:
    data = encode_refusal("c1", ERROR, 1_000)
    fault = json.loads(data)["error"]["data"]
    assert fault == {
        "code": "invalid_argument",
        "message": "no",
        "retryable": False,
        "details": {"place": "here"},
    }
    assert encode_refusal("c1", ERROR, len(data) - 1) == data


def test_a_refusal_over_the_size_loses_its_details() -> None:
    error = NotFoundError("m" * 2_000, known=["x" * 2_000])
    fault = json.loads(encode_refusal(7, error, 2_000))["error"]["data"]
    assert fault["code"] == "not_found"
    assert fault["message"] == "m" * MAX_REASON_CHARS
    assert fault["details"] == {}


@pytest.mark.parametrize("data", [None, b'"text"', b'{"code":"unknown","message":"m"}', b"[1]"])
def test_a_foreign_error_is_its_message(data: bytes | None) -> None:
    error = error_in(ErrorResponse(1, -32601, "not here", None if data is None else msgspec.Raw(data)))
    assert type(error) is HostlerError
    assert error.message == "not here (-32601)"


def test_a_fault_is_the_error_of_its_code() -> None:
    fault = msgspec.Raw(b'{"code":"not_found","message":"no such tool"}')
    error = error_in(ErrorResponse(1, JSONRPC_FAULT, "ignored", fault))
    assert isinstance(error, NotFoundError)
    assert error.message == "no such tool"


def test_long_texts_are_shortened() -> None:
    assert brief("x" * MAX_REASON_CHARS) == "x" * MAX_REASON_CHARS
    assert len(brief("x" * (MAX_REASON_CHARS + 1))) == MAX_REASON_CHARS


def test_a_method_of_the_wrong_kind_or_side_is_named() -> None:
    assert wrong_method("no/such", None) == "unknown method 'no/such'"
    assert wrong_method("run/end", METHODS["run/end"]) == "run/end is a notification of the plugin"
    assert wrong_method("ping", METHODS["ping"]) == "ping is a request of the host"
