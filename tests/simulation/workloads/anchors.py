"""Chains that are anchored in a file, which all hosts of a life share."""

from __future__ import annotations

import os

from simulation.plan import Draft

NAME = "HOSTLER_SIMULATED_ANCHOR_KEY"
KEY = "the key of anchors in a life, which is long enough"
os.environ[NAME] = KEY
FILE = "anchors"


def plan(draft: Draft) -> None:
    """In some lives: the ends of the chains are anchored every few seconds."""
    draft.anchors = [round(draft.chance("anchors").uniform(0.01, 0.1), 3)]
