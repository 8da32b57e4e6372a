"""A host in a process of its own: a shipped channel in its sandbox, an agent that does what it is told.

The platform's server is of the test, with TLS by the certificate `127.0.0.1.pem` in the folder.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from support.cached_installs import lend_environments
from support.channel_process import CONSTANTS
from support.server_process import PLUGINS, HostProcess
from support.trust import plugin_entry

CHANNELS = Path(__file__).parents[2] / "channels"


def lend(folder: Path, plugin: Path) -> Path:
    """Give a host in `folder` what a shipped channel requires; return the folder."""
    lend_environments("channels", plugin, folder / "host")
    return folder


@asynccontextmanager
async def host_with(
    folder: Path,
    channel: str,
    config: dict[str, Any],
    *,
    secrets: Sequence[str],
    ports: Sequence[int],
    policy: dict[str, Any] | None = None,
    **entry: Any,
) -> AsyncIterator[HostProcess]:
    """A host that was started. `channel`: `plugin/channel`; `secrets`: settings that are written into files.

    `ports`: those of the platform's server; `policy`: of the agent, by default it may do all in its own chat.
    """
    name = channel.partition("/")[0]
    config = dict(config)
    for secret in secrets:
        (folder / secret).write_text(str(config.get(secret, "")))
        config[secret] = f"file:{folder / secret}"
    agent = {
        "name": "echo",
        "runner": "plugin:test/wires/echo",
        "recovery": {"max_attempts": 100},
        "resource_policy": {"allowed_actions": ["*"]} if policy is None else policy,
    }
    content = {
        "plugins": [
            msgspec.to_builtins(plugin_entry(PLUGINS / "wires")),
            {"path": str(CHANNELS / name), "network": [f"127.0.0.1:{port}" for port in ports]},
        ],
        "agents": [agent],
        "channels": [{"name": "chat", "channel": f"plugin:hostler/{channel}", "config": config, **entry}],
    }
    file = folder / "config.yaml"
    file.write_text(json.dumps(content))
    environment = {"SSL_CERT_FILE": str(folder / "127.0.0.1.pem")}
    host = HostProcess(folder / "host", file, environment=environment, constants=CONSTANTS)
    try:
        await host.start()
        yield host
    except BaseException:  # whatever ends the test: what the host said tells why
        print(host.log)
        raise
    finally:
        host.end()
