"""A conversation at a terminal, or with messages from a pipe.

Answers stream in the background, while the main thread waits for input. Text typed during an answer is sent
at once. A call that waits for a decision is shown as soon as it is found.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from hostler.cli.line_input import Lines
from hostler.cli.output import FAILED, PAUSED, note, show_error
from hostler.cli.pause_prompt import decide_call
from hostler.cli.pause_show import show_pause, summary, what_next
from hostler.cli.screen import Screen, coloured
from hostler.cli.terminal import err, out
from hostler_protocol.errors import HostlerError, UnauthorizedError

if TYPE_CHECKING:
    from hostler.cli.loop_thread import Background
    from hostler.cli.talk import SentMessage, Talk

HISTORY_ITEMS = 50
LOOK_SECONDS = 0.7
"""How often to look for calls that wait for a decision, while a run is active."""
PROMPT = "› "
QUIT = ("/quit", "/exit", "/q")
HELP = """\
/help       show this list
/cancel     stop the answer (also Ctrl-C)
/pauses     show again what waits for a decision
/state      show the state kept for this conversation
/history    show the messages so far
/quit       leave (also Ctrl-D)
Anything else is sent to the agent, also while it answers."""
RECEIPTS = {
    "steered": "steered: the current answer takes it into account",
    "queued": "queued: it will be answered next",
}


def converse(background: Background, talk: Talk, *, again: str | None = None) -> int:
    """Chat until the person leaves or the piped input ends, and return the exit status.

    With `again`, the TARGET of the command, the command that continues the conversation is shown at the end.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return _piped(background, talk)
    err().print(f"[bold]{talk.agent}[/]  [dim]/help for the commands, Ctrl-D to leave[/]")
    _enable_editing()
    session = ChatSession(background, talk)
    try:
        session.read_input()
    finally:
        session.close()
    if again is not None:
        note(f"\nto continue: hostler chat {again} --conversation {talk.conversation_id}")
    return 0


class ChatSession:
    """A chat at a terminal: input, the runs that answer, and the calls that wait for a decision."""

    def __init__(self, background: Background, talk: Talk) -> None:
        self._background = background
        self._talk = talk
        self._lines = Lines()
        self._turns: list[Future[None]] = []
        self._followed: set[str] = set()
        self._steers: list[SentMessage] = []
        self._seen: set[tuple[str, int, str]] = set()
        self._to_ask: deque[tuple[dict[str, Any], dict[str, Any]]] = deque()
        self._screen = Screen(coloured=coloured())
        self._watch = background.start(self._look_for_pauses())

    def close(self) -> None:
        """Stop looking for calls, and close the input."""
        self._watch.cancel()
        self._lines.close()

    def read_input(self) -> None:
        """Read and act on input until the person leaves."""
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
            self._act_on(line)
            if not self._wait_for_answers():
                return

    def _act_on(self, line: str) -> None:
        if line.startswith("/"):
            self._command(line)
        elif line:
            self._send(line)

    def _send(self, text: str) -> None:
        try:
            sent = self._background.run(self._talk.send(text))
        except HostlerError as error:
            show_error(error.message)
            return
        if sent.outcome in RECEIPTS:
            note(RECEIPTS[sent.outcome])
        if sent.outcome == "steered":
            self._steers.append(sent)
        self._follow(sent.run_id)

    def _follow(self, run_id: str) -> None:
        if run_id in self._followed:
            return
        self._followed.add(run_id)
        self._screen = Screen(coloured=coloured())
        turn = self._background.start(_show(self._talk, run_id, self._screen))
        turn.add_done_callback(lambda _: self._lines.wake())
        self._turns.append(turn)

    def _wait_for_answers(self) -> bool:
        """Act on input until all active runs have ended. Return False if the person leaves."""
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
                    self._act_on(line.strip())
            except EOFError:
                return False
            except KeyboardInterrupt:
                self._background.run(self._cancel())

    def _reap(self) -> None:
        """Show errors of ended turns. Follow a message that its run did not absorb to the next run."""
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
        for sent in self._steers:
            try:
                receipt = self._background.run(self._talk.receipt(sent.event_id))
            except HostlerError as error:
                show_error(error.message)
                continue
            if receipt.get("status") == "requeued":
                self._follow(receipt.get("next_run_id") or receipt["run_id"])
            elif receipt.get("status") == "dropped":
                note("your last message came too late, and the agent's policy dropped it")
        self._steers.clear()

    # -- calls that wait for a decision -----------------------------------------------------------

    async def _look_for_pauses(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not self._talk.running:
                continue
            try:
                found = await self._talk.waiting()
            except UnauthorizedError:
                return  # the key may not see pauses: another person decides
            except HostlerError:
                continue  # the streams report what is wrong with the server
            if self._offer(found):
                self._lines.wake()

    def _offer(self, pauses: list[dict[str, Any]]) -> bool:
        """Queue the calls that were not shown yet. Return whether there are any."""
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
                note(f"the run waits for a decision that you may not make: {summary(pause)}")
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
            note(f"saved; {answer['remaining']} more to decide")

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
    """Carry out a line that begins with a slash. HostlerError."""
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
            note(f"unknown command {name}: /help lists the commands")


def _piped(background: Background, talk: Talk) -> int:
    """Send each line and show its answer, until a run waits for a decision. Return the exit status."""
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
                background.run(_show_next_steps(talk))
                return PAUSED
            status = status or (0 if ended == "run.completed" else FAILED)
    return status


async def _answer(talk: Talk, text: str) -> str:
    """Send a message, show its answer until it ends or pauses, and return the type of the last result."""
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


async def _show_next_steps(talk: Talk) -> None:
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
        note("this conversation has no state yet")


def _enable_editing() -> None:
    try:
        import readline  # noqa: F401 - adds line editing and a history to input()
    except ImportError:
        note("line editing is not available in this Python")


def _prompt() -> str:
    return f"\x01\x1b[1;36m\x02{PROMPT}\x01\x1b[0m\x02" if coloured() else PROMPT
