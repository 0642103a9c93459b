// The identifiers that users paste into the inspector as text, and the tables that they save from it.
import { isPrefix } from "./bits.ts";

/** The maximum number of identifiers that the inspector accepts. */
export const TEXTS_MAX = 10_000;

/** Splits pasted text at spaces, line ends, commas and semicolons, and removes quotes and brackets. */
export function splitTexts(pasted: string): string[] {
  return pasted
    .split(/[\s,;]+/)
    .map((text) => text.replace(/^["'`[(]+|["'`\])]+$/g, ""))
    .filter((text) => text !== "");
}

/** Parses a text as a number of a space of `bits` bits. Undefined if the text is not a number, or if the number is too large. */
export function numberOf(text: string, bits: number): bigint | undefined {
  const value = parse(text, bits);
  return value !== undefined && value < 1n << BigInt(bits) ? value : undefined;
}

function parse(text: string, bits: number): bigint | undefined {
  if (/^\d[\d_]*$/.test(text)) return BigInt(text.replaceAll("_", ""));
  if (/^0x[\da-f]+$/i.test(text)) return BigInt(text);
  if (/^0b[01]+$/.test(text) && isPrefix(text.slice(2))) return BigInt(text);
  if (bits === 128 && /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(text))
    return BigInt(`0x${text.replaceAll("-", "")}`);
  return undefined;
}

/** A table as CSV (RFC 4180). A cell that a spreadsheet would read as a formula gets a leading apostrophe. */
export function toCsv(rows: readonly (readonly string[])[]): string {
  return rows.map((row) => `${row.map(toCell).join(",")}\r\n`).join("");
}

function toCell(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
