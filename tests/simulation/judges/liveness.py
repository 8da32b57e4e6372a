"""When faults stop, everything that can go on goes on; nothing fails in a worker, nothing is left over."""

from __future__ import annotations

from simulation.life import Life


def judge(life: Life) -> list[str]:
    """All of it."""
    found = [f"at the end {text}" for text in life.waiting()]
    for host in life.hosts:
        if host.failed is not None:
            found.append(f"{host.name} ended by itself: {type(host.failed).__name__}: {host.failed}")
        elif not host.up:
            found.append(f"{host.name} is not up at the end")
    for context in life.world.loop.errors:
        error = context.get("exception")
        if "was destroyed but it is pending" not in context.get("message", ""):
            found.append(f"nobody handled: {context.get('message')}: {type(error).__name__}: {error}")
    found += [
        f"logged with a traceback: {record.getMessage()}: {record.exc_text}"
        for record in life.logged.records
        if record.exc_text
    ]
    return found
