// The console in a real browser, on a real daemon.
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectAccessible, LOOKS, open, shoot, startBrowser } from "./browser.ts";
import { Daemon, Nginx } from "./daemon.ts";

let browser: Browser;
let daemon: Daemon;
let guarded: Daemon;

beforeAll(async () => {
  browser = await startBrowser();
  daemon = await Daemon.start();
  guarded = await Daemon.start("--auth", "required");
  for (const one of [daemon, guarded]) fill(one);
  askFor(daemon);
});

afterAll(async () => {
  await browser?.close();
  await daemon?.stop();
  await guarded?.stop();
});

/** Makes a table with everything that a map can show. */
function fill(one: Daemon) {
  const region = (...args: string[]) => one.kent("region", ...args, "--yes");
  region("create", "orders", "--prefix", "101101", "--suffix", "40", "--reason", "the shop opens");
  region("expand", "orders", "--by", "4", "--reason", "more orders than we thought");
  region("create", "events", "--prefix", "0000000000000001", "--suffix", "12");
  region("create", "team-a-parts", "--prefix", "0001", "--suffix", "30", "--reason", "a catalog for team A");
  region("create", "world", "--prefix", "11", "--suffix", "40");
  region("subdivide", "world", "--by", "2", "--new", "emea:30", "--new", "apac:30");
  region("create", "bolts", "--prefix", "011", "--suffix", "20");
  region("delegate", "bolts");
  region("create", "archive", "--prefix", "010", "--suffix", "50");
  one.kent("alloc", "region:archive", "-n", "3");
  region("seal", "archive", "--reason", "the audit of the year");
  one.kent("alloc", "region:events", "-n", "3000");
}

/** Asks for two regions, one of them with every field that a request can have. */
function askFor(one: Daemon) {
  const ask = (...args: string[]) => one.kent("region", "ask", ...args);
  ask("team-d-returns", "--suffix", "24", "--reason", "returned parcels");
  const more = ["--zone", "8", "--owner", "team-d", "--label", "env=prod"];
  ask("team-d-parts", "--suffix", "32", ...more, "--reason", "The catalog of the new shop needs numbers of its own.");
}

const at = (one: Daemon, hash: string) => `${one.http}/console/#/${hash}`;

async function signIn(page: Page, one: Daemon, token: string) {
  await page.goto(at(one, ""));
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
}

/** The number of streams that a daemon has open. */
async function watchers(one: Daemon): Promise<number> {
  const metrics = await (await fetch(`${one.http}/metrics`)).text();
  return Number(/^kent_watchers (\d+)$/m.exec(metrics)?.[1]);
}

/** Notes from now on what the tabs of a browser tell each other. */
async function noteWhatTabsSay(page: Page): Promise<void> {
  await page.evaluate(() => {
    const said: string[] = [];
    Object.assign(globalThis, { said });
    new BroadcastChannel("kent /").onmessage = ({ data }) => said.push(`${data.is} ${data.parent ?? ""}`.trim());
  });
}

async function expectSaid(page: Page, what: string): Promise<void> {
  await page.waitForFunction((what) => (globalThis as unknown as { said: string[] }).said.includes(what), what);
}

/** Fills in the form of a split, waits for its preview, and gives a reason. */
async function planSplit(page: Page, name: string, reason: string) {
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("By how many bits").fill("2");
  await dialog.getByLabel("Name").fill(name);
  await dialog.getByLabel("Suffix bits").fill("20");
  await dialog.getByLabel("Reason").fill(reason);
  await dialog.getByText("Before, revision").waitFor();
  return dialog;
}

describe("the console", () => {
  test("ok_a_daemon_without_credentials_needs_no_sign_in", async () => {
    const { page, context, errors } = await open(browser);
    await page.goto(at(daemon, ""));
    await page.getByText("no sign-in needed").waitFor();
    await page.getByRole("heading", { name: "Live" }).waitFor();
    await page.getByText("ready", { exact: true }).waitFor();
    expect(errors).toEqual([]);
    await context.close();
  });

  test("ok_a_region_is_created_from_the_map", async () => {
    const { page, context, errors } = await open(browser);
    await page.goto(at(daemon, "map/default"));
    const map = page.getByRole("application");
    await map.focus();
    const create = page.getByRole("button", { name: "Create a region here" });
    for (let step = 0; step < 40 && !(await create.isVisible()); step++) {
      await page.keyboard.press("ArrowRight");
      await page.waitForTimeout(50);
    }
    await create.click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("returns");
    await dialog.getByLabel("Suffix bits").fill("16");
    await dialog.getByLabel("Reason").fill("returned goods");
    await dialog.getByText("not there yet").waitFor();
    await dialog.getByRole("button", { name: "Create", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    await page.getByText(/as a table/).click();
    await page.getByRole("button", { name: "returns" }).waitFor();
    expect(daemon.kent("region", "history", "returns")).toContain("returned goods");
    expect(errors).toEqual([]);
    await context.close();
  });

  test("ok_the_map_zooms_by_keyboard_on_what_is_picked", async () => {
    const { page, context, errors } = await open(browser);
    await page.goto(at(daemon, "map/default?pick=1101"));
    const details = page.getByRole("region", { name: "Details" });
    await details.getByRole("link", { name: "emea" }).waitFor();
    await page.getByRole("application").focus();
    const path = page.getByRole("navigation", { name: "Zoom" });
    for (const [key, name] of [
      ["+", "1"],
      ["+", "world"],
      ["Enter", "emea"],
      ["-", "110"],
      ["Backspace", "world"],
    ] as const) {
      await page.keyboard.press(key);
      await path.getByText(name, { exact: true }).and(path.locator("[aria-current]")).waitFor();
      expect(page.url()).toContain("pick=1101");
      await details.getByRole("link", { name: "emea" }).waitFor();
    }
    expect(errors).toEqual([]);
    await context.close();
  });

  test("ok_a_region_that_is_split_on_the_map_stays_selected", async () => {
    const { page, context, errors } = await open(browser);
    daemon.kent("region", "create", "gadgets", "--prefix", "1000", "--suffix", "30", "--yes");
    await page.goto(at(daemon, "map/default?pick=1000"));
    const details = page.getByRole("region", { name: "Details" });
    const split = details.getByRole("button", { name: "Split" });
    await split.click();
    const dialog = await planSplit(page, "spare-parts", "spare parts need a separate region");
    await dialog.getByRole("button", { name: "Split", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    await details.getByText("100000", { exact: true }).waitFor();
    await details.getByRole("link", { name: "gadgets" }).waitFor();
    await split.and(page.locator(":focus")).waitFor();
    expect(errors).toEqual([]);
    await context.close();
  });

  test("ok_a_sealed_region_is_marked_among_the_fullest", async () => {
    const { page, context, errors } = await open(browser);
    await page.goto(at(daemon, "live"));
    const rows = page.getByRole("table", { name: "Fullest regions" }).getByRole("row");
    await rows.filter({ hasText: "archive" }).getByText("sealed", { exact: true }).waitFor();
    const events = rows.filter({ hasText: "events" });
    await events.waitFor();
    expect(await events.textContent()).not.toContain("sealed");
    expect(errors).toEqual([]);
    await context.close();
  });

  test("ok_a_split_is_previewed_and_another_browser_sees_it", async () => {
    const [one, other] = [await open(browser), await open(browser)];
    await other.page.goto(at(daemon, "region/default/team-a-parts"));
    await other.page.getByText("0001", { exact: true }).first().waitFor();
    await one.page.goto(at(daemon, "region/default/team-a-parts"));
    await one.page.getByRole("button", { name: "Split" }).click();
    const dialog = await planSplit(one.page, "team-a-tools", "tools need a separate region");
    expect(await dialog.getByRole("img", { name: "prefix 0001, zone of 30 bits, suffix of 30 bits" }).count()).toBe(1);
    expect(await dialog.getByRole("img", { name: "prefix 000100, zone of 28 bits, suffix of 30 bits" }).count()).toBe(
      1,
    );
    expect(daemon.kent("region", "show", "team-a-parts")).not.toContain("000100");
    await dialog.getByRole("button", { name: "Split", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    await other.page.getByText("000100", { exact: true }).first().waitFor();
    await other.page.goto(at(daemon, "region/default/team-a-parts?tab=history"));
    await other.page.getByText("tools need a separate region").waitFor();
    expect([...one.errors, ...other.errors]).toEqual([]);
    await one.context.close();
    await other.context.close();
  });

  test("ok_a_split_by_keyboard_alone", async () => {
    const { page, context } = await open(browser);
    await page.goto(at(daemon, "region/default/orders"));
    await page.getByRole("button", { name: "Split" }).waitFor();
    const press = async (key: string, times = 1) => {
      for (let count = 0; count < times; count++) await page.keyboard.press(key);
    };
    /** Presses Tab until an element with this name has the focus. */
    const tabTo = async (name: RegExp) => {
      for (let step = 0; step < 60; step++) {
        await press("Tab");
        const focused = await page.evaluate(() => {
          const element = document.activeElement as HTMLInputElement | null;
          return element?.labels?.[0]?.textContent ?? element?.textContent ?? "";
        });
        if (name.test(focused)) return;
      }
      throw new Error(`Tab does not reach ${name}`);
    };
    await tabTo(/^Split$/);
    await press("Enter");
    await page.getByRole("dialog").waitFor();
    const focused = await page.evaluate(() => (document.activeElement as HTMLInputElement).labels?.[0]?.textContent);
    expect(focused).toBe("By how many bits");
    await tabTo(/^Name$/);
    await page.keyboard.type("orders-eu");
    await tabTo(/^Reason$/);
    await page.keyboard.type("a shop for Europe");
    await page.getByText("Before, revision").waitFor();
    await page.waitForFunction(
      () => !document.querySelector<HTMLButtonElement>("dialog button[type=submit]")?.disabled,
    );
    await tabTo(/^Split$/);
    await press("Enter");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.waitForFunction(() => document.activeElement?.textContent === "Split");
    expect(daemon.kent("region", "show", "orders-eu")).toContain("orders-eu");
    await context.close();
  });

  test("ok_identifiers_are_inspected_and_saved", async () => {
    const { page, context, errors } = await open(browser);
    await page.goto(at(daemon, "inspect"));
    await page.getByLabel("Identifiers").fill("017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
    await page.getByRole("button", { name: "Inspect" }).click();
    await page.getByRole("heading", { name: "uuidv7" }).waitFor();
    await page.getByText("2022-02-22T19:22:22.000Z").first().waitFor();
    await page.getByText(/Feb 22, 2022, 8:22:22/).waitFor();
    expect(page.url()).toContain("ids=017f22e2");
    const numbers = Array.from({ length: 1500 }, (_, index) => String(281474976710656n + BigInt(index)));
    await page.getByLabel("Identifiers").fill(numbers.join("\n"));
    await page.getByRole("button", { name: "Inspect 1,500" }).click();
    await page.getByRole("cell", { name: "events" }).first().waitFor();
    const [saved] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Save as CSV" }).click(),
    ]);
    const stream = await saved.createReadStream();
    let csv = "";
    for await (const chunk of stream) csv += chunk;
    expect(csv.trimEnd().split("\r\n")).toHaveLength(1501);
    expect(csv).toContain("281474976710656,");
    expect(errors).toEqual([]);
    await context.close();
  });

  test("ok_the_number_after_the_largest_exact_one_keeps_its_last_digit", async () => {
    const { page, context } = await open(browser);
    await page.goto(at(daemon, "inspect?ids=9007199254740993"));
    await page.getByText("in no region").waitFor();
    expect(await page.getByText("9007199254740993").count()).toBeGreaterThan(0);
    expect(await page.getByText("9007199254740992").count()).toBe(0);
    await context.close();
  });

  test("ok_the_slider_shows_the_past", async () => {
    const { page, context } = await open(browser);
    await page.goto(at(daemon, "map/default"));
    const slider = page.getByRole("slider", { name: "Revision of the table" });
    await slider.waitFor();
    await page.waitForFunction(() => document.querySelector<HTMLInputElement>("input[type=range]")?.disabled === false);
    await slider.focus();
    await page.keyboard.press("Home");
    await page.getByText("the shop opens").waitFor();
    expect(page.url()).toContain("at=1");
    await page.getByText(/^The 7 cells|^The \d+ cells/).click();
    // Until the earlier map has arrived, the page shows the current one.
    await page.getByRole("button", { name: "orders" }).first().waitFor();
    await page.getByRole("button", { name: "world" }).first().waitFor({ state: "hidden" });
    await page.getByRole("button", { name: "Back to now" }).click();
    await page.waitForFunction(() => !location.hash.includes("at="));
    await context.close();
  });

  test("err_a_refusal_shows_the_rule_and_a_legal_edit", async () => {
    const { page, context } = await open(browser);
    await page.goto(at(daemon, "region/default/events"));
    await page.getByRole("button", { name: "Expand" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("By how many bits").fill("60");
    await dialog.getByText("ZONE_TOO_SMALL").waitFor();
    await dialog.getByLabel("Reason").fill("much more");
    expect(await dialog.getByRole("button", { name: "Expand", exact: true }).isDisabled()).toBe(true);
    await shoot(page, "refusal", { theme: "light", width: 1280 });
    await dialog.getByRole("button", { name: "Instead: expand events by 36" }).click();
    await dialog.getByText("Before, revision").waitFor();
    expect(await dialog.getByRole("button", { name: "Expand", exact: true }).isEnabled()).toBe(true);
    await context.close();
  });

  test("err_without_a_token_there_is_only_the_sign_in", async () => {
    const { page, context, errors } = await open(browser);
    await page.goto(at(guarded, "map/default"));
    await page.getByRole("heading", { name: "Sign in to Kent" }).waitFor();
    await page.getByLabel("Token").fill("kent_000000000000_wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.locator(".field-problem").waitFor();
    expect(errors).toEqual([]);
    await context.close();
  });

  test("ok_a_token_signs_in_and_out", async () => {
    const { page, context } = await open(browser);
    await signIn(page, guarded, guarded.token("ann", "admin:*"));
    await page.getByRole("heading", { name: "Live" }).waitFor();
    await page.getByRole("button", { name: "ann" }).click();
    await page.getByText(/signed in until/).waitFor();
    const [cookie] = await context.cookies();
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: "Strict" });
    expect(
      await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.cookie),
    ).not.toContain("kent_");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in to Kent" }).waitFor();
    await page.reload();
    await page.getByRole("heading", { name: "Sign in to Kent" }).waitFor();
    await context.close();
  });

  test("ok_a_certificate_signs_in_and_its_end_is_shown", async () => {
    const { daemon: secured, certificate } = await Daemon.startWithTls();
    const name = "spiffe://example/ann";
    secured.kent("role", "set", "operators", "--allow", "admin:*", "--certificate", name);
    for (const look of LOOKS) {
      const { page, context, errors } = await open(browser, look, { ignoreHTTPSErrors: true });
      await page.goto(at(secured, "live"));
      await page.getByText("This daemon needs a client certificate").waitFor();
      await shoot(page, "no-certificate", look);
      await expectAccessible(page, "no-certificate");
      expect(errors).toEqual([]);
      await context.close();
    }
    const clientCertificates = [{ origin: secured.http, ...certificate(name) }];
    const ann = await open(browser, LOOKS[0], { ignoreHTTPSErrors: true, clientCertificates });
    await ann.page.goto(at(secured, "live"));
    await ann.page.getByRole("button", { name }).click();
    await ann.page.getByText(/signed in by certificate until/).waitFor();
    await ann.context.close();
    await secured.stop();
  });

  test("err_a_token_of_another_team_is_offered_no_edits", async () => {
    const { page, context } = await open(browser);
    await signIn(
      page,
      guarded,
      guarded.token("team-a", "read:region:default/team-a-*", "edit:region:default/team-a-*"),
    );
    await page.goto(at(guarded, "region/default/team-a-parts"));
    await page.getByRole("button", { name: "Split" }).waitFor();
    await page.goto(at(guarded, "region/default/orders"));
    await page.getByRole("alert").waitFor();
    expect(await page.getByRole("button", { name: "Split" }).count()).toBe(0);
    await context.close();
  });

  test("ok_a_team_creates_a_region_with_a_name_of_its_own", async () => {
    const { page, context } = await open(browser);
    await signIn(
      page,
      guarded,
      guarded.token("team-e", "read:region:default/team-e-*", "edit:region:default/team-e-*"),
    );
    await page.goto(at(guarded, "map/default"));
    await page.getByRole("button", { name: "Ask for a region" }).waitFor();
    await page.getByRole("button", { name: "Create a region", exact: true }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("You may create only names like team-e-…").waitFor();
    await dialog.getByLabel("Name").fill("orders-e");
    await dialog.getByRole("alert").waitFor();
    await dialog.getByLabel("Name").fill("team-e-parts");
    await dialog.getByLabel("Suffix bits").fill("8");
    await dialog.getByLabel("Reason").fill("parts of team E");
    await dialog.getByText("not there yet").waitFor();
    await dialog.getByRole("button", { name: "Create", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    expect(guarded.kent("region", "history", "team-e-parts")).toContain("parts of team E");
    await context.close();
  });

  test("err_who_has_no_permission_for_regions_is_not_offered_to_ask", async () => {
    const { page, context } = await open(browser);
    await signIn(page, guarded, guarded.token("clock", "allocate:uuidv7"));
    await page.getByText(/lacks the permission read:region:default/).waitFor();
    expect(await page.getByText("No region has issued identifiers yet").count()).toBe(0);
    await page.goto(at(guarded, "map/default"));
    await page.getByText("You may not see this").waitFor();
    expect(await page.getByRole("button", { name: /Ask|Create/ }).count()).toBe(0);
    await page.goto(at(guarded, "requests/default"));
    await page.getByText("You may not see this").waitFor();
    expect(await page.getByRole("button", { name: /Ask|Create/ }).count()).toBe(0);
    await context.close();
  });

  test("ok_a_team_asks_for_a_region_and_an_operator_makes_it", async () => {
    const [asker, operator] = [await open(browser), await open(browser)];
    await signIn(asker.page, guarded, guarded.token("team-b", "read:region:default/team-b-*"));
    await asker.page.goto(at(guarded, "map/default"));
    await asker.page.getByRole("button", { name: "Ask for a region" }).click();
    const asks = asker.page.getByRole("dialog");
    await asks.getByLabel("Name").fill("team-b-tools");
    await asks.getByLabel("Suffix bits").fill("20");
    await asks.getByLabel("Reason").fill("team B has tools, too");
    await asks.getByRole("button", { name: "Ask", exact: true }).click();
    await asks.waitFor({ state: "detached" });
    await asker.page.getByRole("link", { name: "Requests", exact: true }).click();
    await asker.page.getByText("team B has tools, too").waitFor();
    expect(await asker.page.getByRole("button", { name: /Preview and make|Decline/ }).count()).toBe(0);

    await signIn(operator.page, guarded, guarded.token("olga", "admin:*"));
    await operator.page.getByRole("link", { name: "Requests (1)" }).click();
    await operator.page.getByRole("button", { name: "Preview and make team-b-tools" }).click();
    const creates = operator.page.getByRole("dialog");
    expect(await creates.getByLabel("Name").inputValue()).toBe("team-b-tools");
    expect(await creates.getByLabel("Suffix bits").inputValue()).toBe("20");
    expect(await creates.getByLabel("Reason").inputValue()).toMatch(/^request \d+: team B has tools, too$/);
    await creates.getByText("not there yet").waitFor();
    await creates.getByRole("button", { name: "Create", exact: true }).click();
    await creates.waitFor({ state: "detached" });
    await operator.page.getByText("No open requests").waitFor();
    await operator.page.getByRole("link", { name: "Requests", exact: true }).waitFor();

    await asker.page.getByLabel("Include closed requests").check();
    await asker.page.getByText("made", { exact: true }).waitFor();
    await asker.page.getByRole("link", { name: "team-b-tools" }).click();
    await asker.page.getByText("Last identifier").waitFor();
    expect([...asker.errors, ...operator.errors]).toEqual([]);
    await asker.context.close();
    await operator.context.close();
  });

  test("ok_a_request_is_declined_with_a_reason_and_another_one_withdrawn", async () => {
    const [asker, operator] = [await open(browser), await open(browser)];
    await signIn(asker.page, guarded, guarded.token("team-c", "read:region:default/team-c-*"));
    await asker.page.goto(at(guarded, "requests/default"));
    await asker.page.getByText("No open requests").waitFor();
    for (const name of ["team-c-one", "team-c-two"]) {
      await asker.page.getByRole("button", { name: "Ask for a region" }).click();
      const asks = asker.page.getByRole("dialog");
      await asks.getByLabel("Name").fill(name);
      await asks.getByLabel("Reason").fill(`${name} is needed`);
      await asker.page.keyboard.press("Enter");
      await asks.waitFor({ state: "detached" });
    }
    await asker.page.getByRole("button", { name: "Withdraw team-c-two" }).click();
    await asker.page.getByRole("dialog").getByRole("button", { name: "Withdraw", exact: true }).click();
    await asker.page.getByText("team-c-two is needed").waitFor({ state: "detached" });

    await signIn(operator.page, guarded, guarded.token("otto", "edit:space:default", "read:space:default"));
    await operator.page.goto(at(guarded, "requests/default"));
    await operator.page.getByRole("button", { name: "Decline team-c-one" }).click();
    const declines = operator.page.getByRole("dialog");
    expect(await declines.getByRole("button", { name: "Decline", exact: true }).isDisabled()).toBe(true);
    await declines.getByLabel("Reason").fill("use team-c-parts");
    await declines.getByRole("button", { name: "Decline", exact: true }).click();
    await declines.waitFor({ state: "detached" });
    await asker.page.getByLabel("Include closed requests").check();
    await asker.page.getByText("declined", { exact: true }).waitFor();
    await asker.page.getByText("use team-c-parts").waitFor();
    await asker.page.getByText("withdrawn", { exact: true }).waitFor();
    expect([...asker.errors, ...operator.errors]).toEqual([]);
    await asker.context.close();
    await operator.context.close();
  });

  test("ok_a_read_only_browser_offers_no_edits", async () => {
    const { page, context } = await open(browser);
    await page.goto(at(daemon, "region/default/orders"));
    await page.getByRole("button", { name: "Seal" }).waitFor();
    await page.getByRole("button", { name: "no sign-in needed" }).click();
    await page.getByLabel(/Read-only/).check();
    expect(await page.getByRole("button", { name: "Seal" }).count()).toBe(0);
    await page.keyboard.press("Escape");
    expect(await page.getByLabel(/Read-only/).count()).toBe(0);
    await page.getByRole("button", { name: "no sign-in needed" }).click();
    await page.getByRole("heading", { name: "orders" }).click();
    expect(await page.getByLabel(/Read-only/).count()).toBe(0);
    await context.close();
  });

  test("ok_it_works_below_a_path_of_nginx", async () => {
    const nginx = await Nginx.start(guarded);
    const { page, context, errors } = await open(browser);
    await page.goto(`${nginx.address}/console/`);
    await page.getByLabel("Token").fill(guarded.token("nora", "admin:*"));
    await page.getByRole("button", { name: "Sign in" }).click();
    // The metrics of the live page come in a stream, which nginx must pass on at once.
    await page.getByText("ready", { exact: true }).waitFor();
    await page.goto(`${nginx.address}/console/#/region/default/archive`);
    await page.getByRole("button", { name: "Unseal" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Reason").fill("the audit is over");
    await dialog.getByRole("button", { name: "Unseal", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    expect(guarded.kent("region", "history", "archive")).toContain("the audit is over");
    expect(errors).toEqual([]);
    await context.close();
    await nginx.stop();
  });

  test("ok_eight_tabs_share_one_stream", async () => {
    const own = await Daemon.start();
    const spaces = ["default", "shop", "parts", "tools"];
    for (const space of spaces.slice(1)) own.kent("space", "create", space, "--bits", "64");
    const { page: live, context, errors } = await open(browser);
    await live.goto(at(own, "live"));
    await live.getByText("ready", { exact: true }).waitFor();
    await noteWhatTabsSay(live);
    const tabs: { page: Page; space: string }[] = [];
    for (const space of [...spaces, ...spaces.slice(1)]) {
      const page = await context.newPage();
      page.setDefaultTimeout(15_000);
      await page.goto(at(own, `history/${space}`));
      await page.getByText("No edits yet").waitFor();
      await page.evaluate(() => {
        document.body.dataset["loaded"] = "once";
      });
      tabs.push({ page, space });
    }
    await expectSaid(live, "begin spaces/tools");
    const editEach = async (name: string) => {
      for (const space of spaces) {
        own.kent("region", "create", name, "--suffix", "8", "--space", space, "--reason", `${name} of ${space}`);
      }
      for (const { page, space } of tabs) {
        await page.getByText(`${name} of ${space}`).waitFor();
        expect(await page.locator("body").getAttribute("data-loaded")).toBe("once");
      }
    };
    expect(await watchers(own)).toBe(1);
    await editEach("orders");
    await expectSaid(live, "seconds");
    expect(await watchers(own)).toBe(1);

    // Another tab goes on with the stream.
    const [next] = tabs.splice(0, 1);
    if (!next) throw new Error("there is no tab");
    await noteWhatTabsSay(next.page);
    await live.close();
    tabs.push(next);
    await expectSaid(next.page, "begin spaces/tools");
    await editEach("returns");
    expect(await watchers(own)).toBe(1);
    const status = await next.page.evaluate(
      async () => (await fetch("session", { headers: { "kent-console": "1" } })).status,
    );
    expect(status).toBe(200);
    expect(errors).toEqual([]);
    await context.close();
    await expect.poll(() => watchers(own)).toBe(0);
    await own.stop();
  });

  test("ok_without_locks_a_tab_has_a_stream_while_it_is_visible", async () => {
    const own = await Daemon.start();
    const { page, context, errors } = await open(browser);
    // As on a page without TLS from another machine.
    await context.addInitScript(() => Object.defineProperty(Navigator.prototype, "locks", { value: undefined }));
    const show = (isHidden: boolean) =>
      page.evaluate((isHidden) => {
        Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
      }, isHidden);
    const other = await context.newPage();
    for (const one of [page, other]) {
      await one.goto(at(own, "history/default"));
      await one.getByText("No edits yet").waitFor();
    }
    await expect.poll(() => watchers(own)).toBe(2);
    await show(true);
    await expect.poll(() => watchers(own)).toBe(1);
    own.kent("region", "create", "orders", "--suffix", "8", "--reason", "nobody looks");
    await other.getByText("nobody looks").waitFor();
    await show(false);
    await page.getByText("nobody looks").waitFor();
    await expect.poll(() => watchers(own)).toBe(2);
    expect(errors).toEqual([]);
    await context.close();
    await own.stop();
  });

  test("ok_frames_while_zooming", async () => {
    const { page, context } = await open(browser);
    await page.goto(at(daemon, "map/default?scale=width"));
    const map = page.getByRole("application");
    await map.focus();
    const box = await map.boundingBox();
    if (!box) throw new Error("the map is not there");
    await page.mouse.move(box.x + box.width * 0.7, box.y + box.height / 2);
    await page.evaluate(() => {
      const frames: number[] = [];
      let before = performance.now();
      const tick = (now: number) => {
        frames.push(now - before);
        before = now;
        requestAnimationFrame(tick);
      };
      requestAnimationFrame(tick);
      (globalThis as unknown as { frames: number[] }).frames = frames;
    });
    for (let turn = 0; turn < 30; turn++) await page.mouse.wheel(0, -60);
    await page.waitForTimeout(500);
    const frames = await page.evaluate(() =>
      (globalThis as unknown as { frames: number[] }).frames.toSorted((a, b) => a - b),
    );
    console.log(
      `frames while zooming: median ${frames[Math.floor(frames.length / 2)]?.toFixed(1)} ms, worst ${frames.at(-1)?.toFixed(1)} ms`,
    );
    expect(frames.length).toBeGreaterThan(5);
    await context.close();
  });
});

/** A page in a certain state, for screenshots: its address, and how to reach the state. */
interface Screen {
  name: string;
  hash: string;
  ready: (page: Page) => Promise<unknown>;
}

const SCREENS: Screen[] = [
  { name: "live", hash: "live", ready: (page) => page.getByRole("cell", { name: /./ }).first().waitFor() },
  { name: "map-icicle", hash: "map/default", ready: (page) => page.getByRole("application").waitFor() },
  { name: "map-width", hash: "map/default?scale=width", ready: (page) => page.getByRole("application").waitFor() },
  { name: "map-morton", hash: "map/default?view=morton", ready: (page) => page.getByRole("application").waitFor() },
  {
    name: "map-morton-width",
    hash: "map/default?view=morton&scale=width",
    ready: (page) => page.getByRole("application").waitFor(),
  },
  {
    name: "map-picked",
    hash: "map/default?pick=0000000000000001",
    ready: (page) => page.getByRole("button", { name: "Expand" }).waitFor(),
  },
  { name: "map-zoomed", hash: "map/default?prefix=11", ready: (page) => page.getByRole("application").waitFor() },
  { name: "map-past", hash: "map/default?at=3", ready: (page) => page.getByText("Back to now").waitFor() },
  { name: "map-empty", hash: "map/default%2Fbolts", ready: (page) => page.getByRole("application").waitFor() },
  { name: "region", hash: "region/default/orders", ready: (page) => page.getByText("Last identifier").waitFor() },
  {
    name: "region-sealed",
    hash: "region/default/archive",
    ready: (page) => page.getByText("Last identifier").waitFor(),
  },
  {
    name: "region-history",
    hash: "region/default/orders?tab=history",
    ready: (page) => page.locator(".timeline li").first().waitFor(),
  },
  { name: "region-missing", hash: "region/default/nobody", ready: (page) => page.getByRole("alert").waitFor() },
  { name: "history", hash: "history/default", ready: (page) => page.locator(".timeline li").first().waitFor() },
  { name: "history-empty", hash: "history/default%2Fbolts", ready: (page) => page.getByText("No edits yet").waitFor() },
  { name: "inspect-empty", hash: "inspect", ready: (page) => page.getByText("Paste an identifier").waitFor() },
  {
    name: "inspect-one",
    hash: "inspect?ids=017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
    ready: (page) => page.getByRole("heading", { name: "uuidv7" }).waitFor(),
  },
  {
    name: "inspect-many",
    hash: "inspect?ids=12970366926827028480+281474976710656+42+nonsense!",
    ready: (page) => page.getByRole("heading", { name: "Region" }).waitFor(),
  },
  {
    name: "requests",
    hash: "requests/default",
    ready: (page) => page.getByRole("button", { name: "Preview and make team-d-parts" }).waitFor(),
  },
  {
    name: "requests-empty",
    hash: "requests/default%2Fbolts",
    ready: (page) => page.getByText("No open requests").waitFor(),
  },
  { name: "requests-missing", hash: "requests/nowhere", ready: (page) => page.getByRole("alert").waitFor() },
  {
    name: "request-decline",
    hash: "requests/default",
    ready: (page) => page.getByRole("button", { name: "Decline team-d-parts" }).click(),
  },
  {
    name: "request-make",
    hash: "requests/default",
    ready: async (page) => {
      await page.getByRole("button", { name: "Preview and make team-d-parts" }).click();
      await page.getByText("not there yet").waitFor();
    },
  },
  { name: "no-page", hash: "nowhere", ready: (page) => page.getByText("There is no such page").waitFor() },
  {
    name: "edit-split",
    hash: "region/default/orders",
    ready: async (page) => {
      await page.getByRole("button", { name: "Split" }).click();
      await planSplit(page, "orders-us", "a shop for America");
    },
  },
  {
    name: "edit-create",
    hash: "map/default",
    ready: async (page) => {
      await page.getByRole("button", { name: "Create a region" }).click();
      await page.getByRole("dialog").getByLabel("Suffix bits").fill("x");
      await page.locator(".field-problem").first().waitFor();
    },
  },
  {
    name: "edit-set",
    hash: "region/default/orders",
    ready: async (page) => {
      await page.getByRole("button", { name: "Set" }).click();
      await page.getByLabel("Expand automatically").check();
      await page.getByText("Before, revision").waitFor();
    },
  },
  {
    name: "account",
    hash: "live",
    ready: async (page) => {
      await page.getByRole("button", { name: "no sign-in needed" }).click();
      await page.getByText("ready", { exact: true }).waitFor();
    },
  },
];

describe.each(LOOKS)("screens in $theme colors, $width pixels wide", (look) => {
  test.each(SCREENS)("ok_$name", async ({ name, hash, ready }) => {
    const { page, context, errors } = await open(browser, look);
    await page.goto(at(daemon, hash));
    await ready(page);
    await page.waitForTimeout(400);
    await shoot(page, name, look);
    await expectAccessible(page, name);
    expect(errors).toEqual([]);
    await context.close();
  });

  test("ok_sign_in_and_no_permission", async () => {
    const { page, context } = await open(browser, look);
    await page.goto(at(guarded, ""));
    await page.getByLabel("Token").waitFor();
    await shoot(page, "sign-in", look);
    await expectAccessible(page, "sign-in");
    await signIn(page, guarded, guarded.token("team-b", "read:region:default/team-b-*"));
    await page.goto(at(guarded, "requests/default"));
    await page.getByRole("button", { name: "Ask for a region" }).click();
    await page.getByRole("dialog").getByLabel("Suffix bits").fill("x");
    await page.locator(".field-problem").first().waitFor();
    await shoot(page, "request-ask", look);
    await expectAccessible(page, "request-ask");
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.goto(at(guarded, "live"));
    await page.getByText("You may not see this").first().waitFor();
    await shoot(page, "no-permission", look);
    await expectAccessible(page, "no-permission");
    await context.close();
  });

  test("ok_loading_and_unreachable", async () => {
    const { page, context } = await open(browser, look);
    await page.route("**/kent.v1.**", () => {});
    await page.goto(at(daemon, "map/default"));
    await page.getByText("Loading the map").waitFor({ state: "attached" });
    await shoot(page, "loading", look);
    await expectAccessible(page, "loading");
    await page.goto(at(daemon, "requests/default"));
    await page.getByText("Loading the requests").waitFor({ state: "attached" });
    await shoot(page, "requests-loading", look);
    await expectAccessible(page, "requests-loading");
    await page.goto(at(daemon, "map/default"));
    await page.unroute("**/kent.v1.**");
    await page.route("**/console/session", (route) => route.abort());
    await page.reload();
    await page.getByText("The daemon does not answer").waitFor();
    await shoot(page, "unreachable", look);
    await expectAccessible(page, "unreachable");
    await context.close();
  });
});
