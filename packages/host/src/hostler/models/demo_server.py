"""The child process of the demo model: `python -m hostler.models.demo_server`.

It reads one JSON line from standard input, loads the model, writes one JSON line with its address, and serves
until its input ends. `--check` only loads the model and reports an error, for people who look for a cause.
"""

from __future__ import annotations

import importlib
import os
import sys

import msgspec

from hostler.models.demo import DEMO_CONTEXT_WINDOW, DEMO_MODEL, DEMO_PARALLEL, ENGINE_PACKAGE, demo_weights
from hostler_protocol._base import Strict
from hostler_protocol.errors import HostError


class DemoLaunch(Strict):
    """The model to serve. `window` in tokens, for each of `parallel` answers at once."""

    weights: str
    key: str
    window: int = DEMO_CONTEXT_WINDOW
    parallel: int = DEMO_PARALLEL


def serve(launch: DemoLaunch) -> tuple[object, str]:
    """Load the model and listen on a free loopback port. Return the server, to be kept alive, and its URL."""
    engine = importlib.import_module(ENGINE_PACKAGE)
    params = engine.CommonParams()
    params.model.path = launch.weights
    params.model_alias = {DEMO_MODEL}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [launch.key]
    params.n_ctx = launch.window * launch.parallel
    params.n_parallel = launch.parallel
    params.cpuparams.n_threads = max(1, min(4, os.cpu_count() or 1))
    params.ui = False
    server = engine.Server(params)
    return server, server.listening_address


def main() -> int:
    """Serve until standard input ends."""
    if "--check" in sys.argv[1:]:
        try:
            _server, url = serve(DemoLaunch(weights=str(demo_weights()), key="check"))
        except HostError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        sys.stderr.write(f"the demo model was loaded and answered at {url}\n")
        sys.stderr.flush()
        os._exit(0)  # collecting the engine right after its start can deadlock
    launch = msgspec.json.decode(sys.stdin.buffer.readline(), type=DemoLaunch)
    wire = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of the engine must not mix with the answer
    _server, url = serve(launch)  # kept alive: it stops when it is collected
    wire.write(msgspec.json.encode({"url": url}) + b"\n")
    wire.flush()
    while sys.stdin.buffer.read(4096):
        pass
    os._exit(0)  # nobody reads the remaining answers


if __name__ == "__main__":
    sys.exit(main())
