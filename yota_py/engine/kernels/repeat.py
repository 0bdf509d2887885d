"""A loop over a table of kernels, itself a kernel: what its kernels read and write advances from turn to turn.

Words: how many turns; the word of the frame that says which one it is; how many addresses advance; the length of the
table; for each address its word in the frame, where it begins (the word of an address, and bytes from there), and bytes
per turn; the table, which is as the driver's.
"""

from __future__ import annotations

from llvmlite import ir

from ..maths.llvm import Value, Writer, const
from .emit import KERNEL, is_good

PARTS = 4  # words of an address


def run_table(w: Writer, frame: Value, table: Value, length: Value) -> None:
    """Run the kernels of a table, one after the other, until one reports a fault."""
    at = w.variable(const(0))

    def more() -> Value:
        return w.b.and_(is_good(w, frame), w.b.icmp_signed("<", w.word(at, 0), length))

    with w.repeated(more):
        record = w.at(table, w.word(at, 0))
        kernel = w.b.inttoptr(w.word(record, 1), KERNEL.as_pointer())
        w.b.call(kernel, [frame, w.at(record, 2), const(0), w.word(record, 2)])
        w.b.store(w.b.add(w.word(at, 0), w.word(record, 0)), at)


def emit_repeat(module: ir.Module, name: str) -> None:
    """Add the kernel; it ends after the turn in which another one reports a fault."""
    function = ir.Function(module, KERNEL, name)
    w = Writer(function)
    frame, words, *_ = function.args
    turns, number, count, length = (w.word(words, i) for i in range(PARTS))
    addresses = w.at(words, PARTS)
    table = w.at(addresses, w.b.mul(count, const(PARTS)))
    with w.loop(count) as i:
        slot, base, offset, _ = (w.word(w.at(addresses, w.b.mul(i, const(PARTS))), k) for k in range(PARTS))
        w.b.store(w.b.add(w.word(frame, base), offset), w.at(frame, slot))
    with w.loop(turns, also=lambda: is_good(w, frame)) as turn:
        w.b.store(turn, w.at(frame, number))
        run_table(w, frame, table, length)
        with w.loop(count) as i:
            address = w.at(addresses, w.b.mul(i, const(PARTS)))
            moved = w.at(frame, w.word(address, 0))
            w.b.store(w.b.add(w.b.load(moved, typ=const(0).type), w.word(address, 3)), moved)
    w.b.ret_void()
