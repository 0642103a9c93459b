// The state that all pages share: the user, the user's permissions, and whether pages offer edits.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Who } from "./api/session.ts";
import type { EditIntent } from "./edits/intent.ts";
import { type Action, hasRegions, may, newNames, type Target } from "./lib/rights.ts";

/** The state that all pages share. */
export interface App {
  who: Who;
  /** Whether pages offer no edits, for example on a wall display. */
  readOnly: boolean;
  /** Opens the dialog for an edit. */
  edit: (intent: EditIntent) => void;
}

export const AppContext = createContext<App | undefined>(undefined);

/** Returns the state that all pages share. Pages are rendered only for a user who is signed in. */
export function useApp(): App {
  const app = useContext(AppContext);
  if (!app) throw new Error("a page was drawn outside of the app");
  return app;
}

/** Returns a function that tells whether the user may do an action and the console offers the action. */
export function useMay(): (action: Action, target: Target) => boolean {
  const { who, readOnly } = useApp();
  return (action, target) => !(readOnly && action === "edit") && may(who.permissions, action, target);
}

/** What the console offers to a user who wants a new region in a space. */
export interface NewRegions {
  /** The patterns of the names that the user may create. Empty if the console offers no edits. */
  names: string[];
  /** Whether the user may create any name. */
  any: boolean;
  /** Whether the user can ask for names that the user may not create. */
  asks: boolean;
}

/** Returns what the console offers to a user who wants a new region in a space. */
export function useNewRegions(space: string): NewRegions {
  const { who, readOnly } = useApp();
  const names = newNames(who.permissions, space);
  const any = names.includes("*");
  return { names: readOnly ? [] : names, any, asks: !any && !readOnly && hasRegions(who.permissions, space) };
}
