"""Encryption at rest: in a life with a master key no text that was said is in any byte of its disks."""

from __future__ import annotations

import random

from simulation.life import Life

SHORTEST = 16
"""Shorter texts may be in the bytes by chance, or be names."""
MANY = 200
BEGINNING = 8
"""Bytes that are looked for first, one time for all texts that begin with them."""
SEARCHED = 4
"""Beginnings that are looked for in a life, others in each: logs hold each page many times."""


def judge(life: Life) -> list[str]:
    """Search the database, its log and the blobs of every host for what was said."""
    if not life.plan.master_key:
        return []
    rows = life.rows(
        f"SELECT DISTINCT content FROM transcripts WHERE length(content) >= {SHORTEST} LIMIT {MANY}"
    )
    said: dict[bytes, list[bytes]] = {}
    for (text,) in rows:
        said.setdefault(text.encode()[:BEGINNING], []).append(text.encode())
    chosen = random.Random(life.plan.seed).sample(sorted(said), min(SEARCHED, len(said)))
    found: list[str] = []
    for host in life.hosts:
        folder = host.settings.data_dir / "blobs"
        files = [*host.disk.path.parent.glob(f"{host.disk.path.name}*"), *folder.glob("??/??/*")]
        for path in files:
            content = path.read_bytes()
            begun = [text for beginning in chosen if beginning in content for text in said[beginning]]
            found += [f"{path.name} holds {text[:40]!r} in the clear" for text in begun if text in content]
    return found
