// Tiles a map from a list of regions, as the daemon does. For tests.
import { create } from "@bufbuild/protobuf";
import {
  type MapCell,
  MapCell_Kind,
  MapCellSchema,
  type MapRegion,
  MapRegionSchema,
  type Region,
  Region_Kind,
} from "../gen/kent/v1/regions_pb.ts";
import { shareOf } from "../lib/bits.ts";

/** Tiles `root` with cells. The regions are those of the whole table, in the order of their prefixes. */
export function tile(regions: readonly Region[], root: string): MapCell[] {
  const cells: MapCell[] = [];
  const divide = (prefix: string, inside: readonly Region[], around: Region | undefined): void => {
    const own = inside.find((region) => region.prefix === prefix);
    const rest = own ? inside.filter((region) => region !== own) : inside;
    const holder = own ?? around;
    if (rest.length === 0) {
      cells.push(toCell(prefix, holder));
      return;
    }
    for (const half of [`${prefix}0`, `${prefix}1`]) {
      divide(
        half,
        rest.filter((region) => region.prefix.startsWith(half)),
        holder,
      );
    }
  };
  const inside = regions.filter((region) => region.prefix.startsWith(root));
  divide(
    root,
    inside,
    regions.findLast((region) => region.prefix.length < root.length && root.startsWith(region.prefix)),
  );
  return cells;
}

/** A region as a map shows it. */
function toMapRegion(region: Region): MapRegion {
  const { name, number, prefix, zoneBits, suffixBits, kind, sealed, subregionBits, rate, fullInSeconds } = region;
  return create(MapRegionSchema, {
    name,
    number,
    prefix,
    zoneBits,
    suffixBits,
    kind,
    sealed,
    subregionBits,
    rate,
    delegated: region.delegatedSpace !== "",
    strict: region.policy?.strict ?? false,
    ...(fullInSeconds === undefined ? {} : { fullInSeconds }),
  });
}

function toCell(prefix: string, holder: Region | undefined): MapCell {
  if (!holder) return create(MapCellSchema, { prefix, kinds: [MapCell_Kind.FREE], freeShare: 1, capacity: "0" });
  const below = prefix.slice(holder.prefix.length);
  const isOwn = !below.includes("1") && holder.kind !== Region_Kind.CLOSED;
  if (!isOwn) return create(MapCellSchema, { prefix, kinds: [MapCell_Kind.ZONE], capacity: "0", inside: holder.name });
  return create(MapCellSchema, {
    prefix,
    regionCount: 1n,
    capacity: holder.capacity,
    issued: holder.issued,
    fill: holder.issued === "" ? 0 : shareOf(BigInt(holder.issued), BigInt(holder.capacity || "0")),
    kinds: [
      MapCell_Kind.REGION,
      ...(holder.delegatedSpace !== "" ? [MapCell_Kind.DELEGATED] : []),
      ...(holder.sealed ? [MapCell_Kind.SEALED] : []),
    ],
    region: toMapRegion(holder),
  });
}
