"""Replay: a runner is run again, in a real plugin process, against what a run recorded."""

from hostler.journal.replaying.replayer import Replayer
from hostler.journal.replaying.session import Replayed

__all__ = ["Replayed", "Replayer"]
