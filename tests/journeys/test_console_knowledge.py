"""Knowledge bases in a real browser: made, filled by button and drop, searched, read, changed and removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.chromium import NEEDS_CHROMIUM, Page, browsing
from support.console import HOSTILE, choose, click, look_at_all, shown, sign_in, there
from support.console_words import candidates, in_languages
from support.http_host import WORKSPACE, Served, serving

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
LARGE_MIB, SLOW = 1, 200_000
"""So much is sent within a few seconds at so many bytes a second."""
PETS = "# House\n\n## Pets\n\nDogs are welcome. Each dog has a bowl.\n\n## Pool\n\nThe pool closes at nine.\n"
EVIL = f"# Evil <script>window.broken=1</script>\n\n{HOSTILE} A dragon lives here.\n"
MUSEUM = "\u535a\u7269\u9986"
CHINESE = (
    f"{MUSEUM}\u661f\u671f\u65e5\u514d\u8d39\u3002\u672b\u73ed\u7535\u8f66\u5348\u591c\u53d1\u8f66\u3002"
)
MARKED = "[...document.querySelectorAll('.passages mark')].map((one) => one.textContent)"
SCORES = "[...document.querySelectorAll('.passage-score b')].map((one) => Number(one.textContent))"


def dropped(files: dict[str, str | int]) -> str:
    """An expression: drop files (texts, or sizes in MiB) on the documents."""
    made = ", ".join(
        f"new File([{json.dumps(given) if isinstance(given, str) else f'new Uint8Array({given} << 20)'}],"
        f" {json.dumps(name)})"
        for name, given in files.items()
    )
    return (
        "(() => { const carried = new DataTransfer();"
        f" for (const file of [{made}]) carried.items.add(file);"
        " const target = document.querySelector('.knowledge-documents');"
        " for (const name of ['dragover', 'drop']) target.dispatchEvent("
        "new DragEvent(name, {bubbles: true, cancelable: true, dataTransfer: carried})); return true; })()"
    )


def chosen(button: str, name: str, text: str) -> str:
    """An expression: choose a file by the browser's dialog behind a button."""
    names = json.dumps(candidates(button))
    named = f"[one.ariaLabel, one.innerText.trim()].some((name) => {names}.includes(name))"
    return (
        f"(() => {{ const button = [...document.querySelectorAll('main button')].find((one) => {named});"
        " const field = button.nextElementSibling, carried = new DataTransfer();"
        f" carried.items.add(new File([{json.dumps(text)}], {json.dumps(name)}, {{type: 'text/plain'}}));"
        " field.files = carried.files;"
        " field.dispatchEvent(new Event('change', {bubbles: true})); return true; })()"
    )


def listed(name: str, state: str) -> str:
    """An expression: the list has a document, in a state."""
    named = f"(one) => one.innerText.includes({json.dumps(name)})"
    row = f"[...document.querySelectorAll('.table tbody tr')].find({named})"
    return f"({json.dumps(candidates(state))}.includes({row}?.querySelector('.status')?.innerText))"


async def find(page: Page, words: str) -> None:
    """Search, and wait for the answer."""
    await page.evaluate("document.querySelectorAll('.passages').forEach((one) => one.remove())")
    await page.evaluate("(document.querySelector('input[name=q]').value = '', true)")
    await page.type_into("input[name=q]", words)
    await click(page, "Find")
    await page.until(f"new URLSearchParams(location.search).get('q') === {json.dumps(words)}")


@in_languages("en", "zh")
async def test_a_base_from_its_first_document_to_its_removal(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, browsing() as page:
        await sign_in(served, page, "/knowledge")
        await page.until(shown("There is no knowledge base yet"))
        await click(page, "New knowledge base")
        await page.type_into("form input[name=kb_id]", "house")
        await page.type_into("form input[name=name]", "The house")
        await page.type_into("form textarea[name=description]", HOSTILE)
        await click(page, "Store")
        await page.until(f"location.pathname === '/knowledge/house' && {shown('No documents yet')}")
        await look_at_all(served, page, ["/knowledge", "/knowledge/house"], each=False)
        await page.open(f"{served.url}/knowledge/house")
        await page.until(shown("No documents yet"))

        await uploads(served, page)
        await searches(page)
        await changes(served, page)
        assert page.complaints == []


async def uploads(served: Served, page: Page) -> None:
    """By button and by drop; what cannot be taken says why, and what cannot be read, too."""
    await page.until(there("input[type=file]"))
    await page.evaluate(chosen("Upload", "pets.md", PETS))
    await page.until(f"{listed('pets.md', 'ready')}")
    # how far a large one is on its way
    await page.network(sent_per_second=SLOW)
    await page.evaluate(dropped({"large.txt": LARGE_MIB}))
    sent = "(document.querySelector('.files progress')?.value ?? 0)"
    begun = await page.until(f"{sent} > 0 && {sent}")
    assert begun < await page.evaluate("document.querySelector('.files progress').max")
    await page.until(f"{sent} > {begun}")
    await page.network()
    await page.until(f"!{there('.files progress')} && {listed('large.txt', 'failed')}")
    assert (await served.client.delete("/v1/knowledge/house/documents/large.txt")).is_success
    await page.evaluate(
        dropped({"evil <img src=x onerror=broken=1>.md": EVIL, "town.txt": CHINESE, "blank.md": " \n \n"})
    )
    await page.until(f"{listed('town.txt', 'ready')} && {listed('blank.md', 'failed')}")
    await page.evaluate(dropped({"picture.png": "x", "huge.txt": 17}))
    await page.until("document.querySelectorAll('.file.bad').length === 2")
    told = await page.evaluate("document.querySelector('.files').innerText")
    assert candidates("At most 16 MiB for each file.")[0] in told
    assert "picture.png" in told
    let_go = "document.querySelectorAll('.file.bad button:last-of-type').forEach((one) => one.click())"
    await page.evaluate(f"({let_go}, true)")
    await page.until("document.querySelectorAll('.file').length === 0")
    # what failed is found by its state, which the address keeps
    await choose(page, ".knowledge-documents select", "failed")
    rows = "document.querySelectorAll('tbody tr').length"
    await page.until(f"location.search === '?state=failed' && {rows} === 1")
    await page.evaluate(chosen("Replace: blank.md", "other name.txt", "Now it says something."))
    await page.until(shown("No document is in this state"))
    await choose(page, ".knowledge-documents select", "")
    await page.until(f"{listed('blank.md', 'ready')}")
    stored = (await served.client.get("/v1/knowledge/house/documents/blank.md")).json()
    assert (stored["state"], stored["size_bytes"]) == ("ready", 22)


async def searches(page: Page) -> None:
    await find(page, "are DOGS welcome")
    await page.until(f"{MARKED}.length > 0")
    assert set(await page.evaluate(MARKED)) >= {"welcome", "Dogs"}
    scores = await page.evaluate(SCORES)
    assert scores == sorted(scores, reverse=True)
    assert all(0 < one < 1 for one in scores)
    assert await page.evaluate(shown("House > Pets"))
    await find(page, MUSEUM)
    await page.until(f"{MARKED}.join() === '{MUSEUM}'")
    await find(page, "dragon")
    await page.until(f"{MARKED}.join() === 'dragon'")
    inert = "document.querySelector('.passages').querySelectorAll('img, script, a:not([href^=\"/\"])').length"
    assert await page.evaluate(inert) == 0
    await page.evaluate("document.querySelector('.passage-head a').click()")
    await page.until(f"document.querySelector('.document-text')?.textContent === {json.dumps(EVIL)}")
    assert await page.evaluate("document.querySelectorAll('main img, main script').length") == 0
    address = await page.evaluate("location.pathname")
    assert address.startswith("/knowledge/house/evil")
    await page.evaluate("history.back()")
    await page.until(f"{MARKED}.join() === 'dragon'")  # the address has the search
    await find(page, "submarine")
    await page.until(shown("No passage has these words."))


async def changes(served: Served, page: Page) -> None:
    # one document has another text, and its old passages are found no more
    await page.evaluate(chosen("Replace: pets.md", "pets.md", "# House\n\nCats are welcome.\n"))
    while (await served.client.get("/v1/knowledge/house/documents/pets.md")).json()["size_bytes"] != 27:
        await page.evaluate("new Promise((done) => setTimeout(done, 50))")
    await page.until(f"{listed('pets.md', 'ready')}")
    await find(page, "dogs")
    await page.until(shown("No passage has these words."))
    await look_at_all(served, page, ["/knowledge", "/knowledge/house?q=welcome", "/knowledge/house/town.txt"])
    reader = await served.key(WORKSPACE, "knowledge:read")
    await sign_in(served, page, "/knowledge/house", reader)
    await page.until(f"{listed('pets.md', 'ready')}")
    labels = "[...document.querySelectorAll('main button:not(.sort)')].map((one) => one.innerText.trim())"
    assert set(await page.evaluate(labels)) <= {*candidates("Find")}
    await sign_in(served, page, "/knowledge/house")
    await click(page, "Change")
    await page.evaluate("(document.querySelector('form input[name=passage_chars]').value = '', true)")
    await page.type_into("form input[name=passage_chars]", "300")
    await click(page, "Store")
    changing = json.dumps(", ".join(f"form[aria-label='{label}']" for label in candidates("Change")))
    await page.until(f"document.querySelector({changing}) === null")
    assert (await served.client.get("/v1/knowledge/house")).json()["passage_chars"] == 300
    await click(page, "Delete: town.txt")
    await click(page, "Delete", within="dialog")
    await page.until(f"!{shown('town.txt')} && {listed('pets.md', 'ready')}")
    await click(page, "Remove")
    await click(page, "Remove", within="dialog")
    await page.until(f"location.pathname === '/knowledge' && {shown('There is no knowledge base yet')}")
    assert (await served.client.get("/v1/knowledge/house")).status_code == 404
