"""`ctx.states` and `ctx.storage`: values that outlive a run."""

from __future__ import annotations

import base64
from typing import Any

from hostler_protocol.calls import StorageArea
from hostler_protocol.json_values import json_problem
from hostler_sdk.errors import InvalidArgument
from hostler_sdk.host_api.port import Group, HostCalls, stated


class States(Group):
    """`ctx.states`: JSON values by scope and key.

    Scopes are `conversation`, `actor`, `subject` and `runner`; InvalidArgument for another one, Unauthorized
    for one that the agent does not enable. `ctx.state` is a snapshot from the start of the run.

        seen = await ctx.states.get("actor", "visits", 0)
        await ctx.states.set("actor", "visits", seen + 1)
    """

    async def get(self, scope: str, key: str, default: Any = None) -> Any:
        """Return the value, or `default` if there is none."""
        reply = await self._host.call("state.get", {"scope": scope, "key": key})
        return reply.value if reply.version else default

    async def version(self, scope: str, key: str) -> int:
        """Return the version of the value, for `set(..., if_version=)`; 0 if there is none."""
        reply = await self._host.call("state.get", {"scope": scope, "key": key})
        found: int = reply.version
        return found

    async def set(self, scope: str, key: str, value: Any, if_version: int | None = None) -> int:
        """Write a value, at most 256 KiB as JSON, and return its new version.

        With `if_version`, raises Conflict unless the stored value has that version (0: there is none).
        """
        params = {"scope": scope, "key": key, "value": value} | stated(if_version=if_version)
        written: int = (await self._host.call("state.set", params)).version
        return written

    async def delete(self, scope: str, key: str) -> bool:
        """Delete a value. Return whether there was one."""
        deleted: bool = (await self._host.call("state.delete", {"scope": scope, "key": key})).deleted
        return deleted

    async def keys(self, scope: str, prefix: str | None = None) -> list[str]:
        """Return all keys of a scope, sorted; with `prefix`, those that begin with it."""
        return await _all_keys(self._host, "state.list", stated(scope=scope, prefix=prefix))


class StorageRoom:
    """One area of `ctx.storage`: bytes by key, of at most 255 characters."""

    __slots__ = ("_area", "_host")

    def __init__(self, host: HostCalls, area: StorageArea) -> None:
        self._host = host
        self._area = area

    async def get(self, key: str) -> bytes | None:
        """Return the bytes, or None if there are none."""
        reply = await self._host.call("storage.get", {"area": self._area, "key": key})
        content: str | None = reply.content_base64
        return None if content is None else base64.b64decode(content)

    async def set(self, key: str, content: bytes | str) -> None:
        """Store at most 4 MiB, text as UTF-8. Raises PayloadTooLarge for more."""
        if isinstance(content, str) and (problem := json_problem(content, "content")) is not None:
            raise InvalidArgument(f"storage.set: {problem}")
        data = content.encode() if isinstance(content, str) else content
        encoded = base64.b64encode(data).decode()
        await self._host.call("storage.set", {"area": self._area, "key": key, "content_base64": encoded})

    async def delete(self, key: str) -> bool:
        """Delete a key. Return whether it existed."""
        deleted: bool = (await self._host.call("storage.delete", {"area": self._area, "key": key})).deleted
        return deleted

    async def keys(self, prefix: str | None = None) -> list[str]:
        """Return all keys, sorted; with `prefix`, those that begin with it."""
        return await _all_keys(self._host, "storage.keys", stated(area=self._area, prefix=prefix))


class Storage:
    """`ctx.storage`: bytes by key. `plugin` belongs to this plugin, `workspace` is shared by its workspace.

    A runner needs the permission `storage: [plugin, workspace]` of the area; else Unauthorized.
    """

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
