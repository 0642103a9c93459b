// The focus after a dialog.

/** How long a page may take to show the effect of an edit. */
const SETTLED_MS = 5000;

let watch: MutationObserver | undefined;

/** Returns the focus to the element that opened a dialog. If the page has removed the element, or removes it when it shows
 * the effect of the dialog, the heading of the page gets the focus: otherwise it would be lost. */
export function returnFocus(opener: Element | null): void {
  const settle = () => {
    if (watch !== changes || !isLost() || document.querySelector("dialog[open]")) return;
    if (canFocus(opener)) opener.focus({ preventScroll: true });
    if (isLost()) focusHeading();
  };
  // Until the next frame, the page behind a modal dialog that was removed cannot have the focus.
  const later = () => requestAnimationFrame(settle);
  const changes = new MutationObserver(later);
  watch?.disconnect();
  watch = changes;
  changes.observe(document.body, { childList: true, subtree: true, attributeFilter: ["disabled"] });
  setTimeout(() => changes.disconnect(), SETTLED_MS);
  later();
}

/** Whether no element has the focus. */
function isLost(): boolean {
  return document.activeElement === null || document.activeElement === document.body;
}

function canFocus(element: Element | null): element is HTMLElement {
  return element instanceof HTMLElement && element.isConnected && !element.matches(":disabled");
}

function focusHeading(): void {
  const heading = document.querySelector<HTMLElement>("main h1");
  if (!heading) return;
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
}
