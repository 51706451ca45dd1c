"""Sentences and evidence of strategies agree with both programs, in number and grammar, where that is easily lost."""

import math
import re

import pytest

from leir.analysis.cost import cost
from leir.parser import parse
from stepTP.narrate.call import parse_call
from strategies.base import usable
from strategies.bounded import at_least, at_most
from strategies.catalog import names, parse_step, strategy

ROWS = """in A_{4,8};out C_{4,8};
L^{4,8}_{i,j}[D_i+=A_{i,j};]
L^{4,8}_{i,j}[C_{i,j}=A_{i,j}-D_i;]
"""
TWO = """in A_{4,8};out C_{4,8};
L^{4,8}_{i,j}[D_{i,j}=A_{i,j}*A_{i,j};]
L^{4,8}_{i,j}[E_{i,j}=A_{i,j}*A_{i,j};]
L^{4,8}_{i,j}[C_{i,j}=D_{i,j}+E_{i,j};]
"""
THREE = """in A_{4,8};out C_{4,8};
L^{4,8}_{i,j}[D_{i,j}=A_{i,j}*2.0;]
L^{4,8}_{i,j}[E_{i,j}=A_{i,j}*3.0;]
L^{4,8}_{i,j}[F_{i,j}=A_{i,j}*4.0;]
L^{4,8}_{i,j}[C_{i,j}=D_{i,j}+E_{i,j}+F_{i,j};]
"""
ATTENTION = """in A_{4,10,16},C_{4,10,16},D_{4,10,16};out F_{4,10,16};
L^{4,10,10,16}_{i,j,k,l}[G_{i,j,k}+=A_{i,j,l}*C_{i,k,l};]
L^{4,10,10}_{i,j,k}[I_{i,j,k}=G_{i,j,k}*0.25;]
L^{4,10,10}_{i,j,k}[K_{i,j} max=I_{i,j,k};]
L^{4,10,10}_{i,j,k}[M_{i,j}+=exp(I_{i,j,k}-K_{i,j});]
L^{4,10,10}_{i,j,k}[J_{i,j,k}=exp(I_{i,j,k}-K_{i,j})/M_{i,j};]
L^{4,10,16,3,4}_{i,j,k,l,n}(l*4+n<10)[F_{i,j,k}+=J_{i,j,l*4+n}*D_{i,l*4+n,k};]
"""
BOUNDED = """in A_{4,10};out C_{4,10};
L^{4,10}_{i,j}[F_{i,j}=tanh(A_{i,j});]
L^{4,10}_{i,j}[D_i max=F_{i,j};]
L^{4,10}_{i,j}[E_i+=exp(F_{i,j}-D_i);]
L^{4,10}_{i,j}[C_{i,j}=exp(F_{i,j}-D_i)/E_i;]
"""
WINDOWS = """in A_8,C_3,D_3;out E_8;
L^{8,3}_{i,j}(0<=i+j-1&&i+j-1<8)[F_i+=A_{i+j-1}*C_j;]
L^{8,3}_{i,j}(0<=i+j-1&&i+j-1<8)[G_i+=A_{i+j-1}*D_j;]
L^8_i[E_i=F_i+G_i;]
"""
LOGS = """in A_8;out C_8;
L^8_i[D_i=min(max(A_i,0.01),0.99);]
L^8_i[C_i=log(sqrt(D_i))-log(1.0-D_i);]
"""
CLAMPED = """in A_{4,8},D_8;out C_{4,8};
L^{4,8}_{i,j}[C_{i,j}=(A_{i,j}-D_j)/exp(min(max(A_{i,j},-2.0),2.0));]
"""
UNREAD = """in A_{4,8};out C_{4,8};
L^4_i[L^8_j[D_{i,j}=A_{i,j}*2.0;]L^8_j[C_{i,j}=A_{i,j}+1.0;]]
"""
TWICE = """in A_{4,8};out C_{4,8};
L^4_i[L^8_j[D_{i,j}=A_{i,j}*2.0;]L^8_j[E_{i,j}=A_{i,j}+1.0;]L^8_j[C_{i,j}=D_{i,j}+E_{i,j};]]
"""
DECLARED = """in A_8;out C_8;
L^8_i[S^{f32,l};]
L^{8,4}_{i,j}[T^{f32,l};R^{f32,l};]
L^8_i[C_i=A_i;]
"""
ONES = """in A_{1,1,8};out C_{1,8};
L^{1,1}_{i,j}[D_{i,j}=A_{i,j,0};]
L^{1,8}_{i,j}[E_{i,j}=A_{i,0,j};]
L^{1,8}_{i,j}[C_{i,j}=E_{i,j}*D_{i,0};]
L^2_i[C_{0,i}=D_{0,0};]
"""
SCALARS = """in A_8,X;out C_8,D;
F=X*X;
D=exp(F*X)*2.0;
E=exp(F*X)*3.0;
L^8_i[C_i=A_i*exp(F*X)+E;]
"""
CHOSEN = """in A_4;out C_{4,8};
L^4_i[D_i=A_i*2.0;]
L^4_i[E_i=D_i+1.0;]
L^{4,8}_{i,j}[C_{i,j}=if_then_else(j>0,D_i,E_i);]
"""
INDEXED = """in A_8;out C_{4,2};
T^{i32,g}_{4,2};
L^{4,2}_{i,j}[T_{i,j}=i*2+j;]
L^{4,2}_{i,j}[C_{i,j}=A_{T_{i,j}};]
"""
PREFIXED = """in A_{4,10};out C_{4,10};
L^{4,10}_{i,j}[F_{i,j}=tanh(A_{i,j});]
L^{4,10}_{i,j}[M_{i,j}=max(if_then_else(j>0,M_{i,j-1},-inf),F_{i,j});]
L^4_i[D_i=M_{i,9};]
L^{4,10}_{i,j}[E_i+=exp(F_{i,j}-D_i);]
L^{4,10}_{i,j}[C_{i,j}=exp(F_{i,j}-D_i)/E_i;]
"""
MATMUL = """in A_{8,16},C_{16,12};out D_{8,12};
L^{8,12,16}_{i,j,k}[D_{i,j}+=A_{i,k}*C_{k,j};]
"""
DEAD_SUM = """in A_{8,4};out C_{8,4};
L^{8,4}_{i,j}[E_j+=A_{i,j};]
L^{8,4}_{i,j}[F_i+=A_{i,j};]
L^{8,4}_{i,j}[C_{i,j}=A_{i,j}+F_i;]
"""
REGISTERS = """in A_{16,4};out C_{16,4};
B^{16}_{tx}[R^{f32,l}_4;L^4_i[R_i=A_{tx,i}*2.0;]L^4_i[C_{tx,i}=R_{3-i};]]
"""
EITHER = "if_then_else(D_i>0.0,D_i*2.0,D_i*3.0)"
CHOICES = f"""in A_8,C_8,D_8;out E_8;
L^8_i[E_i={EITHER}*A_i+{EITHER}*C_i;]
"""
ONE_CHOICE = f"""in A_8,C_8,D_8;out E_8;
L^8_i[E_i={EITHER}*(A_i*C_i+D_i*C_i);]
"""
INPUTS = """in A_8,D_8,W_8;out C_8;
L^8_i[F_i=1.0+D_i*D_i;]
L^8_i[G_i=2.0+tanh(W_i);]
L^8_i[C_i=(A_i+1.0)/F_i+(A_i+2.0)/G_i;]
"""
CASES = [
    (MATMUL, "loop_unrolling(path=(0,0))",
     ["tests for each of them beside the loop over k", "12 copies of the loop over k"],
     ["share", "its equation"]),
    (MATMUL.replace("8,12,16}_{i,j,k}", "8,16,12}_{i,k,j}"), "loop_unrolling(path=(0,0,0))",
     ["A_{i,k} does not depend on j", "can share a load", "12 copies of the loop's equation"], ["nest"]),
    (MATMUL, "loop_unrolling(path=(0))", ["beside the nest over j and k"], ["share"]),
    (REGISTERS, "loop_unrolling(path=(0,2))", ["R is subscripted by i: written out, its 4 iterations name fixed"], []),
    (REGISTERS.replace("R_{3-i}", "R_{(3-i+k)%4}").replace("L^4_i[C", "L^{4,1}_{i,k}[C"),
     "loop_unrolling(path=(0,2))", [],
     ["fixed elements"]),
    (TWO.replace("L^{4,8}_{i,j}[C", "U^4_iU^8_j[C"), 'loop_unrolling(path=(2,0), kind="serial")',
     ["stands as 8 copies of the loop's equation", "shorter by 28 copies of the loop's equation"],
     ["split, reordered"]),
    (MATMUL, "loop_tiling(outer=(0), inner=(0,0), outer_tile=4, inner_tile=4)",
     ["depends on j alone: within a tile of 4 by 4", "a window, whose iterations have elements in common"],
     ["No two pairs"]),
    (TWO, "loop_tiling(outer=(0), inner=(0,0), outer_tile=2, inner_tile=4)",
     ["No two pairs of i and j in a tile use one element, so that nothing is used again in it"], ["window, whose"]),
    (TWO, "loop_split(path=(0), factor=2)", ["of them read 64 bytes and write 64"], ["in common", "first pass"]),
    (MATMUL, "loop_split(path=(0), factor=2)", ["Loop i at (0) reads 1280 bytes", "They use elements in common"],
     ["first pass"]),
    (MATMUL, "loop_split(path=(0,0), factor=4)",
     ["The first pass of loop j at (0,0) reads", "Alone the step saves nothing"],
     ["guard is tested"]),
    (MATMUL, "loop_split(path=(0,0), factor=5)", ["1920 tests of j*5+l<12, of which 384 let nothing run"],
     ["saves nothing"]),
    (TWO, "loop_reorder(outer=(0), inner=(0,0))",
     ["nothing that was counted speaks for L^{8,4}_{j,i}", "started 9 times in all, not 5", "go from 2 to 0 of 2",
      "The equation below stays as it is", "No equation in this nest accumulates"], ["On the other side"]),
    (MATMUL, "loop_reorder(outer=(0,0), inner=(0,0,0))", ["by one element are 2 of 3; with j innermost they are 3"],
     ["accesses that move by one"]),
    (DEAD_SUM, "loop_reorder(outer=(0), inner=(0,0))",
     ["On the other side, the accesses that move by one element along the innermost loop go from 2 to 0 of 2"], []),
    (DEAD_SUM.replace("E_j+=A_{i,j}", "E_{i,j}=A_{i,j};G_{i,j}=A_{i,j}"), "loop_reorder(outer=(0), inner=(0,0))",
     ["has elements of E and G of its own", "The 2 equations below stay as they are"], ["of its own, and"]),
    (TWO.replace("L^{4,8}_{i,j}[D", "P^4_iL^8_j[D"), "loop_split(path=(0), factor=2)",
     ["Every iteration does what it did"],
     ["in the order they had"]),
    (TWO.replace("L^{4,8}_{i,j}[D", "P^4_iL^8_j[D"), "loop_fusion(path=(0))", ["Each iteration does what one pair"],
     ["order they"]),
    (MATMUL.replace("L^{8,12,16}_{i,j,k}", "P^8_iL^{12,16}_{j,k}"),
     "loop_tiling(outer=(0), inner=(0,0), outer_tile=4, inner_tile=4)",
     ["is a piece of"], ["before i moves on"]),
    (DEAD_SUM.replace("E_j", "E_0"), "loop_reorder(outer=(0), inner=(0,0))",
     ["E adds up in another order, but no output depends on E: the outputs keep every bit"],
     ["may change the rounding"]),
    (DEAD_SUM.replace("F_i", "F_0"), "loop_reorder(outer=(1), inner=(1,0))",
     ["F adds up in another order, which may change the rounding of F"], ["no output depends"]),
    (TWICE, "operator_fission(path=(0), depth=1, at=2)",
     ["The statement at (0,2) leaves the nest at (0)", "that at (0,2) can wait until the others have run",
      "L^4_i is run through twice, 4 passes of its innermost loop more"], ["counted from 0", "takes turns is another"]),
    (TWICE, "operator_fission(path=(0), depth=1, at=1)",
     ["The statements from (0,1) on leave", "those from (0,1) on can wait until the other has run"], []),
    (THREE, "operator_fusion(path=(0), depth=2)", ["(1), the nest of E, follows (0)"], ["nests of"]),
    (TWICE, "operator_fusion(path=(0,0), depth=1)", ["3 nests of the list below (0) become 2"], []),
    (THREE, "expression_reorder(path=(0))",
     ["(1), the nest of E, follows (0)", "the nest of D at (0) and the nest of E at (1)"], ["Only", "in common, with"]),
    (TWO.replace("D_{i,j}+E_{i,j}", "D_{i,j}+1.0"), "dead_code_elimination(path=(1))",
     ["The nest of E at (1) goes", "(1) is the nest of E"],
     ["the L loop"]),
    (TWO, 'loop_vectorization(path=(0,0))',
     ["as j grows by one, D_{i,j} and A_{i,j} move by one element", "j makes 8 lanes, and a vector has 2 to 64",
      "j is a subscript of D_{i,j}, the only access of D below it", "One vector operation stands for 8 scalar ones"],
     ["No register"]),
    (ROWS.replace("8", "6"), 'loop_vectorization(path=(1,0))',
     ["No register has 6 lanes", "C_{i,j} and A_{i,j} move by one element and D_i stays in place"],
     ["One vector operation"]),
    (TWO.replace("L^{4,8}_{i,j}[D_{i,j}=A_{i,j}*A_{i,j}", "B^{4}_{bx}L^8_j[D_{bx,j}=A_{bx,j}*A_{bx,j}"),
     'loop_binding(path=(0), kind="serial")', ["before it can be unrolled, a vector, parallel,"], []),
    (TWO, "loop_fusion(path=(0))", ["wherever i//8 and i%8 stand", "which no total counts"], []),
    (TWO, 'loop_binding(path=(0), kind="bx")',
     ["i has 4 iterations, and bx takes at most 2147483647", "no axis stands around or below bx"], []),
    (ROWS, 'reduction_factorization(path=(0,0), tensor="D", parts=8)',
     ["reads its terms as they are from A", "still combined in turn", "combined in their order, so every bit stays",
      "The price is E, 32 elements, and 32 iterations that combine it"], ["at once", "grouped anew"]),
    (TWO, 'tensor_split_to_decouple_operators(path=(0), axis="i", at=1)',
     ["For this operator A is copied in two slices, F (i=0) and G (i=1 to 3); the nest of E still reads A",
      "The price: A is copied in slices, and both results are copied to D", "is a plain store, no sum"],
     ["no longer written"]),
    (ROWS, 'tensor_split_to_decouple_operators(path=(0), axis="j", at=3)',
     ["and both results are added to D", "the two equations run 32 times together"], ["copied to D"]),
    (CHOICES, f'factorization(path=(0,0), within=(1), factor="{EITHER}")',
     ["takes at most 7 operations, and at most 3 operations fewer", f"{EITHER} is a factor of every term"],
     [" less", "saves 3 operations", "with 3 operations"]),
    (ONE_CHOICE, 'factorization(path=(0,0), within=(1,1), factor="C_i")',
     ["takes 3 operations, and 1 operation fewer"], ["at most 1 operation"]),
    (INPUTS, 'apart(path=(2,0), within=(1,0), by="")',
     ["for inputs of at most 1048576 in magnitude, F_i is in [1, ", "serves the whole of A_i+1.0"], []),
    (INPUTS, 'apart(path=(2,0), within=(1,1), by="")', ["G_i is in [0.9"], ["in magnitude, G_i is"]),
    (BOUNDED, 'exponential_split(path=(2,0,0), within=(1), value="F_{i,0}")',
     ["In the sum over j, exp(F_{i,0}-D_i)", "taking exp(F_{i,0}-D_i) out of the sum over j"], ["factorization"]),
    (BOUNDED, 'additive_split(path=(2,0,0), within=(1,0,0), value="F_{i,0}")',
     ["expand_powsimp by F_{i,0} is legal after it"], ["cancellation by", "gains"]),
    (BOUNDED, 'normal_loop_max_to_prefix_max(path=(1))',
     ["Nothing is saved yet", "L^{10}_j is serial, with 10 terms", "reduces over j and alone writes D"],
     ["faster", "shrink", "D_i reads"]),
    (BOUNDED, "online_softmax(maximum=(1), sum=(2))",
     ["F_{i,j} is never -inf, so no guard is needed: F_{i,j} is in", "The values are never -inf",
      "sums, over j, exp of the same values less that maximum"], ["bounded below"]),
    (WINDOWS, "partially_equivalent_then_correct(nests=((0),(1)), along=(0))",
     ["two copies of A", "come from 2 corrections", "and up to 6 iterations for the seams", "has up to 24 iterations"],
     ["keeps A apart", "corrections compute"]),
    ("in A_{4,8},C_3;out E_{4,8};L^{4,8,3}_{i,j,k}(0<=j+k-1&&j+k-1<8)[E_{i,j}+=A_{i,j+k-1}*C_k;]",
     "precompute_indices(path=(0,0,0,0,0), within=(1,0,1))",
     ["is computed in up to 96 iterations, for a table of 24", "In the subscripts of A, j+k-1 becomes",
      "the statement at (0,0,0,0,0) reads A_{i,j+k-1}"], ["in 96", "keep"]),
    ("in A_{4,8};out C_{4,8};L^{4,8}_{i,j}[C_{i,j%8}=A_{i,j%8};]", "precompute_indices(path=(0,0,0), within=(1,1))",
     ["In the subscripts of A, j%8 becomes", "fills once; the subscripts of C keep it."], ["subscripts of A and C"]),
    (DECLARED, "loop_unrolling(path=(0))",
     ["beside its declaration", "8 copies of the loop's declaration"], ["equation"]),
    (DECLARED, 'loop_parallelization(path=(1), kind="parallel")',
     ["the 2 declarations below stay as before", "no iteration of i touches an element"], ["equation", "Each element"]),
    (DECLARED, "loop_split(path=(0), factor=2)", ["in one piece; in blocks of 2"], ["bytes"]),
    (ONES, "loop_fusion(path=(0))",
     ["has 1 iteration and j", "1*1 = 1 value of i", "The one iteration runs as it did"], ["1 iterations"]),
    (ONES, "loop_fusion(path=(1))", ["has 1 iteration and j", "The 8 iterations run in the order"], ["1 iterations"]),
    (ONES, 'set_storage_layout(tensor="E", op="swap", axis=0, by=1)',
     ["E keeps 8 elements, in the same order: E_{i,j} becomes E_{j,i}", "leaves every element where it is"],
     ["goes from", "another layout"]),
    (ONES, 'tensor_split_to_decouple_operators(path=(3), axis="i", at=1)',
     ["No part runs more than 1 iteration, where"], ["1 iterations"]),
    (SCALARS, "expression_splitting(path=(3,0), within=(1,0,1), before=1)",
     ["takes no more than 1 value.", "is computed once instead of 8 times", "7 evaluations are saved",
      "1 evaluation of exp(F*X) remains"], ["1 evaluations", "1 times"]),
    (SCALARS, "common_subexpression_elimination(path=(1), within=(1,0), before=1, places=2)",
     ["where 1 is enough", "1 of the 2 evaluations finds", "1 evaluation is saved", "Of 2 evaluations, 1 remains"],
     ["1 evaluations", "1 times"]),
    (LOGS, 'expand_log(path=(1,0), within=(1,0), identity="log-of-root", of="D_i", other="")',
     ["By log-of-root, log(sqrt(D_i)) is 0.5*log(D_i)."], ["leave", "among other operands", "taken out"]),
    (LOGS, 'logsimp(path=(1,0), within=(1), identity="log-of-quotient", of="log(sqrt(D_i))", other="log(1.0-D_i)")',
     ["Are log(sqrt(D_i)) and log(1.0-D_i) needed as two logarithms", "takes one call fewer"], ["far from the ends"]),
    (LOGS.replace("log(1.0-D_i)", "log(1.0/1.5)"),
     'logsimp(path=(1,0), within=(1), identity="log-of-quotient", of="log(sqrt(D_i))", other="log(1.0/1.5)")',
     ["Are log(sqrt(D_i)) and log(1.0/1.5) needed as two logarithms"], ["one call"]),
    (CLAMPED, 'apart(path=(0,0,0), within=(1), by="")', ["took 5 operations and takes 9 operations now"],
     ["6 operations"]),
    (CLAMPED.replace("/exp(min(max(A_{i,j},-2.0),2.0))", "/4.0+D_j"), 'together(path=(0,0,0), within=(1), over="4.0")',
     ["2 terms can have the common denominator 4.0", "D_j is no fraction"], ["common divisor", "line of fraction"]),
    (UNREAD, 'set_storage_scope(tensor="D", scope="l")', ["D is written at (0,0,0) and never read"],
     ["no place, always"]),
    (TWICE, "operator_fission(path=(0), depth=1, at=1)", ["before the statement at (0,1)"], ["the L loop j of 8"]),
    (TWICE, "loop_parallelization(path=(0))", ["each of them can have a core of its own"], ["as many cores"]),
    ("in A_8;out C^{i32}_{8,4};L^{8,4}_{i,j}[C_{i,j}=max(i,2)*4+j+j+max(i,2)*j;]",
     'collect(path=(0,0,0), within=(1), by="max(i,2)", order="powers")', ["In i64, nothing is rounded"],
     ["roundings", "bits may"]),
    (ROWS, 'cache_read_write(path=(1,0), tensor="D", scope="l", side="read")',
     ["it need not come from", "touches one element of D, D_i"], ["they need", "from D_i on", "nothing is saved"]),
    (ROWS, 'cache_read_write(path=(1,0), tensor="A", scope="l", side="read")',
     ["has room; 8 reads touch them there, so that nothing is saved by the copy alone.", "from A_{i,0} on"],
     ["hold it"]),
    (ROWS, 'cache_read_write(path=(1,0), tensor="C", scope="l", side="write")',
     ["stores them to C, from C_{i,0} on", "writes C and reads none of it", "In each thread, 32 bytes of local memory",
      "8 writes touch them"], ["before it uses it", "local memory a thread"]),
    (ROWS, "loop_split(path=(0,0), factor=3)", ["only 2 of its 3 iterations"], ["of them: the guard"]),
    (ROWS, 'reduction_factorization(path=(0,0), tensor="D", parts=2)',
     ["D_i is the same however its terms are grouped, but for rounding"], ["may be regrouped"]),
    (ROWS.replace("+=", " max="), 'tensor_split_to_decouple_operators(path=(0), axis="j", at=3)',
     ["and D is made of both", "D_i is the same however its terms are grouped"], ["copies bring", "but for rounding"]),
    (ROWS, 'reduction_factorization(path=(0,0), tensor="D", parts=5)',
     ["make 4 parts of 2, fewer than the 5 asked for", "Of the 5 parts asked for, 4 are enough"], []),
    (TWO, "expression_reorder(path=(0))", ["they share no tensor that either writes"], ["no tensor;"]),
    (THREE, "expression_reorder(path=(1))", ["every bit stay"], ["It opens the way for operator_fusion"]),
    (THREE.replace("4,8}_{i,j}[E", "8,4}_{j,i}[E"), "expression_reorder(path=(1))",
     ["It opens the way for operator_fusion at (0), where L^{4,8}_{i,j} comes twice in a row now"], []),
    (TWO, "operator_fusion(path=(0), depth=2)", ["one run through the header, 32 passes of its innermost loop"], []),
    (BOUNDED, 'expand_powsimp(path=(2,0,0), within=(1), identity="exp-of-difference", of="D_i", other="")',
     ["no argument has to be positive"], ["none has to be"]),
    (ROWS, 'loop_binding(path=(1), kind="bx")', ["none reads what another writes, so results"], ["barrier"]),
    (ROWS, 'loop_binding(path=(1), kind="tx")', ["a barrier stands between, so results"], ["none reads"]),
    (ROWS, 'layout_transformation(at=1, tensor="A", op="split", axis=1, by=4)',
     ["subscript e of dimension 1 becomes e//4 and e%4, and no other becomes that", "8 = 2*4, so each subscript",
      "with other subscripts, the copy has the same order", "the copy would have 32 elements; a tensor has at most"],
     ["another layout", "another order"]),
    (ROWS, 'layout_transformation(at=1, tensor="A", op="swap", axis=0, by=1)',
     ["to be read in another layout", "E_{j,i} moves by 4 elements along j, and A_{i,j} by one"], ["same order"]),
    (TWO, 'tensor_concat_to_fuse_operators(path=(0), other=(1), axis="")',
     ["take the results out"], ["before and after", "joint operands"]),
    (TWO, 'set_storage_layout(tensor="D", op="merge", axis=0, by=8)',
     ["same 128 bytes, in the same order", "subscripts e and f of dimensions 0 and 1 become one, e*8+f",
      "4*8 = 32, so each pair", "D is written at (0,0,0), and is neither"], ["another layout", "D is a temporary;"]),
    (TWO, 'set_storage_layout(tensor="D", op="swap", axis=0, by=1)',
     ["same 128 bytes, in another layout", "D_{j,i} moves by 4 elements along j in the new layout, and D_{i,j} by one"],
     ["same order"]),
    (TWO, 'set_storage_layout(tensor="D", op="split", axis=1, by=3)',
     ["8 is between 2*3 and 3*3", "The storage of D goes from 128 bytes to 144 bytes"], ["same order"]),
    (TWO.replace("D_{i,j}+E_{i,j}", "D_{i,j}*1.0"), 'cancellation(path=(2,0,0), within=(1), of="1.0")',
     ["Every bit stays: a product with 1.0 is its other factor", "D_{i,j} is read, which rounds nothing"],
     ["may differ", "bits may", "taken back"]),
    (ATTENTION, "flashattention_wo_tiling(path=(5), block=0)", ["the place of the nests at"], ["of The nests"]),
    (ATTENTION, "flashattention_wo_tiling(path=(5), block=1)", ["J, I and G are read for this sum"],
     ["12 scores", "12 terms", "and G is read"]),
    (ATTENTION.replace("3,4}_{i,j,k,l,n}(l*4+n<10)", "10}_{i,j,k,l}").replace("l*4+n", "l"),
     "flashattention_wo_tiling(path=(5), block=0)", ["10 scores", "10 terms"], []),
    (TWO, 'compute_inline(tensor="D")',
     ["D has one equation, at (0,0,0)", "D is read in one place", "that its one reader can compute",
      "D stands between the equations at (0,0,0) and (2,0,0)", "In D_{i,j}+E_{i,j}, A_{i,j}*A_{i,j} can take the place",
      "part of one formula now, A_{i,j}*A_{i,j}+E_{i,j},",
      "The 128 bytes of D in global memory are not needed any more",
      "128 bytes of storage in global memory, and the traffic of the store and the load of D",
      "between its store at (0,0,0) and a read of D", "nothing writes A in between"], ["up to", "at most", "readers"]),
    (CHOSEN, 'compute_inline(tensor="D")', ["computed at most 36 times instead of 4", "the store and the loads of D"],
     ["up to", "separates"]),
    (INDEXED, 'compute_inline(tensor="T")',
     ["A is read by i*2+j directly, no longer through T", "the value of T, i*2+j, has no operand but loop variables"],
     ["formula", "factorization"]),
    (TWO, "expression_splitting(path=(1,0,0), within=(1), before=2)",
     ["runs over L^8_j inside L^4_i, in a nest that can be split by itself", "the new nest goes before (1,0)",
      "A_{i,j}*A_{i,j} is computed from A", "between the new nest and its place"],
     ["alone", "bound", "computes something"]),
    (TWO.replace("E_{i,j}=A_{i,j}*A_{i,j}", "E_{i,j}=exp(A_{i,j}*A_{i,j})"),
     "expression_splitting(path=(1,0,0), within=(1,0), before=3)",
     ["the new equation goes before (1,0,0)", "is computed at (1,0,0), and the same value at (0,0,0)",
      "its operands are the same right before it"], ["new nest", "can be split", "ordered"]),
    (SCALARS, "common_subexpression_elimination(path=(1), within=(1,0), before=1, places=2)",
     ["that the new equation computes", "in 2 places, at (1) and (2)"], ["new nest", "tiled"]),
    (BOUNDED.replace("tanh(A_{i,j})", "tanh(A_{i,j})*A_{i,j}+A_{i,j}*tanh(A_{i,j})"),
     "common_subexpression_elimination(path=(0,0,0), within=(1,0,0), before=1, places=2)",
     ["works out tanh(A_{i,j}) twice", "by a nest that can be ordered, tiled and bound by itself",
      "2 places of the equation at (0,0,0)"], ["more than once, in", "traffic"]),
    (PREFIXED, "normal_loop_summation_on_exp_to_prefix_summation_on_exp(path=(3))",
     ["at each of 10 terms but the first", "than the last element of each row", "E_i is set to", "plus the new term",
      "The values are never -inf, so -inf is never taken from itself; j>0 only tells where a row begins"],
     ["is read from", "bounded below", "its last element"]),
    (TWICE, 'set_storage_scope(tensor="D", scope="l")',
     ["The storage of D goes from 128 bytes to 32 bytes a thread", "D is declared at (0,0)",
      "D would take 32 bytes of local memory; a thread has 65536"], ["Its storage", "It is declared"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "step", "said", "unsaid"), CASES)
def test_what_is_said_of_a_step(text: str, step: str, said: list[str], unsaid: list[str]) -> None:
    before = parse(text)
    taken = parse_step(parse_call(step).model_dump())
    applied = taken.apply(before)
    terms = taken.terms(before, applied.program)
    evidence = [fact.evidence for fact in applied.facts]
    found = "\n".join(
        [*evidence, *(s for part in (taken.choice, taken.change, taken.effect) for s in usable(part, terms))]
    )
    assert [part for part in said if part not in found] == [], found
    assert [part for part in unsaid if part in found] == [], found
    assert not re.search(r"\b1 \w+ (?:are|have)\b|\bthere is \d{2,}", found)


@pytest.mark.parametrize(
    ("text", "step"),
    [
        (CLAMPED, 'apart(path=(0,0,0), within=(1), by="")'),
        (BOUNDED.replace("tanh(A_{i,j})", "A_{i,j}*-2.0+abs(A_{i,j})*-2.0"),
         'factorization(path=(0,0,0), within=(1), factor="-2.0")'),
    ],
)  # fmt: skip
def test_operations_are_counted_as_in_the_totals(text: str, step: str) -> None:
    before, taken = parse(text), parse_step(parse_call(step).model_dump())
    after = taken.apply(before).program
    totals = [found.flops.value + found.calls.value for found in map(cost, (before, after))]
    terms = taken.terms(before, after)
    sign = 1 if "added_in_all" in terms else -1
    said = terms.get("added_in_all") or terms["saved_in_all"]
    assert totals[1] - totals[0] == sign * int(said.split()[0])


def test_bounds_are_rounded_outwards() -> None:
    assert (at_most(1.00000101), at_least(1.00000101), at_most(2.0), at_least(2.0**24)) == (
        "1.01",
        "1",
        "2",
        "1.67e+07",
    )
    assert (at_most(math.inf), at_most(0.0)) == ("inf", "0")


@pytest.mark.parametrize("name", names())
def test_no_sentence_claims_speed(name: str) -> None:
    cls = strategy(name)
    claim = re.compile(r"\b(?:faster|slower|cheap\w*|dear|sooner|speed\w*|fills? a machine|as many cores)\b")
    assert [s for s in (*cls.choice, *cls.change, *cls.effect) if claim.search(s)] == []


def test_an_access_stands_for_all_that_are_written_like_it() -> None:
    text = """in A_{8,4};out C_{8,4};
L^{1,4}_{i,j}[H_{i,j}=A_{i,j};]
L^{7,4}_{i,j}[H_{i+1,j}=A_{i+1,j};]
L^{8,4}_{i,j}[C_{i,j}=H_{i,j};]
"""
    before = parse(text)
    taken = parse_step(parse_call('set_storage_layout(tensor="H", op="split", axis=0, by=4)').model_dump())
    terms = taken.terms(before, taken.apply(before).program)
    assert (terms["access"], terms["new_access"]) == ("H_{i+1,j}", "H_{(i+1)//4,(i+1)%4,j}")
