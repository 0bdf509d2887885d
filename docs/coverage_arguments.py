"""Arguments with which ``make_coverage.py`` calls functions."""

from __future__ import annotations

from typing import Any

import numpy as np

RNG = np.random.default_rng(0)
V, W, U = np.array([0.3, 0.55, 0.8]), np.array([0.62, 0.21, 0.93]), np.array([0.4, 0.7, 0.15])
M, N = np.eye(3) * 2 + RNG.uniform(0, 0.3, (3, 3)), np.eye(3) + RNG.uniform(0, 0.5, (3, 3))
S = M @ M.T  # symmetric, positive definite
LONG, IMAGE = RNG.uniform(0.1, 0.9, 40), RNG.uniform(0.1, 0.9, (6, 7))
Z = V + 1j * W
X, Y, T, R = 0.35, 0.6, 0.75, 0.2


def function(x: Any, *further: Any) -> Any:
    return np.sum(x * x) - 0.3


def mapping(x: Any, *further: Any) -> Any:
    return x * x - 0.3


# In the order in which they are tried.
GENERAL: list[tuple[Any, ...]] = [
    (V,), (X,), (Z,), (0.3 + 0.4j,), (2, V), (2, X), (V, W), (V, W, U), (S,), (S, V), (S, M), (X, Y), (X, Y, T), (V, 2),
    (X, 2), (V, 2, 0),
    (X, Y, T, R), (V, W, U, V), (2, 1, X), (1, 2, X), (2, X, Y), (2, 3, X, Y), (1, 2, 3, X), (LONG,), (LONG, V),
    (LONG, 5),
    (V, LONG, W), (IMAGE,), (IMAGE, X), (IMAGE, 3), (IMAGE, V[:2]), (IMAGE, M), ([V, W],), ([V, W, U],), (Z, Z),
    (V, np.array([0, 2])), (V, np.array([0, 2]), X), (V, np.array([True, False, True])),
    (np.array([True, False, True]), V),
    (S, np.array([0, 2]), 1), (S, 0, 1), (S, -1), (S, 2), (V, (3, 1)), (V, X, Y), (V, W, 2), (S, S, S), (V, [V, W]),
    (V, "f"),
    (mapping, V), (function, V), (mapping, X, Y), (function, X, Y), (function, (X,), V), (mapping, 0, V),
    (mapping, V, W),
    (3,), (3, 2), ((2, 3),), (5, 2, 1), (np.arange(3),), (np.arange(1, 4), np.arange(3)), (np.arange(3), 2),
    (LONG, LONG[:4]),
    ((2, 3), X), ("ij,jk->ik", M, N), ("d",), (float,), (np.float64, int), ("name",), ("name", V), (V, "name"),
    ([1, 2],), (),
]  # fmt: skip

POINTS, GRID = RNG.uniform(0, 1, (12, 2)), np.linspace(0, 1, 8)
TABLE, SPIN = RNG.uniform(0.1, 0.9, (8, 8)), RNG.uniform(-1, 1, (4, 3))
SOS = np.array([[0.2, 0.4, 0.2, 1.0, -0.4, 0.3], [1.0, 0.5, 0.1, 1.0, 0.2, 0.1]])
INNER = np.array([0.21, 0.47, 0.83])


def rate(t: Any, y: Any) -> Any:
    return -y


def _calls(prefix: str, **texts: tuple[Any, ...]) -> dict[str, list[tuple[Any, ...]]]:
    return {f"{prefix}.{name}": [way] for name, way in texts.items()}


def _objects(names: str, text: str, *args: Any) -> dict[str, list[tuple[Any, ...]]]:
    return {name: [(text.replace("NAME", name), *args)] for name in names.split()}


# Of functions that take none of these, and of classes, whose objects are used. A text with "a[0]" in it is a call;
# a name that no module has is that of a method.
ARGUMENTS: dict[str, list[tuple[Any, ...]]] = {
    **_calls(
        "numpy",
        apply_along_axis=(mapping, 0, S),
        apply_over_axes=("np.apply_over_axes(np.sum, a[0], [0])", S),
        bincount=("np.bincount(np.array([0, 1, 1]), a[0])", V),
        choose=(np.array([0, 1, 0]), [V, W]),
        convolve=(LONG, V),
        correlate=(LONG, V),
        digitize=(V, GRID),
        dtype=(float,),
        frompyfunc=("np.frompyfunc(lambda x: x * x, 1, 1)(a[0])", V),
        fromfunction=("np.fromfunction(lambda i: i * a[0], (3,))", X),
        geomspace=(X, Y),
        histogram=(LONG,),
        insert=(V, 1, X),
        interp=(V, GRID, GRID**2),
        isnat=(np.datetime64("NaT"),),
        ix_=(np.array([0, 1]), np.array([1, 2])),
        nditer=("sum(x * x for x in np.nditer(a[0]))", V),
        ndenumerate=("sum(x * x for _, x in np.ndenumerate(a[0]))", V),
        piecewise=("np.piecewise(a[0], [a[0] > 0.5], [lambda x: x * x, lambda x: -x])", V),
        polyfit=(LONG, LONG**2, 2),
        poly1d=("np.poly1d(a[0])(a[1])", V, X),
        put_along_axis=(S, np.array([[0, 1, 2]]), X, 0),
        ravel_multi_index=((np.array([0, 1]), np.array([1, 2])), (3, 3)),
        select=([V > 0.5, V > 0.2], [V, W]),
        unpackbits=(np.array([3, 5], np.uint8),),
        unravel_index=(np.array([3, 5]), (3, 3)),
        logspace=(X, Y),
        vectorize=("np.vectorize(lambda x: x * x)(a[0])", V),
        mask_indices=(3, np.triu),
        isdtype=(np.dtype(float), "real floating"),
        unwrap=(LONG * 9,),
        matrix=("np.matrix(a[0]) @ a[0]", S),
        asmatrix=("np.asmatrix(a[0]) @ a[0]", S),
        bmat=("np.bmat([[a[0], a[0]]])", S),
        iinfo=(int,),
        fromstring=("1 2 3", float, -1, " "),
    ),
    "numpy.linalg.tensorinv": [(np.eye(4).reshape(2, 2, 2, 2) * 2 + 0.1, 2)],
    "numpy.linalg.tensorsolve": [(np.eye(4).reshape(2, 2, 2, 2) * 2 + 0.1, S[:2, :2])],
    "numpy.linalg.lstsq": [(np.vstack([S, V]), np.append(V, X))],
    "numpy.ndarray.setfield": [("[x := a[0] * 2, x.setfield(a[1], float)][0]", V, W)],
    "operator.attrgetter": [("operator.attrgetter('T')(a[0])", S)],
    "operator.itemgetter": [("operator.itemgetter(1)(a[0])", V)],
    "operator.methodcaller": [("operator.methodcaller('sum')(a[0])", V)],
    "operator.concat": [([X], [Y])],
    "operator.iconcat": [([X], [Y])],
    "operator.delitem": [([X, Y], 0)],
    **_calls(
        "scipy.special",
        ellip_harm=(1.0, 1.5, 1, 1, X),
        ellip_harm_2=(1.0, 1.5, 1, 1, 2.4),
        ellip_normal=(1.0, 1.5, 1, 1),
        ndtri_exp=(-V,),
        obl_ang1_cv=(1, 2, X, 0.4, Y),
        obl_rad1_cv=(1, 2, X, 0.4, 1.4),
        obl_rad2_cv=(1, 2, X, 0.4, 1.4),
        pro_ang1_cv=(1, 2, X, 0.4, Y),
        pro_rad1=(1, 2, X, 1.4),
        pro_rad1_cv=(1, 2, X, 0.4, 1.4),
        pro_rad2=(1, 2, X, 1.4),
        pro_rad2_cv=(1, 2, X, 0.4, 1.4),
        ndtri=(V,),
        multigammaln=(3.3, 2),
        comb=(5.3, 2.1),
        perm=(5.3, 2),
    ),
    **_objects(
        "scipy.special.chebyc scipy.special.chebys scipy.special.chebyt scipy.special.chebyu scipy.special.hermite "
        "scipy.special.hermitenorm scipy.special.laguerre scipy.special.legendre scipy.special.sh_chebyt "
        "scipy.special.sh_chebyu scipy.special.sh_legendre",
        "NAME(3)(a[0])",
        V,
    ),
    **_objects("scipy.special.gegenbauer scipy.special.genlaguerre", "NAME(3, 1.5)(a[0])", V),
    **_objects("scipy.special.jacobi scipy.special.sh_jacobi", "NAME(3, 2.5, 1.5)(a[0])", V),
    **_calls(
        "scipy.linalg",
        cdf2rdf=(np.array([1j, -1j]), np.array([[1, 1], [1j, -1j]])),
        diagsvd=(V, 3, 3),
        cho_solve=("scipy.linalg.cho_solve(scipy.linalg.cho_factor(a[0]), a[1])", S, V),
        cho_solve_banded=(
            "scipy.linalg.cho_solve_banded((a[0], False), a[1])",
            np.array([[0, 0.1, 0.2], [2.0, 2, 2]]),
            V,
        ),
        lu_solve=("scipy.linalg.lu_solve(scipy.linalg.lu_factor(a[0]), a[1])", S, V),
        funm=("scipy.linalg.funm(a[0], lambda x: np.exp(x))", S),
        hadamard=(4,),
        get_blas_funcs=("gemm",),
        get_lapack_funcs=("gesv",),
        qr_delete=("scipy.linalg.qr_delete(*np.linalg.qr(a[0]), 1)", S),
        qr_insert=("scipy.linalg.qr_insert(*np.linalg.qr(a[0]), a[1], 1)", S, V),
        qr_update=("scipy.linalg.qr_update(*np.linalg.qr(a[0]), a[1], a[2])", S, V, W),
        solve_banded=((1, 1), np.array([[0, 0.1, 0.2], [2.0, 2, 2], [0.3, 0.1, 0]]), V),
        solveh_banded=(np.array([[0, 0.1, 0.2], [2.0, 2, 2]]), V),
        solve_sylvester=(S, M, N),
        solve_toeplitz=(np.array([2.0, 0.3, 0.1]), V),
        solve_continuous_are=(M, N, S, S),
        solve_discrete_are=(M / 4, N, S, S),
        solve_triangular=(np.triu(S), V),
    ),
    **_calls(
        "scipy.stats",
        binned_statistic=(LONG, LONG**2),
        binned_statistic_2d=(LONG, LONG[::-1], LONG**2),
        binned_statistic_dd=(POINTS, POINTS[:, 0]),
        boschloo_exact=([[3, 4], [5, 2]],),
        barnard_exact=([[3, 4], [5, 2]],),
        dunnett=(LONG[:10], LONG[10:20]),
        epps_singleton_2samp=(LONG[:20], LONG[20:]),
        ks_1samp=("scipy.stats.ks_1samp(a[0], scipy.stats.norm.cdf)", LONG),
        ttest_ind_from_stats=(X, Y, 9, T, R, 8),
        weightedtau=(LONG[:9], LONG[9:18]),
        vonmises_fisher=(
            "scipy.stats.vonmises_fisher(a[0], 2.0).logpdf(a[1])",
            np.array([1.0, 0, 0]),
            np.array([0, 0.6, 0.8]),
        ),
        gaussian_kde=("scipy.stats.gaussian_kde(a[0])(a[1])", LONG, V),
        rv_histogram=("scipy.stats.rv_histogram((np.arange(1.0, 5), np.arange(5.0))).pdf(a[0])", V),
        order_statistic=("scipy.stats.order_statistic(scipy.stats.Normal(), r=1, n=3).pdf(a[0])", V),
        Normal=("scipy.stats.Normal(mu=a[0], sigma=a[1]).logpdf(a[2])", X, Y, V),
        Uniform=("scipy.stats.Uniform(a=a[0], b=2.0).pdf(a[1])", X, V),
        bootstrap=("scipy.stats.bootstrap((a[0],), np.mean, rng=1, n_resamples=9).standard_error", LONG),
        permutation_test=((LONG[:4], LONG[4:8]), lambda x, y: np.mean(x) - np.mean(y)),
        ecdf=("scipy.stats.ecdf(a[0]).cdf.evaluate(0.4)", LONG),
        multivariate_normal=("scipy.stats.multivariate_normal(a[0], a[1]).logpdf(a[2])", V, S, W),
        multivariate_t=("scipy.stats.multivariate_t(a[0], a[1], 3.0).logpdf(a[2])", V, S, W),
        dirichlet=("scipy.stats.dirichlet(a[0]).logpdf(np.array([0.2, 0.3, 0.5]))", V),
        wishart=("scipy.stats.wishart(5.0, a[0]).logpdf(a[1])", S, S + 1),
        invwishart=("scipy.stats.invwishart(5.0, a[0]).logpdf(a[1])", S, S + 1),
        matrix_normal=("scipy.stats.matrix_normal(a[0], a[1], a[1]).logpdf(a[2])", M, S, N),
        matrix_t=("scipy.stats.matrix_t(a[0], a[1], a[1], 3.0).logpdf(a[2])", M, S, N),
        multinomial=("scipy.stats.multinomial(6, a[0]).logpmf([1, 2, 3])", np.array([0.2, 0.3, 0.5])),
        dirichlet_multinomial=("scipy.stats.dirichlet_multinomial(a[0], 6).logpmf([1, 2, 3])", V),
        normal_inverse_gamma=("scipy.stats.normal_inverse_gamma(a[0], 2.0, 3.0, 1.5).logpdf(a[1], a[2])", X, Y, T),
        Covariance=("scipy.stats.Covariance.from_diagonal(a[0]).log_pdet", V),
        cramervonmises_2samp=("scipy.stats.cramervonmises_2samp(a[0], a[1]).statistic", LONG[:9], LONG[9:20]),
        directional_stats=("scipy.stats.directional_stats(a[0]).mean_direction", SPIN),
        alexandergovern=("scipy.stats.alexandergovern(a[0], a[1]).statistic", LONG[:9], LONG[9:20]),
        tukey_hsd=("scipy.stats.tukey_hsd(a[0], a[1]).statistic", LONG[:9], LONG[9:20]),
    ),
    "scipy.stats.multivariate_normal.pdf": [("scipy.stats.multivariate_normal.pdf(a[0], a[1], a[2])", V, W, S)],
    "scipy.stats.multivariate_normal.logpdf": [("scipy.stats.multivariate_normal.logpdf(a[0], a[1], a[2])", V, W, S)],
    "scipy.stats.multivariate_normal.cdf": [
        ("scipy.stats.multivariate_normal.cdf(a[0], a[1], a[2])", V[:2], W[:2], S[:2, :2])
    ],
    "scipy.stats.multivariate_normal.entropy": [("scipy.stats.multivariate_normal.entropy(a[0], a[1])", V, S)],
    "scipy.stats.multivariate_t.pdf": [("scipy.stats.multivariate_t.pdf(a[0], a[1], a[2], 3.0)", V, W, S)],
    "scipy.stats.multivariate_t.logpdf": [("scipy.stats.multivariate_t.logpdf(a[0], a[1], a[2], 3.0)", V, W, S)],
    "scipy.stats.dirichlet.logpdf": [("scipy.stats.dirichlet.logpdf(np.array([0.2, 0.3, 0.5]), a[0])", V)],
    "scipy.stats.dirichlet.entropy": [("scipy.stats.dirichlet.entropy(a[0])", V)],
    "scipy.stats.dirichlet.mean": [("scipy.stats.dirichlet.mean(a[0])", V)],
    "scipy.stats.wishart.logpdf": [("scipy.stats.wishart.logpdf(a[1], 5.0, a[0])", S, S + 1)],
    "scipy.stats.wishart.entropy": [("scipy.stats.wishart.entropy(5.0, a[0])", S)],
    "scipy.stats.norm.rvs": [("scipy.stats.norm.rvs(a[0], a[1], size=3, random_state=1)", X, Y)],
    "scipy.stats.norm(...).logpdf": [("scipy.stats.norm(a[0], a[1]).logpdf(a[2])", X, Y, V)],
    **_calls(
        "scipy.signal",
        argrelextrema=("scipy.signal.argrelextrema(a[0], np.greater)", LONG),
        check_COLA=("hann", 8, 4),
        check_NOLA=("hann", 8, 4),
        filtfilt=(V[:2], [1.0, 0.2], LONG),
        firls=(7, [0, 0.3, 0.5, 1], [1, 1, 0, 0]),
        firwin2=(7, [0, 0.4, 1], [1, 0.5, 0]),
        freqz_sos=("scipy.signal.freqz_sos(a[0], 8)[1]", SOS),
        lfilter=(V, [1.0, 0.2], LONG),
        gammatone=(X, "fir", 4),
        iircomb=(X * 0 + 0.25, 30.0),
        iirdesign=(0.3, 0.5, 1, 20),
        kaiserord=(40.0, 0.2),
        lsim=(([1.0], [1.0, 2.0]), LONG, np.arange(40.0)),
        remez=(7, [0, 0.2, 0.3, 0.5], [1, 0]),
        resample_poly=(LONG, 2, 3),
        sepfir2d=(np.vstack([IMAGE] * 2), V, V),
        sos2zpk=(SOS,),
        sosfilt=(SOS, LONG),
        sosfilt_zi=(SOS,),
        sosfiltfilt=(SOS, LONG),
        sosfreqz=("scipy.signal.sosfreqz(a[0], 8)[1]", SOS),
        spline_filter=(RNG.uniform(0, 1, (6, 6)),),
        savgol_filter=(LONG, 5, 2),
        CZT=("scipy.signal.CZT(40)(a[0])", LONG),
        ZoomFFT=("scipy.signal.ZoomFFT(40, 0.3)(a[0])", LONG),
        ShortTimeFFT=("scipy.signal.ShortTimeFFT(np.ones(4), 2, 1.0).stft(a[0])", LONG),
        StateSpace=("scipy.signal.StateSpace(a[0], np.ones((3, 1)), np.ones((1, 3)), 0.0).A", S),
        TransferFunction=("scipy.signal.TransferFunction(a[0], [1.0, 2.0]).num", V[:2]),
        medfilt=(LONG, 3),
        decimate=(LONG, 2),
        place_poles=("scipy.signal.place_poles(a[0], np.ones((3, 1)), [-1, -2, -3]).gain_matrix", S),
        detrend=(LONG,),
        istft=("scipy.signal.istft(scipy.signal.stft(a[0], nperseg=8)[2], nperseg=8)[1]", LONG),
        stft=("scipy.signal.stft(a[0], nperseg=8)[2]", LONG),
        welch=("scipy.signal.welch(a[0], nperseg=8)[1]", LONG),
        order_filter=(LONG, np.ones(3), 1),
        upfirdn=(V, LONG, 2),
        hilbert=(LONG,),
        resample=(LONG, 20),
    ),
    **_objects(
        "scipy.integrate.BDF scipy.integrate.DOP853 scipy.integrate.LSODA scipy.integrate.RK23 scipy.integrate.RK45 "
        "scipy.integrate.Radau",
        "[o := NAME(a[1], 0.0, a[0], 1.0), o.step(), o.y][-1]",
        V,
        rate,
    ),
    **_calls(
        "scipy.integrate",
        dblquad=(lambda x, y: x * y, 0.0, X, 0.0, Y),
        tplquad=(lambda x, y, z: x * y, 0, X, 0, Y, 0, T),
        nquad=(lambda x, y: x * y, [[0.0, X], [0.0, Y]]),
        solve_ivp=("scipy.integrate.solve_ivp(a[1], (0, 1), a[0]).y", V, rate),
        solve_bvp=(
            "scipy.integrate.solve_bvp(lambda x, y: y, lambda p, q: p - 1, a[0], a[1]).sol(0.5)",
            GRID,
            GRID[None],
        ),
        odeint=("scipy.integrate.odeint(lambda y, t: -y, a[0], np.arange(3.0))", V),
        cubature=("scipy.integrate.cubature(lambda x: x**2, a[0], a[1]).estimate", [0.0], [X]),
    ),
    **_objects(
        "scipy.interpolate.Akima1DInterpolator scipy.interpolate.BarycentricInterpolator scipy.interpolate.CubicSpline "
        "scipy.interpolate.FloaterHormannInterpolator scipy.interpolate.InterpolatedUnivariateSpline "
        "scipy.interpolate.KroghInterpolator scipy.interpolate.PchipInterpolator scipy.interpolate.UnivariateSpline "
        "scipy.interpolate.interp1d scipy.interpolate.make_interp_spline scipy.interpolate.make_smoothing_spline "
        "scipy.interpolate.AAA",
        "NAME(np.linspace(0, 1, 8), a[0])(a[1])",
        np.sin(3 * GRID),
        INNER,
    ),
    **_objects(
        "scipy.interpolate.CloughTocher2DInterpolator scipy.interpolate.LinearNDInterpolator "
        "scipy.interpolate.NearestNDInterpolator scipy.interpolate.RBFInterpolator",
        "NAME(np.random.default_rng(1).uniform(0, 1, (12, 2)), a[0])(a[1])",
        LONG[:12],
        np.array([[0.5, 0.52], [0.43, 0.55]]),
    ),
    **_calls(
        "scipy.interpolate",
        BSpline=("scipy.interpolate.BSpline(np.arange(9.0), a[0], 3)(a[1])", LONG[:5], 4 + V),
        PPoly=("scipy.interpolate.PPoly(a[0], np.arange(4.0))(a[1])", S, 1 + V),
        BPoly=("scipy.interpolate.BPoly(a[0], np.arange(4.0))(a[1])", S, 1 + V),
        CubicHermiteSpline=("scipy.interpolate.CubicHermiteSpline(np.arange(3.0), a[0], a[1])(a[2])", V, W, 1 + V),
        NdPPoly=("scipy.interpolate.NdPPoly(a[0], (np.arange(4.0),))(a[1])", S, np.array([[0.3], [1.5]])),
        RegularGridInterpolator=(
            "scipy.interpolate.RegularGridInterpolator((np.linspace(0, 1, 8),) * 2, a[0])(a[1])",
            TABLE,
            POINTS,
        ),
        interpn=("scipy.interpolate.interpn((np.linspace(0, 1, 8),) * 2, a[0], a[1])", TABLE, POINTS),
        RectBivariateSpline=(
            "scipy.interpolate.RectBivariateSpline(np.arange(8.0), np.arange(8.0), a[0]).ev(a[1], a[1])",
            TABLE,
            1 + V,
        ),
        SmoothBivariateSpline=(
            "scipy.interpolate.SmoothBivariateSpline(np.arange(40.0), np.arange(40.0)**1.5, a[0]).ev(3.0, 5.0)",
            LONG,
        ),
        griddata=(
            "scipy.interpolate.griddata(np.random.default_rng(1).uniform(0, 1, (12, 2)), a[0], a[1])",
            LONG[:12],
            np.array([[0.5, 0.52], [0.43, 0.55]]),
        ),
        make_lsq_spline=(
            "scipy.interpolate.make_lsq_spline(np.linspace(0, 1, 40), a[0], np.r_[[0] * 4, 0.5, [1] * 4])(a[1])",
            LONG,
            V,
        ),
        make_splrep=("scipy.interpolate.make_splrep(np.arange(8.0), a[0], s=0)(a[1])", LONG[:8], 2 + V),
        Rbf=("scipy.interpolate.Rbf(np.arange(8.0), a[0])(a[1])", LONG[:8], 2 + V),
        splrep=("scipy.interpolate.splrep(np.arange(8.0), a[0])[1]", LONG[:8]),
        splev=("scipy.interpolate.splev(a[0], scipy.interpolate.splrep(np.arange(8.0), a[1]))", 2 + V, LONG[:8]),
        lagrange=("scipy.interpolate.lagrange(np.arange(3.0), a[0])(a[1])", V, X),
        pade=("scipy.interpolate.pade(a[0], 1)[0](0.3)", V),
        approximate_taylor_polynomial=("scipy.interpolate.approximate_taylor_polynomial(np.sin, a[0], 3, 1.0)(0.2)", X),
        pchip_interpolate=(np.arange(3.0), V, 0.5 + V),
        krogh_interpolate=(np.arange(3.0), V, 0.5 + V),
        barycentric_interpolate=(np.arange(3.0), V, 0.5 + V),
    ),
    "scipy.interpolate.CubicSpline.derivative": [
        ("scipy.interpolate.CubicSpline(np.arange(3.0), a[0]).derivative()(a[1])", V, 1 + V)
    ],
    "scipy.interpolate.CubicSpline.integrate": [
        ("scipy.interpolate.CubicSpline(np.arange(3.0), a[0]).integrate(0, a[1])", V, X)
    ],
    **_calls(
        "scipy.ndimage",
        generic_filter=(IMAGE, np.mean, 3),
        generic_filter1d=(IMAGE, lambda i, o: None, 3),
        geometric_transform=(IMAGE, lambda i: (i[0] * 0.9, i[1])),
        histogram=(IMAGE, 0, 1, 3),
        labeled_comprehension=(IMAGE, (IMAGE > 0.5) * 1, [0, 1], np.mean, float, 0.0),
        map_coordinates=(IMAGE, SPIN[:2] + 2.5),
        vectorized_filter=("scipy.ndimage.vectorized_filter(a[0], np.mean, size=3)", IMAGE),
        watershed_ift=((IMAGE * 9).astype(np.uint8), (IMAGE > 0.8) * 1),
        shift=(IMAGE, X),
        zoom=(IMAGE, 1.5),
        rotate=(IMAGE, 20.0),
        affine_transform=(IMAGE, np.array([[0.9, 0.1], [0.0, 1.1]])),
        sum_labels=(IMAGE, (IMAGE > 0.5) * 1, [0, 1]),
    ),
    **_objects("scipy.spatial.ConvexHull", "NAME(a[0]).area", POINTS),
    **_objects("scipy.spatial.Delaunay", "NAME(a[0]).transform", POINTS),
    **_objects("scipy.spatial.Voronoi", "NAME(a[0]).vertices", POINTS),
    **_objects(
        "scipy.spatial.KDTree scipy.spatial.cKDTree", "NAME(np.arange(12.0).reshape(6, 2)).query(a[0])[0]", POINTS
    ),
    "scipy.spatial.HalfspaceIntersection": [
        (
            "scipy.spatial.HalfspaceIntersection(a[0], np.zeros(2)).intersections",
            np.array([[-1.0, 0, -1], [0, -1, -1], [1, 1, -1]]),
        )
    ],
    "scipy.spatial.SphericalVoronoi": [
        ("scipy.spatial.SphericalVoronoi(a[0]).vertices", np.vstack([np.eye(3), -np.eye(3)]))
    ],
    "scipy.spatial.tsearch": [("scipy.spatial.tsearch(scipy.spatial.Delaunay(np.eye(3)[:, :2]), a[0])", POINTS)],
    "scipy.spatial.Rectangle": [
        ("scipy.spatial.Rectangle([1.0, 1.0], [0.0, 0.0]).min_distance_point(a[0])", 2 + V[:2])
    ],
    **_calls(
        "scipy.spatial.transform",
        Slerp=(
            "scipy.spatial.transform.Slerp(np.arange(4.0), "
            "scipy.spatial.transform.Rotation.from_rotvec(a[0]))(1.3).as_quat()",
            SPIN,
        ),
        Rotation=("scipy.spatial.transform.Rotation(a[0]).as_matrix()", RNG.uniform(0.1, 1, 4)),
        RotationSpline=(
            "scipy.spatial.transform.RotationSpline(np.arange(4.0), "
            "scipy.spatial.transform.Rotation.from_rotvec(a[0]))(1.3).as_quat()",
            SPIN,
        ),
        RigidTransform=("scipy.spatial.transform.RigidTransform.from_translation(a[0]).as_matrix()", V),
    ),
    **{
        f"scipy.spatial.transform.Rotation.{method}": [
            (f"scipy.spatial.transform.Rotation.from_rotvec(a[0]).{method}({inside})", SPIN, V)
        ]
        for method, inside in (
            ("as_matrix", ""),
            ("as_quat", ""),
            ("as_rotvec", ""),
            ("as_mrp", ""),
            ("as_euler", "'xyz'"),
            ("apply", "a[1]"),
            ("magnitude", ""),
            ("as_davenport", "np.eye(3), 'e'"),
        )
    },
    **{
        f"scipy.spatial.transform.Rotation.{method}": [
            (f"scipy.spatial.transform.Rotation.from_rotvec(a[0]).{method}({inside}).as_matrix()", SPIN, V)
        ]
        for method, inside in (
            ("inv", ""),
            ("mean", ""),
            ("__mul__", "scipy.spatial.transform.Rotation.from_rotvec(a[1])"),
            ("__pow__", "2.5"),
            ("__getitem__", "1"),
        )
    },
    **{
        f"scipy.spatial.transform.Rotation.{method}": [
            (f"scipy.spatial.transform.Rotation.{method}({inside}).as_matrix()", x)
        ]
        for method, inside, x in (
            ("from_quat", "a[0]", RNG.uniform(0.1, 1, 4)),
            ("from_rotvec", "a[0]", V),
            ("from_mrp", "a[0]", V),
            ("from_matrix", "a[0]", M),
            ("from_euler", "'xyz', a[0]", V),
            ("from_davenport", "np.eye(3), 'e', a[0]", V),
            ("concatenate", "[scipy.spatial.transform.Rotation.from_rotvec(a[0])] * 2", V),
        )
    },
    "scipy.spatial.transform.Rotation.align_vectors": [
        ("scipy.spatial.transform.Rotation.align_vectors(a[0], a[1])[0].as_matrix()", SPIN, SPIN[::-1] + 0.1)
    ],
    **_calls(
        "scipy.sparse",
        block_array=("scipy.sparse.block_array([[scipy.sparse.csr_array(a[0])]])", S),
        bmat=("scipy.sparse.bmat([[scipy.sparse.csr_array(a[0])]])", S),
        expand_dims=("scipy.sparse.expand_dims(scipy.sparse.coo_array(a[0]))", S),
        hstack=("scipy.sparse.hstack([scipy.sparse.csr_array(a[0])] * 2)", S),
        spdiags=("scipy.sparse.spdiags(a[0], [0, 1, -1], 3, 3)", S),
        swapaxes=("scipy.sparse.swapaxes(scipy.sparse.coo_array(a[0]), 0, 1)", S),
        vstack=("scipy.sparse.vstack([scipy.sparse.csr_array(a[0])] * 2)", S),
        csr_array=("scipy.sparse.csr_array((a[0], ([0, 1, 2], [1, 0, 2])), shape=(3, 3)) @ a[1]", V, W),
        csr_matrix=("scipy.sparse.csr_matrix((a[0], ([0, 1, 2], [1, 0, 2])), shape=(3, 3)) @ a[1]", V, W),
        csc_array=("scipy.sparse.csc_array((a[0], ([0, 1, 2], [1, 0, 2])), shape=(3, 3)) @ a[1]", V, W),
        coo_array=("scipy.sparse.coo_array((a[0], ([0, 1, 2], [1, 0, 2])), shape=(3, 3)) @ a[1]", V, W),
        diags_array=("scipy.sparse.diags_array(a[0]) @ a[1]", V, W),
        diags=("scipy.sparse.diags(a[0]) @ a[1]", V, W),
    ),
    "scipy.sparse.csr_array.__matmul__": [("scipy.sparse.csr_array(np.eye(3)) @ a[0]", V)],
    "scipy.sparse.csr_array.__rmatmul__": [("a[0] @ scipy.sparse.csr_array(np.eye(3))", V)],
    "scipy.sparse.csr_array.dot": [("scipy.sparse.csr_array(np.eye(3)).dot(a[0])", V)],
    "scipy.sparse.csr_array.sum": [
        ("scipy.sparse.csr_array((a[0], ([0, 1, 2], [1, 0, 2])), shape=(3, 3)).sum(axis=0)", V)
    ],
    "scipy.sparse.csr_array.multiply": [("scipy.sparse.csr_array(np.eye(3)).multiply(a[0])", V)],
    **_calls(
        "scipy.sparse.linalg",
        LinearOperator=("scipy.sparse.linalg.LinearOperator((3, 3), matvec=lambda x: 2 * x) @ a[0]", V),
        aslinearoperator=("scipy.sparse.linalg.aslinearoperator(np.eye(3)) @ a[0]", V),
        factorized=("scipy.sparse.linalg.factorized(scipy.sparse.csc_array(np.eye(3)))(a[0])", V),
        splu=("scipy.sparse.linalg.splu(scipy.sparse.csc_array(np.eye(3))).solve(a[0])", V),
        spilu=("scipy.sparse.linalg.spilu(scipy.sparse.csc_array(np.eye(3))).solve(a[0])", V),
        spsolve=("scipy.sparse.linalg.spsolve(scipy.sparse.csc_array(np.eye(3) * 2), a[0])", V),
        cg=("scipy.sparse.linalg.cg(scipy.sparse.csr_array(np.eye(3) * 2), a[0])[0]", V),
        bicgstab=("scipy.sparse.linalg.bicgstab(scipy.sparse.csr_array(np.eye(3) * 2), a[0], rtol=1e-13)[0]", V),
        minres=("scipy.sparse.linalg.minres(scipy.sparse.csr_array(np.eye(3) * 2), a[0], rtol=1e-13)[0]", V),
        spsolve_triangular=("scipy.sparse.linalg.spsolve_triangular(scipy.sparse.tril(a[0]).tocsr(), a[1])", S, V),
        gmres=("scipy.sparse.linalg.gmres(scipy.sparse.csr_array(np.eye(3) * 2), a[0])[0]", V),
        inv=("scipy.sparse.linalg.inv(scipy.sparse.csc_array(a[0]))", S),
        norm=("scipy.sparse.linalg.norm(scipy.sparse.csr_array(a[0]))", S),
    ),
    **_calls(
        "scipy.optimize",
        approx_fprime=(V, function),
        brute=(function, ((0.0, X),)),
        check_grad=(function, mapping, V),
        curve_fit=("scipy.optimize.curve_fit(lambda x, p: p * x, np.arange(8.0), a[0])[0]", LONG[:8]),
        differential_evolution=(
            "scipy.optimize.differential_evolution(lambda x: (x[0] - a[0])**2, [(0, 1)], rng=1).x",
            X,
        ),
        direct=("scipy.optimize.direct(lambda x: (x[0] - a[0])**2, [(0, 1)]).x", X),
        dual_annealing=("scipy.optimize.dual_annealing(lambda x: (x[0] - a[0])**2, [(0, 1)], rng=1, maxiter=5).x", X),
        fmin_cobyla=("scipy.optimize.fmin_cobyla(lambda x: (x[0] - a[0])**2, [0.1], [])", X),
        linprog=("scipy.optimize.linprog(a[0], A_eq=[[1, 1, 1]], b_eq=[1]).x", V),
        line_search=(function, lambda x: 2 * x, V, -V),
        minimize=("scipy.optimize.minimize(lambda x: (x[0] - a[0])**2, [0.1]).x", X),
        minimize_scalar=("scipy.optimize.minimize_scalar(lambda x: (x - a[0])**2).x", X),
        root_scalar=("scipy.optimize.root_scalar(lambda x: x * x - a[0], bracket=[0, 1]).root", X),
        root=("scipy.optimize.root(lambda x: x * x - a[0], [0.5]).x", X),
        shgo=("scipy.optimize.shgo(lambda x: (x[0] - a[0])**2, [(0, 1)]).x", X),
        linearmixing=(mapping, V),
        excitingmixing=(mapping, V),
        least_squares=("scipy.optimize.least_squares(lambda x: x - a[0], [0.1]).x", X),
        nnls=(S, V),
        lsq_linear=("scipy.optimize.lsq_linear(a[0], a[1]).x", S, V),
        isotonic_regression=("scipy.optimize.isotonic_regression(a[0]).x", LONG),
    ),
    **_calls(
        "scipy.signal",
        lsim=("scipy.signal.lsim(([1.0], [1.0, 2.0]), a[0], np.arange(40.0))[1]", LONG),
        remez=("scipy.signal.remez(7, [0, 0.2, 0.3, 0.5], a[0])", V[:2]),
        sosfilt=("scipy.signal.sosfilt(scipy.signal.butter(2, 0.3, output='sos'), a[0])", LONG),
        sosfiltfilt=("scipy.signal.sosfiltfilt(scipy.signal.butter(2, 0.3, output='sos'), a[0])", LONG),
        freqz_sos=("scipy.signal.freqz_sos(scipy.signal.butter(2, a[0], output='sos'), 8)[1]", X),
        sosfreqz=("scipy.signal.sosfreqz(scipy.signal.butter(2, a[0], output='sos'), 8)[1]", X),
        iircomb=("scipy.signal.iircomb(0.25, a[0])[0]", 30.0),
        spline_filter=("scipy.signal.spline_filter(a[0])", TABLE),
        firwin_2d=("scipy.signal.firwin_2d((3, 3), 'hann')[0] * a[0]", X),
        band_stop_obj=(X, 0, np.array([0.2, 0.7]), np.array([0.3, 0.6]), 1.0, 20.0, "butter"),
        ZerosPolesGain=("scipy.signal.ZerosPolesGain(a[0], [0.5], 1.0).zeros", V),
        lti=("scipy.signal.lti(a[0], [1.0, 2.0]).num", V[:2]),
        dlti=("scipy.signal.dlti(a[0], [1.0, 2.0]).num", V[:2]),
    ),
    **_objects(
        "scipy.optimize.fsolve scipy.optimize.newton scipy.optimize.broyden1 scipy.optimize.broyden2 "
        "scipy.optimize.anderson scipy.optimize.newton_krylov scipy.optimize.linearmixing "
        "scipy.optimize.excitingmixing scipy.optimize.diagbroyden",
        "NAME(lambda x: x * x - a[0], 0.5)",
        X,
    ),
    **_objects(
        "scipy.optimize.brentq scipy.optimize.brenth scipy.optimize.bisect scipy.optimize.ridder "
        "scipy.optimize.toms748",
        "NAME(lambda x: x * x - a[0], 0.0, 1.0)",
        X,
    ),
    **_objects(
        "scipy.optimize.fmin scipy.optimize.fmin_bfgs scipy.optimize.fmin_cg scipy.optimize.fmin_powell "
        "scipy.optimize.fmin_slsqp",
        "NAME(lambda x: (x[0] - a[0])**2, [0.1])",
        X,
    ),
    "scipy.optimize.leastsq": [("scipy.optimize.leastsq(lambda x: x - a[0], 0.1)[0]", X)],
    "scipy.optimize.fixed_point": [("scipy.optimize.fixed_point(lambda x: np.cos(a[0] * x), 0.5)", X)],
    **_objects("scipy.optimize.brent scipy.optimize.golden", "NAME(lambda x: (x - a[0])**2, brack=(0.0, 1.0))", X),
    "scipy.optimize.fminbound": [("scipy.optimize.fminbound(lambda x: (x - a[0])**2, 0.0, 1.0)", X)],
    **_calls(
        "scipy.stats",
        binned_statistic_2d=("scipy.stats.binned_statistic_2d(np.arange(40), np.arange(40), a[0])[0][0, 0]", LONG),
        binned_statistic_dd=("scipy.stats.binned_statistic_dd(np.eye(3), a[0], bins=2).statistic[0, 0, 1]", V),
        dunnett=("scipy.stats.dunnett(a[0], control=a[1]).statistic", LONG[:10], LONG[10:20]),
        weightedtau=([1, 2, 3, 4], [2, 1, 4, 3]),
        exp=("scipy.stats.exp(scipy.stats.Normal(mu=a[0])).mean()", X),
        log=("scipy.stats.log(scipy.stats.Uniform(a=a[0], b=2.0)).mean()", X),
        abs=("scipy.stats.abs(scipy.stats.Normal(mu=a[0])).cdf(1.0)", X),
        truncate=("scipy.stats.truncate(scipy.stats.Normal(mu=a[0]), 0.0, 1.0).pdf(0.5)", X),
        Mixture=("scipy.stats.Mixture([scipy.stats.Normal(mu=a[0]), scipy.stats.Normal()]).pdf(0.5)", X),
        fit=("scipy.stats.fit(scipy.stats.norm, a[0], [(-5, 5), (0.01, 5)]).params.loc", LONG),
        cramervonmises=("scipy.stats.cramervonmises(a[0], 'norm').statistic", LONG),
        vonmises_fisher=("scipy.stats.vonmises_fisher([1.0, 0, 0], a[0]).logpdf([0, 0.6, 0.8])", X),
        goodness_of_fit=(
            "scipy.stats.goodness_of_fit(scipy.stats.norm, a[0], known_params={'loc': 0, 'scale': 1}, n_mc_samples=9, "
            "rng=1).statistic",
            LONG,
        ),
        monte_carlo_test=(
            "scipy.stats.monte_carlo_test(a[0], lambda size: np.ones(size), np.mean, n_resamples=9).statistic",
            LONG,
        ),
    ),
    **_calls(
        "scipy.interpolate",
        LSQUnivariateSpline=("scipy.interpolate.LSQUnivariateSpline(np.arange(40), a[0], [20])(a[1])", LONG, 5 + V),
        LSQBivariateSpline=(
            "scipy.interpolate.LSQBivariateSpline(np.repeat(np.arange(8.0), 8), np.tile(np.arange(8.0), 8), "
            "a[0].ravel(), [3.0], [3.0]).ev(2.0, 3.0)",
            TABLE,
        ),
        NdBSpline=("scipy.interpolate.NdBSpline((np.arange(9.0),), a[0], 3)(a[1])", LONG[:5], 4 + V[:, None]),
        splder=("scipy.interpolate.splder((np.arange(9.0), a[0], 3))[1]", LONG[:5]),
        splantider=("scipy.interpolate.splantider((np.arange(9.0), a[0], 3))[1]", LONG[:9]),
        splint=("scipy.interpolate.splint(0.0, a[1], scipy.interpolate.splrep(np.arange(8.0), a[0]))", LONG[:8], X),
        sproot=("scipy.interpolate.sproot(scipy.interpolate.splrep(np.arange(8.0), a[0] - 0.5))", LONG[:8]),
        spalde=("scipy.interpolate.spalde(a[1], scipy.interpolate.splrep(np.arange(8.0), a[0]))", LONG[:8], X),
        insert=("scipy.interpolate.insert(a[1], scipy.interpolate.splrep(np.arange(8.0), a[0]))[1]", LONG[:8], X),
        bisplrep=(
            "scipy.interpolate.bisplrep(np.repeat(np.arange(8.0), 8), np.tile(np.arange(8.0), 8), a[0].ravel())[2]",
            TABLE,
        ),
        bisplev=(
            "scipy.interpolate.bisplev(a[1], 2.0, scipy.interpolate.bisplrep(np.repeat(np.arange(8.0), 8), "
            "np.tile(np.arange(8.0), 8), a[0].ravel()))",
            TABLE,
            X,
        ),
    ),
    "numpy.ndarray.to_device": [("a[0].to_device('cpu')", V)],
    "numpy.ndarray.__delitem__": [("operator.delitem([a[0], a[0]], 0)", V)],
    "scipy.sparse.linalg.funm_multiply_krylov": [
        ("scipy.sparse.linalg.funm_multiply_krylov(scipy.linalg.expm, np.eye(3), a[0])", V)
    ],
    "scipy.spatial.transform.Rotation.as_davenport": [
        ("scipy.spatial.transform.Rotation.from_rotvec(a[0]).as_davenport(np.eye(3), 'e')", SPIN)
    ],
}

# What is not called, by its name or that of its class.
NOT_CALLED: dict[str, str] = {
    "PytestTester": "runs tests",
    "numpy.empty": "gives what stands in memory",
    "numpy.empty_like": "gives what stands in memory",
}
