"""Right answers written in another way, with loops over single numbers: an oracle for the tables of the assignments.

Each takes the values of a variant and returns an answer.
"""

import math
import random

import torch
from masters import assignment

from attention_classroom.assignment import Variant


def softmax(numbers):
    """Of a list of numbers, some of which may be minus infinity."""
    largest = max(numbers)
    powers = [math.exp(x - largest) for x in numbers]
    return [power / sum(powers) for power in powers]


def dot(a, b):
    return sum(x * y for x, y in zip(a.tolist(), b.tolist(), strict=True))


def average(weights, rows):
    return sum(weight * row for weight, row in zip(weights, rows, strict=True))


# ---- Chapter 1 -------------------------------------------------------------------------------------------------------


def look(v):
    def answer(state, states, centre):
        first, last = max(centre - v["left"], 0), min(centre + v["right"], len(states) - 1)
        inside = softmax([dot(state, states[j]) for j in range(first, last + 1)])
        weights = [0.0] * first + inside + [0.0] * (len(states) - 1 - last)
        return average(weights, states), torch.tensor(weights)

    return answer


def spread(v):
    def answer(decoder, encoder):
        rows = []
        for state in decoder:
            seen = [sum(row[j] for row in rows) for j in range(len(encoder))]
            rows.append(softmax([dot(state, h) - v["penalty"] * seen[j] for j, h in enumerate(encoder)]))
        return torch.tensor(rows)

    return answer


def recall(v):
    def turned(x, turn, times):
        return torch.linalg.matrix_power(turn if times >= 0 else turn.T, abs(times)) @ x

    def answer(table, turn, ids):
        n = ids.size(1)
        right = [0] * n
        for row in ids.tolist():
            for j in range(n):  # the state as it looks from position j
                parts = (v["fade"] ** (n - 1 - i) * turned(table[x], turn, j - i) for i, x in enumerate(row))
                right[j] += int((table @ sum(parts)).argmax()) == row[j]
        return [count / len(ids) for count in right]

    return answer


# ---- Chapter 2 -------------------------------------------------------------------------------------------------------


def near(v):
    def distance(q, k):
        apart = [x - y for x, y in zip(q.tolist(), k.tolist(), strict=True)]
        return sum(x * x if v["distance"] == "squared" else abs(x) for x in apart)

    def answer(query, key, value):
        weights = [softmax([-v["sharpness"] * distance(q, k) for k in key]) for q in query]
        return torch.stack([average(row, value) for row in weights]), torch.tensor(weights)

    return answer


def merge(v):
    base = math.e if v["base"] == "e" else int(v["base"])

    def answer(output_a, log_a, output_b, log_b):
        outputs, logs = [], []
        for a, l_a, b, l_b in zip(output_a, log_a.tolist(), output_b, log_b.tolist(), strict=True):
            larger = max(l_a, l_b)
            s_a, s_b = base ** (l_a - larger), base ** (l_b - larger)
            outputs.append((s_a * a + s_b * b) / (s_a + s_b))
            logs.append(larger + math.log(s_a + s_b) / math.log(base))
        return torch.stack(outputs), torch.tensor(logs)

    return answer


def needed(v):
    def count(weights):
        held = 0.0
        for number, weight in enumerate(sorted(weights, reverse=True), start=1):
            held += weight
            if held >= v["percent"] / 100:
                return number
        raise AssertionError

    def answer(query, key, factors):
        root = math.sqrt(query.size(1))
        rows = [[dot(q, k) / root for k in key] for q in query]
        return [sum(count(softmax([f * s for s in row])) for row in rows) / len(rows) for f in factors]

    return answer


# ---- Chapter 3 -------------------------------------------------------------------------------------------------------


def normed(v):
    def unit(x):
        squares = sum(item * item for item in x.tolist())
        size = math.sqrt(squares / (len(x) if v["norm"] == "mean square" else 1))
        return x / size if size else x

    return lambda query, key: torch.tensor([softmax([v["gain"] * dot(unit(q), unit(k)) for k in key]) for q in query])


def slope(v):
    f = {
        "over": lambda t: 1 / t,
        "root": lambda t: t**-0.5,
        "square": lambda t: t**2,
        "cube": lambda t: t**3,
        "under": lambda t: t**-2,
        "half": lambda t: t**0.5,
        "fourth": lambda t: t**4,
        "far under": lambda t: t**-3,
    }[v["factor"]]
    return lambda scores, t: torch.autograd.functional.jacobian(lambda t: (f(t) * scores).softmax(-1), torch.tensor(t))


def saturated(v):
    def answer(queries, keys, power):
        shares = []
        for query, key in zip(queries, keys, strict=True):
            rows = [softmax([dot(q, k) / len(q) ** power for k in key]) for q in query]
            shares.append(sum(max(row) > v["percent"] / 100 for row in rows) / len(rows))
        return shares

    return answer


# ---- Chapter 4 -------------------------------------------------------------------------------------------------------


def shared(v):
    def answer(query, key, value):
        h, g = len(query), len(key)
        heads, weights = [], []
        for i in range(h):
            own = ((i // (h // g) if v["order"] == "neighbours" else i) + v["first"]) % g
            rows = [softmax([dot(q, k) / math.sqrt(len(q)) for k in key[own]]) for q in query[i]]
            weights.append(rows)
            heads.append(torch.stack([average(row, value[own]) for row in rows]))
        return torch.stack(heads), torch.tensor(weights)

    return answer


def mixed(v):
    def answer(query, key, mix):
        numbers = mix.tolist() if v["taken"] == "rows" else mix.T.tolist()
        root = math.sqrt(query.size(-1))
        old = [[[dot(q, k) / root for k in key[i]] for q in query[i]] for i in range(len(query))]
        if v["place"] == "after":
            old = [[softmax(row) for row in head] for head in old]
        new = [average(row, torch.tensor(old)) + v["own"] * torch.tensor(old[i]) for i, row in enumerate(numbers)]
        if v["place"] == "before":
            new = [torch.tensor([softmax(row) for row in head.tolist()]) for head in new]
        return torch.stack(new)

    return answer


def ranks(v):
    def answer(x, w_q, w_k, head_counts):
        means = []
        for h in head_counts:
            d, counts = w_q.size(1) // h, []
            for i in range(h):
                own = slice(i * d, (i + 1) * d)
                values = torch.linalg.svd((x @ w_q[:, own]) @ (x @ w_k[:, own]).T)[1].tolist()
                counts.append(sum(value > v["percent"] / 100 * values[0] for value in values))
            means.append(sum(counts) / h)
        return means

    return answer


# ---- Chapter 5 -------------------------------------------------------------------------------------------------------


def window_mask(v):
    def sees(i, j):
        return j <= i and (j > i - v["window"] or j in range(v["sinks"]))

    return lambda n: torch.tensor([[sees(i, j) for j in range(n)] for i in range(n)])


def packed_mask(v):
    def answer(ids):
        documents, number = [], 0
        for token in ids.tolist():
            is_separator = token == v["separator"]
            number += is_separator and v["side"] == "begins"
            documents.append(number)
            number += is_separator and v["side"] == "ends"
        return torch.tensor([[b == a and j <= i for j, b in enumerate(documents)] for i, a in enumerate(documents)])

    return answer


def leaked(v):
    def answer(scores, mask, fills):
        shares = []
        for fill in fills:
            leaks = []
            for row, opened in zip((scores / v["divisor"]).tolist(), mask.tolist(), strict=True):
                closed = [fill if v["how"] == "put" else s + fill for s in row]
                weights = softmax([s if o else c for s, o, c in zip(row, opened, closed, strict=True)])
                if any(opened):
                    leaks.append(sum(w for w, o in zip(weights, opened, strict=True) if not o))
            shares.append(sum(leaks) / len(leaks))
        return shares

    return answer


# ---- Chapter 6 -------------------------------------------------------------------------------------------------------


def kinds(v):
    def kind(content, here, moved):
        n = len(here)
        pairs = [(i, j) for i in range(n) for j in range(n)]
        added = {(i, j): float(here[i, j] - content[i, j]) for i, j in pairs}
        if any(abs(float(moved[i, j] - here[i, j])) > 1e-6 for i, j in pairs):
            return "added"
        if all(abs(x) <= 1e-6 for x in added.values()):
            return "none"
        alike = all(abs(added[p] - added[q]) <= 1e-6 for p in pairs for q in pairs if p[0] - p[1] == q[0] - q[1])
        return "bias" if alike else "rotary"

    return lambda *given: torch.tensor([v["codes"][kind(*head)] for head in zip(*given, strict=True)])


def pairs_of(x, v):
    """The pairs of features, as complex numbers: a turn is then a product."""
    half = len(x) // 2
    places = [(i, i + half) if v["pairs"] == "halves" else (2 * i, 2 * i + 1) for i in range(half)]
    return places, [complex(x[a], x[b]) for a, b in places]


def turn(v, i, d, t):
    angle = t * v["base"] ** (-2 * i / d)
    return complex(math.cos(angle), math.sin(angle))


def ask(v):
    def answer(key, back):
        places, numbers = pairs_of(key, v)
        query, size = torch.zeros(len(key)), math.sqrt(dot(key, key))
        for i, ((a, b), z) in enumerate(zip(places, numbers, strict=True)):
            z = z * turn(v, i, len(key), -back) * v["length"] / size
            query[a], query[b] = z.real, z.imag
        return query

    return answer


def held(v):
    def answer(query, key, back, lengths):
        d = len(key)
        (_, q), (_, k) = pairs_of(query, v), pairs_of(key, v)
        root = math.sqrt(d) if v["scaled"] == "divided" else 1

        def score(s, t):  # both are turned, each to its own place
            both = [(z * turn(v, i, d, t), w * turn(v, i, d, s)) for i, (z, w) in enumerate(zip(q, k, strict=True))]
            return sum((z.conjugate() * w).real for z, w in both) / root

        weights = []
        for n in lengths:
            row = softmax([score(s, n - 1) for s in range(n)])
            weights.append(row[n - 1 - back] if back < n else 0)
        return weights

    return answer


# ---- Chapter 7 -------------------------------------------------------------------------------------------------------


def allowed(v):
    def answer(source, target):
        n, m = source.size(1), target.size(1)
        row = [("source", i) for i in range(n)], [("target", i) for i in range(m)]
        row = row[0] + row[1] if v["order"] == "source" else row[1] + row[0]

        def sees(ids, asks, key):
            if key[0] == "source":
                near = asks[0] == "target" or v["reads"] == "both ways" or key[1] <= asks[1]
                return near and ids[key[1]] != v["padding"]
            return asks[0] == "target" and key[1] <= asks[1]

        return torch.tensor([[[sees(ids, asks, key) for key in row] for asks in row] for ids in source.tolist()])

    return answer


def layer_norm(x, gain, shift, like=None):
    """Of one vector; ``like`` is the one whose mean and deviation are taken."""
    like = x if like is None else like
    mean = sum(like.tolist()) / len(like)
    deviation = math.sqrt(sum((y - mean) ** 2 for y in like.tolist()) / len(like) + 1e-5)
    return (x - mean) / deviation * gain + shift


def credit(v):
    def answer(parts, gain, shift, readout, bias, right, wrong):
        sign = 1 if v["sign"] == "for" else -1
        columns = []
        for i in range(parts.size(1)):
            apart = sign * (readout[right[i]] - readout[wrong[i]])
            path, nothing = parts[:, i].sum(0), torch.zeros_like(shift)
            mean = path.mean()
            share = [float((layer_norm(x[i] + mean - x[i].mean(), gain, nothing, path)) @ apart) for x in parts]
            rest = float(apart @ shift) + sign * float(bias[right[i]] - bias[wrong[i]])
            columns.append({"first": [rest, *share], "last": [*share, rest], "left out": share}[v["rest"]])
        result = torch.tensor(columns)  # (m, parts)
        return result if v["axes"] == "positions" else result.T

    return answer


def losses(v):
    def answer(parts, gain, shift, readout, bias, target):
        real = [i for i, x in enumerate(target.tolist()) if x != 0]

        def loss(path):
            total = 0.0
            for i in real:
                logits = readout @ layer_norm(path[i], gain, shift) + bias
                total -= math.log(softmax(logits.tolist())[int(target[i])])
            return total / len(real) / math.log({"nats": math.e, "bits": 2, "decimal digits": 10}[v["unit"]])

        result = [loss(parts.sum(0))]
        for k in range(len(parts)):
            instead = sum(parts[k, i] for i in real) / len(real) if v["removed"] == "mean" else 0 * parts[k, 0]
            before = torch.stack([parts[k, i - 1] for i in range(parts.size(1))])
            new = before if v["removed"] == "another" else instead.expand_as(parts[k])
            rest = [new if i == k else part for i, part in enumerate(parts)]
            result.append(loss(torch.stack(rest).sum(0)))
        return result

    return answer


# ---- Chapter 8 -------------------------------------------------------------------------------------------------------


def joined(v):
    base = math.e if v["base"] == "e" else int(v["base"])

    def answer(a, b, both):
        logs, outputs = [], []
        for i in range(len(a[0])):
            held = []
            for part, times in ((a, 1), (b, 1), (both, -1 if v["shared"] == "once" else -2)):
                top = float(part[0][i])
                total = float(part[1][i]) if v["holds"] == "part" else 1.0
                if top > -math.inf:
                    average = part[2][i] / total if v["holds"] == "part" else part[1][i]
                    held.append((top + math.log(total, base), times, average))
            top = max([log for log, _, _ in held], default=0.0)
            shares = [times * base ** (log - top) for log, times, _ in held]
            empty = torch.zeros_like(a[-1][i])
            outputs.append(average_of(shares, [o for _, _, o in held]) if held else empty)
            logs.append([top + math.log(sum(shares), base) if held else -math.inf])
        return torch.stack(outputs), torch.tensor(logs)

    return answer


def average_of(shares, rows):
    return sum(share * row for share, row in zip(shares, rows, strict=True)) / sum(shares)


def recent(v):
    def answer(query, keys, values, count):
        cache = [None] * len(keys)
        for word in range(count):  # as the words come in
            sinks = v["sinks"]
            slot = word if word < sinks else sinks + (word - sinks) % (len(keys) - sinks)
            cache[slot] = word
        words = sorted(word for word in cache if word is not None)
        scores = []
        for word in words:
            newer = words[::-1].index(word) if v["distance"] == "cache" else count - 1 - word
            scores.append(dot(query, keys[cache.index(word)]) / math.sqrt(len(query)) - v["slope"] * newer)
        return average(softmax(scores), [values[cache.index(word)] for word in words])

    return answer


def visited(v):
    def answer(mask, sizes):
        m, n = mask.shape
        shares = []
        for size in sizes:
            tiles = {}
            for i in range(m):
                for j in range(n):
                    tiles.setdefault((i // size, j // (v["wide"] * size)), []).append(bool(mask[i, j]))
            weights = {at: len(pairs) if v["counts"] == "pairs" else 1 for at, pairs in tiles.items()}
            work = sum(weights[at] for at, pairs in tiles.items() if any(pairs))
            shares.append(work / sum(weights.values()))
        return shares

    return answer


# ---- Chapter 9 -----------------------------------------------------------------------------------------------------


def scored(v):
    def answer(q, k, b, target):
        means = []
        for head in range(len(q)):
            found = []
            for i, t in enumerate(target.tolist()):
                if t < 0:
                    continue
                scores = [dot(q[head][i], k[head][j]) / math.sqrt(len(k[head][j])) for j in range(i + 1)]
                row = softmax([s + v["slope"] * float(b[head][i - j]) for j, s in enumerate(scores)])
                decoy = {"left": row[t - 1], "right": row[t + 1], "begin": row[0], "others": (sum(row) - row[t]) / i}
                found.append([row[t], decoy[v["decoy"]]])
            means.append([sum(column) / len(found) for column in zip(*found, strict=True)])
        return torch.tensor(means)

    return answer


def closed(v):
    def mean_weight(queries, keys, w_q, w_k, target):
        found = []
        for i, t in enumerate(target.tolist()):
            own = queries[i] @ w_q
            row = softmax([dot(own, keys[j] @ w_k) / math.sqrt(len(own)) for j in range(i + 1)])
            found += [row[t]] * (t >= 0)
        return sum(found) / len(found)

    def answer(x, added, w_q, w_k, target):
        whole, values = mean_weight(x, x, w_q, w_k, target), []
        for part in added:
            less = x - part * (0.5 if v["removed"] == "half" else 1)
            if v["removed"] == "reversed":
                less = torch.stack([row + part[-1 - i] for i, row in enumerate(less)])
            one = mean_weight(
                x if v["path"] == "keys" else less, x if v["path"] == "queries" else less, w_q, w_k, target
            )
            values.append(whole - one if v["given"] == "lost" else one / whole)
        return torch.tensor(values)

    return answer


def lost(v):
    def answer(rows, whole, without, k):
        again, others = [], []
        for t, row in enumerate(rows.tolist()):
            for i in range(1, len(row)):
                earlier = [row[j] for j in range(k, i) if i >= k and row[j - k : j] == row[i - k : i]]
                chosen = {"last": earlier[-1:], "first": earlier[:1], "any": earlier}[v["time"]]
                extra = [float(w[t, i - 1] - whole[t, i - 1]) for w in without]
                if row[i] in chosen:
                    again.append(extra)
                if row[i] not in chosen or v["rest"] == "all":
                    others.append(extra)
        unit = {"nats": 1.0, "bits": math.log(2), "decimal digits": math.log(10)}[v["unit"]]
        return torch.stack([torch.tensor(part).mean(dim=0) / unit for part in (again, others)], dim=1)

    return answer


# ---- The project -----------------------------------------------------------------------------------------------------


def shifted(v):
    pad, begin, end = (v["special"].index(f"<{name}>") for name in ("pad", "begin", "end"))

    def answer(sentences):
        width = max(len(ids) for ids in sentences) + 1
        whole = torch.tensor([[begin, *ids, end] + [pad] * (width - 1 - len(ids)) for ids in sentences])
        before = whole[:, :-1].clone()
        before[before == end] = pad
        return before, whole[:, 1:]

    return answer


def translate(v):
    """By a table of all phrases, from the language's own sentences."""
    names = {"random": random}
    exec(assignment("project").cells(Variant("project", "", v))["language"], names)
    english, foreign = names["english_ids"], names["foreign_ids"]
    phrases = {}
    for noun in names["NOUNS"]:
        for article in ("the", "a"):
            for adjective in (None, *names["ADJECTIVES"]):
                words = [article, adjective, noun] if adjective else [article, noun]
                for role in ("acts", "is acted on"):
                    phrases[role, *english(words)] = foreign(names["phrase"](article, adjective, noun, role))
    verbs = {english([word])[0]: foreign([other])[0] for word, other in names["VERBS"].items()}
    verbs |= {english(["and"])[0]: foreign([names["AND"]])[0]}

    def answer(ids):
        written, role, phrase = [], "acts", []
        for i in [*ids, None]:
            if i is None or i in verbs:
                written += phrases[role, *phrase] if phrase else []
                written += [] if i is None else [verbs[i]]
                role, phrase = "is acted on", []
            else:
                phrase.append(i)
        return written

    return answer


def errors(v):
    def kind(w, r, stem):
        if w == r:
            return "right"
        if len(w) == len(r) and all(stem[a] == stem[b] for a, b in zip(w, r, strict=True)):
            return "form"
        return "order" if all(w.count(i) == r.count(i) for i in {*w, *r}) else "other"

    def answer(written, wanted, stem):
        kinds = [kind(w, r, stem) for w, r in zip(written, wanted, strict=True)]
        return [kinds.count(name) for name in v["counts"]]

    return answer
