"""The same for everyone, fixed before any library loads: thread counts and the core, and nothing compiled before."""

from __future__ import annotations

import compileall
import os
import platform
import sys
from pathlib import Path

SINGLE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}
NOTHING_KEPT = {"YOTA_CACHE_DIR": ""}  # by yota_py, of what earlier processes have compiled


def single_threaded() -> dict[str, str]:
    """The environment with the variables that BLAS, OpenMP, numba, XLA and yota_py read when they load."""
    return {**os.environ, **SINGLE_THREAD, **NOTHING_KEPT}


def restart_single_threaded() -> None:
    """Start this program over with `SINGLE_THREAD` set and on one core; return if it has been.

    The variables are read when a library loads, and XLA's do not hold: its threads are kept off the
    other cores by the process's affinity, which they inherit.
    """
    if all(os.environ.get(name) == value for name, value in SINGLE_THREAD.items()):
        return
    pin()
    for package in ("yota_py", "rules"):  # as pip does when it installs a library
        compileall.compile_dir(Path(__file__).resolve().parent.parent / package, quiet=2)
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], single_threaded())


def pin() -> None:
    """Keep this process, and what it starts, on the last core it may use; interrupts like the first."""
    if sys.platform == "linux":
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def cores() -> list[int] | None:
    """The cores that this process may use; None where the system does not tell."""
    if sys.platform == "linux":
        return sorted(os.sched_getaffinity(0))
    return None


def pinning() -> str:
    """One line: which cores, and which variables are set."""
    allowed = cores()
    where = "not pinned to a core" if allowed is None else f"cores {allowed}"
    names = ", ".join(f"{name}={os.environ.get(name, 'unset')}" for name in SINGLE_THREAD)
    return f"{where}; {names}"


def cpu() -> str:
    """The processor's name."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
