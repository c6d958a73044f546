/* Make each widget's bundle: widgets/NAME/index.tsx, with the kit and Preact, into OUT/NAME.js and OUT/NAME.css.

   node build.mjs [OUT] */

import { readdirSync } from "node:fs";
import { resolve } from "node:path";
import { build } from "esbuild";

const here = import.meta.dirname;
const names = readdirSync(resolve(here, "widgets")).sort();
const common = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  target: "es2022",
  charset: "utf8",
  logLevel: "warning",
};

/** `import text from "./worker.ts?thread"` is the text of a script of its own, for a Worker. */
const threads = {
  name: "threads",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /\?thread$/ }, ({ path, resolveDir }) => ({
      path: resolve(resolveDir, path.replace("?thread", "")),
      namespace: "thread",
    }));
    onLoad({ filter: /.*/, namespace: "thread" }, async ({ path }) => {
      const { outputFiles } = await build({ ...common, entryPoints: [path], format: "iife", write: false });
      return { contents: outputFiles[0].text, loader: "text" };
    });
  },
};

await build({
  ...common,
  entryPoints: Object.fromEntries(names.map((name) => [name, `widgets/${name}/index.tsx`])),
  outdir: resolve(process.argv[2] ?? resolve(here, "../attention_tutorial/widgets/static")),
  format: "esm",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  plugins: [threads],
});
