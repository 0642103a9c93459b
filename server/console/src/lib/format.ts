// Numbers, times and units in the reader's language.
import { exponentOf } from "./bits.ts";

/** A formatter for one locale. The default is the browser's locale. */
export class Format {
  readonly #whole: Intl.NumberFormat;
  readonly #short: Intl.NumberFormat;
  readonly #share: Intl.NumberFormat;
  readonly #moment: Intl.DateTimeFormat;
  readonly #utc: Intl.DateTimeFormat;
  readonly #clock: Intl.DateTimeFormat;
  readonly #ago: Intl.RelativeTimeFormat;
  readonly #locale: string | undefined;
  /** The separator of groups inside of a whole number. */
  readonly #separator: RegExp;

  constructor(locale?: string) {
    this.#locale = locale;
    this.#whole = new Intl.NumberFormat(locale);
    this.#short = new Intl.NumberFormat(locale, { notation: "compact", maximumSignificantDigits: 3 });
    this.#share = new Intl.NumberFormat(locale, { style: "percent", maximumSignificantDigits: 3 });
    const parts = { dateStyle: "medium", timeStyle: "medium" } as const;
    this.#moment = new Intl.DateTimeFormat(locale, parts);
    this.#utc = new Intl.DateTimeFormat(locale, { ...parts, timeZone: "UTC" });
    this.#clock = new Intl.DateTimeFormat(locale, { timeStyle: "medium" });
    this.#ago = new Intl.RelativeTimeFormat(locale, { numeric: "auto" });
    const group = `[${this.#whole.formatToParts(1e9).find(({ type }) => type === "group")?.value ?? ","}]`;
    this.#separator = new RegExp(`(?<=\\p{Nd})${group}(?=(?:\\p{Nd}{2,3}${group})*\\p{Nd}{3}(?!\\p{Nd}))`, "gu");
  }

  /** All digits, in groups. */
  whole(value: bigint | number): string {
    return isolated(this.#whole.format(value));
  }

  /** At most three digits, such as "1.2M". */
  short(value: bigint | number): string {
    return isolated(this.#short.format(value));
  }

  /** A number from 0 to 1 as a percentage. Only exactly 0 and 1 are shown as 0 % and 100 %. */
  share(share: number): string {
    if (share > 0 && share < 0.0001) return `<\u00a0${isolated(this.#share.format(0.0001))}`;
    if (share < 1 && share > 0.999) return `>\u00a0${isolated(this.#share.format(0.999))}`;
    return isolated(this.#share.format(share));
  }

  /** A count of identifiers: "2^40", or its digits if it is short or not a power of two. */
  count(value: bigint): string {
    const exponent = exponentOf(value);
    return exponent !== undefined && exponent > 13 ? `2${superscript(exponent)}` : this.whole(value);
  }

  /** A moment in the browser's time zone. */
  moment(unixMs: number): string {
    return unbroken(this.#moment, unixMs);
  }

  /** A moment in UTC. */
  utc(unixMs: number): string {
    return `${unbroken(this.#utc, unixMs)}\u00a0UTC`;
  }

  /** The time of day in the browser's time zone. */
  clock(unixMs: number): string {
    return unbroken(this.#clock, unixMs);
  }

  /** A duration in its largest unit, such as "3 days". */
  duration(seconds: number): string {
    const [unit, length] = UNITS.find(([, length]) => seconds >= length) ?? ["second", 1];
    const value = seconds / length;
    const units = new Intl.NumberFormat(this.#locale, {
      style: "unit",
      unit,
      unitDisplay: "long",
      maximumFractionDigits: value < 10 ? 1 : 0,
    });
    return isolated(units.format(Math.min(value, 1e6)));
  }

  /** A short duration that is given in microseconds, such as "1.2 ms". */
  micros(micros: number): string {
    const [unit, value] =
      micros >= 1e6
        ? (["second", micros / 1e6] as const)
        : micros >= 1000
          ? (["millisecond", micros / 1000] as const)
          : (["microsecond", micros] as const);
    const units = new Intl.NumberFormat(this.#locale, {
      style: "unit",
      unit,
      unitDisplay: "short",
      maximumSignificantDigits: 3,
    });
    return isolated(units.format(value));
  }

  /** A moment relative to now, such as "2 minutes ago". */
  ago(unixMs: number, nowMs: number): string {
    const seconds = (unixMs - nowMs) / 1000;
    const [unit, length] = UNITS.find(([, length]) => Math.abs(seconds) >= length) ?? ["second", 1];
    return isolated(this.#ago.format(Math.round(seconds / length), unit));
  }

  /** The pieces between which a text may break: after the groups of large numbers, and inside of long prefixes and
   * identifiers, which have no separators. */
  pieces(text: string): string[] {
    return text
      .replace(this.#separator, `$&${BREAK}`)
      .replace(LONG, (digits) => inGroups(digits).join(BREAK))
      .split(BREAK);
  }
}

const UNITS: [Intl.RelativeTimeFormatUnit & string, number][] = [
  ["year", 31_557_600],
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60],
];

/** The common scripts that are written from right to left, with their digits and marks. */
const RIGHT_TO_LEFT =
  /[\p{Script_Extensions=Arabic}\p{Script_Extensions=Hebrew}\p{Script_Extensions=Syriac}\p{Script_Extensions=Thaana}\p{Script_Extensions=Nko}\p{Script=Adlam}\u200f]/u;

/** Encloses a text with letters or digits of scripts that are written from right to left in Unicode's first strong
 * isolate. Otherwise the English text around it would reorder its parts, and a text such as "1 → 2" its numbers. Unlike
 * an element, this also works on a canvas. */
function isolated(text: string): string {
  return RIGHT_TO_LEFT.test(text) ? `\u2068${text}\u2069` : text;
}

/** A time that does not break before or after "PM". */
function unbroken(format: Intl.DateTimeFormat, unixMs: number): string {
  const parts = format.formatToParts(unixMs);
  const types = parts.map(({ type }) => type);
  const texts = parts.map(({ value }, at) => {
    const around = [types[at - 1], types[at + 1]];
    const isInTime = around.includes("dayPeriod") && around.some((type) => type === "hour" || type === "second");
    return isInTime ? value.replace(" ", "\u00a0") : value;
  });
  return isolated(texts.join(""));
}

/** A break between pieces of a text. */
const BREAK = "\u200b";
/** The digits of a long prefix or identifier. */
const LONG = /(?<![\p{L}\p{Nd}])\d{9,}(?![\p{L}\p{Nd}])/gu;

/** A prefix in bytes from the left, and a number in groups of three digits from the right. */
function inGroups(digits: string): string[] {
  return digits.match(/^[01]+$/.test(digits) ? /\d{1,8}/g : /\d{1,3}(?=(?:\d{3})*$)/g) ?? [];
}

/** The words of a text, and the spaces between them. An isolate is in one word. */
export function wordsOf(text: string): string[] {
  return text.match(/[^\s\u2068]*\u2068[^\u2069]*\u2069\S*|\S+|\s+/gu) ?? [];
}

/** A number in superscript digits. */
export function superscript(value: number): string {
  return String(value).replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)] ?? "");
}

/** The hint for a field with the number of suffix bits: how many identifiers a region has. */
export function capacityHint(suffix: string): string {
  return `2${/^\d{1,3}$/.test(suffix) ? superscript(Number(suffix)) : "^bits"} identifiers`;
}

/** The formatter for the browser's language. */
export const format = new Format();
