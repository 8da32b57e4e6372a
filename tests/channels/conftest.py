"""Makes the shipped channels importable, each by the package in its folder."""

from __future__ import annotations

import sys
from pathlib import Path

CHANNELS = Path(__file__).parents[2] / "channels"

for folder in sorted(CHANNELS.iterdir()):
    if (folder / "hostler.yaml").is_file():
        sys.path.insert(0, str(folder))
