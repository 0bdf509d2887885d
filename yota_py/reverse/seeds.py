"""Seeds: the cotangents of results, from which a gradient tape begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import optree

from ..base.containers import mapped
from ..base.dispatch import is_traced
from ..base.types import ArrayType, is_inexact, typeof
from ..errors import NonScalarOutputError, OutputError, SeedError
from ..registry.tangents import as_cotangent
from ..tape.operations import Site, Variable, paths
from ..tape.recorder import Recorder
from ..tape.tape import Tape
from ..tape.trees import flatten, is_traceable, outline, unflatten
from ..tracing.foreign import is_masked, masked_output


def _type_of_output(z: Any, site: Site | None, name: str) -> ArrayType:
    if is_masked(z):
        raise masked_output(z, site, name)
    t = typeof(z)
    if not isinstance(t, ArrayType):
        raise OutputError(
            f"{site}: {name} returned a {type(z).__name__}, which is neither a number nor an array. Return the number "
            "to differentiate (value_and_grad(..., has_aux=True) hands out other things beside it)"
        )
    return t


def seed_for(z: Any, site: Site | None, name: str) -> Any:
    """The default seed: one, of the kind of a real scalar output; raises if the output is no real scalar."""
    t = _type_of_output(z, site, name)
    if t.dtype.kind in "biu":
        raise NonScalarOutputError(f"{site}: {name} returns {t}, which has no derivative; return a float")
    if t.shape != () or t.dtype.kind != "f":
        what = "a complex number" if t.dtype.kind == "c" and not t.shape else str(t)
        if t.dtype.kind == "f" and t.size == 1:
            first = f"[{', '.join('0' * len(t.shape))}]"
            raise NonScalarOutputError(
                f"{site}: {name} returns {what}, an array with one element, and grad needs a real scalar. Take the "
                f"element out: y{first} or y.item(), where y is what it returns"
            )
        raise NonScalarOutputError(
            f"{site}: {name} returns {what}, and grad needs a real scalar. Two ways out: reduce the output to a scalar "
            f"(np.sum, np.mean, np.abs(...)**2), or pass seed=, the cotangent of the output, of its shape {t.shape}"
        )
    return one_of(t)


def one_of(t: ArrayType) -> Any:
    """The number one as a value of this scalar type."""
    if t.kind == "array":
        return np.ones((), t.dtype)
    return complex(1) if t.dtype.kind == "c" else 1.0 if t.kind == "python" else t.dtype.type(1)


def check_seed(seed: Any, z: Any, site: Site | None, name: str) -> Any:
    """The seed as an array of the output's dtype; raises ``SeedError`` if its shape or kind differs."""
    want = _type_of_output(z, site, name)
    if is_traced(seed):
        return seed
    if is_masked(seed):
        raise SeedError(f"{site}: the seed has masked elements, which have no value; give plain numbers: "
                        "seed.filled(0.0)")
    if seed is None:
        raise SeedError(f"{site}: the seed is None where the output of {name} is {want}; give a seed of shape "
                        f"{want.shape}, of zeros where nothing is to flow back")
    given = np.asarray(seed)
    if given.dtype.kind not in "fciub" or given.shape != want.shape:
        raise SeedError(f"{site}: the seed has {typeof(given)}, the output of {name} is {want}; give a seed of shape "
                        f"{want.shape}")
    if given.dtype.kind == "c" and want.dtype.kind != "c":
        raise SeedError(f"{site}: the seed is complex, the output of {name} is real ({want})")
    return given.astype(want.dtype) if want.kind == "array" else want.dtype.type(given[()])


def with_floats(seed: Any) -> Any:
    """A seed in which whole numbers are floats, as cotangents are: a program serves all of them."""
    return float(seed) if type(seed) is int else mapped(with_floats, seed)


def seed_leaves(seed: Any, leaves: Sequence[Any], spec: optree.PyTreeSpec, site: Site | None, name: str) -> list[Any]:
    """One checked seed per leaf of the output, ``None`` for one without derivative; raises ``SeedError``."""
    if (parts := _parts(seed, spec)) is None:
        raise SeedError(f"{site}: the seed has the structure {outline(flatten(seed)[1])}, the output of {name} "
                        f"{outline(spec)}; give a number or an array for each *")
    return [
        None if s is None and not is_inexact(z) else check_seed(s, z, site, name)
        for s, z in zip(parts, leaves, strict=True)
    ]


def differentiated(tape: Tape, site: Site | None, *, has_aux: bool) -> tuple[list[Any], optree.PyTreeSpec]:
    """The results that are differentiated, and their structure: with ``has_aux``, the first of ``(value, aux)``."""
    assert tape.out_spec is not None
    spec = tape.out_spec
    if not has_aux:
        return tape.results, spec
    if spec.type is not tuple or spec.num_children != 2:
        raise OutputError(f"{site}: with has_aux, {tape.name} must return a tuple (value, aux)")
    return tape.results[: spec.child(0).num_leaves], spec.child(0)


def seed_variables(
    out: Recorder, seed: Any, leaves: Sequence[Any], spec: optree.PyTreeSpec, site: Site | None, name: str
) -> list[Variable | None]:
    """The seed of each result: one, of a single real scalar, or what is given."""
    if seed is not None:
        return seed_inputs(out, seed, seed_leaves(seed, leaves, spec, site, name), spec)
    if len(leaves) != 1:
        raise NonScalarOutputError(
            f"{site}: {name} returns {len(leaves)} values; grad needs one real scalar, or seed= with the output's "
            "structure (value_and_grad has has_aux for extra outputs)"
        )
    return [out.constant(seed_for(leaves[0], site, name), note="seed")]


def seed_inputs(
    out: Recorder, seed: Any, checked: Sequence[Any], spec: optree.PyTreeSpec
) -> list[Variable | None]:
    """The seeds as inputs of the gradient tape, which converts them where they are not of their outputs' types."""
    leaves, given = flatten(seed)
    inputs = [out.input(x, "seed", active=False) if is_traced(x) or is_traceable(x) else x for x in leaves]
    parts = _parts(unflatten(given, inputs), spec) or ()

    def fitted(part: Any, value: Any) -> Variable | None:
        if value is None or (isinstance(part, Variable) and (is_traced(value) or typeof(out[part]) == typeof(value))):
            return part  # type: ignore[no-any-return]
        if any(True for _ in paths(part)):
            t = typeof(value)
            assert isinstance(t, ArrayType)
            return out.call(as_cotangent, (part, t.dtype, t.kind == "array"))
        if all(isinstance(x, bool) for x in flatten(part)[0]):
            return out.constant(value, note="seed")
        return out.input(value, "seed", active=False)

    return [fitted(part, value) for part, value in zip(parts, checked, strict=True)]


def _parts(seed: Any, spec: optree.PyTreeSpec) -> Sequence[Any] | None:
    """What a seed has at each leaf of the output (a list stands for an array); ``None`` if its structure differs."""
    try:
        return spec.flatten_up_to(seed)
    except (TypeError, ValueError):
        return [seed] if spec.num_leaves == 1 else None
