// What all pages know: who the user is, what it may do, and whether edits are offered.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Who } from "./api/session.ts";
import type { EditIntent } from "./edits/intent.ts";
import { type Action, may, type Target } from "./lib/rights.ts";

/** What all pages know. */
export interface App {
  who: Who;
  /** Edits are not offered: for screens on a wall. */
  readOnly: boolean;
  /** Opens the dialog for an edit. */
  edit: (intent: EditIntent) => void;
}

export const AppContext = createContext<App | undefined>(undefined);

/** What all pages know. Pages are drawn only for a user who is signed in. */
export function useApp(): App {
  const app = useContext(AppContext);
  if (!app) throw new Error("a page was drawn outside of the app");
  return app;
}

/** Whether the user may do this, and the console offers it. */
export function useMay(): (action: Action, target: Target) => boolean {
  const { who, readOnly } = useApp();
  return (action, target) => !(readOnly && action === "edit") && may(who.permissions, action, target);
}
