"""Windows of ``scipy.signal.windows`` in their parameters, by SciPy's own code."""

from __future__ import annotations

from types import ModuleType

import numpy as np
from scipy import signal
from scipy.signal import windows
from scipy.signal.windows import _windows

from yota_py.registry.composites import expanded
from yota_py.registry.patches import makes_constants, open_to_traces, patch, patched, through
from yota_py.registry.registry import Cases, case

open_to_traces(_windows)
patch(_windows, "_namespace", lambda xp: np)


def _of_parameters(name: str, cases: Cases, owner: ModuleType = windows) -> None:
    expanded(patch(owner, name), cases=cases)(through(getattr(owner, name)))


_of_parameters("kaiser", lambda s: [
    case(5, s.number(1.0, 3.0)), case(4, s.number(1.0, 3.0), False), case(1, s.number()),
])  # fmt: skip
_of_parameters("gaussian", lambda s: [case(5, s.number(1.0, 3.0)), case(4, s.number(1.0, 3.0), sym=False)])
_of_parameters("general_gaussian", lambda s: [case(4, s.number(1.0, 2.0), s.number(1.0, 2.0))])
_of_parameters("exponential", lambda s: [case(4, None, s.number(1.0, 2.0)), case(4, 1.5, s.number(1.0, 2.0), False)])
_of_parameters("general_hamming", lambda s: [case(5, s.number(0.2, 0.8)), case(4, s.number(0.2, 0.8), False)])
_of_parameters("general_cosine", lambda s: [case(5, s(3)), case(4, [0.5, 0.3], False)])
_of_parameters("tukey", lambda s: [case(7, s.number(0.4, 0.45)), case(5, 1.5), case(5, s.number(-1.0, -0.5))])
_of_parameters("get_window", lambda s: [
    case(("gaussian", s.number(1.0, 2.0)), 5), case(("tukey", s.number(0.4, 0.45)), 6, False), case("hann", 4),
], signal)  # fmt: skip
patch(windows, "get_window", patched[signal, "get_window"])


makes_constants(windows, *windows.__all__)
