"""Owners of working folders."""

from __future__ import annotations

from typing import Literal

import msgspec

from hostler_protocol.ids import digest


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
