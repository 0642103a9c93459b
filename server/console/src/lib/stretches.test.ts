import { describe, expect, test } from "vitest";
import { countOf, findStretches, pageFrom, positionOf, revisionAt, type Stretch } from "./stretches.ts";

const LATER = 1_790_000_000_000_000n;
const RESTORED: Stretch[] = [
  { from: 3n, to: 20_837n },
  { from: LATER, to: LATER + 4999n },
  { from: 2n * LATER, to: 2n * LATER },
];

describe("stretches", () => {
  test("ok_without_room_for_a_leap_there_is_one_stretch", async () => {
    const never = () => Promise.reject(new Error("asked"));
    expect(await findStretches(1n, 20_837n, never)).toEqual([{ from: 1n, to: 20_837n }]);
    expect(await findStretches(7n, 7n, never)).toEqual([{ from: 7n, to: 7n }]);
    expect(await findStretches(1n, 0n, never)).toEqual([]);
  });

  test("ok_leaps_are_found_with_few_questions", async () => {
    let asked = 0;
    const atOrBefore = async (revision: bigint) => {
      asked += 1;
      const { to = 0n } = RESTORED.findLast(({ from }) => from <= revision) ?? {};
      return to < revision ? to : revision;
    };
    expect(await findStretches(3n, 2n * LATER, atOrBefore)).toEqual(RESTORED);
    expect(asked).toBeLessThan(60);
  });

  test("ok_a_long_table_without_a_leap_is_one_stretch", async () => {
    expect(await findStretches(1n, 3_000_000n, async (revision) => revision)).toEqual([{ from: 1n, to: 3_000_000n }]);
  });

  test("ok_each_revision_has_a_position", () => {
    expect(countOf(RESTORED)).toBe(20_835 + 5000 + 1);
    for (const position of [0, 1, 20_834, 20_835, 25_834, 25_835])
      expect(positionOf(RESTORED, revisionAt(RESTORED, position) ?? 0n)).toBe(position);
    expect(revisionAt(RESTORED, 20_835)).toBe(LATER);
    expect(revisionAt(RESTORED, 25_836)).toBeUndefined();
    expect(positionOf(RESTORED, 1_000_000n)).toBe(20_834);
    expect(positionOf(RESTORED, 1n)).toBe(0);
  });

  test("ok_a_page_begins_with_its_revision", () => expect(pageFrom(19_838n)).toBe("after:19839"));
});
