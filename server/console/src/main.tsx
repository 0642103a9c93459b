// Starts the console.
import { render } from "preact";
import { App } from "./app.tsx";
import { startTheme } from "./ui/theme.tsx";

startTheme();
const root = document.getElementById("app");
if (root) render(<App />, root);
