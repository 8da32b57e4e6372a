"""`hostler demo`: the whole thing in one command, without a key and without a network."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import data_directory
from hostler.cli.output import errors_told, out

if TYPE_CHECKING:
    from hostler.cli.child_server import ChildServer

FIRST_PORT, PORTS = 8420, 20
TALKER = "assistant"


def demo(
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="DIR", help="Keep the data here; without it they are gone afterwards."
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Port; without it 8420, or the next free one."),
    ] = None,
    model: Annotated[
        bool, typer.Option("--model", help="Add an agent on a small real model that runs offline.")
    ] = False,
    play: Annotated[
        bool | None,
        typer.Option(
            "--play/--chat",
            help="Play the scripted conversation, or talk; without it: talk where there is a terminal.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Start a server with example agents and talk with them; without a terminal, watch a short conversation.

    The conversation streams a reply, remembers something, makes an artifact, and has its server killed in the
    middle of an answer. Exit status 0 only if all of that was seen.
    """
    plays = play if play is not None else not (sys.stdin.isatty() and sys.stdout.isatty())
    with errors_told(), _folder(data) as folder:
        config = write_config(folder, model=model)
        chosen = free_port() if port is None else port
        status = _play(folder, config, chosen, model) if plays else _chat(folder, config, chosen, model)
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
    """The configuration of the demo, as a file to look at. HostlerError where a part is missing."""
    import yaml

    from hostler.host.bundled import bundled
    from hostler.models.demo import demo_weights

    plugins = [bundled("examples", "guide"), bundled("examples", "echo")]
    agents: list[dict[str, Any]] = [
        {
            "name": "guide",
            "runner": "plugin:hostler/guide/default",
            "config": {"pace": 0.02},
        },
        {"name": "echo", "runner": "plugin:acme/echo/default", "event_types": []},
    ]
    config: dict[str, Any] = {}
    if model:
        demo_weights()
        plugins.append(bundled("runners", "local-agent"))
        config["models"] = [{"id": "small", "provider": "demo"}]
        agents.append(
            {
                "name": TALKER,
                "runner": "plugin:hostler/local-agent/default",
                "config": {"model": "small"},
                "event_types": [],
            }
        )
    config |= {"plugins": [str(plugin) for plugin in plugins], "agents": agents}
    path = folder / "demo.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False), "utf-8")
    return path


def free_port() -> int:
    """8420 or one of the next; 0 (any) where none of them is free."""
    for port in range(FIRST_PORT, FIRST_PORT + PORTS):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    return 0


def _play(folder: Path, config: Path, port: int, model: bool) -> int:
    from hostler.cli.demo_script import play

    return asyncio.run(play(folder, config, port, TALKER if model else None))


def _chat(folder: Path, config: Path, port: int, model: bool) -> int:
    from hostler.cli.chat_session import converse
    from hostler.cli.child_server import start_server
    from hostler.cli.client import Api
    from hostler.cli.loop_thread import Background
    from hostler.cli.talk import Talk

    with Background() as background:
        with out().status("starting the server"):
            server = background.run(start_server(folder, port=port, config=config))
        try:
            greet(server, folder, model=model)
            api = Api.at(server.address.url, server.address.key)
            talk = Talk(api, TALKER if model else "guide")
            try:
                return converse(background, talk)
            finally:
                background.run(api.close())
        finally:
            with out().status("stopping the server"):
                background.run(server.stop())


def greet(server: ChildServer, folder: Path, *, model: bool) -> None:
    """Say what runs where, and how to reach it from elsewhere."""
    from rich.text import Text

    console = out()
    url = server.address.url
    console.print()
    console.print(
        Text.assemble(
            ("  hostler", "bold cyan"), ("  one durable run for every event, whatever dies meanwhile", "dim")
        )
    )
    console.print()
    names = ["guide", "echo", *([TALKER] if model else [])]
    rows = (
        ("server", Text(url, "bold")),
        ("", Text(f"{url}/docs", "dim")),
        ("agents", Text(", ".join(names), "green")),
        ("data", Text(str(folder))),
    )
    for name, value in rows:
        console.print(Text.assemble((f"  {name:8}", "dim"), value))
    console.print()
    console.print(Text("  From another terminal:", "dim"))
    for line in curl_lines(url, folder):
        console.print()
        console.print(Text(line), soft_wrap=True)
    console.print()


def curl_lines(url: str, folder: Path) -> list[str]:
    """Three requests that work as they stand while the demo runs."""
    given = "HOSTLER_ADMIN_KEY" in os.environ
    key = "$HOSTLER_ADMIN_KEY" if given else f"$(cat {shlex.quote(str(folder / 'admin.key'))})"
    auth = f'-H "Authorization: Bearer {key}"'
    json = "-H 'Content-Type: application/json'"
    hello = '{"event_type": "message.received", "agent": "echo", "input": {"text": "hello there"}}'
    count = '{"event_type": "message.received", "agent": "guide", "input": {"text": "count to 20"}}'
    return [
        f"curl -s '{url}/v1/events?wait=10' {auth} {json} -d '{hello}'",
        f"curl -sN '{url}/v1/events' {auth} {json} -H 'Accept: text/event-stream' -d '{count}'",
        f"curl -s '{url}/v1/runs?limit=5' {auth}",
    ]
