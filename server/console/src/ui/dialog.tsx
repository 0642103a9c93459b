// A modal dialog. The browser keeps the focus in the dialog, and afterward returns it to the page.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { returnFocus } from "./focus.ts";

/** A dialog that is open as long as it is rendered. Escape closes it. */
export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const element = dialog.current;
    const opener = document.activeElement;
    element?.showModal();
    // The browser returns the focus only if the dialog is closed, not if it is only removed.
    return () => {
      element?.close();
      returnFocus(opener);
    };
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={props.onClose}>
      <header class="dialog-head">
        <h2 id={id}>{props.title}</h2>
        <button type="button" class="quiet" aria-label="Close" onClick={() => dialog.current?.close()}>
          ✕
        </button>
      </header>
      {props.children}
    </dialog>
  );
}
