"""From a number to a program: always the same one."""
import rules_blocks  # noqa: F401  (the modules register their rules)
import rules_elementwise  # noqa: F401
import rules_indexing  # noqa: F401
import rules_products  # noqa: F401
import rules_reductions  # noqa: F401
import rules_schema  # noqa: F401
import rules_views  # noqa: F401
from builder import Builder, NotHere
from rules import RULES
from values import FLOATS

WRITING = {"write", "write a region", "write through a view", "write by index", "view to write"}
# What sizes in the text would make static, or torch.export cannot trace with dynamic sizes.
STATIC = {"view", "split", "split by name", "view of bits"}


# Where NaN and infinity go is an accident of the way eager mode computes.
FINITE = {"attention", "multihead", "normalize", "norm by hand", "resample", "convolution", "convolution block", "pool", "loss", "recurrent", "perceptron", "optimizer step",
          "distance", "rotary", "routing", "matmul", "einsum", "linear module", "softmax", "schema", "cache"}


def generate(number):
    g = Builder(number)
    r = g.random
    weights = []
    favourites = set(r.sample(sorted({f for f, _, _ in RULES}), 4))  # each program has its own leaning
    for family, weight, _ in RULES:
        if family in WRITING:
            weight *= g.writes * 0.5
        if family in favourites:
            weight *= 4
        if g.special and family in FINITE:
            weight = 0
        if g.dynamic and family in STATIC:
            weight *= 0.4
        weights.append(weight)
    wanted = r.choices((r.randint(1, 3), r.randint(3, 8), r.randint(8, 25)), (20, 45, 35))[0]
    made = attempts = 0
    while made < wanted and attempts < 8 * wanted + 20:
        attempts += 1
        rule = r.choices(RULES, weights)[0]
        before = len(g.program.statements)
        try:
            rule[2](g)
        except NotHere:
            pass
        made += len(g.program.statements) > before
    choose_outputs(g)
    g.program.decomposed = r.random() < 0.06
    g.program.prune()
    return g.program


def choose_outputs(g):
    """What nothing reads, and some others; sometimes an input or a value twice."""
    r, program = g.random, g.program
    used = set().union(*(s.uses() for s in program.statements)) if program.statements else set()
    results = [n for s in program.statements for n in s.results if n in g.names]
    leaves = [n for n in results if n not in used]
    r.shuffle(leaves)
    outputs = leaves[:8]
    outputs += [n for n in results if n not in outputs and r.random() < 0.12][:4]
    if r.random() < 0.08 and g.names:
        outputs.append(r.choice(g.names))
    if r.random() < 0.04 and outputs:
        outputs.append(r.choice(outputs))
    if not outputs and results:
        outputs = [results[-1]]
    program.outputs = outputs
    unify_kinds(g)


def unify_kinds(g):
    """torch.export takes no program without a tensor: there is always an input or a buffer."""
    if not g.program.inputs:
        g.new_input(FLOATS[0], (2,), kind="input")
