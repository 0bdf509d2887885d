"""Lines that write into an array by any of NumPy's and Python's ways, or through what they make of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from yota_py import grad, jit
from yota_py.errors import YotaError

# Of an array ``x``; ``y`` and ``s`` are handed out as well.
LINES = {
    "meshgrid": "a, b = np.meshgrid(x, np.ones(2), copy=False); a[0] = 5.",
    "chkfinite": "y=np.asarray_chkfinite(x); y[0]=7.",
    "nan to num": "y=np.nan_to_num(x,copy=False); y[0]=7.",
    "atleast": "y=np.atleast_2d(x); y[0,0]=7.",
    "broadcast arrays": "y,z=np.broadcast_arrays(x,np.ones(4)); s=0.+y[0]",
    "memoryview": "y=memoryview(x); y[0]=7.",
    "ndarray": "y=np.ndarray((2,),buffer=x); y[0]=7.",
    "sliding": "y=np.lib.stride_tricks.sliding_window_view(x,2,writeable=True); y[0,0]=7.",
    "apply along": "y=np.apply_along_axis(lambda r: r.__setitem__(0,7.) or r, 0, x)",
    "vectorize": "y=np.vectorize(lambda v: v*2)(x)",
    "ndenumerate": "for i,v in np.ndenumerate(x): x[i]=v*2",
    "ma": "y=np.ma.array(x,copy=False); y[0]=7.",
    "asmatrix": "y=np.asmatrix(x); y[0,0]=7.",
    "view": "y=x.view(); y[0]=7.",
    "viewf": "y=x.view(np.int64); y[0]=7",
    "data": "x.data[0]=7.",
    "byteswap": "x.byteswap(inplace=True)",
    "partition": "x.partition(2)",
    "sort": "x.sort()",
    "resize": "x.resize((2,2))",
    "fill": "x.fill(3.)",
    "put": "x.put([0],[7.])",
    'nditer': "for t in np.nditer(x, op_flags=['readwrite']): t[...]=t*2",
    "nditer ro": "s=sum(float(t) for t in np.nditer(x)); x*=s",
    "shuffle": "np.random.default_rng(0).shuffle(x)",
    "ix": "y=np.ix_(x>2); x[y]=7.",
    "choose": "np.choose([0,0,0,0],[x,x],out=x)",
    'require': "y=np.require(x,requirements='W'); y[0]=7.",
    "asanyarray": "y=np.asanyarray(x); y[0]=7.",
    "asarray c": "y=np.asarray(x, copy=False); y[0]=7.",
    "array cf": "y=np.array(x, copy=False); y[0]=7.",
    "array cn": "y=np.array(x, copy=None); y[0]=7.",
    "array sub": "y=np.array(x, subok=True, copy=None); y[0]=7.",
    "squeeze": "y=np.squeeze(x); y[0]=7.",
    "moveaxis": "y=np.moveaxis(x,0,0); y[0]=7.",
    "real": "y=np.real(x); y[0]=7.",
    "xreal": "y=x.real; y[0]=7.",
    "diagonal": "y=np.diagonal(np.outer(x,x)); x[0]=y[0]",
    "diag": "y=np.diag(x.reshape(2,2)); s=y.flags.writeable",
    "split": "y,z=np.split(x,2); y[0]=7.",
    "array split": "y,z,w=np.array_split(x,3); y[0]=7.",
    "unstack": "y=np.unstack(x.reshape(2,2)); y[0][0]=7.",
    "iter": "for r in x.reshape(2,2): r[0]=7.",
    "T": "y=x.reshape(2,2).T; y[0,1]=7.",
    "flat": "x.flat[0]=7.",
    "flatit": "y=x.flat; y[1:3]=7.",
    'einsum': "y=np.einsum('ii->i', x.reshape(2,2)); y[...]=7.",
    'einsum2': "y=np.einsum('ij->ji', x.reshape(2,2)); y[0,1]=7.",
    "swapaxes": "y=np.swapaxes(x.reshape(2,2),0,1); y[0,1]=7.",
    "rot90": "y=np.rot90(x.reshape(2,2)); y[0,0]=7.",
    "flip": "y=np.flip(x); y[0]=7.",
    "expand": "y=np.expand_dims(x,0); y[0,0]=7.",
    "ravel": "y=np.ravel(x); y[0]=7.",
    "copyto": "np.copyto(x[1:],7.)",
    "place": "np.place(x,x>2,[7.])",
    "putmask": "np.putmask(x,x>2,7.)",
    "fill diag": "np.fill_diagonal(x.reshape(2,2),7.)",
    "put along": "np.put_along_axis(x,np.array([0]),7.,0)",
    "setfield": "x.setfield(7., np.float64)",
    "itemset": "np.ndarray.__setitem__(x,0,7.)",
    "setitem": "import operator; operator.setitem(x,0,7.)",
    "iadd": "import operator; operator.iadd(x,7.)",
    "conj out": "(x*2).conj(x)",
    "conjugate out": "y=(x*2).conjugate(x[::-1]); s=y[0]",
    "clip out": "x.clip(2,3,out=x)",
    "round out": "np.round(x/3,1,out=x)",
    "cumsum out": "np.cumsum(x,out=x)",
    "ufat": "np.add.at(x,[0,0],1.)",
    "modf": "np.modf(x/2,x,np.empty(4))",
    "matmulout": "np.matmul(x.reshape(2,2)*1,x.reshape(2,2)*1,out=x.reshape(2,2))",
    "dotout": "np.dot(x.reshape(2,2)*1,x.reshape(2,2)*1,out=x.reshape(2,2))",
    "take out": "np.take(x*1,[1,1,1,1],out=x)",
    "concat out": "np.concatenate([x[:2]*1,x[2:]*3],out=x)",
    "nanmean": "np.mean(x,out=x[0:1].reshape(()))",
    "array equal": "s=np.shares_memory(x,x[1:]); x[0]=s",
    "lib pad": "y=np.pad(x,0); y[0]=7.",
    "trim": "y=np.trim_zeros(x); y[0]=7.",
    "append": "y=np.append(x,[]); y[0]=7.",
    "compress": "y=np.compress([1,1,1,1],x); y[0]=7.",
    "tile": "y=np.tile(x,1); y[0]=7.",
    "repeat": "y=np.repeat(x,1); y[0]=7.",
    "roll": "y=np.roll(x,0); y[0]=7.",
    "real if": "y=np.real_if_close(x); y[0]=7.",
    "emath": "y=np.emath.sqrt(x); y[0]=7.",
    "polyd": "p=np.poly1d(x); x[0]=p(2.)",
    "trapz": "y=np.trapezoid(x); x[0]=y",
    "select": "y=np.select([x>2],[x],7.); y[0]=7.",
    "where": "y=np.where(True,x,x); y[0]=7.",
    "positive": "y=+x; y[0]=7.",
    "astype": "y=x.astype(float,copy=False); y[0]=7.",
    "asfarray": "y=np.asarray(x,dtype=float); y[0]=7.",
    "stack": "y=np.stack([x]); y[0,0]=7.",
    "block": "y=np.block(x); y[0]=7.",
    "r": "y=np.r_[x]; y[0]=7.",
    "c": "y=np.c_[x]; y[0]=7.",
    "s": "y=x[np.s_[1:]]; y[0]=7.",
    "index exp": "x[np.index_exp[1:2]]=7.",
    "take0": "y=x.take([0]); y[0]=7.",
    "broadcast to": "y=np.broadcast_to(x,(2,4)); s=y.flags.writeable",
    "matrix T": "y=np.matrix_transpose(x.reshape(2,2)); y[0,1]=7.",
    "permute": "y=np.permute_dims(x.reshape(2,2),(1,0)); y[0,1]=7.",
    "vsplit": "y,z=np.vsplit(x.reshape(2,2),2); y[0,0]=7.",
    "triu": "y=np.triu(x.reshape(2,2)); y[0,0]=7.",
    "apply over": "y=np.apply_over_axes(np.sum,x,[0]); y[0]=7.",
    "piecewise": "y=np.piecewise(x,[x>2],[lambda v: v*2, 0.]); x[0]=y[3]",
    "interp": "y=np.interp(x,x,x); y[0]=7.",
    "convolve": "y=np.convolve(x,[1.]); y[0]=7.",
    "diff": "y=np.diff(x,0); y[0]=7.",
    "gradient": "y=np.gradient(x); y[0]=7.",
    'getattr': "y=getattr(x,'T'); y[0]=7.",
    "setshape": "x.shape=(2,2)",
    "dtypeset": "x.dtype=np.int64",
    "realset": "x[1:].real=7.", "realset of complex": "y=x+0j; y.real=7.; y.imag[1:]=x[0]", "imagset": "x.imag=7.",
    "flatset": "x.reshape(2,2).T.flat=[7.,8.,9.]", "fooset": "x.foo=7.",
    "iadd list": "y=[x]; y[0]+=1.",
    "isub": "z=x; z-=1.",
    "fancyadd": "x[[0,0]]+=1.",
    "maskadd": "x[x>2]+=1.",
    "ctypes": "import ctypes; x.ctypes.data_as(ctypes.POINTER(ctypes.c_double))[0]=7.",
    "pickle": "import pickle; y=pickle.loads(pickle.dumps(x)); y[0]=7.",
    "deepcopy": "import copy; y=copy.deepcopy(x); y[0]=7.",
    'struct': "import struct; struct.pack_into('d', x, 0, 7.)",
    "bytes": "y=x.tobytes(); x[0]=len(y)",
    "tolist": "y=x.tolist(); x[0]=y[1]",
    "iterlist": "y=list(x); x[0]=y[1]",
    "sorted": "y=sorted(x); x[0]=y[1]",
    "max": "x[0]=max(x)",
    "sum": "x[0]=sum(x)",
    "map": "x[:]=[*map(lambda v:v*2,x)]",
    "zip": "for i,(a,b) in enumerate(zip(x,x[::-1])): x[i]=a*b",
    "reversed": "x[:]=[*reversed(x)]",
    "enumerate": "for i,v in enumerate(x): x[i]+=v",
    "unpack": "a,*b,c=x; x[0]=c",
    "swap": "x[0],x[1]=x[1],x[0]",
    "swaprows": "y=x.reshape(2,2); y[[0,1]]=y[[1,0]]",
    "chain": "x[0]=x[1]=5.",
    "slice self": "x[1:]=x[:-1]",
    "slice rev": "x[:]=x[::-1]",
    "overlap add": "x[1:]+=x[:-1]",
    "npitem": "x[0]=x.item(1)",
    "scipy blas": "import scipy.linalg.blas as B; B.daxpy(x*1., x, a=2.)",
    "np random in": "np.random.default_rng(0).standard_normal(out=x)",
    "lexsort": "x[:]=x[np.lexsort((x,))]",
    "argpart": "x[:]=x[np.argpartition(x,2)]",
    "histogram": "x[:2]=np.histogram(x,2)[0]",
    "bincount": "x[:3]=np.bincount([0,1,2],x[:3])",
    "digitize": "x[:]=np.digitize(x,[2.,3.])",
    "searchs": "x[:]=np.searchsorted(x,x)",
    "unique": "x[:]=np.unique(x)[0]",
    "linalgsolve": "x[:2]=np.linalg.solve(x.reshape(2,2),[1.,2.])",
}


def function(line: str) -> Callable[..., Any]:
    """A function that runs a line and hands out all that is there then."""
    names: dict[str, Any] = {"np": np}
    exec(f"def f(x):\n    y = None\n    s = 0.0\n    {line}\n    return x, y, s", names)
    return names["f"]  # type: ignore[no-any-return]


def outcome(f: Callable[..., Any], x: Any) -> Any:
    try:
        return f(x)
    except Exception as error:
        return type(error).__name__


def start(i: int) -> Any:
    return np.array([3.0, 1.0, 4.0, 2.0]) + i


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LINES)
def test_under_jit(name: str, every_policy: None) -> None:
    f = function(LINES[name])
    step = jit(function(LINES[name]))
    for i in range(4):
        x, x2 = start(i), start(i)
        want, have = outcome(f, x), outcome(step, x2)
        assert x.shape == x2.shape and x.dtype == x2.dtype
        np.testing.assert_array_equal(x, x2)
        if isinstance(want, str) or isinstance(have, str):
            assert want == have
            continue
        assert have[0] is x2 and (have[1] is x2) == (want[1] is x)
        assert type(have[1]) is type(want[1]) and have[2] == want[2] and type(have[2]) is type(want[2])
        if isinstance(want[1], np.ndarray):
            np.testing.assert_array_equal(have[1], want[1])
            assert np.shares_memory(want[1], x) == np.shares_memory(have[1], x2)
            assert want[1].flags.writeable == have[1].flags.writeable


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LINES)
def test_in_gradients(name: str) -> None:
    """The value is that of plain NumPy, or the line is refused."""
    f = function(LINES[name])

    def total(x: Any) -> Any:
        x, y, _ = f(x * 1.0)
        return np.sum(x) + (np.sum(y) if isinstance(y, np.ndarray) else 0.0)

    for i in range(4):
        want = outcome(total, start(i))
        try:
            have: Any = grad(total, start(i))[0]
        except YotaError:
            continue
        except Exception as error:  # by what takes no traced values, perhaps, as ``struct`` does
            assert not isinstance(want, str) or want == type(error).__name__
            continue
        assert not isinstance(want, str)
        assert np.isclose(have, want, rtol=1e-12), (have, want)
