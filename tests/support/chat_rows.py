"""Rows of a long chat as they are in the page: which of them are seen, and whether the view is whole."""

from __future__ import annotations

LOG = "document.querySelector('.chat-log')"
ROWS = "[...document.querySelectorAll('.chat-rows > li:not(.gap)')]"
IN_VIEW = (
    f"{ROWS}.filter((one) => one.getBoundingClientRect().top >= {LOG}.getBoundingClientRect().top"
    f" && one.getBoundingClientRect().bottom <= {LOG}.getBoundingClientRect().bottom)"
)
FILLED = (
    f"(() => {{ const log = {LOG}.getBoundingClientRect(); const at = (y) => document.elementsFromPoint("
    "log.left + log.width / 2, y).some((one) => one.matches('.gap'));"
    f" return {IN_VIEW}.length > 0 && !at(log.top + 2) && !at(log.bottom - 2)"
    f" && {ROWS}.every((one) => !one.matches('.by-agent') || one.querySelector('.markdown > *') !== null);"
    " })()"
)
"""Nothing of the view is a gap, and what is there is rendered."""
SHOWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
"""Holds once a picture was made: before it heights are taken, and the view is put where it was."""
_BOX = "document.querySelector('.marked').getBoundingClientRect()"
_LOG_BOX = f"{LOG}.getBoundingClientRect()"
FROM_MIDDLE = f"Math.abs({_BOX}.top + {_BOX}.bottom - {_LOG_BOX}.top - {_LOG_BOX}.bottom) / 2"
"""How far the message that was looked for is from the middle of the view, in pixels."""
MARKED = f"(document.querySelector('.marked') !== null && {FILLED} && {FROM_MIDDLE} < 5)"
ANSWER = (
    "Answer **{n}** with `code` and a [link](https://example.com/{n}), which goes on for a while, so that it "
    "is as long as many an answer is; and some more of it.\n\n- one\n- two\n\n```python\nprint({n})\n```\n"
)


def painted_top(element: str) -> str:
    """An expression: where an element is in the next picture.

    Between two pictures rows may be there whose heights are not taken yet: nobody sees that.
    """
    return (
        "new Promise((done) => new IntersectionObserver(([seen], looks) =>"
        f" (looks.disconnect(), done(seen.boundingClientRect.top))).observe({element}))"
    )
