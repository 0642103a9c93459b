// The regions of several spaces that will be full first.
import type { Region } from "../gen/kent/v1/regions_pb.ts";
import { shareOf } from "./bits.ts";

/** A region, and how much of it is issued. */
export interface Filled {
  region: Region;
  /** The issued share of the identifiers that the region may issue without an expansion, from 0 to 1. */
  share: number;
}

/** The regions that will be full first: those that will be full within a year, then those with the largest issued share. */
export function mostUrgent(regions: readonly Region[], most: number): Filled[] {
  const filled = regions.map((region) => ({ region, share: shareOf(BigInt(region.issued), limitOf(region)) }));
  return filled.sort(byUrgency).slice(0, most);
}

/** The outcomes that succeeded: a user sees the spaces that the user may read. If none succeeded, throws the reason. */
export function succeeded<T>(outcomes: readonly PromiseSettledResult<T>[]): T[] {
  const values = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
  const failed = outcomes.find(({ status }) => status === "rejected") as PromiseRejectedResult | undefined;
  if (values.length === 0 && failed) throw failed.reason;
  return values;
}

/** The number of identifiers that a region may issue: its capacity, or its cap if that is smaller. */
function limitOf({ capacity, policy }: Region): bigint {
  const whole = BigInt(capacity);
  const cap = policy?.cap ? BigInt(policy.cap) : whole;
  return cap < whole ? cap : whole;
}

/** The time in seconds beyond which a forecast says less than the issued share, as in the daemon. */
const FAR = 365 * 86_400;

function byUrgency(a: Filled, b: Filled): number {
  const left = ({ region }: Filled) => Math.min(region.fullInSeconds ?? FAR, FAR);
  return left(a) === left(b) ? b.share - a.share : left(a) - left(b);
}
