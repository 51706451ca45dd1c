"""Programs for tests of the catalog, and the steps to try on them.

Random programs give breadth; `PATTERNS` are programs in which the rarer strategies have work: neighbours with equal
headers, softmax in its forms, temporaries of one block or thread, gathers, guards that read, indices that repeat. A
walk tries steps on a program, then goes on from one of the results, so that states which only steps produce are tried
too.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from leir.check import check
from leir.parser import parse
from leir.syntax import Program
from strategies.base import Applied, Refused, Strategy
from strategies.catalog import print_step
from tests.programs import keyed, random_program

PATTERNS = (
    """in A_{6,10};out C_{6,10};
    L^{6,10}_{i,j}[D_i max=A_{i,j};] L^{6,10}_{i,j}[E_i+=exp(A_{i,j}-D_i);]
    L^{6,10}_{i,j}[C_{i,j}=exp(A_{i,j}-D_i)/E_i;]""",
    """in A_{6,10};out C_{6,10};
    B^6_{tx}L^{10}_j[D_{tx} max=A_{tx,j}*0.5;] B^6_{tx}L^{10}_j[E_{tx}+=exp(A_{tx,j}*0.5-D_{tx});]
    B^6_{tx}L^{10}_j[C_{tx,j}=A_{tx,j}*0.5-D_{tx}-log(E_{tx});]""",
    """in A_{4,5,3},W_{3,6};out C_{4,5,6};
    P^4_bL^{5,6,3}_{i,j,k}[D_{b,i,j}+=A_{b,i,k}*W_{k,j};]
    P^4_bL^{5,6}_{i,j}[E_{b,i} max=if_then_else(j>=i-1,D_{b,i,j},-inf);]
    P^4_bL^{5,6}_{i,j}[F_{b,i}+=exp(if_then_else(j>=i-1,D_{b,i,j},-inf)-E_{b,i});]
    P^4_bL^{5,6}_{i,j}[C_{b,i,j}=if_then_else(j>=i-1,exp(D_{b,i,j}-E_{b,i})/F_{b,i},0.0);]""",
    """in A^{f64}_{7,7};out C^{f64}_{7,7};
    L^7_i[L^7_j(j<=i)[D_i max=A_{i,j};]L^7_j(j<=i)[E_i+=exp(A_{i,j}-D_i);]
    L^7_j[C_{i,j}=if_then_else(j<=i,exp(A_{i,j}-D_i)/E_i,0.0);]]""",
    """in A_{8,6};out C_{8,6};
    B^8_{bx}[D^{f32,l};E^{f32,l};L^6_j[D max=A_{bx,j};]L^6_j[E+=exp(A_{bx,j}-D);]
    L^6_j[C_{bx,j}=exp(A_{bx,j}-D)/E;]]""",
    """in A_{2,4,3},C_{6,3},D_{6,3};out E_{2,4,3};
    L^{2,4,6,3}_{h,i,j,k}[F_{h,i,j}+=A_{h,i,k}*C_{j,k};]
    L^{2,4,6}_{h,i,j}[G_{h,i,j}=if_then_else(j<=i+1,F_{h,i,j},-inf);]
    L^{2,4,6}_{h,i,j}[H_{h,i} max=G_{h,i,j};] L^{2,4,6}_{h,i,j}[I_{h,i}+=exp(G_{h,i,j}-H_{h,i});]
    L^{2,4,3,2,3}_{h,i,k,j,l}[E_{h,i,k}+=exp(G_{h,i,j*3+l}-H_{h,i})/I_{h,i}*D_{j*3+l,k};]""",
    """in A_{8,6},W_{6,5},X_5;out C_{8,5};
    L^{8,5,6}_{i,j,k}[D_{i,j}+=A_{i,k}*W_{k,j};] L^{8,5}_{i,j}[E_{i,j}=D_{i,j}+X_j;]
    L^{8,5}_{j,i}[C_{j,i}=max(E_{j,i},0.0);]""",
    """in A_{4,12};out C_{4,12},D_4;
    B^4_{bx}[B^{12}_{tx}[E_{bx,tx}=A_{bx,tx}*2.0;]B^{12}_{tx}[F_{bx,tx}=E_{bx,tx}+1.0;]B^{12}_{txa}[C_{bx,txa}=F_{bx,txa};]
    L^{12}_j[G_{bx}+=A_{bx,j};]D_{bx}=G_{bx};]""",
    """in A_{5,9};out C_{5,9},D_{5,9};
    L^5_i[L^{3,4}_{j,k}(j*4+k<9)[E_{i,j*4+k}=A_{i,j*4+k}*A_{i,j*4+k};]L^{3,4}_{k,j}(k*4+j<9)[C_{i,k*4+j}=E_{i,k*4+j};]]
    L^{5,9}_{i,j}[D_{i,j}=C_{i,8-j};] L^{5,9}_{i,j}[C_{i,j}=C_{i,j}*0.5;]""",
    """in A^{i32}_{6,4},X^{f16}_{6,4};out C^{i32},D^{f16}_6;
    L^{6,4}_{i,j}[C+=A_{i,j}*2;] L^{6,4}_{i,j}[D_i+=X_{i,j};] L^6_i[E_i=D_i;] L^6_i[D_i=E_i*0.5;]""",
    """in A_{6,6};out C_{6,6};
    L^6_i[C_{i,0}=A_{i,0};] L^5_{j=1}[C_{0,j}=A_{0,j};]
    L^{5,5}_{i=1,j=1}[C_{i,j}=max(C_{i-1,j},C_{i,j-1})+A_{i,j};]""",
    # a tiled product: shared tiles, phases, an accumulator in registers
    """in A_{4,6},W_{6,4};out C_{4,4};
    B^{2,2}_{by,bx}[S^{f32,s}_{2,3};T^{f32,s}_{3,2};R^{f32,l}_{2,2};
      L^2_k[B^{2,3}_{ty,tx}[S_{ty,tx}=A_{by*2+ty,k*3+tx};]B^{3,2}_{ty,tx}[T_{ty,tx}=W_{k*3+ty,bx*2+tx};]
            B^{2,2}_{ty,tx}L^3_m[R_{ty,tx}+=S_{ty,m}*T_{m,tx};]]
      B^{2,2}_{ty,tx}[C_{by*2+ty,bx*2+tx}=R_{ty,tx};]]""",
    # gathers, clamped; a target through an index; a host loop
    """in A_{7,5},I^{i32}_6,W^{i32}_6;out C_{6,5},D_7;
    L^{6,5}_{i,j}[C_{i,j}=A_{min(max(I_i,0),6),j}*2.0;] L^7_i[D_i=0.5;]
    L^6_i[D_{min(max(W_i,0),6)}+=A_{i,0};]""",
    # guards that read tensors protect an access, and choose who writes
    """in A_{6,8},I^{i32}_6,M^{bool}_8;out C_{6,8},D_6;
    L^{6,8}_{i,j}[C_{i,j}=if_then_else(I_i>=0&&I_i<8,A_{i,min(max(I_i,0),7)},0.0);]
    L^6_i[D_i=1.0;L^8_j(M_j)[D_i+=A_{i,j};]]
    L^{6,8}_{i,j}(M_j)[C_{i,j}=C_{i,j}+D_i;]""",
    # f16 and f64 temporaries, a flag per row, loops that begin elsewhere
    """in A^{f16}_{6,8};out C^{f16}_{6,8},D^{f32}_6;
    E^{f32,g}_{7,9};F^{bool,g}_6;
    L^{6,8}_{i=1,j=1}[E_{i,j}=A_{i-1,j-1}*0.5;] L^6_i[F_i=A_{i,0}>A_{i,7};]
    L^{6,8}_{i,j}[C_{i,j}=if_then_else(F_i,E_{i+1,j+1},A_{i,7-j});]
    L^6_{i=1}[D_{i-1}=0.0;L^8_{j=1}[D_{i-1}+=E_{i,j};]]""",
    # a recurrence, a running maximum, a window with a tail
    """in A_{4,10};out C_{4,10},D_{4,10},E_{4,8};
    L^4_i[C_{i,0}=A_{i,0};L^9_{j=1}[C_{i,j}=C_{i,j-1}*0.5+A_{i,j};]]
    L^4_i[F_{i,0}=A_{i,0};L^9_{j=1}[F_{i,j}=max(F_{i,j-1},A_{i,j});]]
    L^{4,10}_{i,j}[D_{i,j}=F_{i,j}-A_{i,9-j};]
    L^{4,3,3}_{i,k,u}L^3_m(k*3+u<8)[E_{i,k*3+u}+=A_{i,k*3+u+m};]""",
    # integers, divisions of indices, a product and a minimum
    """in A^{i32}_{24};out C^{i32}_{24},D^{i32},E^{i32}_4;
    L^{24}_i[C_i=A_{i//6%4*6+i%6}+A_{i//6%4*6+(i+1)%6};] D=7; L^{24}_i[D min=A_i;]
    L^{4,6}_{i,j}[E_i max=A_{i*6+j};]""",
    # blocks that share, a sum of threads in a shared tensor, a host loop around kernels
    """in A_{3,4,6};out C_{3,4},D_4;
    L^3_kB^4_{bx}[S^{f32,s}_6;T^{f32,s};B^6_{tx}[S_{tx}=A_{k,bx,tx}*2.0;]T=0.0;L^6_j[T+=S_j;]C_{k,bx}=T;]
    B^4_{tx}[R^{f32,l};L^3_k[R+=C_{k,tx};]D_{tx}=R;]""",
    # vectors, unrolled and parallel loops, an accumulator of a row that is partly used
    """in A_{6,8},W_8;out C_{6,8},D_6;
    P^6_i[E^{f32,l}_8;V^8_j[E_j=A_{i,j}*W_j;]U^4_u[E_u=E_u+E_{7-u};]V^8_j[C_{i,j}=E_j;]]
    L^6_i[U^4_j[F_i+=C_{i,2*j};]] L^6_i[D_i=F_i+1.0;]""",
    # a fill of which only a part is written; an output read back backwards; one tensor used twice
    """in A_{5,6};out C_{5,6},D_6;
    L^{5,6}_{i,j}(j<=i)[E_{i,j}+=A_{i,j};] L^{5,6}_{i,j}(j>i)[E_{i,j}+=1.0;]
    L^{5,6}_{i,j}[C_{i,j}=E_{i,j}*2.0;] L^6_j[D_j=0.0;L^5_i[D_j+=C_{4-i,j};]]
    L^6_j[D_j=D_j+E_{4,5-j};]""",
    # temporaries of an iteration, made anew, with an accumulation inside
    """in A_{4,3,5};out C_{4,3};
    L^4_iL^3_j[R^{f32,l};S^{f32,l}_5;L^5_k[S_k=A_{i,j,k}*A_{i,j,4-k};]L^5_k[R+=S_k;]C_{i,j}=R;]""",
    # polynomials: terms to collect, to factor, to distribute, to cancel
    """in A_{5,6},W_6,X_5;out C_{5,6},D_{5,6},E_6;
    L^{5,6}_{i,j}[C_{i,j}=A_{i,j}*A_{i,j}*W_j+W_j*X_i*A_{i,j}-A_{i,j}*A_{i,j}*X_i+0.5*X_i;]
    L^{5,6}_{i,j}[D_{i,j}=(A_{i,j}+W_j)*X_i-X_i*(W_j-A_{i,j})+X_i-A_{i,j};]
    L^{5,6}_{i,j}[E_j+=A_{i,j}*A_{i,j}-X_i*X_i;]""",
    # fractions, over divisors that stay away from zero
    """in A_{5,6},W_6;out C_{5,6},D_{5,6},E_{5,6};
    L^{5,6}_{i,j}[F_{i,j}=1.0+A_{i,j}*A_{i,j};]
    L^{5,6}_{i,j}[C_{i,j}=(W_j+A_{i,j})/F_{i,j}+W_j/F_{i,j}-A_{i,j}/(2.0+abs(W_j));]
    L^{5,6}_{i,j}[D_{i,j}=0.5*A_{i,j}*F_{i,j}/F_{i,j}+1.0/(1.0/(1.0+W_j*W_j));]
    L^{5,6}_{i,j}[E_{i,j}=A_{i,j}*W_j*A_{i,j}/F_{i,j}*0.25+W_j-A_{i,j}+A_{i,j};]""",
    # projections of one input, under other names; activations of two tensors; halves of one result
    """in A_{4,6},W_{6,5},X_{3,6};out C_{4,5},D_{3,4},E_4,F_4;
    L^{4,5,6}_{i,j,k}[C_{i,j}+=A_{i,k}*W_{k,j};] L^{3,4,6}_{x,y,z}[D_{x,y}+=A_{y,z}*X_{x,z};]
    L^2_i[E_i=exp(A_{i,0})*0.5;] L^2_{i=2}[E_i=0.5*exp(A_{i-1,1});] L^4_i[F_i=exp(E_i*0.1)*0.5;]""",
    # exponentials, roots, powers and logarithms of values with bounds
    """in A_{4,6},X_{4,6};out C_{4,6},D_{4,6},E_{4,6},F_{4,6};
    L^{4,6}_{i,j}[C_{i,j}=exp(tanh(A_{i,j}))*X_{i,j}*exp(tanh(X_{i,j}))/exp(tanh(A_{i,j}))*sqrt(X_{i,j}*X_{i,j}+1.0);]
    L^{4,6}_{i,j}[D_{i,j}=exp(tanh(A_{i,j})-tanh(X_{i,j}))*0.5+sqrt((A_{i,j}*A_{i,j}+1.0)/(X_{i,j}*X_{i,j}+2.0));]
    L^{4,6}_{i,j}[E_{i,j}=log(A_{i,j}*A_{i,j}+2.0)-log(X_{i,j}*X_{i,j}+2.0)+0.5*log(tanh(A_{i,j})+3.0)+log(exp(tanh(X_{i,j})));]
    L^{4,6}_{i,j}[F_{i,j}=log((A_{i,j}*A_{i,j}+1.0)*(X_{i,j}*X_{i,j}+2.0))+log(sqrt(A_{i,j}*A_{i,j}+1.0))+(tanh(A_{i,j})+2.0)**1.5;]""",
    # a padded convolution, strided, on blocks
    """in A_{2,7,7},W_{3,2,3,3};out C_{3,3,3};
    B^3_{bx}L^{3,3,2,3,3}_{y,x,c,u,v}(y*2+u>=1&&x*2+v>=1)[C_{bx,y,x}+=A_{c,y*2+u-1,x*2+v-1}*W_{bx,c,u,v};]""",
    # windows side by side: pools of two tensors, and convolutions of one with weights of their own
    """in A_{2,9},W_{2,3},X_{2,3};out C_{2,9};
    L^{2,9,3}_{i,j,k}(0<=j+k-1&&j+k-1<9)[D_{i,j}+=A_{i,j+k-1}*W_{i,k};]
    L^{2,9}_{i,j}[E_{i,j}=max(A_{i,j},0.0);]
    L^{2,9,3}_{i,j,k}(0<=j+k-1&&j+k-1<9)[F_{i,j} max=A_{i,j+k-1};]
    L^{2,9,3}_{i,j,k}(0<=j+k-1&&j+k-1<9)[G_{i,j}+=A_{i,j+k-1}*X_{i,k};]
    L^{2,9,3}_{i,k,u}(0<=k+u-1&&k+u-1<9)[H_{i,k} max=E_{i,k+u-1};]
    L^{2,9}_{i,j}[C_{i,j}=D_{i,j}*G_{i,j}+F_{i,j}-H_{i,j};]""",
    # bounded scores in blocks, a weighted mean by shares, a product and a term that could share a factor
    """in A_{4,16},X_{16,3},W_4;out C_{4,3},D_4;
    L^{4,16}_{i,j}[E_{i,j}=tanh(A_{i,j})*3.0;]
    L^{4,4,4}_{i,j,k}[F_{i,j} max=E_{i,j*4+k};] L^{4,4}_{i,j}[G_i max=F_{i,j};]
    L^{4,4,4}_{i,j,k}[H_i+=exp(E_{i,j*4+k}-G_i);]
    L^{4,16}_{i,j}[I_{i,j}=exp(E_{i,j}-G_i)/H_i;]
    L^{4,3,16}_{i,k,j}[C_{i,k}+=I_{i,j}*X_{j,k};]
    L^4_i[J_i=exp(0.1*tanh(W_i));] L^4_i[D_i=tanh(W_i)+J_i*A_{i,0};]""",
)


@dataclass(frozen=True, slots=True)
class Trial:
    """One step tried: what came of it."""

    program: Program
    step: Strategy
    outcome: Applied | Refused


def programs(seeds: range) -> Iterator[tuple[str, Program]]:
    """The patterns, and random programs, each with a name."""
    for number, text in enumerate(PATTERNS):
        yield f"pattern {number}", parse(text, f"<pattern {number}>")
    for seed in seeds:
        yield f"seed {seed}", random_program(seed)


def walk(
    name: str, program: Program, classes: tuple[type[Strategy], ...], *, depth: int, each: int | None,
    once: Collection[str] = (),
) -> Iterator[Trial]:  # fmt: skip
    """At every state of a walk of `depth` steps, `each` steps of every strategy (None: all of them), drawn by name.

    Of the strategies that `once` names it is one step a state.
    """
    assert not check(program), f"{name}: {check(program)}"
    for level in range(depth):
        legal: list[Trial] = []
        for cls in classes:
            steps = list(cls.candidates(program))
            draw = keyed(name, level, cls.name)
            most = 1 if cls.name in once else len(steps) if each is None else each
            for step in steps if most == len(steps) else draw.sample(steps, min(most, len(steps))):
                trial = Trial(program, step, tried(step, program))
                yield trial
                if isinstance(trial.outcome, Applied):
                    legal.append(trial)
        if not legal:
            return
        names = sorted({trial.step.name for trial in legal})
        chosen = keyed(name, level).choice(names)
        trials = [trial for trial in legal if trial.step.name == chosen]
        following = keyed(name, level, "next").choice(sorted(trials, key=lambda t: print_step(t.step)))
        assert isinstance(following.outcome, Applied)
        program = following.outcome.program


def tried(step: Strategy, program: Program) -> Applied | Refused:
    try:
        return step.apply(program)
    except Refused as refused:
        return refused
