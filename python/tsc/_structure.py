"""A model's own output structure (docs/graph-format.md), put together again."""
import collections
import dataclasses
import functools
import types

from torch.utils import _pytree as pytree


@functools.lru_cache(maxsize=None)
def _namedtuple(name, fields):
    return collections.namedtuple(name, fields, rename=True)


def _record(name, fields):
    """An object of the class that is registered by this name, if it is known here and takes its fields by name; else
    one that has them as attributes."""
    known = getattr(pytree, "SERIALIZED_TYPE_TO_PYTHON_TYPE", {}).get(name)
    if isinstance(known, type) and (hasattr(known, "_fields") or dataclasses.is_dataclass(known)):
        return known(**fields)
    plain = name.rsplit(".", 1)[-1]
    if known is None and plain.isidentifier() and all(key.isidentifier() for key in fields):
        return _namedtuple(plain, tuple(fields))(*fields.values())
    return types.SimpleNamespace(**fields)


def build(structure, leaves):
    """`structure` as the library describes it; `leaves`: an iterator over the results."""
    if structure == "*":
        return next(leaves)
    if structure is None:
        return None
    if "tuple" in structure:
        return tuple(build(child, leaves) for child in structure["tuple"])
    if "list" in structure:
        return [build(child, leaves) for child in structure["list"]]
    if "dict" in structure:
        return {key: build(child, leaves) for key, child in structure["dict"]}
    return _record(structure["record"], {key: build(child, leaves) for key, child in structure["fields"]})
