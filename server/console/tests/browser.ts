// A browser for the tests: Debian's Chromium, with screenshots and the accessibility checks of axe.
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { expect } from "vitest";

const SCREENS = join(import.meta.dirname, "../../../target/console/screens");
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Starts the browser. */
export function startBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
}

/** The theme of a page and the width of its viewport. */
export interface Look {
  theme: "light" | "dark";
  width: 1280 | 360;
}

/** Every combination of theme and width. */
export const LOOKS: Look[] = [
  { theme: "light", width: 1280 },
  { theme: "dark", width: 1280 },
  { theme: "light", width: 360 },
  { theme: "dark", width: 360 },
];

/** Opens a page in a new browser context. Collects script errors and violations of the content security policy in
 * `errors`. */
export async function open(
  browser: Browser,
  look: Look = { theme: "light", width: 1280 },
  more: BrowserContextOptions = {},
): Promise<{ page: Page; context: BrowserContext; errors: string[] }> {
  const context = await browser.newContext({
    viewport: { width: look.width, height: look.width === 360 ? 740 : 900 },
    colorScheme: look.theme,
    locale: "en-US",
    timezoneId: "Europe/Berlin",
    reducedMotion: "reduce",
    // The tests check that the page obeys its content security policy.
    bypassCSP: false,
    ...more,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" && /Content Security Policy|Refused to/.test(message.text()))
      errors.push(message.text());
  });
  return { page, context, errors };
}

/** Takes a screenshot of the whole page. */
export async function shoot(page: Page, name: string, { theme, width }: Look): Promise<void> {
  mkdirSync(SCREENS, { recursive: true });
  await page.screenshot({ path: join(SCREENS, `${name}-${theme}-${width}.png`), fullPage: true });
}

/** Expects that axe finds nothing, and that the page does not scroll sideways. */
export async function expectAccessible(page: Page, where: string): Promise<void> {
  // The debugger evaluates axe, so the content security policy does not block it.
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const axe = (
      globalThis as unknown as {
        axe: {
          run: (
            options: object,
          ) => Promise<{ violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }>;
        };
      }
    ).axe;
    const { violations } = await axe.run({ resultTypes: ["violations"] });
    return violations.flatMap(({ id, nodes }) =>
      nodes.map(({ html, failureSummary }) => `${id}: ${html.slice(0, 200)} ${failureSummary}`),
    );
  });
  expect(found, where).toEqual([]);
  const tooWide = await page.evaluate(
    () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
  );
  expect(tooWide, `${where} scrolls sideways`).toBeLessThanOrEqual(0);
}
