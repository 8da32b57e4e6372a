"""Streamed Markdown for a terminal: bold, code, headings and bullets."""

from __future__ import annotations

_RESET, _BOLD, _CODE, _DIM = "\x1b[0m", "\x1b[1m", "\x1b[36m", "\x1b[2m"
_FENCE = "```"


class MarkdownStream:
    """Renders pieces of Markdown with terminal colours. Pieces may be cut anywhere."""

    def __init__(self) -> None:
        self._pending = ""
        self._at_line_start = True
        self._bold = self._code = self._heading = self._fenced = False

    def feed(self, text: str) -> str:
        """Return the text to write for the next piece. Marks that may be incomplete are kept."""
        self._pending += text
        return self._render(final=False)

    def end(self) -> str:
        """Return the rest, and the end of all colours."""
        out = self._render(final=True)
        coloured = self._bold or self._code or self._heading or self._fenced
        self._bold = self._code = self._heading = self._fenced = False
        self._at_line_start = True
        return out + (_RESET if coloured else "")

    def _render(self, *, final: bool) -> str:
        out: list[str] = []
        while self._pending:
            text = self._next(final=final)
            if text is None:
                break
            out.append(text)
        return "".join(out)

    def _next(self, *, final: bool) -> str | None:
        """Return the output for the next mark or character; None if it may be incomplete."""
        held = self._pending
        if self._at_line_start:
            text = self._line_start(final=final)
            if text is None or text:
                return text
        if held[0] == "\n":
            return self._line_end()
        if not self._fenced and held[0] == "*" and not self._code:
            if len(held) == 1 and not final:
                return None
            if held.startswith("**"):
                self._pending = held[2:]
                self._bold = not self._bold
                return self._style()
        if not self._fenced and held[0] == "`":
            self._pending = held[1:]
            self._code = not self._code
            return self._style()
        self._pending = held[1:]
        return held[0]

    def _line_start(self, *, final: bool) -> str | None:
        """Return the output for a fence, heading or bullet; "" if the line begins with none of them."""
        mark, complete = _mark_of(self._pending, fenced=self._fenced)
        if not complete and not final:
            return None
        self._at_line_start = False
        rest = self._pending[len(mark) :]
        if mark.startswith(_FENCE):
            self._pending = rest
            self._fenced = not self._fenced
            return f"{_RESET}{_DIM}{mark}{self._style()}"
        if mark.startswith("#"):
            self._pending = rest
            self._heading = True
            return self._style()
        if mark:
            self._pending = rest
            return "• "
        return ""

    def _line_end(self) -> str:
        self._pending = self._pending[1:]
        self._at_line_start = True
        if self._heading or self._bold or self._code:  # inline marks end with their line
            self._heading = self._bold = self._code = False
            return f"{_RESET}\n"
        return "\n"

    def _style(self) -> str:
        return (
            _RESET
            + (_BOLD if self._bold or self._heading else "")
            + (_CODE if self._code or self._fenced else "")
        )


def _mark_of(line: str, *, fenced: bool) -> tuple[str, bool]:
    """Return the mark at the start of a line ("" for none), and whether it is final with more text."""
    if line.startswith(_FENCE):
        end = line.find("\n")
        return (line if end < 0 else line[:end]), end >= 0
    if _FENCE.startswith(line):
        return "", False
    if fenced:
        return "", True
    hashes = len(line) - len(line.lstrip("#"))
    if hashes:
        after = line[hashes : hashes + 1]
        return (line[: hashes + 1] if after == " " else ""), bool(after)
    if line in ("-", "*"):
        return "", False
    return (line[:2] if line.startswith(("- ", "* ")) else ""), True
