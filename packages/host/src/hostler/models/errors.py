"""Errors of model services: one class for each remedy. `ModelEndpoint` builds their messages."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from hostler.models.limits import MAX_ERROR_CHARS
from hostler_protocol.errors import (
    HostError,
    HostlerError,
    InvalidArgumentError,
    NotFoundError,
    PayloadTooLargeError,
    RateLimitedError,
    UnauthorizedError,
    UnavailableError,
)
from hostler_protocol.ids import digest

SOURCE_CHARS = 16
"""The length of a digest: enough to tell the services of a host apart."""
CONTEXT_OVERFLOW = "context_overflow"
"""`details["reason"]` of the InvalidArgumentError for a request larger than the model's context window."""
_OVERFLOW = re.compile(
    "|".join(
        (
            r"context_length_exceeded|context length exceeded|exceed_context_size",
            r"maximum (context|model|prompt) length",
            r"context window|available context size|context limit|context length",
            r"(prompt|input) is too long|prompt too long|prompt contains .* too large for model",
            r"too many (input )?tokens|token limit exceeded|exceeded model token limit",
            r"input token count.* exceeds|token count of .* exceeds the limit",
            r"must have less than \d+ tokens|`max_new_tokens` must be <=",
            r"range of input length should be",
            r"reduce the length of the (messages|prompt|input)",
            r"max_tokens must be at least 1, got -",  # nothing is left for the answer
        )
    ),
    re.IGNORECASE,
)
"""How services report a request larger than the context window; they share no error code."""
_UNKNOWN_MODEL = re.compile(r"model_not_found|model .*(not found|does not exist|not exist)", re.IGNORECASE)
_QUOTA = re.compile(
    r"insufficient_quota|billing|insufficient balance|exceeded your current quota", re.IGNORECASE
)
GAVE_UP_STATUSES = frozenset({408, 502, 504})
"""Statuses by which a proxy gives up on a service."""
_OVERLOAD = re.compile(r"rate.?limit|overloaded|too many requests", re.IGNORECASE)


class ModelUnreachableError(UnavailableError):
    """No connection to the endpoint."""


class ModelConnectionLostError(ModelUnreachableError):
    """The connection failed, before or after the request was sent."""


class ModelSilentError(UnavailableError):
    """The endpoint accepted the request, and then sent nothing for too long."""


class ModelBrokenStreamError(UnavailableError):
    """The answer ended early."""


class ModelFailedError(UnavailableError):
    """The service reports an internal failure (5xx)."""


class ModelGaveUpError(ModelFailedError):
    """Something in front of the service waited no longer; the model may have answered all the same."""


class ModelKeyError(HostError):
    """The service refused the API key."""


class ModelUnknownError(HostError):
    """The service does not know the model."""


class ModelQuotaError(HostError):
    """The account of the API key has no credit left."""


class ModelAnswerError(HostError):
    """The service sent something that is not the answer of a model."""


class ModelUnsupportedError(HostError):
    """The service does not support the operation."""


def is_unpaid(error: HostlerError) -> bool:
    """Whether a call that ended with this error, before anything of an answer came, surely cost nothing.

    Services charge for answers, not for refusals. What was sent and not answered may have been charged.
    """
    if isinstance(error, ModelGaveUpError | ModelConnectionLostError):
        return False
    refused = (ModelKeyError, ModelUnknownError, ModelQuotaError, ModelUnsupportedError)
    failed = (ModelUnreachableError, ModelFailedError)
    named = (InvalidArgumentError, NotFoundError, PayloadTooLargeError, RateLimitedError, UnauthorizedError)
    return isinstance(error, (*refused, *failed, *named))


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """Names a model service in error messages, which never contain `secrets`."""

    model_id: str
    model: str
    url: str
    key_reference: str | None = None
    secrets: Collection[str] = field(default=(), repr=False)
    provider: str = "openai"

    @property
    def source(self) -> str:
        """The name of this service and model in `ProviderData`, which changes only with them."""
        return digest([self.provider, self.url, self.model])[:SOURCE_CHARS]

    def clean(self, text: str) -> str:
        """Return text of the service without secrets, on one line of at most 500 characters."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        text = " ".join(text.split())
        return text if len(text) <= MAX_ERROR_CHARS else text[:MAX_ERROR_CHARS] + "…"

    def said(self, text: str) -> str:
        """Return a sentence that quotes the service; "" for no text."""
        cleaned = self.clean(text)
        return f" It said: {cleaned}" if cleaned else ""

    def unreachable(self, reason: str, *, sent: bool = False) -> ModelUnreachableError:
        """Return the error for a failed connection. `sent`: perhaps the request went out before it failed."""
        kind = ModelConnectionLostError if sent else ModelUnreachableError
        return kind(
            f"model {self.model_id!r}: cannot reach {self.url} ({self.clean(reason)}); "
            "check that the service runs and that `base_url` is right"
        )

    def silent(self, what: str, seconds: float) -> ModelSilentError:
        """Return the error for a service that sent nothing for `seconds`."""
        return ModelSilentError(
            f"model {self.model_id!r}: {self.url} sent {what} for {seconds:g} s; "
            "try again, or raise the model's `timeout`"
        )

    def broken(self, reason: str) -> ModelBrokenStreamError:
        """Return the error for an answer that broke off."""
        return ModelBrokenStreamError(
            f"model {self.model_id!r}: the answer of {self.url} broke off ({self.clean(reason)}); try again"
        )

    def malformed(self, reason: str) -> ModelAnswerError:
        """Return the error for an answer that cannot be parsed."""
        return ModelAnswerError(
            f"model {self.model_id!r}: {self.url} did not answer as an OpenAI-compatible service "
            f"({self.clean(reason)}); check `base_url`, which usually ends in /v1"
        )

    def too_large(self, limit: int) -> ModelAnswerError:
        """Return the error for an answer over a size limit."""
        return ModelAnswerError(
            f"model {self.model_id!r}: the answer of {self.url} is larger than {limit:,} bytes; "
            "ask for less, for example with `max_tokens`"
        )

    def too_many_calls(self, limit: int) -> ModelAnswerError:
        """Return the error for an answer with too many tool calls."""
        return ModelAnswerError(
            f"model {self.model_id!r}: an answer of {self.model!r} asks for more than {limit:,} tool calls; "
            "try again, or choose another model"
        )

    def refused(self, status: int, text: str, retry_after: float | None = None) -> HostlerError:
        """Return the error for an HTTP status other than 200 and the text of its answer."""
        if status == 429 and not _QUOTA.search(text):
            return RateLimitedError(
                f"model {self.model_id!r}: {self.url} is over its rate limit (429); come again later, or "
                f"ask for a higher limit there.{self.said(text)}",
                1.0 if retry_after is None else retry_after,
            )
        kind, remedy = self._remedy(status, text)
        message = f"model {self.model_id!r}: {self.url} {remedy}.{self.said(text)}"
        if kind is InvalidArgumentError and _is_overflow(status, text):
            return kind(message, reason=CONTEXT_OVERFLOW)
        return kind(message)

    def _remedy(self, status: int, text: str) -> tuple[type[HostlerError], str]:
        """Return the error class for a status, and the part of its message with cause and remedy."""
        key = f"the key that `api_key` names ({self.key_reference})" if self.key_reference else "`api_key`"
        unknown = status == 404 or (status == 400 and _UNKNOWN_MODEL.search(text))
        for applies, kind, remedy in (
            (status in (401, 403), ModelKeyError, f"refused the API key ({status}); set {key} right"),
            (
                status in (402, 429),
                ModelQuotaError,
                f"says that the account has no quota left ({status}); add to it there",
            ),
            (
                unknown,
                ModelUnknownError,
                f"does not know the model {self.model!r} ({status}); correct `model`, or `base_url`, "
                "which usually ends in /v1",
            ),
            (
                300 <= status < 400,
                ModelAnswerError,
                f"redirects ({status}); set `base_url` to where it leads",
            ),
            (
                _is_overflow(status, text),
                InvalidArgumentError,
                "refused a request that is longer than the model's context window; send less",
            ),
            (status in GAVE_UP_STATUSES, ModelGaveUpError, f"failed ({status}); try again later"),
            (status >= 500, ModelFailedError, f"failed ({status}); try again later"),
        ):
            if applies:
                return kind, remedy
        return InvalidArgumentError, f"refused the request ({status})"

    def reported(self, error: object) -> HostlerError:
        """Return the error for an `error` object inside an answer of status 200."""
        if isinstance(error, dict):
            text = " ".join(str(error[key]) for key in ("code", "type", "message") if error.get(key))
            code = error.get("code")
            status = code if isinstance(code, int) and not isinstance(code, bool) else None
        else:
            text, status = str(error), None
        if status is None:
            status = 400 if _is_overflow(400, text) else 429 if _OVERLOAD.search(text) else 500
        return self.refused(status if 400 <= status < 600 else 500, text)


def _is_overflow(status: int, text: str) -> bool:
    """Return whether a refusal is about the context window. Some proxies report these with status 500."""
    return status in (400, 413, 422, 500) and _OVERFLOW.search(text) is not None
