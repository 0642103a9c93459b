// The form of an edit: the text that the user typed, and the request for it. A form keeps the text as typed, so that a
// field can be invalid for a while. `toCall` returns the problems of invalid fields.
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { CallOptions, Client } from "@connectrpc/connect";
import type { EditResponse, EditSuggestion, NewRegion } from "../gen/kent/v1/regions_pb.ts";
import {
  type CreateRegionRequestSchema,
  type NewRegionSchema,
  Region_Order,
  type Regions,
  type UpdateRegionRequestSchema,
} from "../gen/kent/v1/regions_pb.ts";
import { isPrefix, toWide } from "../lib/bits.ts";
import { regionName, shortOf, spaceName } from "../lib/names.ts";
import type { EditIntent, Op } from "./intent.ts";

/** A new region of a split or a subdivision, as typed. */
export interface NewDraft {
  id: string;
  suffix: string;
  extension: string;
}

/** The text that the user typed. A form shows only the fields of its edit. */
export interface Draft {
  op: Op;
  space: string;
  /** The short name of the edited region or, for `create`, of the new region. */
  region: string;
  by: string;
  suffix: string;
  zone: string;
  prefix: string;
  order: "sequential" | "scrambled" | "external";
  autoSplit: boolean;
  sealed: boolean;
  abstract: boolean;
  unused: boolean;
  newName: string;
  parts: NewDraft[];
  /** The resource name of the request that a new region answers; empty if it answers none. */
  answers: string;
  owner: string;
  description: string;
  cap: string;
  next: string;
  strict: boolean;
  step: string;
  offset: string;
  autoExpand: boolean;
  atPercent: string;
  byBits: string;
  maxBits: string;
  /** The initial values of the form `set`, which sends only changed values. */
  was?: Draft;
}

/** The fields that every edit has. */
export interface Common {
  validateOnly: boolean;
  expectedRevision?: bigint;
  requestId?: string;
  reason?: string;
}

/** A field of a form. */
export type FieldName = keyof Draft | `parts.${number}.${keyof NewDraft}`;

/** Sends the request of a form. */
export type Send = (regions: Client<typeof Regions>, common: Common, options?: CallOptions) => Promise<EditResponse>;

/** The request of a form, or the problems of its fields. */
export type Checked = { ok: true; send: Send } | { ok: false; problems: Partial<Record<FieldName, string>> };

const BLANK: Omit<Draft, "op" | "space"> = {
  region: "",
  by: "1",
  suffix: "",
  zone: "",
  prefix: "",
  order: "sequential",
  autoSplit: false,
  sealed: false,
  abstract: false,
  unused: false,
  newName: "",
  parts: [],
  answers: "",
  owner: "",
  description: "",
  cap: "",
  next: "",
  strict: false,
  step: "",
  offset: "",
  autoExpand: false,
  atPercent: "80",
  byBits: "1",
  maxBits: "",
};

/** The initial form of an edit. */
export function draftOf(intent: EditIntent): Draft {
  const draft: Draft = { ...BLANK, op: intent.op, space: intent.space };
  if (intent.op === "create") {
    const { request } = intent;
    if (request) {
      return {
        ...draft,
        region: request.regionId,
        suffix: String(request.suffixBits),
        zone: request.zoneBits === undefined ? "" : String(request.zoneBits),
        answers: request.name,
      };
    }
    const room = intent.bits - (intent.prefix?.length ?? 0);
    return {
      ...draft,
      prefix: intent.prefix ?? "",
      suffix: String(intent.prefix === undefined ? Math.min(40, intent.bits) : Math.max(0, Math.min(40, room - 8))),
    };
  }
  if (intent.op === "undo") return draft;
  const { region } = intent;
  draft.region = shortOf(region.name);
  if (intent.op === "split" || intent.op === "subdivide") {
    if (region.subregionBits > 0) draft.by = String(region.subregionBits);
    draft.parts = [{ id: "", suffix: String(Math.min(region.suffixBits, 20)), extension: "" }];
  }
  if (intent.op === "set") {
    const { policy } = region;
    Object.assign(draft, {
      owner: region.owner,
      description: region.description,
      cap: policy?.cap ?? "",
      strict: policy?.strict ?? false,
      step: policy?.stride ? String(policy.stride.step) : "",
      offset: policy?.stride ? String(policy.stride.offset) : "",
      autoExpand: policy?.autoExpand !== undefined,
      atPercent: String(policy?.autoExpand?.atPercent ?? 80),
      byBits: String(policy?.autoExpand?.byBits ?? 1),
      maxBits: policy?.autoExpand?.maxSuffixBits ? String(policy.autoExpand.maxSuffixBits) : "",
    });
    draft.was = { ...draft };
  }
  return draft;
}

const ORDERS = {
  sequential: Region_Order.SEQUENTIAL,
  scrambled: Region_Order.SCRAMBLED,
  external: Region_Order.EXTERNAL,
} as const;

/** Checks a form, except for rules that need the table. */
export function toCall(draft: Draft): Checked {
  const problems: Partial<Record<FieldName, string>> = {};
  const need = (field: FieldName, good: boolean, problem: string) => {
    if (!good) problems[field] = problem;
  };
  const bits = (field: FieldName, text: string, least: number): number => {
    const value = /^\d{1,3}$/.test(text.trim()) ? Number(text) : Number.NaN;
    need(field, value >= least && value <= 128, `a whole number from ${least} to 128`);
    return value;
  };
  const strided = (field: FieldName, text: string, least: number): number => {
    const value = /^\d{1,5}$/.test(text.trim()) ? Number(text) : Number.NaN;
    need(field, value >= least && value <= 65535, `a whole number from ${least} to 65535`);
    return value;
  };
  const optional = (field: FieldName, text: string) => (text.trim() === "" ? undefined : bits(field, text, 0));
  const big = (field: FieldName, text: string): bigint => {
    const plain = text.replace(/[\s_]/g, "");
    const good = /^\d{1,39}$/.test(plain);
    need(field, good, "a whole number");
    return good ? BigInt(plain) : 0n;
  };
  const named = (field: FieldName, text: string) => {
    need(
      field,
      /^[a-zA-Z0-9][\w.-]{0,62}$/.test(text),
      "1 to 63 letters, digits, - _ or . that begin with a letter or digit",
    );
    return text;
  };
  const prefixed = (field: FieldName, text: string) => {
    need(field, isPrefix(text), "zeros and ones");
    return text;
  };

  const name = regionName(draft.space, draft.region);
  let send: Send;
  switch (draft.op) {
    case "create": {
      const suffixBits = bits("suffix", draft.suffix, 0);
      const zoneBits = draft.prefix === "" ? optional("zone", draft.zone) : undefined;
      const request: MessageInitShape<typeof CreateRegionRequestSchema> = {
        parent: spaceName(draft.space),
        regionId: named("region", draft.region),
        suffixBits,
        ...(zoneBits !== undefined ? { zoneBits } : {}),
        ...(draft.prefix !== "" ? { prefix: prefixed("prefix", draft.prefix) } : {}),
        order: ORDERS[draft.order],
        autoSplit: draft.autoSplit,
        sealed: draft.sealed,
        answers: draft.answers,
      };
      send = (regions, common, options) => regions.createRegion({ ...request, ...common }, options);
      break;
    }
    case "expand":
    case "shrink": {
      const byBits = bits("by", draft.by, 1);
      const { op } = draft;
      send = (regions, common, options) =>
        (op === "expand" ? regions.expandRegion : regions.shrinkRegion)({ name, byBits, ...common }, options);
      break;
    }
    case "split":
    case "subdivide": {
      const byBits = bits("by", draft.by, 1);
      const newRegions = draft.parts.map((part, index): MessageInitShape<typeof NewRegionSchema> => {
        const suffixBits = optional(`parts.${index}.suffix`, part.suffix);
        const extension = prefixed(`parts.${index}.extension`, part.extension);
        return {
          regionId: named(`parts.${index}.id`, part.id),
          ...(suffixBits !== undefined ? { suffixBits } : {}),
          ...(extension !== "" ? { extension } : {}),
        };
      });
      send =
        draft.op === "split"
          ? (regions, common, options) => regions.splitRegion({ name, byBits, newRegions, ...common }, options)
          : (regions, common, options) =>
              regions.addSubregions({ name, byBits, newRegions, abstract: draft.abstract, ...common }, options);
      break;
    }
    case "delegate":
      send = (regions, common, options) => regions.delegateRegion({ name, ...common }, options);
      break;
    case "seal":
      send = (regions, common, options) => regions.sealRegion({ name, ...common }, options);
      break;
    case "unseal":
      send = (regions, common, options) => regions.unsealRegion({ name, ...common }, options);
      break;
    case "rename": {
      const regionId = named("newName", draft.newName);
      send = (regions, common, options) => regions.renameRegion({ name, regionId, ...common }, options);
      break;
    }
    case "delete":
      send = (regions, common, options) => regions.deleteRegion({ name, unused: draft.unused, ...common }, options);
      break;
    case "undo":
      send = (regions, common, options) => regions.undoEdit({ name: spaceName(draft.space), ...common }, options);
      break;
    case "set": {
      const request: MessageInitShape<typeof UpdateRegionRequestSchema> = { name };
      const was = draft.was ?? draft;
      if (draft.owner !== was.owner) request.owner = draft.owner;
      if (draft.description !== was.description) request.description = draft.description;
      if (draft.next !== "") request.next = toWide(big("next", draft.next));
      const paths: string[] = [];
      const cap = draft.cap === "" ? "" : big("cap", draft.cap).toString();
      const expansion = draft.autoExpand
        ? {
            atPercent: bits("atPercent", draft.atPercent, 1),
            byBits: bits("byBits", draft.byBits, 1),
            maxSuffixBits: optional("maxBits", draft.maxBits) ?? 0,
          }
        : undefined;
      if (cap !== was.cap) paths.push("cap");
      if (draft.strict !== was.strict) paths.push("strict");
      const stride =
        draft.step === ""
          ? undefined
          : { step: strided("step", draft.step, 2), offset: strided("offset", draft.offset || "0", 0) };
      if (draft.step !== was.step || (stride && draft.offset !== was.offset)) paths.push("stride");
      const expansionOf = ({ autoExpand, atPercent, byBits, maxBits }: Draft) =>
        autoExpand ? [atPercent, byBits, maxBits].join(":") : "";
      if (expansionOf(draft) !== expansionOf(was)) paths.push("auto_expand");
      if (paths.length > 0) {
        request.policy = {
          cap,
          strict: draft.strict,
          ...(stride ? { stride } : {}),
          ...(expansion ? { autoExpand: expansion } : {}),
        };
        request.policyMask = { paths };
      }
      if (Object.keys(request).length === 1) problems["owner"] = "Change at least one field.";
      send = (regions, common, options) => regions.updateRegion({ ...request, ...common }, options);
      break;
    }
  }
  return Object.keys(problems).length === 0 ? { ok: true, send } : { ok: false, problems };
}

/** The form of an edit that the daemon suggests instead of a refused one. */
export function draftOfSuggestion(suggestion: EditSuggestion, before: Draft): Draft | undefined {
  const { edit } = suggestion;
  const partsOf = (list: readonly NewRegion[]): NewDraft[] =>
    list.map(({ regionId, suffixBits, extension }) => ({
      id: regionId,
      suffix: suffixBits === undefined ? "" : String(suffixBits),
      extension: extension ?? "",
    }));
  switch (edit.case) {
    case "create": {
      const { regionId, suffixBits, zoneBits, prefix, autoSplit, sealed } = edit.value;
      return {
        ...before,
        op: "create",
        region: regionId,
        suffix: String(suffixBits ?? ""),
        zone: zoneBits === undefined ? "" : String(zoneBits),
        prefix: prefix ?? "",
        autoSplit,
        sealed,
      };
    }
    case "expand":
    case "shrink":
      return { ...before, op: edit.case, region: shortOf(edit.value.name), by: String(edit.value.byBits) };
    case "split":
      return {
        ...before,
        op: "split",
        region: shortOf(edit.value.name),
        by: String(edit.value.byBits),
        parts: partsOf(edit.value.newRegions),
      };
    case "subdivide":
      return {
        ...before,
        op: "subdivide",
        region: shortOf(edit.value.name),
        by: String(edit.value.byBits),
        abstract: edit.value.abstract,
        parts: partsOf(edit.value.newRegions),
      };
    case "seal":
      return { ...before, op: "seal", region: shortOf(edit.value.name) };
    case "delete":
      return { ...before, op: "delete", region: shortOf(edit.value.name), unused: edit.value.unused };
    default:
      return undefined;
  }
}
