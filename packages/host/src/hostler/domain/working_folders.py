"""Working folders: their settings and owners."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from hostler_protocol._base import Strict
from hostler_protocol.ids import digest
from hostler_protocol.limits import MIB


class WorkingFolderSettings(Strict):
    """The folders that `exec` and `files` work in, below the data directory.

    `per`: one persistent folder for each conversation (with its agent and thread), or one for each run. The
    contents of one folder are limited to `disk_mib` and to `max_files` files and folders. A folder that was
    not used for `keep_days` is removed. There are at most `max_folders`; `spare_mib` of the disk stay free.
    """

    per: Literal["conversation", "run"] = "conversation"
    disk_mib: Annotated[int, msgspec.Meta(ge=1, le=1_048_576)] = 256
    max_files: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000
    keep_days: Annotated[float, msgspec.Meta(gt=0, le=3650)] = 7.0
    max_folders: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000
    spare_mib: Annotated[int, msgspec.Meta(ge=0, le=1_048_576)] = 256

    @property
    def disk_bytes(self) -> int:
        """`disk_mib` in bytes."""
        return self.disk_mib * MIB

    @property
    def spare_bytes(self) -> int:
        """`spare_mib` in bytes."""
        return self.spare_mib * MIB


class FolderOwner(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The owner of a folder: a conversation with an agent (and its bot and thread), or one run."""

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
