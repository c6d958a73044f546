"""Right answers written in another way, with loops over single numbers: an oracle for the tables of the assignments.

Each takes the values of a variant and returns an answer.
"""

import math

import torch


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
        squares = sum(one * one for one in x.tolist())
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
