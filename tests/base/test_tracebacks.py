"""Exceptions that come out of a transform show the user's frames and those of libraries, and none of ours."""

from __future__ import annotations

import io
import json
import pdb
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import numpy as np
import pytest

from yota_py import config, grad, gradient, gradtape, jit, pullback, trace, value_and_grad
from yota_py.errors import LostDerivativeError, NotDifferentiableError, YotaError

TRANSFORMS: dict[str, Callable[..., Any]] = {
    "grad": grad,
    "value_and_grad": lambda f, *args: value_and_grad(f)(*args),
    "gradient": lambda f, *args: gradient(f)(*args),
    "jit": lambda f, *args: jit(f)(*args),
    "pullback": pullback,
    "trace": trace,
    "gradtape": gradtape,
    "grad.compile": lambda f, *args: grad.compile(f, *args),
    "jit of grad": lambda f, *args: jit(lambda *args: grad(f, *args)[0])(*args),
    "grad of grad": lambda f, *args: grad(lambda *args: grad(f, *args)[1][0], *args),
}


def raised(call: Callable[..., Any], *args: Any) -> BaseException:
    try:
        call(*args)
    except BaseException as error:
        return error
    raise AssertionError("nothing is raised")


def frames(tb: TracebackType | None) -> Iterator[tuple[str, str]]:
    for frame, _ in traceback.walk_tb(tb):
        yield str(frame.f_globals.get("__name__")), frame.f_code.co_name


def chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def ours(error: BaseException) -> list[tuple[str, str]]:
    found = [frame for each in chain(error) for frame in frames(each.__traceback__)]
    return [(module, name) for module, name in found if module.startswith("yota_py") or name == "guard"]


def own(x: Any) -> Any:
    return below(x * 2.0)


def below(x: Any) -> Any:
    if x > 1.0:
        raise ValueError("too large")
    return x


def shapes(x: Any) -> Any:
    return np.sum(np.reshape(np.ones(3) * x, (2, 2)))


def singular(x: Any) -> Any:
    return np.sum(np.linalg.inv(np.zeros((2, 2)) * x))


def parsed(x: Any) -> Any:
    json.loads("[1")
    return x


def lost(x: Any) -> Any:
    return float(x) * x


def chained(x: Any) -> Any:
    try:
        return below(x * 3.0)
    except ValueError as error:
        raise RuntimeError("no result") from error


def interrupted(x: Any) -> Any:
    if x > 1.0:
        raise KeyboardInterrupt
    return x


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("f", [own, shapes, singular, parsed, chained, interrupted])
def test_only_the_users_frames(f: Callable[..., Any], transform: str, every_policy: None) -> None:
    plain = raised(f, 4.0)
    names = [frame for frame in frames(plain.__traceback__) if frame[0] == __name__]
    for _ in range(3):
        error = raised(TRANSFORMS[transform], f, 4.0)
        assert type(error) is type(plain)
        assert str(error) == str(plain)
        assert not ours(error)
        found = [frame for frame in frames(error.__traceback__) if frame[0] == __name__ and frame[1] != "<lambda>"]
        assert found == names
        assert type(error.__cause__) is type(plain.__cause__)
        assert type(error.__context__) is type(plain.__context__)


@pytest.mark.parametrize("transform", ["grad", "value_and_grad", "gradient", "pullback", "trace", "grad of grad"])
def test_our_own_errors_end_at_the_users_line(transform: str) -> None:
    for _ in range(3):
        error = raised(TRANSFORMS[transform], lost, 4.0)
        assert isinstance(error, LostDerivativeError)
        assert not ours(error)
        assert [*frames(error.__traceback__)][-1] == (__name__, "lost")
        assert "return float(x) * x" in traceback.format_exception(error)[-2]


def test_errors_before_the_function_runs() -> None:
    error = raised(grad, own, 0)
    assert isinstance(error, NotDifferentiableError)
    assert [*frames(error.__traceback__)] == [(__name__, "raised")]


@pytest.mark.parametrize("transform", [grad, jit])
def test_programs_that_are_served_before(transform: Any, every_policy: None) -> None:
    call = (lambda x: grad(own, x)) if transform is grad else jit(own)
    for _ in range(4):
        call(0.25)
    for _ in range(3):
        error = raised(call, 4.0)
        assert type(error) is ValueError
        assert not ours(error)
        assert [name for _, name in frames(error.__traceback__)][-2:] == ["own", "below"]


def test_full_tracebacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "traceback", "full")
    assert ours(raised(grad, own, 4.0))
    with pytest.raises(ValueError, match="short"):
        config.traceback = "none"


def test_what_the_caller_is_handling_stays_the_context() -> None:
    try:
        raise KeyError("outside")
    except KeyError as outside:
        for call in (lambda: grad(own, 4.0), lambda: jit(own)(4.0), lambda: jit(shapes)(4.0)):
            error = raised(call)
            assert [*chain(error)][-1] is outside
            assert len([*chain(error)]) == 2
            assert sys.exc_info()[1] is outside


def test_exceptions_raised_again_and_within_handlers() -> None:
    def again(x: Any) -> Any:
        try:
            return grad(own, x)
        except ValueError as error:
            assert sys.exc_info()[2] is error.__traceback__
            raise

    error = raised(again, 4.0)
    assert not ours(error)
    assert [name for _, name in frames(error.__traceback__)] == ["raised", "again", "own", "below"]


def test_post_mortem() -> None:
    error = raised(grad, own, 4.0)
    typed, shown = io.StringIO("p x.__class__.__name__\nup\np 'in ' + own.__name__\nq\n"), io.StringIO()
    debugger = pdb.Pdb(stdin=typed, stdout=shown, nosigint=True, readrc=False)
    debugger.use_rawinput = False
    debugger.reset()
    debugger.interaction(None, error.__traceback__)  # type: ignore[arg-type]
    assert "'float'" in shown.getvalue()
    assert "'in own'" in shown.getvalue()


def test_groups() -> None:
    def f(x: Any) -> Any:
        errors = [raised(below, x), raised(lambda x: np.reshape(x, (2, 2)), x * np.ones(3))]
        raise ExceptionGroup("both", errors)  # type: ignore[type-var]

    error = raised(grad, f, 4.0)
    assert isinstance(error, ExceptionGroup)
    assert not any(map(ours, error.exceptions))


def test_errors_of_a_pullback() -> None:
    _, back = pullback(lambda x: x * 2.0, np.ones(2))
    error = raised(back, np.ones(3))
    assert isinstance(error, YotaError)
    assert [*frames(error.__traceback__)] == [(__name__, "raised")]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_code_without_lines(name: str) -> None:
    """An interrupt comes at any bytecode, and some have no line."""

    def f(x: Any) -> Any:
        y = np.log(x) * x
        if x > 0:
            raise RuntimeError("here")
        return y

    bare = types.FunctionType(f.__code__.replace(co_linetable=b""), globals())
    assert raised(bare, 1.0).__traceback__.tb_next.tb_lineno in (None, -1)  # type: ignore[union-attr, unreachable]
    error = raised(TRANSFORMS[name], bare, 1.0)
    assert str(error) == "here"
    assert isinstance(error, RuntimeError)
    if name == "grad":
        with pytest.warns(RuntimeWarning, match="invalid value encountered in log"):
            assert np.isnan(grad(bare, -1.0)[0])
