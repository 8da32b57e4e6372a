"""Back pressure on reading: when a transport is paused, and when it goes on."""

from __future__ import annotations

from hostler.plugins.read_pause import ReadPause


class Recording:
    """A transport that records whether it is read."""

    unsent_bytes = 0

    def __init__(self) -> None:
        self.calls: list[str] = []

    def send(self, messages: object) -> None:
        raise AssertionError

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def close_sending(self) -> None:
        raise AssertionError

    def abort(self) -> None:
        raise AssertionError


def test_reading_pauses_above_the_limit_and_resumes_at_half() -> None:
    pause, transport = ReadPause(100), Recording()
    pause.regulate(1_000)  # there is no transport yet
    pause.transport = transport
    for held, paused in ((100, False), (101, True), (500, True), (51, True), (50, False), (100, False)):
        pause.regulate(held)
        assert pause.is_paused is paused
    assert transport.calls == ["pause", "resume"]
