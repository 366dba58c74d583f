"""Records whole training steps and graphs of gradients from PyTorch, for tests/cases/training.

    python3 scripts/record/training_cases.py

Needs torch and safetensors; tsc and its tests need neither. A step is one graph: forward, backward and optimizer, its parameters,
statistics and optimizer's state buffers that it writes to. Besides what every case has (tests/cases/README.md), what they hold after
one step first, then the loss, a step has
    NAME/losses, NAME/wide_losses    20 losses of an ordinary training loop with torch.optim, in float32 and in float64
which tests/cases/training_test.cpp expects of 20 runs, each going on from the state that the last one left.
"""
import copy
import sys
import warnings

import torch
import torch.nn.functional as F
import torch.optim.adam as adam_module
from torch._decomp import core_aten_decompositions
from torch.export.experimental import _export_forward_backward
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from recorder import BAD, Family, Fn, inconsistency, model_of

warnings.filterwarnings("ignore")
aten = torch.ops.aten
STEPS = 20


# ---- models; each takes a batch and yields the loss

class Perceptron(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(6, 9), torch.nn.Linear(9, 3)

    def forward(self, x, target):
        return F.cross_entropy(self.down(F.relu(self.up(x))), target)


class Convolutional(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(2, 5, 3, padding=1, bias=False), torch.nn.BatchNorm2d(5)
        self.second, self.out = torch.nn.Conv2d(5, 5, 3, groups=5), torch.nn.Linear(5, 4)

    def forward(self, x, target):
        x = F.max_pool2d(F.relu(self.norm(self.first(x))), 2)
        x = F.adaptive_avg_pool2d(F.silu(self.second(x)), 1).flatten(1)
        return F.cross_entropy(self.out(x), target, label_smoothing=0.1)


class Transformer(torch.nn.Module):
    def __init__(self, width=8, heads=2, vocabulary=11):
        super().__init__()
        self.heads = heads
        self.tokens = torch.nn.Embedding(vocabulary, width)
        self.positions = torch.nn.Parameter(torch.randn(6, width) * 0.1)
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width, bias=False), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 12), torch.nn.Linear(12, width)
        self.head = torch.nn.Linear(width, vocabulary)

    def forward(self, ids, target):
        x = self.tokens(ids) + self.positions
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(y)
        x = x + self.down(F.gelu(self.up(self.norm2(x))))
        return F.cross_entropy(self.head(x).flatten(0, 1), target.flatten(), ignore_index=0)


class Llama(torch.nn.Module):
    """One block: RMS norm, rotary positions, grouped queries, a gated feed-forward, the head tied to the embedding."""

    def __init__(self, width=8, heads=4, key_heads=2, vocabulary=11):
        super().__init__()
        self.heads, self.key_heads, depth = heads, key_heads, width // heads
        self.tokens = torch.nn.Embedding(vocabulary, width)
        self.norm1, self.norm2, self.norm3 = (torch.nn.RMSNorm(width, eps=1e-5) for _ in range(3))
        self.q, self.k, self.v = (torch.nn.Linear(width, n * depth, bias=False) for n in (heads, key_heads, key_heads))
        self.o = torch.nn.Linear(width, width, bias=False)
        self.gate, self.up, self.down = (torch.nn.Linear(a, b, bias=False) for a, b in ((width, 12), (width, 12), (12, width)))
        angle = torch.arange(6)[:, None] / 10.0 ** (torch.arange(depth // 2) / depth)
        self.register_buffer("cos", torch.cat([angle, angle], -1).cos())
        self.register_buffer("sin", torch.cat([angle, angle], -1).sin())

    def rotate(self, x):
        a, b = x.chunk(2, -1)
        return x * self.cos + torch.cat([-b, a], -1) * self.sin

    def forward(self, ids, target):
        x = self.tokens(ids)
        batch, length, width = x.shape
        y = self.norm1(x)
        q, k, v = (f(y).view(batch, length, n, -1).transpose(1, 2) for f, n in ((self.q, self.heads), (self.k, self.key_heads), (self.v, self.key_heads)))
        y = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(batch, length, width))
        y = self.norm2(x)
        x = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return F.cross_entropy((self.norm3(x) @ self.tokens.weight.t()).flatten(0, 1), target.flatten())


# ---- optimizers: the state that one needs, its update in place, and the same of torch.optim

class Sgd:
    def __init__(self, momentum=0.9, fused=False):
        self.momentum, self.fused = momentum, fused

    def state(self, parameters):
        return {f"momentum{i}": torch.zeros_like(p) for i, p in enumerate(parameters)} if self.momentum else {}

    def update(self, parameters, gradients, state):
        moments = list(state.values())
        if self.fused:
            aten._fused_sgd_(parameters, gradients, moments, weight_decay=0.01, momentum=self.momentum, lr=0.1, dampening=0.0, nesterov=False, maximize=False, is_first_step=False)
            return
        for i, (p, g) in enumerate(zip(parameters, gradients)):
            g = g + 0.01 * p
            if self.momentum:
                moments[i].mul_(self.momentum).add_(g)
                g = moments[i]
            p.sub_(g, alpha=0.1)

    def torch_optimizer(self, parameters):
        return torch.optim.SGD(parameters, lr=0.1, momentum=self.momentum, weight_decay=0.01)


class AdamW:
    def __init__(self, fused):
        self.fused = fused

    def state(self, parameters):
        names = {"average": torch.zeros_like, "squares": torch.zeros_like, "step": lambda p: torch.zeros(())}
        return {f"{name}{i}": make(p) for name, make in names.items() for i, p in enumerate(parameters)}

    def update(self, parameters, gradients, state):
        averages, squares, steps = ([x for name, x in state.items() if name.startswith(kind)] for kind in ("average", "squares", "step"))
        if self.fused:
            torch._foreach_add_(steps, 1)
            aten._fused_adamw_(parameters, gradients, averages, squares, [], steps, lr=1e-2, beta1=0.9, beta2=0.99, weight_decay=0.01, eps=1e-8, amsgrad=False, maximize=False)
        else:
            adam_module.adam(parameters, gradients, averages, squares, [], steps, foreach=True, capturable=True, differentiable=False, fused=False,
                             grad_scale=None, found_inf=None, has_complex=False, amsgrad=False, beta1=0.9, beta2=0.99, lr=1e-2, weight_decay=0.01,
                             eps=1e-8, maximize=False, decoupled_weight_decay=True)

    def torch_optimizer(self, parameters):
        return torch.optim.AdamW(parameters, lr=1e-2, betas=(0.9, 0.99), weight_decay=0.01)


# On the CPU, too, as on a GPU: counts of steps are tensors.
adam_module._get_capturable_supported_devices = lambda *a, **k: ["cpu", "cuda"]


def gradients_of(model, names, parameters, buffers, batch):
    leaves = [p.detach().requires_grad_() for p in parameters]
    loss = torch.func.functional_call(model, {**dict(zip(names, leaves)), **buffers}, tuple(batch))
    return loss.detach(), torch.autograd.grad(loss, leaves)


def wide(x, dtype):
    return x.to(dtype, copy=True) if x.is_floating_point() else x.clone()


class Step:
    """One step of a model as a graph over flat tensors: what is written, then the batch."""

    def __init__(self, model, optimizer, batch, decompositions=None):
        self.model, self.optimizer, self.batch, self.decompositions = model.train(), optimizer, batch, decompositions
        self.names = [n for n, _ in model.named_parameters()]
        self.buffer_names = [n for n, _ in model.named_buffers()]
        state = optimizer.state([p.detach() for p in model.parameters()])
        self.state_names = list(state)
        held = {**{n: p.detach() for n, p in model.named_parameters()}, **dict(model.named_buffers()), **state}
        self.held = {n.replace(".", "_"): x.clone() for n, x in held.items()}

    def run(self, *flat):
        count, buffers = len(self.names), len(self.buffer_names)
        held, batch = list(flat[:len(self.held)]), flat[len(self.held):]
        parameters = held[:count]
        loss, gradients = gradients_of(self.model, self.names, parameters, dict(zip(self.buffer_names, held[count:count + buffers])), batch)
        with torch.no_grad():
            self.optimizer.update(parameters, list(gradients), dict(zip(self.state_names, held[count + buffers:])))
        return loss

    def traced(self, dtype):
        held, batch = [wide(x, dtype) for x in self.held.values()], [wide(x, dtype) for x in self.batch]
        graph = make_fx(self.run, decomposition_table=self.decompositions)(*[x.clone() for x in held], *[x.clone() for x in batch])
        return graph, held, batch

    def losses(self, dtype):
        model = copy.deepcopy(self.model).to(dtype)
        optimizer = self.optimizer.torch_optimizer(model.parameters())
        batch, losses = [wide(x, dtype) for x in self.batch], []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = model(*batch)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return torch.stack(losses)


def core_table():
    """PyTorch's, but for one of which its own backward operator makes nothing of use: it gives weights for logarithmic sums."""
    table = dict(core_aten_decompositions())
    table.pop(aten._scaled_dot_product_flash_attention_for_cpu.default, None)
    return table


def keep(c, name, graph, buffers, inputs, outputs, references):
    program = torch.export.export(Fn(graph, buffers).eval(), tuple(inputs), strict=False)
    c.graphs.append({"name": name, "model": model_of(program)})
    for i, x in enumerate(inputs):
        c.tensors[f"{name}/input_{i}"] = x.clone()
    for key, x in {**program.state_dict, **program.constants}.items():
        c.tensors[f"{name}/weight/{key}"] = x.detach().contiguous().clone()
    for i, (x, y) in enumerate(zip(outputs, references)):
        c.tensors[f"{name}/output_{i}"] = x.detach().contiguous().clone()
        if y is not None and y.dtype == torch.float64:
            reason = inconsistency(x, y)
            if reason:
                BAD.append(f"{c.name}/{name} output {i}: {reason}")
            c.tensors[f"{name}/reference_{i}"] = y.detach().contiguous().clone()


def step(c, name, model, optimizer, batch, decompositions=None):
    one = Step(model, optimizer, batch, decompositions)
    results = []
    for dtype in (torch.float32, torch.float64):
        graph, held, inputs = one.traced(dtype)
        before = [x.clone() for x in held]
        loss = graph(*held, *inputs)
        results.append([x for x, y in zip(held, before) if not torch.equal(x, y)] + [loss])
    graph = one.traced(torch.float32)[0]
    names = list(one.held)
    keep(c, name, lambda self, *a: graph(*(getattr(self, n) for n in names), *a), one.held, batch, *results)
    losses, wide_losses = one.losses(torch.float32), one.losses(torch.float64)
    assert losses[-1] < 0.9 * losses[0], (name, losses)
    c.tensors[f"{name}/losses"], c.tensors[f"{name}/wide_losses"] = losses, wide_losses
    print(f"{name}: {float(losses[0]):.4f} to {float(losses[-1]):.4f}, float64 differs by {float((losses - wide_losses).abs().max()):.1e}")


def joint(c, name, model, batch):
    """torch.export's graph of forward and backward, which is decomposed: statistics, the loss, then the gradients by parameter. Attention is the
    math form's (core_table says why)."""
    with sdpa_kernel(SDPBackend.MATH):
        program = _export_forward_backward(torch.export._trace._export(model, tuple(batch), pre_dispatch=True))
    results = []
    for dtype in (torch.float32, torch.float64):
        copied = copy.deepcopy(model).to(dtype)
        loss = copied(*[wide(x, dtype) for x in batch])
        loss.backward()
        held = {"LOSS_OUTPUT": {None: loss}, "BUFFER_MUTATION": dict(copied.named_buffers()),
                "GRADIENT_TO_PARAMETER": {n: p.grad for n, p in copied.named_parameters()}}
        results.append([held[s.kind.name][s.target] for s in program.graph_signature.output_specs])
    c.graphs.append({"name": name, "model": model_of(program)})
    for i, x in enumerate(batch):
        c.tensors[f"{name}/input_{i}"] = x.clone()
    for key, x in {**program.state_dict, **program.constants}.items():
        c.tensors[f"{name}/weight/{key}"] = x.detach().contiguous().clone()
    for i, (x, y) in enumerate(zip(*results)):
        c.tensors[f"{name}/output_{i}"] = x.detach().contiguous().clone()
        if y.dtype == torch.float64:
            c.tensors[f"{name}/reference_{i}"] = y.detach().contiguous().clone()


def functional(c, name, model, batch, decompositions=None):
    """make_fx of torch.func.grad_and_value: gradients and loss as a function of parameters and batch."""
    names = [n for n, _ in model.named_parameters()]

    def of(*flat):
        def loss(parameters):
            return torch.func.functional_call(model, dict(zip(names, parameters)), flat[len(names):])
        gradients, value = torch.func.grad_and_value(loss)(flat[:len(names)])
        return *gradients, value

    results = []
    for dtype in (torch.float32, torch.float64):
        flat = [wide(x.detach(), dtype) for x in (*model.parameters(), *batch)]
        model.to(dtype)
        results.append(make_fx(of, decomposition_table=decompositions)(*flat)(*flat))
        model.to(torch.float32)
    flat = [x.detach().clone() for x in (*model.parameters(), *batch)]
    graph = make_fx(of, decomposition_table=decompositions)(*flat)
    keep(c, name, lambda *a: graph(*a), {}, flat, *results)


def mixed(c, name, model, batch):
    """A step in mixed precision: products in bfloat16, the loss scaled, gradients unscaled and checked, the scale updated. What it leaves
    is told in bfloat16, too: that is as far as its products say anything."""
    names = [n for n, _ in model.named_parameters()]
    held = {n.replace(".", "_"): p.detach().clone() for n, p in model.named_parameters()}
    held |= {f"momentum{i}": torch.zeros_like(p) for i, p in enumerate(model.parameters())}
    held |= {"scale": torch.tensor(1024.0), "grown": torch.tensor(3, dtype=torch.int32)}
    count = len(names)

    def run(*flat):
        parameters, moments, (scale, grown), inputs = list(flat[:count]), list(flat[count:2 * count]), flat[2 * count:2 * count + 2], flat[2 * count + 2:]
        leaves = [p.detach().requires_grad_() for p in parameters]
        with torch.autocast("cpu", torch.bfloat16):
            loss = torch.func.functional_call(model, dict(zip(names, leaves)), inputs)
        gradients = list(torch.autograd.grad(loss * scale, leaves))
        with torch.no_grad():
            found = torch.zeros(())
            aten._amp_foreach_non_finite_check_and_unscale_(gradients, found, scale.reciprocal())
            aten._fused_sgd_(parameters, gradients, moments, weight_decay=0.0, momentum=0.9, lr=0.1, dampening=0.0, nesterov=False, maximize=False,
                             is_first_step=False, found_inf=found)
            aten._amp_update_scale_(scale, grown, found, 2.0, 0.5, 4)
        return loss.detach()

    state = [x.clone() for x in held.values()]
    graph = make_fx(run)(*[x.clone() for x in state], *batch)

    def told(self, *a):
        left = [getattr(self, n).clone() for n in held]
        loss = graph(*left, *a)
        return tuple(x.to(torch.bfloat16) if x.is_floating_point() else x for x in (*left, loss))
    outputs = told(Fn(None, held), *batch)
    keep(c, name, told, held, batch, outputs, [None] * len(outputs))


def main():
    torch.manual_seed(7)
    c = Family("training")
    core = core_table()
    ids = lambda: torch.randint(0, 11, (2, 6))
    image = [torch.randn(4, 2, 8, 7), torch.randint(0, 4, (4,))]
    rows = [torch.randn(7, 6), torch.randint(0, 3, (7,))]
    step(c, "perceptron_sgd", Perceptron(), Sgd(), rows)
    step(c, "perceptron_fused_adamw", Perceptron(), AdamW(True), rows)
    step(c, "convolutional_sgd", Convolutional(), Sgd(fused=True), image)
    step(c, "convolutional_adamw", Convolutional(), AdamW(False), image, core)
    step(c, "transformer_adamw", Transformer(), AdamW(False), [ids(), ids()])
    step(c, "transformer_sgd", Transformer(), Sgd(0.0), [ids(), ids()], core)
    step(c, "llama_fused_adamw", Llama(), AdamW(True), [ids(), ids()])
    step(c, "llama_sgd", Llama(), Sgd(0.0), [ids(), ids()])
    joint(c, "joint_perceptron", Perceptron(), rows)
    joint(c, "joint_convolutional", Convolutional(), image)
    joint(c, "joint_transformer", Transformer(), [ids(), ids()])
    functional(c, "functional_perceptron", Perceptron(), rows)
    functional(c, "functional_llama", Llama(), [ids(), ids()], core)
    mixed(c, "mixed_perceptron", Perceptron(), rows)
    if BAD:
        sys.exit("eager and float64 disagree; choose other inputs:\n  " + "\n  ".join(BAD))
    c.write()


if __name__ == "__main__":
    main()
