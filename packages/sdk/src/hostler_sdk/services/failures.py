"""How a run of a service fails: `<service>.<what>`, with a text that says what to do."""

from __future__ import annotations

from typing import Final, Literal

What = Literal[
    "config_invalid",
    "empty_input",
    "file_invalid",
    "unreachable",
    "auth_error",
    "http_error",
    "service_error",
    "timeout",
    "stream_broken",
    "response_invalid",
    "answer_too_long",
    "empty_answer",
    "already_sent",
    "unanswered",
]

FAILURES: Final[dict[What, str]] = {
    "config_invalid": "a setting is missing or wrong; the text names it",
    "empty_input": "the message has no text, and the service needs one",
    "file_invalid": "a file of the message is too large, or cannot be read",
    "unreachable": "no connection: wrong address, service down, or an endpoint that is not allowed",
    "auth_error": "the service refused the key (401, 403)",
    "http_error": "another HTTP status than that of success; redirects are not followed",
    "service_error": "the service reported an error of its own",
    "timeout": "no whole answer within `timeout`",
    "stream_broken": "the answer ended in the middle",
    "response_invalid": "the answer is not what the service is known to send",
    "answer_too_long": "the answer is larger than the limits of the page on services",
    "empty_answer": "the answer has no text",
    "already_sent": "an earlier attempt had sent the message, and it is not sent twice",
    "unanswered": "the service asked a question, and nobody answered it",
}
"""The second half of each code, and what it means."""


class ServiceFailure(Exception):  # noqa: N818 - the end of a run, not a mistake of the program
    """The end of a run. `retryable`: the same message may succeed later. `status`: of the answer."""

    def __init__(self, what: What, text: str, retryable: bool = False, status: int | None = None) -> None:
        super().__init__(text)
        self.what = what
        self.text = text
        self.retryable = retryable
        self.status = status
