"""Record what the reference implementation computes with the encoder's weights, for tests/models/test_encoder.py.

    make .venv-peers/.installed && .venv-peers/bin/python -m tools.encoder_reference

Texts are cut by the package `tokenizers` and read by BertModel of `transformers`, in float64. Of the states a few
features are kept, of the weights those of one query.
"""

import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from attention_tutorial.models.published import PUBLISHED
from tools.book import ROOT

TARGET = ROOT / "tests" / "models" / "encoder_reference.json"
FEATURES = slice(0, None, 128)
TEXTS = (
    "",
    " \t\n",
    "bank",
    "She sat on the bank of the river.",
    "I need to transfer money to the bank, don't I?",
    "The transformer's architecture was re-introduced in 2017 (by Vaswani et al.): “attention”!",
    "Crème brûlée, naïve façade; Žižek, Ångström, İstanbul and Straße",
    "ΑΒΓ Σίσυφος ΣΑΣ; Москва; ação",
    "中文字 and 한국어 or 日本語のテキスト",
    "e-mail: someone@example.org, $1,000.50 (50%) #attention ^_^ `code` a_b x=y+1",
    "tabs\tand\nlines\r\nand\u00a0spaces\u2003here\u2028too",
    "zero\u200bwidth \ufeffand\u00adsoft, a bell\a and a \ufffd",
    "x" * 100 + " " + "x" * 101,
    "👍🏽 👩‍👩‍👧 🇮🇹 ﬁne Ⅷ ½ x² ｆｕｌｌ，ｗｉｄｔｈ",
    "שָׁלוֹם مَرْحَبًا हिन्दी ไทย",
    "[CLS] a [MASK] of [SEP] pieces[UNK]",
    "[mask] ##er unaffable antidisestablishmentarianism",
)
READ = TEXTS[3:5]


def main() -> None:
    """Write the record."""
    import tokenizers
    import torch
    import transformers

    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(PUBLISHED["encoder"].path()) as archive:
        archive.extractall(folder)
        cutter = tokenizers.Tokenizer.from_file(str(Path(folder, "tokenizer.json")))
        bert = transformers.BertModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
    cutter.no_padding()
    cutter.no_truncation()
    read: list[dict[str, Any]] = []
    for text in READ:
        ids = torch.tensor([cutter.encode(text).ids])
        with torch.no_grad():
            found = bert(ids, output_hidden_states=True, output_attentions=True)
        states = torch.stack(found.hidden_states)[:, 0, :, FEATURES]
        weights = torch.stack(found.attentions)[:, 0, :, ids.size(1) // 2]
        read.append({"text": text, "states": _rounded(states), "weights": _rounded(weights)})
    record = {
        "made by": {"tokenizers": tokenizers.__version__, "transformers": transformers.__version__},
        "pieces": {text: " ".join(cutter.encode(text).tokens) for text in TEXTS},
        "read": read,
    }
    TARGET.write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _rounded(x: Any) -> Any:
    return [_rounded(part) for part in x] if x.dim() > 1 else " ".join(f"{number:.12g}" for number in x.tolist())


if __name__ == "__main__":
    main()
