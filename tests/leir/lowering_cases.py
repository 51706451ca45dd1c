"""Programs that exercise one clause of the language each, with inputs that bite, for every execution to agree on."""

import hashlib
from typing import Any

import numpy as np

from leir.arrays import array_type
from leir.interp.arithmetic import round_to
from leir.syntax import Program

SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.5, 1.5, np.inf, -np.inf, np.nan, 1e-40, 3e38, 0.1, -7.25, 65520.0]
WHOLE = [0, 1, -1, 2, -2, 3, -3, 5, -5, 7, -7, 100, -100, 127, -128, 12]

# No transcendental function: every execution gives the same bits.
EXACT: dict[str, str] = {
    "fold-nothing": "in A_{16};out C_{16},D_{16},E_{16},F_{16};L^{16}_i[C_i=A_i*0;D_i=A_i-A_i;E_i=0/A_i;"
    "F_i=(A_i+0.1)+0.2;]",
    "fold-nothing-2": "in A_{16};out C_{16},D_{16},E_{16};L^{16}_i[C_i=A_i/A_i;D_i=A_i+0.0-A_i*1;E_i=(A_i*3.0)/3.0;]",
    "negative-zero": "in A_{16};out C_{16},D_{16};L^{16}_i[C_i=1.0/(-A_i);D_i=1.0/abs(A_i);]",
    "nan-compares": "in A_{16};out C^{bool}_{16},D^{bool}_{16},E^{bool}_{16},F^{bool}_{16};"
    "L^{16}_i[C_i=A_i!=A_i;D_i=!(A_i<1.0);E_i=A_i==A_i;F_i=A_i>=A_i||A_i<0;]",
    "to-bool": "in A_{16},I^{i32}_{16};out C^{bool}_{16},D^{bool}_{16},E_{16};L^{16}_i[C_i=A_i;D_i=I_i;"
    "E_i=cast(bool,A_i)+1;]",
    "bool-arithmetic": "in A_{16};out C^{i32}_{16},D^{i32}_{16},E_{16};F^{bool,g}_{16};G^{bool,g}_{16};"
    "L^{16}_i[F_i=A_i>0;G_i=A_i<1;]L^{16}_i[C_i=F_i+G_i;D_i=max(F_i,G_i)*3;E_i=F_i*0.5-G_i;]",
    "promotion": "in I^{i8}_{16},J^{i32}_{16},M^{i64}_{16},H^{f16}_{16},G^{bf16}_{16},E^{f64}_{16};"
    "out C^{i32}_{16},D^{i64}_{16},F_{16},K_{16},N^{f64}_{16},O^{f64}_{16};"
    "L^{16}_i[C_i=I_i+J_i;D_i=J_i*M_i+i;F_i=H_i+G_i;K_i=M_i+H_i;N_i=E_i+H_i;O_i=E_i*J_i;]",
    "integer-division": "in J^{i32}_{16},M^{i64}_{16};out C_{16},D^{f64}_{16},E_{16};"
    "L^{16}_i[C_i=J_i/3;D_i=J_i/cast(f64,7);E_i=M_i/J_3+i/4;]",
    "weak-literals": "in A_{16},E^{f64}_{16},I^{i32}_{16};out C_{16},D^{f64}_{16},F_{16},G^{i32}_{16};"
    "L^{16}_i[C_i=A_i*(1/3)+0.1;D_i=E_i*(1/3)+0.1;F_i=I_i*0.1+i*0.1;G_i=I_i*(2*3-5)+(7//2)-(-7%4);]",
    "weak-alone": "in A_{16};out C_{16},D^{i32}_{16},E^{f16}_{16},F^{bf16}_{16};L^{16}_i[C_i=1/3;D_i=7//2;"
    "E_i=0.1;F_i=0.1;]",
    "constants-of-f64": "in E^{f64}_{16};out C^{f64}_{16},D^{f64}_{16};"
    "L^{16}_i[C_i=E_i*0.3333333333333333+1e-20;D_i=E_i*2.5e-300-1e300;]",
    "floor-division": "in J^{i32}_{16},I^{i8}_{16};"
    "out C^{i32}_{16},D^{i32}_{16},E^{i32}_{16},F^{i32}_{16},G^{i32}_{16};"
    "L^{16}_i[C_i=J_i//3;D_i=J_i%3;E_i=J_i//(-4);F_i=J_i%(-4);G_i=I_i//8+cast(i32,I_i%8)*1000;]",
    "floor-division-of-i64": "in M^{i64}_{16};out C^{i64}_{16},D^{i64}_{16},E^{i64}_{16};"
    "L^{16}_i[C_i=M_i//3+i//5;D_i=M_i%1000-i%5;E_i=(i-9)//4*10+(i-9)%4;]",
    "variable-divisor": "in J^{i32}_{16},Y^{i32}_{16};out C^{i32}_{16},D^{i32}_{16};"
    "L^{16}_i[C_i=J_i//max(Y_i,1);D_i=J_i%min(Y_i,-1);]",
    "nested-division": "in J^{i32}_{16},M^{i64}_{16};out C^{i32}_{16},D^{i64}_{16};"
    "L^{16}_i[C_i=((J_i//3-2)//5%(-3)-1)//(J_i%2*2+1);D_i=abs(((M_i-7)//9-i)//4%1000-3)-abs(i-9);]",
    "lazy-select": "in A_{16},Y^{i32}_{16};out C_{16},D^{i32}_{16};"
    "L^{16}_i[C_i=if_then_else(i>0,A_{max(i-1,0)},0.0);D_i=if_then_else(Y_i!=0,100//if_then_else(Y_i!=0,Y_i,1),-1);]",
    "terms-that-cancel": "in A_{16};out C_{16,4},D_{16};L^{16,4}_{i,j}[C_{i,j}=if_then_else(j+i-i>=4,A_i,1.0);]"
    "L^{16}_i[D_i=if_then_else((i%3-i%3+i)*2<0||i-i>6,A_i,2.0);(i-i<0)[D_i=A_i;](i%16<i)[D_i=A_i;]]",
    "lazy-and": "in A_{16},I^{i64}_{16};out C_{16},D_{16};L^{16}_i[C_i=2.0;"
    "D_i=if_then_else(I_i<0||I_i>=16,-1.0,A_{I_i});"
    "(I_i>=0&&I_i<16&&A_{I_i}>0.0)[C_i=A_{I_i};]]",
    "select-of-types": "in A_{16},I^{i32}_{16};out C_{16},D^{i64}_{16},E_{16};"
    "L^{16}_i[C_i=if_then_else(A_i>0,I_i,A_i);D_i=if_then_else(I_i>0,i,I_i);E_i=if_then_else(1<2,A_i,0);]",
    "float-to-integer": "in A_{16};out C^{i32}_{16},D^{i64}_{16},E^{i8}_{16};"
    "L^{16}_i[C_i=max(min(if_then_else(A_i==A_i,A_i,0.0),1e6),-1e6)+0.7;"
    "D_i=cast(i64,if_then_else(abs(A_i)<100,A_i,3.9));"
    "E_i=if_then_else(abs(A_i)<100,A_i,-3.9);]",
    "narrow-floats": "in A_{16},E^{f64}_{16};"
    "out H^{f16}_{16},G^{bf16}_{16},C_{16},D^{f64}_{16},F^{bf16}_{16},I^{f16}_{16};"
    "L^{16}_i[H_i=A_i;G_i=A_i;C_i=cast(f16,A_i)+cast(bf16,A_i);D_i=cast(bf16,E_i)*0.1;F_i=E_i;I_i=E_i+E_i;]",
    "narrow-copies": "in H^{f16}_{16},G^{bf16}_{16};out C^{f16}_{16},D^{bf16}_{16},E^{f16}_{16},F_{16};"
    "L^{16}_i[C_i=H_i;D_i=G_i;E_i=H_i*3+G_i;F_i=G_i/H_3;]",
    "rounding": "in A_{16},I^{i32}_{16};out C_{16},D_{16},E_{16},F_{16},G^{i32}_{16};"
    "L^{16}_i[C_i=round(A_i);D_i=floor(A_i);E_i=sqrt(abs(A_i));F_i=floor(I_i)+sqrt(I_i*I_i);G_i=abs(I_i)-abs(i-7);]",
    "extrema": "in A_{16},I^{i32}_{16};out C_{16},D_{16},E^{i64}_{16};"
    "L^{16}_i[C_i=0;(A_i==A_i)[C_i=max(A_i,-inf)+min(A_i,0.5);](A_i!=A_i)[C_i=7;]]"
    "L^{16}_i[D_i=max(I_i,0.5);E_i=min(i,I_i);]",
    "wide-indices": "in A_{16};out C_{16},D^{i64}_{16};"
    "L^{16}_i[C_i=A_{i*1000000*1000000//1000000000000};D_i=i*3000000000+i*i;]",
    "gather-scatter": "in A_{16},Q^{i32}_{16},N^{i64}_{16};out C_{16},D_{16};"
    "L^{16}_i[C_i=A_{min(max(Q_i,0),15)}+A_{min(max(N_i,0),15)};]L^{16}_i[D_i=0;]L^{16}_i[D_{N_i%16}=A_i;]",
    "first-values": "in A_{16};out C_{16};L^{15}_{i=1}[C_i=A_{i-1}*i;]L^1_{i=0}[C_i=A_{15};]",
    "rank-0": "in A;out C,D^{i32};D=3;C=A*2;E+=C;C=E+D;",
    "guards": "in A_{16};out C_{16};L^{16}_i[C_i=1;(i%2==0&&i>3)[C_i=A_i;(i==8)[C_i=-1;]](!(i<14)||i==1)[C_i=C_i+1;]]",
    "recurrence": "in I^{i32}_{16};out C^{i32}_{16},D_{16};C_0=I_0;L^{15}_{i=1}[C_i=C_{i-1}+I_i;]"
    "L^{16}_i[D_i=C_i*0.5;]",
    "fills": "in I^{i32}_{16},K^{i64}_{16};out C,D^{i32},E^{i64},F^{i32},G_{4},H;"
    "L^{16}_i[C+=I_i;D max=I_i;E min=K_i;F*=if_then_else(I_i>99||I_i< -99,1,I_i);H min=I_i*1.0;]"
    "L^{4,4}_{i,j}[G_i max=I_{i*4+j};]",
    "fill-of-i8": "in Z^{i8}_{16};out C^{i8},D^{i8};L^{16}_i[C max=Z_i;D min=Z_i;]",
    "fill-too-wide": "in I^{i32}_{16};out C_{4,4};D^{f32,g}_{6,6};L^{2,2}_{i,j}(i<=j)[D_{i+1,j*2}+=I_{i*4+j};]"
    "L^{4,4}_{i,j}[D_{i,j}+=1.0;]L^{4,4}_{i,j}[C_{i,j}=D_{i,j};]",
    "fill-read-before": "in I^{i32}_{16};out C_{16},E_{16};L^{16}_i[C_i=E_i*0+D;D+=I_i;E_i+=I_i;]",
    "fill-outer-reduction": "in I^{i32}_{16};out C_{4};L^{4,4}_{k,i}[C_i+=I_{k*4+i};]",
    "fill-stays-above-a-reader": "in I^{i32}_{16};out C_{4},D_{4};L^4_i[L^4_j[C_i+=I_{i*4+j};]D_i=C_{(i+3)%4}*0+C_i;]",
    "fill-by-tiles": "in I^{i32}_{16};out C_{4};L^{2,2}_{a,b}L^4_k[C_{a*2+b}+=I_{(a*2+b)*4+k};]",
    "fill-with-other-operator": "in I^{i32}_{16};out C;L^{16}_i[C+=I_i;]L^3_j[C*=2;]C max=5;",
    "lifetimes": "in I^{i32}_{16};out C_{4};L^4_i[D^{f32,l};E^{i32,l}_4;L^4_j[D+=I_{i*4+j};E_j=I_j;]C_i=D+E_3;]",
    "lifetimes-in-parallel": "in I^{i32}_{16};out C_{4};P^4_i[D^{f32,l}_2;L^4_j[D_{j%2}+=I_{i*4+j};]C_i=D_0-D_1;]",
    "parallel": "in A_{16};out C_{4,4};P^{4,4}_{i,j=1}[C_{i,j-1}=A_{i*4+j-1};]",
    "vector-and-unroll": "in A_{16};out C_{16};L^4_iV^4_e[C_{i*4+e}=A_{i*4+e}+A_0;]U^4_iV^4_e[C_{i*4+e}*=A_{e*4+i};]",
    "blocks": "in A_{16};out C_{16};B^4_{bx}[S^{f32,s}_5;R^{f32,l}_{4,2};B^4_{tx}[S_{tx}=A_{bx*4+tx};R_{tx,0}=S_{tx};]"
    "B^4_{tx}[R_{tx,1}=S_{3-tx};C_{bx*4+tx}=R_{tx,0}+R_{tx,1};]]",
}  # fmt: skip

# Functions accurate to 4 ULP: executions agree within a tolerance.
APPROXIMATE: dict[str, str] = {
    "softmax": "in A_{4,16};out C_{4,16};L^{4,16}_{i,j}[D_i max=A_{i,j};]L^{4,16}_{i,j}[E_i+=exp(A_{i,j}-D_i);]"
    "L^{4,16}_{i,j}[C_{i,j}=exp(A_{i,j}-D_i)/E_i;]",
    "functions": "in A_{16};out C_{16},D_{16},E_{16},F_{16},G_{16};L^{16}_i[C_i=tanh(A_i)+erf(A_i);"
    "D_i=exp(A_i);E_i=expm1(A_i);"
    "F_i=log1p(abs(A_i))+log(abs(A_i)+1);G_i=sin(A_i)*cos(A_i);]",
    "functions-of-f64": "in E^{f64}_{16};out C^{f64}_{16},D^{f64}_{16};"
    "L^{16}_i[C_i=tanh(E_i)+erf(E_i)+expm1(-abs(E_i));D_i=log1p(abs(E_i))+sin(E_i);]",
    "functions-of-integers": "in I^{i32}_{16};out C_{16},D_{16};L^{16}_i[C_i=exp(I_i*0.01)+tanh(I_i);"
    "D_i=(abs(I_i)+1.0)**0.5+2.0**(i%4);]",
    "powers": "in A_{16};out C_{16},D_{16},E_{16};L^{16}_i[C_i=A_i**2;D_i=abs(A_i)**0.3;E_i=A_i**3-A_i** -1;]",
}  # fmt: skip


def inputs_of(program: Program) -> dict[str, np.ndarray[Any, Any]]:
    """Special values for floats, small and extreme ones for integers, then keyed random ones to fill the shape."""
    result: dict[str, np.ndarray[Any, Any]] = {}
    for declaration in program.inputs:
        key = hashlib.sha256(declaration.tensor.encode()).digest()
        draw = np.random.default_rng(int.from_bytes(key[:8], "little"))
        count = int(np.prod(declaration.shape))
        if declaration.dtype in ("i8", "i32", "i64"):
            values = np.array((WHOLE * (count // len(WHOLE) + 1))[:count]).reshape(declaration.shape)
        else:
            head = np.array(SPECIAL[:count])
            values = np.concatenate([head, draw.normal(size=count - len(head))]).reshape(declaration.shape)
        with np.errstate(over="ignore"):
            array = np.asarray(values).astype(array_type(declaration.dtype))
        result[declaration.tensor] = np.asarray(round_to("bf16", array)) if declaration.dtype == "bf16" else array
    return result
