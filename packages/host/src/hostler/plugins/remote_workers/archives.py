"""The archive of a plugin's folder: the same files give the same digest wherever they are.

The digest is the one of pins (`plugins/pins.py`): names, contents and which files are executable. A worker
checks it when it has unpacked an archive, and again whenever it starts the plugin from its copy.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tarfile
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

from hostler.domain.worker_limits import MAX_ARCHIVES
from hostler.plugins.pins import BYTECODE, MAX_PINNED_BYTES, MAX_PINNED_FILES, digest_of_files
from hostler.tools.workspaces.tree_removal import try_remove_tree
from hostler_protocol.errors import PluginStartError

MAX_ARCHIVE_BYTES = MAX_PINNED_BYTES + MAX_PINNED_FILES * 4_096
"""Contents, and for each file what an archive adds to it."""
SUFFIX = ".tar"


def pack(folder: Path, archives: Path) -> tuple[str, Path]:
    """Return the digest of a folder and its archive below `archives`, made unless it is there. Blocks.

    PluginStartError for links, folders that are too large, and files that change meanwhile.
    """
    digest = digest_of_files(folder)
    archive = archives / f"{digest}{SUFFIX}"
    if archive.exists():
        os.utime(archive)
        return digest, archive
    archives.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = archives / f".new-{secrets.token_hex(8)}"
    try:
        with tarfile.open(new, "w", format=tarfile.PAX_FORMAT) as tar:
            for name in _files_of(folder):
                _add(tar, folder / name, name)
        if digest_of_files(folder) != digest:
            raise PluginStartError("its files changed while they were packed: it is tried again")
        new.replace(archive)
    except OSError as error:
        raise PluginStartError(f"its files cannot be packed: {error}") from error
    finally:
        new.unlink(missing_ok=True)
    _sweep(archives, keep={archive.name})
    return digest, archive


def unpack(archive: Path, digest: str, plugins: Path, used: Collection[str] = ()) -> Path:
    """Unpack an archive into a folder below `plugins` and return that. Blocks.

    `used`: digests whose folders stay, since processes run from them. PluginStartError if it holds anything
    but files, or not those of the digest.
    """
    new = plugins / f".new-{secrets.token_hex(8)}"
    new.mkdir(parents=True, mode=0o700)
    target = plugins / digest
    try:
        _unpack_into(archive, new)
        if digest_of_files(new) != digest:
            raise PluginStartError(f"its archive does not hold the files of the digest {digest}")
        with contextlib.suppress(OSError):  # another start of the plugin was faster
            new.rename(target)
    except (OSError, tarfile.TarError) as error:
        raise PluginStartError(f"its archive cannot be unpacked: {error}") from error
    finally:
        if new.exists():
            try_remove_tree(new)
    _sweep(plugins, keep={digest, *used})
    return target


def unpacked(digest: str, plugins: Path) -> Path | None:
    """Return the folder of a digest if its files are still those; one that has changed is removed."""
    folder = plugins / digest
    if not folder.is_dir():
        return None
    if digest_of_files(folder) != digest:
        try_remove_tree(folder)
        return None
    os.utime(folder)
    return folder


def _files_of(folder: Path) -> Iterator[str]:
    pending = [""]
    while pending:
        below = pending.pop()
        with os.scandir(folder / below) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            name = f"{below}/{entry.name}" if below else entry.name
            if not entry.is_dir(follow_symlinks=False):
                yield name
            elif entry.name != BYTECODE:
                pending.append(name)


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise PluginStartError(f"{name}: no regular file", lasting=True)
        member = tarfile.TarInfo(name)
        member.size = status.st_size
        member.mode = 0o755 if status.st_mode & 0o111 else 0o644
        tar.addfile(member, file)


def _unpack_into(archive: Path, folder: Path) -> None:
    """Write the files of an archive, none of which may be anything else or lie elsewhere."""
    count, size = 0, 0
    with tarfile.open(archive, "r:") as tar:
        for member in tar:
            count, size = count + 1, size + member.size
            path = PurePosixPath(member.name)
            if not member.isreg() or path.is_absolute() or ".." in path.parts or not path.parts:
                raise PluginStartError(
                    f"its archive holds {member.name!r:.200}, which is no file of a plugin"
                )
            if count > MAX_PINNED_FILES or size > MAX_PINNED_BYTES:
                raise PluginStartError("its archive holds more files or bytes than a plugin may have")
            content = tar.extractfile(member)
            assert content is not None
            target = folder / path
            _make_folders(folder, path)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(target, flags, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, 0o755 if member.mode & 0o111 else 0o644)  # whatever the umask is
                while piece := content.read(1 << 20):
                    file.write(piece)
    folder.chmod(0o755)


def _make_folders(folder: Path, path: PurePosixPath) -> None:
    for part in path.parts[:-1]:
        folder /= part
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            folder.chmod(0o755)


def _sweep(folder: Path, *, keep: Collection[str]) -> None:
    """Remove the longest unused archives or copies above the limit."""
    found: list[tuple[float, Path]] = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.name not in keep and not path.name.startswith("."):
                found.append((path.stat().st_mtime, path))
    for _, path in sorted(found, reverse=True)[MAX_ARCHIVES - 1 :]:
        if path.is_dir():
            try_remove_tree(path)
        else:
            path.unlink(missing_ok=True)
