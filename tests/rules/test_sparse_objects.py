"""Sparse matrices as objects: what shares their values, what is written into them, what they are taken for."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse as sp
from scipy.sparse import coo_array, csr_matrix
from sets import SEQUENCES

from yota_py import check_grads, grad
from yota_py.errors import LostDerivativeError, MissingRuleError

M = np.arange(1.0, 10.0).reshape(3, 3) ** 1.5
A = np.arange(1.0, 10.0).reshape(3, 3)
V = np.array([0.3, 0.55, 0.8])
WEIGHTS = np.cos(np.arange(1.0, 100.0))

CLASSES = (sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix, sp.dia_array, sp.bsr_array)

# Statements on a matrix B of M, and numbers v; what they leave in B is differentiated.
STATEMENTS = """
C = B.T; B *= v[0]; B = C
C = B.T; B /= v[0]; B = C
C = B.copy(); B *= v[0]; B = C
C = B.conj(); B *= 2; B = C
C = B.real; B *= 2; B = C
C = B.astype(float); B *= 3; B = C
C = B.astype(float, copy=False); B *= 3; B = C
C = B.tocoo(); B *= v[0]; B = C
C = B.tocoo(copy=False); B *= v[0]; B = C
C = B.tocsr(copy=True); B *= v[0]; B = C
C = B.asformat('csr'); B *= v[0]; B = C
C = cls(B); B *= v[0]; B = C
C = cls(B, copy=True); B *= v[0]; B = C
C = sp.csc_array(B); B *= v[0]; B = C
C = B.reshape(1, 9); B *= v[0]; B = C
C = sp.hstack([B, B]); B *= v[0]; B = C
C = B.diagonal(); B *= v[0]; B = C
C = B.data; B *= v[0]; B = C
C = B.toarray(); B *= v[0]; B = C
B.data.flat[0] = v[0]
B.data[:] = v[0] * B.data
B.data = B.data * v[0]
B.data *= v[0]
C = B.T; B.data = B.data * v[0]; B = C
B -= B * v[0]
B += B
B = B.T; B.data.flat[0] = v[0]
B.has_sorted_indices = False
B = sp.swapaxes(B, 0, 1)
B = sp.swapaxes(B, -1, 0); B *= v[0]
B = sp.permute_dims(B, (1, 0))
B = sp.permute_dims(B.copy())
B = sp.permute_dims(B, (0, 1), copy=True)
B = B.power(2)
B = B.power(v[0])
B = B.toarray(order='F').ravel('K')
B = B.mean(1) if isinstance(B, sp.sparray) else B
B = isinstance(B, sp.sparray) * v
B = isinstance(B, sp.coo_array) * v
B = (not isinstance(B, sp.csc_array)) * v
B = sp.issparse(B) * v
B = sp.block_diag(v)
B = sp.block_diag([v[0], B, [v[1], v[2]], [[v[0]], [v[1]]]])
B = sp.vstack([B, v[None, :]])
"""


def dense(y: Any) -> Any:
    return np.ravel(y.toarray() if hasattr(y, "toarray") else y)


def statements(text: str, cls: Any) -> Any:
    space = {"sp": sp, "np": np, "cls": cls, "A": A, "dense": dense, "WEIGHTS": WEIGHTS}
    body = textwrap.indent(text.strip().replace("; ", "\n"), "    ")
    exec(f"def f(M, v):\n    B = cls(M)\n{body}\n    y = dense(B)\n    return np.sum(y * WEIGHTS[:len(y)])", space)
    return space["f"]


def pairs() -> list[tuple[str, Any]]:
    """Each statement with two classes, others each time; ``make stress`` takes all."""
    each = enumerate(STATEMENTS.strip().splitlines())
    return [(text, cls) for i, text in each for k, cls in enumerate(CLASSES) if SEQUENCES or (k - i) % 3 == 0]


@pytest.mark.parametrize(("text", "cls"), pairs())
def test_values_that_are_shared(text: str, cls: Any) -> None:
    f = statements(text, cls)
    for m in (M, M[::-1] + 1.0, M):
        assert_allclose(grad(f, m, V)[0], f(m, V), rtol=1e-12)
    check_grads(f, M, V)


WRITTEN = {
    "sp.csr_array((u, [0, 1, 2], [0, 1, 2, 3]))": True, "sp.csr_array((u, ([0, 1, 2], [0, 1, 2])))": False,
    "sp.coo_array((u, ([0, 1, 2], [2, 1, 0])))": True, "sp.csr_array((u, [0, 1, 2], [0, 1, 2, 3]), copy=True)": False,
    "sp.coo_array((u, ([0, 1, 2], [2, 1, 0])), copy=True)": False, "sp.dia_array((u[None], [0]), shape=(3, 3))": True,
    "sp.diags(u)": False, "sp.diags_array([u], offsets=[0])": False, "sp.spdiags(u[None], [0], 3, 3)": True,
    "sp.csr_array(np.diag(u))": False,
}  # fmt: skip


@pytest.mark.parametrize("made", WRITTEN)
def test_values_of_which_they_are_made(made: str) -> None:
    for change in ("u[0] = 9 * v[1]", "B *= v[1]", "B.data.flat[1] = v[0]"):
        f = statements(f"u = v * 1.0; B = {made}; {change}; B = np.concatenate([dense(B), u])", sp.csr_array)
        plain = f(M, V)
        assert_allclose(grad(f, M, V)[0], plain, rtol=1e-12)
        check_grads(lambda v, f=f: f(M, v), V)
    other = statements(f"u = v * 1.0; B = {made}; u[0] = 9 * v[1]", sp.csr_array)(M, V)
    assert (other != statements(f"u = v * 1.0; B = {made}", sp.csr_array)(M, V)) == WRITTEN[made]


@pytest.mark.parametrize("text", [
    "B.coords = B.coords[::-1]", "B.row = B.col", "B.data = B.data[:2]", "B = B == B", "B = B != 0",
    "B = B if B else 1", "B.setdiag(v)", "o = np.zeros((3, 3)); B.toarray(out=o); B = o",
    "o = np.zeros(3); B.sum(0, out=o); B = o",
    "B = B.sum(0, dtype=np.float32)", "B = sp.expand_dims(B, axis=0)", "B = B @ np.ones((2, 3, 2))", "B = B.tolil()",
])  # fmt: skip
def test_what_is_refused(text: str) -> None:
    with pytest.raises((MissingRuleError, LostDerivativeError), match=r"x\.toarray"):
        grad(statements(text, sp.coo_array), M, V)


@pytest.mark.parametrize("part", ["indices", "indptr", "row", "col", "coords[0]"])
def test_indices_are_read_only(part: str) -> None:
    cls = sp.csr_array if part.startswith("ind") else sp.coo_array
    with pytest.raises(ValueError, match="read-only"):
        grad(statements(f"B.{part}[0] = 1", cls), M, V)


@pytest.mark.parametrize("text", [
    "B = sp.hstack([M, M])", "B = sp.vstack([v, v])", "B = sp.hstack([v[0], v[1]])", "B = sp.block_diag([v, v])",
    "B = sp.block_diag(M)", "B = sp.hstack([B, v])", "B = B.sum(5)", "B = B.power(0)",
    "B = B.getrow(0)", "B = sp.swapaxes(B, 0, 2)", "B = B + 1",
])  # fmt: skip
def test_what_scipy_raises_is_raised(text: str) -> None:
    f = statements(text, sp.csr_array)
    with pytest.raises(Exception) as plain:
        f(M, V)
    with pytest.raises(type(plain.value)) as traced:
        grad(f, M, V)
    assert str(traced.value) == str(plain.value)


def test_powers_of_matrices() -> None:
    for n in (0, 1, 2, 3):
        f = statements(f"C = B ** {n}; B *= v[0]; B = C", sp.csr_matrix)
        assert_allclose(grad(f, M, V)[0], f(M, V), rtol=1e-12)
        check_grads(f, M, V)


def test_classes_imported_by_name_are_asked_for_instances() -> None:
    def f(v: Any) -> Any:
        B = csr_matrix(np.diag(v))
        if not isinstance(B, csr_matrix) or isinstance(B, coo_array):
            return 0.0 * v[0]
        return coo_array((B.data * v, (B.indices, B.indices))).sum() if isinstance(B, (coo_array, csr_matrix)) else v[1]

    for v in (V, V + 1.0, V):
        value, (dv,) = grad(f, v)
        assert_allclose(value, v @ v)
        assert_allclose(dv, 2 * v)
