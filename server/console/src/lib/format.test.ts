import { describe, expect, test } from "vitest";
import { capacityHint, Format, superscript, wordsOf } from "./format.ts";

describe("format", () => {
  const [en, de] = [new Format("en-US"), new Format("de-DE")];

  test("ok_large_numbers_keep_every_digit", () => {
    expect(en.whole(2n ** 53n + 1n)).toBe("9,007,199,254,740,993");
    expect(de.whole(2n ** 53n + 1n)).toBe("9.007.199.254.740.993");
    expect(en.whole(2n ** 128n)).toBe("340,282,366,920,938,463,463,374,607,431,768,211,456");
  });

  test.each([
    [1n << 40n, "2⁴⁰"],
    [(1n << 40n) + 1n, "1,099,511,627,777"],
    [1024n, "1,024"],
    [0n, "0"],
  ])("ok_count_%s", (value, text) => expect(en.count(value)).toBe(text));

  test.each([
    [0, "0%"],
    [0.00000001, "<\u00a00.01%"],
    [0.1234567, "12.3%"],
    [0.99999, ">\u00a099.9%"],
    [1, "100%"],
  ])("ok_share_%d", (share, text) => expect(en.share(share)).toBe(text));

  test.each([
    [0.4, "0.4 seconds"],
    [90, "1.5 minutes"],
    [86_400 * 12, "12 days"],
    [31_557_600 * 3, "3 years"],
    [1e300, "1,000,000 years"],
  ])("ok_duration_%d", (seconds, text) => expect(en.duration(seconds)).toBe(text));

  test("ok_times_by_locale", () => {
    expect(en.utc(1645557742000)).toMatch(/Feb 22, 2022, 7:22:22\sPM\sUTC/);
    expect(de.utc(1645557742000)).toBe("22.02.2022, 19:22:22\u00a0UTC");
    expect(en.ago(0, 120_000)).toBe("2 minutes ago");
    expect(en.micros(1234)).toBe("1.23 ms");
    expect(de.micros(12.5)).toBe("12,5 μs");
    expect(superscript(108)).toBe("¹⁰⁸");
    expect([capacityHint("32"), capacityHint("x")]).toEqual(["2³² identifiers", "2^bits identifiers"]);
    expect(en.short(1_234_567n)).toBe("1.23M");
  });

  test("ok_times_do_not_break_before_pm", () => {
    for (const text of [en.clock(1645557742000), en.moment(1645557742000), en.utc(1645557742000)])
      expect(text).toMatch(/\d[\u00a0\u202f][AP]M/);
    expect(new Format("ko-KR").moment(1645557742000)).toMatch(/22\. \S+\u00a0\d/);
    expect(de.clock(1645557742000)).toMatch(/^\d\d:22:22$/);
  });

  test("ok_texts_in_arabic_are_isolated", () => {
    const ar = new Format("ar-EG");
    const numbers = [ar.whole(1000), ar.whole(-5), ar.share(0.6342), ar.count(20n), ar.short(1_234_567n)];
    for (const text of [...numbers, ar.micros(1234), ar.duration(90), ar.ago(0, 120_000), ar.moment(0), ar.clock(0)])
      expect(text).toMatch(/^\u2068[^\u2068]+\u2069$/);
    expect(ar.whole(20)).toBe("\u2068٢٠\u2069");
    expect(ar.share(0.00001)).toMatch(/^<\u00a0\u2068[^\u2068]+\u2069$/);
    expect(ar.utc(0)).toMatch(/^\u2068.*\u2069\u00a0UTC$/);
    expect(new Format("hi-IN").whole(1_048_576)).toBe("10,48,576");
  });

  test("ok_an_isolate_is_in_one_word", () => {
    expect(wordsOf("at most 1,024/s")).toEqual(["at", " ", "most", " ", "1,024/s"]);
    expect(wordsOf("a (\u2068١٬٠٠٠ سنة\u2069), b")).toEqual(["a", " ", "(\u2068١٬٠٠٠ سنة\u2069),", " ", "b"]);
    expect(wordsOf("")).toEqual([]);
  });

  test.each([
    ["en-US", "38,523,835,895,104 (9.97%)", ["38,", "523,", "835,", "895,", "104 (9.97%)"]],
    ["de-DE", "38.523.835 am 26.11.2026, 9,975 %", ["38.", "523.", "835 am 26.11.2026, 9,975 %"]],
    ["hi-IN", "10,48,576", ["10,", "48,", "576"]],
    ["ar-EG", "\u2068١٬٠٤٨٬٥٧٦\u2069", ["\u2068١٬", "٠٤٨٬", "٥٧٦\u2069"]],
    ["en-US", "prefix 0110100110010110101", ["prefix 01101001", "10010110", "101"]],
    ["en-US", "12970366926827028480", ["12", "970", "366", "926", "827", "028", "480"]],
    ["en-US", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f", ["017f22e2-79b0-7cc3-98c4-dc0c0c07398f"]],
    ["en-US", "Nov 26, 2026", ["Nov 26, 2026"]],
  ])("ok_in_%s_%j_breaks_into_%j", (locale, text, pieces) => expect(new Format(locale).pieces(text)).toEqual(pieces));
});
