// How long there is still time, counting down.
import { html, useEffect, useState } from "../lib/html.js";
import { duration, moment } from "../lib/format.js";
import { t } from "../lib/i18n.js";

const URGENT_SECONDS = 300;
const BY_SECONDS = 600;

/** @param {{at: number}} props UTC epoch seconds */
export function Until({ at }) {
  const [now, setNow] = useState(Date.now() / 1000);
  const left = at - now;
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), left < BY_SECONDS ? 1000 : 15_000);
    return () => clearInterval(timer);
  }, [left < BY_SECONDS]);
  const text = left <= 0 ? t("until.over") : t("until.left", { time: rounded(left) });
  return html`<time class=${left < URGENT_SECONDS ? "until urgent" : "until"} dateTime=${new Date(at * 1000).toISOString()} title=${moment(at)}>${text}</time>`;
}

/** @param {number} left */
const rounded = (left) => (left >= 2 * 86400 ? t("until.days", { count: Math.floor(left / 86400) }) : left < 60 ? `${Math.floor(left)} s` : duration(Math.floor(left)));
