"""Markdown for a terminal as it streams in: bold, code, headings and bullets, cut anywhere."""

from __future__ import annotations

_RESET, _BOLD, _CODE, _DIM = "\x1b[0m", "\x1b[1m", "\x1b[36m", "\x1b[2m"
_FENCE = "```"


class MarkdownStream:
    """Turns pieces of Markdown into text with terminal colours; cut anywhere, the result is the same."""

    def __init__(self) -> None:
        self._held = ""
        self._at_line_start = True
        self._bold = self._code = self._heading = self._fenced = False

    def feed(self, text: str) -> str:
        """What to write for the next piece; marks that may be incomplete wait for the piece after it."""
        self._held += text
        return self._taken(final=False)

    def end(self) -> str:
        """What was held back, and the end of every colour."""
        out = self._taken(final=True)
        coloured = self._bold or self._code or self._heading or self._fenced
        self._bold = self._code = self._heading = self._fenced = False
        self._at_line_start = True
        return out + (_RESET if coloured else "")

    def _taken(self, *, final: bool) -> str:
        out: list[str] = []
        while self._held:
            taken = self._next(final=final)
            if taken is None:
                break
            out.append(taken)
        return "".join(out)

    def _next(self, *, final: bool) -> str | None:
        """The output for the next mark or character; None: more has to come first."""
        held = self._held
        if self._at_line_start:
            begun = self._line_start(final=final)
            if begun is None or begun:
                return begun
        if held[0] == "\n":
            return self._line_end()
        if not self._fenced and held[0] == "*" and not self._code:
            if len(held) == 1 and not final:
                return None
            if held.startswith("**"):
                self._held = held[2:]
                self._bold = not self._bold
                return self._style()
        if not self._fenced and held[0] == "`":
            self._held = held[1:]
            self._code = not self._code
            return self._style()
        self._held = held[1:]
        return held[0]

    def _line_start(self, *, final: bool) -> str | None:
        """Fences, headings and bullets; "" where the line begins with none of them."""
        mark, complete = _mark_of(self._held, fenced=self._fenced)
        if not complete and not final:
            return None
        self._at_line_start = False
        rest = self._held[len(mark) :]
        if mark.startswith(_FENCE):
            self._held = rest
            self._fenced = not self._fenced
            return f"{_RESET}{_DIM}{mark}{self._style()}"
        if mark.startswith("#"):
            self._held = rest
            self._heading = True
            return self._style()
        if mark:
            self._held = rest
            return "• "
        return ""

    def _line_end(self) -> str:
        self._held = self._held[1:]
        self._at_line_start = True
        if self._heading or self._bold or self._code:  # inline marks do not reach into the next line
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
    """The mark a line begins with ("" for none), and whether more text could not change that."""
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
