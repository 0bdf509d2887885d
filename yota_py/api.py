"""The public functions: what a user calls."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from types import FunctionType
from typing import Any, Protocol

from .base.containers import attribute_of
from .base.dispatch import dispatching
from .base.signatures import wraps
from .base.tracebacks import fold, folded
from .base.unwinding import state
from .cache.compilable import Compilable
from .cache.functions import FunctionCache, cache_for, caches, known_cache
from .cache.modes import Gradient, Request
from .capture.recording import record_call
from .errors import ObjectsGivenError, YotaError
from .passes.roll import roll
from .reverse.differentiable import heed_habits, needed_for, out_of_range, positions, require_active
from .reverse.seeds import with_floats
from .reverse.verbs import differentiate
from .tape.loop import UnrolledError
from .tape.operations import user_site
from .tape.show import name_of
from .tape.tape import Tape

_GRAD = Gradient()
_known = caches.get  # grad's are known by the identity of the function's code


class _Grad(Protocol):
    def __call__(self, f: Callable[..., Any], *args: Any, seed: Any = None, **kwargs: Any) -> tuple[Any, Any]: ...

    def compile(self, f: Callable[..., Any], *args: Any, seed: Any = None, **kwargs: Any) -> None: ...


def _cache_of(f: Callable[..., Any]) -> FunctionCache:
    _check_callable(f)
    owner = attribute_of(f, "__code__", f)
    return known_cache(id(owner), owner, _GRAD)


@folded
def _compile_grad(f: Callable[..., Any], *args: Any, seed: Any = None, **kwargs: Any) -> None:
    """Compile ``grad`` of a function for arguments of these types."""
    _compile_call(_cache_of(f), Request(f, args, kwargs, with_floats(seed)))


def _compile_call(cache: FunctionCache, call: Request) -> None:
    """``_compile_any``, also where objects and functions are among the arguments."""
    try:
        _compile_any(cache, call)
    except ObjectsGivenError:
        cache.objects = True
        assert isinstance(cache.mode, Gradient)
        _, inner, placed = _given(cache.mode, call)
        _compile_any(cache_for(placed.f, inner), placed)


def _compilable_grad(fn: Callable[..., Any]) -> _Grad:
    wrapped: Any = fn
    wrapped.compile = _compile_grad
    return wrapped  # type: ignore[no-any-return]


@_compilable_grad
def grad(f: Callable[..., Any], *args: Any, seed: Any = None, **kwargs: Any) -> tuple[Any, Any]:
    """Value and gradients of ``f(*args, **kwargs)``: ``(value, grads)``, one gradient per positional argument.

    Each gradient has the structure, shapes and dtypes of its argument: floats, complex numbers, NumPy arrays and
    scalars of them, in any nesting of tuples, lists, dicts, namedtuples, dataclasses and what is registered with
    ``optree``. Integers, bools, strings and ``None`` get ``None``; an argument without influence gets zeros. For
    complex arguments the gradient is dL/dRe + i dL/dIm.

    Calls are traced and interpreted until that has taken half as long as compiling is expected to take; then they
    run compiled code (``config.compile``). ``grad.compile(f, *args)`` compiles at once, for arguments of these types;
    it raises ``CompileError`` for a function whose calls cannot share a program. It calls the function once, and once
    more if that stores something (``self.h = h``).

    ``seed`` is the cotangent of an output that is not a real scalar, of the output's structure and shapes; it may
    have any real dtype (for complex outputs, a complex one as well), and lists of numbers stand for an array.

    Raises ``NotDifferentiableError`` if no argument is differentiable, ``NonScalarOutputError`` if the output is not a
    real scalar and there is no seed, ``SeedError`` for a seed of another shape, ``MissingRuleError`` for a function
    without a rule, ``LostDerivativeError`` where a conversion would drop the derivative.

    >>> import numpy as np
    >>> grad(lambda x1, x2: x1 * x2 + np.sin(x1), 2.0, 3.0)
    (6.909297426825682, (2.5838531634528574, 2.0))
    """
    try:
        if seed is not None:
            seed = with_floats(seed)
        if state.traces:
            return _GRAD.interpret(Request(f, args, kwargs, seed))  # type: ignore[no-any-return]
        cache = _known(id(f.__code__ if type(f) is FunctionType else attribute_of(f, "__code__", f)))
        if cache is None:
            cache = _cache_of(f)
        if cache.objects and _GRAD.are_given(f, args, args):
            return _with_objects(cache, _GRAD, f, args, kwargs, seed)  # type: ignore[no-any-return]
        if cache.stores:
            return _with_effects(cache)(f, args, kwargs, seed)  # type: ignore[no-any-return]
        return cache.__call__(f, args, kwargs, seed)  # type: ignore[no-any-return] # by its class it takes longer
    except ObjectsGivenError:
        return _with_objects(_cache_of(f), _GRAD, f, args, kwargs, seed)  # type: ignore[no-any-return]
    except BaseException as error:
        fold(error)
        raise


@folded
def value_and_grad(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, *, wrt: Any = None,
    sparse_rows: bool = False,
) -> Compilable:  # fmt: skip
    """A function ``(*args, **kwargs) -> (value, gradient)`` in the positional arguments ``argnums``.

    An integer gives that argument's gradient (-1: of the call's last one), a sequence a tuple of them; structures,
    shapes and dtypes are as in ``grad``. With ``has_aux``, ``f`` returns ``(value, aux)`` and so does the result:
    ``((value, aux), gradient)``.

    ``wrt`` asks for derivatives in what ``f`` reads besides its arguments, instead of ``argnums``: arrays in closures
    or under global names, objects with their attributes, lists and dicts, and any containers of these.
    They are known by their identity when the function is made, and read where they stand at each call. The gradient
    has the structure of ``wrt``; for an object of a plain class it is a ``SimpleNamespace`` with the names of its
    attributes, and ``None`` for those that are no floats.

    With ``sparse_rows``, the gradient of an array that ``f`` reads by rows alone (``E[words]``, ``E[3]``, ``E[2:5]``)
    is ``Rows``, ``(indices, values, count)``; it is an array where ``f`` uses it in any other way. Not with ``wrt``.

    Raises ``ValueError`` for positions that are no integers; the function raises ``TypeError`` if it is called with
    fewer positional arguments, ``ValueError`` if ``f`` cannot reach what is in ``wrt``, and otherwise what ``grad``
    raises.

    >>> import numpy as np
    >>> value_and_grad(lambda w, x: np.sum(w * x))(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    (np.float64(11.0), array([3., 4.]))
    >>> w = np.array([1.0, 2.0])
    >>> value_and_grad(lambda x: np.sum(w * x), wrt=w)(np.array([3.0, 4.0]))
    (np.float64(11.0), array([3., 4.]))
    """
    _check_callable(f)
    if wrt is not None:
        _check_dense(sparse_rows)
        return _in_parameters(value_and_grad, f, argnums, has_aux, wrt)
    wanted = positions(argnums)
    mode = Gradient(wanted, has_aux, sparse_rows)
    needed, cache = needed_for(wanted), cache_for(f, mode)
    serve = cache.__call__

    @wraps(f)
    def value_and_gradient(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        try:
            if len(args) < needed:
                raise out_of_range(f, argnums, len(args))
            if state.traces:
                return mode.interpret(Request(f, args, kwargs))  # type: ignore[no-any-return]
            if cache.objects and mode.are_given(f, args, args):
                return _with_objects(cache, mode, f, args, kwargs)  # type: ignore[no-any-return]
            return (_with_effects(cache) if cache.stores else serve)(f, args, kwargs, None)  # type: ignore[no-any-return]
        except ObjectsGivenError:
            return _with_objects(cache, mode, f, args, kwargs)  # type: ignore[no-any-return]
        except BaseException as error:
            fold(error)
            raise

    made = _named(value_and_grad, sparse_rows)
    return Compilable(value_and_gradient, cache, made, (f, argnums, has_aux), compile_call=_compile_call)


def _named(transform: Callable[..., Any], sparse_rows: bool) -> Callable[..., Any]:
    """What makes the same of a function."""
    return partial(transform, sparse_rows=True) if sparse_rows else transform


def _check_dense(sparse_rows: bool) -> None:
    if sparse_rows:
        raise ValueError(f"{user_site()}: sparse_rows is for arguments; give the array as one, rather than in wrt")


def _parameters() -> Any:
    """The module of parameters, which few programs need."""
    return import_module(".capture.parameters", __package__)


def _with_effects(cache: FunctionCache) -> Callable[..., Any]:
    """What calls a gradient: another cache, if its function stores something."""
    return partial(_storing().with_effects, cache) if cache.stores else cache


def _compile_any(cache: FunctionCache, call: Request) -> None:
    _storing().compile_any(cache, call)


def _storing() -> Any:
    """The module of functions that store something, which few programs do."""
    return import_module(".cache.storing", __package__)


def _reach() -> Any:
    return import_module(".capture.reach", __package__)


@folded
def _with_objects(
    known: FunctionCache, mode: Gradient, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
    seed: Any = None,
) -> Any:  # fmt: skip
    """Value and gradients where objects and functions are among the arguments: theirs are mirrors of them. The
    function's cache knows of it from now on."""
    known.objects = True
    top, inner, call = _given(mode, Request(f, args, kwargs, seed))
    if state.traces:
        value, (gradients, *found) = inner.interpret(call)
    else:
        cache = cache_for(call.f, inner)
        value, (gradients, *found) = _with_effects(cache)(*call)
    complete = [*_complete(args, top, gradients, zip(top.below, found, strict=True))]
    return value, complete[0] if isinstance(mode.argnums, int) else (*complete,)


def _complete(args: Sequence[Any], top: Any, gradients: Any, found: Iterable[tuple[int, Any]]) -> Iterator[Any]:
    """The gradients in some arguments, with those in their objects."""
    return (_parameters().with_mirrors(args[i], dx, top.below[i].below, gradients) for i, dx in found)


def _given(mode: Gradient, call: Request) -> tuple[Any, Gradient, Request]:
    """What the wanted arguments hold; what is wanted of the function of that and of the arguments, and its call."""
    _, wanted = mode.wanted(len(call.args))
    given = _parameters().Given(call.f, wanted)
    top, values = given.read(call.args)
    inner = Gradient((0, *(i + 1 for i in wanted)), mode.has_aux, mode.by_rows)
    placed = _parameters().with_parameters(call.f, given)
    return top, inner, Request(placed, (values, *call.args), call.kwargs, call.seed)


def _in_parameters(
    transform: Callable[..., Any], f: Callable[..., Any], argnums: Any, has_aux: bool, wrt: Any
) -> Compilable:
    """``value_and_grad`` or ``gradient`` of a function of what stands in the places of ``wrt``, and its arguments."""
    if argnums != 0:
        raise ValueError(f"{user_site()}: {transform.__name__} takes argnums or wrt; make an argument of what is in "
                         "wrt, or call it twice")
    parameters = _parameters().Parameters(f, wrt)
    placed = _parameters().with_parameters(f, parameters)
    both = value_and_grad(placed, 0, has_aux)

    @wraps(f)
    def with_respect_to(*args: Any, **kwargs: Any) -> Any:
        try:
            top, values = parameters.read(args, kwargs)
            value, gradients = both(values, *args, **kwargs)
            found = _reach().mirror(top, gradients)
            return found if transform is gradient else (value, found)
        except BaseException as error:
            fold(error)
            raise

    def given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        return placed, (parameters.read(args, kwargs)[1], *args), kwargs

    of = (f, 0, has_aux)[: 2 if transform is gradient else 3]
    return Compilable(with_respect_to, both.__yota_cache__, partial(transform, wrt=wrt), of, given, _compile_any)


@folded
def gradient(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, *, wrt: Any = None, sparse_rows: bool = False
) -> Compilable:
    """A function that gives the gradient alone; options and errors as in ``value_and_grad``.

    >>> gradient(lambda x: x * x)(3.0)
    6.0
    """
    if wrt is not None:
        _check_callable(f)
        _check_dense(sparse_rows)
        return _in_parameters(gradient, f, argnums, False, wrt)
    both = value_and_grad(f, argnums, sparse_rows=sparse_rows)

    @wraps(f)
    def gradient_only(*args: Any, **kwargs: Any) -> Any:
        try:
            return both(*args, **kwargs)[1]
        except BaseException as error:
            fold(error)
            raise

    made = _named(gradient, sparse_rows)
    return Compilable(gradient_only, both.__yota_cache__, made, (f, argnums), compile_call=_compile_call)


@folded
def pullback(f: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Callable[[Any], Any]]:
    """``(y, back)``: the value, and a function from a cotangent of ``y`` to a tuple of one gradient per argument.

    ``y`` may have any structure; the seed has the same, and the shapes of the leaves of ``y``. ``back`` can be called
    as often as wanted; each gradient is as in ``grad``.

    Both are compiled as a gradient is. What ``back`` needs is computed with the value and kept, so that it does not
    matter what has changed when it is called, nor how often that is.

    Raises ``NotDifferentiableError`` if no argument is differentiable, and what ``grad`` raises while ``f`` runs;
    ``back`` raises ``SeedError`` for a seed of another structure or shape.

    >>> y, back = pullback(lambda x: (x * x, 3 * x), 2.0)
    >>> y, back((1.0, 0.0)), back((0.0, 1.0))
    ((4.0, 6.0), (4.0,), (3.0,))
    """
    heed_habits(f, args, kwargs, "pullback")
    if not _GRAD.are_given(f, args, args):
        return _cached_pullback(f, args, kwargs)
    top, _, call = _given(_GRAD, Request(f, args, kwargs))
    y, back = _cached_pullback(call.f, call.args, call.kwargs)

    @folded
    def back_to_objects(seed: Any) -> Any:
        gradients, *found = back(seed)
        return (*_complete(args, top, gradients, enumerate(found)),)

    return y, back_to_objects


def _cached_pullback(f: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> tuple[Any, Callable[[Any], Any]]:
    pulling = import_module(".cache.pulling", __package__)  # few programs need it
    if state.traces:
        return pulling.pulled(f, args, kwargs)  # type: ignore[no-any-return]
    return cache_for(f, pulling.PULLING)(f, args, kwargs, None)  # type: ignore[no-any-return]


@folded
def trace(
    f: Callable[..., Any], *args: Any, primitives: Collection[Any] | Callable[[Any], bool] = (), **kwargs: Any
) -> Tape:
    """The primal tape of one call: print it, ``play`` it, look at ``tape[5]``.

    Arguments are as in ``grad``; ``play`` wants the same structure, and arrays of the same shapes and dtypes. Functions
    need no rules. ``primitives`` are functions of Python's, or what tells them by ``True``, whose calls stand on the
    tape as they are, and are not looked into: functions that ``f`` reaches by names, closures, attributes and items.

    Raises ``LostDerivativeError`` as ``grad`` does, where a traced value would become a plain one, of which the tape
    knows nothing, and ``ValueError`` for one of the ``primitives`` that ``f`` does not reach.

    >>> import numpy as np
    >>> len(trace(lambda x: np.exp(x) + x, 1.0))
    3
    """
    if not primitives:
        return roll(record_call(f, args, kwargs, derived=False, labels=True)).tape
    wanted = None if callable(primitives) else {id(getattr(fn, "__func__", fn)): fn for fn in primitives}

    def is_wanted(fn: Any) -> bool:
        return id(fn) in wanted if wanted is not None else isinstance(fn, FunctionType) and bool(primitives(fn))  # type: ignore[operator]

    replaced = _reach().Replaced([(f, name_of(f))], is_wanted, dispatching)
    for key, fn in wanted.items() if wanted is not None else ():
        if key not in replaced.found:
            raise ValueError(f"{user_site()}: {name_of(f)} does not reach {name_of(fn)}, which is to be a primitive")
    with replaced:
        return roll(record_call(f, args, kwargs, derived=False, labels=True)).tape


@folded
def gradtape(f: Callable[..., Any], *args: Any, seed: Any = None, **kwargs: Any) -> Tape:
    """The gradient tape of one call: rules in the place of primitives, then their pullbacks in reverse.

    ``print`` it; ``tape.play(*args)`` computes ``(value, grads)`` for other arguments of the same types. Made with a
    ``seed``, it is played with one: ``tape.play(*args, seed=...)``. Raises what ``grad`` raises.

    >>> gradtape(lambda x: x * x, 3.0).play(4.0)
    (16.0, (np.float64(8.0),))
    """
    heed_habits(f, args, kwargs, "gradtape")
    source = record_call(f, args, kwargs, labels=True)
    require_active(source.tape, f, args, kwargs)
    with suppress(UnrolledError, YotaError):  # of a rule, in a loop's body: turn by turn, it may do
        return differentiate(roll(source), with_floats(seed)).tape
    return differentiate(source, with_floats(seed)).tape


def _check_callable(f: Any) -> None:
    if not callable(f):
        raise TypeError(f"{user_site()}: the first argument is the function to differentiate; got {type(f).__name__}")

