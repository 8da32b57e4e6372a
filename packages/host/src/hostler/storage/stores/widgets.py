"""The stored entry of a widget: what its tokens are made by, read anew on every host of a database."""

from __future__ import annotations

import msgspec

from hostler.domain.widgets import Widget
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load

_q = load(__file__)
_widgets = msgspec.json.Decoder(Widget)


def find(tx: Tx, workspace_id: str, name: str) -> Widget | None:
    """Return the widget of this name whose agent is in this workspace; None without one that can be read."""
    row = tx.one(_q.find, name=name)
    if row is None:
        return None
    try:
        widget = _widgets.decode(row["spec"])
    except msgspec.DecodeError:  # of a later version: the configuration says so
        return None
    return widget if (widget.workspace or row["workspace_id"]) == workspace_id else None
