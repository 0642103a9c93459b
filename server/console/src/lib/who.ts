// The user in words.
import type { Who } from "../api/session.ts";
import { format } from "./format.ts";

/** The end of the sign-in in words. */
export function endOf({ authRequired, by, expiresUnixMs }: Who): string {
  if (!authRequired) return "This daemon requires no credentials: anyone who can reach it may do anything.";
  if (expiresUnixMs === undefined) return "the sign-in does not expire";
  const how = by === "certificate" ? "signed in by certificate" : "signed in";
  return `${how} until ${format.moment(expiresUnixMs)}`;
}
