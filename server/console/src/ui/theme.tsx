// The light or the dark theme, as chosen by the user or the system.
import { useState } from "preact/hooks";
import { keep, kept } from "./kept.ts";
import { Choice } from "./parts.tsx";

type Theme = "auto" | "light" | "dark";

const NAME = "theme";

function theme(): Theme {
  const chosen = kept(NAME);
  return chosen === "light" || chosen === "dark" ? chosen : "auto";
}

/** Applies the chosen theme. */
export function startTheme(): void {
  document.documentElement.dataset["theme"] = theme();
}

/** Lets the user choose the theme. */
export function ThemeChoice() {
  const [chosen, setChosen] = useState(theme);
  return (
    <Choice
      label="Theme"
      options={[
        ["auto", "Auto"],
        ["light", "Light"],
        ["dark", "Dark"],
      ]}
      value={chosen}
      onChange={(value) => {
        keep(NAME, value);
        startTheme();
        setChosen(value);
      }}
    />
  );
}
