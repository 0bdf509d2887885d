"""Zeros, nodes and numbers that depend on integers alone: nothing flows back, and programs keep them as constants."""

from __future__ import annotations

from typing import Any

from scipy import special

from yota_py.registry.patches import patch
from yota_py.registry.registry import case, nondiff, vjps
from yota_py.registry.tangents import MISSING

_COUNTED: dict[tuple[int, ...], str] = {
    (3,): "ai_zeros bi_zeros bei_zeros beip_zeros ber_zeros berp_zeros ker_zeros kerp_zeros kei_zeros keip_zeros "
    "kelvin_zeros erf_zeros fresnel_zeros fresnelc_zeros fresnels_zeros y0_zeros y1_zeros y1p_zeros jnjnp_zeros "
    "bernoulli euler roots_chebyc roots_chebys roots_chebyt roots_chebyu roots_hermite roots_hermitenorm "
    "roots_laguerre roots_legendre roots_sh_chebyt roots_sh_chebyu roots_sh_legendre",
    (2, 3): "jn_zeros jnp_zeros yn_zeros ynp_zeros jnyn_zeros stirling2",
}
# Gauss's nodes and weights have derivatives in the parameters of the polynomials, and no formula.
_WITH_PARAMETERS: dict[tuple[int, ...], str] = {
    (3, 1): "roots_genlaguerre roots_gegenbauer", (3, 2, 1): "roots_jacobi roots_sh_jacobi",
}  # fmt: skip

_nodes: dict[Any, Any] = {}
for _args, _names in _COUNTED.items():
    for _name in _names.split():
        _nodes[_name] = nondiff(patch(special, _name), cases=lambda s, args=_args: [case(*args)])
for _args, _names in _WITH_PARAMETERS.items():
    for _name in _names.split():
        _nodes[_name] = patch(special, _name)
        vjps(_nodes[_name], None, *[MISSING] * (len(_args) - 1), cases=lambda s, args=_args: [case(*args)])
for _name in ("p", "t", "c", "s", "u", "h", "he", "l", "ps", "ts", "us", "j", "js", "la", "cg"):  # their older names
    patch(special, f"{_name}_roots", _nodes[getattr(special, f"{_name}_roots").__name__])
