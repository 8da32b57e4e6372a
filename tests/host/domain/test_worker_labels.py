"""Labels and ids of remote workers, and the places that claims take by them."""

from __future__ import annotations

import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.slots import AgentVersion, SlotKey, Slots, Wanted, slot_key
from hostler.domain.worker_labels import MAX_LABELS, check_labels, check_worker_id, named, offers


@pytest.mark.parametrize("label", ["gpu", "region=eu", "a", "cuda-12.4", "team/vision", "x" * 63])
def test_a_label_may_be(label: str) -> None:
    check_labels([label])
    assert AgentSpec(name="n", runner="r", worker_labels=[label]).worker_labels == [label]


@pytest.mark.parametrize("label", ["", "GPU", "a b", "-a", "a-", "x" * 64, "a\n", "ü", "a,b"])
def test_a_label_may_not_be(label: str) -> None:
    with pytest.raises(ValueError, match="is no label of workers"):
        AgentSpec(name="n", runner="r", worker_labels=[label])


def test_labels_are_few() -> None:
    check_labels([f"l{n}" for n in range(MAX_LABELS)])
    with pytest.raises(ValueError, match="at most 32 are allowed"):
        check_labels([f"l{n}" for n in range(MAX_LABELS + 1)])


@pytest.mark.parametrize("worker_id", ["gpu-1", "A", "host.example.com", "x" * 63])
def test_an_id_may_be(worker_id: str) -> None:
    check_worker_id(worker_id)


@pytest.mark.parametrize("worker_id", ["", "connect", "../x", "a/b", "a b", "-a", "x" * 64, "a\n"])
def test_an_id_may_not_be(worker_id: str) -> None:
    with pytest.raises(ValueError, match="is no id of a worker"):
        check_worker_id(worker_id)


def test_a_worker_needs_all_labels() -> None:
    assert offers({"gpu", "eu"}, ["eu"])
    assert offers({"gpu"}, [])
    assert not offers({"gpu"}, ["gpu", "eu"])
    assert (named(["gpu"]), named(["gpu", "eu", "big"])) == ("label gpu", "labels big, eu and gpu")


class _Places:
    def __init__(self, room: int) -> None:
        self.room = room
        self.held: list[SlotKey] = []

    def has_room(self, wanted: Wanted) -> bool:
        return len(self.held) < self.room

    def take(self, key: SlotKey, wanted: Wanted, waited_ms: int) -> bool:
        if not self.has_room(wanted):
            return False
        self.held.append(key)
        return True

    def give_back(self, key: SlotKey) -> None:
        if key in self.held:
            self.held.remove(key)


def test_versions_without_room_are_named_to_claims_and_places_go_back_with_slots() -> None:
    places = _Places(1)
    slots = Slots(10, places=places)
    old, new = AgentVersion("w", "a", 1), AgentVersion("w", "a", 2)
    slots.want(old, Wanted("w", "acme/one", ("gpu",)))
    slots.want(new, Wanted("w", "acme/one", ()))
    assert slots.unplaceable() == []
    key = slot_key("w", "plugin:acme/one/default", "a", ("r1", 1))
    assert slots.take(key)
    assert places.take(key, slots.wanted[old], 0)
    assert slots.unplaceable() == ["a/1"], "the other version of the agent needs no worker"
    slots.give_back(key._replace(attempt=("r1", 2)))  # another attempt of the run has a place of its own
    assert slots.unplaceable() == ["a/1"]
    slots.take(key)
    slots.give_back(key)
    assert (slots.unplaceable(), places.held) == ([], [])


def test_what_is_remembered_of_versions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostler.domain.slots.MAX_LABELLED", 3)
    slots = Slots(1)
    for number in range(10):
        slots.want(AgentVersion("w", "a", number), Wanted("w", "p", ("gpu",)))
        assert len(slots.wanted) <= 3
    assert slots.unplaceable() == ["a/9"]
