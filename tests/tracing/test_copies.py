"""``copy.copy`` and ``copy.deepcopy`` of what holds traced values."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from agreement import agree
from steps import runs_as_plain


def test_parameters_are_copied_with_their_derivatives() -> None:
    def f(p: Any) -> Any:
        q, r = copy.deepcopy(p), copy.copy(p)
        q["w"] *= 2
        r["w"] = copy.copy(r["w"]) * 3
        return np.sum(q["w"] * r["w"]) + np.sum(p["w"]) + q["b"][0] * p["n"]

    for i in range(4):
        agree(lambda w, b: f({"w": w, "b": [b], "n": 3}), np.arange(3.0) + i, 2.0 - i)


def test_a_step_copies_what_it_reads() -> None:
    def make() -> Any:
        params = {"w": np.ones(2), "b": [np.zeros(1), 0.5]}

        def step() -> Any:
            target = copy.deepcopy(params)
            target["w"] += 1
            params["b"][0] += target["w"].sum()  # type: ignore[index]
            return target

        return step, lambda i: (), lambda: params

    runs_as_plain(make, compiled=6)
