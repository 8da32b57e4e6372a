// On another page the focus is at its heading: a screen reader says where one is, and Tab goes on from there.

const INPUTS = ["pointerdown", "keydown"];
const heading = () => /** @type {HTMLElement | null} */ (document.querySelector("main h1"));
let stop = () => {};

/** Whether something within the page has the focus, such as its first field. @param {Element | null} one */
const isWithin = (one) => one !== null && one.id !== "main" && one.closest("main") !== null;

/** Whether nothing has the focus. @param {Element | null} one */
const isLost = (one) => one === null || one === document.body || one.id === "main";

/**
 * Before another page is shown: once it is there, its heading gets the focus, unless the page itself gives it to something or the
 * reader goes on. `link`: the address of the link that had the focus there before; it has it again once it is there.
 * @param {string | null} [link]
 */
export function focusNext(link = null) {
  stop();
  const before = document.activeElement, old = heading(), text = old?.textContent;
  /** @type {HTMLElement | null} */
  let reached = null;
  const look = () => {
    const now = document.activeElement;
    if (isWithin(now) && now !== reached) return now === before ? undefined : stop();
    const again = link && document.querySelector(`main a[href="${CSS.escape(link)}"]`);
    if (again instanceof HTMLElement) {
      stop();
      return again.focus({ preventScroll: true });
    }
    const title = heading();
    if (!title || title === reached || (title === old && title.textContent === text && !isLost(now))) return;
    reached = title;
    title.tabIndex = -1;
    title.focus({ preventScroll: true });
    if (!link) stop();
  };
  const changes = new MutationObserver(look);
  stop = () => {
    changes.disconnect();
    for (const name of INPUTS) removeEventListener(name, stop, true);
    stop = () => {};
  };
  changes.observe(document.body, { childList: true, subtree: true, characterData: true });
  for (const name of INPUTS) addEventListener(name, stop, true);
}
