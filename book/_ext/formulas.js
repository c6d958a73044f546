/* Set formulas with MathJax where there is no browser: what formulas.py runs in V8, behind MathJax's own files. */

const { TeX } = MathJax._.input.tex_ts;
const { CHTML } = MathJax._.output.chtml_ts;
const { TeXFont } = MathJax._.output.chtml.fonts.tex_ts;
const adaptor = MathJax._.adaptors.liteAdaptor.liteAdaptor();
// The spoken form: MathML beside each formula, hidden from sight.
MathJax._.a11y["assistive-mml"].AssistiveMmlHandler(MathJax._.handlers.html_ts.RegisterHTMLHandler(adaptor));

const input = new TeX({
  packages: ["base", "ams"],
  formatError: (jax, error) => { throw new Error(error.message); },
});
const output = new CHTML({ font: new TeXFont({ fontURL: "." }) });
const page = MathJax._.mathjax.mathjax.document("", { InputJax: input, OutputJax: output });

/* Return the HTML of a formula. */
function setFormula(tex, display) {
  return adaptor.outerHTML(page.convert(tex, { display }));
}

/* Return the style sheet for all formulas that were set until now. */
function styleSheet() {
  return adaptor.textContent(output.styleSheet(page));
}
