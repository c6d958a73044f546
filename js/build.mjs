/* Make each widget's bundle: widgets/NAME/index.tsx, with the kit and Preact, into OUT/NAME.js and OUT/NAME.css, and each
   page's script, pages/NAME/index.ts, into OUT/pages.

   node build.mjs [OUT] */

import { readdirSync } from "node:fs";
import { resolve } from "node:path";
import { build } from "esbuild";

const here = import.meta.dirname;
const named = (folder) => readdirSync(resolve(here, folder)).sort();
const out = process.argv[2];
const options = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  target: "es2022",
  charset: "utf8",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
};

await build({
  ...options,
  entryPoints: Object.fromEntries(named("widgets").map((name) => [name, `widgets/${name}/index.tsx`])),
  outdir: resolve(out ?? resolve(here, "../attention_tutorial/widgets/static")),
  format: "esm",
});
await build({
  ...options,
  entryPoints: Object.fromEntries(named("pages").map((name) => [name, `pages/${name}/index.ts`])),
  outdir: out ? resolve(out, "pages") : resolve(here, "../book/_ext/attention_book/built"),
  format: "iife",
});
