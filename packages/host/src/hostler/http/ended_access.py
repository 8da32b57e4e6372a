"""End what keys and sessions have open, once they are revoked. Other hosts look every few seconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hostler.http.state import AppState


def end_access(state: AppState, credential_ids: Iterable[str]) -> None:
    """Forget these keys and sessions, and end their connections on this host."""
    for credential_id in credential_ids:
        state.keys.forget(credential_id)
        state.sessions.forget(credential_id)
        state.open_keys.end(credential_id)
