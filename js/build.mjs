/* Make each widget's bundle: widgets/NAME/index.tsx, with the kit and Preact, into OUT/NAME.js and OUT/NAME.css.

   node build.mjs [OUT] */

import { readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { build } from "esbuild";
import wabt from "wabt";

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

const { parseWat } = await wabt();

/** `import text from "./worker.ts?thread"` is the text of a script of its own, for a Worker; `"./linear.wat?wasm"` is
    a WebAssembly module in base64. */
const texts = {
  name: "texts",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /\?(thread|wasm)$/ }, ({ path, resolveDir }) => {
      const [file, namespace] = path.split("?");
      return { path: resolve(resolveDir, file), namespace };
    });
    onLoad({ filter: /.*/, namespace: "thread" }, async ({ path }) => {
      const options = { ...common, entryPoints: [path], format: "iife", write: false, plugins: [texts] };
      const { outputFiles } = await build(options);
      return { contents: outputFiles[0].text, loader: "text" };
    });
    onLoad({ filter: /.*/, namespace: "wasm" }, ({ path }) => {
      const { buffer } = parseWat(path, readFileSync(path, "utf8"), { simd: true }).toBinary({});
      return { contents: Buffer.from(buffer).toString("base64"), loader: "text" };
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
  plugins: [texts],
});
