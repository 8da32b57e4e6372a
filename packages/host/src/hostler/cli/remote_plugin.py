"""A plugin on this machine that serves a running host: a process that connects with its own token."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import hashlib
import os
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from hostler.cli.client import Api
from hostler.cli.output import note
from hostler.cli.routes import route
from hostler.cli.terminal_text import harmless
from hostler.plugins.environment import Environments
from hostler.plugins.limits import DEFAULT_START_LIMITS
from hostler.plugins.source import (
    DEFAULT_COMMAND,
    TOKEN_VARIABLE,
    Folder,
    Launch,
    SingleFile,
    argv_of,
    identity_of,
    launch_of,
    process_environment,
)
from hostler_protocol.errors import (
    ConflictError,
    HostlerError,
    InvalidArgumentError,
    NotFoundError,
    PluginStartError,
)
from hostler_sdk.serve import ERROR_PREFIX

CONNECT_SECONDS = 60.0
"""From the start of the process to the connected plugin."""
POLL_SECONDS = 0.05
STOP_SECONDS = 5.0
GIVE_UP_SECONDS = 60
"""How long the process tries to reconnect: a host that restarts is back by then."""
TOKEN_SECONDS = 7 * 86_400
MAX_STDERR_LINES = 200
GONE = (None, "disconnected")
"""States of a plugin that no process serves; None: the server does not know it."""
_TAKEN = b"taken"
_PR_SET_PDEATHSIG = 1


def web_socket_url(api: Api) -> str:
    """Return the address at which plugins connect."""
    scheme, _, rest = api.url.partition("://")
    return f"{'wss' if scheme == 'https' else 'ws'}://{rest}/v1/plugins/connect"


async def plugin_state(api: Api, plugin_key: str) -> str | None:
    """Return the state of the plugin on the server; None if the server does not know it."""
    try:
        state: str = (await api.get(route("plugins", plugin_key)))["state"]
    except NotFoundError:
        return None
    return state


class RemotePlugin:
    """A plugin process. `stderr` holds its last lines on standard error."""

    def __init__(self, process: asyncio.subprocess.Process, *, echo: bool) -> None:
        self.process = process
        self.stderr: deque[str] = deque(maxlen=MAX_STDERR_LINES)
        self._echo = echo
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            text = line.decode("utf-8", "replace").rstrip()
            self.stderr.append(text)
            if self._echo and not text.startswith(ERROR_PREFIX):
                sys.stderr.write(harmless(text) + "\n")

    async def ended(self) -> int:
        """Wait until the process ends, and return its exit status."""
        await asyncio.wait([self._reader])
        return await self.process.wait()

    def why(self) -> str:
        """Return why the process ended: its error, or its last line."""
        for line in reversed(self.stderr):
            if line.startswith(ERROR_PREFIX):
                return line.removeprefix(ERROR_PREFIX)
        last = next((line for line in reversed(self.stderr) if line.strip()), "")
        return f"the plugin's process ended with status {self.process.returncode}" + (
            f": {last}" if last else ""
        )

    async def stop(self) -> None:
        """Terminate the process, and kill the rest of its process group after 5 s."""
        if self.process.returncode is None:
            self.process.terminate()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await self.process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        await self.process.wait()
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)


@asynccontextmanager
async def serve_plugin(api: Api, source: Folder | SingleFile, *, data_dir: Path) -> AsyncIterator[None]:
    """Keep a plugin connected to the server during the block, by a process of this command where needed.

    Which process serves it is checked only when it is this command's turn: a plugin that another command
    serves ends with that command.
    """
    plugin_key = identity_of(source).key
    if await _is_servers_own(api, source, plugin_key):
        yield
        return
    async with AsyncExitStack() as stack:
        left_in_order = await stack.enter_async_context(plugin_turn(api, plugin_key))
        if not left_in_order:
            await wait_gone(api, plugin_key)
        if await plugin_state(api, plugin_key) not in GONE:
            await stack.aclose()  # `hostler dev` or another machine serves it: it takes runs side by side
        else:
            token = await stack.enter_async_context(token_for(api, plugin_key))
            await stack.enter_async_context(connected_process(api, source, token, data_dir))
        yield


async def _is_servers_own(api: Api, source: Folder | SingleFile, plugin_key: str) -> bool:
    """Return whether the server runs this folder itself.

    ConflictError if it has a plugin of the same name from another folder.
    """
    try:
        origin = (await api.get(route("plugins", plugin_key)))["source"]
    except NotFoundError:
        return False
    if origin == "remote":
        return False
    if isinstance(source, Folder):
        entries = (await api.get("/v1/config"))["plugins"]
        folders = [entry if isinstance(entry, str) else entry["path"] for entry in entries]
        if str(source.path) in folders:
            return True
    raise ConflictError(
        f"the server at {api.url} has a plugin {plugin_key} from another folder: give yours another name, or "
        "use another data directory with --data"
    )


@asynccontextmanager
async def token_for(api: Api, plugin_key: str) -> AsyncIterator[str]:
    """Create a token for one plugin identity. It is revoked at the end of the block."""
    made = await api.post(
        "/v1/keys",
        {
            "name": f"{plugin_key} from the command line",
            "plugin": plugin_key,
            "expires_at": time.time() + TOKEN_SECONDS,
        },
    )
    try:
        yield made["key"]
    finally:
        with contextlib.suppress(HostlerError):  # it expires by itself
            await api.delete(route("keys", made["record"]["key_id"]))


@asynccontextmanager
async def connected_process(
    api: Api, source: Folder | SingleFile, token: str, data_dir: Path, *, echo: bool = False
) -> AsyncIterator[RemotePlugin]:
    """Run a process of this plugin, connected to the server, during the block.

    PluginStartError with the reason if it does not connect.
    """
    launch = launch_of(source)
    if launch.argv[: len(DEFAULT_COMMAND)] != DEFAULT_COMMAND:
        raise InvalidArgumentError(
            f"the plugin {launch.identity.key} has a command of its own, which cannot connect to a server: "
            f"add it to the server's configuration as plugins: [{launch.cwd}]"
        )
    plugin = await _start(api, launch, token, data_dir, echo=echo)
    is_connected = False
    try:
        await _wait_connected(api, launch.identity.key, plugin)
        is_connected = True
        yield plugin
    finally:
        await plugin.stop()
        if is_connected:
            await wait_gone(api, launch.identity.key)


async def _start(api: Api, launch: Launch, token: str, data_dir: Path, *, echo: bool) -> RemotePlugin:
    requires = (*launch.requires, "websockets>=15") if launch.requires else ()
    environments = Environments(data_dir / "plugins" / "environments", DEFAULT_START_LIMITS)
    if requires:
        note("building the plugin's environment, unless it exists")
    python = await environments.python_for(requires, base=launch.cwd)
    process = await asyncio.create_subprocess_exec(
        *argv_of(launch, python),
        "--connect",
        web_socket_url(api),
        "--give-up-after",
        str(GIVE_UP_SECONDS),
        cwd=launch.cwd,
        env={**process_environment(launch, python), TOKEN_VARIABLE: token},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for this process alone
        preexec_fn=_end_with_parent(),
    )
    return RemotePlugin(process, echo=echo)


def _end_with_parent() -> Callable[[], None] | None:
    """Return a function that makes Linux end a child when this process ends; None on other systems."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))


async def _wait_connected(api: Api, plugin_key: str, plugin: RemotePlugin) -> None:
    ended = asyncio.create_task(plugin.ended())
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            while await plugin_state(api, plugin_key) != "ready":
                await asyncio.wait([ended], timeout=POLL_SECONDS)
                if ended.done():
                    raise PluginStartError(plugin.why())
    except TimeoutError:
        last = plugin.stderr[-1] if plugin.stderr else "no output"
        raise PluginStartError(f"the plugin did not connect within {CONNECT_SECONDS:.0f} s: {last}") from None
    finally:
        ended.cancel()
        await asyncio.gather(ended, return_exceptions=True)


async def wait_gone(api: Api, plugin_key: str) -> None:
    """Wait, at most `STOP_SECONDS`, until the server has seen the end of the plugin's process."""
    with contextlib.suppress(TimeoutError, HostlerError):  # a server that has stopped has no plugin either
        async with asyncio.timeout(STOP_SECONDS):
            while await plugin_state(api, plugin_key) not in GONE:  # noqa: ASYNC110  it is another process
                await asyncio.sleep(POLL_SECONDS)


@asynccontextmanager
async def plugin_turn(api: Api, plugin_key: str) -> AsyncIterator[bool]:
    """Wait for this command's turn, and keep it during the block.

    A host accepts one connection for each plugin identity, so commands that serve the same plugin take turns.
    Enters with False if the command before was killed: its process may still be connected.
    """
    folder = Path(tempfile.gettempdir()) / f"hostler-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise ConflictError(f"{folder} belongs to another user: remove it, or set TMPDIR")
    name = hashlib.sha256(f"{api.url} {plugin_key}".encode()).hexdigest()[:32]
    with (folder / name).open("a+b") as file:
        waiting = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waiting:
                    note(f"waiting for another run or chat of {plugin_key} to end")
                waiting = True
                await asyncio.sleep(POLL_SECONDS * 4)
        file.seek(0)
        left_in_order = not file.read()
        file.write(_TAKEN)
        file.flush()
        try:
            yield left_in_order
        finally:
            file.truncate(0)
