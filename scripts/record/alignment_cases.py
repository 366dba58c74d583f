"""Cases of the connectionist temporal classification loss and its gradient. operator_cases.py calls add(family), which registers
them with it. PyTorch cannot trace these operators (their fake results have no sizes): what the sizes are is said here."""
import math

import torch
import torch.nn.functional as F
from torch._subclasses.fake_impls import register_op_impl

A = torch.ops.aten


def states(mode, targets, lengths):
    """2 labels + 1 of the longest target, where the lengths are numbers."""
    if not isinstance(lengths, torch.Tensor):
        return 2 * max(lengths) + 1
    if not ARE_SEEN[0]:
        return 2 * targets.shape[-1] + 1
    count = mode.shape_env.create_unbacked_symint()
    torch._constrain_as_size(count, min=1)
    return count


ARE_SEEN = [False]


def paths_of_data(log_probs, targets, input_lengths, target_lengths):
    """The operator where the data has the lengths, and so the size of log_alpha."""
    ARE_SEEN[0] = True
    loss, alpha = A._ctc_loss.Tensor(log_probs, targets, input_lengths, target_lengths)
    ARE_SEEN[0] = False
    return loss, counted(alpha, input_lengths, target_lengths)


def fake_losses(mode, f, log_probs, targets, input_lengths, target_lengths, blank=0, zero_infinity=False):
    with mode:
        steps, batch, _ = log_probs.shape
        return log_probs.new_empty(batch), log_probs.new_empty(batch, steps, states(mode, targets, target_lengths))


def fake_gradient(mode, f, grad, log_probs, *rest, **more):
    with mode:
        return torch.empty_like(log_probs, memory_format=torch.contiguous_format)


def traced_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    """What torch.export takes for the operator; eager mode calls the operator itself."""
    return log_probs.new_empty((log_probs.shape[1],) if reduction == 0 and log_probs.dim() == 3 else ())


A.ctc_loss.IntList.py_impl(torch._C.DispatchKey.CompositeImplicitAutograd)(traced_loss)
for overload in ("default", "Tensor"):
    register_op_impl(getattr(A._ctc_loss, overload))(fake_losses)
    register_op_impl(getattr(A._ctc_loss_backward, overload))(fake_gradient)


def counted(alpha, inputs, targets):
    """What PyTorch computes of log_alpha; the rest is memory as it was, 0 here."""
    step, state = torch.arange(alpha.shape[1]), torch.arange(alpha.shape[2])
    as_tensor = lambda n: n if isinstance(n, torch.Tensor) else torch.tensor(n)
    counts = (step[None, :, None] < as_tensor(inputs)[:, None, None]) & (state < 2 * as_tensor(targets)[:, None, None] + 1)
    return torch.where(counts, alpha, 0.0)


def alignments(c):
    scores = lambda t, n, k, dtype=torch.float32: c.randn(t, n, k, dtype=dtype).log_softmax(-1).to(dtype)
    targets = torch.tensor([[1, 2, 2, 3], [4, 1, 0, 0], [3, 3, 3, 3], [2, 0, 0, 0], [1, 1, 1, 1]])
    inputs, lengths = [9, 7, 9, 1, 5], [4, 2, 3, 0, 4]  # the last one fits in no way
    flat = torch.cat([row[:n] for row, n in zip(targets, lengths)])
    whole = torch.tensor
    x = scores(9, 5, 5)
    for form, given in (("padded", targets), ("flat", flat)):
        def listed(x, y):
            loss, alpha = A._ctc_loss(x, y, inputs, lengths)
            return loss, counted(alpha, inputs, lengths)
        c.case(f"paths_{form}", listed, x, given)
        for zeroed in (False, True):
            def gradient(g, x, y, n, m, zeroed=zeroed):
                return A._ctc_loss_backward(g, x, y, inputs, lengths, n, m, 0, zeroed)
            loss, alpha = A._ctc_loss(x, given, inputs, lengths)
            # What PyTorch leaves open must not count.
            noise = torch.where(counted(torch.ones_like(alpha), inputs, lengths) > 0, alpha, math.nan)
            c.case(f"gradient_{form}_{zeroed}", gradient, c.randn(5), x, given, loss, noise)
    def of_f64(g, x, y):
        loss, alpha = A._ctc_loss(x.double(), y, inputs, lengths)
        return loss, A._ctc_loss_backward(g.double(), x.double(), y, inputs, lengths, loss, alpha, 0, True).sum(0)
    c.case("f64", of_f64, c.randn(5), x, targets)
    loss, alpha = A._ctc_loss(x, targets, inputs, lengths)
    c.case("gradient_of_data", lambda g, x, y, i, l, n, m: A._ctc_loss_backward.Tensor(g, x, y, i, l, n, m, 0, True),
           c.randn(5), x, targets, whole(inputs), whole(lengths), loss, alpha.nan_to_num(0.0))

    x = scores(7, 3, 6)
    labels, n, m = whole([[1, 4, 3], [5, 5, 0], [4, 1, 3]]), whole([7, 6, 7]), whole([3, 2, 1])
    for reduction in ("none", "mean", "sum"):
        c.case(f"loss_{reduction}", lambda x, y, r=reduction: F.ctc_loss(x, y, (7, 6, 7), (3, 2, 1), reduction=r), x, labels)
        c.case(f"loss_{reduction}_of_data", lambda x, y, n, m, r=reduction: torch.ctc_loss(x, y, n, m, 2, ["none", "mean", "sum"].index(r)), x, labels, n, m)
    c.case("loss_infinite", lambda x, y: (torch.ctc_loss(x, y, [2, 6, 2], [3, 2, 1], 0, 0), torch.ctc_loss(x, y, [2, 6, 2], [3, 2, 1], 0, 0, True),
                                          torch.ctc_loss(x, y, [2, 6, 2], [3, 2, 1], 0, 1, True)), x, labels)
    c.case("loss_of_one", lambda x, y: (F.ctc_loss(x[:, 0], y[0], (7,), (3,), reduction="none"), F.ctc_loss(x[:, 0], y[0], (7,), (3,)),
                                        F.ctc_loss(x[:, 0], y[0, :2], (7,), (2,), blank=5, reduction="sum")), x, labels)
    c.case("loss_of_one_of_data", lambda x, y, n, m: F.ctc_loss(x, y, n, m, reduction="none"), x[:, 0].contiguous(), labels[0], whole(7), whole(3))
    c.case("loss_flat_i32", lambda x, y, n, m: torch.ctc_loss(x, y, n, m, 5, 0), x, whole([1, 4, 3, 0, 0, 4], dtype=torch.int32), n.int(), m.int())
    c.case("no_labels", lambda x, y, n, m: (torch.ctc_loss(x, y, n, m, 0, 0), torch.ctc_loss(x, y[:, :0], n, m, 0, 1)), x, labels, n, whole([0, 0, 0]))
    c.case("no_steps", lambda x, y, n, m: torch.ctc_loss(x, y, n, m, 0, 0), x, labels, whole([0, 1, 0]), whole([0, 1, 2]))
    c.case("one_step", lambda x, y, n, m: torch.ctc_loss(x[:1], y, n, m, 0, 0), x, labels, whole([1, 1, 1]), whole([1, 0, 2]))
    # Scores of 0 probability, and infinite ones.
    odd = x.clone()
    odd[1, 0, 1], odd[:, 1, 5], odd[2, 2, 0], odd[3, 2, 3] = -math.inf, -math.inf, math.inf, math.nan
    c.case("special", lambda x, y, n, m: (torch.ctc_loss(x, y, n, m, 0, 0), torch.ctc_loss(x, y, n, m, 0, 0, True)), odd, labels, n, m)
    odd = x.clone()
    odd[1, 0, 1], odd[2, 1, 3] = -math.inf, -math.inf
    loss, alpha = A._ctc_loss(odd, labels, [7, 6, 7], [3, 2, 1])
    c.case("special_gradient", lambda g, x, y, n, m: A._ctc_loss_backward(g, x, y, [7, 6, 7], [3, 2, 1], n, m, 0), c.randn(3), odd, labels, loss, alpha.nan_to_num(0.0, neginf=-math.inf))
    # A blank that is among the labels, labels that neighbours share, a transposed view of scores.
    c.case("blank_among_labels", lambda x, y, n, m: torch.ctc_loss(x, y, n, m, 5, 0), x, labels, n, m)
    c.case("transposed", lambda x, y: F.ctc_loss(x.transpose(0, 1).log_softmax(-1), y, (6, 5), (2, 1)), c.randn(2, 7, 6), labels[:2])
    # More states than a block has threads, on either side of what shared memory holds.
    def long(x, y):
        labels = torch.arange(600).reshape(2, 300) * 7 % 11 % 4 + 1
        return torch.ctc_loss((x + y).log_softmax(-1), labels, [310, 290], [300, 2], 0, 0)
    c.case("long", long, c.randn(310, 1, 1), c.randn(1, 2, 5))

    def step(x, w, y):
        """A training step as autograd has it."""
        scores = (x @ w).log_softmax(-1)
        loss, alpha = A._ctc_loss(scores, y, [7, 6, 7], [3, 2, 1], 0, True)
        lengths = torch.tensor([3, 2, 1], dtype=x.dtype)
        g = A._ctc_loss_backward(1 / (3 * lengths), scores, y, [7, 6, 7], [3, 2, 1], loss, alpha, 0, True)
        g = A._log_softmax_backward_data(g, scores, -1, x.dtype)
        return (loss / lengths).mean(), x.flatten(0, 1).t() @ g.flatten(0, 1)
    c.case("training_step", step, c.randn(7, 3, 4), c.randn(4, 6), labels)


def add(family):
    family(alignments)
