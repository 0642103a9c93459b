// What pages follow live: the edits of tables, and the metrics that the daemon sends each second. All tabs of the
// browser share one stream: shared.ts.
import { ConnectError } from "@connectrpc/connect";
import type { FiguresOfSecond, WatchConsoleResponse } from "../gen/kent/v1/admin_pb.ts";
import { spaceName } from "../lib/names.ts";
import { BASE, SIGNED_OUT, watchConsole } from "./calls.ts";
import { type Refused, refusedBy } from "./refused.ts";
import { FIGURES, type News, Shared, type Wanted } from "./shared.ts";

const NAME = `kent ${BASE.pathname}`;

const shared = new Shared({
  name: NAME,
  // Pages without TLS from another machine have no locks, although the types say otherwise.
  shared: navigator.locks && { locks: navigator.locks, channel: new BroadcastChannel(NAME) },
  open,
  isHidden: () => document.hidden,
  signedOut: () => dispatchEvent(new Event(SIGNED_OUT)),
});
document.addEventListener("visibilitychange", () => shared.look());

/** Follows the daemon's metrics until the returned function is called: the last 15 minutes, oldest first, then each new
 * second. */
export function hearFigures(
  seconds: (seconds: FiguresOfSecond[]) => void,
  failed: (refused: Refused) => void,
): () => void {
  return shared.hear({ topic: FIGURES, seconds, failed });
}

/** Follows the revisions of a space's table until the returned function is called. */
export function hearRevisions(space: string, revised: (revision: bigint) => void): () => void {
  return shared.hear({ topic: spaceName(space), revised });
}

/** Ends what all tabs hear as the user who has signed out. */
export function endLive(): void {
  shared.signedOut();
}

async function* open({ figures, tables }: Wanted, signal: AbortSignal): AsyncIterable<News> {
  const request = {
    ...(figures === undefined ? {} : { figures: { afterUnixSeconds: figures } }),
    tables: tables.map(({ parent, after }) => (after === undefined ? { parent } : { parent, afterRevision: after })),
  };
  for await (const response of watchConsole(request, { signal })) {
    const news = newsOf(response);
    if (news) yield news;
  }
}

function newsOf({ event }: WatchConsoleResponse): News | undefined {
  switch (event.case) {
    case "seconds":
      return { is: "seconds", seconds: event.value.seconds };
    case "begin":
      return { is: "begin", parent: event.value.parent, revision: event.value.revision };
    case "edit": {
      const { parent, entry } = event.value;
      return entry && { is: "edit", parent, revision: entry.revision };
    }
    case "refused": {
      const { topic, status } = event.value;
      const error = new ConnectError(status?.message ?? "", status?.code);
      error.details = (status?.details ?? []).map(({ typeUrl, value }) => ({
        type: typeUrl.replace(/^.*\//, ""),
        value,
      }));
      return { is: "refused", topic: topic.case === "parent" ? topic.value : FIGURES, refused: refusedBy(error) };
    }
    default:
      return undefined;
  }
}
