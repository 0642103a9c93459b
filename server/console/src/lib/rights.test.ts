import { describe, expect, test } from "vitest";
import { hasRegions, may, mayAnywhere, newNames, spacesOf, type Target } from "./rights.ts";

const orders: Target = { kind: "region", space: "default", region: "orders" };
const shop: Target = { kind: "space", space: "shop" };
const daemon: Target = { kind: "daemon" };

describe("rights", () => {
  test.each([
    [["admin:*"], "edit", orders, true],
    [["admin:*"], "operate", daemon, true],
    [["edit:region:default/orders"], "edit", orders, true],
    [["edit:region:default/orders"], "read", orders, false],
    [["edit:region:default/or*"], "edit", orders, true],
    [["edit:region:*"], "edit", orders, true],
    [["edit:region:shop/*"], "edit", orders, false],
    [["edit:space:default"], "edit", orders, true],
    [["edit:space:de*"], "edit", orders, true],
    [["edit:space:shop"], "edit", shop, true],
    [["read:space:shop"], "edit", shop, false],
    [["read:region:shop/*"], "read", shop, true],
    [["read:region:shop/a"], "read", shop, false],
    [["operate:space:shop"], "operate", daemon, false],
    [["edit:serial:GBP", "edit:uuidv7"], "edit", orders, false],
    [[], "read", orders, false],
  ] as const)("ok_%j_for_%s_of_%o_is_%s", (permissions, action, target, expected) => {
    expect(may(permissions, action, target)).toBe(expected);
  });

  test.each([
    [["allocate:region:default/orders"], "default", true],
    [["lease:*"], "default", true],
    [["read:space:shop"], "shop", true],
    [["read:space:shop"], "default", false],
    [["read:region:shop/a"], "default", false],
    [["read:region:default/orders/eu"], "default", false],
    [["read:region:default/orders/eu"], "default/orders", true],
    [["edit:region:*"], "default", true],
    [["allocate:uuidv7", "operate:*", "inspect:*", "read:serial:GBP"], "default", false],
  ] as const)("ok_with_%j_who_asks_in_%s_is_%s", (permissions, space, expected) => {
    expect(hasRegions(permissions, space)).toBe(expected);
  });

  test.each([
    [["admin:*"], ["*"]],
    [["edit:region:*"], ["*"]],
    [["edit:space:de*"], ["*"]],
    [["edit:region:default/*", "edit:region:default/team-a-*"], ["*"]],
    [
      ["edit:region:default/team-a-*", "admin:region:default/b*", "edit:region:default/b*"],
      ["team-a-*", "b*"],
    ],
    [["edit:region:default/orders", "read:region:default/*"], []],
    [["edit:region:default/orders/*", "edit:region:shop/*"], []],
  ] as const)("ok_with_%j_new_regions_have_names_like_%j", (permissions, expected) => {
    expect(newNames(permissions, "default")).toEqual(expected);
  });

  test("ok_permissions_name_spaces", () => {
    const permissions = [
      "read:region:default/team-a-*",
      "read:region:default/orders",
      "read:region:default/parts/bolts",
      "admin:space:shop",
      "edit:region:other/x",
      "read:region:*",
      "read:space:s*",
      "read:*",
      "allocate:uuidv7",
    ];
    expect(spacesOf(permissions, "read")).toEqual(["default", "default/parts", "shop"]);
  });

  test("ok_a_right_on_any_region_is_a_right_anywhere", () => {
    expect(mayAnywhere(["edit:region:default/orders"], "edit")).toBe(true);
    expect(mayAnywhere(["edit:*"], "edit")).toBe(true);
    expect(mayAnywhere(["read:*", "allocate:uuidv7"], "edit")).toBe(false);
  });
});
