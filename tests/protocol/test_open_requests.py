"""The tables of open requests: bounds, streaming answers, given-up requests, parked runs."""

from __future__ import annotations

import msgspec

from hostler_protocol.errors import JSONRPC_FAULT, JSONRPC_INVALID_REQUEST, RateLimitedError
from hostler_protocol.incoming import Refused, StreamArrived, Warned
from hostler_protocol.limits import MAX_OPEN_REQUEST_BYTES, MAX_OPEN_REQUESTS, REMEMBERED_GIVEN_UP
from hostler_protocol.methods import StreamNote
from hostler_protocol.open_requests import OwnRequest, OwnRequests, PeerRequest, PeerRequests

CHUNK = msgspec.Raw(b"{}")


def piece(index: int) -> StreamNote:
    return StreamNote(id="c1", index=index, chunk=CHUNK)


def test_pieces_are_taken_in_order_and_once() -> None:
    requests = OwnRequests()
    requests.open["c1"] = OwnRequest("host/model.stream")
    assert requests.take_piece(piece(0)) == StreamArrived("c1", 0, CHUNK)
    assert requests.take_piece(piece(1)) == StreamArrived("c1", 1, CHUNK)
    assert isinstance(requests.take_piece(piece(1)), Warned)
    assert requests.take_piece(piece(2)) == StreamArrived("c1", 2, CHUNK)


def test_a_lost_piece_refuses_and_closes_the_request() -> None:
    requests = OwnRequests()
    requests.open["c1"] = OwnRequest("host/model.stream")
    refused = requests.take_piece(piece(1))
    assert isinstance(refused, Refused)
    assert "piece 0" in refused.error.message
    assert requests.take_piece(piece(2)) is None
    assert requests.open == {}


def test_a_request_is_given_up_once() -> None:
    requests = OwnRequests()
    requests.open[1] = OwnRequest("ping")
    requests.give_up(1)
    requests.give_up(2)
    assert requests.was_given_up(1)
    assert not requests.was_given_up(1)
    assert not requests.was_given_up(2)
    assert not requests.was_given_up(None)


def test_given_up_requests_are_remembered_within_a_bound() -> None:
    requests = OwnRequests()
    for number in range(REMEMBERED_GIVEN_UP + 10):
        requests.open[number] = OwnRequest("tool/call")
        requests.give_up(number)
    assert len(requests.given_up) == REMEMBERED_GIVEN_UP
    assert not requests.was_given_up(9)
    assert requests.was_given_up(10)


def test_a_parked_run_loses_its_calls_but_not_its_start() -> None:
    own, peers = OwnRequests(), PeerRequests()
    own.open |= {"c1": OwnRequest("host/prompt.get", "r1"), "c2": OwnRequest("host/prompt.get", "r2")}
    peers.add(1, PeerRequest("run/start", 10, "r1"))
    peers.add(2, PeerRequest("host/prompt.get", 20, "r1"))
    peers.add(3, PeerRequest("host/prompt.get", 40, "r2"))
    own.forget_run("r1")
    peers.forget_run("r1")
    assert list(own.open) == ["c2"]
    assert list(peers.open) == [1, 3]
    assert peers.bytes == 50


def test_an_open_id_is_refused() -> None:
    peers = PeerRequests()
    peers.add(1, PeerRequest("ping", 2))
    refusal = peers.refusal(1, 2)
    assert refusal is not None
    assert refusal[0] == JSONRPC_INVALID_REQUEST
    peers.close(1)
    assert peers.refusal(1, 2) is None


def test_requests_are_bounded_in_number() -> None:
    peers = PeerRequests()
    for number in range(MAX_OPEN_REQUESTS):
        assert peers.refusal(number, 1) is None
        peers.add(number, PeerRequest("ping", 1))
    refusal = peers.refusal("more", 1)
    assert refusal is not None
    assert refusal[0] == JSONRPC_FAULT
    assert isinstance(refusal[1], RateLimitedError)
    peers.close(0)
    assert peers.refusal("more", 1) is None


def test_requests_are_bounded_in_bytes_but_a_single_one_is_not() -> None:
    peers = PeerRequests()
    assert peers.refusal(1, MAX_OPEN_REQUEST_BYTES + 1) is None
    peers.add(1, PeerRequest("ping", MAX_OPEN_REQUEST_BYTES))
    assert peers.refusal(2, 0) is None
    assert peers.refusal(2, 1) is not None
    peers.close(1)
    assert peers.bytes == 0


def test_the_open_calls_of_a_run_are_known_until_they_are_closed() -> None:
    peers = PeerRequests()
    peers.add(1, PeerRequest("run/start", 5, "r1"))
    peers.add(2, PeerRequest("host/state.get", 5, "r1"))
    peers.add(3, PeerRequest("host/state.get", 5, "r2"))
    assert peers.of_run("r1") == [2]
    peers.close(2)
    assert peers.of_run("r1") == []


def test_closing_twice_changes_nothing() -> None:
    peers = PeerRequests()
    peers.add(1, PeerRequest("ping", 5))
    assert peers.close(1) == PeerRequest("ping", 5)
    assert peers.close(1) is None
    assert peers.bytes == 0
