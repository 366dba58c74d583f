"""Whole training steps in mixed precision: forward, loss, backward and optimizer as one function. W maps a name to a function that
gives (module, inputs) on the CPU, SMALL the same at sizes that a CPU runs, SHALLOW at working sizes with fewer layers (graphs/wide).

A step takes its batch, then parameters, running statistics and the optimizer's state, and gives the loss and what these have become.
Inside it is written in place, as users write it, on copies that no compiler keeps: so a step may be called again and again on the same
inputs. Graphs of them are traced by make_fx (module.f), then exported.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

W, SMALL, SHALLOW = {}, {}, {}


class Fn(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *a):
        return self.f(*a)


class Sgd:
    """SGD with momentum and weight decay, as torch.optim computes it: one list operator a statement."""

    def __init__(self, rate=0.1):
        self.rate = rate

    def state(self, parameters):
        return [torch.zeros_like(p) for p in parameters]

    def update(self, parameters, gradients, momenta):
        gradients = torch._foreach_add(gradients, parameters, alpha=1e-4)
        torch._foreach_mul_(momenta, 0.9)
        torch._foreach_add_(momenta, gradients)
        torch._foreach_add_(parameters, momenta, alpha=-self.rate)


class AdamW:
    """AdamW as torch.optim computes it when a compiler is to see it: list operators, the count of steps a tensor."""

    def state(self, parameters):
        return [torch.zeros_like(p) for p in parameters] + [torch.zeros_like(p) for p in parameters] + [torch.zeros(())]

    def update(self, parameters, gradients, state):
        count = len(parameters)
        averages, squares, step = state[:count], state[count:2 * count], state[-1]
        rate, beta1, beta2 = 3e-4, 0.9, 0.95
        step.add_(1)
        torch._foreach_mul_(parameters, 1 - rate * 0.1)
        torch._foreach_lerp_(averages, gradients, 1 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - beta2)
        below = torch._foreach_sqrt(squares)
        torch._foreach_div_(below, (1 - beta2 ** step).sqrt())
        torch._foreach_add_(below, 1e-8)
        torch._foreach_div_(below, -rate / (1 - beta1 ** step))
        torch._foreach_addcdiv_(parameters, averages, below)


def training_step(model, optimizer, *batch):
    """The step of `model`, whose forward gives logits of all but the last of `batch`, and its inputs."""
    model.train()
    names, buffer_names = [n for n, _ in model.named_parameters()], [n for n, _ in model.named_buffers()]
    parameters, buffers = [p.detach() for p in model.parameters()], [b.detach() for b in model.buffers()]
    state = optimizer.state(parameters)
    ends = [len(batch), len(batch) + len(parameters), len(batch) + len(parameters) + len(buffers)]

    def f(*flat):
        *given, target = flat[:ends[0]]
        held = [x.clone() for x in flat[ends[0]:]]
        now, statistics, moments = (held[a - ends[0]:b - ends[0]] for a, b in zip(ends, ends[1:] + [len(flat)]))

        def loss(weights, running):
            with torch.autocast(target.device.type, torch.bfloat16):
                logits = torch.func.functional_call(model, {**weights, **running}, tuple(given))
            return F.cross_entropy(logits.float().flatten(0, -2), target.flatten())
        gradients, value = torch.func.grad_and_value(loss)(dict(zip(names, now)), dict(zip(buffer_names, statistics)))
        optimizer.update(now, [gradients[n] for n in names], moments)
        return (value, *now, *statistics, *moments)
    return Fn(f), (*batch, *parameters, *buffers, *state)


# ---- models

class Bottleneck(nn.Module):
    """The block of ResNet-50: three convolutions with batch norms around a shortcut."""

    def __init__(self, inside, width, stride):
        super().__init__()
        outside = 4 * width
        self.conv1, self.norm1 = nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.norm3 = nn.Conv2d(width, outside, 1, bias=False), nn.BatchNorm2d(outside)
        self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)) if stride != 1 or inside != outside else nn.Identity()

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        y = F.relu(self.norm2(self.conv2(y)))
        return F.relu(self.norm3(self.conv3(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, depths=(3, 4, 6, 3), width=64, classes=1000):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        blocks, inside = [], width
        for i, depth in enumerate(depths):
            for j in range(depth):
                blocks.append(Bottleneck(inside, width << i, 2 if i and not j else 1))
                inside = 4 * (width << i)
        self.blocks, self.out = nn.Sequential(*blocks), nn.Linear(inside, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 3, 2, 1)
        return self.out(F.adaptive_avg_pool2d(self.blocks(x), 1).flatten(1))


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, key_heads, inner):
        super().__init__()
        self.heads, self.key_heads, depth = heads, key_heads, width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.q, self.k, self.v = (nn.Linear(width, n * depth, bias=False) for n in (heads, key_heads, key_heads))
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up, self.down = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False), nn.Linear(inner, width, bias=False)

    @staticmethod
    def rotate(x, cos, sin):
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, x, cos, sin):
        batch, length, width = x.shape
        y = self.norm1(x)
        q, k, v = (f(y).view(batch, length, n, -1).transpose(1, 2) for f, n in ((self.q, self.heads), (self.k, self.key_heads), (self.v, self.key_heads)))
        y = F.scaled_dot_product_attention(self.rotate(q, cos, sin), self.rotate(k, cos, sin), v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(batch, length, width))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, vocabulary=32000, width=1024, heads=8, key_heads=4, inner=2816, layers=8):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, key_heads, inner) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width, eps=1e-5), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids, cos, sin):
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


def angles(length, depth):
    """Cosines and sines of rotary positions, in the dtype of what they turn."""
    angle = torch.arange(length)[:, None] / 10000.0 ** (torch.arange(depth // 2) * 2 / depth)
    return angle.cos().to(torch.bfloat16), angle.sin().to(torch.bfloat16)


# ---- steps

def resnet(batch, image, rate=0.1, **sizes):
    model = ResNet(**sizes).to(memory_format=torch.channels_last)
    classes = model.out.out_features
    return training_step(model, Sgd(rate), torch.randn(batch, 3, image, image).to(memory_format=torch.channels_last), torch.randint(0, classes, (batch,)))


def llama(batch, length, **sizes):
    model = Llama(**sizes)
    vocabulary, block = model.tokens.num_embeddings, model.blocks[0]
    depth = model.tokens.embedding_dim // block.heads
    return training_step(model, AdamW(), torch.randint(0, vocabulary, (batch, length)), *angles(length, depth), torch.randint(0, vocabulary, (batch, length)))


W["resnet50_train"] = lambda: resnet(64, 224)
W["llama_train"] = lambda: llama(8, 1024)
SHALLOW["resnet_train"] = lambda: resnet(64, 224, depths=(2, 2, 2, 2))
SHALLOW["llama_train"] = lambda: llama(8, 1024, layers=2)
SMALL["resnet_train"] = lambda: resnet(4, 16, rate=0.003, depths=(1, 1), width=4, classes=5)
SMALL["llama_train"] = lambda: llama(2, 18, vocabulary=24, width=16, heads=2, key_heads=1, inner=24, layers=1)
