"""The tables, and the same as JSON."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.environment import cores, cpu, pinning
from benchmarks.measure import Effort, Row

COLUMNS = ("numpy", "autograd", "jax", "torch", "yota_py")
RATIOS = (("jax", "yota_py"), ("torch", "yota_py"), ("autograd", "yota_py"))
ABSENT = "-"


def align(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = []
    for row in (header, *rows):
        first, *others = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join([row[0].ljust(len(first)), *others]))
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)


def median(row: Row, name: str) -> float | None:
    """Seconds a call, if this library ran this workload and was right."""
    timing = row.timings.get(name)
    return timing.median if timing is not None and timing.samples and name not in row.wrong else None


def number(seconds: float | None, unit: float = 1e-6) -> str:
    """Three digits or more, in the unit."""
    if seconds is None:
        return ABSENT
    scaled = seconds / unit
    return f"{scaled:,.0f}" if scaled >= 100 else f"{scaled:.1f}" if scaled >= 10 else f"{scaled:.2f}"


def ratio(row: Row, over: str, under: str) -> str:
    """How many times longer `over` takes than `under`."""
    top, bottom = median(row, over), median(row, under)
    return ABSENT if top is None or bottom is None else f"{top / bottom:.2f}"


def times(rows: Sequence[Row]) -> str:
    """Microseconds a call, medians, and ratios."""
    header = ["workload", "numpy primal", *COLUMNS[1:], *(f"{a}/{b}" for a, b in RATIOS), "results"]
    body = []
    for row in rows:
        verdict = "WRONG" if row.wrong else "agree" if row.reference else "unchecked"
        figures = ["WRONG" if name in row.wrong else number(median(row, name)) for name in COLUMNS]
        body.append([row.workload, *figures, *(ratio(row, a, b) for a, b in RATIOS), verdict])
    return align(header, body)


def notes(rows: Sequence[Row]) -> list[str]:
    """The row that keeps its parameters in JAX, and everything that is wrong."""
    lines = []
    for row in rows:
        if (resident := median(row, "jax_resident")) is not None:
            figures = f"jax {number(resident)} µs, jax/yota_py {ratio(row, 'jax_resident', 'yota_py')}"
            lines.append(f"{row.workload}, parameters already on JAX's side: {figures}")
    for row in rows:
        lines.extend(f"WRONG {row.workload}, {name}: {reason}" for name, reason in row.wrong.items())
    return lines


def first_calls(rows: Sequence[Row]) -> str:
    """Milliseconds: the first call; then trace and compile, wherever among the first six calls they fall."""
    names = COLUMNS[1:]
    body = []
    for row in rows:
        found = [row.timings.get(name) for name in names]
        ran = [t if t is not None and t.first_call else None for t in found]
        firsts = [number(t.first_call if t else None, 1e-3) for t in ran]
        body.append([row.workload, *firsts, *(number(t.start_up if t else None, 1e-3) for t in ran)])
    return align(["workload", *names, *(f"{name} start-up" for name in names)], body)


def machine(versions: dict[str, str]) -> list[str]:
    """What ran where."""
    listed = ", ".join(f"{name} {number}" for name, number in versions.items())
    return [f"Python {platform.python_version()}, {listed}", f"{cpu()}; {pinning()}"]


def document(
    rows: Sequence[Row], versions: dict[str, str], skipped: dict[str, str], effort: Effort
) -> dict[str, Any]:
    """Everything, every sample included; seconds."""
    workloads = []
    for row in rows:
        entry = asdict(row)
        for name, timing in row.timings.items():
            if timing.samples:
                entry["timings"][name] |= {"median": timing.median, "minimum": timing.minimum}
        workloads.append(entry)
    return {
        "cpu": cpu(),
        "cores": cores(),
        "pinning": pinning(),
        "python": platform.python_version(),
        "versions": versions,
        "skipped": skipped,
        "effort": asdict(effort),
        "workloads": workloads,
    }
