"""Limits of what an agent may send, and of the time it has."""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB
MAX_LINE_BYTES = 8 * MIB
"""One message of the agent: a tool call may carry a whole file, twice."""
MAX_OUTPUT_BYTES = 256 * MIB
"""All messages of one run."""
MAX_UPDATES = 200_000
"""Updates of one run: an hour of a model that streams fifty pieces a second."""
MAX_FOREIGN_LINES = 100
"""Lines that are no message; some agents print a banner, or a warning of their runtime."""
MAX_OPEN_REQUESTS = 64
"""Requests of the agent that wait for an answer; a pause has at most as many calls."""
MAX_TEXT_BYTES = 900 * KIB
"""One message of the answer: a result of a run has at most 1 MiB."""
MAX_ANSWER_BYTES = 8 * MIB
"""All messages of the answer."""
MAX_TOOL_CALLS = 10_000
"""Tool calls of the agent in one run."""
MAX_TOOL_BYTES = 64 * KIB
"""What is shown of the input or the output of one tool call of the agent."""
MAX_ASKED_BYTES = 48 * KIB
"""What a person is shown of one permission request: the host's limit is 64 KiB with all that is around it."""
MAX_NOTES = 50
"""Journal entries of one run on what the runner does not know; the last one says that there is more."""
MAX_THOUGHT_CHARS = 8_000
"""One journal entry of thoughts; longer ones are split."""
MAX_THOUGHTS = 1_000
"""Journal entries of thoughts in one run."""
STDERR_BYTES = 16 * KIB
"""The end of what the agent wrote to its standard error, for the text of a failure."""
MAX_EXCERPT_CHARS = 400
"""What is shown of a text of the agent in an error."""
MAX_ARTIFACT_BYTES = 1 * MIB
"""A picture in an answer."""
CANCEL_SECONDS = 1.5
"""Time for the agent to end its turn once it is cancelled: a cancelled runner has five seconds in all."""
PARK_SECONDS = 10.0
"""Time for the agent to end its turn, and to save its session, before the run waits for people."""
MAX_PAUSES = 100
"""Turns of one run that end with a question to people."""
GATHER_SECONDS = 0.3
"""Time for further permission requests of the same step to arrive, so that people are asked once."""
EXIT_SECONDS = 1.0
"""Time for the process to end once its input is closed, and again once it is asked to."""
MARGIN_SECONDS = 3.0
"""How long before the host's own limit the runner gives up, to end the agent and to say why."""
