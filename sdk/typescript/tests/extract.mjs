// Writes the examples of README.md, and of docs/clients.md, to the directory argv[2], so that they are checked and run.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const target = join(process.argv[2] ?? "", "texts");
mkdirSync(target, { recursive: true });
for (const [name, file] of [
  ["readme", "../README.md"],
  ["docs", "../../../docs/clients.md"],
]) {
  const text = readFileSync(new URL(file, import.meta.url), "utf8");
  [...text.matchAll(/```ts\n(.*?)```/gs)].forEach(([, code = ""], index) => {
    const endpoint = code.replaceAll('"127.0.0.1:7600"', 'process.env["KENT_ENDPOINT"] ?? ""');
    writeFileSync(join(target, `${name}${index}.mts`), `${endpoint}\nexport {};\n`);
  });
}
