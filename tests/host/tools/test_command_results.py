"""The result of a command, as models get it."""

from __future__ import annotations

import pytest

from hostler.sandbox.exit_status import ExitStatus
from hostler.sandbox.port import CommandResult, SandboxLimits, Violation
from hostler.tools.builtin.command_results import describe_result
from hostler.tools.workspaces.tree_removal import FolderUsage

pytestmark = pytest.mark.gate("project-quotas")
MOST, USED = FolderUsage(4_000_000, 100), FolderUsage(1_000, 2)


@pytest.mark.parametrize(
    ("limit", "held"), [("disk", "4,000,000 bytes;"), ("files", "100 files and folders;")]
)
async def test_a_quota_that_was_used_up_is_told_though_the_command_went_on(limit: str, held: str) -> None:
    refused = Violation("refused", limit, "its folders are full")
    ended = CommandResult(ExitStatus(0), b"", b"", None, (refused,), 1.0)
    told = await describe_result(ended, SandboxLimits(disk_bytes=MOST.size_bytes), MOST, USED, None)
    assert told["limit"] == limit
    assert told["note"].startswith(f"the command ended, but the working folder may hold {held}")
    assert told["note"].endswith("holds 1,000 bytes in 2 files and folders now: remove some")


async def test_other_refusals_are_no_limit() -> None:
    refused = Violation("refused", "disk /etc/passwd", "not among what it may see")
    ended = CommandResult(ExitStatus(1), b"", b"", None, (refused,), 1.0)
    told = await describe_result(ended, SandboxLimits(), MOST, USED, None)
    assert "limit" not in told
    assert told["refused"] == ["not among what it may see"]
