"""Files with anchors of the hash chains, read for verification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from hostler.domain.audit_anchors import AuditAnchors, NoAnchorError, read_anchor
from hostler.domain.type_fit import convert
from hostler.host.audit_anchors import key_of
from hostler.host.audit_heads import read_noted
from hostler.host.config_entries import POLICY
from hostler.host.data_directory import DEFAULT_WORKSPACE
from hostler.storage.port import Tx
from hostler.storage.stores import installation, settings
from hostler.storage.stores.verification import Noted
from hostler_protocol.errors import InvalidArgumentError, StorageError
from hostler_protocol.limits import MIB

MAX_LINE_BYTES = MIB
"""Far more than an anchor of 25 chains with the longest names."""


class AnchorFiles:
    """The file that the configuration names, and further ones.

    `key`: a reference to the key of the anchors; None: the configured one.
    """

    def __init__(
        self, stored: tuple[AuditAnchors | None, str | None], named: Sequence[Path], key: str | None
    ) -> None:
        self._settings, self._installation = stored
        self._named = named
        self._references = [key] if key is not None else []
        if self._settings is not None:
            self._references += [self._settings.key, *self._settings.earlier_keys]
        self._keys: list[str] = []

    def read(self) -> Iterator[Noted]:
        """Yield what all files noted, file by file and line by line.

        InvalidArgumentError for a named file that is missing or holds something else, and without the key.
        StorageError for a line that was altered, and if the configured file is missing, which may have been
        removed, or cannot be read.
        """
        own = None if self._settings is None or self._settings.file is None else Path(self._settings.file)
        if own is not None:
            if not own.exists():
                raise StorageError(
                    f"{own}, the file of audit_anchors, is missing: it was removed, or no host has written "
                    "to it yet"
                )
            yield from self._anchors(own)
        for path in self._named:
            if _holds_a_list(path):
                yield from read_noted(path)
            else:
                yield from self._anchors(path)

    def _anchors(self, path: Path) -> Iterator[Noted]:
        for number, line in _lines(path):
            try:
                anchor = read_anchor(line, self._signing_keys(path))
            except NoAnchorError as error:
                if number > 1 and not line.endswith(b"\n"):
                    return  # a host writes it now
                raise StorageError(f"{path}, line {number}: {error}") from None
            except ValueError as error:
                raise StorageError(f"{path}, line {number}: {error}") from None
            if self._installation is not None and anchor.installation != self._installation:
                raise InvalidArgumentError(f"{path}, line {number}: the anchor is of another database")
            when = datetime.fromtimestamp(anchor.at, UTC).isoformat(" ", "seconds")
            yield from (Noted(end, f"{path}, line {number}, at {when}") for end in anchor.chains)

    def _signing_keys(self, path: Path) -> list[str]:
        if not self._keys:
            if not self._references:
                raise InvalidArgumentError(f"{path} holds signed anchors: name their key with --anchor-key")
            self._keys = [key_of(reference) for reference in self._references]
        return self._keys


def stored_settings(tx: Tx) -> tuple[AuditAnchors | None, str | None]:
    """Return the stored settings of anchors and the id of the database. InvalidArgumentError."""
    found = settings.find(tx, DEFAULT_WORKSPACE, "audit_anchors", POLICY)
    entry = None if found is None else convert(found.spec, AuditAnchors, "audit_anchors")
    return entry, installation.known_identity(tx)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file that are not empty, with their numbers. StorageError."""
    number = 0
    try:
        with path.open("rb") as file:
            while line := file.readline(MAX_LINE_BYTES):
                number += 1
                if line.strip():
                    yield number, line
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error


def _holds_a_list(path: Path) -> bool:
    """Whether a file is the output of `audit verify --json`."""
    try:
        with path.open("rb") as file:
            return file.read(100).lstrip().startswith(b"[")
    except FileNotFoundError:
        raise InvalidArgumentError(f"{path}: no such file") from None
    except OSError as error:
        raise InvalidArgumentError(f"{path} cannot be read: {error.strerror}") from error
