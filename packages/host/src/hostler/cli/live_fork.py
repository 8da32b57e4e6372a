"""`hostler replay --live-after`: continue a diverged replay as a fork with real calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hostler.cli.output import note
from hostler.cli.reruns import follow_to_end
from hostler.cli.routes import route
from hostler.cli.terminal import out
from hostler.domain.json_diff import describe, differences
from hostler.journal.replay_session import Replayed

if TYPE_CHECKING:
    from hostler.cli.client import Api


async def go_live(
    api: Api, replayed: Replayed, *, agent_version: int | None, effects: bool, as_json: bool
) -> dict[str, Any]:
    """Fork the run before the step that differs, follow the fork to its end, and return the ended run.

    The fork calls real models and tools; calls with effects are refused, unless `effects`.
    """
    if replayed.divergence is None:
        raise ValueError("the replay did not diverge, so there is nothing to continue")
    at = min(max(0, replayed.divergence.step - 1), replayed.steps)
    body: dict[str, Any] = {"at": at, "effects": effects}
    if agent_version is not None:
        body["agent_version"] = agent_version
    made = await api.post(route("runs", replayed.run_id, "fork"), body)
    note(f"run {made['run_id']} continues with real calls after step {at}")
    ended = await follow_to_end(api, made, as_json=as_json)
    output = (ended.get("output") or {}).get("text") or ""
    if not as_json:
        for line in describe(differences({"output": replayed.recorded_text}, {"output": output})):
            out().print(line, markup=False, soft_wrap=True)
    return ended
