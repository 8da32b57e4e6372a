"""Limits of what a service may send, and of what is sent to it."""

from __future__ import annotations

MIB = 1024 * 1024
MAX_LINE_BYTES = MIB
"""One line or event of a stream, or one JSON value of a sequence."""
MAX_ANSWER_BYTES = 64 * MIB
"""A whole stream: workflows report inputs and outputs of each node beside the answer."""
MAX_BODY_BYTES = 4 * MIB
"""The body of an answer that is not a stream."""
MAX_TEXT_BYTES = 900 * 1024
"""The text of an answer: a result of a run has at most 1 MiB."""
MAX_ERROR_BYTES = 16 * 1024
"""What is read of the body of an error."""
MAX_EXCERPT_CHARS = 300
"""What is shown of a service's own error."""
MAX_FILES = 10
MAX_FILE_BYTES = 16 * MIB
MAX_FILES_BYTES = 32 * MIB
"""Files of one message together, since they are sent from memory."""
MAX_NOTES = 20
"""Journal entries on unknown events in one run."""
CONNECT_SECONDS = 15.0
STOP_SECONDS = 3.0
"""Time to tell the service to stop: a cancelled runner has five seconds in all."""
