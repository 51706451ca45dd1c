"""Substitution without capture, renaming, unused names."""

from leir import names
from leir.parser import parse, parse_expression
from leir.printer import statement_text, to_text
from leir.syntax import Integer, Loop, Variable
from tests.programs import random_program

PROGRAM = parse("""
    in A_{4,4},D_4;out C_4;
    T^{f32,g}_4;
    L^{4,4}_{i,j}(j<i)[T_i+=A_{i,j}*D_j;]
    L^4_i[C_i=T_i;C_i max=0.0;]
""")


def loop(text: str) -> Loop:
    (statement,) = parse(f"in A_9;out C_9;{text}").body
    assert isinstance(statement, Loop)
    return statement


def test_substitution() -> None:
    nest = loop("L^4_j[C_{i+j}=A_j*i;]")
    assert statement_text(names.substitute(nest, {"i": parse_expression("a*8+b")})) == "L^4_j[C_{a*8+b+j}=A_j*(a*8+b);]"
    assert names.substitute(nest, {"j": Integer(0)}) == nest  # bound below: hidden
    assert names.substitute(nest, {}) is nest


def test_substitution_does_not_capture() -> None:
    nest = loop("L^4_j[L^4_k(k<i)[C_{i+j}=A_k;]]")
    result = names.substitute(nest, {"i": parse_expression("j*2+k")})
    assert names.free_variables(result) == ("j", "k")
    assert isinstance(result, Loop)
    inner = result.body[0]
    assert isinstance(inner, Loop)
    assert len({result.variable, inner.variable} - {"i", "j", "k"}) == 2
    block = loop("B^4_{tx}[C_{tx+i}=A_{tx};]")
    renamed = names.substitute(block, {"i": Variable("tx")})
    assert isinstance(renamed, Loop)
    assert renamed.variable.startswith("tx")
    assert renamed.variable != "tx"


def test_substitution_is_all_at_once() -> None:
    swapped = names.substitute_in(parse_expression("i-j"), {"i": Variable("j"), "j": Variable("i")})
    assert swapped == parse_expression("j-i")


def test_free_and_bound_variables() -> None:
    nest = loop("L^4_j(j<n)[C_{i+j}=A_{k};]")
    assert names.free_variables(nest) == ("i", "k", "n")
    assert names.bound_variables(nest) == {"j"}
    assert names.bound_variables(PROGRAM) == {"i", "j"}
    assert names.variables_around(PROGRAM, (1, 0, 0, 0)) == {"i", "j"}
    assert names.variables_around(PROGRAM, (2,)) == {"i"}


def test_renaming_tensors_is_all_at_once() -> None:
    swapped = names.rename_tensors(PROGRAM, {"A": "D", "D": "A", "T": "C", "C": "T"})
    assert to_text(swapped) == to_text(PROGRAM).translate(str.maketrans("ADTC", "DACT"))
    assert names.rename_tensors(swapped, {"A": "D", "D": "A", "T": "C", "C": "T"}) == PROGRAM


def test_renaming_nothing_changes_nothing() -> None:
    for seed in range(50):
        program = random_program(seed)
        assert names.rename_tensors(program, {}) == program


def test_unused_names() -> None:
    assert names.tensor_names(PROGRAM) == {"A", "C", "D", "T"}
    assert names.unused_tensor(PROGRAM) == "E"
    everything = list("ACDEFGHIJKMNOQRSTWXYZ")
    assert names.unused_tensor(everything) == "A1"
    assert names.unused_variable([]) == "i"
    assert names.unused_variable("ijklmnopqrstuvwxyzabcdefgh") == "i1"
    assert names.unused_variable(["tx"], axis="tx") == "txa"
    numbered = [f"{letter}{number}" for number in (1, 2, 3) for letter in "ijklmnopqrstuvwxyzabcdefgh"]
    taken = [*"ijklmnopqrstuvwxyzabcdefgh", *numbered]
    assert names.unused_variable([n for n in taken if n not in ("i8", "i32")] + ["i4"]) == "j4"


def test_unused_variables_are_never_reserved() -> None:
    taken = list[str]()
    for _ in range(2000):
        name = names.unused_variable(taken)
        assert name not in ("i8", "i32", "i64", "f16", "f32", "f64", "tx", "bx")
        taken.append(name)
    assert len(set(taken)) == 2000
