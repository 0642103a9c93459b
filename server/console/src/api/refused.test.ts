import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { refusedBy } from "./refused.ts";

describe("refused", () => {
  test.each([
    [new TypeError("network error"), "unreachable", "The connection to the daemon broke off."],
    [new TypeError("Failed to fetch"), "unreachable", "The connection to the daemon broke off."],
    [new TypeError("x is undefined"), "failed", "x is undefined"],
    [
      new ConnectError("The daemon cannot be reached.", Code.Unavailable),
      "unreachable",
      "The daemon cannot be reached.",
    ],
    [new ConnectError("no such region (see kent region ls)", Code.NotFound), "not-there", "no such region"],
  ])("ok_%s", (error, kind, message) => {
    expect(refusedBy(error)).toMatchObject({ kind, message });
  });
});
