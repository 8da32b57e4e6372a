"""Owners of working folders."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from hostler_protocol._base import Strict
from hostler_protocol.ids import digest
from hostler_protocol.limits import MIB


class WorkingFolderSettings(Strict):
    """The folders that `exec` and `files` work in, below the data directory.

    `per`: one for each conversation (with its agent and thread), which lasts, or one for each run. What lies
    in one folder together has at most `disk_mib` in at most `max_files` files and folders. A folder that
    nothing has used for `keep_days` is removed. There are at most `max_folders`; they leave `spare_mib`
    of the disk free.
    """

    per: Literal["conversation", "run"] = "conversation"
    disk_mib: Annotated[int, msgspec.Meta(ge=1, le=1_048_576)] = 256
    max_files: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000
    keep_days: Annotated[float, msgspec.Meta(gt=0, le=3650)] = 7.0
    max_folders: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000
    spare_mib: Annotated[int, msgspec.Meta(ge=0, le=1_048_576)] = 256

    @property
    def disk_bytes(self) -> int:
        """The same in bytes."""
        return self.disk_mib * MIB

    @property
    def spare_bytes(self) -> int:
        """`spare_mib` in bytes."""
        return self.spare_mib * MIB


class FolderOwner(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whose a folder is: a conversation with an agent (and its bot and thread), or one run."""

    kind: Literal["conversation", "run"]
    workspace_id: str
    agent_id: str | None = None
    bot_id: str | None = None
    conversation_id: str | None = None
    thread_id: str | None = None
    run_id: str | None = None

    @property
    def key(self) -> str:
        """The name of the folder: 64 hexadecimal digits."""
        return digest(msgspec.to_builtins(self))
