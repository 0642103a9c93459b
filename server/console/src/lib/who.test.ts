import { expect, test } from "vitest";
import type { Who } from "../api/session.ts";
import { endOf } from "./who.ts";

const ann: Who = {
  principal: "certificate:spiffe://example/ann",
  permissions: [],
  by: "certificate",
  authRequired: true,
};

test("ok_the_end_of_a_sign_in_is_said_only_if_it_is_known", () => {
  expect(endOf({ ...ann, expiresUnixMs: Date.UTC(2026, 0, 2, 12) })).toMatch(/^signed in by certificate until .*2026/);
  expect(endOf({ ...ann, by: "token" })).toBe("the sign-in does not expire");
  expect(endOf({ ...ann, by: "session", expiresUnixMs: Date.UTC(2026, 0, 2, 12) })).toMatch(/^signed in until .*2026/);
  expect(endOf({ ...ann, by: "off", authRequired: false })).toMatch(/no credentials/);
});
