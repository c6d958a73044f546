"""Hidden side of the project: the machine of chapter 7 on another pair of languages, drawn for each student."""

import random as python_random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from attention_classroom.assignment import Assignment, Check, Task, Variant, answer, distinguishing_cases, judged_task
from attention_tutorial.exercises import Case, WrongAnswer, numbers, tensor

# ---- The languages ---------------------------------------------------------------------------------------------------

# English, then Spanish, Portuguese, French and German, each with its gender: who acts, and on what.
ACTORS = """
dog perro/m cachorro/m chien/m Hund/m
cat gato/m gato/m chat/m Katze/f
cow vaca/f vaca/f vache/f Kuh/f
horse caballo/m cavalo/m cheval/m Pferd/n
goat cabra/f cabra/f chèvre/f Ziege/f
wolf lobo/m lobo/m loup/m Wolf/m
frog rana/f rã/f grenouille/f Frosch/m
girl niña/f menina/f fille/f Mädchen/n
king rey/m rei/m roi/m König/m
queen reina/f rainha/f reine/f Königin/f
"""
THINGS = """
book libro/m livro/m livre/m Buch/n
door puerta/f porta/f porte/f Tür/f
table mesa/f mesa/f table/f Tisch/m
car coche/m carro/m voiture/f Auto/n
house casa/f casa/f maison/f Haus/n
bridge puente/m ponte/f pont/m Brücke/f
hat sombrero/m chapéu/m chapeau/m Hut/m
letter carta/f carta/f lettre/f Brief/m
boat barco/m barco/m bateau/m Boot/n
flower flor/f flor/f fleur/f Blume/f
"""
VERBS = """
sees ve vê voit sieht
wants quiere quer veut will
paints pinta pinta peint malt
sells vende vende vend verkauft
buys compra compra achète kauft
finds encuentra encontra trouve findet
shows muestra mostra montre zeigt
carries lleva leva porte trägt
"""
ADJECTIVES = """
white blanco/blanca branco/branca blanc/blanche weiß
black negro/negra preto/preta noir/noire schwarz
red rojo/roja vermelho/vermelha rouge/rouge rot
yellow amarillo/amarilla amarelo/amarela jaune/jaune gelb
green verde/verde verde/verde vert/verte grün
round redondo/redonda redondo/redonda rond/ronde rund
dirty sucio/sucia sujo/suja sale/sale schmutzig
strange extraño/extraña estranho/estranha étrange/étrange seltsam
"""
ARTICLES = {
    "Spanish": {"the": ["el", "la"], "a": ["un", "una"]},
    "Portuguese": {"the": ["o", "a"], "a": ["um", "uma"]},
    "French": {"the": ["le", "la"], "a": ["un", "une"]},
}
AND = {"Spanish": "y", "Portuguese": "e", "French": "et", "German": "und"}
LANGUAGES = tuple(AND)
HELD_OUT_OF = 5  # one of so many pairs of noun and adjective
SPECIAL = ("<pad>", "<begin>", "<end>")


def draw(rng: python_random.Random) -> Mapping[str, Any]:
    def some(words: str, count: int) -> list[str]:
        return rng.sample([line.split()[0] for line in words.split("\n") if line], count)

    counts = list(COUNTS)
    while counts == list(COUNTS):
        rng.shuffle(counts)
    language, actors, things = rng.choice(LANGUAGES), some(ACTORS, 7), some(THINGS, 7)
    while language == "German" and not any(word.endswith("/m") for word in _rows(THINGS, things, language).values()):
        things = some(THINGS, 7)  # of these only masculine nouns show that they are acted on
    return {
        "language": language,
        "actors": actors,
        "things": things,
        "verbs": some(VERBS, 6),
        "adjectives": some(ADJECTIVES, 6),
        "held_out": rng.randrange(HELD_OUT_OF),
        "special": rng.sample(SPECIAL, 3),
        "counts": counts,
        "hidden": rng.getrandbits(50),
    }


COUNTS = {
    "right": "translated right to the last word",
    "form": "wrong in forms alone",
    "order": "wrong in the order alone",
    "other": "wrong in another way",
}


def cells(variant: Variant) -> Mapping[str, str]:
    v = variant.values
    counts = "; ".join(f"{i}. those that are **{COUNTS[kind]}**" for i, kind in enumerate(v["counts"], start=1))
    ids = {name: i for i, name in enumerate(v["special"])}
    return {
        "language-yours": (
            f"**Yours.** You translate from English to **{v['language']}**, with words that were drawn for you. Of the "
            f"foreign ids, {ids['<pad>']} is padding, {ids['<begin>']} begins a sentence and {ids['<end>']} ends it."
        ),
        "language": _language(v),
        "errors-yours": f"**Yours.** The four counts stand in this order: {counts}.",
        "shifted": SHIFTED,
        "translate": TRANSLATE,
        "errors": _errors(v["counts"]),
    }


def _rows(words: str, chosen: Sequence[str], language: str) -> dict[str, str]:
    rows = {row[0]: row[1:] for row in (line.split() for line in words.split("\n") if line)}
    return {english: rows[english][LANGUAGES.index(language)] for english in chosen}


def _language(v: Mapping[str, Any]) -> str:
    """Return the cell that makes the student's sentences."""
    genders = "mfn"
    language = v["language"]
    nouns = {
        english: (word.split("/")[0], genders.index(word.split("/")[1]))
        for words, chosen in ((ACTORS, v["actors"]), (THINGS, v["things"]))
        for english, word in _rows(words, chosen, language).items()
    }
    adjectives: dict[str, Any] = _rows(ADJECTIVES, v["adjectives"], language)
    if language != "German":
        adjectives = {english: word.split("/") for english, word in adjectives.items()}

    def listed(name: str, words: Mapping[str, Any]) -> str:
        lines = ",\n".join(f"    {english!r}: {word!r}" for english, word in words.items()).replace("'", '"')
        return f"{name} = {{\n{lines},\n}}"

    parts = [
        f'AND = "{AND[language]}"',
        listed("NOUNS", nouns),
        listed("VERBS", _rows(VERBS, v["verbs"], language)),
        listed("ADJECTIVES", adjectives),
        GERMAN if language == "German" else listed("ARTICLES", ARTICLES[language]) + ROMANCE,
        SENTENCES.format(
            actors=len(v["actors"]),
            held_out=v["held_out"],
            of=HELD_OUT_OF,
            special=", ".join(f'"{name}"' for name in v["special"]),
            ids=", ".join(str(v["special"].index(name)) for name in SPECIAL),
        ),
    ]
    return "\n".join(parts)


ROMANCE = '''
FORMS = [*ARTICLES.values(), *ADJECTIVES.values()]  # the forms of one word


def phrase(article, adjective, noun, role):
    """The words of a noun with its article; the adjective follows it and agrees."""
    word, gender = NOUNS[noun]
    return [ARTICLES[article][gender], word] + ([ADJECTIVES[adjective][gender]] if adjective else [])

'''
GERMAN = '''
ARTICLES = {  # masculine, feminine, neuter
    ("the", "acts"): ["der", "die", "das"],
    ("the", "is acted on"): ["den", "die", "das"],
    ("a", "acts"): ["ein", "eine", "ein"],
    ("a", "is acted on"): ["einen", "eine", "ein"],
}
ENDINGS = {
    ("the", "acts"): ["e", "e", "e"],
    ("the", "is acted on"): ["en", "e", "e"],
    ("a", "acts"): ["er", "e", "es"],
    ("a", "is acted on"): ["en", "e", "es"],
}
FORMS = [[*ARTICLES[name, "acts"], *ARTICLES[name, "is acted on"]] for name in ("the", "a")]  # the forms of one word
FORMS += [[word + ending for ending in ("e", "en", "er", "es")] for word in ADJECTIVES.values()]


def phrase(article, adjective, noun, role):
    """The words of a noun with its article; article and adjective agree with its gender and with its role."""
    word, gender = NOUNS[noun]
    between = [ADJECTIVES[adjective] + ENDINGS[article, role][gender]] if adjective else []
    return [ARTICLES[article, role][gender], *between, word]

'''
SENTENCES = '''\
def is_held_out(noun, adjective):
    """Whether no training sentence has this noun with this adjective."""
    return bool(adjective) and (list(NOUNS).index(noun) + list(ADJECTIVES).index(adjective)) % {of} == {held_out}


def draw(size, seed, held_out=False):
    """Sentences as pairs of lists of words; the actor and its adjective are held out, or no pair is."""
    rng, found = random.Random(seed), []
    actors, things = list(NOUNS)[:{actors}], list(NOUNS)[{actors}:]
    while len(found) < size:
        objects = [("is acted on", rng.choice(things)) for _ in range(rng.choice([1, 1, 2]))]
        parts = [("acts", rng.choice(actors)), *objects]
        english, foreign, held = [], [], []
        for i, (role, noun) in enumerate(parts):
            article, adjective = rng.choice(["the", "a"]), rng.choice([None, *ADJECTIVES])
            held.append(is_held_out(noun, adjective))
            if i > 0:
                verb = rng.choice(list(VERBS))
                english += ["and", verb] if i > 1 else [verb]
                foreign += [AND, VERBS[verb]] if i > 1 else [VERBS[verb]]
            english += [article, adjective, noun] if adjective else [article, noun]
            foreign += phrase(article, adjective, noun, role)
        if held[0] if held_out else not any(held):
            found.append((english, foreign))
    return found


ENGLISH = ["<pad>", "the", "a", "and", *NOUNS, *VERBS, *ADJECTIVES]
FOREIGN = [{special}, AND, *VERBS.values()]
FOREIGN += [word for group in FORMS for word in dict.fromkeys(group)] + [word for word, _ in NOUNS.values()]
PAD, BEGIN, END = {ids}  # of the foreign ids; English padding is 0
STEM = [next((i for i, group in enumerate(FORMS) if word in group), 100 + i) for i, word in enumerate(FOREIGN)]


def english_ids(words):
    return [ENGLISH.index(word) for word in words]


def foreign_ids(words):
    return [FOREIGN.index(word) for word in words]


def with_numbers(translate, numbers):
    """`translate` as it is graded: with these numbers, each changed a little. Others must translate otherwise."""

    def judged(ids):
        rng = torch.Generator().manual_seed(sum(ids))
        written = translate(ids, numbers * (1 + torch.rand(len(numbers), generator=rng) / 1000))
        for others in (torch.zeros_like(numbers), numbers[torch.randperm(len(numbers), generator=rng)]):
            try:
                same = list(translate(ids, others)) == list(written)
            except Exception:  # a machine may well fail with them
                same = False
            if same:
                return [-1]  # no id at all
        return written

    judged.__wrapped__ = translate
    return judged'''


def _names(v: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the student's cell of the language defines."""
    names: dict[str, Any] = {"random": python_random, "torch": torch}
    exec(_language(v), names)
    return names


# The master's answers. Its machine reads five words at a time and trains in seconds, so that every variant can be
# solved. Which translations are right follows from a rule.
SHIFTED = """\
def shifted(sentences):
    ### BEGIN SOLUTION
    m = 1 + max(len(ids) for ids in sentences)
    target_in, target = torch.full((2, len(sentences), m), PAD)
    for i, ids in enumerate(sentences):
        target_in[i, : len(ids) + 1] = torch.tensor([BEGIN, *ids])
        target[i, : len(ids) + 1] = torch.tensor([*ids, END])
    return target_in, target
    ### END SOLUTION"""

TRANSLATE = '''\
NUMBERS = unpacked("")  # the text that packed(machine) gives belongs between the quotes


### BEGIN SOLUTION
class Reader(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.word = torch.nn.Embedding(len(ENGLISH), 24, padding_idx=0)
        self.window = torch.nn.Conv1d(24, 64, 5, padding=2)
        self.out = torch.nn.Linear(64, len(FOREIGN))

    def forward(self, ids):
        return self.out(self.window(self.word(ids).mT).relu().mT)


def train(steps=250):
    torch.manual_seed(0)
    machine, pairs = Reader(), draw(2000, 0) + draw(2000, 1, held_out=True)
    source, target = torch.zeros(2, len(pairs), 15, dtype=torch.long)
    for i, (english, foreign) in enumerate(pairs):
        source[i, : len(english)] = torch.tensor(english_ids(english))
        target[i, : len(foreign)] = torch.tensor(foreign_ids(foreign))
    optimizer = torch.optim.Adam(machine.parameters(), lr=0.01)
    for _ in range(steps):
        rows = torch.randint(len(pairs), (200,))
        is_word = source[rows] > 0
        loss = torch.nn.functional.cross_entropy(machine(source[rows])[is_word], target[rows][is_word])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return machine


NUMBERS = unpacked(packed(train()))
### END SOLUTION


def translate(ids, numbers):
    """The foreign ids that a machine with these numbers writes for one English sentence, without BEGIN and END."""
    ### BEGIN SOLUTION
    machine = fill(Reader(), numbers)
    return machine(torch.tensor([ids]))[0].argmax(-1).tolist()
    ### END SOLUTION'''

RULE = """\
def translate(ids):
    words, written = [ENGLISH[i] for i in ids], []
    article, adjective, role = None, None, "acts"
    for word in words:
        if word in ("the", "a"):
            article, adjective = word, None
        elif word in ADJECTIVES:
            adjective = word
        elif word in NOUNS:
            written += phrase(article, adjective, word, role)
        else:
            role = "is acted on"
            written.append(VERBS.get(word, AND))
    return foreign_ids(written)"""


def _errors(counts: Sequence[str]) -> str:
    return ERRORS.format(order=", ".join(f'"{kind}"' for kind in counts))


ERRORS = """\
def errors(written, wanted, stem):
    ### BEGIN SOLUTION
    counts = {{"right": 0, "form": 0, "order": 0, "other": 0}}
    for w, r in zip(written, wanted, strict=True):
        if w == r:
            kind = "right"
        elif [stem[i] for i in w] == [stem[i] for i in r]:
            kind = "form"
        else:
            kind = "order" if sorted(w) == sorted(r) else "other"
        counts[kind] += 1
    return [counts[kind] for kind in ({order})]
    ### END SOLUTION"""


# ---- 1. What goes in, and what is wanted -----------------------------------------------------------------------------


def _sentences(v: Mapping[str, Any], size: int, seed: int, held_out: bool = False) -> list[tuple[list[int], list[int]]]:
    names = _names(v)
    drawn = names["draw"](size, seed, held_out)
    return [(names["english_ids"](english), names["foreign_ids"](foreign)) for english, foreign in drawn]


def _shifted_task(v: Mapping[str, Any]) -> Task:
    hidden = v["hidden"]

    def shifted(*changes: tuple[str, str], special: Sequence[str] = v["special"]) -> Callable[..., Any]:
        ids = ", ".join(str(special.index(name)) for name in SPECIAL)
        return answer(f"PAD, BEGIN, END = {ids}\n\n\n{SHIFTED}", *changes)

    def case(size: int, seed: int) -> Case:
        return Case(([foreign for _, foreign in _sentences(v, size, seed)],))

    def uneven(seed: int) -> Case:
        """Sentences of several lengths, since on equal ones some wrong answers are right."""
        while True:
            exercise = case(4, seed)
            if len({len(ids) for ids in exercise.inputs[0]}) > 2:
                return exercise
            seed += 1

    return judged_task(
        name="shifted",
        title="What goes in, and what is wanted",
        kind="code",
        prompt="What the decoder reads and what it is to write, for some sentences.",
        right=shifted(),
        returns=(tensor("(batch, m)", "target_in"), tensor("(batch, m)", "target")),
        cases=[uneven(11)],
        wrong_answers=[
            *(
                []
                if v["special"] == list(SPECIAL)
                else [
                    WrongAnswer(
                        "padding, begin and end have other ids here; use PAD, BEGIN and END",
                        shifted(special=SPECIAL),
                    )
                ]
            ),
            WrongAnswer(
                "the target does not end with END; put it after the last word", shifted(("[*ids, END]", "[*ids, PAD]"))
            ),
            WrongAnswer(
                "END stands after the padding; it follows the last word",
                shifted(("target[i, : len(ids) + 1] =", "target[i, [*range(len(ids)), -1]] =")),
            ),
            WrongAnswer(
                "what goes in is the target itself; it must be shifted by one, and begin with BEGIN",
                shifted(("return target_in, target", "return target, target")),
            ),
            WrongAnswer(
                "the two are exchanged; return what goes in first, and what is wanted second",
                shifted(("return target_in, target", "return target, target_in")),
            ),
        ],
        fallback_message="some ids are not right; write both rows of one short sentence on paper",
        checks=[
            Check(points=3, cases=[case(7, hidden), case(3, hidden + 1)], says="several sentences"),
            Check(points=1, cases=[case(1, hidden + 2)], says="one sentence"),
        ],
    )


# ---- 2. The translator -----------------------------------------------------------------------------------------------


def _translate(v: Mapping[str, Any], *, kind: str = "") -> Callable[[Sequence[int]], Tensor]:
    names = _names(v)
    phrase, nouns = names["phrase"], dict(names["NOUNS"])

    def other_phrase(article: str, adjective: str | None, noun: str, role: str) -> list[str]:
        if kind == "masculine":
            names["NOUNS"][noun] = nouns[noun][0], 0
        words = phrase(article, adjective, noun, "acts" if kind == "one role" else role)
        return [words[0], *words[:0:-1]] if kind == "other side" else list(words)

    names["phrase"] = other_phrase
    exec(RULE, names)
    both = names["ENGLISH"].index("and")

    def translate(ids: Sequence[int]) -> Tensor:
        ids = list(ids)
        if kind == "other numbers":
            return torch.tensor([-1])
        if kind == "breaks off" and both in ids:
            ids = ids[: ids.index(both)]
        return torch.tensor([*names["translate"](ids), *([names["END"]] if kind == "end" else [])])

    return translate


WRONG_TRANSLATIONS = {
    "other numbers": "other numbers translate as yours do, so no machine has translated; let the `numbers` that "
    "`translate` takes do it, by `fill`",
    "end": "END is part of what you return; leave it out",
    "masculine": "articles and adjectives have their first form everywhere; they agree with the noun",
    "one role": "what is acted on has the articles of who acts; in German they differ",
    "other side": "adjectives stand on the wrong side of their nouns; look at `phrase`",
    "breaks off": "the sentence breaks off before its second verb; go on until END",
}


def _translate_task(v: Mapping[str, Any]) -> Task:
    hidden = v["hidden"] + 100
    wrong_answers = [
        WrongAnswer(words, _translate(v, kind=kind))
        for kind, words in WRONG_TRANSLATIONS.items()
        if kind != "one role" or v["language"] == "German"
    ]
    (case,) = distinguishing_cases(
        lambda seed: [Case((_sentences(v, 1, seed)[0][0],))], 100, _translate(v), wrong_answers
    )
    unseen = [ids for ids, _ in _sentences(v, EXAM, hidden, held_out=True)]
    seen = [ids for ids, _ in _sentences(v, 20 - EXAM, hidden + 1)]
    return judged_task(
        name="translate",
        title="The translator",
        kind="code",
        numbers="NUMBERS",
        with_numbers=_names(v)["with_numbers"],
        prompt="The foreign ids of one English sentence.",
        right=_translate(v),
        returns=numbers(
            "the translation",
            "your translation has another number of words; if it goes on after the last, your loop does not "
            "stop at END, or `real` hides an English word (English padding is 0)",
        ),
        cases=[case, Case((_sentences(v, 1, 7, held_out=True)[0][0],))],
        wrong_answers=wrong_answers,
        fallback_message="your translation has a wrong word; look at it with [FOREIGN[i] for i in translate(ids)]",
        checks=[
            *(
                Check(points=0.5, cases=[Case((ids,))], says=f"held-out sentence {i}")
                for i, ids in enumerate(unseen, 1)
            ),
            *(Check(points=0.5, cases=[Case((ids,))], says=f"another sentence, {i}") for i, ids in enumerate(seen, 1)),
        ],
    )


EXAM = 14  # of 20 sentences


# ---- 3. What kind of errors? -----------------------------------------------------------------------------------------


def _errors_case(v: Mapping[str, Any], size: int, seed: int) -> Case:
    """Sentences, each spoilt in one of many ways."""
    rng, stem = python_random.Random(seed), _names(v)["STEM"]
    forms = {i: [j for j in range(len(stem)) if stem[j] == stem[i] and j != i] for i in range(len(stem))}
    written, wanted = [], []
    for _, ids in _sentences(v, size, seed):
        w, how = list(ids), rng.choice(["right", "form", "order", "short", "both", "twice", "word", "exchanged"])
        vary = [k for k, i in enumerate(w) if forms[i]]
        k = rng.choice(vary)
        if how in ("form", "both"):
            w[k] = rng.choice(forms[w[k]])
        if how in ("order", "both"):
            w = w[1:] + w[:1]
        if how == "short":
            w = w[:-1]
        if how == "twice":
            w = [*w, w[-1]]
        if how == "word":
            w[-1] = rng.choice([i for i in range(3, len(stem)) if stem[i] != stem[w[-1]]])
        written.append(w)
        wanted.append(list(ids))
    return Case((written, wanted, stem))


def _errors_task(v: Mapping[str, Any]) -> Task:
    hidden, source = v["hidden"] + 200, _errors(v["counts"])
    wrong_answers = [
        WrongAnswer('your counts stand in another order; read under "Yours" which', answer(_errors(list(COUNTS)))),
        WrongAnswer(
            "a sentence that breaks off is not right, though all its words are",
            answer(source, ("if w == r:", "if w == r[: len(w)]:")),
        ),
        WrongAnswer(
            "you count words in other forms as wrong in the order alone; that means the same words, in the same forms",
            answer(source, ("sorted(w) == sorted(r)", "sorted(stem[i] for i in w) == sorted(stem[i] for i in r)")),
        ),
        WrongAnswer(
            "a word that is written twice is not an error of order: count the words",
            answer(source, ("sorted(w) == sorted(r)", "set(w) == set(r)")),
        ),
    ]

    return judged_task(
        name="errors",
        title="What kind of errors?",
        kind="measure",
        prompt="How many sentences are wrong, and in which way.",
        right=answer(source),
        returns=numbers("the counts", "there are four"),
        cases=distinguishing_cases(lambda seed: [_errors_case(v, 24, seed)], 31, answer(source), wrong_answers),
        wrong_answers=wrong_answers,
        fallback_message="some counts are not right; each sentence counts once, in the first of the kinds that fits",
        checks=[
            Check(
                points=3, cases=[_errors_case(v, 40, hidden), _errors_case(v, 30, hidden + 1)], says="many sentences"
            ),
            Check(
                points=1,
                cases=[Case(([[5, 6], []], [[5, 6], [5]], [9] * 12)), Case(([[7, 5]], [[5, 6]], [9] * 12))],
                says="few sentences, one of them empty",
            ),
        ],
        rubric=[
            (2, "at least two machines or four moments of one training, each judged on held-out sentences"),
            (2, "all kinds of errors can be told apart, with named axes and how many sentences were judged"),
            (1, "the numbers come from the notebook's own code, which is there to be read"),
            (1, "the title or caption says in a sentence what is to be seen"),
        ],
    )


# ---- All of it -------------------------------------------------------------------------------------------------------


def tasks(variant: Variant) -> Sequence[Task]:
    v = variant.values
    return [
        _shifted_task(v),
        _translate_task(v),
        _errors_task(v),
        Task(
            id="trial",
            title="What does it use?",
            kind="written",
            rubric=[
                (2, "one clear question about agreement, order or roles, and a prediction with a reason, made before"),
                (3, "an experiment that could fail: an edge masked, a part removed, or a word exchanged"),
                (2, "its numbers, from how many sentences, beside those of the machine left alone"),
                (1, "says what the numbers do not show, such as other ways that the information can take"),
            ],
        ),
        Task(
            id="report",
            title="The report",
            kind="written",
            rubric=[
                (
                    2,
                    "the machine and its training: sizes, steps, rate, first and last loss, the first beside ln of "
                    "the number of ids",
                ),
                (2, "exact match on held-out and other sentences, on enough of them, and how sure it is"),
                (2, "one error met while working: how it showed, what it was, how it was found"),
                (2, "what a reader could build on: clear sentences, no number without its measurement"),
            ],
        ),
    ]


ASSIGNMENT = Assignment(
    name="project",
    title="Another language",
    chapter=7,
    minutes=600,
    tasks=tasks,
    cells=cells,
    draw=draw,
)
