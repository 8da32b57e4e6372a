"""`python -m hostler_sdk.serve`: serve a plugin to a host, over standard input and output or a WebSocket.

A plugin that cannot be served ends with status 3 and one line on standard error that begins with
`hostler-plugin-error: `; the host shows it to people.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import threading
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from hostler_sdk.loading import PluginLoadError, load_distribution, load_file, load_folder
from hostler_sdk.plugin import Plugin
from hostler_sdk.stdio import check_stdio, serve_stdio, take_stdio

ERROR_PREFIX = "hostler-plugin-error: "
CANNOT_SERVE = 3
TOKEN_VARIABLE = "HOSTLER_PLUGIN_TOKEN"  # noqa: S105 - the name of a variable


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        if options.connect is not None:
            return _serve_websocket(options)
        check_stdio()
        wires = take_stdio()
        plugin = _load(options)
        # the host ends a plugin by closing its input; Ctrl-C in a terminal is the host's to act on
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return _run(serve_stdio(plugin, wires))
    except PluginLoadError as error:
        text = " ".join(str(error).split())
        sys.stderr.write(f"{ERROR_PREFIX}{text}\n")
        return CANNOT_SERVE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hostler_sdk.serve", description="Serve a plugin.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--folder", type=Path, default=Path(), help="plugin folder (default: this one)")
    what.add_argument("--runner", metavar="FILE.py:CLASS", help="serve one runner of one file")
    what.add_argument("--distribution", metavar="NAME", help="serve the runners of an installed package")
    parser.add_argument(
        "--connect", metavar="URL", help=f"dial a host at ws:// or wss:// with the token in {TOKEN_VARIABLE}"
    )
    parser.add_argument(
        "--give-up-after",
        metavar="SECONDS",
        type=float,
        default=3600.0,
        help="with --connect: end after so long without a connection (default: %(default)s)",
    )
    return parser


def _load(options: argparse.Namespace) -> Plugin:
    if options.runner is not None:
        return load_file(options.runner)
    if options.distribution is not None:
        return load_distribution(options.distribution)
    return load_folder(options.folder.resolve())


def _serve_websocket(options: argparse.Namespace) -> int:
    token = os.environ.get(TOKEN_VARIABLE)
    if not token:
        raise PluginLoadError(f"--connect needs the plugin's token in the variable {TOKEN_VARIABLE}")
    plugin = _load(options)
    from hostler_sdk.websocket import serve_websocket  # noqa: PLC0415 - needs the extra `remote`

    try:
        return _run(serve_websocket(plugin, options.connect, token, options.give_up_after))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except asyncio.CancelledError:
        return 128 + signal.SIGTERM


def _run(serving: Coroutine[Any, Any, bool]) -> int:
    with asyncio.Runner() as runner:
        stopped = runner.run(serving)
        if not stopped or _threads_left():
            # code that ignores its cancellation, or a thread, must not keep the process of a gone host
            sys.stderr.flush()
            os._exit(0)
    return 0


def _threads_left() -> bool:
    return any(
        thread is not threading.main_thread() and not thread.daemon for thread in threading.enumerate()
    )


if __name__ == "__main__":
    sys.exit(main())
