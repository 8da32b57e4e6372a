"""How a run of a coding agent fails: `acp.<what>`, with a text that says what to do."""

from __future__ import annotations

from typing import Final, Literal

What = Literal[
    "config_invalid",
    "empty_input",
    "file_invalid",
    "command_not_found",
    "start_failed",
    "startup_timeout",
    "version_unsupported",
    "auth_required",
    "loopback_refused",
    "session_lost",
    "agent_died",
    "agent_error",
    "not_acp",
    "too_much_output",
    "answer_too_long",
    "response_invalid",
    "refused",
    "stopped_early",
    "empty_answer",
    "timeout",
    "already_sent",
]

FAILURES: Final[dict[What, str]] = {
    "config_invalid": "a setting is missing or wrong; the text names it",
    "empty_input": "the message has no text and no file",
    "file_invalid": "a file of the message is too large, or cannot be read",
    "command_not_found": "there is no such program where the plugin runs, or it cannot be executed",
    "start_failed": "the agent ended or reported an error before it had a session",
    "startup_timeout": "the agent had no session within `startup-timeout`",
    "version_unsupported": "the agent speaks another version of the protocol",
    "auth_required": "the agent wants a key or a sign-in",
    "loopback_refused": "tools or models of the run cannot be offered in this sandbox",
    "session_lost": "the agent no longer has the session",
    "agent_died": "the agent's process ended in the middle of its answer",
    "agent_error": "the agent reported an error of its own",
    "not_acp": "the command prints something else than the protocol",
    "too_much_output": "the agent sent more than a run may have",
    "answer_too_long": "the text of the answer is too long",
    "response_invalid": "an answer of the agent does not have the form of the protocol",
    "refused": "the agent refuses to go on",
    "stopped_early": "the agent stopped without an end of its own: cancelled, or out of tokens or steps",
    "empty_answer": "the agent ended its turn without a text",
    "timeout": "no whole answer within `timeout`",
    "already_sent": "an earlier attempt had sent the message, and it is not sent twice",
}
"""The second half of each code, and what it means."""


class AcpFailure(Exception):  # noqa: N818 - the end of a run, not a mistake of the program
    """The end of a run. `retryable`: the same message may succeed later."""

    def __init__(self, what: What, text: str, retryable: bool = False) -> None:
        super().__init__(text)
        self.what = what
        self.text = text
        self.retryable = retryable
