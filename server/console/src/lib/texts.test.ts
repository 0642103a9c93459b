import { describe, expect, test } from "vitest";
import { numberOf, splitTexts, toCsv } from "./texts.ts";

describe("texts", () => {
  test("ok_pasted_texts_are_split", () => {
    expect(splitTexts(' 1\n2,"3";\t[4, 5]\r\n')).toEqual(["1", "2", "3", "4", "5"]);
    expect(splitTexts(" \n")).toEqual([]);
    expect(splitTexts("7 ".repeat(10_000))).toHaveLength(10_000);
  });

  test.each([
    ["9007199254740993", 64, 2n ** 53n + 1n],
    ["18446744073709551615", 64, 2n ** 64n - 1n],
    ["18446744073709551616", 64, undefined],
    ["0xff", 8, 255n],
    ["0x100", 8, undefined],
    ["0b101", 8, 5n],
    ["1_000", 64, 1000n],
    ["017f22e2-79b0-7cc3-98c4-dc0c0c07398f", 128, 0x017f22e279b07cc398c4dc0c0c07398fn],
    ["017f22e2-79b0-7cc3-98c4-dc0c0c07398f", 64, undefined],
    ["orders", 64, undefined],
    ["-1", 64, undefined],
  ])("ok_%s_in_%i_bits", (text, bits, value) => expect(numberOf(text, bits)).toBe(value));

  test("ok_csv_quotes_and_disarms", () => {
    expect(
      toCsv([
        ["a", 'say "x"', "1,5"],
        ["=1+1", "", "b\nc"],
      ]),
    ).toBe('a,"say ""x""","1,5"\r\n\'=1+1,,"b\nc"\r\n');
  });
});
