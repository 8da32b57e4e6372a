"""Find where a replay diverges from its recording: the first step that differs, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from msgspec.structs import replace

from hostler.domain.json_diff import describe, differences, parts
from hostler.domain.record import Record
from hostler.domain.tapes import DELTA, Player, Tape, TapedCall, TapedResult
from hostler_protocol.calls.digest import VOLATILE_PARAMS
from hostler_protocol.results import TERMINAL_RESULTS

Kind = Literal["call", "call_missing", "result", "result_missing", "result_extra", "silence", "left_out"]
_ID_PLACES = (("chunk", "message_id"), ("message", "message_id"), ("tool_call_id",), ("artifact_id",))


class Divergence(Record):
    """The first difference. `step` is the recorded step; `lines` show the difference.

    `recorded`, `replayed`: what is compared, None where one side has nothing.
    """

    step: int
    kind: Kind
    title: str
    lines: tuple[str, ...] = ()
    recorded: Any = None
    replayed: Any = None


def unknown_call(tape: Tape, player: Player, method: str, params: dict[str, Any]) -> Divergence:
    """Report a call that is not recorded, compared with the nearest unused recorded call."""
    nearest = next(iter(player.unused(method)), None)
    if nearest is None:
        first = next(iter(player.unused()), None)
        step = tape.steps + 1 if first is None else first.step
        known = sum(call.method == method for call in tape.calls)
        recorded = "no such call" if known == 0 else f"{known} of them, all answered before"
        title = f"step {step}: {method} was called; the recording has {recorded}"
        asked = _compared(params)
        return Divergence(step, "call", title, tuple(describe(differences({}, asked))), None, asked)
    before, after = _compared(nearest.params), _compared(params)
    found = differences(before, after)
    names = _listed(parts(found)) or "parameters"
    title = f"step {nearest.step}: {method} was called with other {names}"
    return Divergence(nearest.step, "call", title, tuple(describe(found)), before, after)


def left_out(call: TapedCall) -> Divergence:
    """Report a call whose outcome is not recorded."""
    title = f"step {call.step}: the answer of {call.method} is not in the recording, so it ends here"
    return Divergence(call.step, "left_out", title)


def silence(tape: Tape, player: Player, results: Sequence[TapedResult], seconds: float) -> Divergence:
    """Report a replay that stopped sending for `seconds` before the end of the recording."""
    waited = next(iter(player.unused()), None)
    missing = tape.results[len(results)] if len(results) < len(tape.results) else None
    step = min([one.step for one in (waited, missing) if one is not None], default=tape.steps)
    return Divergence(
        step, "silence", f"step {step}: no output for {seconds:g} s, although the recording continues"
    )


def first_divergence(
    tape: Tape, player: Player, results: Sequence[TapedResult], call: Divergence | None
) -> Divergence | None:
    """Return the first difference. `call`: the one that ended the replay early; later ones are left out."""
    found = [call] if call is not None else []
    if (differs := _first_result(tape, results, over=call is None)) is not None:
        found.append(differs)
    if call is None and not tape.ended_by_host:
        found += [_not_asked(missing) for missing in player.unused()[:1]]
    return min(found, key=lambda one: (one.step, one.kind != "call"), default=None)


def _not_asked(call: TapedCall) -> Divergence:
    title = f"step {call.step}: {call.method} is in the recording, but was not called now"
    asked = _compared(call.params)
    return Divergence(call.step, "call_missing", title, tuple(describe(differences(asked, {}))), asked)


def _first_result(tape: Tape, results: Sequence[TapedResult], *, over: bool) -> Divergence | None:
    recorded, replayed = _comparable(tape, tape.results), _comparable(tape, results)
    for index, (one, other) in enumerate(zip(recorded, replayed, strict=False)):
        unfinished = not over and index == len(replayed) - 1
        if not _same(one, other, unfinished=unfinished):
            return _differs(one, other)
    if len(replayed) > len(recorded) and not tape.ended_by_host:
        extra = replayed[len(recorded)]
        title = f"step {tape.steps + 1}: {extra.type} sent after the recording's end"
        lines = tuple(describe(differences({}, extra.data)))
        return Divergence(tape.steps + 1, "result_extra", title, lines, None, extra.data)
    if over and len(replayed) < len(recorded):
        missing = recorded[len(replayed)]
        title = f"step {missing.step}: {missing.type} is in the recording, but was not sent now"
        lines = tuple(describe(differences(missing.data, {})))
        return Divergence(missing.step, "result_missing", title, lines, missing.data)
    return None


def _differs(recorded: TapedResult, replayed: TapedResult) -> Divergence:
    if recorded.type != replayed.type:
        title = f"step {recorded.step}: {replayed.type} sent, where the recording has {recorded.type}"
        before, after = (
            {"type": recorded.type, **recorded.data},
            {"type": replayed.type, **replayed.data},
        )
        found = differences(before, after)
    else:
        before, after = dict(recorded.data), dict(replayed.data)
        if recorded.usage != replayed.usage:
            before["usage"], after["usage"] = recorded.usage, replayed.usage
        found = differences(before, after)
        title = f"step {recorded.step}: {recorded.type} with other {_listed(parts(found, 2)) or 'data'}"
    return Divergence(recorded.step, "result", title, tuple(describe(found)), before, after)


def _same(recorded: TapedResult, replayed: TapedResult, *, unfinished: bool) -> bool:
    if recorded.type != replayed.type:
        return False
    if unfinished and recorded.type == DELTA:
        return _text(recorded).startswith(_text(replayed))
    return bool(recorded.data == replayed.data and recorded.usage == replayed.usage)


def _text(delta: TapedResult) -> str:
    content = delta.data.get("chunk", {}).get("content")
    return content if isinstance(content, str) else ""


def _comparable(tape: Tape, results: Sequence[TapedResult]) -> list[TapedResult]:
    """Return the results that the runner determines, with ids replaced by their order."""
    kept = [one for one in results if tape.whole or one.type != DELTA]
    if tape.ended_by_host and kept and kept[-1].type in TERMINAL_RESULTS:
        kept.pop()
    seen: dict[tuple[str, str], str] = {}
    return [_plain_ids(one, seen) for one in kept]


def _plain_ids(result: TapedResult, seen: dict[tuple[str, str], str]) -> TapedResult:
    data = result.data
    for place in _ID_PLACES:
        *outer, name = place
        holder = data.get(outer[0]) if outer else data
        if isinstance(holder, dict) and isinstance(value := holder.get(name), str):
            numbered = seen.setdefault((name, value), f"#{sum(key == name for key, _ in seen) + 1}")
            changed = {**holder, name: numbered}
            data = {**data, outer[0]: changed} if outer else changed
    return replace(result, data=data)


def _compared(params: Any) -> Any:
    if not isinstance(params, dict):
        return params
    return {name: value for name, value in params.items() if name not in VOLATILE_PARAMS}


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
