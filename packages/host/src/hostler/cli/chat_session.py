"""A conversation at a terminal, or with whatever is piped in.

Answers stream in the background; the main thread waits for what the person types. What is typed while an
answer comes is sent at once. A call that waits for a decision is put to the person as soon as it is seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from hostler.cli.line_input import Lines
from hostler.cli.output import FAILED, PAUSED, err, note, out, show_error
from hostler.cli.pause_prompt import decide_call
from hostler.cli.pause_show import show_pause, summary, what_next
from hostler.cli.screen import Screen, coloured
from hostler_protocol.errors import HostlerError, UnauthorizedError

if TYPE_CHECKING:
    from hostler.cli.loop_thread import Background
    from hostler.cli.talk import Said, Talk

HISTORY_ITEMS = 50
LOOK_SECONDS = 0.7
"""How soon a call that waits is seen while an answer is under way."""
PROMPT = "› "
QUIT = ("/quit", "/exit", "/q")
HELP = """\
/help       this list
/cancel     stop the answer (also Ctrl-C)
/pauses     what waits for a decision, once more
/state      what is kept for this conversation
/history    what was said
/quit       leave (also Ctrl-D)
Anything else is said to the agent; while it answers too."""
RECEIPTS = {
    "steered": "steered: the answer under way takes it in",
    "queued": "queued: it is answered next",
}


def converse(background: Background, talk: Talk, *, again: str | None = None) -> int:
    """Talk until the person leaves, or the piped input ends; the exit status. `again`: the target to name."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return _piped(background, talk)
    err().print(f"[bold]{talk.agent}[/]  [dim]/help for what there is, Ctrl-D to leave[/]")
    _enable_editing()
    conversation = Conversation(background, talk)
    try:
        conversation.go_on()
    finally:
        conversation.close()
    if again is not None:
        note(f"\nto go on: hostler chat {again} --conversation {talk.conversation_id}")
    return 0


class Conversation:
    """What the person and the agent have under way."""

    def __init__(self, background: Background, talk: Talk) -> None:
        self._background = background
        self._talk = talk
        self._lines = Lines()
        self._turns: list[Future[None]] = []
        self._followed: set[str] = set()
        self._steers: list[Said] = []
        self._seen: set[tuple[str, int, str]] = set()
        self._to_ask: deque[tuple[dict[str, Any], dict[str, Any]]] = deque()
        self._screen = Screen(coloured=coloured())
        self._watch = background.start(self._look_for_pauses())

    def close(self) -> None:
        """Stop looking."""
        self._watch.cancel()
        self._lines.close()

    def go_on(self) -> None:
        """Take what the person types until they leave."""
        interrupts = 0
        while interrupts < 2 and not self._lines.ended:
            try:
                line = self._lines.pop()
                line = (input(_prompt()) if line is None else line).strip()
            except EOFError:
                return
            except KeyboardInterrupt:
                interrupts += 1
                note("\nCtrl-C again to leave" if interrupts == 1 else "")
                continue
            interrupts = 0
            if line in QUIT:
                return
            self._take(line)
            if not self._stay():
                return

    def _take(self, line: str) -> None:
        if line.startswith("/"):
            self._command(line)
        elif line:
            self._say(line)

    def _say(self, text: str) -> None:
        try:
            said = self._background.run(self._talk.send(text))
        except HostlerError as error:
            show_error(error.message)
            return
        if said.outcome in RECEIPTS:
            note(RECEIPTS[said.outcome])
        if said.outcome == "steered":
            self._steers.append(said)
        self._follow(said.run_id)

    def _follow(self, run_id: str) -> None:
        if run_id in self._followed:
            return
        self._followed.add(run_id)
        self._screen = Screen(coloured=coloured())
        turn = self._background.start(_show(self._talk, run_id, self._screen))
        turn.add_done_callback(lambda _: self._lines.wake())
        self._turns.append(turn)

    def _stay(self) -> bool:
        """Stay with what is under way until it is over; False: the person leaves."""
        while True:
            self._reap()
            if not self._turns:
                return True
            try:
                line = self._lines.wait()
                if line is None:
                    if self._lines.ended:
                        return False
                    self._ask_all()
                elif line.strip() in QUIT:
                    return False
                else:
                    self._take(line.strip())
            except EOFError:
                return False
            except KeyboardInterrupt:
                self._background.run(self._cancel())

    def _reap(self) -> None:
        """Tell how turns ended; a message that its run did not take is followed to the next."""
        for turn in [turn for turn in self._turns if turn.done()]:
            self._turns.remove(turn)
            try:
                turn.result()
            except HostlerError as error:
                show_error(error.message)
            if not self._turns:
                out().print()
                self._settle_steers()

    def _settle_steers(self) -> None:
        for said in self._steers:
            try:
                receipt = self._background.run(self._talk.receipt(said.event_id))
            except HostlerError as error:
                show_error(error.message)
                continue
            if receipt.get("status") == "requeued":
                self._follow(receipt.get("next_run_id") or receipt["run_id"])
            elif receipt.get("status") == "dropped":
                note("what you said meanwhile came too late, and was dropped by the agent's policy")
        self._steers.clear()

    # -- what waits for a decision ----------------------------------------------------------------

    async def _look_for_pauses(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not self._talk.running:
                continue
            try:
                found = await self._talk.waiting()
            except UnauthorizedError:
                return  # a key that may not see pauses: somebody else decides
            except HostlerError:
                continue  # the streams tell what is wrong with the server
            if self._offer(found):
                self._lines.wake()

    def _offer(self, pauses: list[dict[str, Any]]) -> bool:
        """Note the calls that were not put to the person yet; whether there are any."""
        new = False
        for pause in pauses:
            for call in pause["calls"]:
                key = (pause["id"], pause["revision"], call["call_id"])
                if key in self._seen or not (call["decision"] == "undecided" or call.get("review")):
                    continue
                self._seen.add(key)
                self._to_ask.append((pause, call))
                new = True
        return new

    def _ask_all(self) -> None:
        while self._to_ask:
            pause, call = self._to_ask.popleft()
            self._screen.end()
            if not call["may_decide"]:
                note(f"the run waits, and it is not yours to decide: {summary(pause)}")
                continue
            self._ask(pause, call)

    def _ask(self, pause: dict[str, Any], call: dict[str, Any]) -> None:
        out().print()
        try:
            action = decide_call(self._lines, call)
        except KeyboardInterrupt:
            out().print()
            action = None
        if action is None:
            note("left for later: /pauses shows it again")
            return
        try:
            answer = self._background.run(self._talk.decide(pause, action))
        except HostlerError as error:
            show_error(error.message)
            self._seen.discard((pause["id"], pause["revision"], call["call_id"]))
            return
        if answer.get("remaining"):
            note(f"taken; {answer['remaining']} more to decide")

    # -- commands ---------------------------------------------------------------------------------

    async def _cancel(self) -> None:
        if not await self._talk.cancel():
            note("nothing is running")

    def _command(self, line: str) -> None:
        try:
            if line.split(maxsplit=1)[0] == "/pauses":
                self._show_pauses()
            else:
                command(self._background, self._talk, line)
        except HostlerError as error:
            show_error(error.message)

    def _show_pauses(self) -> None:
        found = self._background.run(self._talk.waiting())
        self._seen.clear()
        self._to_ask.clear()
        if not found:
            note("nothing waits for a decision")
        for pause in found:
            if not any(call["may_decide"] for call in pause["calls"]):
                show_pause(pause)
        self._offer(found)
        self._ask_all()


def command(background: Background, talk: Talk, line: str) -> None:
    """Do what a line that begins with a slash says. HostlerError."""
    name = line.split(maxsplit=1)[0]
    match name:
        case "/help":
            out().print(HELP, markup=False)
        case "/cancel":
            if not background.run(talk.cancel()):
                note("nothing is running")
        case "/state":
            _show_state(background, talk)
        case "/pauses":
            for pause in background.run(talk.waiting()):
                show_pause(pause)
        case "/history":
            for item in background.run(talk.history(HISTORY_ITEMS)):
                mark = "waiting" if "waits_for" in item else item["role"]
                out().print(f"{mark:>9}  ", style="dim", end="", markup=False)
                out().print(item["content"], markup=False)
        case _:
            note(f"{name} is no command here; /help lists what there is")


def _piped(background: Background, talk: Talk) -> int:
    """Say each line, one after the other, until one waits for somebody."""
    status = 0
    for raw in sys.stdin:
        line = raw.strip()
        if line in QUIT:
            break
        if line.startswith("/"):
            try:
                command(background, talk, line)
            except HostlerError as error:
                show_error(error.message)
        elif line:
            ended = background.run(_answer(talk, line))
            if ended == "run.paused":
                background.run(_tell_what_next(talk))
                return PAUSED
            status = status or (0 if ended == "run.completed" else FAILED)
    return status


async def _answer(talk: Talk, text: str) -> str:
    """One message and its answer, until it ends or waits; the type of the last result."""
    screen, last = Screen(coloured=False), ""
    try:
        async with contextlib.aclosing(talk.say(text)) as results:
            async for result in results:
                screen.result(result)
                last = result.type
                if last == "run.paused":
                    break
    finally:
        screen.end()
    return last


async def _tell_what_next(talk: Talk) -> None:
    try:
        for pause in await talk.waiting():
            what_next(pause)
    except HostlerError as error:
        show_error(error.message)


async def _show(talk: Talk, run_id: str, screen: Screen) -> None:
    try:
        async with contextlib.aclosing(talk.follow(run_id)) as results:
            async for result in results:
                screen.result(result)
    finally:
        screen.end()


def _show_state(background: Background, talk: Talk) -> None:
    import msgspec

    entries = background.run(talk.state())
    for entry in entries:
        value = msgspec.json.encode(entry["value"]).decode()
        out().print(f"{entry['key']} = {value}", markup=False)
    if not entries:
        note("nothing is kept for this conversation yet")


def _enable_editing() -> None:
    try:
        import readline  # noqa: F401 - gives input() line editing and a history
    except ImportError:
        note("line editing is not available in this Python")


def _prompt() -> str:
    return f"\x01\x1b[1;36m\x02{PROMPT}\x01\x1b[0m\x02" if coloured() else PROMPT


__all__ = ["Conversation", "command", "converse"]
