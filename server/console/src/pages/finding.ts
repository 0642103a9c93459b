// Asks the daemon about identifiers.
import { codec, regions } from "../api/calls.ts";
import { refusedBy } from "../api/refused.ts";
import type { Inspection } from "../gen/kent/v1/codec_pb.ts";
import { type Classification, Classification_Status } from "../gen/kent/v1/regions_pb.ts";
import { fromWide, toWide } from "../lib/bits.ts";
import { shortOf, spaceName } from "../lib/names.ts";
import { numberOf } from "../lib/texts.ts";

/** An identifier, and what the daemon knows about it. */
export interface Finding {
  index: number;
  text: string;
  inspection?: Inspection;
  /** The reason that the identifier has no known format. */
  refused?: string;
  /** Its region, if it is a number of the space. */
  classification?: Classification;
  /** Its suffix in the region, with all digits. */
  suffix: string;
  /** The slot that issued it, if it is an identifier of a time-based format. */
  slot?: string;
}

const INSPECTED_AT_ONCE = 1000;
const SLOT = "kent_slot";

/** Asks for formats and regions. If one of the two requests fails, `notes` has its error message. */
export async function inspect(
  texts: readonly string[],
  space: string,
  signal: AbortSignal,
): Promise<{ findings: Finding[]; notes: string[] }> {
  const findings: Finding[] = texts.map((text, index) => ({ index, text, suffix: "" }));
  const outcomes = await Promise.allSettled([decode(findings, signal), classify(findings, space, signal)]);
  const failures = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason] : []));
  if (failures.length === outcomes.length) throw failures[0];
  return { findings, notes: failures.map((failure) => refusedBy(failure).message) };
}

async function decode(findings: Finding[], signal: AbortSignal): Promise<void> {
  for (let from = 0; from < findings.length; from += INSPECTED_AT_ONCE) {
    const part = findings.slice(from, from + INSPECTED_AT_ONCE);
    const { results } = await codec.inspect({ texts: part.map(({ text }) => text) }, { signal });
    part.forEach((finding, index) => {
      const outcome = results[index]?.outcome;
      if (outcome?.case === "inspection") {
        finding.inspection = outcome.value;
        const slot = outcome.value.fields.find(({ name }) => name === SLOT);
        if (slot) finding.slot = slot.value;
      } else if (outcome?.case === "refused") {
        finding.refused = outcome.value.message;
      }
    });
  }
}

async function classify(findings: Finding[], space: string, signal: AbortSignal): Promise<void> {
  const parent = spaceName(space);
  const { bits } = await regions.getSpace({ name: parent }, { signal });
  const numbers = findings.flatMap((finding) => {
    const value = numberOf(finding.text, bits);
    return value === undefined ? [] : [{ finding, value }];
  });
  if (numbers.length === 0) return;
  const identifiers = numbers.map(({ value }) => toWide(value));
  const { classifications } = await regions.classify({ parent, identifiers }, { signal });
  numbers.forEach(({ finding }, index) => {
    const classification = classifications[index];
    if (!classification) return;
    finding.classification = classification;
    finding.suffix = fromWide(classification.suffix).toString();
  });
}

/** The path of an identifier's region, or "free". */
export function ownerOf({ classification }: Finding): string {
  if (!classification) return "";
  const path = classification.path.map(shortOf).join(" › ");
  switch (classification.status) {
    case Classification_Status.MEMBER:
      return path;
    case Classification_Status.FREE:
      return "free";
    case Classification_Status.RESERVED:
      return `${path} (zone)`;
    default:
      return path;
  }
}

/** The columns of the CSV. */
export const CSV_HEAD = ["identifier", "format", "time", "slot", "region", "suffix", "issued", "problem"];

/** An identifier as a row of the CSV. */
export function toRow(finding: Finding): string[] {
  const { text, inspection, classification, refused, suffix, slot } = finding;
  const isMember = classification?.status === Classification_Status.MEMBER;
  return [
    text,
    inspection?.format ?? "",
    inspection?.time ?? "",
    slot ?? "",
    ownerOf(finding),
    isMember ? suffix : "",
    isMember ? String(classification.issued) : "",
    inspection || classification ? "" : (refused ?? ""),
  ];
}
