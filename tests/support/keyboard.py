"""A page of the console as somebody without a mouse finds it."""

from __future__ import annotations

import json
from typing import Any

from support.chromium import Page

MOST_TABS = 250
_WATCH = r"""(() => {
  document.activeElement?.blur();
  const within = (one) => one.closest('dialog[open]') ?? document.body;
  const scope = document.querySelector('dialog[open]') ?? document.body;
  const named = (one) => [one.tagName.toLowerCase(), one.ariaLabel || one.innerText?.trim().slice(0, 40)
    || one.name || one.id || one.className].join(' ');
  const group = (one) => one.type === 'radio' && one.name
    && [...scope.querySelectorAll('input[type=radio]')].filter((each) => each.name === one.name);
  const stops = [...scope.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')]
    .filter((one) => !one.matches(':disabled') && one.tabIndex >= 0 && !one.closest('[inert]')
      && one.checkVisibility({visibilityProperty: true}) && one.getClientRects().length > 0)
    .filter((one) => !group(one) || one === (group(one).find((each) => each.checked) ?? group(one)[0]));
  const box = (one) => { const at = one.getBoundingClientRect();
    return [at.left + scrollX, at.top + scrollY, at.right + scrollX, at.bottom + scrollY].map(Math.round); };
  const native = 'a[href], button, input, select, textarea, summary';
  const deaf = [...scope.querySelectorAll('*')].filter((one) =>
    one.checkVisibility() && !one.matches(':disabled') && (one.matches(native) ? one.tabIndex < 0
      : one.__e?.onClick && one.tabIndex < 0 && !one.closest('label') && !one.querySelector(native)));
  const watch = {
    deaf: deaf.map(named), listens: [...scope.querySelectorAll('*')].some((one) => one.__e?.onClick),
    stops: stops.map((one) => ({one, name: named(one), box: box(one)})),
    reached: [], unseen: [], outside: [],
  };
  const frame = (style) => ['outlineStyle', 'outlineWidth', 'outlineColor', 'boxShadow', 'borderColor',
    'backgroundColor'].map((name) => style[name]).join(' ');
  const around = ['form', 'label', '.chips'];
  const shell = (one) => [one, ...around.map((name) => one.closest(name))].filter(Boolean);
  const rest = new Map(stops.map((one) => [one, shell(one).map((each) => frame(getComputedStyle(each)))]));
  const sees = (one) => {
    let [left, top, right, bottom] = (({left, top, right, bottom}) => [left, top, right, bottom])
      (one.getClientRects()[0] ?? one.getBoundingClientRect());
    [left, right] = [Math.max(left, 0), Math.min(right, innerWidth)];
    [top, bottom] = [Math.max(top, 0), Math.min(bottom, innerHeight)];
    const points = [[.5, .5], [.1, .2], [.9, .8], [.1, .8], [.9, .2]];
    return right > left && bottom > top && points.some(([x, y]) => {
      const found = document.elementFromPoint(left + x * (right - left), top + y * (bottom - top));
      return found && (one.contains(found) || found.contains(one) || one.labels?.[0]?.contains(found));
    });
  };
  let first = false;
  document.addEventListener('focusin', (event) => {
    const one = event.target;
    watch.reached.push(one);
    first = sees(one);
    if (within(one) !== scope) watch.outside.push(named(one));
    const before = rest.get(one);
    const style = getComputedStyle(one);
    const outlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
    const now = shell(one).map((each) => frame(getComputedStyle(each)));
    if (!outlined && before && now.join() === before.join()) watch.unseen.push(`not marked: ${named(one)}`);
  });
  // some are seen only once they are scrolled to, and others only while they have the focus
  document.addEventListener('focusout', ({target: one}) => {
    if (!one.isConnected) return;
    if (!first && !sees(one)) watch.unseen.push(`not to be seen: ${named(one)}`);
  });
  window.keyboard = watch;
})()"""
"""A script: what Tab should reach, in the order of the document, and from now on what it does reach."""
_START = """(() => {
  const start = document.createElement('button');
  (document.querySelector('dialog[open]') ?? document.body).prepend(start);
  start.focus();
  start.remove();
})()"""
_FOUND = r"""(() => {
  const {stops, reached, unseen, outside, deaf} = window.keyboard;
  const there = stops.filter(({one}) => one.isConnected);
  const places = new Map(reached.map((one, at) => [one, at]).reverse());
  const missed = there.filter(({one}) => !places.has(one)).map(({name}) => name);
  const disorder = [];
  const met = there.filter(({one}) => places.has(one));
  for (let at = 1; at < met.length; at += 1) {
    const [before, after] = [met[at - 1], met[at]];
    if (places.get(after.one) < places.get(before.one))
      disorder.push(`${after.name} comes before ${before.name}`);
    // what is above, or to the left in the same line, is read before; another column may begin above
    const [left, top, right, bottom] = before.box, next = after.box;
    const above = next[3] <= top && next[0] < right;
    const beside = next[2] <= left && next[3] > top && next[1] < bottom && next[1] >= top - 4;
    if (above || beside) disorder.push(`${after.name} stands ${above ? 'above' : 'left of'} ${before.name}`);
  }
  return JSON.stringify({deaf, missed, disorder, unseen: [...new Set(unseen)], outside: [...new Set(outside)],
    count: reached.length});
})()"""


async def by_tab(page: Page) -> dict[str, Any]:
    """Go through the page (or its open dialog) with the Tab key, from its beginning to its end.

    What is `deaf` to keys though it does something when it is clicked, what was `missed`, what came in
    another order than that in which it is read (`disorder`), where the focus was not seen (`unseen`), and in
    a dialog, what lay outside of it (`outside`); and how many stops there were (`count`).
    """
    await page.evaluate(_WATCH)
    assert await page.evaluate("window.keyboard.listens"), "where Preact keeps what listens is known no more"
    stops = await page.evaluate("window.keyboard.stops.length")
    await page.evaluate(_START)
    await page.press("Tab", stops)
    if await page.evaluate("document.querySelector('dialog[open]') !== null"):
        for _ in range(2):  # round, and on
            await page.press("Tab")
    else:
        await _to_the_end(page)
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    found: dict[str, Any] = json.loads(await page.evaluate(_FOUND))
    return found


async def _to_the_end(page: Page) -> None:
    """What can be scrolled is reached too."""
    for _ in range(MOST_TABS):
        if await page.evaluate("document.activeElement === document.body"):
            return
        await page.press("Tab")
    raise AssertionError("the Tab key does not come to an end of the page")
