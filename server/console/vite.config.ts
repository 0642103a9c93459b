// The build of the console. All addresses are relative, so that the console works under any path. During development,
// `npm run dev` passes calls on to the daemon at KENT_HTTP.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

const daemon = { target: process.env["KENT_HTTP"] ?? "http://127.0.0.1:7601" };

/** Writes a compressed copy next to each file, so that the daemon need not compress. */
const compressed: Plugin = {
  name: "compressed",
  writeBundle({ dir = "dist" }) {
    for (const entry of readdirSync(dir, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile() || entry.name.endsWith(".br")) continue;
      const path = join(entry.parentPath, entry.name);
      const options = { params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY } };
      writeFileSync(`${path}.br`, brotliCompressSync(readFileSync(path), options));
    }
  },
};

export default defineConfig({
  base: "./",
  plugins: [compressed],
  server: {
    proxy: { "/kent.v1.": daemon, "/console/session": daemon },
  },
  build: {
    target: "es2023",
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    modulePreload: { polyfill: false },
    // Small files are not inlined, because the content security policy forbids data URLs.
    assetsInlineLimit: 0,
    license: { fileName: "licenses.txt" },
  },
});
