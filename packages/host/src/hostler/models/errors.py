"""What can go wrong with a model service: one class per remedy, each building its own sentence."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from hostler.models.limits import MAX_ERROR_CHARS
from hostler_protocol.errors import (
    HostError,
    HostlerError,
    InvalidArgumentError,
    RateLimitedError,
    UnavailableError,
)
from hostler_protocol.ids import digest

SOURCE_CHARS = 16
"""Of a digest: enough that no two services of a host share one."""
CONTEXT_OVERFLOW = "context_overflow"
"""`details["reason"]` of the InvalidArgumentError for a request that the model's window does not hold."""
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
            r"max_tokens must be at least 1, got -",  # what is left for the answer is less than nothing
        )
    ),
    re.IGNORECASE,
)
"""How services say that a request is longer than the window: there is no code that all of them give."""
_UNKNOWN_MODEL = re.compile(r"model_not_found|model .*(not found|does not exist|not exist)", re.IGNORECASE)
_QUOTA = re.compile(
    r"insufficient_quota|billing|insufficient balance|exceeded your current quota", re.IGNORECASE
)
_OVERLOAD = re.compile(r"rate.?limit|overloaded|too many requests", re.IGNORECASE)


class ModelUnreachableError(UnavailableError):
    """No connection to the endpoint."""


class ModelSilentError(UnavailableError):
    """The endpoint took the request and then said nothing for too long."""


class ModelBrokenStreamError(UnavailableError):
    """The answer ended in the middle."""


class ModelFailedError(UnavailableError):
    """The service reports a failure of its own (5xx)."""


class ModelKeyError(HostError):
    """The service refused the API key."""


class ModelUnknownError(HostError):
    """The service does not know the model."""


class ModelQuotaError(HostError):
    """The account behind the API key has nothing left to spend."""


class ModelAnswerError(HostError):
    """The service answered something that is not the answer of a model."""


class ModelUnsupportedError(HostError):
    """The service cannot do this at all."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How a model service is called in messages for people. `secrets` never appear in them."""

    model_id: str
    model: str
    url: str
    key_reference: str | None = None
    secrets: Collection[str] = field(default=(), repr=False)
    provider: str = "openai"

    @property
    def source(self) -> str:
        """The name of this service and model in `ProviderData`; it changes only when one of them does."""
        return digest([self.provider, self.url, self.model])[:SOURCE_CHARS]

    def clean(self, text: str) -> str:
        """Text of the service, without secrets, on one line, at most 500 characters."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        text = " ".join(text.split())
        return text if len(text) <= MAX_ERROR_CHARS else text[:MAX_ERROR_CHARS] + "…"

    def said(self, text: str) -> str:
        """A sentence part that repeats what the service said."""
        cleaned = self.clean(text)
        return f" It said: {cleaned}" if cleaned else ""

    def unreachable(self, reason: str) -> ModelUnreachableError:
        """No connection could be made."""
        return ModelUnreachableError(
            f"model {self.model_id!r}: cannot reach {self.url} ({self.clean(reason)}); "
            "check that the service runs and that `base_url` is right"
        )

    def silent(self, what: str, seconds: float) -> ModelSilentError:
        """The service sent nothing for `seconds`."""
        return ModelSilentError(
            f"model {self.model_id!r}: {self.url} sent {what} for {seconds:g} s; "
            "try again, or raise the model's `timeout`"
        )

    def broken(self, reason: str) -> ModelBrokenStreamError:
        """The answer broke off."""
        return ModelBrokenStreamError(
            f"model {self.model_id!r}: the answer of {self.url} broke off ({self.clean(reason)}); try again"
        )

    def malformed(self, reason: str) -> ModelAnswerError:
        """The answer cannot be understood."""
        return ModelAnswerError(
            f"model {self.model_id!r}: {self.url} did not answer as an OpenAI-compatible service "
            f"({self.clean(reason)}); check `base_url`, which usually ends in /v1"
        )

    def too_large(self, limit: int) -> ModelAnswerError:
        """The answer is over a size limit."""
        return ModelAnswerError(
            f"model {self.model_id!r}: the answer of {self.url} is larger than {limit:,} bytes; "
            "ask for less, for example with `max_tokens`"
        )

    def too_many_calls(self, limit: int) -> ModelAnswerError:
        """One answer asks for more tool calls than anybody means."""
        return ModelAnswerError(
            f"model {self.model_id!r}: an answer of {self.model!r} asks for more than {limit:,} tool calls; "
            "try again, or choose another model"
        )

    def refused(self, status: int, text: str, retry_after: float | None = None) -> HostlerError:
        """The error for an HTTP status other than 200 and the text that came with it."""
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
        """Whose fault a status is, and what happened and what to do as a sentence part."""
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
            (status >= 500 or status == 408, ModelFailedError, f"failed ({status}); try again later"),
        ):
            if applies:
                return kind, remedy
        return InvalidArgumentError, f"refused the request ({status})"

    def reported(self, error: object) -> HostlerError:
        """The error for an `error` object inside an answer that began well."""
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
    """Of status 500 too: proxies in front of a service pass its refusal on as a failure of their own."""
    return status in (400, 413, 422, 500) and _OVERFLOW.search(text) is not None
