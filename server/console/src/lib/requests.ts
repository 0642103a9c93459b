// Requests for regions: their names and states in words, and who can do what.
import { type RegionRequest, RegionRequest_State } from "../gen/kent/v1/regions_pb.ts";
import { format } from "./format.ts";

/** The number of a request, from its resource name. */
export function idOf({ name }: RegionRequest): string {
  return name.slice(name.lastIndexOf("/") + 1);
}

/** The state of a request in a word, and the kind of its mark. */
export function stateOf({ state }: RegionRequest): { word: string; kind: "good" | "warn" | "plain" } {
  switch (state) {
    case RegionRequest_State.OPEN:
      return { word: "open", kind: "warn" };
    case RegionRequest_State.MADE:
      return { word: "made", kind: "good" };
    case RegionRequest_State.DECLINED:
      return { word: "declined", kind: "plain" };
    case RegionRequest_State.WITHDRAWN:
      return { word: "withdrawn", kind: "plain" };
    default:
      return { word: "unknown", kind: "plain" };
  }
}

/** Whether a request waits for an answer. */
export function isOpen({ state }: RegionRequest): boolean {
  return state === RegionRequest_State.OPEN;
}

/** The label of the link to the list. It contains the number of requests that the user can answer, if there are any. */
export function labelOf(open: readonly RegionRequest[]): string {
  const count = open.filter(({ decidable }) => decidable).length;
  return count === 0 ? "Requests" : `Requests (${format.whole(count)})`;
}

/** The default reason for an edit that answers the request. */
export function reasonOf(request: RegionRequest): string {
  return `request ${idOf(request)}: ${request.reason}`.slice(0, 1000);
}
