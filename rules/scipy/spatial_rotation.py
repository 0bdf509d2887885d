"""``scipy.spatial.transform.Rotation`` and ``Slerp`` of traced values, in quaternions (x, y, z, w).

A rotation that is made of traced values holds a traced quaternion, by which its methods know. Formulas: Shuster, A
Survey of Attitude Representations, 1993; Bernardes & Viollet, Quaternion to Euler angles conversion, 2022.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation, Slerp

from yota_py.base.dispatch import find_traced, is_traced
from yota_py.registry.patches import finders, patch

from ..support import inexact, shape_of, stop_gradient, unsupported
from .spatial_nearest import nearest_orthogonal

DEGREES = 180 / math.pi
SMALL = 1e-3  # squares below, where series stand for quotients of zeros

# ----------------------------------------------------------------------------------------------- quaternions


def _wide(x: Any) -> Any:
    return np.multiply(np.float64(1), inexact(x))


def _unit(q: Any) -> Any:
    norm = np.linalg.norm(q, axis=-1, keepdims=True)
    if np.any(np.equal(norm, 0)):
        raise ValueError("Found zero norm quaternions in `quat`.")
    return q / norm


def _canonical(q: Any) -> Any:
    """The one of q and -q whose last component that is not zero, w before x, y and z, is positive."""
    sign = np.sign(q)
    signs = [sign[..., i] for i in (3, 0, 1, 2)]
    first = signs[0]
    for other in signs[1:]:
        first = np.where(np.equal(first, 0), other, first)
    return q * np.where(np.equal(first, 0), 1, first)[..., None]


def _product(p: Any, q: Any) -> Any:
    (a, s), (b, t) = ((x[..., :3], x[..., 3:]) for x in (p, q))
    vector = s * b + t * a + np.cross(a, b)
    return np.concatenate([vector, s * t - np.sum(a * b, axis=-1, keepdims=True)], axis=-1)


def _of_rotvec(v: Any) -> Any:
    """``(v sin(a/2) / a, cos(a/2))`` with the angle a = |v|, functions of its square that are smooth at zero."""
    t = np.sum(v * v, axis=-1, keepdims=True)
    small = t < SMALL
    angle = np.sqrt(np.where(small, 1, t))
    sine = np.where(small, 0.5 - t / 48 + t * t / 3840 - t**3 / 645120, np.sin(angle / 2) / angle)
    cosine = np.where(small, 1 - t / 8 + t * t / 384 - t**3 / 46080, np.cos(angle / 2))
    return np.concatenate([v * sine, cosine], axis=-1)


def _to_rotvec(q: Any) -> Any:
    """``v 2 arctan2(|v|, w) / |v|``, a function of the square of |v| / w that is smooth at zero."""
    q = _canonical(q)
    v, w = q[..., :3], q[..., 3:]
    t = np.sum(v * v, axis=-1, keepdims=True)
    small = t < SMALL * w * w / 10
    near, norm = np.where(small, w, 1), np.sqrt(np.where(small, 1, t))
    x = np.where(small, t, 0) / (near * near)
    series = (1 - x / 3 + x * x / 5 - x**3 / 7 + x**4 / 9) / near
    return v * np.where(small, 2 * series, 2 * np.arctan2(norm, w) / norm)


def _to_matrix(q: Any) -> Any:
    x, y, z, w = (q[..., i] for i in range(4))
    rows = [
        [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), y * y - x * x - z * z + w * w, 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), z * z - x * x - y * y + w * w],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def _of_matrix(m: Any) -> Any:
    """Of four formulas that are equal the one that divides by the largest component."""
    trace = m[..., 0, 0] + m[..., 1, 1] + m[..., 2, 2]
    candidates = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        parts = {i: 1 - trace + 2 * m[..., i, i], j: m[..., j, i] + m[..., i, j], k: m[..., k, i] + m[..., i, k],
                 3: m[..., k, j] - m[..., j, k]}  # fmt: skip
        candidates.append(np.stack([parts[n] for n in range(4)], axis=-1))
    last = [m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1], 1 + trace]
    choice = np.argmax(np.stack([m[..., 0, 0], m[..., 1, 1], m[..., 2, 2], trace], axis=-1), axis=-1)[..., None]
    q = np.stack(last, axis=-1)
    for i, candidate in enumerate(candidates):
        q = np.where(np.equal(choice, i), candidate, q)
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


# --------------------------------------------------------------------------------------- objects made of them


def _quaternion(rotation: Any) -> Any:
    """Of one rotation a vector, of several the array."""
    return rotation._quat[0] if rotation._single else rotation._quat


def _holding(like: Any, q: Any) -> Any:
    """The new rotation ``like``, which SciPy has made and checked, with a traced quaternion."""
    like._quat = np.reshape(q, shape_of(like._quat))
    return like


def _made(q: Any) -> Any:
    return _holding(Rotation(np.ones(shape_of(q)), normalize=False), q)


def init(self: Any, quat: Any, normalize: Any = True, copy: Any = True, scalar_first: Any = False) -> None:
    q = _wide(quat)
    Rotation.__init__(self, np.ones(shape_of(q)))
    q = np.roll(q, -1, axis=-1) if scalar_first else q
    _holding(self, _unit(q) if normalize else q)


def from_quat(quat: Any, *, scalar_first: Any = False) -> Any:
    return Rotation(quat, normalize=True, scalar_first=scalar_first)


def from_rotvec(rotvec: Any, degrees: Any = False) -> Any:
    v = _wide(rotvec)
    return _holding(Rotation.from_rotvec(np.zeros(shape_of(v))), _of_rotvec(v / DEGREES if degrees else v))


def from_mrp(mrp: Any) -> Any:
    v = _wide(mrp)
    square = np.sum(v * v, axis=-1, keepdims=True)
    q = np.concatenate([2 * v, 1 - square], axis=-1) / (1 + square)
    return _holding(Rotation.from_mrp(np.zeros(shape_of(v))), q)


def from_matrix(matrix: Any, *, assume_valid: Any = False) -> Any:
    m = _wide(matrix)
    like = Rotation.from_matrix(np.zeros(shape_of(m)) + np.eye(3))
    if not assume_valid:
        if np.any(np.linalg.det(m) <= 0):
            raise ValueError("Non-positive determinant (left-handed or null coordinate frame) in rotation matrix")
        m = nearest_orthogonal(m, True)
    return _holding(like, _of_matrix(m))


def from_euler(seq: Any, angles: Any, degrees: Any = False) -> Any:
    a = _wide(angles)
    like = Rotation.from_euler(seq, np.zeros(shape_of(a)))
    a = np.reshape(a / DEGREES if degrees else a, (*shape_of(like._quat)[:-1], len(seq)))
    q: Any = None
    for i, axis in enumerate(seq.lower()):
        turn = _of_rotvec(a[..., i, None] * np.eye(3)["xyz".index(axis)])
        q = turn if q is None else _product(q, turn) if seq.isupper() else _product(turn, q)
    return _holding(like, q)


def from_davenport(axes: Any, order: Any, angles: Any, degrees: Any = False) -> Any:
    axes, a = _wide(axes), np.atleast_1d(_wide(angles))
    axes = np.reshape(axes, (1, 3)) if len(shape_of(axes)) == 1 else axes
    axes = axes / np.linalg.norm(axes, axis=-1, keepdims=True)
    q: Any = None
    for i in range(shape_of(axes)[-2]):
        turn = _of_rotvec((a / DEGREES if degrees else a)[..., i, None] * axes[..., i, :])
        q = turn if q is None else _product(turn, q) if order in ("e", "extrinsic") else _product(q, turn)
    return _made(q)


def concatenate(rotations: Any) -> Any:
    if isinstance(rotations, Rotation):
        return _made(_quaternion(rotations))
    if not all(isinstance(x, Rotation) for x in rotations):
        raise TypeError("input must contain Rotation objects only")
    return _made(np.concatenate([x._quat for x in rotations]))


def as_quat(self: Any, canonical: Any = False, *, scalar_first: Any = False) -> Any:
    q = _quaternion(self)
    q = _canonical(q) if canonical else q
    return np.roll(q, 1, axis=-1) if scalar_first else q


def as_matrix(self: Any) -> Any:
    return _to_matrix(_quaternion(self))


def as_rotvec(self: Any, degrees: Any = False) -> Any:
    v = _to_rotvec(_quaternion(self))
    return v * DEGREES if degrees else v


def as_mrp(self: Any) -> Any:
    q = _quaternion(self)
    sign = np.where(q[..., 3:] < 0, -1, 1)
    return sign * q[..., :3] / (1 + sign * q[..., 3:])


def as_euler(self: Any, seq: Any, degrees: Any = False, *, suppress_warnings: Any = False) -> Any:
    """Where the second angle leaves the others undetermined, one of them is zero, as in SciPy."""
    Rotation.identity().as_euler(seq, suppress_warnings=True)  # raises what SciPy raises
    q, extrinsic = _quaternion(self), seq.islower()
    i, j, k = ("xyz".index(axis) for axis in (seq if extrinsic else seq[::-1]).lower())
    symmetric = i == k
    k = 3 - i - j if symmetric else k
    sign = (i - j) * (j - k) * (k - i) // 2
    a, b, c, d = q[..., 3], q[..., i], q[..., j], q[..., k] * sign
    if not symmetric:
        a, b, c, d = a - c, b + d, c + a, d - b
    half_sum, half_difference = np.arctan2(b, a), np.arctan2(d, c)
    second = 2 * np.arctan2(np.hypot(c, d), np.hypot(a, b))
    none, whole = np.abs(second) <= 1e-7, np.abs(second - np.pi) <= 1e-7
    alone = np.where(none, 2 * half_sum, 2 * half_difference * (-1 if extrinsic else 1))
    angles = [half_sum - half_difference, second, half_sum + half_difference]
    if not extrinsic:
        angles.reverse()
    angles[0] = np.where(none | whole, alone, angles[0])
    angles[2] = np.where(none | whole, 0, angles[2])
    if not symmetric:
        third = 2 if extrinsic else 0
        angles[third], angles[1] = angles[third] * sign, second - np.pi / 2
    out = np.stack(angles, axis=-1)
    out = (out + np.pi) % (2 * np.pi) - np.pi
    return out * DEGREES if degrees else out


def apply(self: Any, vectors: Any, inverse: Any = False) -> Any:
    v, m = _wide(vectors), as_matrix(self)
    if shape_of(v)[-1:] != (3,):
        raise ValueError(f"Expected input of shape (..., 3), got {shape_of(v)}.")
    return np.matmul(np.swapaxes(m, -1, -2) if inverse else m, v[..., None])[..., 0]


def multiply(self: Any, other: Any) -> Any:
    if not isinstance(other, Rotation):
        return NotImplemented
    return _made(_unit(_product(_quaternion(self), _quaternion(other))))


def power(self: Any, n: Any, modulus: Any = None) -> Any:
    if modulus is not None:
        raise NotImplementedError("modulus not supported")
    return _made(_of_rotvec(n * _to_rotvec(_quaternion(self))))


def inv(self: Any) -> Any:
    return _made(_quaternion(self) * np.array([-1.0, -1.0, -1.0, 1.0]))


def magnitude(self: Any) -> Any:
    q = _quaternion(self)
    return 2 * np.arctan2(np.linalg.norm(q[..., :3], axis=-1), np.abs(q[..., 3]))


def _leading(k: Any) -> Any:
    """The eigenvector of the largest eigenvalue of a symmetric matrix, whatever the others are.

    It is a constant, after steps of ``x + P (K x - r x)`` with its Rayleigh quotient r and the pseudo-inverse P of what
    it is an eigenvector of: each is right in one more order of derivatives.
    """
    s, u = np.linalg.eigh(stop_gradient(k))
    x, others, gaps = u[:, -1], u[:, :-1], s[-1] - s[:-1]
    inverse = (others / np.where(gaps > 0, gaps, 1)) @ others.T
    for _ in range(3):
        moved = k @ x
        x = x + inverse @ (moved - x * ((x @ moved) / (x @ x)))
    return x / np.sqrt(x @ x)


def mean(self: Any, weights: Any = None, axis: Any = None) -> Any:
    """The quaternion whose squared distances to all are least (Markley et al., Averaging Quaternions, 2007)."""
    if axis is not None and np.ndim(self._quat) > 2:
        raise unsupported("the mean of rotations along an axis", "Take the mean of each part")
    q = np.reshape(self._quat, (-1, 4))
    weighted = q if weights is None else q * np.reshape(_wide(weights), (-1, 1))
    return _made(_leading(q.T @ weighted))


def align_vectors(a: Any, b: Any, weights: Any = None, return_sensitivity: Any = False) -> Any:
    """The rotation of ``b`` onto ``a`` whose squared errors are least (Kabsch 1978), and their root."""
    a, b = _wide(a), _wide(b)
    if len(shape_of(a)) != 2 or shape_of(a)[0] < 2 or shape_of(a) != shape_of(b) or return_sensitivity:
        raise unsupported("align_vectors of one pair, or with sensitivity", "Call it for at least two pairs, without")
    w = np.ones((shape_of(a)[0], 1)) if weights is None else _wide(weights)[:, None]
    if np.any(np.isinf(w)):
        raise unsupported("align_vectors with an infinite weight", "Give a large one")
    B = (w * a).T @ b
    C = nearest_orthogonal(B, True)
    left = np.sum(w * (a * a + b * b)) - 2 * np.sum(C * B)
    return _made(_of_matrix(C)), np.sqrt(np.maximum(left, 0))


def getitem(self: Any, indexer: Any) -> Any:
    if self._single:
        raise TypeError("Single rotation is not subscriptable.")
    return _made(self._quat[indexer])


def iterate(self: Any) -> Iterator[Any]:
    if self._single:
        raise TypeError("Single rotation is not iterable.")
    return (_made(self._quat[i]) for i in range(shape_of(self._quat)[0]))


def setitem(self: Any, indexer: Any, value: Any) -> None:
    if self._single:
        raise TypeError("Single rotation is not subscriptable.")
    if not isinstance(value, Rotation):
        raise TypeError("value must be a Rotation object")
    q = np.copy(self._quat)
    q[indexer] = _quaternion(value)
    self._quat = q


def approx_equal(self: Any, other: Any, atol: Any = None, degrees: Any = False) -> Any:
    atol = 1e-8 if atol is None else atol / DEGREES if degrees else atol
    return np.less(magnitude(multiply(other, inv(self))), atol)


def refused(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise unsupported(f"Rotation.{name}", "Compute it from as_matrix() or as_quat()")

    return method


# -------------------------------------------------------------------------------------------------- Slerp


def init_slerp(self: Any, times: Any, rotations: Any) -> None:
    if not isinstance(rotations, Rotation):
        raise TypeError("`rotations` must be a `Rotation` instance.")
    if rotations.single or len(rotations) <= 1:
        raise ValueError("`rotations` must be a sequence of at least 2 rotations.")
    self.times, q = _wide(times), rotations._quat
    if shape_of(self.times) != (len(rotations),):
        raise ValueError("Expected number of rotations to be equal to number of timestamps given.")
    self.timedelta = self.times[1:] - self.times[:-1]
    if np.any(self.timedelta <= 0):
        raise ValueError("Times must be in strictly increasing order.")
    self.rotations = _made(q[:-1])
    self.rotvecs = _to_rotvec(_unit(_product(q[:-1] * np.array([-1.0, -1.0, -1.0, 1.0]), q[1:])))


def call_slerp(self: Any, times: Any) -> Any:
    t = _wide(times)
    if len(shape_of(t)) > 1:
        raise ValueError("`times` must be at most 1-dimensional.")
    if np.any((t < self.times[0]) | (t > self.times[-1])):
        raise ValueError("Interpolation times must be within the range, both inclusive.")
    i = np.maximum(np.searchsorted(self.times, t) - 1, 0)
    turns = self.rotvecs[i] * ((t - self.times[i]) / self.timedelta[i])[..., None]
    return _made(_unit(_product(self.rotations._quat[i], _of_rotvec(turns))))


def _has_rotation(values: Any) -> bool:
    """Whether there are traced values among these, or rotations made of them."""
    return any(
        is_traced(vars(x).get("_quat")) if isinstance(x, Rotation) else find_traced((x,)) is not None
        or (isinstance(x, list | tuple) and _has_rotation(x)) for x in values
    )  # fmt: skip


METHODS: dict[str, Callable[..., Any]] = {
    "__init__": init, "from_quat": from_quat, "from_rotvec": from_rotvec, "from_mrp": from_mrp,
    "from_matrix": from_matrix, "from_euler": from_euler, "from_davenport": from_davenport, "concatenate": concatenate,
    "as_quat": as_quat, "as_matrix": as_matrix, "as_rotvec": as_rotvec, "as_mrp": as_mrp, "as_euler": as_euler,
    "apply": apply, "__mul__": multiply, "__pow__": power, "inv": inv, "magnitude": magnitude, "mean": mean,
    "align_vectors": align_vectors, "__iter__": iterate, "__getitem__": getitem, "__setitem__": setitem,
    "approx_equal": approx_equal, "as_davenport": refused("as_davenport"), "reduce": refused("reduce"),
}  # fmt: skip

finders.update(dict.fromkeys([*METHODS.values(), init_slerp], _has_rotation))
for _name, _body in METHODS.items():
    patch(Rotation, _name, _body, holds=("_quat",))
patch(Slerp, "__init__", init_slerp)
patch(Slerp, "__call__", call_slerp, holds=("rotvecs", "times"))
