// The unit tests: `npm test`. The tests with a browser have a configuration of their own in tests/.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: { include: ["src/**/*.test.ts"], env: { TZ: "UTC" } },
});
