// One channel: how its connection stands, and its entry; or a new one.
import { html, useEffect, useState } from "../lib/html.js";
import { get, path } from "../lib/api.js";
import { choices } from "../lib/choices.js";
import { moment, number } from "../lib/format.js";
import { said, t } from "../lib/i18n.js";
import { usePolled } from "../lib/polled.js";
import { address, go } from "../lib/router.js";
import { may } from "../lib/session.js";
import { channelFields, moreChannelFields } from "../lib/source_fields.js";
import { ChannelState, restart } from "./channels.js";
import { CopyButton } from "./copy_button.js";
import { PolledStates } from "./polled_states.js";
import { SourceEntry } from "./source_entry.js";
import { SourceEvents } from "./source_events.js";
import { Loading } from "./states.js";
import { Ago } from "./time.js";

/** @param {{name: string}} props without a name: a new one */
export const ChannelPage = ({ name }) => (name ? html`<${One} name=${name} />` : html`
  <h2 class="thing"><a class="back" href="/channels" aria-label=${t("channels.back")}>←</a> ${t("source.new.channels")}</h2>
  <p class="dim">${t("channels.help")}</p>
  <${Entry} done=${(/** @type {string} */ made) => go(address("channels", made), { replace: true })} />
`);

/** @param {{name: string}} props */
function One({ name }) {
  const polled = usePolled((signal) => get(path("channels", name), {}, signal), [name]), channel = polled.value;
  const done = (/** @type {string | null} */ kept) => (kept === null ? go("/channels") : polled.again());
  return html`
    <h2 class="thing"><a class="back" href="/channels" aria-label=${t("channels.back")}>←</a> <bdi>${name}</bdi> ${channel && html`<${ChannelState} of=${channel} />`}
      ${channel && may("installation") && html`<span class="actions"><button onClick=${() => restart(name).then(polled.again)}>${t("channels.restart")}</button></span>`}</h2>
    <${PolledStates} of=${polled} quiet=${true} />
    ${channel && html`
      ${channel.reason && html`<div class="failure in-place"><p dir="auto">${channel.reason}</p></div>`}
      <dl class="facts card">
        <dt>${t("source.field.channel")}</dt><dd><code>${channel.channel}</code></dd>
        ${channel.account && html`<dt>${t("channels.account")}</dt><dd><bdi>${channel.account_name ?? ""}</bdi> <code>${channel.account}</code></dd>`}
        <dt>${t("runs.agent")}</dt><dd>${channel.agent ? html`<a href=${address("agents", channel.agent)}><bdi>${channel.agent}</bdi></a>` : t("schedules.any_agent")}</dd>
        ${channel.webhook && html`<dt>${t("channels.webhook")}</dt><dd><code>${channel.webhook}</code> <${CopyButton} text=${channel.webhook} label=${t("hooks.copy")} /></dd>`}
        ${channel.opened_at && html`<dt>${t("channels.opened")}</dt><dd>${moment(channel.opened_at)}</dd>`}
        ${channel.last_event_at && html`<dt>${t("channels.last")}</dt><dd><${Ago} at=${channel.last_event_at} /></dd>`}
        <dt>${t("channels.received")}</dt><dd>${number(channel.received)}${channel.ignored > 0 && html` <span class="dim">${t("channels.ignored", { count: channel.ignored })}</span>`}</dd>
        ${may("admin") && html`<dt>${t("messages.title")}</dt><dd><a href=${`/channels?${new URLSearchParams({ channel: name })}`}>${t("channels.to_messages")}</a></dd>`}
      </dl>
      <${SourceEvents} of=${`channel:${name}`} />
      ${may("installation") ? html`<${Entry} name=${name} done=${done} />` : html`<p class="dim">${t("channels.entry_right")}</p>`}`}
  `;
}

/** @param {{name?: string, done: (name: any) => void}} props */
function Entry({ name, done }) {
  const [known, setKnown] = useState(/** @type {any[] | null} */ (null)), [reads, setReads] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    get("/v1/catalogue", {}, abort.signal).then((found) => setKnown(found.channels), () => abort.signal.aborted || setKnown((before) => before ?? []));
    return () => abort.abort();
  }, [reads]);
  if (known === null) return html`<${Loading} />`;
  const fields = (/** @type {any} */ entry) => {
    const options = known.map((one) => ({ value: one.channel, label: `${said(one.label) || one.channel} — ${one.channel}` }));
    const chosen = known.find((one) => one.channel === entry.channel);
    if (entry.channel && !chosen) options.push({ value: entry.channel, label: entry.channel });
    return channelFields(choices("agents").map((one) => one.value), options, entry.channel ? chosen?.config_schema ?? null : []);
  };
  // a plugin that was looked at for an entry has a form from then on
  return html`<${SourceEntry} kind="channels" name=${name} fields=${fields} more=${moreChannelFields} done=${done} refused=${() => setReads(reads + 1)} />`;
}
