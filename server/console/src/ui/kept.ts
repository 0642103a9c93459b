// Choices of the user that this browser keeps.

const PREFIX = "kent console ";

/** A kept choice. */
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
    // The choice holds until the page is closed.
  }
}
