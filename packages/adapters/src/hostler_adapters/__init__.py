"""Agents written in a framework, as runners: one module for each framework.

    from hostler_adapters.langgraph import runner
    Support = runner(graph, name="support")

The modules `functions`, `pydantic_ai`, `langgraph`, `openai_agents`, `google_adk` and `claude_agent` each
have a `runner` that returns a runner class. They share what this package offers: `ActiveRun`, the run as an
adapter sees it, `runner_class`, which makes a runner of a function of it, and `current_run()` for code that
a framework calls.
"""

from __future__ import annotations

from hostler_adapters.active_run import ActiveRun, current_run
from hostler_adapters.conversation import Turn
from hostler_adapters.host_tools import HostTool
from hostler_adapters.questions import Unanswered, Verdict
from hostler_adapters.runner_class import Settings, runner_class

__all__ = [
    "ActiveRun",
    "HostTool",
    "Settings",
    "Turn",
    "Unanswered",
    "Verdict",
    "current_run",
    "runner_class",
]
