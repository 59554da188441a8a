/**
 * What a browser loads before it shows anything: the page and all it names, compressed as a server would. Fails above
 * the budget, so that a heavy dependency is noticed on the day it comes.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const BUDGET_KB = 150;
const STATIC = fileURLToPath(new URL("../../src/codehub/api/static", import.meta.url));

const size = (path) => gzipSync(readFileSync(STATIC + path), { level: 9 }).length / 1000;
const page = readFileSync(`${STATIC}/index.html`, "utf8");
const named = [...page.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map((found) => found[1]);
const total = ["/index.html", ...named].reduce((sum, path) => sum + size(path), 0);
console.log(`First load: ${total.toFixed(1)} kB compressed, of ${BUDGET_KB} kB.`);
if (total > BUDGET_KB) process.exit(1);
