// A menu that a button opens. It is not a <details> element: with a closed one in the page, Chromium takes 20 seconds to
// select the text of a long text field.
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";

/** A button and its menu, which is rendered only while it is open. Escape and a click elsewhere close it. */
export function Menu(props: { class: string; label: ComponentChildren; children: ComponentChildren }) {
  const [isOpen, setIsOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const opener = useRef<HTMLButtonElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    if (!isOpen) return;
    const end = new AbortController();
    const leave = ({ target }: Event) => {
      if (!(target instanceof Node && box.current?.contains(target))) setIsOpen(false);
    };
    const dismiss = ({ key }: KeyboardEvent) => {
      if (key !== "Escape") return;
      setIsOpen(false);
      opener.current?.focus();
    };
    document.addEventListener("pointerdown", leave, { signal: end.signal });
    // Tab may move the focus out of the menu.
    document.addEventListener("focusin", leave, { signal: end.signal });
    document.addEventListener("keydown", dismiss, { signal: end.signal });
    return () => end.abort();
  }, [isOpen]);
  return (
    <div ref={box} class={`menu-box ${props.class}`}>
      <button
        ref={opener}
        type="button"
        class="quiet"
        aria-expanded={isOpen}
        aria-controls={isOpen ? id : undefined}
        onClick={() => setIsOpen(!isOpen)}
      >
        {props.label}
        <span class="caret" aria-hidden="true" />
      </button>
      {isOpen && (
        <div class="menu" id={id}>
          {props.children}
        </div>
      )}
    </div>
  );
}
