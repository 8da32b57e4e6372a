"""Find a pause and its call, ask the person at the terminal, and send the decision."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hostler.cli.output import FAILED, USAGE, fail
from hostler.cli.routes import route
from hostler.cli.server import Server
from hostler.cli.tables import write_done

if TYPE_CHECKING:
    from hostler.cli.client import Api

FULL_ID_CHARS = 36
MAX_LOOKED_THROUGH = 1_000


def decide(
    server: Server,
    pause: str,
    call: str | None,
    kinds: tuple[str, ...],
    action_of: Callable[[dict[str, Any]], dict[str, Any] | None],
    sure: bool,
    as_json: bool,
) -> None:
    """Fetch the pause, find the call, ask for confirmation unless `sure`, and send the action."""

    async def ask(api: Api) -> tuple[dict[str, Any], bool]:
        found = await find_pause(api, pause)
        one = find_call(found, call, kinds, lambda c: c["decision"] == "undecided")
        action = action_of(one) if sure or _agreed(one) else None
        if action is None:
            fail("no decision was sent", FAILED)
        body = {
            "revision": found["revision"],
            "actions": [{"call_id": one["call_id"], **_set_fields(action)}],
        }
        response = await api.post(route("pauses", found["id"], "actions"), body)
        return {**response, "run_id": found["run_id"]}, api.in_process

    response, in_process = server.ask(ask)
    if response["remaining"]:
        next_step = f"{response['remaining']} more to decide before the run goes on"
    elif in_process:
        next_step = "the run continues when a server runs on this data directory: hostler serve"
    else:
        next_step = f"the run continues: hostler runs tail {response['run_id']}"
    write_done(response, f"saved; {next_step}", as_json=as_json)


def with_top_up(call: dict[str, Any], amount: float) -> dict[str, Any]:
    """Return the arguments of a question about a budget with another amount to add."""
    if call["kind"] != "budget":
        fail(f"call {call['call_id']} is no question about a budget: leave out --top-up", USAGE)
    what = call["args"]["budget"]
    whole = what not in {"cost", "seconds"} and amount.is_integer()
    return {**call["args"], "top_up": {what: int(amount) if whole else amount}}


async def find_pause(api: Api, text: str) -> dict[str, Any]:
    """Return the pause with this id, or with an id that begins like this."""
    if len(text) < FULL_ID_CHARS:
        found = await api.items("/v1/pauses", limit=MAX_LOOKED_THROUGH)
        matching = [p for p in found if p["id"].startswith(text)]
        if len(matching) == 1:
            one: dict[str, Any] = matching[0]
            return one
        if matching:
            fail(f"the ids of {len(matching)} pauses begin with {text!r}: write more of it", USAGE)
    whole: dict[str, Any] = await api.get(route("pauses", text))
    return whole


def find_call(
    pause: dict[str, Any],
    name: str | None,
    kinds: tuple[str, ...] | None,
    waits: Callable[[dict[str, Any]], bool],
) -> dict[str, Any]:
    """Return the named call, or the only one of these kinds that waits."""
    calls: list[dict[str, Any]] = pause["calls"]
    if name is not None:
        for number, call in enumerate(calls, start=1):
            if name in (call["call_id"], str(number), call.get("tool_call_id")):
                return call
        fail(f"pause {pause['id']} has no call {name!r}: its calls have the numbers 1 to {len(calls)}", USAGE)
    fitting = [call for call in calls if (kinds is None or call["kind"] in kinds) and waits(call)]
    if not fitting:
        fail(f"pause {pause['id']} ({pause['status']}) has no call that waits for this command")
    if len(fitting) > 1:
        numbers = ", ".join(str(calls.index(call) + 1) for call in fitting)
        fail(f"{len(fitting)} calls wait: name one, {numbers} (`hostler pauses show {pause['id']}`)", USAGE)
    return fitting[0]


def _agreed(call: dict[str, Any]) -> bool:
    """At a terminal, show the call and ask whether to approve it."""
    from hostler.cli.pause_show import show_call

    if not at_terminal():
        return True
    show_call(call)
    return typer.confirm("approve?", default=False)


def ask_person(call: dict[str, Any]) -> dict[str, Any] | None:
    """Ask the person at the terminal for an action."""
    from hostler.cli.line_input import Lines
    from hostler.cli.pause_prompt import decide_call

    lines = Lines()
    try:
        return decide_call(lines, call)
    except EOFError:
        return None
    finally:
        lines.close()


def at_terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _set_fields(action: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that are not None; a result may be None."""
    return {name: value for name, value in action.items() if value is not None or name == "result"}


def text_of(value: str) -> str:
    """Return the text of an option; `@FILE` reads it from a file."""
    if not value.startswith("@"):
        return value
    try:
        return Path(value[1:]).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{value[1:]} cannot be read: {error}", USAGE)


def object_of(value: str | None) -> dict[str, Any] | None:
    """Return the JSON object of `--edit`, or None without one."""
    import msgspec

    if value is None:
        return None
    try:
        return msgspec.json.decode(text_of(value), type=dict[str, Any])
    except msgspec.DecodeError as error:
        fail(f"--edit expects a JSON object: {error}", USAGE)
