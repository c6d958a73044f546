/* Set formulas with MathJax's own modules: node formulas.js FOLDER_OF_MATHJAX < formulas.json > result.json

   In come [TeX, whether displayed] for each formula; out go {html} or {error} for each, and the style sheet for all. */

const from = (name) => require(`${process.argv[2]}/${name}.js`);
const { mathjax } = from("mathjax");
const { TeX } = from("input/tex");
const { CHTML } = from("output/chtml");
const { liteAdaptor } = from("adaptors/liteAdaptor");
const { RegisterHTMLHandler } = from("handlers/html");
const { AssistiveMmlHandler } = from("a11y/assistive-mml");
from("input/tex/ams/AmsConfiguration");

const adaptor = liteAdaptor(); // a document without a browser
AssistiveMmlHandler(RegisterHTMLHandler(adaptor)); // the spoken form: MathML beside each formula, hidden from sight

const input = new TeX({
  packages: ["base", "ams"],
  formatError: (jax, error) => { throw error; },
});
const output = new CHTML({ fontURL: "." });
const page = mathjax.document("", { InputJax: input, OutputJax: output });

function set([tex, display]) {
  try {
    return { html: adaptor.outerHTML(page.convert(tex, { display })) };
  } catch (error) {
    return { error: error.message };
  }
}

const formulas = JSON.parse(require("node:fs").readFileSync(0, "utf8")).map(set);
console.log(JSON.stringify({ formulas, sheet: adaptor.textContent(output.styleSheet(page)) }));
