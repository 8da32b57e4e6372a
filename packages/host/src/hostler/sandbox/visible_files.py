"""Which files of the machine every sandbox sees: programs and libraries, and how to run Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Folders, or links into /usr, as the system has them."""
PROGRAMS = (
    *(f"/usr/{name}" for name in (*TOP, "libexec", "share", "include")),
    *(f"/usr/local/{name}" for name in ("bin", "lib", "lib64", "share", "include")),
    "/nix/store",
)
"""Not all of /usr: what administrators keep in /usr/local/etc is theirs."""
SETTINGS = (
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime"),
    *("/etc/mime.types", "/etc/nsswitch.conf", "/etc/timezone", "/etc/ca-certificates", "/etc/ssl/certs"),
    *("/etc/ssl/cert.pem", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/pki/tls/cert.pem"),
    *("/etc/pki/ca-trust", "/etc/fonts", "/etc/terminfo"),
)
"""What libraries read, and nothing that is anybody's own."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
PROCESSES = ("/proc/self", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/filesystems")
"""Of /proc, where the sandbox has none of its own."""
PARTS = ("bin", "lib", "lib64", "libexec", "include", "share", "pyvenv.cfg")
"""Of a folder that Python is installed in: it may be somebody's home as well."""
COVERED = frozenset({Path("/"), Path("/usr"), Path("/usr/local")})


def python_paths(python: str, packages: Iterable[Path] = ()) -> list[Path]:
    """What an interpreter needs besides the programs of the system, `packages` among it."""
    prefixes = {Path(sys.base_prefix), Path(sys.base_exec_prefix)}
    own = Path(python).parent.parent
    if python == sys.executable:
        prefixes |= {Path(sys.prefix), Path(sys.exec_prefix)}
    elif (own / "pyvenv.cfg").is_file():
        prefixes |= {own, *_home_of(own / "pyvenv.cfg")}
    paths = [prefix / part for prefix in sorted(prefixes - COVERED) for part in PARTS]
    return [path for path in (*paths, *packages) if path.exists()]


def _home_of(settings: Path) -> list[Path]:
    """Where the interpreter that an environment was made from is installed."""
    for line in settings.read_text("utf-8", "replace").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "home" and value.strip():
            return [Path(value.strip()).parent]
    return []


def both_ways(paths: Iterable[Path]) -> list[tuple[Path, Path]]:
    """Each path as it is named, and as it really is; with the real one. Parents come first."""
    found: dict[Path, Path] = {}
    for path in paths:
        named, real = Path(os.path.abspath(path)), Path(os.path.realpath(path))  # noqa: PTH100 - keeps links
        found[real] = real
        found.setdefault(named, real)
    return sorted(found.items(), key=lambda pair: len(pair[0].parts))
