import { describe, expect, test } from "vitest";
import { hasRegions, may, mayAnywhere, type Target } from "./rights.ts";

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

  test("ok_who_has_a_permission_for_regions_may_ask", () => {
    for (const permission of ["allocate:region:default/orders", "lease:*", "read:space:shop", "admin:*"])
      expect(hasRegions([permission])).toBe(true);
    for (const permission of ["allocate:uuidv7", "operate:*", "inspect:*"])
      expect(hasRegions([permission])).toBe(false);
  });

  test("ok_a_right_on_any_region_is_a_right_anywhere", () => {
    expect(mayAnywhere(["edit:region:default/orders"], "edit")).toBe(true);
    expect(mayAnywhere(["edit:*"], "edit")).toBe(true);
    expect(mayAnywhere(["read:*", "allocate:uuidv7"], "edit")).toBe(false);
  });
});
