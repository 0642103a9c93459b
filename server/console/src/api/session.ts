// Signing in: the daemon exchanges a token for a cookie that scripts cannot read. The console never keeps a token.
import { BASE, MARK } from "./calls.ts";

/** The principal that the daemon assigns to the browser: the answer of `/console/session`. */
export interface Who {
  /** "token:ID (NAME)", "certificate:NAME", or "anyone" if no credentials are needed. */
  principal: string;
  permissions: string[];
  /** How the daemon identified the caller: "session", "certificate", "token" or "off". */
  by: string;
  /** When the session or the token ends, in milliseconds since 1970. Absent if neither ends. */
  expiresUnixMs?: number;
  authRequired: boolean;
}

/** Whether the browser may call the daemon, and as which principal. */
export type Session =
  | { state: "unknown" }
  | { state: "out" }
  | { state: "no-certificate" }
  | { state: "in"; who: Who }
  | { state: "unreachable"; message: string };

const ADDRESS = new URL("console/session", BASE);
const UNREACHABLE = `The daemon at ${BASE.href} cannot be reached.`;

/** Asks the daemon for the principal of the browser. */
export async function askSession(): Promise<Session> {
  const response = await fetch(ADDRESS, { headers: MARK }).catch(() => undefined);
  if (!response) return { state: "unreachable", message: UNREACHABLE };
  if (response.status === 401) {
    // The daemon refuses a connection without a certificate before it looks for a token, and then asks for no token.
    return { state: response.headers.has("www-authenticate") ? "out" : "no-certificate" };
  }
  if (!response.ok) return { state: "unreachable", message: await messageOf(response) };
  return { state: "in", who: await response.json() };
}

/** Exchanges a token for a cookie. Returns why it failed, or nothing. */
export async function signIn(token: string): Promise<string | undefined> {
  const response = await fetch(ADDRESS, {
    method: "POST",
    headers: { ...MARK, "content-type": "application/json" },
    body: JSON.stringify({ token }),
  }).catch(() => undefined);
  if (!response) return UNREACHABLE;
  if (response.ok) return undefined;
  // The daemon's own message is about headers.
  if (response.status === 401 && !(await reasonsOf(response.clone())).includes("CREDENTIAL_ENDED")) {
    return "The daemon does not know this token. Paste the whole token, which begins with kent_.";
  }
  return (await messageOf(response)) || "The daemon does not accept this token.";
}

/** Deletes the cookie. */
export async function signOut(): Promise<void> {
  await fetch(ADDRESS, { method: "DELETE", headers: MARK }).catch(() => undefined);
}

/** The reasons of a refusal: those of its details. */
async function reasonsOf(response: Response): Promise<string[]> {
  const { details = [] } = await response.json().catch(() => ({}));
  return details.map((detail: { debug?: { reason?: string } }) => detail.debug?.reason ?? "");
}

async function messageOf(response: Response): Promise<string> {
  const text = await response.text();
  try {
    return String(JSON.parse(text).message ?? "");
  } catch {
    return text.startsWith("<") ? "" : text.trim();
  }
}
