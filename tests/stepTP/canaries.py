"""Wrong programs by which public evaluators of generated kernels have been fooled, each with a correct twin.

Every canary is a program that is run. `wrong` must be refused on every target, `twin` accepted; `source` is the plain
program that both say they are. What LEIR cannot say (a function that edits its input, keeps its output, wins a race by
chance) is in `tests/stepTP/spoiled.py`. Nothing here needs pytest: `scripts/gpu_check.py --canaries` runs it on a GPU.
"""

from dataclasses import dataclass

import numpy as np

from leir.parser import parse
from stepTP.verify.inputs import Draw, draw_inputs, free_profile


@dataclass(frozen=True, slots=True)
class Canary:
    """`hole`: what an evaluator gets wrong that lets `wrong` pass."""

    name: str
    hole: str
    source: str
    wrong: str
    twin: str


SOFTMAX = (
    "in A_{16,32};out C_{16,32};L^{16,32}_{i,j}[D_i max=A_{i,j};]L^{16,32}_{i,j}[E_i+=exp(A_{i,j}-D_i);]"
    "L^{16,32}_{i,j}[C_{i,j}=exp(A_{i,j}-D_i)/E_i;]"
)
MATMUL = (
    "in A_{16,24},D_{24,16},E_{16};out C_{16,16};L^{16,16,24}_{i,j,k}[F_{i,j}+=A_{i,k}*D_{k,j};]"
    "L^{16,16}_{i,j}[C_{i,j}=F_{i,j}+E_j;]"
)
NORM = (
    "in A_{8,64};out C_{8,64};L^{8,64}_{i,j}[D_i+=A_{i,j};]L^{8,64}_{i,j}[E_i+=(A_{i,j}-D_i/64.0)**2.0;]"
    "L^{8,64}_{i,j}[C_{i,j}=(A_{i,j}-D_i/64.0)/sqrt(E_i/64.0+1e-05);]"
)
RELU = "in A_{8,40};out C_{8,40};L^{8,40}_{i,j}[C_{i,j}=max(A_{i,j},0.0);]"
POOL = "in A_{8,40};out C_8;L^{8,40}_{i,j}[C_i max=A_{i,j};]"
TRANSPOSE = "in A_{12,12};out C_{12,12};L^{12,12}_{i,j}[C_{i,j}=A_{j,i};]"

POOLED_SUM = "in A_{8,40};out C_8;L^{8,40}_{i,j}[C_i+=A_{i,j};]"
SCAN = "in A_{40,8};out C_{40,8};L^8_j[C_{0,j}=A_{0,j};]L^{39,8}_{i=1,j}[C_{i,j}=C_{i-1,j}*0.5+A_{i,j};]"
STAGED_PLAIN = "in A_{64,64};out C_{64,64};L^{64,64}_{i,j}[C_{i,j}=A_{i,j}*2.0;]"

# name: (source, wrong program, correct twin)
WRONG = {
    "zero output": (SOFTMAX, "in A_{16,32};out C_{16,32};L^{16,32}_{i,j}[C_{i,j}=0.0;]", SOFTMAX),
    "constant output": (SOFTMAX, "in A_{16,32};out C_{16,32};L^{16,32}_{i,j}[C_{i,j}=0.03125;]", SOFTMAX),
    "the input as output": (RELU, "in A_{8,40};out C_{8,40};L^{8,40}_{i,j}[C_{i,j}=A_{i,j};]", RELU),
    "output not written": (RELU, "in A_{8,40};out C_{8,40};L^{8,39}_{i,j}[C_{i,j}=max(A_{i,j},0.0);]", RELU),
    "output not written at all": (RELU, "in A_{8,40};out C_{8,40};L^{8,40}_{i,j}[D_{i,j}=max(A_{i,j},0.0);]", RELU),
    "last iteration dropped": (
        MATMUL,
        MATMUL.replace("16,16,24}_{i,j,k}", "16,16,23}_{i,j,k}"),
        MATMUL.replace("L^{16,16,24}_{i,j,k}", "L^{24,16,16}_{k,i,j}"),
    ),
    "first iteration dropped": (
        NORM,
        NORM.replace("L^{8,64}_{i,j}[E_i", "L^{8,63}_{i,j=1}[E_i"),
        NORM.replace("L^{8,64}_{i,j}[E_i", "L^{64,8}_{j,i}[E_i"),
    ),
    "one iteration of a maximum dropped": (
        POOL,
        POOL.replace("8,40}_{i,j}", "8,39}_{i,j}"),
        POOL.replace("L^{8,40}_{i,j}", "L^{40,8}_{j,i}"),
    ),
    "an iteration counted twice": (
        MATMUL,
        MATMUL.replace("L^{16,16}_{i,j}[C", "L^{16,16}_{i,j}[F_{i,j}+=A_{i,0}*D_{0,j};]L^{16,16}_{i,j}[C"),
        MATMUL,
    ),
    "first iteration of a maximum dropped": (
        POOL, POOL.replace("8,40}_{i,j}", "8,39}_{i,j=1}"), POOL.replace("L^{8,40}_{i,j}", "L^{40,8}_{j,i}")
    ),
    "swapped axes of the output": (
        MATMUL, MATMUL.replace("C_{i,j}=F_{i,j}+E_j", "C_{j,i}=F_{i,j}+E_j"), MATMUL
    ),
    "swapped axes of an operand": (MATMUL, MATMUL.replace("+E_j", "+E_i"), MATMUL),
    "not transposed": (
        TRANSPOSE, TRANSPOSE.replace("A_{j,i}", "A_{i,j}"), TRANSPOSE.replace("L^{12,12}_{i,j}", "L^{12,12}_{j,i}")
    ),
    "relative error of 1e-3": (
        SOFTMAX, SOFTMAX.replace("/E_i;", "/E_i*1.001;"), SOFTMAX.replace("/E_i;", "*(1.0/E_i);")
    ),
    "relative error of 1e-3 in one row": (
        MATMUL, MATMUL.replace("=F_{i,j}+E_j", "=(F_{i,j}+E_j)*if_then_else(i==7,1.001,1.0)"), MATMUL
    ),
    "absolute error below 1e-5 in small values": (
        SOFTMAX, SOFTMAX.replace("/E_i;", "/E_i+5e-06;"), SOFTMAX
    ),
    "computed in f16": (
        MATMUL,
        MATMUL.replace("A_{i,k}*D_{k,j}", "cast(f16,A_{i,k})*cast(f16,D_{k,j})"),
        MATMUL.replace("A_{i,k}*D_{k,j}", "cast(f64,A_{i,k})*D_{k,j}"),
    ),
    "sum kept in bf16": (
        MATMUL,
        "in A_{16,24},D_{24,16},E_{16};out C_{16,16};F^{bf16,g}_{16,16};L^{16,16,24}_{i,j,k}[F_{i,j}+=A_{i,k}*D_{k,j};]"
        "L^{16,16}_{i,j}[C_{i,j}=F_{i,j}+E_j;]",
        MATMUL,
    ),
    "sum started at one": (
        MATMUL, MATMUL.replace("L^{16,16,24}", "L^{16,16}_{i,j}[F_{i,j}=1.0;]L^{16,16,24}"),
        MATMUL.replace("L^{16,16,24}", "L^{16,16}_{i,j}[F_{i,j}=0.0;]L^{16,16,24}"),
    ),
    "maximum started at zero": (
        POOL, POOL.replace("L^{8,40}", "L^8_i[C_i=0.0;]L^{8,40}"), POOL.replace("L^{8,40}", "L^8_i[C_i=-inf;]L^{8,40}")
    ),
    "sum never started": (
        MATMUL,
        MATMUL.replace("F_{i,j}+=A_{i,k}*D_{k,j}", "F_{i,j}=if_then_else(k<0,0.0,F_{i,j})+A_{i,k}*D_{k,j}"),
        MATMUL.replace("F_{i,j}+=A_{i,k}*D_{k,j}", "F_{i,j}=if_then_else(k==0,0.0,F_{i,j})+A_{i,k}*D_{k,j}"),
    ),
    "a register that is not reset": (
        MATMUL,
        "in A_{16,24},D_{24,16},E_{16};out C_{16,16};L^{16,16}_{i,j}[R^{f32,l};L^{24}_k[R=if_then_else(k<0,0.0,R)"
        "+A_{i,k}*D_{k,j};]C_{i,j}=R+E_j;]",
        "in A_{16,24},D_{24,16},E_{16};out C_{16,16};L^{16,16}_{i,j}[R^{f32,l};L^{24}_k[R+=A_{i,k}*D_{k,j};]"
        "C_{i,j}=R+E_j;]",
    ),
    "NaN that a maximum swallows": (
        POOL,
        POOL.replace("L^{8,40}_{i,j}[C_i max=A_{i,j};]", "L^{8,40}_{i,j}[C_i=max(A_{i,j},C_i*1.0);]"),
        POOL,
    ),
    "NaN where the reference has a number": (
        RELU, RELU.replace("max(A_{i,j},0.0)", "sqrt(A_{i,j})*sqrt(A_{i,j})"),
        RELU.replace("max(A_{i,j},0.0)", "(A_{i,j}+abs(A_{i,j}))*0.5"),
    ),
    "softmax without its maximum": (
        SOFTMAX,
        SOFTMAX.replace("A_{i,j}-D_i", "A_{i,j}"),
        SOFTMAX.replace("exp(A_{i,j}-D_i)/E_i", "exp(A_{i,j}-D_i-log(E_i))"),
    ),
    "a maximum over two elements of a row": (
        SOFTMAX,
        SOFTMAX.replace("L^{16,32}_{i,j}[D_i", "L^{16,2}_{i,j}[D_i"),
        SOFTMAX.replace("L^{16,32}_{i,j}[D_i", "L^{32,16}_{j,i}[D_i"),
    ),
    "variance of the wrong mean": (NORM, NORM.replace("[E_i+=(A_{i,j}-D_i/64.0)", "[E_i+=(A_{i,j}-D_i/63.0)"), NORM),
    "epsilon of the wrong size": (NORM, NORM.replace("1e-05", "1e-03"), NORM),
    "leaky instead of plain": (RELU, RELU.replace(",0.0)", ",A_{i,j}*1e-06)"), RELU),
}  # fmt: skip

TILED = "in A_{100};out C_{100};L^{100}_i[C_i=A_i*A_i+A_i;]"
LONG = "in A_{4,700};out C_{4,700};" + SOFTMAX.split(";", 2)[2].replace("16,32", "4,700")
FLASH = (
    "in A_{8,4},D_{12,4},E_{12,4};out C_{8,4};L^{8,12,4}_{i,j,k}[F_{i,j}+=A_{i,k}*D_{j,k};]"
    "L^{8,12}_{i,j}[G_i max=F_{i,j};]L^{8,12}_{i,j}[H_i+=exp(F_{i,j}-G_i);]"
    "L^{8,12}_{i,j}[I_{i,j}=exp(F_{i,j}-G_i)/H_i;]L^{8,4,12}_{i,j,k}[C_{i,j}+=I_{i,k}*E_{k,j};]"
)
ONE_PASS = (
    "in A_{8,4},D_{12,4},E_{12,4};out C_{8,4};L^8_i[M^{f32,l};S^{f32,l};O^{f32,l}_4;M=-inf;S=0.0;L^4_k[O_k=0.0;]"
    "L^{12}_j[F^{f32,l};N^{f32,l};R^{f32,l};L^4_k[F+=A_{i,k}*D_{j,k};]N=max(M,F);R=if_then_else(M==N,1.0,exp(M-N));"
    "S=S*R+exp(F-N);L^4_k[O_k=O_k*R+exp(F-N)*E_{j,k};]M=N;]L^4_k[C_{i,k}=O_k/S;]]"
)
INT = "in A^{i32}_{12,9};out C^{i32}_{12};L^{12,9}_{i,j}[C_i+=A_{i,j}*(j+1);]"
BOOL = "in A_{12,9};out C^{bool}_{12,9};L^{12,9}_{i,j}[C_{i,j}=A_{i,j}>0.5;]"
DOUBLE = "in A^{f64}_{12,9};out C^{f64}_{12};L^{12,9}_{i,j}[C_i+=exp(A_{i,j});]"
MASKED = "in A_{6,8},D^{bool}_{6,8};out C_{6,8};L^{6,8}_{i,j}[C_{i,j}=if_then_else(D_{i,j},A_{i,j}*2.0,-inf);]"
STAGED = (
    "in A_{64,64};out C_{64,64};B^{64}_{bx}[S^{f32,s}_{SIZE};B^{64}_{tx}[S_{INDEX}=A_{bx,tx};]"
    "B^{64}_{tx}[C_{bx,tx}=S_{INDEX}*2.0;]]"
)


def _table() -> str:
    """A program that knows the outputs of the draw `normal/0` of seed 0, and is wrong on all others."""
    (declaration,) = parse(TABLE).inputs
    drawn = draw_inputs([free_profile(declaration)], Draw("normal", 0), 0, "canary")["A"]
    known = "0.0"
    for place, value in enumerate(np.maximum(drawn, 0)):
        known = f"if_then_else(i=={place},{float(value)!r},{known})"
    return f"in A_6;out C_6;L^6_i[C_i=if_then_else(A_0=={float(drawn[0])!r},{known},A_i);]"


TABLE = "in A_6;out C_6;L^6_i[C_i=max(A_i,0.0);]"

# name: (hole, source, wrong program, correct twin)
MORE = {
    "a table of the default seed's outputs": ("one fixed seed", TABLE, _table(), TABLE),
    "right for the first 16 elements only": (
        "tiny shapes only",
        TILED, TILED.replace("=A_i*A_i+A_i", "=if_then_else(i<16,A_i*A_i+A_i,A_i*A_i)"), TILED
    ),
    "last tile wrong": (
        "tiny shapes only",
        TILED,
        "in A_{100};out C_{100};L^{7,16}_{i,j}(i*16+j<100)[C_{i*16+j}=A_{i*16+j}*A_{i*16+j}+A_{i*16};]",
        "in A_{100};out C_{100};L^{7,16}_{i,j}(i*16+j<100)[C_{i*16+j}=A_{i*16+j}*A_{i*16+j}+A_{i*16+j};]",
    ),
    "last tile not written": (
        "tiny shapes only",
        TILED,
        "in A_{100};out C_{100};L^{6,16}_{i,j}[C_{i*16+j}=A_{i*16+j}*A_{i*16+j}+A_{i*16+j};]",
        "in A_{100};out C_{100};L^{6,16}_{i,j}[C_{i*16+j}=A_{i*16+j}*A_{i*16+j}+A_{i*16+j};]"
        "L^4_j[C_{j+96}=A_{j+96}*A_{j+96}+A_{j+96};]",
    ),
    "beyond a row's first 512 elements": (
        "tiny shapes only", LONG, LONG.replace("L^{4,700}_{i,j}[E_i", "L^{4,512}_{i,j}[E_i"), LONG
    ),
    "one element of many wrong": (
        "one of several tests is enough", MATMUL, MATMUL.replace("+E_j", "+E_j*if_then_else(i*16+j==201,0.99,1.0)"),
        MATMUL,
    ),
    "all elements off by the same factor": (
        "one of several tests is enough", MATMUL, MATMUL.replace("=F_{i,j}+E_j", "=(F_{i,j}+E_j)*1.01"), MATMUL
    ),
    "a large value hides small ones": (
        "absolute or norm-wise tolerance",
        NORM, NORM.replace("/sqrt", "*if_then_else(abs(A_{i,j}-D_i/64.0)<0.01,1.05,1.0)/sqrt"), NORM,
    ),
    "the input is edited": (
        "inputs may be edited",
        RELU, "in A_{8,40};out C_{8,40};L^{8,40}_{i,j}[C_{i,j}=max(A_{i,j},0.0);]L^{8,40}_{i,j}[A_{i,j}=0.0;]", RELU,
    ),
    "a parallel sum": (
        "races that are won sometimes",
        POOLED_SUM, POOLED_SUM.replace("L^{8,40}_{i,j}[C", "L^8_iP^{40}_j[C"),
        POOLED_SUM.replace("L^{8,40}_{i,j}[C", "P^8_iL^{40}_j[C"),
    ),
    "threads that add to one element": (
        "races that are won sometimes",
        POOLED_SUM, "in A_{8,40};out C_8;B^8_{bx}B^{40}_{tx}[C_{bx}+=A_{bx,tx};]",
        "in A_{8,40};out C_8;B^8_{tx}L^{40}_j[C_{tx}+=A_{tx,j};]",
    ),
    "a scan whose steps run in parallel": (
        "races that are won sometimes",
        SCAN, SCAN.replace("L^{39,8}_{i=1,j}", "P^{39}_{i=1}L^8_j"),
        SCAN.replace("L^{39,8}_{i=1,j}", "L^{39}_{i=1}P^8_j"),
    ),
    "more shared memory than a block has": (
        "over-limit shared memory",
        STAGED_PLAIN, STAGED.replace("SIZE", "64,256").replace("INDEX", "tx,255"),
        STAGED.replace("SIZE", "64").replace("INDEX", "tx"),
    ),
    "more threads than a block has": (
        "over-limit shared memory",
        TILED.replace("100", "2048"), "in A_{2048};out C_{2048};B^{2048}_{tx}[C_{tx}=A_{tx}*A_{tx}+A_{tx};]",
        "in A_{2048};out C_{2048};B^{2}_{bx}B^{1024}_{tx}[C_{bx*1024+tx}=A_{bx*1024+tx}*A_{bx*1024+tx}"
        "+A_{bx*1024+tx};]",
    ),
    "a softmax whose maximum starts at zero": (
        "too few kinds of inputs",
        SOFTMAX, SOFTMAX.replace("L^{16,32}_{i,j}[D_i", "L^{16}_i[D_i=0.0;]L^{16,32}_{i,j}[D_i"),
        SOFTMAX.replace("L^{16,32}_{i,j}[D_i", "L^{16}_i[D_i=-inf;]L^{16,32}_{i,j}[D_i"),
    ),
    "one pass without rescaling": (
        "too few kinds of inputs", FLASH, ONE_PASS.replace("O_k=O_k*R+", "O_k=O_k+"), ONE_PASS
    ),
    "one pass whose maximum starts at zero": (
        "too few kinds of inputs", FLASH, ONE_PASS.replace("M=-inf", "M=100.0"), ONE_PASS
    ),
    "an integer off by one in one row": (
        "integers under a float tolerance", INT, INT.replace("A_{i,j}*(j+1)", "A_{i,j}*(j+1)+(i==7&&j==0)"), INT
    ),
    "a boolean turned at the threshold": (
        "integers under a float tolerance", BOOL, BOOL.replace(">0.5", ">=0.5"),
        BOOL.replace("A_{i,j}>0.5", "0.5<A_{i,j}"),
    ),
    "f64 computed in f32": (
        "too loose a tolerance", DOUBLE, DOUBLE.replace("exp(A_{i,j})", "cast(f64,exp(cast(f32,A_{i,j})))"),
        DOUBLE.replace("L^{12,9}_{i,j}", "L^{9,12}_{j,i}"),
    ),
    "a large number for minus infinity": (
        "NaN and infinities equal to anything",
        MASKED, MASKED.replace("-inf", "-1e+30"), MASKED.replace("A_{i,j}*2.0", "A_{i,j}+A_{i,j}"),
    ),
}  # fmt: skip

HOLES = {
    "zero or constant outputs under an absolute tolerance": ("zero output", "constant output", "the input as output",
        "absolute error below 1e-5 in small values"),
    "outputs left from before, memory that is reused": ("output not written", "output not written at all",
        "sum never started", "a register that is not reset", "NaN that a maximum swallows"),
    "too loose a tolerance": ("relative error of 1e-3", "relative error of 1e-3 in one row", "computed in f16",
        "sum kept in bf16", "epsilon of the wrong size", "variance of the wrong mean", "leaky instead of plain"),
    "one iteration more or less": ("last iteration dropped", "first iteration dropped",
        "one iteration of a maximum dropped", "an iteration counted twice", "first iteration of a maximum dropped",
        "sum started at one"),
    "swapped axes": ("swapped axes of the output", "swapped axes of an operand", "not transposed"),
    "NaN and infinities equal to anything": ("NaN where the reference has a number",),
    "too few kinds of inputs": ("maximum started at zero", "softmax without its maximum",
        "a maximum over two elements of a row"),
}  # fmt: skip

_HOLE_OF = {name: hole for hole, names in HOLES.items() for name in names}
CANARIES = (
    *(Canary(name, _HOLE_OF[name], *texts) for name, texts in WRONG.items()),
    *(Canary(name, *texts) for name, texts in MORE.items()),
)
