import { expect, test } from "vitest";
import { namesText } from "./names.ts";

test("ok_patterns_of_names_in_words", () => {
  expect(namesText(["team-a-*"])).toBe("team-a-…");
  expect(namesText(["team-a-*", "b*"])).toBe("team-a-… or b…");
});
