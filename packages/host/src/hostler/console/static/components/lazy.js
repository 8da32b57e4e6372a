// A component whose module is loaded when it is first shown.
import { html, useEffect, useState } from "../lib/html.js";
import { Failure, Loading } from "./states.js";

/** @param {() => Promise<any>} load returns the component @returns {(props: any) => any} */
export function lazy(load) {
  /** @type {any} */
  let found = null;
  return (props) => {
    const [state, setState] = useState(/** @type {unknown} */ (found ? "there" : null));
    useEffect(() => {
      if (!found) load().then((/** @type {any} */ made) => ((found = made), setState("there")), (error) => setState(error));
    }, []);
    if (found) return html`<${found} ...${props} />`;
    return state === null ? html`<${Loading} />` : html`<${Failure} error=${state} retry=${() => location.reload()} />`;
  };
}
