"""Which recorded answers may be sent ahead of their calls."""

from __future__ import annotations

from hostler.domain.recording import CallName, FastForward, Recording

RESULT = b'{"chunk":{"role":"assistant","content":"a"}}'


def name(number: int) -> CallName:
    return CallName("state.get", f"digest {number}", 1)


def recording_of(steps: str) -> Recording:
    """`c`: a call made alone, `b`: one made beside another, `r`: a result, `i`: an intent without outcome."""
    made = Recording()
    for position, step in enumerate(steps, 1):
        if step == "r":
            made.add_result(position, position, "message.delta", RESULT)
        elif step == "i":
            made.add_intent(name(position), "{}")
        else:
            made.add_call(name(position), position, "{}", changed=False, alone=step == "c")
    return made


def ahead(forward: FastForward) -> list[str]:
    """The answers that may be sent ahead now, one after the other."""
    found: list[str] = []
    while (call := forward.ahead(len(found))) is not None:
        found.append(call.name.digest.removeprefix("digest "))
    return found


def answer(forward: FastForward, number: int) -> None:
    call = forward.find(name(number))
    assert call is not None
    forward.answered(call)


def test_all_but_the_last_may() -> None:
    assert ahead(FastForward(recording_of("cccc"))) == ["1", "2", "3"]
    assert ahead(FastForward(recording_of("c"))) == []
    assert ahead(FastForward(recording_of(""))) == []
    assert ahead(FastForward(recording_of("ccci"))) == ["1", "2"], "a call without an outcome has no answer"


def test_none_beyond_a_result_that_was_not_made_again() -> None:
    forward = FastForward(recording_of("ccrcrcc"))
    assert ahead(forward) == ["1", "2"]
    answer(forward, 1)
    assert ahead(forward) == ["2"]
    assert forward.take("message.delta", RESULT) == "again"
    assert ahead(forward) == ["2", "4"]


def test_none_of_calls_that_were_made_at_once() -> None:
    assert ahead(FastForward(recording_of("ccbcc"))) == ["1"]
    forward = FastForward(recording_of("bcccc"))
    assert ahead(forward) == []
    answer(forward, 1)
    assert ahead(forward) == ["2", "3", "4"]


def test_none_while_calls_are_open_and_none_after_two_were_at_once() -> None:
    forward = FastForward(recording_of("ccccc"))
    first = forward.find(name(1))
    assert first is not None
    assert ahead(forward) == []
    forward.find(name(2))
    forward.answered(first)
    answer(forward, 2)
    assert ahead(forward) == []


def test_none_once_the_attempt_is_live() -> None:
    forward = FastForward(recording_of("ccccc"))
    forward.go_live()
    assert ahead(forward) == []
