"""Recursive and polyphase filters of ``scipy.signal``, and what is made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import signal
from scipy.signal import _arraytools, _signaltools, _upfirdn

from yota_py.registry.composites import expanded
from yota_py.registry.partials import Wanted
from yota_py.registry.patches import open_to_traces, patch, through
from yota_py.registry.registry import Case, Cases, Pullback, Sample, case, primitive, rrule, vjps
from yota_py.registry.tangents import astype, conj

from ..support import axis_of, dtype_of, inexact, operand, shape_of, unsupported
from . import namespaces as namespaces  # what the code that is traced through asks for
from .signal import convolve, reversed_conj

open_to_traces(_signaltools, _arraytools)


def traced_through(name: str, cases: Cases) -> Any:
    """Let SciPy's own code be traced; the stand-in."""
    stand_in = patch(signal, name)
    expanded(stand_in, cases=cases)(through(getattr(signal, name)))
    return stand_in


# ------------------------------------------------------------------------------------------- recursive filters

lfilter = patch(signal, "lfilter")


def _lfilter_cases(s: Sample) -> Iterable[Case]:
    b, a = s(3), np.array([1.3, -0.4, 0.2])
    return [
        case(b, a, s(6)), case(s(2), a, s(5)), case(b, a[:2], s(5)), case(b, a, s(2, 4)), case(b, a, s(4, 2), 0),
        case(b, [1.0], s(5)), case(b, 2.0, s(5)), case(s(1), a, s(4)), case(s.number(), a, s(4)), case(b, a, s(1)),
        case(b, a, s(5), -1, s(2)), case(b, a, s(5), zi=np.zeros(2)), case(b, a, s(2, 5), -1, s(2, 2)),
        case(b, a, s(2, 5), 1, s(1, 2)), case(b, a, s(4, 2), 0, s(2, 2)), case(b, a[:2], s(1), -1, s(2)),
        case(b, [2.0], s(4), -1, s(2)), case([1.0, 0.5], [1.0, -0.2], [1.0, 2.0, 3.0]), case(b, a, s(5)[::-1]),
        case(b.astype("f4"), a.astype("f4"), s(4, dtype="f4")), case(s(2, dtype=complex), a, s(4)),
        case(b, a + 0.1j, s(4, dtype=complex)), case(b, a + 0.1j, s(3, dtype=complex), -1, s(2, dtype=complex)),
        case(b, a, s(4, 2).T), case(b, a, s(2, 0)),
    ]  # fmt: skip


def vector(x: Any) -> Any:
    x = operand(x)
    return x if shape_of(x) else np.reshape(x, (1,))


def _lagged(g: Any, x: Any, n: int) -> Any:
    """The sums over ``g[m + k] conj(x[m])``, over all rows too, for the lags k below n."""
    if 0 in (*shape_of(g), *shape_of(x)):
        return np.zeros(n)
    rows = [np.reshape(v, (-1, shape_of(v)[-1])) for v in (g, x)]
    return convolve(rows[0], reversed_conj(rows[1]), "valid")[0, :n]


def _run_back(a: Any, dy: Any, dend: Any) -> Any:
    """What the recursion with the coefficients ``a`` gives back in time, from what comes after the end."""
    if shape_of(a)[0] == 1 or not shape_of(dy)[-1]:
        return dy
    if dend is None:
        return np.flip(lfilter([1.0], a, np.flip(dy, -1)), -1)
    return np.flip(lfilter([1.0], a, np.flip(dy, -1), -1, -_carried(a, dend, shape_of(a)[0] - 1))[0], -1)


def _carried(a: Any, past: Any, order: int) -> Any:
    """What the coefficients make of earlier values, the last of which comes first, in the next steps."""
    m, n = shape_of(a)[0] - 1, shape_of(past)[-1]
    sums = [np.sum(a[k + 1 : k + 1 + n] * past[..., : m - k], -1) for k in range(m)]
    nothing = np.zeros((*shape_of(past)[:-1], order - m))
    return np.concatenate([np.stack(sums, -1), nothing], -1) if sums else nothing


@rrule(lfilter, selective=True, cases=_lfilter_cases)
def _lfilter_rule(
    wanted: Wanted, b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None
) -> tuple[Any, Pullback]:
    """With a[0] = 1, ``y[n] = sum b[k] x[n-k] - sum a[k] y[n-k] + zi[n]``, and ``zf`` is the same beyond the end with
    y = 0 there. So the cotangents g of the right sides are the filter 1/a of dy backwards (the transpose of a
    triangular Toeplitz matrix), after dzf; then ``db[k] = sum g[n] conj(x[n-k])``, and likewise for a.
    """
    result = lfilter(b, a, x, axis) if zi is None else lfilter(b, a, x, axis, zi)
    y = result if zi is None else result[0]
    b_, a_, x_ = vector(b), vector(a), operand(x)
    nb, na, n = shape_of(b_)[0], shape_of(a_)[0], shape_of(x_)[axis]
    order = max(nb, na) - 1

    def pullback(dresult: Any) -> Sequence[Any]:
        dy, dzf = (dresult, None) if zi is None else dresult
        b1, a1 = b_ / a_[0], a_ / a_[0]
        last, out = np.moveaxis(x_, axis, -1), np.moveaxis(y, axis, -1)
        end = None if dzf is None else np.moveaxis(dzf, axis, -1)
        dy = np.zeros(shape_of(last)) if dy is None else np.moveaxis(dy, axis, -1)
        g = _run_back(conj(a1), dy, end)
        g = np.concatenate([g, np.zeros((*shape_of(g)[:-1], order)) if end is None else end], -1)
        flat = np.reshape(g, (-1, n + order))
        dx = 0 * last
        if n and flat.size:
            dx = np.reshape(convolve(flat, reversed_conj(b1)[None], "valid")[:, :n], shape_of(last))
        db, da = _lagged(g, last, nb), -_lagged(g, out, na)
        rest = -np.sum(db * conj(b1)) - np.sum(da[1:] * conj(a1[1:]))
        da = np.concatenate([rest[None], da[1:]])
        scaled = [np.reshape(d / conj(a_[0]), shape_of(operand(v))) for d, v in ((db, b), (da, a))]
        return (*scaled, np.moveaxis(dx, -1, axis), None, None if zi is None else np.moveaxis(g[..., :order], -1, axis))

    return result, pullback


def _sections(s: Sample) -> Any:
    """Sections of whole numbers: no derivative is looked for, as SciPy wants ones among them."""
    return np.array([[1, 2, 1, 1, 0, 0], [2, 1, 0, 1, -1, 0]])


@expanded(patch(signal, "sosfilt"), cases=lambda s: [
    case(_sections(s), s(5)), case(_sections(s), s(2, 3), 0), case(_sections(s), s(3), zi=np.ones((2, 2))),
    case(_sections(s), s(2, 3), -1, s(2, 2, 2)), case(_sections(s)[0], [1.0, 2.0]),
    case(_sections(s), s(3, dtype=complex)),
    case(_sections(s), s(1)),
])  # fmt: skip
def sosfilt(sos: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """One filter of second order after the other."""
    sos, x = operand(sos), inexact(x)
    sos = sos[None] if len(shape_of(sos)) == 1 else sos
    if len(shape_of(sos)) != 2 or shape_of(sos)[1] != 6 or not np.all(sos[:, 3] == 1):
        _signaltools._validate_sos(np.zeros(shape_of(sos)))  # raises what it raises
    ends = []
    for i in range(shape_of(sos)[0]):
        a = np.concatenate([np.ones(1, dtype_of(sos)), sos[i, 4:]])
        if zi is None:
            x = lfilter(sos[i, :3], a, x, axis)
        else:
            x, end = lfilter(sos[i, :3], a, x, axis, operand(zi)[i])
            ends.append(end)
    return x if zi is None else (x, np.stack(ends))


# ------------------------------------------------------------------------- up, through a filter, and down again


@primitive
def _polyphase(h: Any, x: Any, up: int, down: int, axis: int) -> Any:
    """``sum_k h[m down - k up] x[k]``."""
    return signal.upfirdn(h, x, up, down, axis)


def _spaced(x: Any, step: int, axis: int) -> Any:
    """Zeros between the elements along an axis."""
    if step == 1:
        return x
    n, before, after = shape_of(x)[axis], shape_of(x)[:axis], shape_of(x)[axis + 1 :]
    wide = np.concatenate([np.expand_dims(x, axis + 1), np.zeros((*before, n, step - 1, *after))], axis + 1)
    wide = np.reshape(wide, (*before, n * step, *after))
    return wide[(slice(None),) * axis + (slice(n * step - step + 1),)]


def _back_to_signal(dy: Any, y: Any, h: Any, x: Any, up: int, down: int, axis: int) -> Any:
    """The reversed filter, with up and down exchanged; zeros behind it make its length one more than a multiple."""
    n, axis = shape_of(x)[axis], axis_of(axis, len(shape_of(x)))
    extra = -(shape_of(h)[0] - 1) % up
    h = np.concatenate([np.zeros(extra, dtype_of(h)), reversed_conj(h)])
    start = (shape_of(h)[0] - 1) // up
    out = _polyphase(h, dy, down, up, axis)
    widths = [(0, max(0, start + n - shape_of(out)[axis]) if i == axis else 0) for i in range(len(shape_of(x)))]
    return np.pad(out, widths)[(slice(None),) * axis + (slice(start, start + n),)]


def _back_to_filter(dy: Any, y: Any, h: Any, x: Any, up: int, down: int, axis: int) -> Any:
    axis = axis_of(axis, len(shape_of(x)))
    g, v = (np.moveaxis(_spaced(u, step, axis), axis, -1) for u, step in ((dy, down), (x, up)))
    n = shape_of(h)[0]
    widths = [(0, 0)] * (len(shape_of(x)) - 1) + [(0, max(0, n - 1 + shape_of(v)[-1] - shape_of(g)[-1]))]
    return _lagged(np.pad(g, widths), v, n)


vjps(_polyphase, _back_to_filter, _back_to_signal, cases=lambda s: [
    *(case(s(n), s(5), up, down, -1) for n in (1, 3, 4) for up, down in ((1, 1), (2, 1), (1, 2), (3, 2), (2, 3))),
    case(s(3), s(4, 2), 2, 1, 0), case(s(3), s(2, 4), 1, 2, 1), case(s(2), s(3, dtype=complex), 2, 1, -1),
    case(s(2, dtype="f4"), s(3, dtype="f4"), 2, 1, -1), case(s(9), s(2), 2, 3, -1),
])  # fmt: skip


@expanded(patch(signal, "upfirdn"), cases=lambda s: [
    case(s(3), s(4)), case(s(3), s(4), 2, 3), case([1.0, 2.0], [1.0, 2.0, 3.0], 2), case(s(3), s(2, 4), 2, 1, 0),
    *(case(s(4), s(5), 2, 3, -1, mode) for mode in ("symmetric", "reflect", "edge", "wrap")),
    case(s.integers(3, high=4), s(3)),
    case(s(3), s(3), cval=1.5),
])  # fmt: skip
def upfirdn(h: Any, x: Any, up: int = 1, down: int = 1, axis: int = -1, mode: str = "constant", cval: Any = 0) -> Any:
    """Of the signal beyond its ends, as much is needed as the filter reaches; on the left whole steps of the result."""
    h, x = operand(h), operand(x)
    if mode == "constant" and cval == 0:
        return _polyphase(h, x, up, down, axis)
    if mode not in ("constant", "symmetric", "reflect", "edge", "wrap"):
        raise unsupported(f"signal.upfirdn with mode={mode!r}", "Extend the signal with np.pad before")
    axis = axis_of(axis, len(shape_of(x)))
    n = _upfirdn._output_len(shape_of(h)[0], shape_of(x)[axis], up, down)
    reach = down * -(-shape_of(h)[0] // (up * down))
    widths = [(reach, reach) if i == axis else (0, 0) for i in range(len(shape_of(x)))]
    how: Any = {"mode": mode, "constant_values": cval} if mode == "constant" else {"mode": mode}
    out = _polyphase(h, np.pad(x, widths, **how), up, down, axis)
    return out[(slice(None),) * axis + (slice(reach * up // down, reach * up // down + n),)]


# ------------------------------------------------------------------------------- filters made of these, traced through



@expanded(patch(signal, "lfilter_zi"), cases=lambda s: [
    case(s(3), np.array([1.3, -0.4, 0.2])), case(s(2), np.array([1.0, -0.4, 0.2])), case(s(3), np.array([2.0, 0.5])),
    case([1.0, 2.0], [1, 0.5]), case(s(2, dtype=complex), [1.0, 0.3]),
])  # fmt: skip
def _lfilter_zi(b: Any, a: Any) -> Any:
    """The state that the step response ends in: ``zi = A zi + B``. It is divided by a[0] also where that is one."""
    b, a = vector(b), vector(a)
    while shape_of(a)[0] > 1 and a[0] == 0.0:
        a = a[1:]
    b, a = b / a[0], a / a[0]
    n = max(shape_of(a)[0], shape_of(b)[0])
    if n < 2:
        signal.lfilter_zi([1.0], [1.0])  # raises what it raises
    b, a = (np.pad(v, (0, n - shape_of(v)[0])) for v in (b, a))
    rest = np.subtract(np.eye(n - 1), np.eye(n - 1, k=1), dtype=np.result_type(dtype_of(b), dtype_of(a)))
    matrix = np.concatenate([rest[:, :1] + a[1:, None], rest[:, 1:]], 1)
    return np.linalg.solve(matrix, b[1:] - a[1:] * b[0])


@expanded(patch(signal, "lfiltic"), cases=lambda s: [
    case(s(3), np.array([1.3, -0.4, 0.2]), s(2)), case(s(3), np.array([1.3, -0.4]), s(1), s(2)),
    case(s(2), [1.0, 0.3], s(1)),
    case(s(3), [2.0, 0.3, 0.1], s(1), s(1)), case([1, 2], 1, [1, 2]),
    case(s(2, dtype="f4"), s(2, dtype="f4"), s(1, dtype="f4")),
])  # fmt: skip
def _lfiltic(b: Any, a: Any, y: Any, x: Any = None) -> Any:
    """What earlier inputs and outputs add to the next outputs, divided by a[0] also where that is one."""
    b, a, y = vector(b), vector(a), operand(y)
    y = y if shape_of(a)[0] > 1 else np.zeros(0, dtype_of(y))  # nothing is read of it
    x = np.zeros(0, dtype_of(y)) if x is None else operand(x)
    dtype = np.result_type(*map(dtype_of, (b, a, y, x)))
    order = max(shape_of(a)[0], shape_of(b)[0]) - 1
    zi = _carried(b, x, order) - _carried(a, y, order)
    if a[0] == 0.0:
        raise ValueError("First `a` filter coefficient must be non-zero.")
    return astype(zi / a[0], dtype if dtype.kind in "fc" else np.dtype(float))


traced_through("sosfilt_zi", lambda s: [case(s(2, 6, low=0.1, high=0.9)), case(np.array([[1, 2, 1, 1, 0, 0]]))])
traced_through("filtfilt", lambda s: [
    case(s(2), np.array([1.3, -0.4]), s(7)), case(s(2), [1.3, -0.4], s(3), padtype="even", padlen=1),
    case(s(1), np.array([1.3, -0.4]), s(3, 2), 0, "constant", 1), case(s(2), 1.5, s(3), padtype=None),
])
traced_through("sosfiltfilt", lambda s: [
    case(np.array([[1, 2, 1, 1, 0, 0], [2, 1, 0, 1, 0, 0]]) , s(18)), case(_sections(s)[:1], s(2, 5), padlen=2),
])  # fmt: skip
traced_through("deconvolve", lambda s: [
    case(s(5), np.array([1.3, -0.4])), case(s(3), np.array([2.0])), case([1.0, 2.0, 3.0], [1.0, 0.5]), case(s(2), s(3)),
])  # fmt: skip
traced_through("wiener", lambda s: [
    case(s(6)), case(s(4, 4), 3), case(s(6), 3, 0.1), case(s(5), 3, s.number(0.01, 0.02)),
])  # fmt: skip
traced_through("resample_poly", lambda s: [
    case(s(6), 2, 3), case(s(6), 3, 2, window=s(5)), case(s(4, 3), 1, 2, axis=1), case(s(5), 2, 1, padtype="mean"),
    case(s(5), 2, 1, padtype="edge"), case(s(3, dtype="f4"), 2, 1),
])  # fmt: skip
traced_through("decimate", lambda s: [
    case(s(30), 2), case(s(8), 2, 4, "fir"), case(s(40, 2), 2, 2, axis=0, zero_phase=False),
])  # fmt: skip


@expanded(patch(signal, "detrend"), cases=lambda s: [
    case(s(6)), case(s(6), type="constant"), case(s(2, 5)), case(s(5, 2), 0), case(s(8), bp=[3]),
    case(s(5, dtype="f4")),
    case(s(5), bp=4), case([1.0, 2.0, 4.0]), case(s(4, dtype=complex)), case(s(11), -1, "l", [4, 7]),
    case(s.integers(4, high=5)),
])  # fmt: skip
def _detrend(data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: bool = False) -> Any:
    """The mean of each piece is taken off, and the line through it that has the least squares."""
    x = inexact(data)
    n = shape_of(x)[axis]
    ends = np.unique(np.concatenate([[0, n], np.ravel(np.asarray(bp))]))
    if type not in ("linear", "l", "constant", "c") or np.any(ends > n):
        signal.detrend(np.zeros(n), type=type, bp=bp)  # raises what it raises
    if type in ("constant", "c"):
        return x - np.mean(x, axis, keepdims=True)
    x, pieces = np.moveaxis(x, axis, -1), []
    for start, stop in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        piece = x[..., start:stop] - np.mean(x[..., start:stop], -1, keepdims=True)
        t = (np.arange(stop - start) - (stop - start - 1) / 2).astype(dtype_of(x))
        pieces.append(piece - t * np.sum(piece * t, -1, keepdims=True) / (np.sum(t * t) or 1))
    return np.moveaxis(np.concatenate(pieces, -1), -1, axis)
