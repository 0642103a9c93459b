import { describe, expect, test } from "vitest";
import { bitsOf, commonOf, exponentOf, firstOf, fromWide, lastOf, parentOf, shareOf, toWide, widthOf } from "./bits.ts";

describe("bits", () => {
  test.each([
    ["", 64, 0n, (1n << 64n) - 1n],
    ["1", 64, 1n << 63n, (1n << 64n) - 1n],
    ["101101", 64, 12970366926827028480n, 13258597302978740223n],
    ["0101", 4, 5n, 5n],
    ["1", 128, 1n << 127n, (1n << 128n) - 1n],
  ])("ok_prefix_%s_of_%i_bits_has_its_range", (prefix, bits, first, last) => {
    expect([firstOf(prefix, bits), lastOf(prefix, bits)]).toEqual([first, last]);
    expect(commonOf(bitsOf(first, bits), bitsOf(last, bits)).startsWith(prefix)).toBe(true);
  });

  test("ok_the_width_of_a_region_is_that_of_its_space", () => {
    expect(widthOf({ prefix: "1101", zoneBits: 20, suffixBits: 40 })).toBe(64);
    expect(widthOf({ prefix: "", zoneBits: 0, suffixBits: 128 })).toBe(128);
  });

  test.each([0n, 1n, 2n ** 53n + 1n, 2n ** 64n - 1n, 2n ** 64n, 2n ** 128n - 1n])(
    "ok_%s_survives_the_wire_form",
    (value) => {
      const { high, low } = toWide(value);
      expect(high < 1n << 64n && low < 1n << 64n).toBe(true);
      expect(fromWide({ high, low })).toBe(value);
    },
  );

  test("ok_the_number_after_the_largest_exact_one_keeps_its_last_digit", () => {
    expect(Number(9007199254740993n)).toBe(9007199254740992);
    expect(BigInt("9007199254740993")).toBe(2n ** 53n + 1n);
    expect(bitsOf(2n ** 53n + 1n, 64).endsWith("1")).toBe(true);
    expect(fromWide(toWide(2n ** 53n + 1n)).toString()).toBe("9007199254740993");
  });

  test("ok_shares_exponents_and_parents", () => {
    expect(shareOf(1n << 99n, 1n << 100n)).toBe(0.5);
    expect(shareOf(1n, 0n)).toBe(0);
    expect(shareOf(0n, 8n)).toBe(0);
    expect(shareOf(8n, 8n)).toBe(1);
    expect(shareOf(1015n, 1n << 40n)).toBeCloseTo(9.2e-10, 11);
    expect(shareOf(1n, 1n << 128n)).toBeGreaterThan(0);
    expect(shareOf((1n << 100n) - 1n, 1n << 100n)).toBeLessThan(1);
    expect([1n, 2n, 3n, 1n << 128n].map(exponentOf)).toEqual([0, 1, undefined, 128]);
    expect(exponentOf(0n)).toBeUndefined();
    expect(parentOf("101")).toBe("10");
    expect(fromWide(undefined)).toBe(0n);
  });
});
