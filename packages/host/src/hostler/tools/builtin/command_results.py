"""The result of a command as models get it: in plain words, and shortened if it is too long."""

from __future__ import annotations

from typing import Any

from hostler.sandbox.port import CommandResult, LimitName, SandboxLimits
from hostler.tools.port import RunArtifacts
from hostler.tools.workspaces.tree_removal import FolderUsage
from hostler_protocol.errors import HostlerError

SHOWN_BYTES = 32 * 1024
"""Bytes of stdout, and of stderr, in the result; longer output becomes an artifact, with both ends shown."""
SHOWN_END_BYTES = 8 * 1024
MAX_REFUSED = 10


async def describe_result(
    outcome: CommandResult,
    limits: SandboxLimits,
    most: FolderUsage,
    used: FolderUsage,
    artifacts: RunArtifacts | None,
) -> dict[str, Any]:
    """Return the result of a command; `used` is the folder's usage now, of at most `most`."""
    reached = outcome.limit_reached or _over(most, used) or _used_up(outcome)
    result: dict[str, Any] = {"exit_code": outcome.status.code, "seconds": round(outcome.seconds, 3)}
    if reached is not None:
        result |= {
            "limit": reached,
            "note": _sentence(reached, limits, most, used, ended=outcome.limit_reached is None),
        }
    elif outcome.status.code is None or outcome.status.code < 0:
        result["note"] = str(outcome.status)
    if result["exit_code"] != 0 and outcome.violations:
        result["refused"] = [refused.text for refused in outcome.violations[:MAX_REFUSED]]
    for name, output in (("stdout", outcome.stdout), ("stderr", outcome.stderr)):
        result[name] = _shown(output)
        if len(output) > SHOWN_BYTES and artifacts is not None:
            result[f"{name}_artifact"] = await _keep_output(artifacts, name, output)
    return result


async def _keep_output(artifacts: RunArtifacts, name: str, output: bytes) -> dict[str, Any]:
    try:
        kept = await artifacts.keep(output, name=f"{name}.txt", mime_type="text/plain; charset=utf-8")
    except HostlerError as error:
        return {"error": error.message}
    return {"artifact_id": kept.artifact_id, "size_bytes": kept.size_bytes}


def _shown(output: bytes) -> str:
    if len(output) <= SHOWN_BYTES:
        return output.decode("utf-8", "replace")
    first, last = output[: SHOWN_BYTES - SHOWN_END_BYTES], output[-SHOWN_END_BYTES:]
    left_out = len(output) - len(first) - len(last)
    text = f"{first.decode('utf-8', 'ignore')}\n[... {left_out:,} bytes are left out here ...]\n"
    return text + last.decode("utf-8", "ignore")


def _over(most: FolderUsage, used: FolderUsage) -> LimitName | None:
    if used.size_bytes > most.size_bytes:
        return "disk"
    return "files" if used.files > most.files else None


def _used_up(outcome: CommandResult) -> LimitName | None:
    """Return the limit of a project quota that the command has used up: its writes failed, and it went on."""
    refused = {violation.subject for violation in outcome.violations if violation.kind == "refused"}
    return "disk" if "disk" in refused else "files" if "files" in refused else None


def _sentence(
    reached: LimitName, limits: SandboxLimits, most: FolderUsage, used: FolderUsage, *, ended: bool
) -> str:
    stopped = "the command ended, but " if ended else "the command was stopped: "
    holds = f"the working folder holds {used.size_bytes:,} bytes in {used.files:,} files and folders now"
    if reached == "disk" and limits.disk_bytes < most.size_bytes:
        return (
            f"{stopped}the disk of this host has room for {limits.disk_bytes:,} bytes of its files; {holds}"
        )
    sentences: dict[LimitName, str] = {
        "time": f"it may take {limits.seconds or 0:g} s",
        "output": f"it may write {limits.output_bytes or 0:,} bytes to its output",
        "memory": f"its processes together may use {limits.memory_bytes:,} bytes of memory",
        "processes": f"it may have {limits.processes:,} processes and threads",
        "disk": f"the working folder may hold {most.size_bytes:,} bytes; {holds}: remove some",
        "files": f"the working folder may hold {most.files:,} files and folders; {holds}: remove some",
        "file_size": f"one file may have {limits.file_bytes:,} bytes",
        "cpu": f"one process may use {limits.cpu_seconds or 0:g} s of processor time",
    }
    return stopped + sentences[reached]
