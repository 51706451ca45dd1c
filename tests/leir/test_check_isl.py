"""Bounds, definedness and loop kinds: planted errors by hand, and random programs against enumeration."""

import re

import pytest

from leir.analysis.access import tensors
from leir.analysis.kernels import axis_of
from leir.check import check, input_ranges
from leir.check.bounds import Precondition, check_bounds, preconditions
from leir.check.definedness import check_definedness
from leir.check.diagnostic import Diagnostic
from leir.check.kinds import check_kinds
from leir.edit import walk
from leir.parser import parse, parse_expression
from leir.syntax import Equation, Path, Place, Program
from tests.leir.enumeration import Event, affine_program, events, kernel_program


def codes(text: str) -> list[str]:
    return [diagnostic.code for diagnostic in check(parse(text))]


def only(text: str) -> Diagnostic:
    (found,) = check(parse(text))
    return found


CONVOLUTION = (
    "in A_{4,16,16},W_{8,4,3,3};out C_{8,16,16};L^{8,16,16,4,3,3}_{o,y,x,c,u,v}"
    "(y+u>=1&&y+u<17&&x+v>=1&&x+v<17)[C_{o,y,x}+=A_{c,y+u-1,x+v-1}*W_{o,c,u,v};]"
)
TILED = """in A_{512,512},W_{512,512};out C_{512,512};
    B^{16,16}_{by,bx}[S^{f32,s}_{32,33};T^{f32,s}_{32,33};R^{f32,l}_{32,32};
      L^{16}_k[B^{32,32}_{ty,tx}[S_{ty,tx}=A_{by*32+ty,k*32+tx};T_{ty,tx}=W_{k*32+ty,bx*32+tx};]
               B^{32,32}_{ty,tx}L^{32}_m[R_{ty,tx}+=S_{ty,m}*T_{m,tx};]]
      B^{32,32}_{ty,tx}[C_{by*32+ty,bx*32+tx}=R_{ty,tx};]]"""
REGISTERS = """in A_{2048,2048},W_{2048,2048};out C_{2048,2048};
    B^{16,16}_{by,bx}[S^{f32,s}_{16,132};T^{f32,s}_{16,132};R^{f32,l}_{16,16,8,8};
      B^{16,16}_{ty,tx}U^{8,8}_{u,v}[R_{ty,tx,u,v}=0.0;]
      L^{128}_k[
        B^{16,16}_{ty,tx}[G^{f32,l}_8;
          U^2_cV^4_e[G_{c*4+e}=A_{by*128+(ty*16+tx)//2,k*16+(ty*16+tx)%2*8+c*4+e};]
          U^8_d[S_{(ty*16+tx)%2*8+d,(ty*16+tx)//2}=G_d;]
          U^2_cV^4_e[T_{(ty*16+tx)//16,(ty*16+tx)%16*8+c*4+e}=W_{k*16+(ty*16+tx)//16,bx*128+(ty*16+tx)%16*8+c*4+e};]]
        B^{16,16}_{ty,tx}U^{16}_m[F^{f32,l}_8;H^{f32,l}_8;
          U^2_aV^4_e[F_{a*4+e}=S_{m,ty*8+a*4+e};]
          U^2_aV^4_e[H_{a*4+e}=T_{m,a*64+tx*4+e};]
          U^{8,8}_{u,v}[R_{ty,tx,u,v}+=F_u*H_v;]]]
      B^{16,16}_{ty,tx}U^{8,2}_{u,w}V^4_e[C_{by*128+ty*8+u,bx*128+w*64+tx*4+e}=R_{ty,tx,u,w*4+e};]]"""


def tree(tensor: str, combine: str) -> str:
    """A tree reduction of 256 values in shared memory."""
    halves = (128, 64, 32, 16, 8, 4, 2, 1)
    steps = (combine.format(a=f"{tensor}_{{tx}}", b=f"{tensor}_{{tx+{half}}}") for half in halves)
    return "".join(f"B^{{{half}}}_{{tx}}[{tensor}_{{tx}}={step};]" for half, step in zip(halves, steps, strict=True))


SOFTMAX = f"""in A_{{8192,8192}};out C_{{8192,8192}};
    B^{{8192}}_{{bx}}[S^{{f32,s}}_{{256}};T^{{f32,s}}_{{256}};R^{{f32,l}}_{{256,32}};
      B^{{256}}_{{tx}}[M^{{f32,l}};
        U^8_kV^4_e[R_{{tx,k*4+e}}=A_{{bx,k*1024+tx*4+e}};]
        U^{{32}}_k[M max=R_{{tx,k}};]
        S_{{tx}}=M;]
      {tree("S", "max({a},{b})")}
      B^{{256}}_{{tx}}[Z^{{f32,l}};N^{{f32,l}};N=S_0;U^{{32}}_k[R_{{tx,k}}=exp(R_{{tx,k}}-N);]U^{{32}}_k[Z+=R_{{tx,k}};]
        T_{{tx}}=Z;]
      {tree("T", "{a}+{b}")}
      B^{{256}}_{{tx}}U^8_kV^4_e[C_{{bx,k*1024+tx*4+e}}=R_{{tx,k*4+e}}/T_0;]]"""
ATTENTION = """in A_{64,256,64},D_{64,256,64},E_{64,256,64};out C_{64,256,64};
    B^{4,64}_{bx,by}[S^{f32,s}_{64,65};T^{f32,s}_{64,33};X^{f32,s}_{64,16};Y^{f32,s}_{64,33};
      M^{f32,l}_{16,16,4};Z^{f32,l}_{16,16,4};O^{f32,l}_{16,16,4,4};Q^{f32,l}_{16,16,4,2};
      B^{16,16}_{ty,tx}U^4_u[M_{ty,tx,u}=-inf;Z_{ty,tx,u}=0.0;
        U^4_v[O_{ty,tx,u,v}=0.0;S_{ty*4+u,tx*4+v}=A_{by,bx*64+ty*4+u,tx*4+v};]]
      L^8_k[
        B^{16,16}_{ty,tx}U^8_u[T_{(ty*16+tx)%64,(ty*16+tx)//64*8+u}=D_{by,k*32+(ty*16+tx)//64*8+u,(ty*16+tx)%64};]
        B^{16,16}_{ty,tx}[
          U^{4,2}_{u,v}[Q_{ty,tx,u,v}=0.0;]
          L^{64}_d[U^{4,2}_{u,v}[Q_{ty,tx,u,v}+=S_{ty*4+u,d}*T_{d,v*16+tx};]]
          U^4_u[X_{ty*4+u,tx}=max(Q_{ty,tx,u,0},Q_{ty,tx,u,1});]]
        B^{16,16}_{ty,tx}U^4_u[N^{f32,l};N=M_{ty,tx,u};
          L^{16}_j[N max=X_{ty*4+u,j};]
          Z_{ty,tx,u}*=exp(M_{ty,tx,u}-N);
          U^4_v[O_{ty,tx,u,v}*=exp(M_{ty,tx,u}-N);]
          U^2_v[Y_{ty*4+u,v*16+tx}=exp(Q_{ty,tx,u,v}-N);Z_{ty,tx,u}+=exp(Q_{ty,tx,u,v}-N);]
          M_{ty,tx,u}=N;]
        B^{16,16}_{ty,tx}L^{32}_j[U^{4,4}_{u,v}[O_{ty,tx,u,v}+=Y_{ty*4+u,j}*E_{by,k*32+j,tx*4+v};]]]
      B^{16,16}_{ty,tx}U^4_u[X_{ty*4+u,tx}=Z_{ty,tx,u};]
      B^{16,16}_{ty,tx}U^4_u[G^{f32,l};L^{16}_j[G+=X_{ty*4+u,j};]
        U^4_v[C_{by,bx*64+ty*4+u,tx*4+v}=O_{ty,tx,u,v}/G;]]]"""


@pytest.mark.parametrize("text", [CONVOLUTION, TILED, REGISTERS, SOFTMAX, ATTENTION], ids=lambda text: text[-40:])
def test_schedules_as_people_write_them_are_clean(text: str):
    program = parse(text)
    assert [*check_bounds(program), *check_definedness(program), *check_kinds(program)] == []


@pytest.mark.parametrize(
    ("text", "code", "place", "words"),
    [
        (
            "in A_{8,8};out C_8;L^8_iP^8_j[C_i+=A_{i,j};]",
            "reduction-across-loop", Place((0, 0)), "the P loop j is reduced across",
        ),
        (
            "in A_{8,8};out C_8;B^8_{bx}B^8_{tx}[C_{bx}+=A_{bx,tx};]",
            "reduction-across-loop", Place((0, 0)), "the B loop tx is reduced across",
        ),
        (
            "in A_8;out C_8;C_0=A_0;P^{7}_{i=1}[C_i=C_{i-1}+A_i;]",
            "loop-carries-dependence", Place((1,)), "C_{i-1} at i=2 reads what C_i at i=1 wrote",
        ),
        (
            CONVOLUTION.replace("x+v<17", "x+v<18"),
            "out-of-bounds", Place((0,) * 8, (1, 0, 2)), "subscript 3 of A_{c,y+u-1,x+v-1} is 16 at",
        ),
        (
            "in A_8;out C_8;L^8_i[C_i=D_i;]L^8_i[D_i=A_i;]",
            "read-before-write", Place((0, 0), (1,)), "D_i is read at i=0, and nothing has written it",
        ),
        (
            "in A_8;out C_8;L^7_i[C_i=A_i;]",
            "output-not-written", Place(declaration="C"), "C_{7} is not provably written",
        ),
        (
            "in A_8;out C_8;B^4_{bx}[B^2_{tx}[D_{bx,tx}=A_{bx*2+tx};]B^2_{tx}[C_{bx*2+tx}=D_{bx,1-tx};]]",
            "phases-exchange-through-global", Place((0, 1, 0), (1,)), "D_{bx,1-tx} at bx=0, tx=1 reads what D_{bx,tx}",
        ),
        (
            "in A_8;out C_8;B^4_{bx}[R^{f32,l}_2;B^2_{tx}[R_{tx}=A_{bx*2+tx};]B^2_{tx}[C_{bx*2+tx}=R_{1-tx};]]",
            "local-used-by-two-threads", Place((0, 2, 0), (1,)), "R_{1-tx} at bx=0, tx=1 reads what",
        ),
        (
            "in A_{10};out C_{10};L^{2,8}_{a,b}[C_{a*8+b}=A_{a*8+b};]",
            "out-of-bounds", Place((0, 0, 0), (1, 0)), "subscript 1 of A_{a*8+b} is 10 at a=1, b=2, outside 0..9",
        ),
        (
            "in A_8;out C_8;B^4_{bx}B^2_{tx}[T_{bx}=A_{bx*2+tx};C_{bx*2+tx}=T_{bx};]",
            "loop-carries-dependence", Place((0, 0)), "the B loop tx carries a dependence",
        ),
        (
            "in A_8;out C_8;B^4_{bx}[S^{f32,s}_2;B^2_{tx}[S_{tx}=A_{bx*2+tx};T_{tx}=S_{tx};]"
            "B^2_{tx}[C_{bx*2+tx}=T_{tx};]]",
            "loop-carries-dependence", Place((0,)), "the B loop bx carries a dependence",
        ),
        (
            "in A_8;out C_8;L^2_iV^4_j[C_{i*4+(j+1)%4}=A_j;]",
            "", Place(), "",
        ),
        (
            "in A_8;out C_8;V^8_i[C_{i//2}=A_i;]L^4_i[C_{i+4}=0.0;]",
            "loop-carries-dependence", Place((0,)), "the V loop i carries a dependence",
        ),
        (
            "in A_8,I^{i32}_8;out C_8;L^8_i[C_i=0.0;]P^8_i[C_{I_i}=A_i;]",
            "independence-not-proven", Place((1,)), "not provable otherwise",
        ),
    ],
)  # fmt: skip
def test_planted_errors_are_refused_at_their_place(text: str, code: str, place: Place, words: str):
    program = parse(text)
    found = [*check_bounds(program), *check_definedness(program), *check_kinds(program)]
    if not code:
        assert found == []
        return
    assert (code, place) in [(d.code, d.place) for d in found]
    assert any(words in d.message for d in found if (d.code, d.place) == (code, place))
    assert check(program) != ()


@pytest.mark.parametrize(
    "text",
    [
        # data between threads through s across phases, in both directions of the loop around them
        "in A_8;out C_8;B^4_{bx}[S^{f32,s}_2;B^2_{tx}[S_{tx}=A_{bx*2+tx};]B^2_{tx}[C_{bx*2+tx}=S_{1-tx};]]",
        "in A_8;out C_2;B^2_{bx}[S^{f32,s}_2;R^{f32,l}_2;L^4_k[B^2_{tx}[S_{tx}=A_{k*2+tx};]B^2_{tx}[R_{tx}+=S_{1-tx};]]"
        "B^1_{tx}[C_{bx}=R_{tx};]]",
        # a statement outside the thread loops is run by one thread
        "in A_8;out C_8;B^4_{bx}[S^{f32,s}_2;S_0=A_{bx*2};S_1=A_{bx*2+1};B^2_{tx}[C_{bx*2+tx}=S_{1-tx};]]",
        # the same thread may read what it wrote to g in another phase
        "in A_8;out C_8;B^4_{bx}[B^2_{tx}[D_{bx,tx}=A_{bx*2+tx};]B^2_{tx}[C_{bx*2+tx}=D_{bx,tx};]]",
        # another kernel launch may read everything
        "in A_8;out C_8;L^2_k[B^8_{tx}[D_{tx}=A_{tx}+k;]B^8_{tx}[C_{tx}=D_{7-tx};]]",
        # a private accumulator
        "in A_{8,4};out C_8;P^8_i[R^{f32,l};L^4_j[R+=A_{i,j};]C_i=R;]",
    ],
)
def test_what_threads_may_do(text: str):
    assert codes(text) == []


def test_a_thread_that_starts_at_one_is_thread_zero():
    body = "B^2_{bx}[B^2_{tx=1}[D_{bx,tx}=A_{tx};]B^2_{tx}[C_{bx*2+tx}=D_{bx,tx+SHIFT};]]"
    assert codes("in A_8;out C_4;" + body.replace("SHIFT", "1")) == []
    assert codes("in A_8;out C_4;" + body.replace("tx+SHIFT", "2-tx")) == ["phases-exchange-through-global"]


GATHER = "in A_{10,4},I^{i32}_8;out C_{8,4};L^{8,4}_{i,j}[C_{i,j}=VALUE;]"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("if_then_else(I_i>=0&&I_i<10,A_{I_i,j},0.0)", []),
        ("if_then_else(I_i<0||I_i>9,0.0,A_{I_i,j})", []),
        ("A_{min(max(I_i,0),9),j}", []),
        ("A_{I_i%10,j}", []),
        ("A_{(I_i*4+j)%10,j}", []),
        ("A_{I_i,j}", [("I_i", 0, 9)]),
        ("if_then_else(I_i>=0,A_{I_i,j},0.0)", [("I_i", 0, 9)]),
        ("A_{I_i+j,j}", [("I_i+j", 0, 9)]),
        ("A_{max(I_i,0),j}", [("max(I_i,0)", 0, 9)]),
    ],
)
def test_a_gather_is_proved_or_becomes_a_precondition(value: str, expected: list[tuple[str, int, int]]):
    program = parse(GATHER.replace("VALUE", value))
    assert check(program) == ()
    found = preconditions(program)
    assert [(p.subscript, p.low, p.high) for p in found] == [(parse_expression(t), a, b) for t, a, b in expected]
    assert all(p.index == ("I",) and p.tensor == "A" and p.dimension == 0 for p in found)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("A_{I_i,j}", {"I": (0, 9)}),
        ("A_{I_i//8,j}", {"I": (0, 79)}),
        ("A_{I_i*3-20+j,j}", {"I": (7, 8)}),
        ("A_{min(I_i,0)+J_i,j}", {"I": (0, 16), "J": (0, 9)}),  # nothing bounds I from above
        ("A_{I_i+J_i-100,j}", {"I": (0, 9), "J": (100, 100)}),
        ("A_{cast(i64,I_i),j}", {"I": (0, 9)}),
        ("A_{I_i,j}+A_{I_i+7,j}", {"I": (0, 2)}),
        ("if_then_else(I_i>7,A_{max(I_i,9),j},0.0)", {"I": (-16, 9)}),
        ("A_{I_i%10,j}", {}),
        ("A_{I_i*I_i,j}", {}),
    ],
)
def test_ranges_of_inputs_satisfy_the_preconditions(value: str, expected: dict[str, tuple[int, int]]):
    program = parse(GATHER.replace("I^", "J^{i32}_8,I^").replace("VALUE", value))
    assert check(program) == ()
    assert input_ranges(program) == expected


@pytest.mark.parametrize(
    ("value", "unusable"),
    [
        ("A_{max(min(I_i,0),10),j}", True),
        ("A_{abs(I_i)+j+10,j}", True),
        ("if_then_else(j==1,A_{max(I_i,10),j},0.0)", True),  # every input reaches it
        ("if_then_else(I_i>3,A_{max(I_i,10),j},0.0)", False),  # none need
        ("if_then_else(A_{0,0}>0.0,A_{max(I_i,10),j},0.0)", False),
    ],
)
def test_a_gather_that_no_input_satisfies_is_refused(value: str, unusable: bool):
    found = check(parse(GATHER.replace("VALUE", value)))
    assert [d.code for d in found] == (["gather-out-of-range"] if unusable else [])
    assert all("whatever I holds" in d.message for d in found)


def test_a_precondition_names_its_place():
    (found,) = preconditions(parse(GATHER.replace("VALUE", "2.0*A_{I_i,j}")))
    assert found == Precondition(("I",), parse_expression("I_i"), 0, 9, "A", 0, Place((0, 0, 0), (1, 1, 0)))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("T^{i32,g}_8;L^8_i[T_i=cast(i32,i+2);]L^8_i[C_i=A_{T_i};]", []),
        ("T^{i32,g}_8;L^8_i[T_i=i+2;]L^8_i[C_i=A_{T_i};]", []),
        ("T^{i32,g}_8;L^8_i[T_i=i+3;]L^8_i[C_i=A_{T_i};]", ["gather-out-of-range"]),
        ("T^{i32,g}_8;L^8_i[T_i=I_i%10;]L^8_i[C_i=A_{T_i};]", []),
        ("T^{i32,g}_8;L^8_i[T_i=if_then_else(I_i>3,I_i%4,i);]L^8_i[C_i=A_{T_i};]", []),
        ("T^{i32,g}_8;L^8_i[T_i=I_i;]L^8_i[C_i=A_{T_i};]", ["gather-out-of-range"]),
        ("T^{i32,g}_8;L^8_i[T_i=0;](I_0>=0&&I_0<10)[T_0=I_0;]L^8_i[C_i=A_{T_i};]", []),
        ("T^{i32,g}_8;L^8_i[T_i=0;]L^8_i[T_i=T_i+1;]L^8_i[C_i=A_{T_i};]", ["gather-out-of-range"]),
        ("T^{i32,g}_8;L^8_i[T_i=0;T_i=T_i%3;]L^8_i[C_i=A_{T_i};]", []),
        ("T^{i32,g}_8;L^8_i[T_i+=I_i%3;]L^8_i[C_i=A_{T_i};]", ["gather-out-of-range"]),
        ("T^{i32,g}_8;L^8_i[T_i=I_i;](T_0>=0&&T_0<10)[C_0=A_{T_0};]L^8_i[C_i=1.0;]", []),
        ("T^{i32,g}_8;L^8_i[T_i=I_i;](T_0>=0&&T_0<10)[T_0=99;C_0=A_{T_0};]L^8_i[C_i=1.0;]", ["gather-out-of-range"]),
        ("L^8_i(I_i>=0&&I_i<8)[D_{I_i}=1.0;]L^8_i[C_i=A_i;]", ["gather-out-of-range"]),
        ("D^{f32,g}_8;L^8_i(I_i>=0&&I_i<8)[D_{I_i}=1.0;]L^8_i[C_i=A_i;]", []),
        ("L^8_i[D_i=1.0;]L^8_i[C_i=D_{I_i};]", []),
        ("L^8_i[D_{I_i%8}=1.0;]L^8_i[C_i=A_i;]", []),
        ("L^{3,3}_{i,j}[C_{i*j}=A_i;]L^8_i[C_i=A_i;]", []),
        ("L^{3,4}_{i,j}[C_{i*j+2}=A_i;]L^8_i[C_i=A_i;]", ["bounds-not-proven"]),
    ],
)
def test_an_integer_temporary_is_bounded_by_what_defines_it(body: str, expected: list[str]):
    program = parse("in A_{10},I^{i32}_8;out C_8;" + body)
    assert [d.code for d in check_bounds(program)] == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("T_0=A_0;L^7_{i=1}[T_i=T_{i-1}+A_i;]L^8_i[C_i=T_i;]", []),
        ("L^7_{i=1}[T_i=exp(T_{i-1});]L^8_i[C_i=T_i;]", ["read-before-write", "read-before-write"]),
        ("L^8_i(i%2==0)[T_i=A_i;]L^4_i[T_{i*2+1}=A_i;]L^8_i[C_i=T_i;]", []),
        ("L^8_i(i%2==0)[T_i=A_i;]L^8_i(i%2==0)[C_i=T_i;]L^8_i(i%2==1)[C_i=A_i;]", []),
        ("L^8_i(i%2==0)[T_i=A_i;]L^8_i(i%2==0)[C_i=T_i;]", ["output-not-written"]),
        ("L^8_i[T^{f32,l}_2;L^2_j[T_j=A_i;]C_i=T_1;]", []),
        ("L^8_i[T^{f32,l}_2;(i>0)[C_i=T_1;]L^2_j[T_j=A_i;]]C_0=A_0;", ["read-before-write"]),
        ("L^8_i[T^{f32,l};T+=A_i;C_i=T;]", []),
        ("T^{f32,g}_9;L^8_i[T_i+=A_i;]L^8_i[C_i=T_{i+1};]", ["read-before-write"]),
        ("L^8_i[C_i=T_i;]L^8_i[T_i+=A_i;]", []),
        ("L^8_i[C_i=T_i;]L^8_i(I_i>0)[T_i+=A_i;]", []),
        ("L^8_i(I_i>0)[T_i=A_i;]L^8_i[C_i=T_i;]", ["read-before-write"]),
        ("L^8_i[M^{f32,l};(I_i>3)[M=A_i;C_i=M*2.0;]C_i=A_i;]", []),
        ("L^8_i[M^{f32,l};(I_i>3)[M=A_i;](I_i>3)[C_i=M*2.0;]C_i=A_i;]", ["read-before-write"]),
        ("L^8_i[M^{f32,l};(I_i>3)[L^2_j(j<1)[M=A_i;]C_i=M*2.0;]C_i=A_i;]", []),
        ("L^8_i[T_i max=A_i;]L^8_i[T_i+=A_i;]L^8_i[C_i=T_i;]", []),
        ("L^7_i[T_i max=A_i;]L^8_i[T_i+=A_i;]L^8_i[C_i=T_i;]", ["read-before-write"]),
        ("L^8_i[C_i=0.0;]L^8_i[C_i+=A_i;]", []),
        ("L^7_i[C_i=0.0;]L^8_i[C_i+=A_i;]", ["read-before-write"]),
        ("L^8_i[T_i=A_i;]L^8_i[C_i=T_{I_i%8};]", []),
        ("L^7_i[T_i=A_i;]T_{I_0%8}=A_0;L^8_i[C_i=T_{I_i%8};]", ["read-before-write"]),
        ("L^8_i[T_i=A_i;C_i=if_then_else(i<7,T_i,T_{i-7});]", []),
        ("L^8_i[C_i=if_then_else(i<7,T_i,A_i);T_i=A_i;]", ["read-before-write"]),
        ("L^8_i[C_i=if_then_else(i>7,T_i,A_i);T_i=A_i;]", []),
        ("D+=A_0;L^8_i[C_i=A_i;]", []),
        ("T^{f32,g}_8;L^8_i[C_i=T_i;]", ["read-before-write"]),
        ("L^8_i[M^{f32,l};C_i=M;]", ["read-before-write"]),
        ("L^8_i[T_{7-i}=A_i;]L^{2,4}_{a,b}[C_{a*4+b}=T_{b*2+a};]", []),
        ("L^{2,4}_{a,b}[T_{a*4+b}=A_a;]L^8_i[C_i=T_i;]", []),
        ("L^{2,3}_{a,b}[T_{a*4+b}=A_a;]L^8_i[C_i=T_i;]", ["read-before-write"]),
    ],
)
def test_definedness(body: str, expected: list[str]):
    program = parse("in A_8,I^{i32}_8;out C_8;" + body)
    assert [d.code for d in check_definedness(program)] == expected


@pytest.mark.parametrize(
    ("right", "wrong", "code"),
    [
        ("out C_8;L^8_i[T_i=A_i;]L^8_i[C_i=T_i;]", "out C_8;L^7_i[T_i=A_i;]L^8_i[C_i=T_i;]", "read-before-write"),
        ("out C_8;L^8_i[T_i=A_i;]L^8_i[C_i=T_i;]", "out C_8;L^8_i[C_i=T_i;]L^8_i[T_i=A_i;]", "read-before-write"),
        ("out C_8;L^8_i[C_i=A_i;]", "out C_9;L^8_i[C_i=A_i;]", "output-not-written"),
        ("out C_8;L^7_i[T_i=A_i;]L^8_i[C_i=A_i;]", "out C_8,T_8;L^7_i[T_i=A_i;]L^8_i[C_i=A_i;]", "output-not-written"),
        ("out C_8;L^2_j[T_j max=A_j;]L^2_j[T_j+=A_j;]L^2_j[D_j=T_j;]L^8_i[C_i=A_i;]",
         "out C_8;L^1_j[T_j max=A_j;]L^2_j[T_j+=A_j;]L^2_j[D_j=T_j;]L^8_i[C_i=A_i;]", "read-before-write"),
    ],
)  # fmt: skip
def test_what_was_found_defined_in_one_program_is_not_in_another(right: str, wrong: str, code: str):
    for text, expected in ((right, set[str]()), (wrong, {code}), (right, set[str]())):
        assert {d.code for d in check_definedness(parse("in A_8;" + text))} == expected


def test_extents_of_a_hundred_million_are_exact():
    index = "i*10000+j"
    text = (
        "in A_{100000000};out C_{100000000};"
        f"L^{{10000,10000}}_{{i,j}}[C_{{({index})//1000*1000+({index})%1000}}=A_{{{index}}};]"
    )
    assert codes(text) == []
    assert "output-not-written" in codes(text.replace("L^{10000,10000}", "L^{10000,9999}"))


@pytest.mark.parametrize("number", range(120))
def test_bounds_are_what_running_finds(number: int):
    program = affine_program(f"bounds {number}")
    expected: set[Place] = set()
    for event in events(program):
        for n, (index, size) in enumerate(zip(event.indices, tensors(program)[event.tensor].shape, strict=True)):
            if not 0 <= index < size:
                expected.add(Place(event.statement, (*(event.place.within or ()), n)))
    assert {d.place for d in check_bounds(program)} == expected


@pytest.mark.parametrize("number", range(120))
def test_definedness_is_what_running_finds(number: int):
    program = affine_program(f"defined {number}")
    ran = events(program)
    first = {}
    for _, node in walk(program):
        if isinstance(node, Equation):
            first.setdefault(node.target.tensor, node.op)
    ever = {(e.tensor, e.element) for e in ran if e.mode != "read"}
    written: set[object] = set()
    expected: set[Place] = set()
    for event in ran:
        key, filled = (event.tensor, event.element), first.get(event.tensor, "=") != "="
        asked = event.tensor in first or tensors(program)[event.tensor].alloc is not None
        if asked and event.mode != "write" and not (filled and event.op == first[event.tensor]):
            defined = key in (ever if filled and event.mode == "read" else written)
            if not defined:
                expected.add(event.place)
        if event.mode != "read":
            written.add(key)
    outside = {e.place for e in ran if not _is_inside(program, e)}  # the bounds are another check's to judge
    outputs = {e.element for e in ran if e.tensor == "C" and e.mode != "read"}
    if any((index,) not in outputs for index in range(4)):
        expected.add(Place(declaration="C"))
    assert {d.place for d in check_definedness(program)} - outside == expected - outside


def _is_inside(program: Program, event: Event) -> bool:
    shape = tensors(program)[event.tensor].shape
    return all(0 <= index < size for index, size in zip(event.indices, shape, strict=True))


@pytest.mark.parametrize("number", range(150))
def test_conflicts_of_a_kernel_are_what_running_finds(number: int):
    program = kernel_program(f"kernel {number}")
    conflicts = _conflicts(program)
    found = {_code_of(d): d for d in check_kinds(program)}
    tensors_found = {re.search(r"both are (\w+?)(?:_|$)", d.message).group(1) for d in found.values()}  # pyright: ignore
    assert (found != {}) == (conflicts != set())
    assert tensors_found <= {tensor for tensor, _ in conflicts}


def _code_of(diagnostic: Diagnostic) -> tuple[str, Place, str]:
    return diagnostic.code, diagnostic.place, diagnostic.message


def _conflicts(program: Program) -> set[tuple[str, str]]:
    """Tensors over which blocks or threads of the one kernel conflict, with how."""
    scopes = {name: tensor.scope for name, tensor in tensors(program).items()}
    touched: dict[object, list[Event]] = {}
    for event in events(program):
        touched.setdefault((event.tensor, event.element), []).append(event)
    result: set[tuple[str, str]] = set()
    for group in touched.values():
        for a in group:
            for b in group:
                if a.mode == b.mode == "read" or _first(a, "b", "t") != _first(b, "b", "t"):
                    continue
                if _coordinates(a, "b") != _coordinates(b, "b"):
                    result.add((a.tensor, "blocks"))
                elif _coordinates(a, "t") != _coordinates(b, "t") and (
                    scopes[a.tensor] != "s" or _first(a, "t") == _first(b, "t")
                ):
                    result.add((a.tensor, "threads"))
    return result


def _coordinates(event: Event, kind: str) -> dict[str, int]:
    """The nonzero coordinates of an event's block or thread."""
    found = {axis_of(loop): value - loop.first for _, loop, value in event.loops if axis_of(loop).startswith(kind)}
    return {axis: value for axis, value in found.items() if value}


def _first(event: Event, *kinds: str) -> tuple[Path, tuple[int, ...]] | None:
    """The outermost loop of an axis, and the values of the loops around it: a run of a kernel, or of a phase."""
    for number, (path, loop, _) in enumerate(event.loops):
        if axis_of(loop).startswith(kinds):
            return path, event.values[:number]
    return None
