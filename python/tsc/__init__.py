"""tsc inside PyTorch: torch.compile(model, backend="tsc"), tsc.compile(exported_program), tsc.load("out")."""
from ._config import config
from ._report import Report, last_report, reports, reset_reports

__all__ = ["compile", "load", "backend", "config", "Report", "last_report", "reports", "reset_reports",
           "TscError", "expression_count"]


def compile(exported_program):  # noqa: A001 (the name says what it does)
    """A callable from an ExportedProgram: its arguments, PyTorch's own output structure."""
    from .exported import compile_exported
    return compile_exported(exported_program)


def load(folder, device=None):
    """A callable from a folder that `tsc compile -o` wrote: tensors in the order of its inputs, a tuple of outputs."""
    from .folder import load_folder
    return load_folder(folder, device)


def expression_count():
    """Expressions of sizes and indices that this process's compilations hold together."""
    from . import _library
    return _library.library().tsc_api_expression_count()


def __getattr__(name):
    if name == "backend":
        from ._backend import backend
        return backend
    if name == "TscError":
        from ._library import TscError
        return TscError
    raise AttributeError(f"module 'tsc' has no attribute '{name}'")
