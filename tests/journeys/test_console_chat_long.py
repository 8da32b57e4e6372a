"""Long answers and long conversations on the chat page: no task is long, and little is rendered at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.chat_page import MODULE, at_chat, begin, conversation_of, write
from support.chromium import NEEDS_CHROMIUM, Page
from support.console import shown, there
from support.editors import delta, said, steps
from support.examples import SOAK
from support.main_thread import Tasks, tasks_of
from support.wire_client import ask

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
MOST_MS = 50 if SOAK else 150
"""Processor time of one task. Beside other tests caches are cold, and each task takes longer."""
PIECES = 5_000
BLOCKS_PER_PART = 5
ANSWER = """## Part {n}

Some **bold** words of an answer, with `code`, a [link](https://example.com/{n}) and *more* of it; and it goes
on for another line, so that a paragraph is as long as those that models write.

- first item with some text
- second **item** with more text
- third

```python
def part_{n}(value: int) -> int:
    return value + {n}
```

| name | value |
| --- | --- |
| part | {n} |
| more | of it |

"""
RENDERED = f"{MODULE}.then(({{rendered}}) => rendered.most)"
MOST_BLOCKS = 9
"""That are rendered at once: eight more of a message, and the one that is being written."""


async def test_an_answer_of_five_thousand_pieces_is_written_and_read_again(tmp_path: Path) -> None:
    parts = 62
    text = "".join(ANSWER.format(n=n) for n in range(parts))
    size = len(text) // PIECES
    pieces = [delta(text[at : at + size]) for at in range(0, len(text), size)]
    assert len(pieces) >= PIECES
    blocks = "document.querySelectorAll('.by-agent')[1]?.querySelectorAll('.markdown > *').length"
    whole = f"{blocks} === {parts * BLOCKS_PER_PART}"
    async with at_chat(tmp_path) as (host, page):
        await begin(page, "helper")
        await write(page, steps(said("ready")))
        await page.until(shown("ready"))
        conversation = await conversation_of(page)
        event = {"event_type": "message.received", "agent": "helper", "conversation_id": conversation}
        async with tasks_of(page) as tasks:
            await ask(
                host.url, "POST", "/v1/events", {**event, "input": {"text": steps(*pieces, said(text))}}
            )
            await page.until(
                f"{whole} && !{there('.growing')} && document.querySelectorAll('.strip.over').length === 2"
            )
        await little_at_once(page, "written", tasks)
        async with tasks_of(page) as tasks:
            await page.open(f"{host.url}/chat/{conversation}")
            await page.until(whole)
        await little_at_once(page, "opened", tasks)
        assert page.complaints == []


async def little_at_once(page: Page, name: str, tasks: Tasks) -> None:
    most = await page.evaluate(RENDERED)
    print(name, "longest tasks, ms:", *tasks.longest(), "most blocks:", most)
    assert tasks.longest_ms < MOST_MS, tasks.longest()
    assert 0 < most <= MOST_BLOCKS
