"""What can go wrong with WeCom, and what that means for what was to be done."""

from __future__ import annotations

from typing import Any

from hostler_sdk.channels import NotSent, UnclearError

OK = 0
BUSY = -1
STALE_TOKEN = frozenset({40014, 41001, 42001})
"""The access token is wrong, missing or has expired: nothing was done, and it is asked for anew."""
_LIMITED = {45009: 60.0, 45033: 2.0}
"""Too many calls (WeCom blocks them for a minute), or too many at once; in seconds."""
_PASSING = frozenset({6000})
"""Somebody else changed the same at the same time."""
_SETUP = {
    40001: "check `secret`",
    40013: "check `corp-id`",
    40056: "check `agent-id`",
    48002: "the application may not call this: see its permissions in the admin console",
    60020: "add the address of this host to the trusted IPs of the application",
    301002: "check `agent-id`: this `secret` is that of another application",
}
"""What the operator can change; until then it is tried again."""
_NOT_THERE = {60111, 81013, 82001}


class RefusedError(NotSent):
    """WeCom refused a call with an error code of its own: nothing was done."""

    def __init__(
        self, message: str, code: int, *, final: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message, final=final, retry_after=retry_after)
        self.code = code


def code_of(answer: dict[str, Any]) -> int:
    """Return the error code of an answer; one without is none of WeCom."""
    code = answer.get("errcode")
    return code if isinstance(code, int) else BUSY


def meaning(method: str, answer: dict[str, Any]) -> RefusedError | UnclearError:
    """Return what an answer with an error code means."""
    code = code_of(answer)
    told = str(answer.get("errmsg") or "no reason given")[:300]
    if code == BUSY:
        return UnclearError(f"WeCom is busy ({method}): {told}")
    if code in STALE_TOKEN:
        return RefusedError(f"WeCom does not take the access token that it gave ({code}): {told}", code)
    if code in _LIMITED:
        return RefusedError(f"WeCom limits the rate ({code})", code, retry_after=_LIMITED[code])
    if code in _SETUP:
        return RefusedError(f"WeCom refused {method} ({code}): {_SETUP[code]}; {told}", code)
    if code in _NOT_THERE:
        text = f"there is no such member, or the application is not visible to them ({code}): {told}"
        return RefusedError(text, code, final=True)
    return RefusedError(f"WeCom refused {method} ({code}): {told}", code, final=code not in _PASSING)
