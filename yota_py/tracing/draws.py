"""Random numbers that a traced function draws: operations of the outermost trace, which run again at each call.

While a trace runs, ``np.random.normal`` and its like are exchanged for functions that record what they draw, and a
generator that the function is given or reads for one whose methods do (``recording``). What is drawn depends on no
traced value: a normal deviate with a traced mean is a standard one, and arithmetic (``sampling.py``). Draws that nobody
can record are made as they are, and heard of (``capture/hooks.py``) as those of libraries are.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..base.dispatch import find_traced, shadow
from ..base.generators import GENERATORS, NUMPYS, PYTHONS, Draw, fingerprint, will_draw
from ..base.ownership import is_library_frame, is_ours
from ..base.types import ArrayType, typeof
from ..base.unwinding import state
from ..errors import LostDerivativeError
from ..registry.patches import patch
from ..tape.operations import Call, Constant, Guard, Variable, operands, paths, user_site
from .calls import extents
from .mutation import write_result
from .sampling import made
from .tracer import tracers_in
from .traces import LARGE, Status, Trace

BY_LIBRARY = "a function of a library draws random numbers"
FEW_DECISIONS = 2  # on drawn whole numbers: with more, each call may take others
MAKERS = SimpleNamespace(default_rng=np.random.default_rng)  # what makes generators of seeds
_SEEDED = ("default_rng", "seed")
_VALUES = ("integers", "randint", "random_integers", "randrange", "default_rng", "seed")


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
        if kwargs.get("out") is not None:
            rest = {key: value for key, value in kwargs.items() if key != "out"}
            return write_result(kwargs["out"], _recorded(of, name, args, rest | {"size": np.shape(kwargs["out"])}))
        if find_traced((args, kwargs)) is not None:
            drawing: Callable[..., Any] = lambda name, *args, **kwargs: _recorded(of, name, args, kwargs)  # noqa: E731
            result = made(drawing, of, name, args, kwargs)
            if result is not NotImplemented:
                return result
        return _recorded(of, name, args, kwargs)


def _by_numbers(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether a generator is to be seeded by numbers, and so is the same at each call."""
    given = (*args, *kwargs.values())
    return len(given) == 1 and all(isinstance(x, int | np.integer) for x in np.ravel(shadow(given[0])))


def _unrecorded(of: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], why: str = "") -> Any:
    """A call of which the next one knows nothing."""
    with state.unwatched:
        if state.traces:
            trace: Trace = state.traces[0]
            why = why or f"calls {name} of a random number generator, which cannot be followed"
            trace.problems.append(f"{user_site()}: it {why}")
            if trace.effects:
                trace.refuse(f"a function that {why}")
            if isinstance(of, GENERATORS):
                will_draw(of)
        return getattr(of, name)(*args, **kwargs)


def _recorded(of: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What is drawn, on the tape of the outermost trace; as it is, if that is no number."""
    trace: Trace = state.traces[0]
    if name not in _VALUES:  # others say how many there are
        args, kwargs = extents(args), {key: extents(value) for key, value in kwargs.items()}
    names, values = trace.split(args)
    keywords, keyvalues = trace.split(dict(kwargs))
    known = all(_is_known(trace, var) for _, var in paths((names, keywords)))
    if not known or any(t._carries() for t in tracers_in((args, dict(kwargs)))) or tracers_in((values, keyvalues)):
        return _computed(of, name, args, kwargs)
    heard = trace.numpys if of is NUMPYS else None
    if heard is not None and fingerprint(NUMPYS) != heard:
        trace.problems.append(BY_LIBRARY)
    if of is not MAKERS:
        will_draw(of)
    try:
        value = getattr(of, name)(*values, **keyvalues)
    except Exception:  # any: the function may catch it, as in ``Trace.record``
        trace.problems.append(f"{name} raised an exception")
        raise
    finally:
        if heard is not None:
            trace.numpys = fingerprint(NUMPYS)
    t = typeof(value)
    if of is MAKERS:
        trace.made[id(value)] = trace.append(Call(Draw(of, name), names, keywords, t, trace.origin()), value)
        return recording(value)
    is_number = isinstance(t, ArrayType) and t.dtype.kind in "fiub" and not (type(value) is int and abs(value) >= LARGE)
    if not (is_number or value is None):
        trace.problems.append(f"{user_site()}: it draws a {type(value).__name__}, which cannot be followed")
        if trace.effects:
            trace.refuse(f"a {type(value).__name__} that is drawn")
        return value
    trace.draws += 1
    if (by := trace.made.get(id(of))) is not None:
        of, names = None, (by, *names)
    var = trace.append(Call(Draw(of, name), names, keywords, t, trace.origin()), value)
    return trace.wrap(var, value, Status.INACTIVE) if is_number else None


def _is_known(trace: Trace, var: Variable) -> bool:
    """Whether a value is known before the function runs: an argument, one that is read, or a constant."""
    return isinstance(trace.tape[var], Constant) or var in trace.roots


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


def problems_of_decisions(trace: Trace) -> list[str]:
    """Why decisions that a function has taken on drawn numbers are none that other calls take; nothing if they may:
    they are true or false, or a few whole numbers."""
    if not trace.draws:
        return []
    drawn: set[int] = set()
    values = []
    for var, op in trace.tape:
        if isinstance(op, Guard):
            values += [op] if op.var.id in drawn and not isinstance(op.expected, bool) else []
        elif isinstance(op, Call) and (type(op.fn) is Draw or any(x.id in drawn for x in operands(op))):
            drawn.add(var.id)
    if len(values) <= FEW_DECISIONS and all(isinstance(op.expected, int) for op in values):
        return []
    return [f"{values[0].site}: it decides on the values of random numbers, which are others at each call"]


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


class _Recording:
    """What stands in the place of a generator while a trace runs; to other threads, and later, it is that."""

    _real: Any

    def __reduce__(self) -> Any:
        return _unrecorded(self._real, "__reduce__", (), {})

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _unrecorded(self._real, "__reduce_ex__", (protocol,), {})


def _method(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return call(self._real, name, args, kwargs)

    method.__name__ = name
    return method


def _bits(generator: Any) -> Any:
    """What is read, or assigned, as the state there is, nobody hears of."""
    return _unrecorded(generator._real, "__getattribute__", ("bit_generator",), {}, "reads a bit generator")


def _class_of(base: type, recorded: Any) -> type:
    """The class of stand-ins for generators of a class."""
    own: dict[str, Any] = {"__module__": __name__, "_real": None}
    for name in dir(base):
        if name[0] != "_" and callable(getattr(base, name)):
            own[name] = _method(name, draw if name in recorded else _unrecorded)
    if base is np.random.Generator:
        own["bit_generator"] = property(_bits)
    return type(base.__name__, (_Recording, base), own)


_CLASSES: dict[type, type] = {
    np.random.Generator: _class_of(np.random.Generator, {*_OF_GENERATOR}),
    np.random.RandomState: _class_of(np.random.RandomState, _OF_STATE),
    random.Random: _class_of(random.Random, {*_OF_PYTHON}),
}


def is_recording(value: Any) -> bool:
    """Whether a value stands in the place of a generator."""
    return isinstance(value, _Recording)


def real(generator: Any) -> Any:
    """The generator itself."""
    return generator._real if isinstance(generator, _Recording) else generator


def is_recordable(value: Any) -> bool:
    """Whether a value is a generator of which all is known."""
    return type(value) in _CLASSES


def recording(generator: Any) -> Any:
    """What takes the place of a generator while a trace runs."""
    cls: Any = _CLASSES[type(generator)]
    if isinstance(generator, random.Random):
        made = cls.__new__(cls)
    else:
        made = cls(generator.bit_generator if isinstance(generator, np.random.Generator) else generator._bit_generator)
    made._real = generator
    return made


class _Function:
    """A function of ``np.random`` or ``random``, which draws from the generator that all share."""

    def __init__(self, of: Any, name: str, call: Callable[..., Any] = draw) -> None:
        self._of, self._name, self._call = of, name, call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(self._of, self._name, args, kwargs)


def _patch(module: Any, name: str, of: Any, method: str) -> None:
    patch(module, name, _Function(of, method), anywhere=True)


for _name in sorted(_OF_STATE & {*vars(np.random)}):
    _patch(np.random, _name, NUMPYS, _name)
for _name in ("bytes", "get_state", "set_state"):
    patch(np.random, _name, _Function(NUMPYS, _name, _unrecorded), anywhere=True)
for _name in ("ranf", "sample"):
    _patch(np.random, _name, NUMPYS, "random_sample")
_patch(np.random, "default_rng", MAKERS, "default_rng")
for _name in _OF_PYTHON:
    _patch(random, _name, PYTHONS, _name)
