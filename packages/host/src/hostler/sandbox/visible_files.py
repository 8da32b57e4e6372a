"""The files of the machine that every sandbox sees: programs, libraries, and a Python installation."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Folders, or links into /usr, depending on the distribution."""
PROGRAMS = (
    *(f"/usr/{name}" for name in (*TOP, "libexec", "share", "include")),
    *(f"/usr/local/{name}" for name in ("bin", "lib", "lib64", "share", "include")),
    "/nix/store",
)
"""Not all of /usr: /usr/local/etc belongs to administrators."""
SETTINGS = (
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime"),
    *("/etc/mime.types", "/etc/nsswitch.conf", "/etc/timezone", "/etc/ca-certificates", "/etc/ssl/certs"),
    *("/etc/ssl/cert.pem", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/pki/tls/cert.pem"),
    *("/etc/pki/ca-trust", "/etc/fonts", "/etc/terminfo", "/etc/chromium.d"),
)
"""Settings that libraries and browsers read; nothing personal."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
PROCESSES = ("/proc/self", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/filesystems")
"""Visible part of /proc, where the sandbox has no /proc of its own."""
PARTS = ("bin", "lib", "lib64", "libexec", "include", "share", "pyvenv.cfg")
"""Visible parts of a folder that Python is installed in, which may also be a home folder."""
CERTIFICATES = (
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
)
"""Variables with the path of certificates that programs are to believe besides those of the system."""
COVERED = frozenset({Path("/"), Path("/usr"), Path("/usr/local")})


def certificate_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return those of CERTIFICATES that lead to something. A sandbox that gets them has to see that, too."""
    return {
        name: environment[name]
        for name in CERTIFICATES
        if Path(environment.get(name, "")).is_absolute() and Path(environment[name]).exists()
    }


def python_paths(python: str, packages: Iterable[Path] = ()) -> list[Path]:
    """Return the existing paths an interpreter needs besides system programs, including `packages`."""
    prefixes = {Path(sys.base_prefix), Path(sys.base_exec_prefix)}
    own = Path(python).parent.parent
    if python == sys.executable:
        prefixes |= {Path(sys.prefix), Path(sys.exec_prefix)}
    elif (own / "pyvenv.cfg").is_file():
        prefixes |= {own, *_base_python(own / "pyvenv.cfg")}
    paths = [prefix / part for prefix in sorted(prefixes - COVERED) for part in PARTS]
    return [path for path in (*paths, *packages) if path.exists()]


def _base_python(settings: Path) -> list[Path]:
    """Return the installation that a virtual environment was made from, as a list of at most one path."""
    for line in settings.read_text("utf-8", "replace").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "home" and value.strip():
            return [Path(value.strip()).parent]
    return []


def named_and_real(paths: Iterable[Path]) -> list[tuple[Path, Path]]:
    """Return pairs (path, real path) for each path as named and as resolved, parents first."""
    found: dict[Path, Path] = {}
    for path in paths:
        named, real = Path(os.path.abspath(path)), Path(os.path.realpath(path))  # noqa: PTH100 - keeps links
        found[real] = real
        found.setdefault(named, real)
    return sorted(found.items(), key=lambda pair: len(pair[0].parts))
