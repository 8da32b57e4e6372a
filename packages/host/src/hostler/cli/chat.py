"""`hostler chat`: a conversation in the terminal, or with whatever is piped in."""

from __future__ import annotations

import os
import select
import socket
import sys
from concurrent.futures import Future
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.options import DataOption, KeyOption, UrlOption, data_directory
from hostler.cli.output import FAILED, INTERRUPTED, USAGE, err, fail, note, out, show_error

if TYPE_CHECKING:
    from hostler.cli.background import Background
    from hostler.cli.once import Wanted
    from hostler.cli.talk import Talk
    from hostler.cli.targets import LocalTarget
    from hostler.feed import StoredResult

HISTORY_ITEMS = 50
PROMPT = "› "
HELP = """\
/help       this list
/cancel     stop the answer (also Ctrl-C)
/state      what is kept for this conversation
/history    what was said
/quit       leave (also Ctrl-D)
Anything else is said to the agent; while it answers too."""


def chat(
    target: Annotated[
        str, typer.Argument(help="An agent's name, a plugin folder[:runner], or file.py:Class.")
    ],
    conversation: Annotated[
        str | None, typer.Option("--conversation", "-c", metavar="ID", help="Go on in this conversation.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Runner configuration.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="ID", help="The model for a runner that asks for one.")
    ] = None,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Talk with an agent: streaming, /cancel, /state, /history."""
    from hostler.cli.background import Background
    from hostler.cli.once import Wanted
    from hostler.cli.run import parse_settings
    from hostler.cli.targets import local_target
    from hostler_protocol.errors import CallerError, HostlerError
    from hostler_protocol.ids import new_id

    wanted = Wanted(
        target=target,
        text="",
        as_json=False,
        conversation=conversation or new_id(),
        config=parse_settings(settings or []),
        model=model,
        config_file=None,
        data=data,
        url=url,
        key=key,
    )
    try:
        place = local_target(target)
        with Background() as background:
            stack = AsyncExitStack()
            try:
                talk = background.run(_open(stack, wanted, place, data_directory(data)))
                status = converse(background, talk, again=target)
            finally:
                background.run(stack.aclose())
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except CallerError as error:
        fail(error.message, USAGE)
    except HostlerError as error:
        fail(error.message)
    raise typer.Exit(status)


async def _open(stack: AsyncExitStack, wanted: Wanted, place: LocalTarget | None, data_dir: Path) -> Talk:
    from hostler.cli.child_server import serving
    from hostler.cli.client import Api
    from hostler.cli.reach import find_server
    from hostler.cli.remote import agent_on_server
    from hostler.cli.talk import Talk

    address = find_server(wanted.url, wanted.key, data_dir)
    if address is None:
        address = (await stack.enter_async_context(serving(data_dir))).address
    api = Api.at(address.url, address.key)
    stack.push_async_callback(api.close)
    name = await stack.enter_async_context(agent_on_server(api, wanted, place, data_dir))
    return Talk(api, name, wanted.conversation)


def converse(background: Background, talk: Talk, *, again: str | None = None) -> int:
    """Talk until the person leaves, or the piped input ends; the exit status. `again`: the target to name."""
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if not terminal:
        return _piped(background, talk)
    err().print(f"[bold]{talk.agent}[/]  [dim]/help for what there is, Ctrl-D to leave[/]")
    _enable_editing()
    interrupts = 0
    while interrupts < 2:
        try:
            line = input(_prompt()).strip()
        except EOFError:
            break
        except KeyboardInterrupt:
            interrupts += 1
            note("\nCtrl-C again to leave" if interrupts == 1 else "")
            continue
        interrupts = 0
        if line in ("/quit", "/exit", "/q"):
            break
        _act(background, talk, line)
    if again is not None:
        note(f"\nto go on: hostler chat {again} --conversation {talk.conversation_id}")
    return 0


def _piped(background: Background, talk: Talk) -> int:
    """Say each line, one after the other."""
    status = 0
    for raw in sys.stdin:
        line = raw.strip()
        if line in ("/quit", "/exit", "/q"):
            break
        if line.startswith("/"):
            _command(background, talk, line)
        elif line:
            ended = background.run(_turn(talk, line, Screen(coloured=False)))
            status = status or (0 if ended == "run.completed" else FAILED)
    return status


def _enable_editing() -> None:
    try:
        import readline  # noqa: F401 - gives input() line editing and a history
    except ImportError:
        note("line editing is not available in this Python")


def _prompt() -> str:
    return f"\x01\x1b[1;36m\x02{PROMPT}\x01\x1b[0m\x02" if _coloured() else PROMPT


def _coloured() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _act(background: Background, talk: Talk, line: str) -> None:
    """Do what a line says, and stay with the answer while it comes."""
    if line.startswith("/"):
        _command(background, talk, line)
        return
    if not line:
        return
    screen = Screen(coloured=_coloured())
    turns = [background.start(_turn(talk, line, screen))]
    reader, writer = socket.socketpair()
    with reader, writer:
        turns[0].add_done_callback(lambda _: writer.send(b"."))
        while not all(turn.done() for turn in turns):
            try:
                ready, _, _ = select.select([sys.stdin, reader], [], [])
            except KeyboardInterrupt:
                background.run(_cancel(talk))
                continue
            if reader in ready:
                reader.recv(64)
            if sys.stdin in ready:
                more = sys.stdin.readline().strip()
                if more.startswith("/"):
                    _command(background, talk, more)
                elif more:
                    turns.append(background.start(_turn(talk, more, Screen(coloured=_coloured()))))
                    turns[-1].add_done_callback(lambda _: writer.send(b"."))
    for turn in turns:
        _report(turn)
    out().print()


def _report(turn: Future[str]) -> None:
    from hostler_protocol.errors import HostlerError

    try:
        turn.result()
    except HostlerError as error:
        show_error(error.message)


async def _turn(talk: Talk, text: str, screen: Screen) -> str:
    """One message and its answer; the type of the last result."""
    last = ""
    try:
        async for result in talk.say(text):
            screen.result(result)
            last = result.type
    finally:
        screen.end()
    return last


async def _cancel(talk: Talk) -> None:
    if not await talk.cancel():
        note("nothing is running")


def _command(background: Background, talk: Talk, line: str) -> None:
    from hostler_protocol.errors import HostlerError

    name = line.split(maxsplit=1)[0]
    try:
        match name:
            case "/help":
                out().print(HELP, markup=False)
            case "/cancel":
                background.run(_cancel(talk))
            case "/state":
                _show_state(background, talk)
            case "/history":
                for item in background.run(talk.history(HISTORY_ITEMS)):
                    out().print(f"{item['role']:>9}  ", style="dim", end="", markup=False)
                    out().print(item["content"], markup=False)
            case _:
                note(f"{name} is no command here; /help lists what there is")
    except HostlerError as error:
        show_error(error.message)


def _show_state(background: Background, talk: Talk) -> None:
    import msgspec

    entries = background.run(talk.state())
    for entry in entries:
        value = msgspec.json.encode(entry["value"]).decode()
        out().print(f"{entry['key']} = {value}", markup=False)
    if not entries:
        note("nothing is kept for this conversation yet")


class Screen:
    """Shows the results of one run in the terminal, Markdown as it streams."""

    def __init__(self, *, coloured: bool) -> None:
        from hostler.cli.markdown import MarkdownStream
        from hostler.cli.show import Show

        self._markdown = MarkdownStream() if coloured else None
        self._show = Show(write=self._write, before_end=self._rest)

    def result(self, result: StoredResult) -> None:
        """Show one result."""
        self._show.result(result)

    def end(self) -> None:
        """Finish what is unfinished."""
        self._show.end()

    def _write(self, text: str) -> None:
        sys.stdout.write(text if self._markdown is None else self._markdown.feed(text))
        sys.stdout.flush()

    def _rest(self) -> None:
        if self._markdown is not None:
            sys.stdout.write(self._markdown.end())
            sys.stdout.flush()
