// What a page shows instead of data: loading, empty, refused.
import type { ComponentChildren } from "preact";
import type { Refused } from "../api/refused.ts";
import type { Load } from "./load.ts";

/** A placeholder for data that is loading. It has the same height as the data, so that the page does not jump. */
export function Loading({ what, rows = 4 }: { what: string; rows?: number }) {
  return (
    <div class="loading" role="status">
      <span class="hidden">Loading {what}</span>
      {Array.from({ length: rows }, (_, index) => (
        <div class="bone" key={index} />
      ))}
    </div>
  );
}

/** Says that there is nothing to show, and what the user can do. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="state">
      <p class="state-title">{title}</p>
      {children}
    </div>
  );
}

const TITLES: Record<Refused["kind"], string> = {
  "sign-in": "You are signed out",
  "no-permission": "You may not see this",
  "not-there": "Not found",
  unreachable: "The daemon does not answer",
  rule: "The daemon refused this",
  failed: "This did not work",
};

/** Says why a call failed. */
export function Problem({ refused, again }: { refused: Refused; again?: () => void }) {
  return (
    <div class={`state problem ${refused.kind}`} role="alert">
      <p class="state-title">{TITLES[refused.kind]}</p>
      <p>{refused.message || "The daemon gave no reason. It may be older than this page."}</p>
      {again && refused.kind !== "no-permission" && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

/** Shows the loaded data, or the problem. */
export function Loaded<T>(props: {
  load: Load<T>;
  what: string;
  rows?: number;
  children: (value: T) => ComponentChildren;
}) {
  const { load, what, rows, children } = props;
  if (load.refused) return <Problem refused={load.refused} again={load.again} />;
  if (load.value === undefined) return <Loading what={what} {...(rows ? { rows } : {})} />;
  return <>{children(load.value)}</>;
}
