"""What the user may choose, for all compilations from then on."""
from dataclasses import dataclass, field


@dataclass
class Config:
    # Random operators (dropout, rand): "tsc" draws its own numbers, seeded from PyTorch's generator; "eager" leaves
    # them to PyTorch, so that the numbers are PyTorch's.
    random: str = "tsc"
    # After each run on a GPU wait, and raise if an index or an assertion was out of range. The host always checks.
    check_runs: bool = False
    # Where sizes are symbols (dynamic=True) there are two programs: of all sizes, and of the sizes of the call that compiles,
    # which is the faster one and runs wherever sizes are these. False: the one of all sizes alone.
    likely_sizes: bool = True
    # More keys of the library's options, as in {"tf32": "conv", "deterministic": True}.
    options: dict = field(default_factory=dict)


config = Config()
