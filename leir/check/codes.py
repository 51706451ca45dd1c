"""Every code that `check` may give, with its meaning. Codes are stable: other programs match on them."""

CODES: dict[str, str] = {
    # names
    "unknown-tensor": "a tensor is read that is no input, and that nothing writes",
    "unknown-variable": "no loop of the program binds the variable",
    "variable-out-of-loop": "the variable is used outside the loop that binds it",
    "shadowed-variable": "a loop binds a variable that a loop around it binds already",
    "input-written": "an equation writes an input",
    "duplicate-name": "the signature, or an allocation, declares a name of the signature again",
    "reserved-name": "a name is no name of the language: reserved, a loop kind, or spelled otherwise",
    "axis-prefix-missing": "the variable of a B loop does not start with its GPU axis",
    "no-such-text": "no text writes this tree: an empty list, an extent or size below 1, a wrong number of arguments",
    # rank and size
    "rank-mismatch": "a tensor is accessed with another number of subscripts than it has",
    "tensor-too-large": "a tensor has 2^31 elements or more, or more than 64 dimensions",
    "loop-too-long": "the last value of a loop variable does not fit i64",
    # types
    "subscript-not-integer": "a subscript is not an integer",
    "operand-not-integer": "// or % is applied to something that is not an integer",
    "power-of-integer": "the base of ** is an integer",
    "condition-not-bool": "a condition, or an operand of && || !, is not a boolean",
    "bool-accumulation": "a bool tensor is accumulated into",
    "literal-out-of-range": "a literal is converted to an integer type that cannot hold it",
    "accumulation-reads-target": "the value of an accumulation reads the tensor that it accumulates into",
    "divisor-maybe-zero": "the divisor of // or % is not proven nonzero",
    # allocation
    "allocated-twice": "a name has more than one allocation",
    "access-before-allocation": "a tensor is accessed before its allocation",
    "access-after-lifetime": "a tensor is accessed outside the statement list of its allocation",
    "global-not-at-top-level": "a g tensor is allocated inside a loop or guard",
    "shared-outside-block": "an s tensor is allocated outside the block loops of a kernel",
    "shared-in-thread-loop": "an s tensor is allocated inside a thread loop",
    "local-outside-kernel": "an l tensor is allocated at top level or around a kernel",
    "local-not-per-thread": "an l tensor of a block is accessed without the thread variables, in one order, in front",
    # kernels
    "block-in-thread-loop": "a block loop stands inside a thread loop",
    "axis-bound-twice": "a GPU axis is bound twice on one path",
    "block-loop-has-siblings": "something stands beside a block loop inside another block loop",
    "thread-loop-has-siblings": "something stands beside a thread loop inside another thread loop",
    "kernel-in-claimed-loop": "a P or V loop surrounds a kernel",
    "host-guard-reads-tensor": "a guard around a kernel reads a tensor",
    "divergent-barrier": "a phase stands under a guard that may differ between threads",
    "too-many-threads": "a block has more threads than the target allows",
    "extent-over-axis-limit": "a GPU axis is longer than the target allows",
    "shared-over-limit": "the s tensors of a block take more memory than the target has",
    "local-over-limit": "the l tensors of a thread take more memory than the target allows",
    "too-many-copies": "unrolled loops make more than 1,024 copies of a body",
    "vector-body": "the body of a V loop is not one equation, guarded or not",
    "vector-extent": "the extent of a V loop is not 2..64",
    # bounds
    "out-of-bounds": "a subscript leaves its tensor",
    "gather-out-of-range": "a subscript that reads a tensor is not proven to stay within its tensor",
    "bounds-not-proven": "a subscript, or a condition around it, is not quasi-affine and not proven to stay within",
    "integer-overflow": "an integer may leave its type, and a proof needs its exact value",
    # definedness
    "read-before-write": "an element is read that nothing has written",
    "output-not-written": "an element of an output is not provably written",
    "definedness-not-proven": "isl did not find within its limit what has written an element",
    # loop kinds
    "loop-carries-dependence": "iterations of a P, V or B loop depend on each other",
    "reduction-across-loop": "a P, V or B loop is reduced across",
    "independence-not-proven": "accesses of different iterations are not quasi-affine and may touch one element",
    "dependence-between-blocks": "two blocks of a kernel touch one element, and one of them writes it",
    "dependence-between-threads": "two threads touch one element in one phase, and one of them writes it",
    "phases-exchange-through-global": "data passes between threads, from phase to phase, through a g tensor",
    "local-used-by-two-threads": "two threads use one element of an l tensor",
}


def table() -> str:
    """The codes as a table in Markdown."""
    lines = ["| code | meaning |", "|---|---|"]
    lines += [f"| `{code}` | {meaning.replace('|', chr(92) + '|')} |" for code, meaning in CODES.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
