"""`ctx.states` and `ctx.storage`: what outlives a run."""

from __future__ import annotations

import base64
from typing import Any

from hostler_protocol.calls import StorageArea
from hostler_protocol.json_values import json_problem
from hostler_sdk.errors import InvalidArgument
from hostler_sdk.host_api.port import Group, HostCalls, stated


class States(Group):
    """`ctx.states`: JSON values by scope (`conversation`, `actor`, `subject`, `runner`) and key.

    InvalidArgument for a wrong scope. `ctx.state` is the snapshot from the start of the run.
    """

    async def get(self, scope: str, key: str, default: Any = None) -> Any:
        """The value, or `default` where there is none."""
        reply = await self._host.call("state.get", {"scope": scope, "key": key})
        return reply.value if reply.version else default

    async def version(self, scope: str, key: str) -> int:
        """The version of the value, for `set(..., if_version=)`; 0 where there is none."""
        reply = await self._host.call("state.get", {"scope": scope, "key": key})
        found: int = reply.version
        return found

    async def set(self, scope: str, key: str, value: Any, if_version: int | None = None) -> int:
        """Write a value of at most 256 KiB of JSON; gives the version written.

        With `if_version` only over that version (0: only if absent), else Conflict.
        """
        params = {"scope": scope, "key": key, "value": value} | stated(if_version=if_version)
        written: int = (await self._host.call("state.set", params)).version
        return written

    async def delete(self, scope: str, key: str) -> bool:
        """Remove a value; says whether there was one."""
        deleted: bool = (await self._host.call("state.delete", {"scope": scope, "key": key})).deleted
        return deleted

    async def keys(self, scope: str, prefix: str | None = None) -> list[str]:
        """All keys of a scope in their order, or those that begin with `prefix`."""
        return await _all_keys(self._host, "state.list", stated(scope=scope, prefix=prefix))


class StorageRoom:
    """Bytes by key, in one of the two areas."""

    __slots__ = ("_area", "_host")

    def __init__(self, host: HostCalls, area: StorageArea) -> None:
        self._host = host
        self._area = area

    async def get(self, key: str) -> bytes | None:
        """The bytes, or None where there are none."""
        reply = await self._host.call("storage.get", {"area": self._area, "key": key})
        content: str | None = reply.content_base64
        return None if content is None else base64.b64decode(content)

    async def set(self, key: str, content: bytes | str) -> None:
        """Store at most 4 MiB; text as UTF-8."""
        if isinstance(content, str) and (problem := json_problem(content, "content")) is not None:
            raise InvalidArgument(f"storage.set: {problem}")
        data = content.encode() if isinstance(content, str) else content
        encoded = base64.b64encode(data).decode()
        await self._host.call("storage.set", {"area": self._area, "key": key, "content_base64": encoded})

    async def delete(self, key: str) -> bool:
        """Remove a key; says whether it was there."""
        deleted: bool = (await self._host.call("storage.delete", {"area": self._area, "key": key})).deleted
        return deleted

    async def keys(self, prefix: str | None = None) -> list[str]:
        """All keys in their order, or those that begin with `prefix`."""
        return await _all_keys(self._host, "storage.keys", stated(area=self._area, prefix=prefix))


class Storage:
    """`ctx.storage`: `plugin` is this plugin's own, `workspace` is shared by what runs in the workspace."""

    __slots__ = ("plugin", "workspace")

    def __init__(self, host: HostCalls) -> None:
        self.plugin = StorageRoom(host, "plugin")
        self.workspace = StorageRoom(host, "workspace")


async def _all_keys(host: HostCalls, method: str, params: dict[str, Any]) -> list[str]:
    keys: list[str] = []
    cursor: str | None = None
    while True:
        page = await host.call(method, params | stated(cursor=cursor))
        keys.extend(page.items)
        if not page.has_more or page.next_cursor in (None, cursor):
            return keys
        cursor = page.next_cursor
