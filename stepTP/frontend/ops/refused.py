"""Ops that LEIR cannot say, each with the fact that is in the way."""

from functools import partial
from typing import Any

from stepTP.frontend.emitter import Emitter
from stepTP.frontend.table import emits

REASONS = {
    "LEIR has no inverse trigonometric functions": ("asin", "acos", "atan", "atan2"),
    "LEIR has erf alone, and 1 - erf(x) loses the digits of a small erfc(x)": ("erfc", "special_erfc", "special_erfcx"),
    "LEIR has no such function, and none of its own give it": (
        "erfinv", "lgamma", "digamma", "polygamma", "i0", "special_i0", "special_i0e", "special_i1", "special_zeta",
        "special_ndtri", "igamma", "igammac", "mvlgamma",
    ),
    "LEIR does not tell -0.0 from 0.0": ("signbit", "copysign.Tensor"),
    "the order of its elements depends on data": (
        "sort", "sort.stable", "argsort", "argsort.stable", "msort", "median", "median.dim", "nanmedian",
        "nanmedian.dim", "mode", "kthvalue", "quantile", "quantile.scalar", "nanquantile", "nanquantile.scalar",
    ),
    "the shape of its result depends on data": (
        "nonzero", "_unique2", "unique_consecutive", "unique_dim", "masked_select", "bincount", "histc",
        "repeat_interleave.Tensor", "repeat_interleave.self_Tensor",
    ),
    "which of its elements go where depends on data": ("masked_scatter",),
    "it draws random numbers": (
        "rand", "rand_like", "randn", "randn_like", "randint", "randint.low", "randint_like", "randperm", "bernoulli",
        "bernoulli.p", "exponential", "normal_functional", "uniform", "multinomial", "poisson",
        "fractional_max_pool2d", "fractional_max_pool3d",
    ),
    "LEIR has no complex numbers": (
        "_fft_r2c", "_fft_c2c", "_fft_c2r", "view_as_complex", "view_as_real", "complex", "polar", "imag",
        "stft", "fft_fft", "fft_rfft", "fft_ifft", "fft_irfft", "fft_fft2", "fft_ifft2", "fft_rfft2", "fft_irfft2",
    ),
    "a factorisation chooses its pivots by data": (
        "linalg_inv_ex", "inverse", "_linalg_det", "det", "linalg_det", "linalg_lu", "linalg_qr", "_linalg_svd",
        "linalg_svd", "_linalg_eigh", "linalg_eigh", "linalg_cholesky_ex", "linalg_cholesky", "cholesky",
        "_linalg_solve_ex", "linalg_solve", "linalg_inv", "linalg_pinv", "linalg_slogdet", "_linalg_slogdet",
        "linalg_matrix_exp", "linalg_householder_product",
    ),
    "a Python number read from a tensor": ("item", "_local_scalar_dense"),
    "it rescales its weight in place by what is looked up": ("embedding_renorm",),
    "its windows are weighted by a filter that grows with the scale (antialias)": (
        "_upsample_bilinear2d_aa", "_upsample_bilinear2d_aa.vec", "_upsample_bicubic2d_aa",
        "_upsample_bicubic2d_aa.vec",
    ),
    "which alignments it sums over depends on data": ("_ctc_loss", "_ctc_loss.Tensor", "ctc_loss.Tensor"),
    "LEIR has no greatest common divisors": ("gcd", "lcm"),
    "bits of integers: LEIR has arithmetic and booleans": ("__lshift__.Tensor", "__rshift__.Tensor"),
    "PyTorch's decomposition of it counts targets after the first -1": (
        "multilabel_margin_loss", "multilabel_margin_loss_forward",
    ),
}  # fmt: skip


def _refuse(reason: str, e: Emitter, *arguments: Any, **options: Any) -> None:
    e.refuse(reason)


for _reason, _names in REASONS.items():
    emits(*_names)(partial(_refuse, _reason))
