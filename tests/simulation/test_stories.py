"""What a life is told as, and how it is cut down (docs/simulation.md): without lives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from hostler.simulation.entropy import EPOCH
from simulation.catalog import plan_of
from simulation.findings import kind_of
from simulation.life import Ended
from simulation.plan import Action, Plan
from simulation.shrink import Minimiser
from simulation.smaller import (
    Smaller,
    armed_first,
    earlier,
    fewer_agents,
    fewer_hosts,
    fewer_pairs,
    fewer_parts,
    less_of_the_rest,
    shorter_data,
    simpler_agents,
    simpler_faults,
)
from simulation.story import story_of

RUN, CALL = "01a0c450-9a8e-7432-a5d5-0b1dd5afc3eb", "1e550fbe7c6a68c41c5d7770"
MOVES = (
    armed_first,
    earlier,
    fewer_agents,
    fewer_hosts,
    fewer_pairs,
    fewer_parts,
    less_of_the_rest,
    shorter_data,
    simpler_agents,
    simpler_faults,
)
Log = list[tuple[float, str, dict[str, Any]]]


def lines(log: Log, *findings: str) -> list[tuple[float, str, str]]:
    ended = Ended(Plan(seed="1"), list(findings), "", 99.0, 0, log)
    return [(event.at, event.who, event.what) for event in story_of(ended)]


def happened(at: float, who: str, what: str) -> tuple[float, str, dict[str, Any]]:
    return at, "happened", {"who": who, "what": what}


def seen(at: float, sequence: int, kind: str) -> tuple[float, str, dict[str, Any]]:
    return at, "seen", {"reader": "e1", "run": RUN, "sequence": sequence, "type": kind}


def acted(at: float, what: str, **data: Any) -> tuple[float, str, dict[str, Any]]:
    return at, "action", {"what": what, "data": data}


TAKEN = (0.3, "accepted", {"event": "e1", "outcome": "started", "run": RUN})
MESSAGE = {"id": "e1", "agent": "a0", "conversation": "c1", "steps": [["tool", "note", "x"], ["wait", 2]]}

# -- stories --------------------------------------------------------------------------------------


def test_hosts_come_up_in_one_line() -> None:
    log = [
        happened(0.0, "h0", "starts"),
        happened(0.0, "h1", "starts"),
        happened(0.1, "h1", "is up"),
        happened(0.2, "h0", "is up"),
        happened(9.0, "h1", "starts"),
    ]
    assert lines(log) == [(0.2, "h0, h1", "are up"), (9.0, "h1", "starts")]


def test_a_message_and_that_it_is_taken_are_one_line() -> None:
    log = [acted(0.1, "message", **MESSAGE), TAKEN]
    text = "e1 to a0 in c1: call note x, wait 2 s; it starts the run of e1"
    assert lines(log) == [(0.1, "sends", text)]


def test_what_happens_before_a_message_is_taken_is_told_before_it() -> None:
    log = [acted(0.1, "message", **MESSAGE), happened(0.2, "h0", "is killed"), TAKEN]
    assert [what for *_, what in lines(log)] == [
        "e1 to a0 in c1: call note x, wait 2 s",
        "is killed",
        "takes e1: it starts the run of e1",
    ]


def test_a_fault_and_what_it_does_are_one_line() -> None:
    data = {"stage": "arrived", "count": 2, "seconds": 0.1}
    log: Log = [
        acted(0.1, "power cut at call", **data),
        (0.5, "struck", {"what": "power cut at call", "host": "h0", "data": data}),
        happened(0.5, "h0", "is killed"),
        happened(0.5, "h0", "lost power, and the newest 3 commits that were not synced"),
        acted(0.6, "kill host", host=0, seconds=1.0, by=3.0),
        happened(0.6, "h0", "is killed"),
    ]
    lost = "lost power, and the newest 3 commits that were not synced"
    assert lines(log) == [
        (0.5, "h0", f"{lost}, as the request of a tool arrives at its service for the 2nd time"),
        (0.6, "h0", "is killed"),
    ]


def test_a_plugin_is_killed_at_a_moment() -> None:
    data = {"stage": "going on", "count": 1, "seconds": 0.1}
    log: Log = [(0.5, "struck", {"what": "kill plugin at call", "host": "h0", "data": data})]
    text = "the plugins of h0 are killed, as a run that people have decided about is about to go on"
    assert lines(log) == [(0.5, "fault", text)]


def test_a_moment_that_does_not_come_is_told_as_such() -> None:
    log = [acted(0.1, "freeze host after commits", host=1, count=11, seconds=2.0)]
    text = "(its moment does not come) h1 is frozen, right after its 11th commit"
    assert lines(log) == [(0.1, "fault", text)]


def test_what_a_reader_reads_in_one_go_is_one_line() -> None:
    log = [
        TAKEN,
        *[seen(0.4, n, "message.delta") for n in (1, 2)],
        seen(0.5, 3, "attempt.started"),
        seen(0.5, 4, "interaction.requested"),
        seen(0.5, 5, "interaction.requested"),
        seen(0.6, 6, "run.completed"),
    ]
    text = "reads results 1 to 6 of the run of e1: an attempt begins, people are asked, it is completed"
    assert lines(log)[1:] == [(0.6, "reader e1", text)]


def test_what_a_reader_did_not_read_to_its_end_is_told() -> None:
    (event,) = lines([seen(0.4, 1, "message.delta")])
    assert event == (0.4, "reader e1", "reads result 1 of run #1, and no end of it")


def test_answers_that_come_one_after_the_other_are_one_line() -> None:
    answers: Log = [
        (1.0 + n, "answered", {"run": RUN, "attempt": 1, "step": str(n), "answer": {"serial": n}})
        for n in range(2)
    ]
    text = 'run #1, attempt 1: step 0 gets {"serial": 0}, step 1 gets {"serial": 1}'
    assert lines(answers) == [(2.0, "runner", text)]


def test_an_answer_names_its_step() -> None:
    steps = [["ask", "y"], ["together", [["wait", 1], ["tool", "note", "x"]]]]
    asked = {"run": RUN, "attempt": 2, "step": "1.1", "answer": 7}
    log = [acted(0.1, "message", **{**MESSAGE, "steps": steps}), TAKEN, (1.0, "answered", asked)]
    assert lines(log)[-1] == (1.0, "runner", "the run of e1, attempt 2: call note x gets 7")
    odd = {**asked, "step": "1.9"}
    assert lines([*log[:2], (1.0, "answered", odd)])[-1][2].endswith("attempt 2: step 1.9 gets 7")


SAID: list[tuple[str, dict[str, Any], tuple[str, str] | None]] = [
    (
        "action",
        {"what": "ill", "data": {"service": "tool", "kind": "lost", "share": 0.3, "seconds": 2.0}},
        (
            "fault",
            "the services of tools, for 2.0 s, at 30% of the requests: it is done, and no answer comes",
        ),
    ),
    (
        "fault",
        {"service": "models", "fault": "status 429", "number": 3},
        ("models", "request 3: the answer is status 429"),
    ),
    (
        "action",
        {"what": "cancel", "data": {"event": "e1", "host": 0, "grace": None}},
        ("action", "somebody cancels the run of e1"),
    ),
    ("cancelled", {"event": "e1", "run": RUN, "grace": 0.0}, ("host", "takes the cancellation of run #1")),
    (
        "resolved",
        {"run": RUN, "call": CALL, "outcome": "not_happened"},
        ("clerk", "finds out that call #1 of run #1 has not happened"),
    ),
    (
        "sent again",
        {"event": "e1", "other": False, "duplicate": True},
        ("host", "e1, sent again, is known already"),
    ),
    (
        "sent again",
        {"event": "e1", "other": True, "code": "conflict"},
        ("host", "e1, sent again, is refused: conflict"),
    ),
    ("post answered", {"hook": "hook0", "delivery": RUN, "number": 1, "status": 202}, None),
    (
        "post answered",
        {"hook": "hook0", "delivery": RUN, "number": 1, "status": None},
        ("webhook", "hook0: the host gets no answer for delivery #1"),
    ),
    (
        "effect",
        {"tool": "book", "text": "x", "run": RUN, "call": CALL, "made": False},
        ("service", "is asked for book(x) of run #1 again, and answers like before"),
    ),
    ("of a new kind", {"number": 1, "nothing": None}, ("of a new kind", "number 1")),
]


@pytest.mark.parametrize(("kind", "data", "line"), SAID)
def test_lines_of_the_log_are_sentences(
    kind: str, data: dict[str, Any], line: tuple[str, str] | None
) -> None:
    assert lines([(1.0, kind, data)]) == ([] if line is None else [(1.0, *line)])


def test_a_finding_is_told_when_it_was_noticed_and_ends_the_story() -> None:
    log: Log = [(1.0, "wrong", {"text": "h0 is odd"}), happened(2.0, "h0", "is killed")]
    assert lines(log, "h0 is odd") == [(1.0, "judge", "h0 is odd")]
    assert lines(log, "h0 is odd", "a task is left") == [
        (1.0, "judge", "h0 is odd"),
        (2.0, "h0", "is killed"),
        (99.0, "judge", "a task is left"),
    ]


def test_findings_at_the_end_are_told_at_the_end_of_the_life() -> None:
    log = [TAKEN, happened(20.0, "all", "faults end: every host is started")]
    moment = int((EPOCH + 1.25) * 1000)
    assert lines(log, f"run {RUN} is queued since {moment}", "more", "and more")[1:] == [
        (99.0, "judge", "the run of e1 is queued since 1.250 s"),
        (99.0, "judge", "also: more; and more"),
    ]


def test_calls_are_named_after_what_they_do() -> None:
    effect = {"tool": "note", "run": RUN, "call": CALL, "text": "x", "made": True}
    decided = {"pause": RUN, "call": "a" * 24, "run": RUN, "title": "ask y", "type": "answer", "by": "clerk"}
    more = {"edited": None, "ahead": None, "remaining": 1}
    log: Log = [TAKEN, (1.0, "effect", effect), (2.0, "decided", decided | more)]
    assert [what for *_, what in lines(log, f"run {RUN} asks about call {CALL}")][1:] == [
        "carries out note(x) of the run of e1",
        "answers call ask y of the run of e1; 1 more of the pause to decide",
        "the run of e1 asks about call note(x)",
    ]


# -- smaller plans --------------------------------------------------------------------------------


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.__name__)
def test_each_smaller_plan_is_another_one_in_the_order_of_time(move: Smaller) -> None:
    tried = 0
    for seed in range(1, 13):
        plan = plan_of(str(seed))
        for smaller in move(plan):
            tried += 1
            assert smaller != plan
            assert smaller.seed == plan.seed
            assert [one.at for one in smaller.actions] == sorted(one.at for one in smaller.actions)
    assert tried


def test_an_agent_goes_with_its_messages_and_what_refers_to_them() -> None:
    plan = Plan(
        seed="1",
        agents=[{"name": "a0"}, {"name": "a1"}],
        actions=[
            Action(0.0, "message", {"id": "e0", "agent": "a0", "conversation": "c", "steps": []}),
            Action(1.0, "message", {"id": "e1", "agent": "a1", "conversation": "c", "steps": []}),
            Action(2.0, "cancel", {"event": "e0"}),
        ],
    )
    without_a0 = Plan(seed="1", agents=[{"name": "a1"}], actions=plan.actions[1:2])
    assert without_a0 in fewer_parts(plan)


def test_a_fault_begins_to_wait_before_what_it_waits_for() -> None:
    message = Action(0.2, "message", {"id": "e", "agent": "a", "conversation": "c", "steps": []})
    other, fault = Action(0.1, "roll", {}), Action(0.3, "kill host at call", {"stage": "done", "count": 1})
    plan = Plan(seed="1", actions=[other, message, fault])
    orders = [[(one.at, one.what) for one in smaller.actions] for smaller in armed_first(plan)]
    assert orders == [
        [(0.1, "kill host at call"), (0.3, "message")],
        [(0.1, "kill host at call"), (0.2, "roll")],
        [(0.1, "kill host at call"), (0.2, "roll"), (0.3, "message")],
    ]
    assert list(armed_first(msgspec.structs.replace(plan, actions=[fault, message]))) == []


def test_a_fault_at_an_odd_moment_becomes_a_usual_one() -> None:
    def plan(what: str, stage: str, count: int) -> Plan:
        return Plan(seed="1", actions=[Action(0.1, what, {"stage": stage, "count": count, "seconds": 1.0})])

    frozen, plugin = "freeze host at call", "kill plugin at call"
    usual = plan("kill host at call", "arrived", 1)
    assert list(simpler_faults(plan(frozen, "told", 2))) == [usual, plan(frozen, "arrived", 1)]
    assert list(simpler_faults(plan(plugin, "arrived", 1))) == [usual]
    assert list(simpler_faults(usual)) == []


def test_steps_are_taken_without_others_around_them() -> None:
    data = {"id": "e", "agent": "a", "conversation": "c", "steps": [["child", [["tool", "note", "x"]]]]}
    plan = Plan(seed="1", actions=[Action(0.0, "message", data)])
    steps = [one.actions[0].data["steps"] for one in shorter_data(plan)]
    assert steps == [[], [["tool", "note", "x"]], [["child", []]], [["child", [["wait", 1.0]]]]]


# -- cutting down ---------------------------------------------------------------------------------

WRONG = "it is wrong"


def cut_down(plan: Plan, is_wrong: Callable[[Plan], bool], **options: Any) -> tuple[Ended, Minimiser]:
    def live(plan: Plan) -> Ended:
        log: Log = [(one.at, "action", {"what": one.what, "data": one.data}) for one in plan.actions]
        return Ended(plan, ["beside the point", WRONG] if is_wrong(plan) else [], "", 20.0, 0, log)

    minimiser = Minimiser(live, kind_of(WRONG), live(plan), **options)
    return minimiser.shrink(), minimiser


MANY = Plan(
    seed="7",
    actions=[
        Action(float(n), "kill host" if n % 3 else "clock", {"host": n % 2, "seconds": 4.0, "by": 1.0})
        for n in range(12)
    ],
)


def test_a_smaller_plan_that_needs_another_seed_is_found() -> None:
    def is_wrong(plan: Plan) -> bool:
        return len(plan.actions) == 12 or (len(plan.actions) > 0 and plan.seed == "7/9")

    smallest, minimiser = cut_down(MANY, is_wrong)
    assert len(smallest.plan.actions) == 1
    assert minimiser.lives < 200


def test_the_finding_it_was_cut_down_for_comes_first() -> None:
    smallest, _ = cut_down(MANY, lambda plan: any(one.what == "clock" for one in plan.actions))
    assert smallest.findings == [WRONG, "beside the point"]
    assert [one.what for one in smallest.plan.actions] == ["clock"]


def test_cutting_down_ends_with_its_lives() -> None:
    _, minimiser = cut_down(MANY, lambda plan: len(plan.actions) > 3, max_lives=7)
    assert minimiser.lives == 7


def test_the_same_life_is_cut_down_in_the_same_way() -> None:
    def is_wrong(plan: Plan) -> bool:
        return sum(one.what == "kill host" for one in plan.actions) > 1

    first, second = (cut_down(MANY, is_wrong) for _ in range(2))
    assert first[0].plan == second[0].plan
    assert first[1].lives == second[1].lives


def test_a_shorter_time_is_not_worth_a_longer_story() -> None:
    """What makes a plan simpler, and not smaller, is refused if more happens then."""

    def live(plan: Plan) -> Ended:
        extra = 5 if plan.actions[0].data["seconds"] < 4.0 else 0
        log = [happened(float(n), f"h{n}", "is odd") for n in range(extra)]
        return Ended(plan, [WRONG] if plan.actions else [], "", 20.0, 0, log)

    plan = Plan(seed="7", actions=[Action(0.0, "kill host", {"seconds": 4.0})])
    smallest = Minimiser(
        lambda plan: live(plan) if plan.actions else Ended(plan, [], "", 0.0, 0), WRONG, live(plan)
    ).shrink()
    assert smallest.plan.actions[0].data == {"seconds": 4.0}
