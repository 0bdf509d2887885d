"""Emitted functions as compiled loops over arrays, for tests."""

from __future__ import annotations

import ctypes
import uuid
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from llvmlite import ir

from yota_py.engine.kernels.codegen import compile_module, new_module, vector_bytes
from yota_py.engine.maths.builder import VecMath
from yota_py.engine.maths.llvm import DOUBLE, FLOAT, HALF, I1, I32, I64

ELEMENTS = {np.float64: DOUBLE, np.float32: FLOAT, np.float16: HALF, np.int64: I64, np.int32: I32, np.bool_: I1}


def emit_loop(
    module: ir.Module, name: str, emit: Callable[..., Any], ins: list[type], out: type, lanes: int
) -> None:
    """void name(in..., out, n): out[i] = emit(in[i]...), with n a multiple of `lanes`; bools are bytes."""
    pointer, byte = ir.PointerType(), ir.IntType(8)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer] * (len(ins) + 1) + [I64]), name)
    entry, body, done = (function.append_basic_block(b) for b in ("entry", "body", "done"))
    b = ir.IRBuilder(entry)
    b.branch(body)
    b.position_at_end(body)
    i = b.phi(I64)
    i.add_incoming(ir.Constant(I64, 0), entry)
    math = VecMath(b, lanes)
    *sources, target, n = function.args
    values = []
    for source, dtype in zip(sources, ins, strict=True):
        stored = byte if dtype is np.bool_ else ELEMENTS[dtype]
        value = b.load(b.gep(source, [i], source_etype=stored), typ=math.type(stored), align=1)
        values.append(b.trunc(value, math.type(I1)) if dtype is np.bool_ else value)
    result = emit(math, *values)
    stored = byte if out is np.bool_ else ELEMENTS[out]
    if out is np.bool_:
        result = b.zext(result, math.type(byte))
    b.store(result, b.gep(target, [i], source_etype=stored), align=1)
    following = b.add(i, ir.Constant(I64, lanes))
    i.add_incoming(following, b.block)
    b.cbranch(b.icmp_signed("<", following, n), body, done)
    b.position_at_end(done)
    b.ret_void()


Case = tuple[str, Callable[..., Any], list[type], type]  # name, emitter, dtypes of arguments and result


class Loops:
    """Compiled loops by name, called on arrays."""

    def __init__(self, cases: Iterable[Case], width: str) -> None:
        # Another prefix for each set of loops, as the names of compiled functions are for ever.
        prefix = f"test_{uuid.uuid4().hex}_"
        module = new_module(prefix)
        self.outs: dict[str, type] = {}
        for name, emit, ins, out in cases:
            size = max(np.dtype(dtype).itemsize for dtype in (*ins, out))
            lanes = 1 if width == "scalar" else vector_bytes() // max(size, 4)
            emit_loop(module, prefix + name, emit, ins, out, lanes)
            self.outs[name] = out
        addresses = compile_module(module, [prefix + name for name in self.outs]).addresses
        self.addresses = {name: addresses[prefix + name] for name in self.outs}

    def __call__(self, name: str, *args: np.ndarray) -> np.ndarray:
        n = args[0].size
        padded = -(-n // 64) * 64  # a multiple of all lane counts
        ins = [np.concatenate([a, np.ones(padded - n, a.dtype)]) for a in args]
        out = np.empty(padded, self.outs[name])
        kinds = [ctypes.c_void_p] * (len(ins) + 1)
        function = ctypes.CFUNCTYPE(None, *kinds, ctypes.c_int64)(self.addresses[name])
        function(*(a.ctypes.data for a in ins), out.ctypes.data, padded)
        return out[:n]


def method(name: str) -> Callable[..., Any]:
    return lambda math, *args: getattr(math, name)(*args)


def assert_same(
    computed: np.ndarray, expected: np.ndarray, *args: np.ndarray, zero_sign: bool = True
) -> None:
    """Equal bit for bit, but for the payload of NaN."""
    same = (computed == expected) | (np.isnan(computed) & np.isnan(expected))
    if zero_sign:
        same &= (np.signbit(computed) == np.signbit(expected)) | np.isnan(computed)
    bad = np.flatnonzero(~same)[:5]
    assert not bad.size, [(*(a[k] for a in args), "gives", computed[k], "not", expected[k]) for k in bad]
