"""Sees each look-up of a reference: a variable of the environment that is read, or a file that is opened.

It watches the process and not only the host's own functions, so that code which looks up in another way is
seen, too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.secret_refs import stored_name
from hostler.host.secret_store import SecretStore
from hostler.secrets.stored import StoredSecrets

VARIABLE = "HOSTLER_TEST_WALKED"
STORED_NAME = "walked"
CANARY = "canary-of-a-walk-7d1f"


class Lookups:
    """One reference of each kind, all of which lead to the canary; what was looked up."""

    def __init__(self, folder: Path) -> None:
        self.file, self._ran = folder / "walked-secret", folder / "walked-command-ran"
        self.file.write_text(CANARY)
        self.references = {
            "env:": f"env:{VARIABLE}",
            "file:": f"file:{self.file}",
            "secret://": f"secret://{STORED_NAME}",
            "command:": f"command:{shutil.which('touch')} {self._ran}",
        }
        self.seen: set[str] = set()

    def take(self) -> set[str]:
        """Return the kinds that were looked up since the last call."""
        if self._ran.exists():
            self._ran.unlink()
            self.seen.add("command:")
        found, self.seen = self.seen, set()
        return found

    @contextlib.contextmanager
    def watching(self) -> Iterator[Lookups]:
        """Watch this process."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(VARIABLE, CANARY)
            patch.setattr(os, "environ", _Watched(os.environ, self))
            self._watch_store(patch)
            _WATCHING.append(self)
            _install_hook()
            try:
                yield self
            finally:
                _WATCHING.remove(self)

    def _watch_store(self, patch: pytest.MonkeyPatch) -> None:
        """Stored secrets are opened by these two, for entries and for runs."""
        read, for_run = StoredSecrets.read, SecretStore.for_run

        def watched_read(store: StoredSecrets, value: str | None) -> str | None:
            if stored_name(value) == STORED_NAME:
                self.seen.add("secret://")
            return read(store, value)

        async def watched_for_run(store: SecretStore, ws: str, names: Sequence[str], run_id: str) -> Any:
            if STORED_NAME in names:
                self.seen.add("secret://")
            return await for_run(store, ws, names, run_id)

        patch.setattr(StoredSecrets, "read", watched_read)
        patch.setattr(SecretStore, "for_run", watched_for_run)


class _Watched(MutableMapping[str, str]):
    """The environment. Copies of it as a whole are no look-up."""

    def __init__(self, plain: MutableMapping[str, str], lookups: Lookups) -> None:
        self._plain, self._lookups = plain, lookups

    def _note(self, name: object) -> None:
        if name == VARIABLE:
            self._lookups.seen.add("env:")

    def __getitem__(self, name: str) -> str:
        self._note(name)
        return self._plain[name]

    def __contains__(self, name: object) -> bool:
        self._note(name)
        return name in self._plain

    def get(self, name: str, default: Any = None) -> Any:
        self._note(name)
        return self._plain.get(name, default)

    def __setitem__(self, name: str, value: str) -> None:
        self._plain[name] = value

    def __delitem__(self, name: str) -> None:
        del self._plain[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._plain)

    def __len__(self) -> int:
        return len(self._plain)

    def items(self) -> Any:
        return self._plain.items()

    def values(self) -> Any:
        return self._plain.values()

    def copy(self) -> dict[str, str]:
        return dict(self._plain)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)


_WATCHING: list[Lookups] = []
_installed: list[bool] = []


def _install_hook() -> None:
    """A hook stays until the process ends: there is one, which does nothing while nobody watches."""
    if not _installed:
        _installed.append(True)
        sys.addaudithook(_on_event)


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _WATCHING and isinstance(arguments[0], str | bytes | os.PathLike):
        name = os.fsdecode(arguments[0])
        for lookups in _WATCHING:
            if name == str(lookups.file):
                lookups.seen.add("file:")
