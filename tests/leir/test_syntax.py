"""Nodes are values: what they keep of a question asked of them is no part of them."""

import pickle

from leir.parser import parse
from leir.syntax import Access, Binary, Call, Cast, Equation, Expr, Real, Select, Unary, Variable

PROGRAM = "in A_{4};out C_{4};\nL^{4}_i[(i<3)[C_i=exp(A_i)-cast(f32,i);]]\n"


def nodes() -> tuple[Expr, ...]:
    """One of each kind of expression that has operands, new at each call."""
    i = Variable("i")
    less = Binary("<", i, i)
    return (Access("A", (i,)), Unary("-", i), less, Call("exp", (i,)), Cast("f32", i), Select(less, i, i))


def test_equal_nodes_have_one_hash_and_others_differ() -> None:
    first, second = nodes(), nodes()
    assert first == second
    assert list(map(hash, first)) == list(map(hash, second))
    assert first == second
    assert len({*first, *second}) == len(first)


def test_a_hash_is_not_pickled_and_not_shown() -> None:
    for made in (*nodes(), parse(PROGRAM)):
        before = pickle.dumps(made), repr(made)
        hash(made)
        assert (pickle.dumps(made), repr(made)) == before


def test_a_hash_is_asked_of_the_fields_once() -> None:
    class Counted(float):
        asked = 0

        def __hash__(self) -> int:
            Counted.asked += 1
            return super().__hash__()

    deep = Equation(Access("C"), "=", Unary("-", Real(Counted(2.0))))
    assert hash(deep) == hash(deep)
    assert hash(deep.value) == hash(deep.value)
    assert Counted.asked == 1
