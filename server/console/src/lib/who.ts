// The user in words.
import type { Who } from "../api/session.ts";
import { format } from "./format.ts";

/** The end of the sign-in in words. The daemon does not say when a certificate expires. */
export function endOf({ authRequired, by, expiresUnixMs }: Who): string {
  if (!authRequired) return "This daemon requires no credentials: anyone who can reach it may do anything.";
  if (by === "certificate") return "signed in by certificate";
  return expiresUnixMs === undefined
    ? "the sign-in does not expire"
    : `signed in until ${format.moment(expiresUnixMs)}`;
}
