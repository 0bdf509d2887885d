"""One adapter a library: from a workload and its NumPy inputs to calls that give NumPy results.

Every timed call starts from NumPy inputs and ends with NumPy outputs `(value, gradients)`, so the price of
crossing into a library and back is paid where users pay it. `jax_resident` alone keeps parameters and
gradients on JAX's side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module, metadata
from typing import Any

import numpy

from benchmarks.workloads import Args, Workload

Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Peer:
    """A library: `load` imports it and sets it up, `adapt` gives the function that one call runs."""

    name: str
    pip_name: str
    load: Callable[[], Any]
    adapt: Callable[[Any, Workload], Callable[..., Any] | None]  # None: does not apply
    place: Callable[[Any, Workload, Args], Args] = lambda _library, _workload, args: args  # untimed
    primal: bool = False  # gives the value only

    def prepare(self, library: Any, workload: Workload, inputs: Sequence[Args]) -> tuple[Call, ...]:
        """One call without arguments for each input set; none if the workload does not apply."""
        run = self.adapt(library, workload)
        if run is None:
            return ()
        return tuple(partial(run, *self.place(library, workload, args)) for args in inputs)


def version(peer: Peer) -> str:
    """The installed version, as pip knows it."""
    try:
        return metadata.version(peer.pip_name)
    except metadata.PackageNotFoundError:
        return "not installed as a distribution"


def map_leaves(f: Callable[[Any], Any], tree: Any) -> Any:
    """`tree` with `f` applied to what is not a list, tuple or dict (cheaper here than a tree library)."""
    if isinstance(tree, (list, tuple)):
        return type(tree)([map_leaves(f, item) for item in tree])
    if isinstance(tree, dict):
        return {key: map_leaves(f, item) for key, item in tree.items()}
    return f(tree)


def aligned(leaf: Any) -> Any:
    """An array copied to a multiple of 64 bytes; anything else as it is.

    JAX reads such arrays in place and copies others; where NumPy's own allocations fall is luck.
    """
    if not isinstance(leaf, numpy.ndarray):
        return leaf
    raw = numpy.empty(leaf.nbytes + 64, numpy.uint8)
    start = -raw.ctypes.data % 64
    copy = raw[start : start + leaf.nbytes].view(leaf.dtype).reshape(leaf.shape)
    copy[...] = leaf
    return copy


# -- NumPy: the primal alone ---------------------------------------------------------------------------


def load_numpy() -> Any:
    """NumPy itself."""
    return numpy


def adapt_numpy(np: Any, workload: Workload) -> Callable[..., Any]:
    """The function as it stands."""
    return workload.function(np)


# -- Autograd ------------------------------------------------------------------------------------------


def load_autograd() -> Any:
    """HIPS Autograd."""
    import_module("autograd.numpy")
    return import_module("autograd")


def adapt_autograd(autograd: Any, workload: Workload) -> Callable[..., Any]:
    """`value_and_grad`; results are NumPy already."""
    run: Callable[..., Any] = autograd.value_and_grad(workload.function(autograd.numpy), workload.argnums)
    return run


# -- JAX -----------------------------------------------------------------------------------------------


def load_jax() -> Any:
    """JAX in float64, its backend started so that no workload's first call pays for that.

    Pinned to one core, its asynchronous dispatch costs a switch of threads (20 µs): JAX is faster without.
    """
    jax = import_module("jax")
    import_module("jax.numpy")
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    jax.jit(lambda x: x + 1.0)(1.0).block_until_ready()
    return jax


def jitted(jax: Any, workload: Workload) -> Callable[..., Any]:
    """The compiled value and gradient."""
    compiled: Callable[..., Any] = jax.jit(jax.value_and_grad(workload.function(jax.numpy), workload.argnums))
    return compiled


def adapt_jax(jax: Any, workload: Workload) -> Callable[..., Any]:
    """NumPy in and out: `np.asarray` waits for each result (a `block_until_ready` before costs 4 µs more)."""
    compiled = jitted(jax, workload)

    def run(*args: Any) -> Any:
        return map_leaves(numpy.asarray, compiled(*args))

    return run


def adapt_jax_resident(jax: Any, workload: Workload) -> Callable[..., Any] | None:
    """Parameters and gradients stay JAX arrays; the data come from NumPy at every call."""
    if not workload.resident:
        return None
    compiled, wait = jitted(jax, workload), jax.block_until_ready

    def run(*args: Any) -> Any:
        return wait(compiled(*args))

    return run


def place_jax(jax: Any, workload: Workload, args: Args) -> Args:
    """The differentiated arguments as JAX arrays."""
    return tuple(jax.device_put(a) if i in workload.positions else a for i, a in enumerate(args))


# -- PyTorch -------------------------------------------------------------------------------------------


def load_torch() -> Any:
    """PyTorch, eager, on one thread."""
    torch = import_module("torch")
    torch.set_num_threads(1)
    torch.ones(1, requires_grad=True).sum().backward()
    return torch


def adapt_torch(torch: Any, workload: Workload) -> Callable[..., Any] | None:
    """Tensors share the inputs' memory; `backward` fills `.grad`, which NumPy views."""
    if workload.torch is None:
        return None
    function, positions = workload.torch(torch), workload.positions
    from_numpy, tensor, float64 = torch.from_numpy, torch.tensor, torch.float64

    def constant(leaf: Any) -> Any:
        return from_numpy(leaf) if isinstance(leaf, numpy.ndarray) else tensor(leaf, dtype=float64)

    def variable(leaf: Any) -> Any:
        return constant(leaf).requires_grad_()

    def run(*args: Any) -> Any:
        tensors = [map_leaves(variable if i in positions else constant, a) for i, a in enumerate(args)]
        value = function(*tensors)
        value.backward()
        grads = tuple(map_leaves(gradient, tensors[i]) for i in positions)
        return value.item(), (grads if isinstance(workload.argnums, tuple) else grads[0])

    return run


def gradient(leaf: Any) -> numpy.ndarray:
    """What `backward` left in a tensor, as NumPy."""
    array: numpy.ndarray = leaf.grad.numpy()
    return array


# -- yota_py -------------------------------------------------------------------------------------------


def load_yota() -> Any:
    """yota_py, compiling at the first call; warmed up so that no workload's first call pays for imports."""
    library = import_module("yota_py")
    library.config.compile = "always"
    square = library.value_and_grad(lambda x: x * x)
    for x in (1.0, 2.0, 3.0):
        square(x)
    return library


def adapt_yota(library: Any, workload: Workload) -> Callable[..., Any]:
    """`value_and_grad`, called directly."""
    run: Callable[..., Any] = library.value_and_grad(workload.function(numpy), workload.argnums)
    return run


PEERS: tuple[Peer, ...] = (
    Peer("numpy", "numpy", load_numpy, adapt_numpy, primal=True),
    Peer("autograd", "autograd", load_autograd, adapt_autograd),
    Peer("jax", "jax", load_jax, adapt_jax),
    Peer("jax_resident", "jax", load_jax, adapt_jax_resident, place_jax),
    Peer("torch", "torch", load_torch, adapt_torch),
    Peer("yota_py", "yota_py", load_yota, adapt_yota),
)
