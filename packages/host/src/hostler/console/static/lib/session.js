// Who has signed in at this browser.
import { signal } from "./html.js";
import { Problem, credentials, get, isPassing, post, request } from "./api.js";

/**
 * @typedef {{session_id: string, subject: string, name: string, email: string | null, workspace_id: string,
 *   member_id: string | null, key_id: string | null, role: string | null, rights: string[], groups: string[],
 *   csrf_token: string, expires_at: number,
 *   workspaces: {workspace_id: string, member_id: string, role: string}[]}} Session
 */

/** Undefined until it is known; null: nobody. */
export const session = signal(/** @type {Session | null | undefined} */ (undefined));

/** The person and the workspace that what this browser keeps belongs to. */
export const owner = () => `${session.value?.workspace_id} ${session.value?.subject}`;

/** The session that this page is of, and whether the page is about to go. */
let own = "", leaving = false;

/** Load the page anew, so that nothing that its modules have in memory is shown to somebody else. @param {string} [to] */
function leave(to) {
  leaving = true;
  if (to) location.assign(to);
  else location.reload();
}

/** @param {Session | null} found */
function set(found) {
  if (leaving) return;
  const name = found ? `${found.session_id} ${found.workspace_id}` : own;
  if (own && name !== own) return leave();
  own = name;
  credentials.csrf = found ? found.csrf_token : "";
  session.value = found;
}

credentials.over = () => set(null);

/** Of the address, until the host has said whether it signs in. */
let code = "";

/**
 * Find out who has signed in; a code in the address (`#sign-in=CODE`) signs in first. Throws where the host does not
 * say: it can be called again.
 */
export async function begin() {
  const given = new URLSearchParams(location.hash.slice(1)).get("sign-in");
  if (given) {
    code = given;
    history.replaceState(history.state, "", location.pathname + location.search);
  }
  if (code) {
    try {
      set(await signInWith({ code }));
      code = "";
      return;
    } catch (error) {
      if (!(error instanceof Problem) || isPassing(error)) throw error;
      // the link was used before: who has signed in already goes on
      code = "";
      refused.value = error.message;
    }
  }
  try {
    set(await request("GET", "/v1/auth/session", { quiet: true }));
    refused.value = "";
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 401) throw error;
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
  leave(answer?.url);
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
