"""Functions in test modules, whose assert statements pytest writes anew."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest
from _pytest.assertion import rewrite

from yota_py import config, explain, value_and_grad

SOURCE = '''
import numpy as np

def loss(x):
    n = len(x)
    assert n == 3
    assert np.sum(x) > 0, "a message"
    return np.sum(x * x)
'''


def test_a_function_with_asserts() -> None:
    config.compile = "always"
    tree = ast.parse(SOURCE)
    rewrite.rewrite_asserts(tree, SOURCE.encode(), "test_written.py")
    space: dict[str, Any] = {"__name__": "test_written"}
    exec(compile(tree, "test_written.py", "exec"), space)
    assert "@py_builtins" in space["loss"].__code__.co_names
    df = value_and_grad(space["loss"])
    for k in range(4):
        assert df(np.ones(3) + k)[0] == 3.0 * (1 + k) ** 2
    assert sum(known.calls for known in explain(df)) == 3, explain(df)
    with pytest.raises(AssertionError, match="a message"):
        df(-np.ones(3))
    with pytest.raises(AssertionError, match="4 == 3"):
        df(np.ones(4))
