// Prefixes as zeros and ones, and numbers of up to 128 bits. Every identifier and every counter is a bigint or a string: a
// JavaScript number holds only 53 bits.

/** Zeros and ones, the most significant bit first. The empty prefix is the whole space. */
export type Prefix = string;

/** Whether a string is a prefix. */
export function isPrefix(text: string): boolean {
  return /^[01]*$/.test(text);
}

/** The width of the identifiers of a region in bits, unless the region is closed. It is computed from the region,
 * because a caller that may read only some regions may not ask for the space. */
export function widthOf(region: { prefix: Prefix; zoneBits: number; suffixBits: number }): number {
  return region.prefix.length + region.zoneBits + region.suffixBits;
}

/** The first identifier with the prefix, in a space of `bits` bits. */
export function firstOf(prefix: Prefix, bits: number): bigint {
  return BigInt(`0b0${prefix}`) << BigInt(bits - prefix.length);
}

/** The last identifier with the prefix, in a space of `bits` bits. */
export function lastOf(prefix: Prefix, bits: number): bigint {
  return firstOf(prefix, bits) + (1n << BigInt(bits - prefix.length)) - 1n;
}

/** The identifier as zeros and ones, `bits` long. */
export function bitsOf(identifier: bigint, bits: number): Prefix {
  return identifier.toString(2).padStart(bits, "0");
}

/** The prefix with its last bit removed. */
export function parentOf(prefix: Prefix): Prefix {
  return prefix.slice(0, -1);
}

/** The longest common prefix. */
export function commonOf(a: Prefix, b: Prefix): Prefix {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length++;
  return a.slice(0, length);
}

/** An unsigned integer of up to 128 bits, as in kent.v1.Uint128. */
export interface Wide {
  high: bigint;
  low: bigint;
}

const LOW = (1n << 64n) - 1n;

/** Splits a number of up to 128 bits. */
export function toWide(value: bigint): Wide {
  return { high: value >> 64n, low: value & LOW };
}

/** Joins the halves of a number of up to 128 bits. Returns 0 if the number is absent. */
export function fromWide(wide: Wide | undefined): bigint {
  return wide ? (wide.high << 64n) | wide.low : 0n;
}

/** The exponent, if the number is a power of two. */
export function exponentOf(value: bigint): number | undefined {
  const digits = value.toString(2);
  return /^10*$/.test(digits) ? digits.length - 1 : undefined;
}

/** `part / whole`, from 0 to 1. The numbers can exceed 2^53. Only nothing has the share 0, and only all has 1. */
export function shareOf(part: bigint, whole: bigint): number {
  if (part <= 0n || whole <= 0n) return 0;
  return part >= whole ? 1 : Math.min(Number(part) / Number(whole), 1 - Number.EPSILON);
}
