"""Laws of the clinic's patients: each has its fault, and no other."""

import pytest
import torch
import torch.nn.functional as F

from attention_tutorial.data.copying import shift_right
from attention_tutorial.data.translation import draw_sentences, encode_english, encode_italian
from attention_tutorial.models.faulty import FAULTS, load_faulty, swap_keys_and_values, train_faulty
from attention_tutorial.models.transformer import BEGIN, PAD
from attention_tutorial.testing import BrokenLaws, check_layer

TINY = {"steps": 2, "batch_size": 4, "d_model": 8, "num_heads": 2}
DRAWN = draw_sentences(6, generator=torch.Generator().manual_seed(0))
SOURCE = encode_english([sentence.english for sentence in DRAWN])
TARGET = encode_italian([sentence.italian for sentence in DRAWN])
OTHER = torch.cat([TARGET[:, :3], TARGET.roll(1, 0)[:, 3:]], dim=1)  # the same up to the third word


pytestmark = pytest.mark.usefixtures("double")


def signs(patient):
    """What moves: the step at the word to be said, the network before a changed word, all of it with more padding."""
    network, read = patient.network, patient.reads(TARGET, BEGIN)
    other = torch.cat([read[:, :3], read.roll(1, 0)[:, 3:]], dim=1)
    with torch.no_grad():
        pairs = {
            "step": (patient.step(SOURCE, TARGET)[:, :4], patient.step(SOURCE, OTHER)[:, :4]),
            "network": (network(SOURCE, read)[0][:, :3], network(SOURCE, other)[0][:, :3]),
            "padding": (network(SOURCE, read)[0], network(F.pad(SOURCE, (0, 5)), read)[0]),
        }
    return {name for name, (a, b) in pairs.items() if not torch.allclose(a, b, atol=1e-9)}


SIGNS = {"no shift": {"step"}, "mask too far": {"step", "network"}, "padding open": {"padding"}}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_patient_has_the_signs_of_its_fault_and_no_others(fault):
    (patient,) = train_faulty(fault, **TINY)
    assert signs(patient) == SIGNS.get(fault, set())


@pytest.mark.parametrize(
    ("fault", "laws"),
    [("healthy", set()), ("W^O missing", {"heads"}), ("mask too far", {"agreement", "future"})],
)
def test_the_attention_of_a_patient_breaks_the_laws_of_its_fault_and_no_others(fault, laws):
    (patient,) = train_faulty(fault, **TINY)
    attention, broken = patient.network.decoder[0].attention, set()
    for law in check_layer(
        attention, 8, num_heads=2, projections="w_q w_k w_v w_o", causal=True, collect=True,
        call=lambda layer, x: layer(x, is_causal=True)[0],
    ):  # fmt: skip
        try:
            law()
        except BrokenLaws:
            broken.add(law.name)
    assert broken == laws


@pytest.mark.parametrize("fault", FAULTS)
def test_a_healthy_step_is_the_network_on_the_shifted_target(fault):
    (patient,) = train_faulty(fault, **TINY)
    with torch.no_grad():
        shifted = patient.network(SOURCE, shift_right(TARGET, BEGIN), need_weights=False)[0]
    assert torch.equal(patient.step(SOURCE, TARGET), shifted) == (fault != "no shift")


def test_an_exchange_after_training_is_undone_by_another():
    (healthy,) = train_faulty("healthy", **TINY)
    (patient,) = train_faulty("keys and values exchanged", **TINY)
    assert torch.equal(healthy.losses, patient.losses)
    assert not torch.allclose(healthy.step(SOURCE, TARGET), patient.step(SOURCE, TARGET), atol=1e-6)
    swap_keys_and_values(patient.network)
    assert torch.equal(healthy.step(SOURCE, TARGET), patient.step(SOURCE, TARGET))


def test_an_owner_s_score_is_the_share_of_words_that_the_step_says():
    (patient,) = train_faulty("healthy", **TINY)
    unseen = draw_sentences(100, generator=torch.Generator().manual_seed(5), held_out=True)
    target = encode_italian([sentence.italian for sentence in unseen])
    predicted = patient.step(encode_english([sentence.english for sentence in unseen]), target).argmax(-1)
    right, words = 0, 0
    for row, wanted in zip(predicted.tolist(), target.tolist(), strict=True):
        for a, b in zip(row, wanted, strict=True):
            right, words = right + (b != PAD and a == b), words + (b != PAD)
    assert patient.score == pytest.approx(right / words)


def test_seven_are_admitted_and_the_last_is_well():
    patients = load_faulty("a b c d e f g", steps=3)
    assert [patient.name for patient in patients] == list("abcdefg")
    assert torch.equal(patients[4].losses, patients[6].losses)
    assert [signs(patient) for patient in patients] == [
        {"padding"}, {"step", "network"}, set(), set(), set(), {"step"}, set()
    ]  # fmt: skip


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match=r"fault must be one of healthy, no shift, .*; got 'tired'"):
        train_faulty("tired")
    with pytest.raises(ValueError, match="names must be 7; got 2"):
        load_faulty("one two")
