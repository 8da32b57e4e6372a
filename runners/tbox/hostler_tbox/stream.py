"""The stream of a Tbox app: events `message`, whose payloads are JSON texts, and `error`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from hostler_sdk.services import Done, Item, Note, ServiceFailure, Session, SseParser, Text, Whole, text_in

_NEWS = frozenset({"header", "thinking", "charge", "followup", "unknown"})
SUCCESS = ("0", 0, "", None)


class TboxStream(SseParser):
    """One answer. Each lane of an app sends an `end`, so it is over when the stream ends after one."""

    def __init__(self) -> None:
        super().__init__()
        self._has_ended = False

    def body(self, data: dict[str, object]) -> Iterator[Item]:
        """Raise the error that is no stream."""
        raise tbox_error(data)

    def finish(self) -> Iterator[Item]:
        """End the answer."""
        yield from super().finish()
        if self._has_ended:
            yield Done()

    def take(self, event: str, data: dict[str, object]) -> Iterator[Item]:
        """Return the items of one event."""
        if event == "error":
            raise tbox_error(data)
        kind, payload = text_in(data, "type"), _payload(data.get("payload"))
        match kind:
            case "chunk":
                if piece := text_in(payload, "text"):
                    yield Text(piece)
            case "meta":
                yield Session("conversation_id", text_in(payload, "conversationId"))
            case "revoke":
                yield Whole("")
            case "end":
                self._has_ended = True
            case "error":
                raise tbox_error(payload)
            case _ if kind not in _NEWS:
                yield Note(f"Tbox sent an unknown event: {kind or event:.60}")


def _payload(value: object) -> Mapping[str, Any]:
    """Decode a payload. Raises ServiceFailure if it is not the text of a JSON object."""
    if not isinstance(value, str) or not value:
        return value if isinstance(value, dict) else {}
    try:
        found = msgspec.json.decode(value)
    except msgspec.DecodeError as error:
        raise ServiceFailure("response_invalid", f"a payload of Tbox is not JSON: {error}") from None
    return found if isinstance(found, dict) else {}


def tbox_error(data: Mapping[str, Any]) -> ServiceFailure:
    """Return the failure for an error of Tbox."""
    code = data.get("errorCode") or data.get("code") or "without a code"
    said = text_in(data, "errorMsg") or text_in(data, "description") or text_in(data, "message")
    why = said or "it gives no reason"
    return ServiceFailure(
        "service_error", f"Tbox reported an error ({code!s:.60}): {why:.300}; look at the app in Tbox"
    )
