"""Search tokens: the tokens under which a text is indexed, and the terms and tokens of a query.

A text is folded (compatibility forms and case removed, blanks joined), then split into words. For scripts
without blanks between words (Chinese, Japanese, Thai, ...) and for Korean, where particles are joined to
words, every character and every pair of neighbours is a token instead. Symbols are tokens too, so that `100%`
and `_` can be found. The index only proposes: a hit is an item whose folded text contains every term
literally.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

from hostler.domain.place import Place
from hostler.domain.record import Record
from hostler.storage.port import Dialect
from hostler.storage.stores.filters import ANY, AnyOr
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.ids import digest
from hostler_protocol.limits import KIB, MAX_SEARCH_QUERY_CHARS

MAX_SEARCHED_CHARS = 32 * KIB
"""Only the beginning of a longer text is indexed, so that indexing does not delay the writer."""
MAX_TOKEN_CHARS = 64
"""A longer word is indexed by its beginning; the check of a hit compares all of it."""
MAX_QUERY_TOKENS = 32
"""Tokens of a query that are looked up: the longest, which are usually the rarest."""
MAX_RANKED_WORDS = 64
"""Words of a query that a ranked search looks up: the first ones. A question has fewer."""

_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u1950-\u19ff\u1b00-\u1b7f"
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3040-\u318f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\ua960-\ua97f\ua980-\ua9df\uaa60-\uaa7f\uac00-\ud7ff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
# combining marks, which `\w` does not match
_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
    "\u0711\u0730-\u074a\u07a6-\u07b0\u07eb-\u07f3\u0816-\u082d\u0859-\u085b\u08d3-\u0963\u0966-\u0dff"
    "\u135d-\u135f\u1712-\u1734\u180b-\u180d\u18a9\u1920-\u193b\u1a17-\u1a1b\u1a55-\u1aff\u1b80-\u1bff"
    "\u1c24-\u1c37\u1cd0-\u1cf9\u1dc0-\u1dff\u20d0-\u20f0\ua802-\ua827\ua880-\ua8c5\ua8e0-\ua8f1\uabe3-\uabed"
    "\ufe00-\ufe0f\ufe20-\ufe2f"
)
_unspaced_runs = re.compile(f"[{_UNSPACED}]+")
_words = re.compile(rf"[\w{_MARKS}]+")
_symbols = re.compile(rf"[^\w\s{_MARKS}]")
_ASCII = [chr(code) for code in range(128)]
_ASCII_BLANKS = str.maketrans({char: " " for char in _ASCII if not char.isalnum()})
_ASCII_SYMBOLS = {char: f"\ue001{ord(char):x}" for char in _ASCII if char == "_" or _symbols.fullmatch(char)}
_terms = re.compile(r'"([^"]*\S[^"]*)"(?!\S)|(\S+)')
_SCOPE = "\ue000"
"""Prefix of the tokens of an item's place. No word begins with it: it is no letter."""


class ParsedQuery(Record):
    """A parsed query: folded `terms`, all of which a hit contains literally, and `tokens` to look up."""

    terms: tuple[str, ...]
    tokens: tuple[str, ...]

    def matches(self, search_text: str) -> bool:
        """Whether a folded text is a hit."""
        return all(term in search_text for term in self.terms)


def fold(text: str) -> str:
    """Fold a text for comparison; at most MAX_SEARCHED_CHARS characters."""
    text = text[:MAX_SEARCHED_CHARS]
    if text.isascii():
        text = text.lower()
    else:
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(text.replace("\x00", "").split())[:MAX_SEARCHED_CHARS]


def tokens_of(folded: str) -> list[str]:
    """Return the distinct tokens of a folded text, sorted. None contains a blank or an ASCII symbol."""
    found: set[str] = set()
    if not folded.isascii():
        for run in _unspaced_runs.findall(folded):
            found.update(run)
            found.update(map("".join, pairwise(run)))
        folded = _unspaced_runs.sub(" ", folded)
    found.update(_rest(folded))
    return sorted(found)


def parse_query(query: str) -> ParsedQuery:
    """Parse a query: terms separated by blanks, all of which must match; "quotes" make a term with blanks.

    There are no other operators: `%`, `_`, `*`, `-`, `OR` and a single quote are text. InvalidArgumentError
    if the query is empty or too long.
    """
    if len(query) > MAX_SEARCH_QUERY_CHARS:
        raise InvalidArgumentError(
            f"query has {len(query):,} characters; at most {MAX_SEARCH_QUERY_CHARS:,} are searched for"
        )
    folded = (fold(quoted or plain) for quoted, plain in _terms.findall(query))
    terms = tuple(dict.fromkeys(term for term in folded if term))
    if not terms:
        raise InvalidArgumentError("query is empty: name at least one word")
    tokens: set[str] = set()
    for term in terms:
        for run in _unspaced_runs.findall(term):
            tokens.update(map("".join, pairwise(run)) if len(run) > 1 else run)
        tokens.update(_rest(_unspaced_runs.sub(" ", term)))
    rarest = sorted(tokens, key=lambda token: (-len(token), token))
    return ParsedQuery(terms, tuple(rarest[:MAX_QUERY_TOKENS]))


def ranked_words(query: str) -> list[str]:
    """Return the words that a ranked search looks for, in their order: of scripts without blanks pairs of
    characters, symbols only if there is nothing else.
    """
    folded = fold(query)
    found: dict[str, None] = {}
    if folded.isascii():
        found = dict.fromkeys(word[:MAX_TOKEN_CHARS] for word in folded.translate(_ASCII_BLANKS).split())
    else:
        for place in re.finditer(f"[{_UNSPACED}]+|[\\w{_MARKS}]+?(?=[{_UNSPACED}]|[^\\w{_MARKS}]|$)", folded):
            run = place[0]
            if _unspaced_runs.fullmatch(run) is None:
                found |= dict.fromkeys(word[:MAX_TOKEN_CHARS] for word in run.replace("_", " ").split())
            else:
                found |= dict.fromkeys(map("".join, pairwise(run)) if len(run) > 1 else (run,))
    words = list(found) or sorted(tokens_of(folded))
    return words[:MAX_RANKED_WORDS]


def occurrences(folded: str, wanted: Iterable[str]) -> dict[str, int]:
    """Count how often tokens are in a folded text, as `tokens_of` finds them."""
    counts: dict[str, int] = {}
    words: Counter[str] | None = None
    for token in wanted:
        if _unspaced_runs.fullmatch(token):
            counts[token] = folded.count(token)
        elif token.startswith("\ue001"):
            counts[token] = folded.count(chr(int(token[1:], 16)))
        else:
            words = _counted_words(folded) if words is None else words
            counts[token] = words[token]
    return counts


def indexed_tokens(dialect: Dialect, ws: str, place: Place, words: Iterable[str]) -> list[str]:
    """Return the tokens under which an item is indexed: those of its words and of its place.

    On SQLite every word is indexed twice, once prefixed with its conversation, so that a search within a
    conversation reads only that conversation's list. PostgreSQL combines lists efficiently by itself.
    """
    tokens = [_token("workspace", ws), _token("bot", ws, place.bot_id)]
    if place.conversation_id is not None:
        tokens.append(thread_token(ws, place.conversation_id, place.thread_id))
        conversation = _token("conversation", ws, place.conversation_id)
        if dialect == "sqlite":
            tokens += [conversation + word for word in words]
        else:
            tokens.append(conversation)
    tokens += words
    return tokens


def blinded_tokens(ws: str, place: Place, words: Iterable[str]) -> list[str]:
    """Return the tokens of an item whose text is sealed: those of its place, and `words`, which are blinded.

    Blinded words are of one conversation alone, so none is indexed a second time for it.
    """
    tokens = [_token("workspace", ws), _token("bot", ws, place.bot_id)]
    if place.conversation_id is not None:
        tokens.append(thread_token(ws, place.conversation_id, place.thread_id))
        tokens.append(_token("conversation", ws, place.conversation_id))
    return [*tokens, *words]


def wanted_tokens(
    dialect: Dialect, ws: str, conversation_id: AnyOr, bot_id: AnyOr, words: Iterable[str]
) -> list[str]:
    """Return the tokens that all items of a scope with all of `words` have."""
    if isinstance(conversation_id, str):
        conversation = _token("conversation", ws, conversation_id)
        if dialect == "sqlite":
            return [conversation + word for word in words]
        return [conversation, *words]
    if bot_id is not ANY:
        return [_token("bot", ws, bot_id), *words]
    return [_token("workspace", ws), *words]


def thread_token(ws: str, conversation_id: str, thread_id: str | None) -> str:
    """Return the token of all items of a thread."""
    return _token("thread", ws, conversation_id, thread_id)


@lru_cache(maxsize=8192)
def _token(*scope: str | None) -> str:
    return _SCOPE + digest(scope)[:16]


def _counted_words(folded: str) -> Counter[str]:
    if folded.isascii():
        return Counter(word[:MAX_TOKEN_CHARS] for word in folded.translate(_ASCII_BLANKS).split())
    plain = _unspaced_runs.sub(" ", folded).replace("_", " ")
    return Counter(word[:MAX_TOKEN_CHARS] for word in _words.findall(plain))


def _rest(folded: str) -> set[str]:
    """Return words and symbols of a text without unspaced scripts."""
    if folded.isascii():  # the same result at a fifth of the cost
        found = {word[:MAX_TOKEN_CHARS] for word in set(folded.translate(_ASCII_BLANKS).split())}
        found.update([token for mark, token in _ASCII_SYMBOLS.items() if mark in folded])
        return found
    found = {word[:MAX_TOKEN_CHARS] for word in _words.findall(folded.replace("_", " "))}
    found.update(f"\ue001{ord(mark):x}" for mark in set(_symbols.findall(folded)))
    if "_" in folded:
        found.add(f"\ue001{ord('_'):x}")
    return found
