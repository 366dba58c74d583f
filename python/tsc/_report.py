"""What was compiled, and what PyTorch runs instead, with the reason: nothing falls back in silence."""
import logging
from collections import deque
from dataclasses import dataclass, field

log = logging.getLogger("tsc")
_MOST_REPORTS = 256


@dataclass
class Fallback:
    """Nodes that PyTorch runs."""
    nodes: list
    target: str
    code: str
    message: str


@dataclass
class Report:
    kind: str  # "inference", "forward", "backward", "export"
    nodes: int = 0
    compiled_nodes: int = 0
    programs: int = 0
    kernels: int = 0
    library_calls: int = 0
    kernels_from_cache: int = 0
    seconds: float = 0.0
    fallbacks: list = field(default_factory=list)

    def __str__(self):
        lines = [f"{self.kind}: {self.compiled_nodes} of {self.nodes} nodes in {self.programs} programs, "
                 f"{self.kernels} kernels ({self.kernels_from_cache} from the cache), {self.library_calls} library "
                 f"calls, {self.seconds:.2f} s"]
        for one in self.fallbacks:
            lines.append(f"  PyTorch runs {len(one.nodes)} x {one.target or 'nodes'} ({', '.join(one.nodes[:4])}"
                         f"{', ...' if len(one.nodes) > 4 else ''}): {one.code + ' ' if one.code else ''}{one.message}")
        return "\n".join(lines)


_reports = deque(maxlen=_MOST_REPORTS)


def add(report):
    _reports.append(report)
    if report.fallbacks:
        log.warning("%s", report)
    else:
        log.info("%s", report)


def last_report():
    """Of the last graph that was compiled; None before the first."""
    return _reports[-1] if _reports else None


def reports():
    return list(_reports)


def reset_reports():
    _reports.clear()
