// The texts that people paste into the inspector, and tables that they take out of it.
import { isPrefix } from "./bits.ts";

/** The most texts that the inspector takes. */
export const TEXTS_MAX = 10_000;

/** The texts in what was pasted: separated by spaces, lines, commas or semicolons, with or without quotes. */
export function splitTexts(pasted: string): string[] {
  return pasted
    .split(/[\s,;]+/)
    .map((text) => text.replace(/^["'`[(]+|["'`\])]+$/g, ""))
    .filter((text) => text !== "");
}

/** The number that a text is in a space of `bits` bits. Undefined if it is none, or too large. */
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

/** A table as CSV (RFC 4180). A cell that a spreadsheet would read as a formula gets an apostrophe. */
export function toCsv(rows: readonly (readonly string[])[]): string {
  return rows.map((row) => `${row.map(toCell).join(",")}\r\n`).join("");
}

function toCell(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
