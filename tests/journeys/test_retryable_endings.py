"""A run that failed says whether the same event may succeed in another run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.stepping import Ended, stage, within


def said(ended: Ended) -> tuple[str, bool]:
    return ended.last["code"], ended.last["retryable"]


@pytest.mark.parametrize(
    ("steps", "fields", "expected"),
    [
        ([["hold"]], {"config": {"timeout": 0.2}}, ("runner.timeout", True)),
        ([["deltas", 1], ["crash"]], {"recovery": {"on_crash": "fail"}}, ("runner.crashed", True)),
        ([["deltas", 1]], {}, ("runner.no_output", False)),
    ],
    ids=["timeout", "crash", "nothing"],
)
async def test_what_the_host_ends_says_whether_to_try_again(
    tmp_path: Path, steps: Any, fields: dict[str, Any], expected: Any
) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(**fields)
        assert said(await host.run(steps)) == expected


async def test_a_run_that_its_host_lost_may_be_tried_again(tmp_path: Path) -> None:
    async with within():
        async with stage(tmp_path) as host:
            await host.agent(recovery={"on_crash": "fail"})
            stopped = await host.start([["deltas", 1], ["hold"]])
            cancelled = await host.start([["deltas", 1], ["hold"]])
            for run_id in (stopped, cancelled):
                await host.seen(run_id, "message.delta")
            await host.cancel(cancelled)
            assert said(await host.ended(cancelled)) == ("cancelled", False)
        async with stage(tmp_path, agent=False) as host:
            assert said(await host.ended(stopped)) == ("host.restarted", True)
