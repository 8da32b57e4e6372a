"""Makes the shipped runners importable, each by the package in its folder."""

from __future__ import annotations

import sys
from pathlib import Path

RUNNERS = Path(__file__).parents[2] / "runners"

for folder in sorted(RUNNERS.iterdir()):
    if (folder / "hostler.yaml").is_file():
        sys.path.insert(0, str(folder))
