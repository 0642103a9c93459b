// The route to a page: the part of the address after #. The browser does not send this part, so the server needs no
// route for a page.
import { useEffect, useState } from "preact/hooks";

/** A page and its parameters. */
export interface Route {
  page: string;
  /** The parts of the path after the page. */
  path: string[];
  params: URLSearchParams;
}

/** Reads an address such as "#/map/default?at=3". */
export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [page = "", ...rest] = path.split("/").map(decode);
  return { page, path: rest, params: new URLSearchParams(query) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Writes an address. Parameters without a value are omitted. */
export function linkTo(page: string, path: string[] = [], params: Record<string, string | undefined> = {}): string {
  const given = Object.entries(params).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== "",
  );
  const query = new URLSearchParams(given).toString();
  return `#/${[page, ...path].map(encodeURIComponent).join("/")}${query && `?${query}`}`;
}

/** The current route. The component renders again when the route changes. */
export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const follow = () => setHash(location.hash);
    addEventListener("hashchange", follow);
    // The address may have changed between the first rendering and this effect.
    follow();
    return () => removeEventListener("hashchange", follow);
  }, []);
  return parseRoute(hash);
}

/** Changes the address without adding an entry to the browser's history. */
export function replaceRoute(link: string): void {
  history.replaceState(null, "", link);
  dispatchEvent(new HashChangeEvent("hashchange"));
}
