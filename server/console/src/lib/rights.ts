// What a caller may do, from its permissions. The console offers only these actions, but the daemon makes the final
// decision: the pattern of a permission matches the names with which regions were created, and the console knows only
// their current names.

/** An action of a permission. */
export type Action = "read" | "edit" | "inspect" | "operate" | "admin";

/** The target of an action: the whole daemon, a space, or a region. */
export type Target =
  | { kind: "daemon" }
  | { kind: "space"; space: string }
  | { kind: "region"; space: string; region: string };

/** Whether one of the permissions allows the action on the target. */
export function may(permissions: readonly string[], action: Action, target: Target): boolean {
  return permissions.some((permission) => {
    const [given, resource] = split(permission);
    return (given === action || given === "admin") && covers(resource, target);
  });
}

/** Whether one of the permissions allows the action on any region or space. */
export function mayAnywhere(permissions: readonly string[], action: Action): boolean {
  return permissions.some((permission) => {
    const [given, resource] = split(permission);
    return (given === action || given === "admin") && (resource === "*" || /^(space|region):/.test(resource));
  });
}

/** Whether one of the permissions covers regions of the space. If so, the daemon lets the user ask for a region there. */
export function hasRegions(permissions: readonly string[], space: string): boolean {
  return permissions.some((permission) => {
    const [action, resource] = split(permission);
    return /^(allocate|lease|read|edit|admin)$/.test(action) && namesOf(resource, space) !== undefined;
  });
}

/** The patterns of the names with which the user may create regions in the space: "*" alone if all names are allowed. A
 * permission for one region allows none, because it does not cover a later region of the same name. */
export function newNames(permissions: readonly string[], space: string): string[] {
  const names = permissions.flatMap((permission) => {
    const [action, resource] = split(permission);
    const pattern = action === "edit" || action === "admin" ? namesOf(resource, space) : undefined;
    return pattern?.endsWith("*") ? [pattern] : [];
  });
  return names.includes("*") ? ["*"] : [...new Set(names)];
}

/** The pattern of the names of the regions in the space that a resource covers. Undefined if it covers none there. */
function namesOf(resource: string, space: string): string | undefined {
  if (resource === "*" || resource === "region:*" || matches(resource, `space:${space}`)) return "*";
  const within = `region:${space}/`;
  const pattern = resource.startsWith(within) ? resource.slice(within.length) : "";
  // A longer path is a region of a delegated region's space.
  return pattern === "" || pattern.includes("/") ? undefined : pattern;
}

/** The action and the resource of a permission. */
function split(permission: string): [action: string, resource: string] {
  const colon = permission.indexOf(":");
  return [permission.slice(0, colon), permission.slice(colon + 1)];
}

/** The spaces that the permissions name, and in which they allow the action on everything or on some regions. The list
 * of spaces has only those in which the user may read everything. */
export function spacesOf(permissions: readonly string[], action: Action): string[] {
  const named = permissions.flatMap((permission) => {
    const [, given, space, outer] = /^(\w+):(?:space:(.+)|region:(.+)\/[^/]*)$/.exec(permission) ?? [];
    return given === action || given === "admin" ? [space ?? outer ?? ""] : [];
  });
  return [...new Set(named)].filter((space) => space !== "" && !space.includes("*"));
}

function covers(resource: string, target: Target): boolean {
  if (resource === "*") return true;
  switch (target.kind) {
    case "daemon":
      return false;
    case "space":
      return matches(resource, `space:${target.space}`) || resource === `region:${target.space}/*`;
    case "region":
      return matches(resource, `space:${target.space}`) || matches(resource, `region:${target.space}/${target.region}`);
  }
}

function matches(pattern: string, text: string): boolean {
  return pattern.endsWith("*") ? text.startsWith(pattern.slice(0, -1)) : text === pattern;
}
