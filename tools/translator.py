"""Train the translator that pages and notebooks use, and store its numbers.

    python -m tools.translator

trains it (half a minute), writes `attention_tutorial/models/trained/translator.json` and says
what half precision costs. After it: `make widgets`, since the browser's side holds the same file, and `make notebooks`.

    python -m tools.translator --check

writes nothing. It prints what must be the same on every processor: a hash of all translations by the stored model, and
whether a new training passes the exam. `make test-portable` compares.
"""

import argparse
import hashlib
import json
from typing import Any

import torch

from attention_tutorial.data.copying import shift_right
from attention_tutorial.data.translation import (
    ENGLISH,
    ITALIAN,
    TranslationBatches,
    draw_sentences,
    encode_english,
    encode_italian,
    spell_italian,
)
from attention_tutorial.models.decoding import greedy
from attention_tutorial.models.training import train
from attention_tutorial.models.transformer import BEGIN, PAD, Transformer
from attention_tutorial.models.translator import load_translator, pack_translator, unpack_translator
from tools.book import ROOT

RECORD = ROOT / "attention_tutorial" / "models" / "trained" / "translator.json"
STEPS, LEARNING_RATE = 600, 3e-3


def train_translator() -> Transformer:
    """Train the translator, in double precision."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        model = Transformer(len(ENGLISH), len(ITALIAN), generator=torch.Generator().manual_seed(0))
        train(model, TranslationBatches(STEPS), learning_rate=LEARNING_RATE, start=BEGIN, padding=PAD)
    finally:
        torch.set_default_dtype(before)
    return model


def exam(size: int = 1000, seed: int = 77) -> tuple[list[Any], torch.Tensor, torch.Tensor]:
    """Draw held-out sentences that no chapter draws: the sentences, their English ids and their Italian ones."""
    sentences = draw_sentences(size, generator=torch.Generator().manual_seed(seed), held_out=True)
    return (
        sentences,
        encode_english([sentence.english for sentence in sentences]),
        encode_italian([sentence.italian for sentence in sentences]),
    )


def translations(model: Transformer, size: int = 1000) -> list[str]:
    """Return a model's greedy translations in the exam."""
    return [spell_italian(ids) for ids in greedy(model, exam(size)[1], max_length=24).tokens]


def exact_match(model: Transformer, size: int = 1000) -> float:
    """Share of the exam that a model translates right to the last word."""
    sentences = exam(size)[0]
    return sum(text == one.italian for text, one in zip(translations(model, size), sentences, strict=True)) / size


@torch.no_grad()
def logits_of(model: Transformer, size: int = 1000) -> torch.Tensor:
    """Logits at every word of the exam, where all words before are right."""
    _, source, target = exam(size)
    logits: torch.Tensor = model(source, shift_right(target, BEGIN), need_weights=False)[0]
    return logits[target != PAD]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Train the translator of chapter 7 and store its numbers.")
    parser.add_argument("--check", action="store_true", help="write nothing; print what is the same on every processor")
    checks = parser.parse_args().check
    model = train_translator()
    if checks:
        sentences = "\n".join(translations(load_translator(torch.float64)))
        print(f"the kept translator writes {hashlib.sha256(sentences.encode()).hexdigest()[:16]}")
        print(f"one trained anew is right in at least 98 %: {exact_match(model) >= 0.98}")
        raise SystemExit
    record = pack_translator(model)
    shipped = unpack_translator(record, torch.float64)
    difference = (logits_of(model) - logits_of(shipped)).abs().max().item()
    matches = {"in double precision": exact_match(model), "as it is kept": exact_match(shipped)}
    record["loss_of_precision"] = {"largest_difference_of_a_logit": round(difference, 4), "exact_match": matches}
    RECORD.parent.mkdir(exist_ok=True)
    lines = (f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in record.items())
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{RECORD.name}: {RECORD.stat().st_size / 1000:.0f} kB, {record['loss_of_precision']}")
