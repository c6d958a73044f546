/* Make each widget's bundle: widgets/NAME/index.tsx, with the kit and Preact, into OUT/NAME.js and OUT/NAME.css.

   node build.mjs [OUT] */

import { readdirSync } from "node:fs";
import { resolve } from "node:path";
import { build } from "esbuild";

const here = import.meta.dirname;
const names = readdirSync(resolve(here, "widgets")).sort();

await build({
  absWorkingDir: here,
  entryPoints: Object.fromEntries(names.map((name) => [name, `widgets/${name}/index.tsx`])),
  outdir: resolve(process.argv[2] ?? resolve(here, "../attention_tutorial/widgets/static")),
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
});
