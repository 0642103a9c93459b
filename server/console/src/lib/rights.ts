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
    const colon = permission.indexOf(":");
    const given = permission.slice(0, colon);
    return (given === action || given === "admin") && covers(permission.slice(colon + 1), target);
  });
}

/** Whether one of the permissions allows the action on any region or space. */
export function mayAnywhere(permissions: readonly string[], action: Action): boolean {
  return permissions.some((permission) => {
    const [given, ...rest] = permission.split(":");
    const resource = rest.join(":");
    return (given === action || given === "admin") && (resource === "*" || /^(space|region):/.test(resource));
  });
}

/** Whether one of the permissions covers regions. If so, the daemon lets the user ask for a region. */
export function hasRegions(permissions: readonly string[]): boolean {
  return permissions.some((permission) => /^(allocate|lease|read|edit|admin):(\*|space:|region:)/.test(permission));
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
