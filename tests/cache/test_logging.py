"""Functions that log: what they log is logged at each call, if the logger lets it pass then."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from logging import getLogger
from typing import Any

import numpy as np
import pytest

from yota_py import config, explain, grad, jit, trace, value_and_grad

XS = (1.0, 2.0, 3.0, -1.0, 2.0, -2.0)
logger = logging.getLogger("yota_py_tests.logging")
FORMAT = logging.Formatter("%(name)s %(levelname)s %(filename)s:%(lineno)d %(funcName)s %(message)s")


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(FORMAT.format(record))


@pytest.fixture(name="lines")
def _lines() -> Iterator[Callable[[], list[str]]]:
    handler = Lines()
    logger.setLevel(logging.INFO)
    logger.propagate = False
    for each in (logger, logging.root):
        each.addHandler(handler)

    def lines() -> list[str]:
        said, handler.lines = handler.lines, []
        return said

    yield lines
    for each in (logger, logging.root):
        each.removeHandler(handler)


def f(x: Any) -> Any:
    logger.info("x %s", x)
    logger.debug("hidden %s", x)
    y = np.sin(x)
    logging.warning("root %.3f %s", y, [x])
    getLogger(logger.name if False else "yota_py_tests.logging").error("named %(a)s", {"a": x})
    logging.getLogger("yota_py_tests.logging").log(25, "plain")
    logger.warning("extra %s", y, extra={"more": 1})
    return x * y


class Model:
    def __init__(self) -> None:
        self.log, self.w = logger, np.ones(2)

    def loss(self, x: Any) -> Any:
        total = np.sum(self.w * x)
        self.log.info("loss %s", total)
        return total


@pytest.mark.parametrize("transform", [value_and_grad, jit])
def test_what_is_logged(transform: Any, lines: Any, every_policy: None) -> None:
    for function in (f, Model().loss):
        made = transform(function)
        for x in XS:
            function(x)
            want = lines()
            made(x)
            assert lines() == want != []
        if config.compile == "always":
            assert sum(each.calls for each in explain(made)) >= 4


def test_levels_that_change(lines: Any, every_policy: None) -> None:
    df = value_and_grad(f)
    for level in (logging.ERROR, logging.DEBUG, logging.CRITICAL, logging.INFO, logging.DEBUG):
        logger.setLevel(level)
        for x in XS[:2]:
            f(x)
            want = lines()
            df(x)
            assert lines() == want


def test_disabled(lines: Any) -> None:
    def quiet(x: Any) -> Any:
        logger.debug("x %s", x)
        return x * x

    for transform in (value_and_grad, jit):
        made = transform(quiet)
        assert [made(x) is not None for x in XS] and lines() == []
        assert sum(each.calls for each in explain(made)) >= 5
        logger.setLevel(logging.DEBUG)
        made(3.0)
        assert [line.rpartition(" ")[2] for line in lines()] == ["3.0"]
        logger.setLevel(logging.INFO)


def test_audits_log_once(lines: Any) -> None:
    config.check = True
    df = value_and_grad(f)
    for x in XS:
        f(x)
        want = lines()
        df(x)
        assert lines() == want


def test_another_logger(lines: Any, every_policy: None) -> None:
    def log_to(to: Any, x: Any) -> Any:
        to.info("x %s", x)
        return x * x

    other = logging.getLogger("yota_py_tests.logging.other")
    made = jit(log_to)
    for to in (logger, other, logger, other, other):
        made(to, 2.0)
        assert [line.partition(" ")[0] for line in lines()] == [to.name]


def test_on_tapes(lines: Any) -> None:
    text = str(trace(f, 2.0))
    assert "= info('x %s', %1)" in text and "= logging.warning('root %.3f %s', %" in text and "debug('hidden" in text


def asks(x: Any) -> Any:
    if logger.isEnabledFor(logging.INFO):
        logger.info("x %s", x)
    return x * x


def formats(x: Any) -> Any:
    text = f"x {x:.2f}"
    logger.info(text)
    return x * x


def tells_exceptions(x: Any) -> Any:
    logger.info("x %s", x, stack_info=False, exc_info=None)
    return x * x


def adapted(x: Any) -> Any:
    logging.LoggerAdapter(logger, {}).info("x")
    return x * x


@pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning")
@pytest.mark.parametrize("function", [asks, formats, tells_exceptions, adapted])
@pytest.mark.parametrize("transform", [value_and_grad, jit])
def test_what_is_not_followed(function: Any, transform: Any, lines: Any, every_policy: None) -> None:
    made = transform(function)
    for level, x in zip((logging.INFO, logging.INFO, logging.ERROR, logging.ERROR, logging.INFO), XS, strict=False):
        logger.setLevel(level)
        function(x)
        want = lines()
        made(x)
        assert lines() == want


def test_inner_gradients(lines: Any, every_policy: None) -> None:
    def outer(x: Any) -> Any:
        def inner(z: Any) -> Any:
            logger.info("inner %s", z * x)
            return z * z * x

        return grad(inner, x)[1][0]

    made = value_and_grad(outer)
    for x in XS:
        made(x)
        assert [line.rpartition(" ")[2] for line in lines()] == [str(x * x)]
