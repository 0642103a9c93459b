import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { type RegionRequest, RegionRequest_State, RegionRequestSchema } from "../gen/kent/v1/regions_pb.ts";
import { idOf, isOpen, labelOf, reasonOf, stateOf } from "./requests.ts";

function request(over: Partial<RegionRequest> = {}): RegionRequest {
  return Object.assign(
    create(RegionRequestSchema, {
      name: "spaces/default/bolts/requests/12",
      state: RegionRequest_State.OPEN,
      reason: "parcels",
    }),
    over,
  );
}

test("ok_a_request_is_named_by_its_number", () => {
  expect(idOf(request())).toBe("12");
  expect(reasonOf(request())).toBe("request 12: parcels");
  expect(reasonOf(request({ reason: "r".repeat(2000) }))).toHaveLength(1000);
});

test.each([
  [RegionRequest_State.OPEN, "open", true],
  [RegionRequest_State.MADE, "made", false],
  [RegionRequest_State.DECLINED, "declined", false],
  [RegionRequest_State.WITHDRAWN, "withdrawn", false],
])("ok_state_%i_is_%s", (state, word, open) => {
  expect(stateOf(request({ state })).word).toBe(word);
  expect(isOpen(request({ state }))).toBe(open);
});

test("ok_the_link_counts_what_the_user_can_answer", () => {
  expect(labelOf([])).toBe("Requests");
  expect(labelOf([request({ mine: true })])).toBe("Requests");
  expect(labelOf([request({ mine: true }), request({ decidable: true })])).toBe("Requests (1)");
});
