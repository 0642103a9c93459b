// Short messages that disappear after a few seconds.
import { useEffect, useState } from "preact/hooks";

const SHOWN_MS = 6000;
const said = new EventTarget();

/** Shows a message for a few seconds. */
export function toast(text: string): void {
  said.dispatchEvent(new CustomEvent("toast", { detail: text }));
}

/** The container of the messages. A page has one. */
export function Toasts() {
  const [shown, setShown] = useState<{ key: number; text: string }[]>([]);
  useEffect(() => {
    let next = 0;
    const show = (event: Event) => {
      const key = next++;
      setShown((before) => [...before, { key, text: String((event as CustomEvent).detail) }]);
      setTimeout(() => setShown((before) => before.filter((one) => one.key !== key)), SHOWN_MS);
    };
    said.addEventListener("toast", show);
    return () => said.removeEventListener("toast", show);
  }, []);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {shown.map(({ key, text }) => (
        <p key={key}>{text}</p>
      ))}
    </div>
  );
}
