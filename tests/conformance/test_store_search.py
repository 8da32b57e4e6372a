"""Search in transcripts on every database: scripts, scopes, bounds, and the index."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostler.domain.place import Place
from hostler.storage.port import Query, Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import search, search_index, transcripts
from hostler.storage.stores.filters import ANY
from hostler.storage.stores.transcripts import item_of
from hostler_protocol.content import Message
from hostler_protocol.errors import InvalidArgumentError
from support.databases import read, write
from support.transcript_rows import PLACES, add, fill, find, texts

TEXTS = [
    "The quick brown Fox jumps over the lazy dog.",
    "100% sure: snake_case and kebab-case (a*b) OR NEAR nothing",
    "Die Straße nach Málaga",
    "我喜欢在北京吃饭",
    "東京タワーとカフェ",
    "오늘 학교에서 공부했다",
    "วันนี้อากาศดีมาก",
    "हिन्दी में खोज",
    "мир и Дружба",
    "שלום עולם",
    "emoji 😀 done",
    'he said "no way" twice',
    "line one\nline two",
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("fox", [0]),
        ("FOX quick", [0]),
        ("fox cat", []),
        ("qui", []),
        ('"quick brown"', [0]),
        ('"brown quick"', []),
        ("dog.", [0]),
        ("%", [1]),
        ("100%", [1]),
        ("_", [1]),
        ("snake_case", [1]),
        ("snake", [1]),
        ("snake%case", []),
        ("sn*", []),
        ("a*b", [1]),
        ("fox OR snake", []),
        ("OR NEAR", [1]),
        ("NEAR(fox", []),
        ("strasse", [2]),
        ("STRAẞE", [2]),
        ("málaga", [2]),
        ("ma\u0301laga", [2]),
        ("malaga", []),
        ("北京", [3]),
        ("喜欢", [3]),
        ("京", [3, 4]),
        ("京北", []),
        ("在北京吃", [3]),
        ("东京", []),
        ("タワー", [4]),
        ("ﾀﾜｰ", [4]),
        ("東京 カフェ", [4]),
        ("학교", [5]),
        ("อากาศ", [6]),
        ("खोज", [7]),
        ("МИР", [8]),
        ("дружба", [8]),
        ("עולם", [9]),
        ("😀", [10]),
        ('"no way"', [11]),
        ('"', [11]),
        ('said "no', [11]),
        ('"one line two"', [12]),
        ("nowhere", []),
    ],
)
def test_search_finds_words_of_any_script_literally(
    database: SqlDatabase, query: str, expected: list[int]
) -> None:
    fill(database, TEXTS)
    assert find(database, query, limit=100) == [TEXTS[n] for n in reversed(expected)]


@pytest.mark.parametrize("query", ["", "  \n ", "\x00", "x" * 1_001])
def test_a_query_that_names_nothing_is_refused(database: SqlDatabase, query: str) -> None:
    with pytest.raises(InvalidArgumentError, match="query"):
        find(database, query)


def test_search_keeps_to_its_scope(database: SqlDatabase) -> None:
    def build(tx: Tx) -> None:
        for conversation_id, thread_id, bot_id in PLACES:
            for role in ("user", "assistant"):
                add(
                    tx,
                    f"word {conversation_id} {thread_id!r} {bot_id}",
                    role=role,
                    conversation_id=conversation_id,
                    thread_id=thread_id,
                    bot_id=bot_id,
                )
        add(tx, "word of another workspace", ws="w2")

    write(database, build)
    for conversation in ("c", "d", ANY):
        for thread in (ANY, None, "t", ""):
            for bot in (ANY, None, "b", "b2"):
                wanted = [
                    f"word {c} {t!r} {b}"
                    for c, t, b in PLACES
                    if conversation in (ANY, c) and thread in (ANY, t) and bot in (ANY, b)
                ]
                scope = {"conversation_id": conversation, "thread_id": thread, "bot_id": bot}
                assert find(database, "word", role="user", limit=100, **scope) == wanted[::-1]
                assert len(find(database, "word", limit=100, **scope)) == 2 * len(wanted)


def test_search_between_times_and_before_a_sequence(database: SqlDatabase) -> None:
    hour = 3_600_000
    for n in range(1, 50):
        fill(database, [f"word {n}"], created_at=n * hour)
    assert find(database, "word", after=45 * hour, before=48 * hour) == ["word 47", "word 46"]
    assert find(database, "word", after=49 * hour) == []
    assert find(database, "word", before=1 * hour) == []
    assert find(database, "word", before=2 * hour) == ["word 1"]
    assert find(database, "word", before_seq=3) == ["word 2", "word 1"]
    assert find(database, "word", after=-5, before=2**62, limit=1) == ["word 49"]


def test_hits_are_counted_up_to_a_bound_and_newest_first(database: SqlDatabase) -> None:
    fill(database, [f"word {n}" for n in range(250)])

    def look(tx: Tx) -> None:
        hits = search.search(tx, "w", "word", conversation_id="c", limit=3)
        assert (texts(hits.items), hits.total_count, hits.complete) == (
            ["word 249", "word 248", "word 247"],
            100,
            False,
        )
        few = search.search(tx, "w", "word 7", conversation_id="c")
        assert (texts(few.items), few.total_count, few.complete) == (["word 7"], 1, True)

    read(database, look)


def test_a_small_thread_is_found_behind_many_others(database: SqlDatabase) -> None:
    """More candidates of other threads than are passed over one by one."""

    def build(tx: Tx) -> None:
        add(tx, "the word", thread_id="mine")
        for n in range(2_500):
            add(tx, f"word {n}", thread_id="other")

    write(database, build)
    assert find(database, "word", thread_id="mine") == ["the word"]


def test_an_item_is_found_from_its_commit_on_and_never_after_its_removal(database: SqlDatabase) -> None:
    for n in range(3):
        fill(database, [f"secret 北京 {n}"])
        assert len(find(database, "secret")) == n + 1
    assert write(database, lambda tx: transcripts.remove(tx, "w", [1, 3, 99])) == 2
    assert find(database, "secret") == find(database, "北京") == ["secret 北京 1"]
    page = read(database, lambda tx: transcripts.page(tx, "w", conversation_id="c"))
    assert [item.seq for item in page.items] == [2]
    write(database, lambda tx: add(tx, "after"))
    assert read(database, lambda tx: transcripts.latest_seq(tx, "w")) == 4, (
        "sequences are not given out again"
    )
    assert find(database, "secret") == ["secret 北京 1"]
    assert find(database, "after") == ["after"]


@pytest.mark.parametrize("first", [0x4E00, 0xAC00, 0x2190, 0x20000])
def test_a_text_of_the_greatest_variety_is_stored_and_its_beginning_found(
    database: SqlDatabase, first: int
) -> None:
    """More different characters and pairs than any writing has: still within what an index entry may hold."""
    source = random.Random(first)
    text = "".join(chr(first + source.randrange(0x2BA0)) for _ in range(100_000))
    fill(database, [text])
    assert find(database, text[30_000:30_002]) == [text[:4_000]]
    assert find(database, text[99_000:99_010]) == [], "what lies beyond the searched part"


ALPHABET = st.sampled_from([*"aAbB北京東ー한글%_*\"' .-😀", "\u0301", "ß", "ﬁ"])
words = st.lists(ALPHABET, min_size=1, max_size=12).map("".join)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(words, min_size=1, max_size=8), st.data())
def test_any_piece_of_cjk_and_any_whole_word_of_a_text_finds_it(
    database: SqlDatabase, bodies: list[str], data: st.DataObject
) -> None:
    ws = f"w{data.draw(st.integers(0, 2**60))}"
    fill(database, bodies, ws=ws)
    chosen = data.draw(st.sampled_from(bodies))
    pieces = chosen.split()
    if pieces:
        piece = data.draw(st.sampled_from(pieces))
        if '"' not in piece:
            hits = read(database, lambda tx: search.search(tx, ws, piece, conversation_id="c", limit=100))
            assert chosen.replace("\x00", "") in texts(hits.items)


NUMBERS = itertools.count()


class Naive:
    """What search promises, without an index: the whole words of a text, newest first."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    def find(self, word: str, conversation: Any) -> list[str]:
        return [
            text
            for text, where in reversed(self.said)
            if word in text.split() and (conversation is ANY or where == conversation)
        ]


STEPS = st.one_of(
    st.tuples(
        st.just("say"), st.sampled_from(["red", "red green", "blue"]), st.sampled_from("cd"), st.booleans()
    ),
    st.tuples(st.just("remove"), st.integers(0, 40)),
    st.tuples(st.just("many"), st.integers(1, 3)),
)


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(STEPS, min_size=1, max_size=12))
def test_what_is_committed_is_found_whether_it_waits_for_the_index_or_not(
    database: SqlDatabase, steps: list[Any]
) -> None:
    ws, naive = f"naive{next(NUMBERS)}", Naive()
    seqs: list[int] = []

    def say(tx: Tx, text: str, conversation: str) -> None:
        message = item_of(Message(role="user", content=text), Place(conversation_id=conversation))
        transcripts.append(tx, ws, message, seqs.append)
        naive.said.append((text, conversation))

    def step(tx: Tx, kind: str, *how: Any) -> None:
        match kind:
            case "say":
                text, conversation, is_long = how
                say(tx, f"{text} {'x' * search_index.LONG_TEXT_CHARS}" if is_long else text, conversation)
            case "many":
                for turn in range(how[0] * search_index.INDEX_EVERY // 2):
                    say(tx, f"red {turn}", "cd"[turn % 2])
            case "remove" if how[0] < len(seqs):
                at = len(seqs) - 1 - how[0]
                assert transcripts.remove(tx, ws, [seqs.pop(at)]) == 1
                del naive.said[at]

    for one in steps:
        write(database, lambda tx, one=one: step(tx, *one))  # type: ignore[misc]
        for word in ("red", "green", "blue", "yellow"):
            for conversation in ("c", "d", ANY):
                found = read(
                    database,
                    lambda tx, w=word, c=conversation: search.search(tx, ws, w, conversation_id=c, limit=100),  # type: ignore[misc]
                )
                wanted = naive.find(word, conversation)
                assert [item.content for item in found.items] == [
                    text[: len(item.content)] for text, item in zip(wanted, found.items, strict=False)
                ]
                assert len(found.items) == min(len(wanted), 100)
                assert found.total_count >= len(found.items)


def test_few_messages_wait_for_the_index_and_long_ones_do_not(database: SqlDatabase) -> None:
    if database.dialect != "sqlite":
        pytest.skip("PostgreSQL lets new entries of its index wait by itself")
    waiting = Query("t.waiting", *["SELECT COUNT(*) AS n FROM transcripts"] * 2)
    indexed = Query("t.indexed", *["SELECT COUNT(*) AS n FROM transcript_docs"] * 2)

    def counts() -> tuple[int, int]:
        return read(database, lambda tx: tuple(row["n"] for q in (waiting, indexed) if (row := tx.one(q))))

    fill(database, ["a"] * (search_index.INDEX_EVERY - 1))
    assert counts() == (search_index.INDEX_EVERY - 1, 0)
    fill(database, ["a"])
    assert counts() == (search_index.INDEX_EVERY, search_index.INDEX_EVERY)
    fill(database, ["a", "x " * search_index.LONG_TEXT_CHARS])
    fill(database, ["a"])
    assert counts() == (search_index.INDEX_EVERY + 3, search_index.INDEX_EVERY + 2)
