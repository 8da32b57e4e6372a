"""What goes wrong: crashes, freezes, power cuts, full and slow disks, jumps of clocks."""

from __future__ import annotations

from simulation.life import Life
from simulation.plan import MAX_MOMENT, Action, Draft

KINDS = (
    "kill host",
    "kill host",
    "kill plugin",
    "freeze host",
    "power cut",
    "disk full",
    "disk slow",
    "clock",
    "stop host",
)


def plan(draft: Draft) -> None:
    """None to five faults, each followed by its end."""
    chance = draft.chance("faults")
    draft.hosts = chance.choice([1, 1, 2])
    for _ in range(chance.choice([0, 1, 1, 2, 3, 5])):
        at, kind = chance.uniform(0.05, MAX_MOMENT * 0.9), chance.choice(KINDS)
        host = chance.randint(0, draft.hosts - 1)
        lasts = chance.choice([0.05, 0.5, 3.0, 12.0, 25.0]) * chance.uniform(0.5, 1.5)
        draft.add(at, kind, host=host, seconds=round(lasts, 3), by=round(chance.uniform(-3600, 3600), 1))


async def fault(life: Life, action: Action) -> None:
    """Let something go wrong; it ends by itself at the latest when the life calms down."""
    host = life.hosts[action.data["host"] % len(life.hosts)]
    seconds = action.data["seconds"]
    match action.what:
        case "kill host":
            host.kill()
            await life.later(seconds, host.start)
        case "stop host":
            host.stop()
            await life.later(seconds, host.start)
        case "power cut":
            lost = host.lose_power() if not host.shared else (host.kill() or 0)
            life.outside.note("power cut", lost=lost)
            await life.later(seconds, host.start)
        case "kill plugin":
            for process in life.plugins_of(host):
                process.kill()
        case "freeze host":
            frozen = host.process
            host.freeze()
            await life.later(seconds, lambda: None if frozen is None else frozen.thaw())
        case "disk full":
            host.disk.full = True
            await life.later(seconds, lambda: setattr(host.disk, "full", False))
        case "disk slow":
            host.disk.stall_seconds = 0.5
            await life.later(seconds, lambda: setattr(host.disk, "stall_seconds", 0.0))
        case "clock":
            host.clock.ahead += action.data["by"]


ACTIONS = dict.fromkeys(KINDS, fault)
