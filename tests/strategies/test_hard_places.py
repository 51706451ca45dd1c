"""The loop and memory strategies where nests are not plain: each has legal steps at each kind of place, which keep the
meaning.

Every program has a temporary that lives for one iteration, a sum, a subscript that needs a division, and a nest of one
equation, all below the structure that its name says.
"""

import pytest

from leir.parser import parse
from strategies.base import Applied
from strategies.catalog import strategy
from tests.strategies.judging import judge
from tests.strategies.walks import Trial, tried

STRATEGIES = (
    "loop_reorder", "loop_tiling", "loop_split", "loop_fusion", "loop_unrolling", "loop_parallelization",
    "loop_vectorization", "loop_binding", "reduction_factorization", "cache_read_write", "layout_transformation",
    "set_storage_scope", "set_storage_layout", "precompute_indices",
)  # fmt: skip
JUDGED = 4  # legal steps of a strategy on a program

_OUT = "in A_{8,8},W_8;out C_{8,8},D_8,F_{8,8};"
_BODY = "[E_{i,j}=A_{i,j//3*2};D_{i}+=E_{i,j};C_{i,j}=E_{i,j};]"
_COPY = "[F_{i,j}=A_{i,j};]"
_START = "L^{8,8}_{i,j}[C_{i,j}=0.0;F_{i,j}=0.0;]L^8_i[D_i=0.0;]"
_NESTS = f"L^{{8,8}}_{{i,j}}{_BODY}L^{{8,8}}_{{i,j}}{_COPY}"
_PREFIX = "S_{i,j}=S_{i,j-1}*exp(M_{i,j-1}-M_{i,j})+exp(E_{i,j}-M_{i,j});"
PLACES = {
    "in a nested body": f"{_OUT}L^8_i[D_i=W_i;L^8_j[E_{{i,j}}=A_{{i,j//3*2}};"
    f"L^{{8,8}}_{{k,l}}[D_i+=E_{{i,j}}*A_{{k,l}};]C_{{i,j}}=E_{{i,j}};]L^8_j{_COPY}]",
    "with several statements": _OUT + _NESTS,
    "in a recurrence": f"{_OUT}L^8_i[C_{{i,0}}=W_i;]L^{{8,7}}_{{i,j=1}}[E_{{i,j}}=A_{{i,j//3*2}};"
    f"C_{{i,j}}=C_{{i,j-1}}*0.5+E_{{i,j}};]L^{{8,8}}_{{i,j}}[D_i+=C_{{i,j}};]L^{{8,8}}_{{i,j}}{_COPY}",
    "in a prefix form": f"{_OUT}L^8_i[M_{{i,0}}=W_i;S_{{i,0}}=1.0;L^7_{{j=1}}[E_{{i,j}}=A_{{i,j//3*2}};"
    f"M_{{i,j}}=max(M_{{i,j-1}},E_{{i,j}});{_PREFIX}]]L^{{8,8}}_{{i,j}}[C_{{i,j}}=S_{{i,j}};D_i+=S_{{i,j}};]"
    f"L^{{8,8}}_{{i,j}}{_COPY}",
    "under a guard": f"{_OUT}{_START}L^{{8,8}}_{{i,j}}(j<=i){_BODY}L^{{8,8}}_{{i,j}}(j<=i){_COPY}",
    "under a guard that reads": f"{_OUT}{_START}L^8_i(W_i>0.0)[L^8_j{_BODY}]L^8_i(W_i>0.0)[L^8_j{_COPY}]",
    "under the guard of a tail": f"{_OUT}L^{{2,5,8}}_{{a,b,j}}(a*5+b<8){_BODY.replace('i', 'a*5+b')}"
    f"L^{{2,5,8}}_{{a,b,j}}(a*5+b<8){_COPY.replace('i', 'a*5+b')}",
    "in parallel loops": f"{_OUT}P^8_iL^8_j{_BODY}P^8_iL^8_j{_COPY}",
    "in unrolled loops": f"{_OUT}U^8_iL^8_j{_BODY}U^8_iL^8_j{_COPY}",
    "beside vectors": f"{_OUT}L^{{8,8}}_{{i,j}}{_BODY}L^8_iV^8_j{_COPY}",
    "in bound loops": f"{_OUT}B^8_{{bx}}L^8_j{_BODY.replace('i', 'bx')}B^8_{{bx}}L^8_j{_COPY.replace('i', 'bx')}",
    "of flags": _OUT.replace("A_", "A^{bool}_").replace("C_", "C^{bool}_").replace("D_", "D^{i32}_") + _NESTS,
}
PLACES |= {
    f"of {dtype}": _OUT.replace("A_", f"A^{{{dtype}}}_")
    .replace("C_", f"C^{{{dtype}}}_")
    .replace("D_", f"D^{{{dtype}}}_")
    + _NESTS
    for dtype in ("f16", "bf16", "f64", "i8", "i32", "i64")
}
NONE = {  # strategies that have no work there, and why
    "in parallel loops": {"loop_binding": "only host loops may surround a kernel"},
    "in bound loops": {"loop_parallelization": "a parallel loop of a kernel would run serially"},
}


@pytest.mark.slow
@pytest.mark.parametrize("place", list(PLACES))
def test_every_strategy_has_legal_steps_there(place: str) -> None:
    program = parse(PLACES[place], place)
    idle: list[str] = []
    for name in STRATEGIES:
        trials = [Trial(program, step, tried(step, program)) for step in strategy(name).candidates(program)]
        legal = [trial for trial in trials if isinstance(trial.outcome, Applied)]
        judge(f"{name} {place}", legal[:JUDGED])
        idle += [] if legal else [name]
    assert idle == list(NONE.get(place, {}))
