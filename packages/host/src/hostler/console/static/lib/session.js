// Who has signed in at this browser.
import { signal } from "./html.js";
import { Problem, credentials, get, post, request } from "./api.js";

/**
 * @typedef {{session_id: string, subject: string, name: string, email: string | null, workspace_id: string,
 *   member_id: string | null, key_id: string | null, role: string | null, rights: string[], groups: string[],
 *   csrf_token: string, expires_at: number,
 *   workspaces: {workspace_id: string, member_id: string, role: string}[]}} Session
 */

/** Undefined until it is known; null: nobody. */
export const session = signal(/** @type {Session | null | undefined} */ (undefined));

/** @param {Session | null} found */
function set(found) {
  credentials.csrf = found ? found.csrf_token : "";
  session.value = found;
}

credentials.over = () => set(null);

/** Find out who has signed in; a code in the address (`#sign-in=CODE`) signs in first. */
export async function begin() {
  const code = new URLSearchParams(location.hash.slice(1)).get("sign-in");
  if (code) {
    history.replaceState(history.state, "", location.pathname + location.search);
    try {
      return set(await signInWith({ code }));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      // the link was used before: who has signed in already goes on
      refused.value = error.message;
    }
  }
  try {
    set(await request("GET", "/v1/auth/session", { quiet: true }));
    refused.value = "";
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    set(null);
  }
}

/** Why a link did not sign in. */
export const refused = signal("");

/** @param {{key?: string, code?: string}} by @returns {Promise<Session>} */
const signInWith = (by) => request("POST", "/v1/auth/session", { body: by, quiet: true });

/** @param {string} key */
export const signIn = async (key) => set(await signInWith({ key }));

/** End the session here, and where the identity provider says. */
export async function signOut() {
  const answer = await post("/v1/auth/sign-out", {});
  set(null);
  if (answer?.url) location.assign(answer.url);
}

/** @param {string} workspace_id */
export const enter = async (workspace_id) => set(await post("/v1/auth/workspace", { workspace_id }));

/** @returns {Promise<string[]>} */
export const providers = async () =>
  (await get("/v1/auth/providers")).items.map((/** @type {{name: string}} */ one) => one.name);

/**
 * Whether the session has a right, or a wider one.
 * @param {string} right
 */
export function may(right) {
  const rights = session.value?.rights ?? [];
  if (rights.includes("installation") || rights.includes(right)) return true;
  return right !== "installation" && rights.includes("admin");
}
