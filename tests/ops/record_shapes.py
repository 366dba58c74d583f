"""Records what PyTorch says of dtypes, sizes and strides: one exported graph with many calls.

Usage: python record_shapes.py OUT_DIR   (PyTorch 2.11; writes shapes.pt2, shapes_core.pt2)
The graphs' recorded values are what tests/ops/shapes_test.cpp compares the shape rules with.
"""
import io
import json
import os
import sys
import zipfile

import torch

F = torch.nn.functional


def unary(x, i, b):
    for name in ("abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp exp2 expm1 floor lgamma log log10 "
                 "log1p log2 logical_not neg reciprocal relu round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc "
                 "isnan isinf isfinite signbit square frac").split():
        yield getattr(torch, name)(x.t())
    for name in "abs exp sqrt sigmoid neg sin reciprocal relu sign bitwise_not logical_not square".split():
        yield getattr(torch, name)(i)
    for name in "exp sqrt logical_not bitwise_not".split():
        yield getattr(torch, name)(b)


def binary(x, h, i, i32, b, z, zi):
    others = (x, h, i, i32, b, z, zi, 2, 2.5, True)
    for f in (torch.add, torch.mul, torch.div, torch.maximum, torch.eq, torch.lt, torch.pow, torch.remainder):
        for a in (x, h, i, i32, z, zi):
            for o in others:
                if f is torch.maximum and not isinstance(o, torch.Tensor):
                    continue
                yield f(a, o)
    for a in (i, i32, b):
        for o in (i, i32, b, 3):
            yield torch.bitwise_and(a, o)
    for mode in ("floor", "trunc"):
        yield torch.div(x, i, rounding_mode=mode)
        yield torch.div(i, i32, rounding_mode=mode)
        yield torch.div(i, 2.5, rounding_mode=mode)
    yield torch.add(x, i, alpha=2)
    yield torch.sub(x, z, alpha=0.5)
    yield torch.rsub(x, 1)
    yield torch.floor_divide(i, 3)
    yield torch.pow(2, i)
    yield torch.pow(2.0, i)
    yield torch.pow(i, 2)
    yield torch.pow(i, 0.5)
    yield torch.pow(h, 3.0)
    yield torch.atan2(x, h)
    yield torch.atan2(i, i32)
    yield torch.logical_and(x, b)
    yield torch.where(b, x, h)
    yield torch.where(b, x, 1.5)
    yield torch.where(b, i, zi)
    yield torch.where(b, 1, 2.0)
    yield x.masked_fill(b, 3)
    yield i.masked_fill(b, True)
    yield torch.clamp(x, 0, 1)
    yield torch.clamp(i, 0, 1.5)
    yield torch.clamp(i, min=2)
    yield torch.lerp(x, x + 1, 0.3)
    yield torch.addcmul(x, x, h.float(), value=2)
    yield torch.fmod(x, 2)
    yield x.type_as(h)
    yield x.to(torch.int32)
    yield x.t().to(torch.float16)


def strided(p, q, c, e):
    # p: permuted, q: contiguous, c: channels last, e: expanded
    yield p + q
    yield q + p
    yield p * 2
    yield torch.exp(p)
    yield p + p
    yield c + 1
    yield c * c
    yield c + c.contiguous()
    yield c.contiguous() + c
    yield c + torch.ones(5, 1, 1)
    yield e + 1
    yield e + e
    yield e.clone()
    yield p.clone()
    yield c.clone()
    yield p[:, ::2].clone()
    yield p[:, ::2] + 1
    yield p[:, 1:3, 0] * 2
    yield torch.where(p > 0, q, p)
    yield p.contiguous()
    yield p.to(torch.float64)
    yield p.sum(1)
    yield p.sum(1, keepdim=True)
    yield p.mean((0, 2))
    yield c.mean((2, 3), keepdim=True)
    yield p.amax(-1)
    yield p.argmax(0)
    yield p.argmax()
    yield p.var(1)
    yield torch.var_mean(p, 2, correction=0)[0]
    yield p.std()
    yield p.prod(1)
    yield p.any(1)
    yield p.all()
    yield p.max(1)[0]
    yield p.max(1)[1]
    yield p.min(0, keepdim=True)[1]
    yield torch.logsumexp(p, 1)
    yield torch.linalg.vector_norm(p, 2, 1)
    yield p.cumsum(1)
    yield p.softmax(-1)
    yield p.softmax(0)
    yield p.log_softmax(1)
    yield torch.full_like(p, 3)
    yield torch.zeros_like(c)
    yield torch.ones_like(e)
    yield torch.zeros_like(p, dtype=torch.int64)
    yield p.new_zeros((2, 3))
    yield torch.cat([p, q], 1)
    yield torch.cat([c, c], 1)
    yield torch.stack([p, q], 2)
    yield F.pad(p, (1, 2, 0, 1))
    yield p.flip(0)
    yield p.roll(1, 0)
    yield p.repeat(2, 1, 1)
    yield p.repeat_interleave(2, 1)
    yield p.tril()
    yield F.layer_norm(p, p.shape[-1:])
    yield F.gelu(p)
    yield F.silu(p)
    yield F.softplus(p)
    yield F.hardtanh(p)
    yield F.leaky_relu(c)
    yield F.glu(q, -1)
    yield torch.diff(q, dim=1)


def views(p, q, c):
    yield q.view(-1)
    yield q.view(3, 2, 2, 6)
    yield q.reshape(6, -1)
    yield p.reshape(6, -1)
    yield p.flatten(1)
    yield p.permute(2, 0, 1)
    yield p.transpose(0, -1)
    yield p.unsqueeze(0)
    yield p.unsqueeze(-1)
    yield p.unsqueeze(1)
    yield q[:, :1].squeeze(1)
    yield q[:, :1].squeeze()
    yield q[:1, :1].expand(5, 2, 4, 6)
    yield q[:1].expand(3, -1, -1)
    yield q[:, 1]
    yield q[..., -1]
    yield q[:, -3:-1]
    yield q[:, 1::2]
    yield q[1:, :100]
    yield q.narrow(1, 1, 2)
    yield q.split(3, 2)[1]
    yield q.split([1, 3], 1)[1]
    yield q.chunk(3, 2)[2]
    yield q.unbind(1)[3]
    yield torch.movedim(q, 0, 2)
    yield q.diagonal(1, 1, 2)
    yield q.as_strided((2, 3), (6, 1), 4)
    yield q.mT
    yield q[0].t()
    yield q.unflatten(2, (2, 3))
    yield q.view(torch.int32)
    yield torch.ones(()).expand(2, 3)
    yield torch.arange(5)
    yield torch.arange(1, 9, 3)
    yield torch.arange(0, 1, 0.3)
    yield torch.linspace(0, 1, 5)
    yield torch.full((2, 3), 1.5)
    yield torch.full((2,), True)
    yield torch.eye(3)
    yield torch.zeros(2, 0, 3)


def products(q, w, bias, m, ids, idx):
    yield q @ q.mT
    yield q @ w.t()
    yield F.linear(q, w, bias)
    yield F.linear(q, w)
    yield m @ w.t()
    yield torch.addmm(bias, m, w.t(), beta=0.5)
    yield torch.bmm(q, q.mT)
    yield torch.matmul(q, w[0])
    yield torch.matmul(w[0], w.t())
    yield torch.matmul(w[0], w[0])
    yield torch.matmul(q[None], q.mT)
    yield torch.baddbmm(q.new_ones(()), q, q.mT, alpha=2)
    yield torch.outer(w[0], w[1])
    yield F.embedding(ids, w)
    yield q[ids]
    yield q[:, ids]
    yield q[ids, :, ids]
    yield q.permute(2, 0, 1)[:, ids]
    yield q.gather(1, idx)
    yield q.index_select(2, ids[0])
    yield torch.scatter(q, 1, idx, 1.0)
    yield q.scatter(1, idx, q)
    yield q.scatter_add(1, idx, q)
    yield torch.index_put(q, (ids,), q.new_ones(()), accumulate=True)
    yield torch.slice_scatter(q, q[:, :2], 1, 1, 3)
    yield torch.select_scatter(q, q[:, 0], 1, 2)
    yield torch.sort(q, 1)[0]
    yield torch.topk(q, 2, 1)[1]
    yield F.scaled_dot_product_attention(q[None], q[None], q[None], is_causal=True)
    r = q.view(3, 4, 2, 3).transpose(1, 2)
    yield F.scaled_dot_product_attention(r, r, r)
    yield torch.einsum("abc,dc->abd", q, w)
    yield torch.einsum("abc,abd->cd", q, q)
    yield torch.einsum("abc,dc,d->ba", q, w, bias)
    yield torch.einsum("abc->ca", q)
    yield F.pad(q, (2, 1), mode="reflect")
    yield F.pad(q, (2, 1), mode="replicate")
    yield F.rms_norm(q, (6,), w[0])
    yield F.dropout(q, 0.5, False)
    yield F.group_norm(q, 2)
    yield F.batch_norm(q, w.new_zeros(4), w.new_ones(4))


class Cases(torch.nn.Module):
    def forward(self, x, h, i, i32, b, z, zi, q, c, ids, idx, w, bias, m):
        p = q.permute(1, 0, 2)
        q2 = torch.ones(4, 3, 6)
        e = q[:, :1].expand(3, 5, 6)
        cases = (*unary(x, i, b), *binary(x, h, i, i32, b, z, zi), *strided(p, q2, c, e), *views(p, q, c),
                 *products(q, w, bias, m, ids, idx))
        return cases


def inputs():
    return (torch.ones(3, 4), torch.ones(3, 4, dtype=torch.float16), torch.ones(3, 4, dtype=torch.int64),
            torch.ones(4, dtype=torch.int32), torch.ones(3, 4, dtype=torch.bool), torch.ones(()),
            torch.ones((), dtype=torch.int64), torch.ones(3, 4, 6),
            torch.ones(2, 5, 3, 4).to(memory_format=torch.channels_last), torch.zeros(2, 2, dtype=torch.int64),
            torch.zeros(3, 4, 6, dtype=torch.int64), torch.ones(5, 6), torch.ones(5), torch.ones(7, 6))


def write(program, path):
    """An archive with the model.json deflated and nothing else that says something: there are no weights."""
    saved = io.BytesIO()
    torch.export.save(program, saved)
    archive = zipfile.ZipFile(saved)
    model = json.loads(archive.read(next(n for n in archive.namelist() if n.endswith("models/model.json"))))
    for node in model["graph_module"]["graph"]["nodes"]:  # stack traces name this machine's folders
        node["metadata"] = {}
    members = {"archive_format": "pt2", "byteorder": "little", "archive_version": "0",
               "models/model.json": json.dumps(model, separators=(",", ":")),
               "data/weights/model_weights_config.json": '{"config":{}}',
               "data/constants/model_constants_config.json": '{"config":{}}'}
    with zipfile.ZipFile(path + ".pt2", "w") as written:
        for name, text in members.items():
            member = zipfile.ZipInfo(f"{os.path.basename(path)}/{name}", (1980, 1, 1, 0, 0, 0))
            written.writestr(member, text, zipfile.ZIP_DEFLATED, 9)


if __name__ == "__main__":
    program = torch.export.export(Cases(), inputs())
    write(program, sys.argv[1] + "/shapes")
    write(program.run_decompositions(), sys.argv[1] + "/shapes_core")
