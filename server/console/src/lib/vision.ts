// For the palette's test: the contrast of colors, and how they look with each kind of color blindness.

/** Red, green and blue in linear light, from 0 to 1. */
export type Rgb = readonly [number, number, number];

/** Full color vision, or a kind of color blindness. */
export type Sight = "full" | "protanopia" | "deuteranopia" | "tritanopia";

// Machado, Oliveira and Fernandes: A Physiologically-based Model for Simulation of Color Vision Deficiency (2009), severity 1.
const SIGHTS: Record<Sight, readonly (readonly [number, number, number])[]> = {
  full: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritanopia: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};

/** Reads "#rrggbb". */
export function parseColor(text: string): Rgb {
  const value = Number.parseInt(text.slice(1), 16);
  return [linear((value >> 16) & 255), linear((value >> 8) & 255), linear(value & 255)];
}

function linear(byte: number): number {
  const share = byte / 255;
  return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
}

/** The color as a person with this kind of color vision sees it. */
export function seen([r, g, b]: Rgb, sight: Sight): Rgb {
  const [x, y, z] = SIGHTS[sight].map(([fr, fg, fb]) => Math.min(1, Math.max(0, fr * r + fg * g + fb * b)));
  return [x ?? 0, y ?? 0, z ?? 0];
}

/** The contrast ratio of WCAG 2, from 1 to 21. */
export function contrast(a: Rgb, b: Rgb): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

function luminance([r, g, b]: Rgb): number {
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** The distance between two colors in OKLab. A distance of 0.02 is just visible. */
export function difference(a: Rgb, b: Rgb): number {
  const [left, right] = [oklab(a), oklab(b)];
  return Math.hypot(...left.map((value, index) => value - (right[index] ?? 0)));
}

function oklab([r, g, b]: Rgb): number[] {
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}
