import { describe, expect, test } from "vitest";
import { linkTo, parseRoute } from "./router.ts";

describe("routes", () => {
  test.each([
    ["map", ["default"], { at: "3" }],
    ["region", ["default/orders", "eu ü?#"], {}],
    ["inspect", [], { ids: "1 2,9007199254740993" }],
  ])("ok_link_to_%s_is_read_back", (page, path, params) => {
    const route = parseRoute(linkTo(page, path, params as Record<string, string>));
    expect(route).toMatchObject({ page, path });
    expect(Object.fromEntries(route.params)).toEqual(params);
  });

  test("ok_odd_addresses_are_pages_too", () => {
    expect(parseRoute("").page).toBe("");
    expect(parseRoute("#/%E0%A4%A").page).toBe("%E0%A4%A");
    expect(linkTo("map", ["a"], { at: undefined, view: "" })).toBe("#/map/a");
  });
});
