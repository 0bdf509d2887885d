"""Random numbers that a traced function draws: operations of the outermost trace, which run again at each call.

While a trace runs, ``np.random.normal`` and its like are exchanged for functions that record what they draw, and a
generator that the function is given or reads for one whose methods do (``recording``). What is drawn depends on no
traced value: a normal deviate with a traced mean is a standard one, and arithmetic (``sampling.py``). Draws that nobody
can record are made as they are, and are a reason not to cache.
"""

from __future__ import annotations

import operator
import random
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..base.dispatch import find_traced, shadow
from ..base.generators import GENERATORS, NUMPYS, PYTHONS, Draw, fingerprint, lock_of, will_draw
from ..base.ownership import is_library_frame, is_ours
from ..base.types import LARGE, ArrayType, typeof
from ..base.unwinding import state
from ..errors import LostDerivativeError
from ..registry.patches import patch
from ..registry.registry import methods, primitive_of
from ..tape.operations import Call, Constant, Variable, operands, paths, user_site
from .calls import extents
from .mutation import write_result
from .sampling import constant, made
from .shells import is_recording, recording, stand_in_class
from .tracer import Status, tracers_in
from .traces import Trace

BY_LIBRARY = "a function of a library, or another thread, draws random numbers"
MAKERS = SimpleNamespace(default_rng=np.random.default_rng)  # what makes generators of seeds
MOST_COMPUTED = 50  # calls that lead to a parameter
_SEEDED = ("default_rng", "seed")
# At which position the arguments of NumPy's methods begin that say how many numbers there are, or how they are drawn;
# and the names of these.
_SIZES = {
    name: n
    for n, names in enumerate((
        "rand randn random random_sample standard_cauchy standard_exponential standard_normal tomaxint permutation",
        "chisquare choice dirichlet exponential geometric logseries pareto permuted poisson power rayleigh standard_t "
        "standard_gamma weibull zipf",
        "beta binomial f gamma gumbel integers laplace logistic lognormal multinomial multivariate_hypergeometric "
        "multivariate_normal negative_binomial noncentral_chisquare normal randint random_integers uniform vonmises "
        "wald",
        "hypergeometric noncentral_f triangular",
    ))
    for name in names.split()
}  # fmt: skip
_SAYING = frozenset(["size", "axis", "dtype", "shuffle", "replace", "endpoint", "method", "shape", "check_valid"])


def draw(of: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """``of.name(*args, **kwargs)``, recorded where the user's code is traced."""
    if not state.traces or state.suspended:
        return getattr(of, name)(*args, **kwargs)
    frame = sys._getframe(1)
    while is_ours(frame) and frame.f_back is not None:
        frame = frame.f_back
    if is_library_frame(frame):
        return _unrecorded(of, name, args, kwargs, f"lets a library draw random numbers ({name})")
    if name in _SEEDED and not _by_numbers(args, kwargs):
        return args[0] if args and is_recording(args[0]) else _unrecorded(of, name, args, kwargs)
    with state.unwatched:
        if name == "choice" and isinstance(of, random.Random):
            return _chosen(of, *args, **kwargs)
        if (out := kwargs.get("out")) is not None and name != "permuted":
            return _filled(of, name, out, args, kwargs)
        if find_traced((args, kwargs)) is not None:
            drawing: Callable[..., Any] = lambda name, *args, **kwargs: _recorded(of, name, args, kwargs)  # noqa: E731
            result = made(drawing, of, name, args, kwargs)
            if result is not NotImplemented:
                return result
        if name == "shuffle":  # of what is not traced
            return _unrecorded(of, name, args, kwargs)
        return _recorded(of, name, args, kwargs)


def _by_numbers(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether a generator is to be seeded by numbers, and so is the same at each call."""
    given = (*args, *kwargs.values())
    return len(given) == 1 and all(isinstance(x, int | np.integer) for x in np.ravel(shadow(given[0])))


def _chosen(of: Any, seq: Any) -> Any:
    """Python's ``choice``: the item at a position, which of plain numbers is computed, and of others decided."""
    if not len(seq):
        return of.choice(seq)  # raises
    at = _recorded(of, "randrange", (len(seq),), {})
    if isinstance(seq, list | tuple) and (
        all(type(x) is float for x in seq) or all(type(x) is int and abs(x) < LARGE for x in seq)
    ):
        return methods["item"](np.take(constant(seq), at))
    return seq[at]


def _filled(of: Any, name: str, out: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A draw into an array."""
    rest = {key: value for key, value in kwargs.items() if key != "out"}
    plain: Any = shadow(out)
    if not isinstance(plain, np.ndarray) or plain.dtype != np.dtype(rest.get("dtype", np.float64)):
        return getattr(of, name)(*shadow(args), **shadow(dict(kwargs)))  # raises
    if not args and "size" not in rest:
        rest["size"] = plain.shape
    return write_result(out, _recorded(of, name, args, rest))


def _unrecorded(of: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], why: str = "") -> Any:
    """A call of which the next one knows nothing."""
    with state.unwatched:
        if state.traces:
            trace: Trace = state.traces[0]
            problem = f"{user_site()}: it {why or f'calls {name} of a random number generator, which is not followed'}"
            if trace.effects and trace.give_up is not None:
                trace.give_up(problem)
            trace.problems.append(problem)
            if isinstance(of, GENERATORS):
                will_draw(of)
        try:
            return getattr(of, name)(*args, **kwargs)
        finally:
            _heard(of)


def _heard(of: Any) -> None:
    """What a generator that all share has drawn is known."""
    if state.traces and id(of) in (heard := state.traces[0].heard):
        heard[id(of)] = fingerprint(of)


def _recorded(of: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What is drawn, on the tape of the outermost trace; as it is, if that is no number."""
    trace: Trace = state.traces[0]
    n = _SIZES.get(name, len(args))  # from there on, they say how many there are
    args = (*args[:n], *extents(args[n:]))
    kwargs = {key: extents(value) if key in _SAYING else value for key, value in kwargs.items()}
    names, values = trace.split(args)
    keywords, keyvalues = trace.split(dict(kwargs))
    known = _is_known(trace, (names, keywords))
    if not known or any(t._carries() for t in tracers_in((args, dict(kwargs)))) or tracers_in((values, keyvalues)):
        return _computed(of, name, args, kwargs)
    if id(of) in trace.heard and fingerprint(of) != trace.heard[id(of)]:
        trace.problems.append(BY_LIBRARY)
    if of is not MAKERS:
        will_draw(of)
    try:
        with nullcontext() if of is MAKERS else lock_of(of):
            value = getattr(of, name)(*values, **keyvalues)
    except Exception:  # any: the function may catch it, as in ``Trace.record``
        trace.problems.append(f"{name} raised an exception")
        raise
    finally:
        _heard(of)
    t, site = typeof(value), trace.origin()
    if of is MAKERS:
        trace.made[id(value)] = trace.append(Call(Draw(of, name), names, keywords, t, site), value)
        return recording(value)
    is_number = isinstance(t, ArrayType) and t.dtype.kind in "fiub" and not (type(value) is int and abs(value) >= LARGE)
    if not (is_number or value is None):
        problem = f"{user_site()}: it draws a {type(value).__name__}, which cannot be followed"
        trace.problems.append(problem)
        if trace.effects and trace.give_up is not None:
            trace.give_up(problem)
        return value
    trace.draws += 1
    if (by := trace.made.get(id(of))) is not None:
        of, names = None, (by, *names)
    kind = {bool: int, np.bool_: np.int64}.get(type(value))
    if kind is None:
        var = trace.append(Call(Draw(of, name), names, keywords, t, site), value)
        return trace.wrap(var, value, Status.INACTIVE) if is_number else None
    number = kind(value)
    var = trace.append(Call(Draw(of, name, kind), names, keywords, typeof(number), site), number)
    compare: Any = operator.ne if kind is int else np.not_equal
    return trace.record(compare, (trace.wrap(var, number, Status.INACTIVE), 0), {})


def _is_known(trace: Trace, structure: Any) -> bool:
    """Whether values are known before the function runs: arguments, what it reads, constants, what is drawn, and what
    comes of these by a few calls."""
    pending = [var for _, var in paths(structure)]
    seen: set[int] = set()
    while pending:
        var = pending.pop()
        op = trace.tape[var]
        if var.id in seen or isinstance(op, Constant) or var in trace.roots:
            continue
        seen.add(var.id)
        if not isinstance(op, Call) or len(seen) > MOST_COMPUTED:
            return False
        if type(op.fn) is not Draw:
            entry = primitive_of(op.fn)
            if entry is None or entry.users or isinstance(op.fn, Variable):
                return False
            pending += operands(op)
    return True


def _computed(of: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A draw with a parameter that the function computes, or in which a derivative is wanted."""
    if any(t._carries() for t in tracers_in((args, dict(kwargs)))):
        raise LostDerivativeError(
            f"{user_site()}: {name}(...) draws random numbers with a parameter whose derivative would be lost. Give it "
            "stop_gradient(...) of the parameter; or draw numbers of a standard distribution, and compute with them: "
            "mu + sigma * rng.standard_normal(n)"
        )
    why = f"computes a parameter of the random numbers that {name} draws"
    return _unrecorded(of, name, shadow(args), shadow(dict(kwargs)), why)


# ---------------------------------------------------------------------------------------------- stand-ins

_OF_GENERATOR = (
    "random standard_normal standard_exponential standard_gamma integers choice uniform normal beta binomial chisquare "
    "dirichlet exponential f gamma geometric gumbel hypergeometric laplace logistic lognormal logseries multinomial "
    "multivariate_hypergeometric multivariate_normal negative_binomial noncentral_chisquare noncentral_f pareto "
    "permutation permuted poisson power rayleigh shuffle standard_cauchy standard_t triangular vonmises wald weibull "
    "zipf"
).split()
_OF_STATE = {*_OF_GENERATOR} - {"integers", "permuted", "multivariate_hypergeometric"} | {
    "rand", "randn", "randint", "random_integers", "random_sample", "tomaxint", "seed",
}  # fmt: skip
_OF_PYTHON = (
    "random uniform triangular randint randrange getrandbits gauss normalvariate lognormvariate expovariate "
    "gammavariate betavariate paretovariate vonmisesvariate weibullvariate choice seed"
).split()
if hasattr(random.Random, "binomialvariate"):  # since Python 3.12
    _OF_PYTHON.append("binomialvariate")


def _bits(generator: Any) -> Any:
    """What is read, or assigned, as the state there is, nobody hears of."""
    return _unrecorded(generator._real, "__getattribute__", ("bit_generator",), {}, "reads a bit generator")


_WHAT = "a random number generator"
stand_in_class(np.random.Generator, _WHAT, draw, _OF_GENERATOR, _unrecorded, bit_generator=property(_bits))
stand_in_class(np.random.RandomState, _WHAT, draw, _OF_STATE, _unrecorded)
stand_in_class(random.Random, _WHAT, draw, _OF_PYTHON, _unrecorded)


class _Function:
    """A function of ``np.random`` or ``random``, which draws from the generator that all share."""

    def __init__(self, of: Any, name: str, call: Callable[..., Any] = draw) -> None:
        self._of, self._name, self._call = of, name, call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(self._of, self._name, args, kwargs)


_FUNCTIONS = {
    **{(np.random, name): _Function(NUMPYS, name) for name in sorted(_OF_STATE & {*vars(np.random)})},
    **{(np.random, name): _Function(NUMPYS, name, _unrecorded) for name in ("bytes", "get_state", "set_state")},
    **{(np.random, name): _Function(NUMPYS, "random_sample") for name in ("ranf", "sample")},
    (np.random, "default_rng"): _Function(MAKERS, "default_rng"),
    **{(random, name): _Function(PYTHONS, name) for name in _OF_PYTHON},
}
for (_module, _name), _stand_in in _FUNCTIONS.items():
    patch(_module, _name, _stand_in, anywhere=True)
