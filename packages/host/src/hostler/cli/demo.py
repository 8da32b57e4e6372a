"""`hostler demo`: a server with example agents in one command, without a model key or a network."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from hostler.cli.options import data_directory
from hostler.cli.output import report_errors
from hostler.cli.terminal import out

FIRST_PORT, PORTS = 8420, 20
CONSOLE_PAGE = "/chat"


def demo(
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="DIR", help="Keep the data here; by default it is deleted at the end."
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Port; default: 8420, or the next free one."),
    ] = None,
    model: Annotated[
        bool, typer.Option("--model", help="Add an agent on a small real model that runs offline.")
    ] = False,
    play: Annotated[
        bool | None,
        typer.Option(
            "--play/--chat",
            help="Play the scripted conversation, or chat; default: chat if there is a terminal.",
            show_default=False,
        ),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the console in a browser, or print its link.")
    ] = True,
) -> None:
    """Start a server with example agents and chat with them; without a terminal, play a short conversation.

    The conversation streams a reply, remembers something, makes an artifact,
    takes a signed webhook once, and has its server killed in the middle of an
    answer. Exit status 0 only if all of that works.
    """
    from hostler.host.demo_agents import TALKER

    plays = play if play is not None else not (sys.stdin.isatty() and sys.stdout.isatty())
    with report_errors(), _folder(data) as folder:
        config = write_config(folder, model=model)
        chosen = free_port() if port is None else port
        agents = ["guide", "echo", *([TALKER] if model else [])]
        if plays:
            status = _play(folder, config, chosen, agents)
        else:
            status = _chat(folder, config, chosen, agents, browser=browser)
    raise typer.Exit(status)


@contextlib.contextmanager
def _folder(data: Path | None) -> Iterator[Path]:
    if data is not None:
        folder = data_directory(data)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        yield folder
        return
    made = Path(tempfile.mkdtemp(prefix="hostler-demo-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def write_config(folder: Path, *, model: bool) -> Path:
    """Write the demo's configuration file and return its path. HostlerError if a part is not installed."""
    import yaml

    from hostler.host.demo_agents import WIDGET, demo_config

    if model:
        from hostler.models.demo import demo_weights

        demo_weights()
    path = folder / "demo.yaml"
    config = demo_config(model=model) | {"widgets": [WIDGET]}
    path.write_text(yaml.safe_dump(config, sort_keys=False), "utf-8")
    return path


def free_port() -> int:
    """Return the first free port from 8420 to 8439, or 0 (any) if there is none."""
    for port in range(FIRST_PORT, FIRST_PORT + PORTS):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    return 0


def _play(folder: Path, config: Path, port: int, agents: list[str]) -> int:
    from hostler.cli.demo_script import play

    return asyncio.run(play(folder, config, port, agents))


def _chat(folder: Path, config: Path, port: int, agents: list[str], *, browser: bool) -> int:
    from hostler.cli.chat_session import converse
    from hostler.cli.child_server import start_server
    from hostler.cli.client import Api
    from hostler.cli.console import link_of, open_browser
    from hostler.cli.demo_screen import greet
    from hostler.cli.loop_thread import Background
    from hostler.cli.talk import Talk
    from hostler.host.demo_agents import TALKER

    with Background() as background:
        with out().status("starting the server"):
            server = background.run(start_server(folder, port=port, config=config))
        try:
            api = Api.at(server.address.url, server.address.key)
            made = background.run(api.post("/v1/auth/links", {}))
            link = link_of(server.address.url, made["code"], CONSOLE_PAGE)
            greet(server.address.url, folder, agents, link, opened=browser and open_browser(link))
            talk = Talk(api, TALKER if TALKER in agents else "guide")
            try:
                return converse(background, talk)
            finally:
                background.run(api.close())
        finally:
            with out().status("stopping the server"):
                background.run(server.stop())
