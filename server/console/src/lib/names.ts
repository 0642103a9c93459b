// Resource names: "spaces/SPACE" and "spaces/SPACE/regions/REGION". The name of a space can contain slashes.

/** A region and its space, by their short names. */
export interface RegionName {
  space: string;
  region: string;
}

/** The short name of a space, from its resource name or the resource name of one of its regions. */
export function spaceOf(name: string): string {
  return splitRegion(name)?.space ?? name.replace(/^spaces\//, "");
}

/** The parts of a region's resource name. */
export function splitRegion(name: string): RegionName | undefined {
  const [, space, region] = /^spaces\/(.+)\/regions\/([^/]+)$/.exec(name) ?? [];
  return space !== undefined && region !== undefined ? { space, region } : undefined;
}

/** The short name of a region, or the string itself if it is not the name of a region. */
export function shortOf(name: string): string {
  return splitRegion(name)?.region ?? name;
}

/** The resource name of a space. */
export function spaceName(space: string): string {
  return `spaces/${space}`;
}

/** The resource name of a region. */
export function regionName(space: string, region: string): string {
  return `spaces/${space}/regions/${region}`;
}

/** Patterns of names in words: "team-a-… or team-b-…". */
export function namesText(patterns: readonly string[]): string {
  return patterns.map((pattern) => pattern.replace(/\*$/, "…")).join(" or ");
}
