// Choices of the user that the browser keeps.

const PREFIX = "kent console ";

/** Returns a kept choice. */
export function kept(name: string): string | undefined {
  try {
    return localStorage.getItem(PREFIX + name) ?? undefined;
  } catch {
    return undefined; // The browser forbids storage.
  }
}

/** Keeps a choice. */
export function keep(name: string, value: string): void {
  try {
    localStorage.setItem(PREFIX + name, value);
  } catch {
    // The browser forbids storage: the choice lasts until the page is closed.
  }
}
