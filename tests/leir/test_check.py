"""Every code of the checker: a program that it refuses, at the marked place, and a corrected twin that is clean.

`<<` and `>>` mark the span that the diagnostic must have.
"""

import ast
import time
from pathlib import Path

import pytest

import leir.check
from leir.check import CODES, IllFormed, Limits, check, check_source, require_well_formed
from leir.check.codes import table
from leir.check.names import check_names, check_ranks, check_tree, names_and_ranks_agree
from leir.parser import parse, parse_source
from leir.printer import to_text
from leir.syntax import (
    Access,
    Alloc,
    Binary,
    Call,
    Cast,
    Declaration,
    Equation,
    Expr,
    Guard,
    Integer,
    Loop,
    Place,
    Program,
    Stmt,
    Variable,
)
from tests.leir.garbage import garbage, mutated
from tests.programs import random_program

COPY = "in A_{8,8};out C_{8,8};"
BLOCK = "in A_{4,32};out C_{4,32};B^4_{bx}[S^{f32,s}_{32};"

ZEROS = ",".join("0" * 64)
ONES = ZEROS.replace("0", "1")
GATHER = "in A_8,I^{i64}_4,J^{i32}_4;out C_4;L^4_i"
MOST = "9223372036854775807"
# code, refused, corrected
CASES = [
    ("unknown-tensor", "in A_8;out C_8;L^8_i[C_i=A_i+<<Q_i>>;]", "in A_8,Q_8;out C_8;L^8_i[C_i=A_i+Q_i;]"),
    ("unknown-variable", "in A_8;out C_8;L^8_i[C_i=A_{<<j>>};]", "in A_8;out C_8;L^8_i[C_i=A_{i};]"),
    (
        "variable-out-of-loop",
        f"{COPY}L^8_i[L^8_j[C_{{i,j}}=A_{{i,j}};]D_i=A_{{i,<<j>>}};]",
        f"{COPY}L^8_i[L^8_j[C_{{i,j}}=A_{{i,j}};]D_i=A_{{i,0}};]",
    ),
    (
        "shadowed-variable",
        "in A_8;out C_8;L^8_i[L^8_{<<i>>}[C_i=A_i;]]",
        "in A_8;out C_8;L^8_i[C_i=A_i;]",
    ),
    ("input-written", "in A_8;out C_8;L^8_i[<<A_i>>=1.0;C_i=A_i;]", "in A_8;out C_8;L^8_i[D_i=1.0;C_i=A_i+D_i;]"),
    ("duplicate-name", "in A_8;out C_8,<<C_8>>;L^8_i[C_i=A_i;]", "in A_8;out C_8;L^8_i[C_i=A_i;]"),
    ("duplicate-name", "in A_8;out C_8;<<A^{f32,g}_8;>>L^8_i[C_i=A_i;]", "in A_8;out C_8;L^8_i[C_i=A_i;]"),
    ("axis-prefix-missing", "in A_8;out C_8;B^8_{<<i>>}[C_i=A_i;]", "in A_8;out C_8;B^8_{tx}[C_{tx}=A_{tx};]"),
    ("rank-mismatch", f"{COPY}L^8_i[D_i=<<A_i>>;]L^{{8,8}}_{{i,j}}[C_{{i,j}}=D_i;]",
     f"{COPY}L^8_i[D_i=A_{{i,i}};]L^{{8,8}}_{{i,j}}[C_{{i,j}}=D_i;]"),
    ("rank-mismatch", f"{COPY}L^{{8,8}}_{{i,j}}[D_i=1.0;C_{{i,j}}=<<D_{{i,j}}>>+A_{{i,j}};]",
     f"{COPY}L^{{8,8}}_{{i,j}}[D_i=1.0;C_{{i,j}}=D_i+A_{{i,j}};]"),
    ("tensor-too-large", "in <<A_{65536,32768}>>;out C_8;L^8_i[C_i=A_{i,i};]",
     "in A_{65536,32767};out C_8;L^8_i[C_i=A_{i,i};]"),
    ("tensor-too-large", "in A_8;out C_8;L^{65536,32768}_{i,j}[<<D_{i,j}>>=A_0;]L^8_i[C_i=D_{i,0};]",
     "in A_8;out C_8;L^{65536,16384}_{i,j}[D_{i,j}=A_0;]L^8_i[C_i=D_{i,0};]"),
    ("tensor-too-large", f"in A_8;out C_8;L^8_i[<<D_{{{ZEROS},0}}>>=A_i;C_i=D_{{{ZEROS},0}};]",
     f"in A_8;out C_8;L^8_i[D_{{{ZEROS}}}=A_i;C_i=D_{{{ZEROS}}};]"),
    ("tensor-too-large", f"in A_8;out C_8;<<D^{{f32,g}}_{{{ONES},1}};>>L^8_i[C_i=A_i;]",
     f"in A_8;out C_8;D^{{f32,g}}_{{{ONES}}};L^8_i[C_i=A_i;]"),
    ("loop-too-long", "in A_8;out C_8;L^8_i[C_i=A_i;L^{2}_{<<j=9223372036854775807>>}[D_i=1.0;]]",
     "in A_8;out C_8;L^8_i[C_i=A_i;L^{2}_{j=9223372036854775806}[D_i=1.0;]]"),
    ("subscript-not-integer", "in A_8;out C_8;L^8_i[C_i=A_{<<i/2>>};]", "in A_8;out C_8;L^8_i[C_i=A_{i//2};]"),
    ("operand-not-integer", "in A_8;out C_8;L^8_i[C_i=<<A_i>>%2;]", "in A^{i32}_8;out C_8;L^8_i[C_i=A_i%2;]"),
    ("power-of-integer", "in A_8;out C_8;L^8_i[C_i=A_i*<<i>>**2;]", "in A_8;out C_8;L^8_i[C_i=A_i*cast(f32,i)**2;]"),
    ("condition-not-bool", "in A_8;out C_8;L^8_i[C_i=if_then_else(<<A_i>>,1.0,0.0);]",
     "in A_8;out C_8;L^8_i[C_i=if_then_else(A_i!=0,1.0,0.0);]"),
    ("condition-not-bool", "in A_8;out C_8;L^8_i[C_i=A_i;(<<i>>)[C_i=1.0;]]",
     "in A_8;out C_8;L^8_i[C_i=A_i;(i>0)[C_i=1.0;]]"),
    ("bool-accumulation", "in A_8;out C^{bool}_8;L^8_i[<<C_i>>+=A_i;]", "in A_8;out C^{i32}_8;L^8_i[C_i+=A_i>0;]"),
    ("literal-out-of-range", "in A^{i8}_8;out C_8;L^8_i[C_i=A_i+<<200>>;]",
     "in A^{i8}_8;out C_8;L^8_i[C_i=cast(i32,A_i)+200;]"),
    ("literal-out-of-range", "in A_8;out C_8;L^8_i[C_i=cast(i8,<<-129>>)+A_i;]",
     "in A_8;out C_8;L^8_i[C_i=cast(i8,-128)+A_i;]"),
    ("accumulation-reads-target", "in A_8;out C_8;L^8_i[C_i+=1.0;C_i+=<<A_i*C_i>>;]",
     "in A_8;out C_8;L^8_i[C_i=1.0;C_i=C_i+A_i*C_i;]"),
    ("divisor-maybe-zero", "in A^{i32}_8,D^{i32}_8;out C_8;L^8_i[C_i=A_i//<<D_i>>;]",
     "in A^{i32}_8,D^{i32}_8;out C_8;L^8_i[C_i=A_i//max(D_i,1);]"),
    ("divisor-maybe-zero", "in A^{i32}_8,D^{i32}_8;out C_8;L^8_i[C_i=0.0;(D_i!=1)[C_i=A_i//<<D_i>>;]]",
     "in A^{i32}_8,D^{i32}_8;out C_8;L^8_i[C_i=0.0;(D_i!=0)[C_i=A_i//D_i;]]"),
    ("divisor-maybe-zero", "in A^{i32}_8;out C_8;L^8_i[C_i=A_i%<<0>>;]", "in A^{i32}_8;out C_8;L^8_i[C_i=A_i%3;]"),
    ("divisor-maybe-zero", "in A^{i32}_8;out C_8;L^8_i[C_i=A_i%<<i>>;]", "in A^{i32}_8;out C_8;L^8_i[C_i=A_i%(i+1);]"),
    ("allocated-twice", "in A_8;out C_8;D^{f32,g}_8;<<D^{f32,g}_8;>>L^8_i[D_i=A_i;C_i=D_i;]",
     "in A_8;out C_8;D^{f32,g}_8;L^8_i[D_i=A_i;C_i=D_i;]"),
    ("access-before-allocation", "in A_8;out C_8;L^8_i[C_i=<<D_i>>;]D^{f64,g}_8;L^8_i[D_i=A_i;]",
     "in A_8;out C_8;D^{f64,g}_8;L^8_i[D_i=A_i;]L^8_i[C_i=D_i;]"),
    ("access-after-lifetime", "in A_8;out C_8;L^8_i[D^{f32,l};D=A_i;C_i=D;]L^8_i[C_i=<<D>>;]",
     "in A_8;out C_8;L^8_i[D^{f32,l};D=A_i;C_i=D;]"),
    ("access-after-lifetime", "in A_8;out C_8;L^8_i[D^{f32,l};D=A_i;C_i=D;]L^8_i[C_i=A_i;C_i=<<D>>;]",
     "in A_8;out C_8;L^8_i[D^{f32,l};D=A_i;C_i=D;]L^8_i[C_i=A_i;]"),
    ("global-not-at-top-level", "in A_8;out C_8;L^8_i[<<D^{f64,g};>>D=A_i;C_i=D;]",
     "in A_8;out C_8;D^{f64,g};L^8_i[D=A_i;C_i=D;]"),
    ("shared-outside-block", "in A_8;out C_8;L^8_i[<<S^{f32,s};>>S=A_i;C_i=S;]",
     "in A_8;out C_8;B^8_{bx}[S^{f32,s};S=A_{bx};C_{bx}=S;]"),
    ("shared-outside-block", f"{COPY}B^8_{{by}}[<<S^{{f32,s}};>>B^8_{{bx}}[S=A_{{by,bx}};C_{{by,bx}}=S;]]",
     f"{COPY}B^{{8,8}}_{{by,bx}}[S^{{f32,s}};S=A_{{by,bx}};C_{{by,bx}}=S;]"),
    ("shared-in-thread-loop", f"{COPY}B^8_{{bx}}B^8_{{tx}}[<<S^{{f32,s}};>>S=A_{{bx,tx}};C_{{bx,tx}}=S;]",
     f"{COPY}B^8_{{bx}}[S^{{f32,s}}_8;B^8_{{tx}}[S_{{tx}}=A_{{bx,tx}};C_{{bx,tx}}=S_{{tx}};]]"),
    ("local-outside-kernel", "in A_8;out C_8;<<D^{f32,l};>>L^8_i[D=A_i;C_i=D;]",
     "in A_8;out C_8;L^8_i[D^{f32,l};D=A_i;C_i=D;]"),
    ("local-outside-kernel", f"{COPY}L^8_k[<<D^{{f32,l}}_8;>>B^8_{{tx}}[D_{{tx}}=A_{{k,tx}};C_{{k,tx}}=D_{{tx}};]]",
     f"{COPY}L^8_kB^8_{{tx}}[D^{{f32,l}};D=A_{{k,tx}};C_{{k,tx}}=D;]"),
    ("local-not-per-thread", f"{COPY}B^8_{{bx}}[R^{{f32,l}}_9;B^8_{{tx}}[R_{{tx}}=A_{{bx,tx}};<<R_{{tx+1}}>>=0.0;]"
     "B^8_{tx}[C_{bx,tx}=R_{tx};]]",
     f"{COPY}B^8_{{bx}}[R^{{f32,l}}_9;B^8_{{tx}}[R_{{tx}}=A_{{bx,tx}};]B^8_{{tx}}[C_{{bx,tx}}=R_{{tx}};]]"),
    ("local-not-per-thread",
     "in A_{8,8};out C_{8,8};B^1_{bx}[R^{f32,l}_{8,8};B^{8,8}_{ty,tx}[R_{ty,tx}=A_{ty,tx};]"
     "B^{8,8}_{ty,tx}[C_{ty,tx}=<<R_{tx,ty}>>;]]",
     "in A_{8,8};out C_{8,8};B^1_{bx}[R^{f32,l}_{8,8};B^{8,8}_{ty,tx}[R_{ty,tx}=A_{ty,tx};]"
     "B^{8,8}_{ty,tx}[C_{ty,tx}=R_{ty,tx};]]"),
    ("local-not-per-thread",
     "in A_{8,8};out C_{8,8};B^1_{bx}[R^{f32,l}_{8,8};B^{8,8}_{ty,tx}[<<R_{ty,ty}>>=A_{ty,tx};C_{ty,tx}=R_{ty,ty};]]",
     "in A_{8,8};out C_{8,8};B^1_{bx}[R^{f32,l}_{8,8};B^{8,8}_{ty,tx}[R_{tx,ty}=A_{ty,tx};C_{ty,tx}=R_{tx,ty};]]"),
    ("block-in-thread-loop", f"{COPY}B^8_{{tx}}[B^8_{{<<bx>>}}[C_{{bx,tx}}=A_{{bx,tx}};]]",
     f"{COPY}B^8_{{bx}}[B^8_{{tx}}[C_{{bx,tx}}=A_{{bx,tx}};]]"),
    ("axis-bound-twice", f"{COPY}B^8_{{bx}}B^8_{{<<bxa>>}}[C_{{bx,bxa}}=A_{{bx,bxa}};]",
     f"{COPY}B^8_{{bx}}B^8_{{bya}}[C_{{bx,bya}}=A_{{bx,bya}};]"),
    ("block-loop-has-siblings", f"{COPY}B^8_{{by}}[B^8_{{<<bx>>}}[C_{{by,bx}}=A_{{by,bx}};]D_{{by}}=1.0;]",
     f"{COPY}B^8_{{by}}[B^8_{{bx}}[C_{{by,bx}}=A_{{by,bx}};]]B^8_{{by}}[D_{{by}}=1.0;]"),
    ("thread-loop-has-siblings",
     f"{COPY}B^8_{{bx}}B^1_{{ty}}[B^8_{{<<tx>>}}[C_{{bx,tx}}=A_{{bx,tx}};]D_{{bx}}=1.0;]",
     f"{COPY}B^8_{{bx}}[B^1_{{ty}}[B^8_{{tx}}[C_{{bx,tx}}=A_{{bx,tx}};]]D_{{bx}}=1.0;]"),
    ("kernel-in-claimed-loop", f"{COPY}P^8_<<i>>[B^8_{{tx}}[C_{{i,tx}}=A_{{i,tx}};]]",
     f"{COPY}L^8_i[B^8_{{tx}}[C_{{i,tx}}=A_{{i,tx}};]]"),
    ("host-guard-reads-tensor",
     "in A_8,I^{i32};out C_8;L^8_i[C_i=0.0;]L^1_k(<<I>0>>)[B^8_{tx}[C_{tx}=A_{tx};]]",
     "in A_8,I^{i32};out C_8;L^8_i[C_i=0.0;]L^1_k(k<1)[B^8_{tx}(I>0)[C_{tx}=A_{tx};]]"),
    ("divergent-barrier",
     f"{BLOCK}R^{{f32,l}};R=1.0;B^{{32}}_{{tx}}[S_{{tx}}=A_{{bx,tx}};](<<R>0>>)[B^{{32}}_{{tx}}[C_{{bx,tx}}=S_{{tx}};]]"
     "B^{32}_{tx}[C_{bx,tx}=S_{tx};]]",
     f"{BLOCK}B^{{32}}_{{tx}}[S_{{tx}}=A_{{bx,tx}};](bx>0)[B^{{32}}_{{tx}}[C_{{bx,tx}}=S_{{tx}};]]"
     "B^{32}_{tx}[C_{bx,tx}=S_{tx};]]"),
    ("divergent-barrier",
     f"{BLOCK}B^{{32}}_{{tx}}[S_{{tx}}=A_{{bx,tx}};C_{{bx,tx}}=0.0;](<<S_0>0>>)[B^{{32}}_{{tx}}[S_{{tx}}=2.0;]]]",
     f"{BLOCK}B^{{32}}_{{tx}}[S_{{tx}}=A_{{bx,tx}};C_{{bx,tx}}=0.0;](S_0>0)[B^{{32}}_{{tx}}[C_{{bx,tx}}=2.0;]]]"),
    ("divergent-barrier",
     "in A_{4,32};out C_{4,32};B^4_{bx}[B^{32}_{tx}[D_{bx,tx}=A_{bx,tx};C_{bx,tx}=0.0;]"
     "(<<D_{bx,0}>0>>)[B^{32}_{tx}[C_{bx,tx}=1.0;]]]",
     "in A_{4,32};out C_{4,32};B^4_{bx}[B^{32}_{tx}[D_{bx,tx}=A_{bx,tx};C_{bx,tx}=0.0;]"
     "(A_{bx,0}>0)[B^{32}_{tx}[C_{bx,tx}=1.0;]]]"),
    ("too-many-threads", "in A_{32,64};out C_{32,64};B^{32,64}_{<<ty>>,tx}[C_{ty,tx}=A_{ty,tx};]",
     "in A_{32,64};out C_{32,64};B^{32,32}_{ty,tx}L^2_k[C_{ty,k*32+tx}=A_{ty,k*32+tx};]"),
    ("extent-over-axis-limit", "in A_{2048};out C_{2048};B^{2048}_{<<tx>>}[C_{tx}=A_{tx};]",
     "in A_{2048};out C_{2048};B^2_{bx}B^{1024}_{tx}[C_{bx*1024+tx}=A_{bx*1024+tx};]"),
    ("extent-over-axis-limit", "in A_{65536};out C_{65536};B^{65536}_{<<by>>}[C_{by}=A_{by};]",
     "in A_{65536};out C_{65536};B^{65536}_{bx}[C_{bx}=A_{bx};]"),
    ("extent-over-axis-limit", "in A_{65};out C_{65};B^{65}_{<<tz>>}[C_{tz}=A_{tz};]",
     "in A_{64};out C_{64};B^{64}_{tz}[C_{tz}=A_{tz};]"),
    ("shared-over-limit", "in A_4;out C_4;B^4_{<<bx>>}[S^{f32,s}_{12288};T^{i8,s};S_0=A_{bx};T=1;C_{bx}=S_0+T;]",
     "in A_4;out C_4;B^4_{bx}[S^{f32,s}_{12272};T^{i8,s};S_0=A_{bx};T=1;C_{bx}=S_0+T;]"),
    ("local-over-limit", "in A_4;out C_4;B^4_{<<tx>>}[R^{f64,l}_{8193};R_0=A_{tx};C_{tx}=R_0;]",
     "in A_4;out C_4;B^4_{tx}[R^{f64,l}_{8192};R_0=A_{tx};C_{tx}=R_0;]"),
    ("too-many-copies", "in A_{64,32};out C_{64,32};U^{64}_iL^1_kU^{32}_<<j>>[C_{i,j}=A_{i,j};]",
     "in A_{32,32};out C_{32,32};U^{32}_iL^1_kU^{32}_j[C_{i,j}=A_{i,j};]"),
    ("vector-body", f"{COPY}V^8_<<i>>[L^8_j[C_{{i,j}}=A_{{i,j}};]]", f"{COPY}L^8_i[V^8_j[C_{{i,j}}=A_{{i,j}};]]"),
    ("vector-body", "in A_8;out C_8;V^8_<<i>>[D_i=A_i;C_i=D_i;]", "in A_8;out C_8;V^8_i[D_i=A_i;]V^8_i[C_i=D_i;]"),
    ("vector-extent", "in A_{65};out C_{65};V^{65}_<<i>>[C_i=A_i;]", "in A_{64};out C_{64};V^{64}_i[C_i=A_i;]"),
    ("vector-extent", "in A_1;out C_1;V^1_<<i>>[C_i=A_i;]", "in A_2;out C_2;V^2_i(i<2)[C_i=A_i;]"),
]  # fmt: skip


SETS = [  # what isl proves
    ("out-of-bounds", "in A_{8,8},W_{3,3};out C_{8,8};L^{8,8,3,3}_{i,j,u,v}[C_{i,j}+=A_{<<i+u>>,j+v}*W_{u,v};]",
     "in A_{8,8},W_{3,3};out C_{6,6};L^{6,6,3,3}_{i,j,u,v}[C_{i,j}+=A_{i+u,j+v}*W_{u,v};]"),
    ("out-of-bounds", "in A_{10};out C_{10};L^{2,8}_{a,b}[C_{a*8+b}=A_{<<a*8+b>>};]",
     "in A_{10};out C_{10};L^{2,8}_{a,b}(a*8+b<10)[C_{a*8+b}=A_{a*8+b};]"),
    ("gather-out-of-range", "in A_8;out C_8;L^8_i[D_i=1.0;C_i=A_{<<cast(i32,D_i)>>};]",
     "in A_8;out C_8;L^8_i[D_i=1.0;C_i=A_{min(max(cast(i32,D_i),0),7)};]"),
    ("bounds-not-proven", "in A_{32};out C_8;L^8_i[C_i=A_{<<i*i>>};]", "in A_{32};out C_8;L^8_i[C_i=A_{min(i*i,31)};]"),
    ("integer-overflow", f"in A_8;out C_4;L^4_i[C_i=A_{{(<<i*{MOST}>>)//{MOST}}};]",
     f"in A_8;out C_4;L^4_i[C_i=A_{{(i%2*{MOST})//{MOST}}};]"),
    ("integer-overflow", f"in A_8;out C_4;L^4_i[C_i=A_{{<<i*{MOST}>>-i*9223372036854775806}};]",
     f"in A_8;out C_4;L^4_i[C_i=A_{{i*{int(MOST) // 3}-i*{int(MOST) // 3 - 1}}};]"),
    ("integer-overflow", "in A_8;out C_8;L^8_i[C_i=A_i;]L^{16000000}_i(<<i*1000000000000>><8000000000000)[C_i=1.0;]",
     "in A_8;out C_8;L^8_i[C_i=A_i;]L^{9000000}_i(i*1000000000000<8000000000000)[C_i=1.0;]"),
    ("integer-overflow", GATHER + "[C_i=A_{(<<I_i*4611686018427387904>>)//4611686018427387904};]",
     GATHER + "[C_i=A_{(I_i*4611686018427387904)%8};]"),
    ("integer-overflow", GATHER + "[C_i=if_then_else(<<I_i*2>><16&&I_i>=0,A_{I_i},0.0);]",
     GATHER + "[C_i=if_then_else(I_i>=0&&I_i<8&&I_i*2<16,A_{I_i},0.0);]"),
    ("integer-overflow", GATHER + "[C_i=A_{(<<J_i*2000000000>>)//2000000000};]",
     GATHER + "[C_i=A_{(cast(i64,J_i)*2000000000)//2000000000};]"),
    ("integer-overflow", GATHER + "[C_i=A_{<<J_i*3>>+i-cast(i64,J_i)*3};]", GATHER + "[C_i=A_{J_i*3-20+i};]"),
    ("integer-overflow", GATHER + "[C_i=A_{(<<J_i%3*2147483647>>)%2147483647};]",
     GATHER + "[C_i=A_{J_i%3*2147483647%8};]"),
    ("integer-overflow", GATHER + "[C_i=A_{min(<<abs(J_i)>>,7)};]",
     GATHER + "[C_i=A_{min(abs(cast(i64,J_i)),7)};]"),
    ("integer-overflow",
     f"in A_8;out C_4;K^{{i64,g}}_4;L^4_i[K_i=(<<i*{MOST}>>)//{MOST};]L^4_i[C_i=A_{{K_i*2}};]",
     f"in A_8;out C_4;K^{{i64,g}}_4;L^4_i[K_i=(i*{MOST})//{MOST};]L^4_i[C_i=A_{{max(min(K_i,3),0)*2}};]"),
    ("read-before-write", "in A_8;out C_8;L^8_i[C_i=<<D_i>>;D_i=A_i;]", "in A_8;out C_8;L^8_i[D_i=A_i;C_i=D_i;]"),
    ("output-not-written", "in A_8;out <<C_8>>;L^7_i[C_i=A_i;]", "in A_8;out C_8;L^7_i[C_i=A_i;]C_7=A_7;"),
    ("loop-carries-dependence", "in A_8;out C_8;C_0=A_0;P^7_{<<i=1>>}[C_i=C_{i-1}+A_i;]",
     "in A_8;out C_8;C_0=A_0;L^7_{i=1}[C_i=C_{i-1}+A_i;]"),
    ("reduction-across-loop", "in A_8;out C;P^8_<<i>>[C+=A_i;]", "in A_8;out C;L^8_i[C+=A_i;]"),
    ("dependence-between-blocks",
     "in A_{4,4,4};out C_{4,7};B^4_{by}L^4_kB^4_{bx}[<<C_{by,k+bx}>>=A_{by,k,bx};]",
     "in A_{4,4,4};out C_{4,7};B^4_{by}L^{4,4}_{k,i}[C_{by,k+i}=A_{by,k,i};]"),
    ("dependence-between-threads",
     "in A_{2,4,4};out C_{2,7};B^2_{bx}[S^{f32,s}_{2,7};B^2_{ty}L^4_kB^4_{tx}[<<S_{ty,k+tx}>>=A_{ty,k,tx};]"
     "B^7_{tx}[C_{bx,tx}=S_{bx,tx};]]",
     "in A_{2,4,4};out C_{2,7};B^2_{bx}[S^{f32,s}_{2,7};B^2_{ty}L^{4,4}_{k,i}[S_{ty,k+i}=A_{ty,k,i};]"
     "B^7_{tx}[C_{bx,tx}=S_{bx,tx};]]"),
    ("independence-not-proven", "in A_8,I^{i32}_8;out C_8;L^8_i[C_i=0.0;]P^8_<<i>>[C_{min(max(I_i,0),7)}=A_i;]",
     "in A_8,I^{i32}_8;out C_8;L^8_i[C_i=0.0;]L^8_i[C_{min(max(I_i,0),7)}=A_i;]"),
    ("phases-exchange-through-global",
     "in A_{4,32};out C_{4,32};B^4_{bx}[B^{32}_{tx}[D_{bx,tx}=A_{bx,tx};]B^{32}_{tx}[C_{bx,tx}=<<D_{bx,31-tx}>>;]]",
     "in A_{4,32};out C_{4,32};B^4_{bx}[B^{32}_{tx}[D_{bx,tx}=A_{bx,tx};]]"
     "B^4_{bx}[B^{32}_{tx}[C_{bx,tx}=D_{bx,31-tx};]]"),
    ("local-used-by-two-threads",
     "in A_{4,32};out C_{4,32};B^4_{bx}[R^{f32,l}_{32};B^{32}_{tx}[R_{tx}=A_{bx,tx};]"
     "B^{32}_{tx}[C_{bx,tx}=<<R_{31-tx}>>;]]",
     "in A_{4,32};out C_{4,32};B^4_{bx}[R^{f32,l}_{32};B^{32}_{tx}[R_{tx}=A_{bx,tx};]B^{32}_{tx}[C_{bx,tx}=R_{tx};]]"),
]  # fmt: skip


def marked(text: str) -> tuple[str, int, int]:
    """The text without its marks, and the columns where the marked part starts and ends."""
    start, end = text.index("<<"), text.index(">>") - 2
    return text.replace("<<", "").replace(">>", ""), start + 1, end + 1


@pytest.mark.parametrize(("code", "refused", "corrected"), CASES + SETS)
def test_refuses_at_the_place(code: str, refused: str, corrected: str) -> None:
    text, start, end = marked(refused)
    found = [(d.line, d.column, d.end_column) for d in check_source(parse_source(text)) if d.diagnostic.code == code]
    assert (1, start, end) in found, [str(d) for d in check_source(parse_source(text))]
    assert check(parse(corrected)) == ()


EXAMPLES = [
    "in A_{16,512};out C_{16,512};L^{16,512}_{i,j}[D_i max=A_{i,j};]L^{16,512}_{i,j}[E_i+=exp(A_{i,j}-D_i);]"
    "L^{16,512}_{i,j}[C_{i,j}=exp(A_{i,j}-D_i)/E_i;]",
    "in A_{64,128},W_{128,32},X_{32};out C_{64,32};L^{64,32,128}_{i,j,k}[D_{i,j}+=A_{i,k}*W_{k,j};]"
    "L^{64,32}_{i,j}[C_{i,j}=D_{i,j}+X_j;]",
    "in A_{10};out C_{10};L^{2,8}_{a,b}(a*8+b<10)[C_{a*8+b}=A_{a*8+b};]",
    "in A_{512,512},W_{512,512};out C_{512,512};"
    "B^{16,16}_{by,bx}[S^{f32,s}_{32,33};T^{f32,s}_{32,33};R^{f32,l}_{32,32};"
    "L^{16}_k[B^{32,32}_{ty,tx}[S_{ty,tx}=A_{by*32+ty,k*32+tx};T_{ty,tx}=W_{k*32+ty,bx*32+tx};]"
    "B^{32,32}_{ty,tx}L^{32}_m[R_{ty,tx}+=S_{ty,m}*T_{m,tx};]]B^{32,32}_{ty,tx}[C_{by*32+ty,bx*32+tx}=R_{ty,tx};]]",
    "in A_{16,512};out C_{16,512};B^{16}_{tx}[M^{f32,l};Z^{f32,l};M=-inf;Z=0.0;L^{512}_j[N^{f32,l};N=max(M,A_{tx,j});"
    "Z=Z*if_then_else(M==N,1.0,exp(M-N))+if_then_else(A_{tx,j}==N,1.0,exp(A_{tx,j}-N));M=N;]D_{tx}=M;E_{tx}=Z;]"
    "B^{16}_{tx}L^{512}_j[C_{tx,j}=exp(A_{tx,j}-D_{tx})/E_{tx};]",
    "in A_{2048,2048},W_{2048,2048};out C_{2048,2048};"
    "B^{16,16}_{by,bx}[S^{f32,s}_{16,132};T^{f32,s}_{16,132};R^{f32,l}_{16,16,8,8};"
    "B^{16,16}_{ty,tx}U^{8,8}_{u,v}[R_{ty,tx,u,v}=0.0;]L^{128}_k[B^{16,16}_{ty,tx}[G^{f32,l}_8;"
    "U^2_cV^4_e[G_{c*4+e}=A_{by*128+(ty*16+tx)//2,k*16+(ty*16+tx)%2*8+c*4+e};]"
    "U^8_d[S_{(ty*16+tx)%2*8+d,(ty*16+tx)//2}=G_d;]"
    "U^2_cV^4_e[T_{(ty*16+tx)//16,(ty*16+tx)%16*8+c*4+e}=W_{k*16+(ty*16+tx)//16,bx*128+(ty*16+tx)%16*8+c*4+e};]]"
    "B^{16,16}_{ty,tx}U^{16}_m[F^{f32,l}_8;H^{f32,l}_8;U^2_aV^4_e[F_{a*4+e}=S_{m,ty*8+a*4+e};]"
    "U^2_aV^4_e[H_{a*4+e}=T_{m,a*64+tx*4+e};]U^{8,8}_{u,v}[R_{ty,tx,u,v}+=F_u*H_v;]]]"
    "B^{16,16}_{ty,tx}U^{8,2}_{u,w}V^4_e[C_{by*128+ty*8+u,bx*128+w*64+tx*4+e}=R_{ty,tx,u,w*4+e};]]",
]


@pytest.mark.parametrize("text", EXAMPLES)
def test_clean(text: str) -> None:
    assert check_source(parse_source(text)) == ()


A, C = Access("A", (Variable("i"),)), Access("C", (Variable("i"),))


def tree(*body: Stmt, shape: tuple[int, ...] = (8,)) -> Program:
    return Program((Declaration("A", "f32", shape),), (Declaration("C", "f32", (8,)),), body)


def over(value: Expr, variable: str = "i") -> Loop:
    return Loop("L", variable, 8, 0, (Equation(Access("C", (Variable(variable),)), "=", value),))


TREES = [
    ("no-such-text", tree(Loop("L", "i", 0, 0, (Equation(C, "=", A),))), Place((0,))),
    ("no-such-text", tree(Loop("L", "i", 8, -1, (Equation(C, "=", A),))), Place((0,))),
    ("no-such-text", tree(over(A), Guard(Binary("<", Integer(0), Integer(1)), ())), Place((1,))),
    ("no-such-text", tree(over(Call("exp", (A, A)))), Place((0, 0), (1,))),
    ("no-such-text", tree(over(Call("power", (A,)))), Place((0, 0), (1,))),
    ("no-such-text", tree(over(Cast("i16", A))), Place((0, 0), (1,))),  # type: ignore[arg-type]
    ("no-such-text", tree(over(Binary("+", C, A))), Place((0, 0))),
    ("no-such-text", tree(Alloc("D", "f32", "s", (0,)), over(A)), Place((0,))),
    ("no-such-text", tree(over(A), shape=(0,)), Place(declaration="A")),
    ("no-such-text", tree(), Place()),
    ("no-such-text", Program((), (Declaration("C", "f32", (8,)),), (over(Integer(1)),)), Place()),
    ("reserved-name", tree(over(A, variable="max")), Place((0,))),
    ("reserved-name", tree(over(A, variable="I")), Place((0,))),
    ("reserved-name", tree(Alloc("B", "f32", "g", ()), over(A)), Place((0,))),
    ("reserved-name", tree(Equation(Access("x"), "=", Integer(1)), over(A)), Place((0,), (0,))),
]


@pytest.mark.parametrize(("code", "program", "place"), TREES)
def test_refuses_trees_that_no_text_writes(code: str, program: Program, place: Place) -> None:
    assert (code, place) in [(d.code, d.place) for d in check(program)]
    assert check(tree(over(A))) == ()


def test_every_code_is_exercised() -> None:
    exercised = {case[0] for case in (*CASES, *SETS, *TREES)}
    # A question that isl gives up on takes longer than a test should.
    assert set(CODES) - exercised == {"definedness-not-proven"}


def test_every_code_that_a_module_gives_is_in_the_table() -> None:
    folder = Path(leir.check.__file__).parent
    given: set[str] = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Diagnostic":
                given |= {part.value for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)}
    assert len(given) > 30
    assert given <= set(CODES)


def test_the_page_has_the_table() -> None:
    page = (Path(leir.check.__file__).parent / "README.md").read_text(encoding="utf-8")
    assert page.endswith(table())


def test_reports_everything_at_once() -> None:
    text = (
        "in A_8;out C_8,E_8;L^8_i[C_i=Q_i+j;]\nL^8_i[A_i=A_{i+1};]\nP^8_i[D+=A_i;]\n"
        "B^{2048}_{tx}[F_{tx}=A_{tx%8}//2;]\nL^7_i[E_i=A_i;]"
    )
    found = {(d.line, d.diagnostic.code) for d in check_source(parse_source(text))}
    assert found >= {
        (1, "unknown-tensor"), (1, "unknown-variable"), (2, "input-written"), (3, "reduction-across-loop"),
        (4, "operand-not-integer"), (4, "too-many-threads"), (4, "extent-over-axis-limit"), (1, "output-not-written"),
    }  # fmt: skip


def test_nothing_follows_from_a_statement_that_fell() -> None:
    """C is written by a statement with an unknown variable: that it is not written is no finding of its own."""
    assert [d.code for d in check(parse("in A_8;out C_8;L^8_i[C_i=A_j;]L^8_i[D_i=C_i;]"))] == ["unknown-variable"]


def test_messages_name_loop_tensor_and_values() -> None:
    for text, words in [
        ("in A_{32,64};out C_{32,64};B^{32,64}_{ty,tx}[C_{ty,tx}=A_{ty,tx};]", ("64 (tx)", "32 (ty)", "2048", "1024")),
        ("in A_8;out C_8;U^{64}_iU^{32}_j[C_{i%8}=A_{j%8};]", ("j", "2048", "1024")),
        ("in A_4;out C_4;B^4_{bx}[S^{f32,s}_{20000};S_0=A_{bx};C_{bx}=S_0;]", ("S", "80000", "49152")),
        ("in A_8;out C_8;L^8_i[C_i=A_{i,i};]", ("A", "2 subscripts", "1")),
    ]:
        message = check(parse(text))[0].message
        assert all(word in message for word in words), message


def test_limits_are_the_targets() -> None:
    program = parse("in A_{64};out C_{64};B^{64}_{tx}[C_{tx}=A_{tx};]")
    assert check(program) == ()
    assert [d.code for d in check(program, Limits(threads_per_block=32))] == ["too-many-threads"]


def test_require_well_formed() -> None:
    require_well_formed(parse(EXAMPLES[0]))
    with pytest.raises(IllFormed, match="unknown-variable: no loop binds j") as caught:
        require_well_formed(parse("in A_8;out C_8;L^8_i[C_i=A_j;]"))
    assert [d.code for d in caught.value.diagnostics] == ["unknown-variable"]


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_never_raises_on_bad_programs(first: int) -> None:
    for seed in range(first, first + 50):
        program = garbage(seed) if seed % 2 else mutated(random_program(seed), seed)
        source = parse_source(to_text(program))
        assert source.program == program
        for located in check_source(source):
            assert located.diagnostic.code in CODES
            assert located.diagnostic.message
            assert 1 <= located.line <= located.end_line


@pytest.mark.parametrize(
    "sum_of",
    ["A_{i,j}//0-D_i);]L^{16,32}_{ii,j}[C_{i,j}=exp(A_{i,j}", "A_{i,j}-D_f);]L^{16,32}_{i,j}[C_{i,j}=exp(A_{i,j}//0"],
)
def test_a_doubtful_divisor_beside_an_unknown_variable_is_no_error_of_ours(sum_of: str) -> None:
    text = (
        "in A^{i32}_{16,32};out C_{16,32};L^{16,32}_{i,j}[D_i max=A_{i,j}//0;]"
        f"L^{{16,32}}_{{i,j}}[E_i+=exp({sum_of}-D_i)/E_i;]"
    )
    found = [located.diagnostic.code for located in check_source(parse_source(text))]
    assert {"unknown-variable", "variable-out-of-loop"} & set(found) and found.count("divisor-maybe-zero") == 2


def test_a_hundred_small_files_take_seconds() -> None:
    start = time.process_time()
    for seed in range(100):
        check_source(parse_source(to_text(random_program(f"timing {seed}"))))
    assert time.process_time() - start < 10


def test_names_are_agreed_upon_nest_by_nest_exactly_where_nothing_is_to_be_said_of_them() -> None:
    outcomes: list[bool] = []
    for seed in range(600):
        program = garbage(seed) if seed % 3 == 0 else mutated(random_program(seed), seed)
        if list(check_tree(program)):
            continue
        outcomes.append(not [*check_names(program), *check_ranks(program)])
        assert names_and_ranks_agree(program) == outcomes[-1], to_text(program)
    assert min(outcomes.count(True), outcomes.count(False)) > 100
