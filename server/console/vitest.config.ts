// The unit tests: `npm test`. The browser tests have their own configuration in tests/.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: { include: ["src/**/*.test.ts"], env: { TZ: "UTC" } },
});
