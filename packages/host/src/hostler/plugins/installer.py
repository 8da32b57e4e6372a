"""Run uv to install a plugin's requirements: wheels only, by a plan with digests, within limits.

No code of a package runs here: nothing is built from source, and an environment's interpreter is not started
once packages are installed (a `.pth` file would be executed). uv gets only the operator's settings from the
host's environment and reads no configuration files; with Landlock it can access only its own files.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from uv import find_uv_bin

from hostler.domain.record import Record
from hostler.domain.requirements import place_of_wheel
from hostler.plugins.limits import StartLimits
from hostler.sandbox.process import CHILD_UMASK
from hostler.sandbox.usage import measure_folders
from hostler.sandbox.visible_files import DEVICES, PROCESSES, PROGRAMS, SETTINGS, TOP, python_paths
from hostler_protocol.errors import PluginStartError

CONFINED_FILES = Path(__file__).parents[1] / "sandbox" / "confined_files.py"
MAX_UV_OUTPUT_BYTES = 64 * 1024
MAX_REASON_CHARS = 600
CHECK_SECONDS = 1.0
"""Time between two measurements of what uv has written."""
PASSED = frozenset(
    {
        *("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"),
        *("UV_NO_INDEX", "UV_INDEX_STRATEGY", "UV_OFFLINE", "UV_EXCLUDE_NEWER", "UV_INSECURE_HOST"),
        *(
            "UV_NATIVE_TLS",
            "UV_SYSTEM_CERTS",
            "UV_HTTP_TIMEOUT",
            "UV_HTTP_RETRIES",
            "UV_CONCURRENT_DOWNLOADS",
        ),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "LANG", "TZ"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    }
)
"""Variables passed to uv besides UV_INDEX_*: the operator decides where packages come from."""
INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")
CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
NETWORK_SETTINGS = tuple(
    f"/etc/{name}" for name in ("resolv.conf", "hosts", "host.conf", "gai.conf", "services", "protocols")
)
MACHINE_RESOURCES = ("/sys/fs/cgroup", "/sys/devices/system/cpu")
"""Files with the number of processors and the memory available."""


class Installer(Record):
    """Builds one environment in `work`, a private folder with the environment, the plan and the cache."""

    work: Path
    limits: StartLimits

    @property
    def environment(self) -> Path:
        """The folder of the environment."""
        return self.work / "environment"

    async def make_environment(self) -> None:
        """Create the environment without packages. Raises PluginStartError."""
        python = ["--python", sys.executable, "--no-python-downloads", "--no-project"]
        await self._uv(["venv", "--relocatable", *python, str(self.environment)])

    async def plan(self, lines: Sequence[str], own: Mapping[str, str], wheels: Sequence[Path]) -> str:
        """Resolve the requirements; return uv's list of packages with versions and digests.

        `own` are packages already present, which are not resolved. Raises PluginStartError with uv's reason.
        """
        wanted, left_out, plan = self.work / "wanted.txt", self.work / "own.txt", self.work / "plan.txt"
        wanted.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        left_out.write_text("".join(f"{name} ; python_version < '0'\n" for name in own), "utf-8")
        options = ["--generate-hashes", "--no-header", "--no-annotate", "--quiet", "--no-python-downloads"]
        python = ["--python", str(self.environment / "bin" / "python")]
        files = ["--override", str(left_out), "--output-file", str(plan), str(wanted)]
        await self._uv(["pip", "compile", *options, *python, "--only-binary", ":all:", *files], wheels)
        return plan.read_text("utf-8")

    async def install(self, plan: str, wheels: Sequence[Path]) -> None:
        """Install the plan; each file must have its digest. Raises PluginStartError with uv's reason."""
        file = self.work / "plan.txt"
        file.write_text(plan, "utf-8")
        options = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--link-mode", "copy"]
        python = ["--python", str(self.environment / "bin" / "python"), "--no-progress"]
        await self._uv(["pip", "install", *options, *python, "--requirements", str(file)], wheels)

    async def _uv(self, arguments: Sequence[str], wheels: Sequence[Path] = ()) -> None:
        command = [find_uv_bin(), "--color", "never", "--no-config", "--cache-dir", str(self.work / "cache")]
        environment = self._variables()
        access = self._file_access(environment, wheels)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(CONFINED_FILES), json.dumps(access)),
            *command,
            *arguments,
            cwd=self.work,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            umask=CHILD_UMASK,
        )
        try:
            output = await self._read_bounded(process)
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode != 0:
            raise PluginStartError(
                f"its environment cannot be built: {reason_of(output.decode('utf-8', 'replace'))}"
            )

    async def _read_bounded(self, process: asyncio.subprocess.Process) -> bytes:
        """Return uv's stderr. Raises PluginStartError if it writes too much to disk."""
        reading = asyncio.ensure_future(_read(process))
        try:
            while not (await asyncio.wait([reading], timeout=CHECK_SECONDS))[0]:
                await asyncio.to_thread(self._check_size)
            await asyncio.to_thread(self._check_size)
            return reading.result()
        finally:
            reading.cancel()

    def _check_size(self) -> None:
        most_bytes, most_files = self.limits.environment_bytes, self.limits.environment_files
        size, count = measure_folders([str(self.work)], most_bytes, most_files)
        if size > most_bytes or count > most_files:
            text = f"over {most_bytes / 1024**3:,.1f} GiB or {most_files:,} files"
            raise PluginStartError(f"its environment is too large: {text}", lasting=True)

    def _variables(self) -> dict[str, str]:
        passed = {
            name: value
            for name, value in os.environ.items()
            if name in PASSED or name.startswith(("UV_INDEX_", "LC_"))
        }
        passed |= {name: _absolute(passed[name]) for name in INDEX_VARIABLES if name in passed}
        own = {"HOME": str(self.work), "TMPDIR": str(self.work), "PATH": os.defpath}
        return {**passed, **own, "UV_NO_PROGRESS": "1"}

    def _file_access(self, environment: Mapping[str, str], wheels: Sequence[Path]) -> dict[str, list[str]]:
        """Return the files that uv may access."""
        system = [*(f"/{name}" for name in TOP), *PROGRAMS, *SETTINGS, *NETWORK_SETTINGS, *MACHINE_RESOURCES]
        named = [place for name in INDEX_VARIABLES for place in _local_places(environment.get(name, ""))]
        named += [environment[name] for name in CERTIFICATE_VARIABLES if name in environment]
        python = [
            *map(str, python_paths(sys.executable)),
            os.path.realpath(sys.executable),
            str(CONFINED_FILES.parent),
        ]
        read = [*system, *named, *python, find_uv_bin(), *map(str, wheels)]
        # resolved against the host's working folder, as operators mean them
        real = sorted({os.path.realpath(path) for path in read})
        return {"read": [*real, *PROCESSES], "write": [os.path.realpath(self.work)], "devices": [*DEVICES]}


async def _read(process: asyncio.subprocess.Process) -> bytes:
    assert process.stderr is not None
    output = b""
    while part := await process.stderr.read(65536):
        output = (output + part)[-MAX_UV_OUTPUT_BYTES:]
    await process.wait()
    return output


def _local_places(value: str) -> list[str]:
    """Return the local folders in a variable with indexes; each may be prefixed by a name (`name=`)."""
    found = []
    for word in re.split(r"[\s,]+", value):
        place = re.sub(r"^[A-Za-z0-9_.-]+=", "", word)
        if place.startswith("file:"):
            found.append(unquote(urlsplit(place).path))
        elif place and "://" not in place:
            found.append(place)
    return found


def _absolute(value: str) -> str:
    """Return the variable with its relative folders made absolute, for a program that starts elsewhere."""
    for place in _local_places(value):
        if not os.path.isabs(place):  # noqa: PTH117
            word = rf"(?<![^\s,=]){re.escape(place)}(?![^\s,])"
            full = os.path.abspath(place)  # noqa: PTH100
            value = re.sub(word, lambda _, full=full: full, value)  # type: ignore[misc]
    return value


def wheels_of(listed: Sequence[str], base: Path) -> tuple[list[str], list[Path]]:
    """Return the requirement lines for wheels listed by an operator, with paths from `base`; and the local
    files."""
    lines, files = [], []
    for text in listed:
        place = place_of_wheel(text)
        if place.startswith("file:"):
            files.append(Path(unquote(urlsplit(place).path)))
        elif "://" not in place:
            files.append(Path(os.path.abspath(base / place)))  # noqa: PTH100  links are kept
            text = str(files[-1])  # noqa: PLW2901
        lines.append(text)
    return lines, files


_DECORATION = re.compile(r"^[\s×╰─▶│├→·]*(error:|Caused by:|cause:)?\s*", re.UNICODE)


def reason_of(output: str) -> str:
    """Return uv's error message in one line, without its drawing characters."""
    lines = output.splitlines()
    first = next((i for i, line in enumerate(lines) if line.lstrip().startswith(("×", "error"))), 0)
    plain = [_DECORATION.sub("", line).strip() for line in lines[first:]]
    text = " ".join(line for line in plain if line)
    return text[:MAX_REASON_CHARS] or "uv did not say why"
