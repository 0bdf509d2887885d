"""Traced values and tensors: refused where a derivative would be lost, and data is data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from yota_py import grad, value_and_grad
from yota_py.errors import LostDerivativeError

X = np.array([1.0, 2.0])


def test_tensors_of_data() -> None:
    f = value_and_grad(lambda w, x: w * torch.tensor(x).sum().item())
    for k in range(4):
        assert f(2.0, np.ones(3) * k) == (6.0 * k, 3.0 * k)


@pytest.mark.parametrize("call", ["tensor(x)", "tensor([x[0], 1.0])", "from_numpy(x)", "as_tensor(x)", "Tensor(x)"])
def test_tensors_of_traced_values(call: str) -> None:
    names: dict[str, Any] = {"torch": torch}
    exec(f"def f(x):\n    y = x * 2.0\n    return float(torch.{call.replace('x', 'y')}.sum())", names)
    with pytest.raises(LostDerivativeError, match=rf"torch.{call.partition('(')[0]}\(...\) gets .*yota_py.primitive"):
        grad(names["f"], X)


@pytest.mark.filterwarnings("ignore")
def test_functions_of_tensors() -> None:
    with pytest.raises(LostDerivativeError, match="a torch Tensor meets a traced value: torch's exp"):
        grad(lambda x: torch.exp(torch.ones(2) * x).sum(), X)
