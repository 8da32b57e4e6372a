"""What the console's scripts do where answers are lost, late, refused, or more than fit: in a browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.chromium import NEEDS_CHROMIUM, Page, browsing
from support.console import sign_in
from support.http_host import serving

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
TOOLS = """
window.load = (name) =>
  import(document.querySelector('script[src$="console.js"]').src.replace('console.js', name));
window.json = (value, status = 200) => new Response(JSON.stringify(value), {status});
window.sse = (text) => new Response(text, {headers: {'content-type': 'text/event-stream'}});
window.until = async (holds) => {
  for (let tries = 0; !holds(); tries++) {
    if (tries === 500) throw new Error(`never: ${holds}`);
    await new Promise((next) => setTimeout(next, 10));
  }
};
window.real = window.fetch;
window.asked = [];
/** From now on the answers are made up; what they are asked for is in `asked`. */
window.answers = (give) => {
  asked.length = 0;
  window.fetch = (to, options) => (asked.push(String(to)), give(new URL(to, location), options));
};
"""


async def run(page: Page, script: str) -> object:
    """Run the body of an async function in the page, whose answers are the host's again after it."""
    return await page.evaluate(f"(async () => {{ try {{ {script} }} finally {{ window.fetch = real; }} }})()")


async def test_requests_whose_answers_are_lost_and_streams_that_break(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, browsing() as page:
        await page.on_each_page(TOOLS)
        await page.open(f"{served.url}/")
        await page.until("document.querySelector('main') !== null")
        # the host has deleted it, and the answer got lost: it is gone, which is what was wanted
        deleted = """
            const { request } = await load('lib/api.js');
            let gone = false;
            answers(async () => {
              if (gone) return json({detail: 'there is none'}, 404);
              gone = true;
              throw new TypeError('cut off');
            });
            const first = await request('DELETE', '/v1/agents/x');
            const second = await request('DELETE', '/v1/agents/x').catch((error) => error.status);
            return [first, second];
        """
        assert await run(page, deleted) == [None, 404]
        # what names the version that it replaces is sent once: a second one would be refused by the first
        put = """
            const { request, Unreachable } = await load('lib/api.js');
            answers(async () => { throw new TypeError('cut off'); });
            const found = [];
            for (const query of [{version: 3}, {}]) {
              asked.length = 0;
              const error = await request('PUT', '/v1/agents/x', {body: {}, query}).catch((error) => error);
              found.push([error instanceof Unreachable, asked.length]);
            }
            return found;
        """
        assert await run(page, put) == [[True, 1], [True, 4]]
        # a wait leaves nothing behind, and is over at once where it is for nothing
        waits = """
            const { sleep } = await load('lib/api.js');
            const stop = new AbortController(), held = new Set();
            const { addEventListener: add, removeEventListener: remove } = stop.signal;
            stop.signal.addEventListener = (type, one) => (held.add(one), add.call(stop.signal, type, one));
            stop.signal.removeEventListener = (type, one) =>
              (held.delete(one), remove.call(stop.signal, type, one));
            for (let time = 0; time < 3; time++) await sleep(1, stop.signal);
            stop.abort();
            await sleep(1e9, stop.signal);
            return held.size;
        """
        assert await run(page, waits) == 0
        # busy, then back; what the page itself gets wrong is told, and not tried for ever
        streams = """
            const { follow } = await load('lib/api.js');
            const found = [], states = [];
            let times = 0;
            answers(async () => (++times === 1 ? json({}, 429) : sse('id: 1\\nevent: a\\ndata: {}\\n\\n')));
            const signal = new AbortController().signal;
            const state = (up) => states.push(up);
            await follow('/v1/stream', {signal, state, on: ({event}) => (found.push(event), true)});
            const error = await follow('/v1/stream', {signal, on: () => { throw new RangeError('mine'); }})
              .catch((error) => error);
            return [found, states, error.message, asked.length];
        """
        assert await run(page, streams) == [["a"], [False, True], "mine", 3]
        # the rules of one component do not reach another that has a class of the same name
        styles = """
            const { html, render } = await load('lib/html.js');
            const box = document.createElement('div');
            render(html`<div class="step"><span class="mark">from an earlier run</span></div>
              <div class="step journal-line">x</div><textarea class="code"></textarea>`, box);
            document.body.append(box);
            const [mark, line, code] = [...box.querySelectorAll('.mark, .journal-line, .code')];
            const of = (one, name) => getComputedStyle(one)[name];
            const found = [mark.offsetWidth > 60, of(line, 'maxWidth'), of(code, 'overflowY')];
            box.remove();
            return found;
        """
        assert await run(page, styles) == [True, "none", "auto"]
        # a file that is too large says what would be right
        files = """
            const { uploads } = await load('lib/uploads.js');
            const sent = uploads(), large = new File(['x'], 'large');
            Object.defineProperty(large, 'size', {value: 1e12});
            sent.add([large]);
            return sent.list.value[0].error.message;
        """
        assert str(await run(page, files)).startswith("At most ")
        # words of a search are marked as what they are: text, whole words, and neighbours in Chinese
        words = r"""
            const { highlighted } = await load('lib/highlight.js');
            const piece = (one) => (one.found ? `[${one.text}]` : one.text);
            const marked = (text, query) => highlighted(text, query).map(piece).join('');
            return [
              marked('A Dog, dogs and hot-dog <b>dog</b>', 'the DOG'), marked('a+b (c)', '+ ( c'),
              marked('none', '?!'),
              marked('\u535a\u7269\u9986\u514d\u8d39\u3002\u535a', '\u535a\u7269\u9986'),
              marked('x'.repeat(9), 'y '.repeat(9999)), marked('caf\u00e9s caf\u00e9', 'Caf\u00c9'),
            ];
        """
        assert await run(page, words) == [
            "A [Dog], dogs and hot-[dog] <b>[dog]</b>",
            "a+b ([c])",
            "none",
            "[\u535a\u7269\u9986]\u514d\u8d39\u3002\u535a",
            "x" * 9,
            "caf\u00e9s [caf\u00e9]",
        ]
        # what is busy for once stays on the page
        polls = """
            const { polled } = await load('lib/polled.js');
            let answer = 'first';
            const { Problem } = await load('lib/api.js');
            const read = async () => { if (answer instanceof Error) throw answer; return answer; };
            const one = polled(read, 1000);
            await one.again();
            answer = new Problem(503, {});
            await one.again();
            const busy = {...one.state.value};
            answer = new Problem(403, {detail: 'not yours'});
            await one.again();
            const refused = one.state.value;
            one.stop();
            return [busy.value, busy.error, busy.connected, refused.error.message];
        """
        assert await run(page, polls) == ["first", None, False, "not yours"]


async def test_lists_that_grow_faster_than_they_are_read(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, browsing() as page:
        await page.on_each_page(TOOLS)
        await page.open(f"{served.url}/")
        await page.until("document.querySelector('main') !== null")
        # a log is read once at a time, however often the page is looked at again
        log = """
            const { liveLog } = await load('lib/live_log.js');
            let open = () => {}, number = 0;
            answers(async (to) => {
              if (number++ === 1) await new Promise((go) => { open = go; });
              return json({lines: to.searchParams.get('after') ? ['b'] : ['a'], next: 'n', skipped: false});
            });
            const log = liveLog('x');
            await until(() => log.state.value.value);
            const looks = () => document.dispatchEvent(new Event('visibilitychange'));
            looks();
            await until(() => asked.length === 2);
            looks(), looks(), open();
            await until(() => log.state.value.value.lines.length > 1);
            log.stop();
            return [log.state.value.value.lines.map((line) => line.text), asked.length];
        """
        assert await run(page, log) == [["a", "b"], 2]
        # 3,000 entries at once: the list begins anew, and goes on down without a hole
        audit = """
            const { liveAudit } = await load('lib/live_audit.js');
            let newest = 100;
            const now = Date.now() / 1000;
            answers(async (to) => {
              const top = Number(to.searchParams.get('cursor') ?? newest);
              const last = Math.max(top - 100, 0);
              const items = Array.from({length: top - last}, (_, at) =>
                ({audit_id: `a${top - at}`, seq: top - at, at: now}));
              return json({items, next_cursor: last ? String(last) : null, has_more: last > 0});
            });
            const tick = setTimeout;
            window.setTimeout = (call, ms, ...rest) => tick(call, Math.min(ms ?? 0, 20), ...rest);
            try {
              const log = liveAudit({});
              await until(() => log.facts.value.length === 100);
              newest = 150;
              await until(() => log.facts.value.length === 150);
              newest = 3150;
              await until(() => log.facts.value[0].seq === 3150);
              await log.more();
              log.stop();
              const seen = log.facts.value.map((fact) => fact.seq);
              return [seen.length, seen.every((seq, at) => seq === 3150 - at), log.all.value];
            } finally { window.setTimeout = tick; }
        """
        assert await run(page, audit) == [200, True, False]
        # no match among the newest: that is said, and the reader may look further
        rare = """
            const { liveAudit } = await load('lib/live_audit.js');
            answers(async (to) => {
              const at = Number(to.searchParams.get('cursor') ?? 0);
              const items = at === 25 ? [{audit_id: 'a', seq: 1, at: 1}] : [];
              return json({items, next_cursor: at < 25 ? String(at + 1) : null, has_more: at < 25});
            });
            const log = liveAudit({actor: 'x'});
            await until(() => log.paused.value);
            const before = [log.state.value, log.all.value, log.facts.value.length];
            await log.more();
            log.stop();
            return [before, log.all.value, log.facts.value.length, log.paused.value];
        """
        assert await run(page, rare) == [["ready", False, 0], True, 1, False]
        # a search goes on where it came to, and is taken up again once the host is back
        search = """
            const { html, render } = await load('lib/html.js');
            const { useReadUpTo } = await load('lib/read_up_to.js');
            const { Problem } = await load('lib/api.js');
            const read = [], box = document.createElement('div');
            let busy = true;
            const one = async (after) => {
              if (busy) { busy = false; throw new Problem(503, {}); }
              read.push(after);
            };
            const failed = () => read.push('failed');
            const Reader = ({last, key_}) => (useReadUpTo(last, [key_], one, failed), null);
            const show = (last, key_) => render(html`<${Reader} last=${last} key_=${key_} />`, box);
            show(10, 'a');
            await until(() => read.length === 1);
            show(20, 'a');
            await until(() => read.length === 2);
            show(20, 'b');
            await until(() => read.length === 3);
            render(null, box);
            return read;
        """
        assert await run(page, search) == [0, 10, 0]


async def test_messages_are_there_once_and_files_stay_removed(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, browsing() as page:
        await page.on_each_page(TOOLS)
        await page.open(f"{served.url}/")
        await page.until("document.querySelector('main') !== null")
        messages = """
            const { Conversation } = await load('lib/conversation.js');
            const item = (number) => ({transcript_id: `t${number}`, cursor: `c${number}`, event_id: null});
            let open = null;
            answers(async (to) => {
              if (!to.pathname.endsWith('/history')) return new Promise(() => {});
              const after = to.searchParams.get('after');
              if (after === 'c1') await new Promise((go) => { open = go; });
              const items = {c1: [item(2)], c2: []}[after];
              return json({items, has_more: false, next_cursor: null, waiting: []});
            });
            const one = new Conversation('c');
            one.items.value = [item(1)];
            one._again('history');
            await until(() => open);
            one.items.value = [item(1), item(2)]; // all of it, read anew
            open();
            await until(() => !one._reading);
            one.stop();
            return one.items.value.map((found) => found.transcript_id);
        """
        assert await run(page, messages) == ["t1", "t2"]
        await sign_in(served, page, "/settings")
        files = """
            const { html, render } = await load('lib/html.js');
            const { Files } = await load('components/schema_pickers.js');
            const box = document.createElement('div'), opened = [];
            answers((to, options) => options?.method !== 'POST' ? real(to, options)
              : new Promise((go) => opened.push(() => go(json({artifact_id: 'new'})))));
            let ids = ['old', 'other'];
            const set = (next) => { ids = next; draw(); };
            const field = {kind: 'files'};
            const draw = () => render(html`<${Files} field=${field} value=${ids} set=${set} id="f" />`, box);
            draw();
            const input = box.querySelector('input[type=file]'), chosen = new DataTransfer();
            chosen.items.add(new File(['x'], 'x.txt'));
            input.files = chosen.files;
            input.dispatchEvent(new Event('change', {bubbles: true}));
            await until(() => opened.length === 1);
            box.querySelector('button').click(); // the first is removed meanwhile
            await until(() => ids.length === 1);
            opened[0]();
            await until(() => ids.includes('new'));
            return ids;
        """
        assert await run(page, files) == ["other", "new"]


async def test_of_the_calls_of_a_pause_those_are_in_doubt_that_are_named(tmp_path: Path) -> None:
    script = """
        const { Steps, isInDoubt } = await load('lib/steps.js'), made = new Steps();
        let position = 0;
        const take = (kind, type, data) =>
          made.take([{kind, type, data, position: ++position, attempt: 1, at: position}]);
        const run = {attempt: 1, status: 'running'};
        const doubted = () => made.steps.filter((step) => isInDoubt(step, run)).map((step) => step.digest);
        const found = [];
        for (const name of ['a', 'b']) {
          const params = {tool_name: `t.${name}`}, of = {call_id: name, pause_id: 'p'};
          take('intent', 'tool.call', {method: 'tool.call', params, digest: name, nth: 1, ...of});
        }
        take('decision', 'pause.needs_review', {pause_id: 'p', cause: 'the tool of another call changed'});
        found.push(doubted());
        for (const name of ['a', 'b']) {
          take('decision', 'pause.needs_review', {pause_id: 'p', calls: [{call_id: name, kind: 'in_doubt'}]});
          found.push(doubted());
        }
        return found;
    """
    async with serving(tmp_path / "data") as served, browsing() as page:
        await page.on_each_page(TOOLS)
        await page.open(f"{served.url}/")
        await page.until("document.querySelector('main') !== null")
        assert await run(page, script) == [[], ["a"], ["a", "b"]]


async def test_a_long_text_looked_at_in_pieces_is_what_it_is_as_a_whole(tmp_path: Path) -> None:
    parts = [
        "one **b** [x][ref]\n\n",
        "# H\n",
        "- a\n- b\n\n  more of b\n\n",
        "1. x\n\n   text\n\n2. y\n",
        "```js\nlet a;\n\nText at 0\n```\n",
        "~~~\n```\n\nNo end ```\n~~~\n",
        "- ```\n  in\n\n  x\n  ```\n",
        "> q\nlazy\n\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n",
        "[ref]: https://e.com/\n\n",
        "plain\nnext\n",
        "\n",
        "    code\n\n",
        "Setext\n---\n",
        "long " * 60 + "\n\n",
    ]
    script = f"""
        const {{ lex, lexing, tokensToHtml }} = await load('lib/markdown.js'), parts = {json.dumps(parts)};
        let seed = 1, pieces = 0;
        const next = () => (seed = (seed * 48271) % 2147483647) % parts.length;
        for (let number = 0; number < 60; number++) {{
          let text = '', found;
          while (text.length < 9000) text += parts[next()];
          for (const looking = lexing(text); !(found = looking.next()).done; ) pieces += 1;
          if (String(tokensToHtml(found.value)) !== String(tokensToHtml(lex(text)))) return text;
        }}
        return pieces > 60 * 4;
    """
    async with serving(tmp_path / "data") as served, browsing() as page:
        await page.on_each_page(TOOLS)
        await page.open(f"{served.url}/")
        await page.until("document.querySelector('main') !== null")
        assert await run(page, script) is True
