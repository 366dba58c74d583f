"""When numbers agree: the rule of docs/numbers.md, on PyTorch's tensors."""
import torch

# Norm bound, ulps an element, ulp at 1, smallest positive number.
RULES = {torch.float64: (1e-10, 16, 2.0**-52, 2.0**-1074), torch.float32: (1e-5, 16, 2.0**-23, 2.0**-149),
         torch.float16: (5e-3, 4, 2.0**-10, 2.0**-24), torch.bfloat16: (2e-2, 4, 2.0**-7, 2.0**-133)}


def parts_of(x):
    """The parts of complex numbers, those of a row in one row; both are NaN where one is."""
    parts = torch.view_as_real(x.resolve_conj() if x.dim() else x.reshape(1).resolve_conj()).clone()
    parts[parts.isnan().any(-1)] = float("nan")
    return parts.flatten(-2)


def disagreement(actual, expected, reference=None, slack=1.0, use_eager=True):
    """Why `actual` is not `expected`, or None. `reference` is the same in float64. `slack` scales both bounds."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return f"is {actual.dtype} {list(actual.shape)}, expected {expected.dtype} {list(expected.shape)}"
    if expected.is_complex():
        parts = [None if x is None else parts_of(x) for x in (actual, expected, reference)]
        return disagreement(*parts, slack=slack, use_eager=use_eager)
    if expected.dtype not in RULES:
        wrong = actual != expected
        if not wrong.any():
            return None
        at = wrong.nonzero()[0].tolist()
        return f"{int(wrong.sum())} of {wrong.numel()} differ, first at {at}: {actual[tuple(at)].item()}, expected {expected[tuple(at)].item()}"
    bound, ulps, epsilon, smallest = RULES[expected.dtype]
    wide, eager = actual.double(), expected.double()
    if not torch.equal(wide.isnan(), eager.isnan()):
        return f"NaN at other places: {int(wide.isnan().sum())}, expected {int(eager.isnan().sum())}"
    infinite = wide.isinf() | eager.isinf()
    if not torch.equal(wide[infinite], eager[infinite]):
        return "infinities at other places"
    if reference is None or reference.shape != expected.shape:
        reference = eager
    reference = reference.double()
    use = eager.isfinite() & reference.isfinite()
    if not use.any():
        return None
    zero = torch.zeros_like(eager)
    truth = torch.where(use, reference, zero)
    error = (torch.where(use, wide, zero) - truth).abs()
    norm = float(truth.norm())
    if norm == 0:
        return "not zero" if float(error.max()) > 0 and float(torch.where(use, eager, zero).abs().max()) == 0 else None
    if float(error.norm()) > slack * bound * norm:
        return f"relative error {float(error.norm()) / norm:.2e} (bound {bound:.0e})"
    by_eager = 3 * float((torch.where(use, eager, zero) - truth).abs().max()) if use_eager else 0.0
    row = truth if truth.dim() else truth.reshape(1)
    rms = (row.square().sum(-1, keepdim=True) / use.reshape(row.shape).sum(-1, keepdim=True).clamp(min=1)).sqrt()
    allowed = slack * ulps * (torch.maximum(rms, row.abs()) * epsilon).clamp(min=smallest) + by_eager
    over = error.reshape(row.shape) > allowed
    if over.any():
        at = over.nonzero()[0].tolist()
        return f"{int(over.sum())} elements beyond the bound, first at {at}: {wide.reshape(row.shape)[tuple(at)]:.9g}, expected {truth.reshape(row.shape)[tuple(at)]:.9g}"
    return None
