"""Right and wrong answers to the exercises of chapter 4."""

import math

import torch

from . import Wrong

# ---- 4.1 count ----


def count(d_model, num_heads, d_head=None):
    return 4 * d_model * num_heads * (d_model // num_heads if d_head is None else d_head)


def count_layers(d_model, num_heads, d_head=None):
    inner = num_heads * (d_head or d_model // num_heads)
    layers = [torch.nn.Linear(d_model, inner, bias=False) for _ in range(3)]
    layers.append(torch.nn.Linear(inner, d_model, bias=False))
    return sum(p.numel() for layer in layers for p in layer.parameters())


def size(d_model, num_heads, d_head):
    return num_heads * (d_model // num_heads if d_head is None else d_head)


def count_float(d_model, num_heads, d_head=None, bias=False):
    d_head = math.floor(d_model / num_heads) if d_head is None else d_head
    return torch.tensor(4.0 * d_model * num_heads * d_head)


# ---- 4.2 split ----


def split(x, num_heads):
    batch, n, width = x.shape
    return x.reshape(batch, n, num_heads, width // num_heads).transpose(1, 2)


def split_by_chunk(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


def split_einsum(x, num_heads):
    return torch.einsum("bnhd->bhnd", x.unflatten(-1, (num_heads, -1)))


class SplitByWindow(torch.nn.Module):
    def forward(self, x, num_heads):
        width = x.size(-1) // num_heads
        return x.unfold(-1, width, width).transpose(1, 2)


def split_by_loop(x, num_heads, dim=-1):
    batch, n, d_head = *x.shape[:2], x.size(dim) // num_heads
    out = torch.zeros(batch, num_heads, n, d_head, dtype=torch.float32)
    for h in range(num_heads):
        out[:, h] = x[..., h * d_head : (h + 1) * d_head]
    return out


def view_alone(x, num_heads):
    batch, n, width = x.shape
    return x.view(batch, num_heads, n, width // num_heads)


def deal(x, num_heads):
    return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)


def mix_sentences(x, num_heads):
    batch, n, width = x.shape
    cut = x.reshape(batch, n, num_heads, width // num_heads)
    return cut.permute(2, 0, 1, 3).reshape(batch, num_heads, n, -1)


def shift_words(x, num_heads):
    return split(x, num_heads).roll(1, dims=2)


# ---- 4.3 join ----


def join(heads, w_o):
    return torch.cat(list(heads), dim=-1) @ w_o


def join_by_transpose(heads, w_o):
    return heads.transpose(0, 1).flatten(1) @ w_o


def join_by_sum(heads, w_o):
    return torch.einsum("hnd,hdm->nm", heads, w_o.unflatten(0, (heads.size(0), -1)))


class JoinByWord(torch.nn.Module):
    def forward(self, heads, w_o):
        return torch.stack([heads[:, i].reshape(-1) @ w_o for i in range(heads.size(1))])


def join_float(heads, w_o, bias=None):
    return torch.nn.functional.linear(torch.hstack(list(heads)).float(), w_o.T.float(), bias)


def blocks(w_o, heads):
    return w_o.unflatten(0, (heads.size(0), -1))


def stack_words(heads, w_o):
    return torch.cat(list(heads), dim=0).reshape(heads.size(1), -1) @ w_o


def feature_by_feature(heads, w_o):
    return heads.permute(1, 2, 0).flatten(1) @ w_o


# ---- 4.4 multi-head attention ----


def scrambled(t, num_heads):
    return t.reshape(num_heads, t.size(0), -1)


def cut(t, num_heads):
    return t.reshape(t.size(0), num_heads, -1).transpose(0, 1)


def attend(x, w_q, w_k, w_v, w_o, num_heads, *, split=cut, scale=None, axis=-1, merge=True, values=None):
    q, k, v = (split(x @ w, num_heads) for w in (w_q, w_k, w_v))
    scale = 1 / math.sqrt(q.size(-1)) if scale is None else scale
    weights = torch.softmax(q @ k.transpose(-2, -1) * scale, dim=axis)
    heads = weights @ (v if values is None else values(x @ w_v, num_heads))
    joined = (heads.transpose(0, 1) if merge else heads).reshape(x.size(0), -1)
    return joined @ w_o, weights


def attend_head_by_head(x, w_q, w_k, w_v, w_o, num_heads):
    outputs, maps = 0, []
    for q, k, v, o in zip(*(w.chunk(num_heads, dim=1) for w in (w_q, w_k, w_v)), w_o.chunk(num_heads), strict=True):
        maps.append(torch.softmax((x @ q) @ (x @ k).T / q.size(1) ** 0.5, dim=-1))
        outputs = outputs + maps[-1] @ (x @ v) @ o
    return outputs, torch.stack(maps)


def attend_einsum(x, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = ((x @ w).unflatten(-1, (num_heads, -1)) for w in (w_q, w_k, w_v))
    weights = (torch.einsum("ihd,jhd->hij", q, k) / q.size(-1) ** 0.5).softmax(-1)
    return torch.einsum("hij,jhd->ihd", weights, v).flatten(1) @ w_o, weights


class Circuits(torch.nn.Module):
    def forward(self, x, w_q, w_k, w_v, w_o, num_heads):
        d_head = w_q.size(1) // num_heads
        qk = torch.stack([a @ b.T for a, b in zip(w_q.split(d_head, 1), w_k.split(d_head, 1), strict=True)])
        vo = torch.stack([a @ b for a, b in zip(w_v.split(d_head, 1), w_o.split(d_head), strict=True)])
        weights = torch.softmax(x @ qk @ x.T / d_head**0.5, dim=-1)
        return [(weights @ x @ vo).sum(0), weights]


def of_width_of_model(x, w_q, w_k, w_v, w_o, num_heads):
    d_head, outputs, maps = x.size(1) // num_heads, [], []
    for i in range(num_heads):
        own = slice(i * d_head, (i + 1) * d_head)
        maps.append(torch.softmax((x @ w_q[:, own]) @ (x @ w_k[:, own]).T / math.sqrt(d_head), dim=-1))
        outputs.append(maps[-1] @ (x @ w_v[:, own]))
    return torch.cat(outputs, dim=-1) @ w_o[: num_heads * d_head], torch.stack(maps)


def one_projection(x, w_q, w_k, w_v, w_o, num_heads):
    first = [w[:, : w.size(1) // num_heads].repeat(1, num_heads) for w in (w_q, w_k)]
    return attend(x, *first, w_v, w_o, num_heads)


def joined_as(combine):
    def answer(x, w_q, w_k, w_v, w_o, num_heads):
        weights = attend(x, w_q, w_k, w_v, w_o, num_heads)[1]
        return combine(weights, x @ w_v, w_o, num_heads), weights

    return answer


def no_output_projection(x, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = (cut(x @ w, num_heads) for w in (w_q, w_k, w_v))
    weights = torch.softmax(q @ k.mT / q.size(-1) ** 0.5, dim=-1)
    return (weights @ v).transpose(0, 1).flatten(1), weights


def averaged(*inputs):
    output, weights = attend(*inputs)
    return output, weights.mean(0)


def with_values_of(position):
    def answer(x, w_q, w_k, w_v, w_o, num_heads):
        given = (w_q, w_k, w_v)[position]
        return attend(x, w_q, w_k, w_v, w_o, num_heads, values=lambda _, h: cut(x @ given, h))

    return answer


def scaled_by(of):
    return lambda x, w_q, w_k, w_v, w_o, h: attend(x, w_q, w_k, w_v, w_o, h, scale=of(x.size(1), h, w_q.size(1) // h))


# ---- 4.5 masks ----


def interleave(mask, num_heads):
    return ~mask.repeat_interleave(num_heads, dim=0)


def by_index(mask, num_heads):
    return mask[torch.arange(len(mask) * num_heads) // num_heads].int() == 0


def one_by_one(mask, num_heads, blocked=True):
    return torch.stack([own ^ blocked for own in mask for _ in range(num_heads)])


def expand(mask, num_heads):
    return mask.logical_not()[:, None].expand(-1, num_heads, -1, -1).flatten(0, 1)


# ---- 4.6 ablation ----


def moved(heads, w_o, i):
    d_v = heads.size(-1)
    return (heads[i] @ w_o[i * d_v : (i + 1) * d_v]).norm(dim=-1)


def moved_by_difference(heads, w_o, i):
    without = heads.clone()
    without[i] = 0
    return torch.linalg.vector_norm(join(heads, w_o) - join(without, w_o), dim=-1)


def moved_by_gram(heads, w_o, i):
    block = w_o.chunk(len(heads))[i]
    return torch.einsum("ni,ij,nj->n", heads[i], block @ block.T, heads[i]).clamp(min=0).sqrt()


class MovedBySwitch(torch.nn.Module):
    def forward(self, heads, w_o, i):
        on = 1 - torch.nn.functional.one_hot(torch.tensor(i), len(heads))[:, None, None].to(heads)
        return torch.nn.functional.pairwise_distance(join(heads * on, w_o), join(heads, w_o), eps=0)


def term(heads, w_o, i):
    return heads[i] @ w_o.reshape(heads.size(0), heads.size(2), -1)[i]


def remove_in_place(heads, w_o, i):
    before = join(heads, w_o)
    heads[i] = 0
    return (before - join(heads, w_o)).norm(dim=-1)


def scale_up(heads, w_o, i):
    h, before = heads.size(0), join(heads, w_o)
    without = heads.clone() * h / (h - 1)
    without[i] = 0
    return (before - join(without, w_o)).norm(dim=-1)


def remove_columns(heads, w_o, i):
    before = join(heads, w_o)
    after, d_v = before.clone(), heads.size(2)
    after[:, i * d_v : (i + 1) * d_v] = 0
    return (before - after).norm(dim=-1)


def remove_row(heads, w_o, i):
    without = w_o.clone()
    without[i] = 0
    return (join(heads, w_o) - join(heads, without)).norm(dim=-1)


def close_ranks(heads, w_o, i):
    others = [head for j, head in enumerate(heads) if j != i]
    return (join(heads, w_o) - join(others, w_o[: -heads.size(2)])).norm(dim=-1)


def put_average(axis):
    def answer(heads, w_o, i):
        other = heads.clone()
        other[i] = heads.mean(0) if axis == 0 else heads[i].mean(0)
        return (join(heads, w_o) - join(other, w_o)).norm(dim=-1)

    return answer


def remove_word(heads, w_o, i):
    without = heads.clone()
    without[:, i] = 0
    return (join(heads, w_o) - join(without, w_o)).norm(dim=-1)


def remove_feature(heads, w_o, i):
    without = heads.clone()
    without[:, :, i % heads.size(2)] = 0
    return (join(heads, w_o) - join(without, w_o)).norm(dim=-1)


def change_of_length(heads, w_o, i):
    return join(heads, w_o).norm(dim=-1) - (join(heads, w_o) - term(heads, w_o, i)).norm(dim=-1)


def join_scrambled(heads, w_o, i):
    without = heads.clone()
    without[i] = 0
    return (stack_words(heads, w_o) - stack_words(without, w_o)).norm(dim=-1)


# ---- 4.7 debugging ----


def repaired(x, w_q, w_k, w_v, w_o, num_heads, mask, *, cut=True, width=None, before=True, fill=-math.inf, merge=True,
             axis=-1):  # fmt: skip
    batch, n, d_model = x.shape
    d_head = w_q.size(1) // num_heads

    def heads_of(t):
        if cut:
            return t.reshape(batch, n, num_heads, d_head).transpose(1, 2)
        return t.reshape(batch, num_heads, n, d_head)

    q, k, v = (heads_of(x @ w) for w in (w_q, w_k, w_v))
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_model if width == "d_model" else d_head)
    scores = scores * d_head**0.5 if width == "none" else scores
    scores = scores * math.sqrt(d_head / (d_model // num_heads)) if width == "share" else scores
    if mask is not None and before:
        scores = scores.masked_fill(~mask[:, None], fill)
    weights = torch.softmax(scores, dim=axis)
    if not before:
        weights = weights * mask[:, None]
    joined = weights @ v
    joined = (joined.transpose(1, 2) if merge else joined).reshape(batch, n, -1)
    return joined @ w_o


def repaired_renormalised(x, w_q, w_k, w_v, w_o, num_heads, mask):
    q, k, v = ((x @ w).unflatten(-1, (num_heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
    weights = torch.softmax(q @ k.mT / q.size(-1) ** 0.5, dim=-1) * mask[:, None]
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return (weights @ v).transpose(1, 2).flatten(2) @ w_o


class RepairedByLog(torch.nn.Module):
    def forward(self, x, w_q, w_k, w_v, w_o, num_heads, mask):
        q, k, v = (torch.stack((x @ w).chunk(num_heads, -1)) for w in (w_q, w_k, w_v))
        weights = (q @ k.mT / q.size(-1) ** 0.5 + mask.double().log()).softmax(-1)
        return torch.cat(list(weights @ v), dim=-1) @ w_o


def repaired_fused(x, w_q, w_k, w_v, w_o, num_heads, mask, dropout=0.0):
    q, k, v = ((x @ w).float().unflatten(-1, (num_heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
    heads = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask[:, None], dropout)
    return heads.transpose(1, 2).flatten(2) @ w_o.float()


def split_here(t, num_heads):
    return t.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def scrambled_here(t, num_heads):
    return t.reshape(len(t), num_heads, t.size(1), -1)


def dealt_here(t, num_heads):
    return t.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)


def cut_as(cut_q, cut_k, cut_v):
    def answer(x, w_q, w_k, w_v, w_o, num_heads, mask):
        q, k, v = (cut(x @ w, num_heads) for cut, w in zip((cut_q, cut_k, cut_v), (w_q, w_k, w_v), strict=True))
        weights = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(~mask[:, None], -math.inf).softmax(-1)
        return (weights @ v).transpose(1, 2).flatten(2) @ w_o

    return answer


def softmax_twice(x, w_q, w_k, w_v, w_o, num_heads, mask):
    q, k, v = (split_here(x @ w, num_heads) for w in (w_q, w_k, w_v))
    weights = torch.softmax(q @ k.mT / q.size(-1) ** 0.5, dim=-1).masked_fill(~mask[:, None], -math.inf).softmax(-1)
    return (weights @ v).transpose(1, 2).flatten(2) @ w_o


def minus_infinity_after(x, w_q, w_k, w_v, w_o, num_heads, mask):
    q, k, v = (split_here(x @ w, num_heads) for w in (w_q, w_k, w_v))
    weights = torch.softmax(q @ k.mT / q.size(-1) ** 0.5, dim=-1).masked_fill(~mask[:, None], -math.inf)
    return (weights @ v).transpose(1, 2).flatten(2) @ w_o


def masked_by(change):
    return lambda *inputs: repaired(*inputs[:-1], change(inputs[-1]))


def with_bugs(**bugs):
    return lambda *inputs: repaired(*inputs, **bugs)


def inverted(x, w_q, w_k, w_v, w_o, num_heads, mask):
    return repaired(x, w_q, w_k, w_v, w_o, num_heads, ~mask, fill=-1e9)


def unmasked(x, w_q, w_k, w_v, w_o, num_heads, mask):
    return repaired(x, w_q, w_k, w_v, w_o, num_heads, torch.ones_like(mask))


RIGHT = {
    "4.1": {"plain": count, "layers": count_layers, "float tensor": count_float},
    "4.2": {
        "plain": split,
        "chunks": split_by_chunk,
        "einsum": split_einsum,
        "windows": SplitByWindow(),
        "loop": split_by_loop,
    },
    "4.3": {
        "plain": join,
        "transpose": join_by_transpose,
        "sum": join_by_sum,
        "words": JoinByWord(),
        "float32": join_float,
    },
    "4.4": {"plain": attend, "head by head": attend_head_by_head, "einsum": attend_einsum, "circuits": Circuits()},
    "4.5": {"plain": interleave, "expand": expand, "index": by_index, "one by one": one_by_one},
    "4.6": {"plain": moved, "difference": moved_by_difference, "Gram": moved_by_gram, "switch": MovedBySwitch()},
    "4.7": {
        "plain": repaired,
        "renormalised": repaired_renormalised,
        "finite fill": with_bugs(fill=-1e9),
        "log": RepairedByLog(),
        "fused": repaired_fused,
    },
}

WRONG = [
    Wrong("4.1", "the output projection w_o is missing", lambda d, h, k=None: 3 * d * size(d, h, k)),
    Wrong("4.1", "you left d_head out", lambda d, h, k=None: 4 * d * d),
    Wrong("4.1", "rounded down", lambda d, h, k=None: 4 * d * h * (d / h if k is None else k)),
    Wrong("4.1", "you rounded d_head up", lambda d, h, k=None: 4 * d * h * (math.ceil(d / h) if k is None else k)),
    Wrong("4.1", "you ignore the d_head that is given", lambda d, h, k=None: 4 * d * h * (d // h)),
    Wrong("4.1", "you counted biases", lambda d, h, k=None: 4 * d * size(d, h, k) + 3 * size(d, h, k) + d),
    Wrong("4.1", "you counted one head", lambda d, h, k=None: 4 * d * size(d, h, k) // h),
    Wrong("4.1", "w_o maps from h * d_head", lambda d, h, k=None: 3 * d * size(d, h, k) + d * d),
    Wrong("4.1", "you counted w_o once for each head", lambda d, h, k=None: (3 + h) * d * size(d, h, k)),
    Wrong("4.1", "all heads share one", lambda d, h, k=None: 3 * (size(d, h, k) // h) ** 2 + d * size(d, h, k)),
    Wrong("4.1", "four matrices of 11 times 15", lambda d, h, k=None: 5 * d * size(d, h, k)),
    Wrong("4.1", "must be one number", lambda d, h, k=None: (d, size(d, h, k))),
    Wrong("4.1", "you rounded d_head up to 7; 55", lambda d, h, k=None: 4 * d * h * (round(d / h) if k is None else k)),
    Wrong("4.1", "here 6, not d_model", lambda d, h, k=None: 4 * d * h * (d if k is None else k)),
    Wrong("4.2", "your heads are scrambled", view_alone, mistake=9),
    Wrong("4.2", "swap axes 1 and 2", lambda x, h: x.unflatten(-1, (h, -1)), mistake=9),
    Wrong("4.2", "you dealt the features out in turn", deal),
    Wrong("4.2", "into d_head parts of h", lambda x, h: x.unflatten(-1, (-1, h))),
    Wrong("4.2", "your heads are in the wrong order", lambda x, h: split(x, h).flip(1)),
    Wrong("4.2", "yours holds those of head 1", lambda x, h: split(x, h).roll(-1, dims=1)),
    Wrong("4.2", "sentences of the batch are mixed up", mix_sentences),
    Wrong("4.2", "words are mixed up", shift_words),
    Wrong("4.2", "positions and features are swapped", lambda x, h: split(x, h).mT),
    Wrong("4.2", "the batch must stay first", lambda x, h: split(x, h).transpose(0, 1)),
    Wrong("4.2", "keep batch and heads as two axes", lambda x, h: split(x, h).flatten(0, 1)),
    Wrong("4.2", "all your heads hold the same features", lambda x, h: split(x, h)[:, :1].expand(-1, h, -1, -1)),
    Wrong("4.2", "inside the heads", lambda x, h: split(x, h).flip(-1)),
    Wrong("4.2", "not those of x", lambda x, h: 2 * split(x, h)),
    Wrong("4.2", "must be a tensor", lambda x, h: "heads"),
    Wrong("4.2", "you return 3 pieces", lambda x, h: x.chunk(h, dim=-1)),
    Wrong("4.2", "every head holds all features", lambda x, h: x[:, None].expand(-1, h, -1, -1)),
    Wrong("4.2", "along the positions", lambda x, h: torch.cat(x.chunk(h, dim=-1), dim=1)),
    Wrong("4.3", "a reshape alone puts several words", stack_words, mistake=9),
    Wrong("4.3", "the product with w_o is missing", lambda heads, w_o: torch.cat(list(heads), dim=-1)),
    Wrong("4.3", "in the wrong order, too", lambda heads, w_o: heads.reshape(heads.size(1), -1)),
    Wrong("4.3", "you joined feature by feature", feature_by_feature),
    Wrong("4.3", "in the wrong order: head 0 comes first", lambda heads, w_o: join(heads.flip(0), w_o)),
    Wrong("4.3", "you averaged the heads", lambda heads, w_o: join(heads, w_o) / heads.size(0)),
    Wrong("4.3", "through the first block", lambda heads, w_o: heads.sum(0) @ w_o[: heads.size(2)]),
    Wrong("4.3", "missing from your output: [1, 2]", lambda heads, w_o: heads[0] @ w_o[: heads.size(2)]),
    Wrong("4.3", "2 times what they should be", lambda heads, w_o: 2 * join(heads, w_o)),
    Wrong("4.3", "words are mixed up", lambda heads, w_o: join(heads.roll(1, dims=1), w_o)),
    Wrong("4.3", "cannot be multiplied", lambda heads, w_o: torch.cat(list(heads), dim=0) @ w_o),
    Wrong("4.3", "heads or features are in the wrong order", lambda heads, w_o: join(heads.flip(-1), w_o)),
    Wrong("4.3", "missing from your output: [2]", lambda heads, w_o: join(heads[:-1], w_o[: -heads.size(2)])),
    Wrong("4.3", "must be added up", lambda heads, w_o: heads @ blocks(w_o, heads)),
    Wrong("4.3", "through all blocks", lambda heads, w_o: (heads.sum(0) @ blocks(w_o, heads)).sum(0)),
    Wrong("4.3", "head 0 goes through block 2", lambda heads, w_o: heads.sum(0) @ blocks(w_o, heads)[-1]),
    Wrong("4.3", "rounded to 2 decimals", lambda heads, w_o: join(heads, w_o).round(decimals=2)),
    Wrong("4.4", "you divided by sqrt(d_model)", scaled_by(lambda d, h, k: d**-0.5), mistake=1),
    Wrong("4.4", "you did not scale them", scaled_by(lambda d, h, k: 1.0), mistake=2),
    Wrong("4.4", "you divided by num_heads", scaled_by(lambda d, h, k: 1 / h), mistake=2),
    Wrong("4.4", "you divided by d_head, not by its square root", scaled_by(lambda d, h, k: 1 / k), mistake=3),
    Wrong("4.4", "you divided by sqrt(num_heads)", scaled_by(lambda d, h, k: h**-0.5), mistake=2),
    Wrong("4.4", "you divided by sqrt(num_heads) as well", scaled_by(lambda d, h, k: (h * k) ** -0.5)),
    Wrong("4.4", "your scores are too large by a factor of 2", scaled_by(lambda d, h, k: 2 * k**-0.5)),
    Wrong("4.4", "you multiplied by sqrt(d_model)", scaled_by(lambda d, h, k: d**0.5), mistake=4),
    Wrong("4.4", "your heads are scrambled", lambda *a: attend(*a, split=scrambled), mistake=9),
    Wrong("4.4", "joined the heads without transposing back", lambda *a: attend(*a, merge=False), mistake=9),
    Wrong("4.4", "your values are scrambled", lambda *a: attend(*a, values=scrambled)),
    Wrong("4.4", "runs over the queries", lambda *a: attend(*a, axis=-2), mistake=5),
    Wrong("4.4", "runs over axis 0", lambda *a: attend(*a, axis=0), mistake=5),
    Wrong("4.4", "the product with w_o is missing", no_output_projection),
    Wrong("4.4", "as if averaged over the heads", averaged, mistake=15),
    Wrong("4.4", "return two things", lambda *a: attend(*a)[0]),
    Wrong("4.4", "the output first", lambda *a: attend(*a)[::-1]),
    Wrong("4.4", "you averaged the keys", with_values_of(1)),
    Wrong("4.4", "you averaged the queries", with_values_of(0)),
    Wrong("4.4", "you used w_q for the keys too", lambda x, q, k, v, o, h: attend(x, q, q, v, o, h)),
    Wrong("4.4", "you used w_k for the queries too", lambda x, q, k, v, o, h: attend(x, k, k, v, o, h)),
    Wrong("4.4", "queries and keys are swapped", lambda x, q, k, v, o, h: attend(x, k, q, v, o, h)),
    Wrong("4.4", "are not used", lambda *a: (a[0] @ a[3] @ a[4], attend(*a)[1])),
    Wrong("4.4", "you added x", lambda *a: (attend(*a)[0] + a[0], attend(*a)[1])),
    Wrong("4.4", "d_model // num_heads", scaled_by(lambda d, h, k: (d // h) ** -0.5)),
    Wrong("4.4", "every number is too large by 1", lambda *a: (attend(*a)[0] + 1, attend(*a)[1])),
    Wrong("4.4", "your heads are d_model // num_heads wide", of_width_of_model),
    Wrong("4.4", "all your heads use the features of head 0", one_projection),
    Wrong(
        "4.4",
        "you averaged the heads",
        joined_as(lambda a, v, o, h: (a @ cut(v, h)).transpose(0, 1).flatten(1) @ o / h),
    ),
    Wrong(
        "4.4", "missing from your output: [0, 1]", joined_as(lambda a, v, o, h: (a @ cut(v, h))[-1] @ o.chunk(h)[-1])
    ),
    Wrong("4.4", "averaged before their features", joined_as(lambda a, v, o, h: (a @ v).mean(0) @ o)),
    Wrong("4.4", "the heads were summed", joined_as(lambda a, v, o, h: (a @ v).sum(0) @ o)),
    Wrong("4.4", "the values of head 0", joined_as(lambda a, v, o, h: torch.cat(list(a @ cut(v, h)[0]), dim=-1) @ o)),
    Wrong("4.4", "the weights of head 0", joined_as(lambda a, v, o, h: torch.cat(list(a[0] @ cut(v, h)), dim=-1) @ o)),
    Wrong("4.5", "wrong order", lambda mask, h: ~mask.repeat(h, 1, 1), mistake=10),
    Wrong("4.5", "the order is right, but", lambda mask, h: mask.repeat_interleave(h, dim=0), mistake=7),
    Wrong("4.5", "follow each other, and", lambda mask, h: mask.repeat(h, 1, 1), mistake=10),
    Wrong("4.5", "yours has four axes", lambda mask, h: ~mask[:, None].expand(-1, h, -1, -1)),
    Wrong("4.5", "floating-point", lambda mask, h: torch.where(interleave(mask, h), -math.inf, 0.0), mistake=8),
    Wrong("4.5", "those of no sentence", lambda mask, h: interleave(mask, h).flip(-1)),
    Wrong("4.5", "must have shape", lambda mask, h: ~mask),
    Wrong("4.5", "must be boolean; got int64", lambda mask, h: interleave(mask, h).long()),
    Wrong("4.5", "[1, 1, 1, 0, 0, 0]", lambda mask, h: interleave(mask, h).flip(0)),
    Wrong("4.6", "0.5 times what they should be", lambda *a: moved(*a) / 2),
    Wrong("4.6", "you took the norm over the words", lambda *a: term(*a).norm(dim=0)),
    Wrong("4.6", "one number for all words", lambda *a: term(*a).norm()),
    Wrong("4.6", "the square of the length", lambda *a: term(*a).square().sum(-1)),
    Wrong("4.6", "sum of absolute values", lambda *a: term(*a).abs().sum(-1)),
    Wrong("4.6", "mean of absolute values", lambda *a: term(*a).abs().mean(-1)),
    Wrong("4.6", "multiply by its block of w_o first", lambda heads, w_o, i: heads[i].norm(dim=-1)),
    Wrong("4.6", "what is left without head i", lambda *a: (join(*a[:2]) - term(*a)).norm(dim=-1)),
    Wrong("4.6", "not the output or the difference", lambda *a: join(*a[:2]) - term(*a)),
    Wrong("4.6", "asked for head 0", lambda heads, w_o, i: moved(heads, w_o, i - 1 if i else 2)),
    Wrong("4.6", "every h-th row", lambda heads, w_o, i: (heads[i] @ w_o[i :: heads.size(0)]).norm(dim=-1)),
    Wrong("4.6", "changed its arguments", remove_in_place),
    Wrong("4.6", "you scaled up the other heads", scale_up),
    Wrong("4.6", "you removed word i", remove_word),
    Wrong("4.6", "you removed one feature", remove_feature),
    Wrong("4.6", "that is the change of the length; take", change_of_length),
    Wrong("4.6", "without its sign", lambda *a: change_of_length(*a).abs()),
    Wrong("4.6", "you joined the heads by a reshape", join_scrambled, mistake=9),
    Wrong("4.6", "relative to the output", lambda *a: moved(*a) / join(*a[:2]).norm(dim=-1)),
    Wrong(
        "4.6",
        "the rows of head 0 in w_o for head 1",
        lambda heads, w_o, i: (heads[i] @ blocks(w_o, heads)[0]).norm(dim=-1),
    ),
    Wrong("4.6", "you removed columns of the output", remove_columns),
    Wrong("4.6", "you removed one row of w_o", remove_row),
    Wrong("4.6", "moved up to other rows", close_ranks),
    Wrong("4.6", "the average of the heads", put_average(0)),
    Wrong("4.6", "average over the words", put_average(1)),
    Wrong("4.7", "all three bugs are still there", with_bugs(cut=False, width="d_model", before=False)),
    Wrong("4.7", "one bug is left: the heads are still scrambled", with_bugs(cut=False), mistake=9),
    Wrong("4.7", "one bug is left: the scores are still divided", with_bugs(width="d_model"), mistake=1),
    Wrong("4.7", "one bug is left: the mask still comes after", with_bugs(before=False), mistake=6),
    Wrong("4.7", "two bugs are left: the heads", with_bugs(cut=False, width="d_model")),
    Wrong("4.7", "two bugs are left: the scores", with_bugs(width="d_model", before=False)),
    Wrong("4.7", "you did not scale them", with_bugs(width="none"), mistake=2),
    Wrong("4.7", "the wrong way round", inverted, mistake=7),
    Wrong("4.7", "your mask has no effect", unmasked),
    Wrong("4.7", "closed keys got the score 0", with_bugs(fill=0.0), mistake=6),
    Wrong("4.7", "joined without transposing back", with_bugs(merge=False), mistake=9),
    Wrong("4.7", "by the reshape; the heads are joined without", with_bugs(cut=False, merge=False), mistake=9),
    Wrong("4.7", "you used w_q for the keys too", lambda x, q, k, *rest: repaired(x, q, q, *rest)),
    Wrong("4.7", "besides, your mask has no effect", lambda *a: repaired(*a[:-1], torch.ones_like(a[-1]), cut=False)),
    Wrong("4.7", "sqrt(d_model // num_heads", with_bugs(width="share")),
    Wrong("4.7", "the output holds NaN; every query", minus_infinity_after),
    Wrong("4.7", "you took the softmax twice", softmax_twice),
    Wrong("4.7", "your mask is transposed", masked_by(lambda mask: mask.mT)),
    Wrong("4.7", "the mask of the first sentence", masked_by(lambda mask: mask[:1].expand_as(mask))),
    Wrong("4.7", "dealt out feature by feature", cut_as(dealt_here, dealt_here, dealt_here)),
    Wrong(
        "4.7",
        "the queries are cut rightly, the keys still",
        cut_as(split_here, scrambled_here, scrambled_here),
        mistake=9,
    ),
    Wrong("4.7", "the values still scrambled", cut_as(split_here, split_here, scrambled_here), mistake=9),
    Wrong("4.7", "the score -10", with_bugs(fill=-10.0)),
    Wrong("4.7", "rounded to 2 decimals", lambda *a: repaired(*a).round(decimals=2)),
    Wrong("4.7", "you averaged the keys", lambda x, q, k, v, *rest: repaired(x, q, k, k, *rest)),
    Wrong("4.7", "you added x", lambda *a: repaired(*a) + a[0]),
]
