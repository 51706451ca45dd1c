"""Errors planted in the strategies, one at a time: the tests must catch each.

A planted error is an edit of a module's source. The net is what the other tests do: each case of the strategy's file is
played and compared, and the steps on the cases and on a few patterns are held to the meaning of their programs.
"""

# ruff: noqa: E501 (one planted error a line)

import inspect
import sys
from collections import Counter
from dataclasses import dataclass
from types import ModuleType

import pytest

from leir.interp import InterpreterError
from leir.parser import parse
from leir.syntax import Program
from strategies import base
from strategies.base import Applied, Fact, Refused, Strategy
from strategies.catalog import strategy
from tests.leir.planted import planted as planted_in_leir
from tests.strategies.cases import played, read_cases
from tests.strategies.meaning import why_not_same_values
from tests.strategies.walks import PATTERNS, keyed, tried


@dataclass(frozen=True, slots=True)
class Planted:
    """`old` is replaced by `new` in the source of a strategy's module."""

    strategy: str
    what: str
    old: str
    new: str


PLANTED = (
    Planted("loop_split", "no guard for the tail", "if loop.extent % self.factor:\n            body", "if False:\n            body"),
    Planted("loop_split", "the tail's block is left out", "-(-loop.extent // self.factor)", "loop.extent // self.factor"),
    Planted("loop_split", "the first value is lost", "self.factor, loop.first, body", "self.factor, 0, body"),
    Planted("loop_split", "the first value counts twice", "first=0", "first=loop.first"),
    Planted("loop_split", "the new loop is called like one around or below", "return unused_variable(variables_around", 'return "j" or (variables_around'),
    Planted("loop_parallelization", "nothing is proved", "*independence(program, self.path)", 'True, "sure"'),
    Planted("loop_parallelization", "kernels below are not looked at", "not bound, where", "True, where"),
    Planted("loop_vectorization", "nothing is proved", "*independence(program, self.path)", 'True, "sure"'),
    Planted("loop_vectorization", "any stride will do", "if step not in (0, 1)", "if step == 10**9"),
    Planted("loop_vectorization", "any width will do", "NARROWEST <= loop.extent <= WIDEST, width", "True, width"),
    Planted("loop_unrolling", "only the loop itself is counted", "copies = prod(factors)", "copies = loop_at(program, self.path).extent"),
    Planted("loop_binding", "nothing is proved", "*independence(program, self.path)", 'True, "sure"'),
    Planted("loop_binding", "an axis may be bound twice", "self.kind not in taken, along", "True, along"),
    Planted("loop_binding", "the variable may be one around", "unused_variable(taken, axis=self.kind)", "self.kind"),
    Planted("loop_fusion", "the remainder is taken of the wrong extent", 'Binary("%", count, Integer(inner.extent))', 'Binary("%", count, Integer(outer.extent))'),
    Planted("loop_fusion", "first values are lost", "first=inner.first", "first=0"),
    Planted("loop_fusion", "the nest need not be perfect", "return loop.body[0] if len(loop.body) == 1 and", "return loop.body[-1] if"),
    Planted("loop_fusion", "a sum that is not the index passes for it", "and outer.first == 0:", "or expression == None:"),
    Planted("loop_tiling", "no test of the flow", "yield flow_preserved(", "yield Fact('flow-preserved', True, 'sure') if program else flow_preserved("),
    Planted("loop_tiling", "no guard for the tails", "if cut[0].extent % cut[1]]\n        last", "if False]\n        last"),
    Planted("loop_tiling", "a tail's block is left out", "-(-loop.extent // factor)", "loop.extent // factor"),
    Planted("loop_tiling", "first values are lost", "factor, loop.first, ()", "factor, 0, ()"),
    Planted("common_subexpression_elimination", "elements need not be the same", "all(_equal(statement, substitute_in(a, values), b) for a, b in pairs)", "True"),
    Planted("common_subexpression_elimination", "elements need not be computed", "missing = next(check_definedness(after, part.entry.tensor), None)", "missing = None"),
    Planted("common_subexpression_elimination", "other places keep computing", "for occurrence in found[: self.places]:", "for occurrence in found[:1]:"),
    Planted("common_subexpression_elimination", "other places read the first one's element", "Access(part.entry.tensor, indices)", "part.entry"),
    Planted("tensor_split_to_decouple_operators", "the second part begins at the start", "(self.at, loop.extent - self.at)", "(0, loop.extent - self.at)"),
    Planted("tensor_split_to_decouple_operators", "results may share an element", "apart = results_lie_apart(program, work)", "apart = True"),
    Planted("tensor_split_to_decouple_operators", "a recurrence may be cut", "read = reads_tensor(work, work.target)", "read = False"),
    Planted("tensor_split_to_decouple_operators", "a sum claims every bit", "return work.equation_path in reorderable_accumulations(program, self.path, exact=True)", "return True"),
    Planted("tensor_split_to_decouple_operators", "an overwriting loop may be cut", 'fits = loop in work.spatial or work.equation.op != "="', "fits = True"),
    Planted("tensor_split_to_decouple_operators", "the type of the output, not of the operand", "types[access.tensor], part", "program.outputs[0].dtype, part"),
    Planted("tensor_concat_to_fuse_operators", "the second nest need not be free to move", "yield flow_preserved(program, moved, origins, because=because)", "del moved, origins, because"),
    Planted("tensor_concat_to_fuse_operators", "one may read the other's result", "any(reads_tensor(w, target) for w in (one, other))", "False"),
    Planted("tensor_concat_to_fuse_operators", "results may share an element", "apart = all(results_lie_apart(program, work) for work in (one, other))", "apart = True"),
    Planted("tensor_concat_to_fuse_operators", "the first nest goes, and the second stays", "after = replace_at(program, self.other)", "after = program"),
    Planted("powsimp", "a quotient is taken for a product", 'total = Binary("-", a, b)', 'total = Binary("+", a, b)'),
    Planted("powsimp", "any base will do", "yield \"power-of-sum\", new, (base,)", "yield \"power-of-sum\", new, ()"),
    Planted("powsimp", "any exponential will do", "new, (), (one, other, new), need", "new, (), (), 0.0"),
    Planted("powsimp", "a factor is lost", "*_after(above, first, dropped_above)", "*_after(above, first + 2, dropped_above)"),
    Planted("expand_powsimp", "a difference becomes a product", "if term.minus else Binary(\"*\", one, other)", "if False else Binary(\"*\", one, other)"),
    Planted("expand_powsimp", "a sign is counted twice", "if term.minus else Binary(\"*\", one, other)", "if term.negative else Binary(\"*\", one, other)"),
    Planted("expand_powsimp", "roundings are free", "(own, one, other), CALL + STEP, CALL)", "(own, one, other), 0.0, CALL)"),
    Planted("logsimp", "differences are sums", 'Binary("*" if alike else "/", one, other)', 'Binary("*", one, other)'),
    Planted("logsimp", "any argument will do", "(one, other), (one, other, inner), STEP, spare", "(), (one, other, inner), STEP, spare"),
    Planted("logsimp", "roundings are free", "(one, other), (one, other, inner), STEP, spare", "(one, other), (one, other, inner), 0.0, spare"),
    Planted("expand_log", "logarithms may cancel", "need = 0.0 if sides[0] == sides[1] != 0 else", "need = 0.0 if True else"),
    Planted("expand_log", "any argument will do", "Form(name, one, None, new, (one, rest)", "Form(name, one, None, new, ()"),
    Planted("expand_log", "a root is a square", 'Real(0.5), Call("log"', 'Real(2.0), Call("log"'),
    Planted("compute_inline", "values are not rounded", "return Cast(self.tensor.dtype, value) if self.converts else value", "return value"),
    Planted("compute_inline", "other writes of operands are not looked for", "why = why_value_differs(program, path)", 'why = ""'),
    Planted("compute_inline", "elements may be written again", "apart = writes_apart(program, path)", "apart = True"),
    Planted("compute_inline", "the declaration stays", "after if alloc is None else replace_at(after, alloc)", "after"),
    Planted("compute_inline", "accumulations may go", 'is_store = equation.op == "="', "is_store = True"),
    Planted("dead_code_elimination", "no test of the flow", "yield flow_preserved(program, after, origins, removed=removed, because=because)", "del because, origins, removed, after"),
    Planted("dead_code_elimination", "a declaration may be used", "uses == 0, evidence", "True, evidence"),
    Planted("dead_code_elimination", "the first statement goes", "return replace_at(program, self.path)", "return replace_at(program, self.path[:1])"),
    Planted("dead_code_elimination", "a list may become empty", 'Fact("list-stays-filled", filled, evidence)', 'Fact("list-stays-filled", True, evidence)'),
    Planted("operator_fission", "no test of the flow", "yield flow_preserved(program, after, same_loops(program, after), because=because)", "del after, because"),
    Planted("operator_fission", "the second part comes first", "*nested(levels, first), *nested(levels, second))", "*nested(levels, second), *nested(levels, first))"),
    Planted("operator_fission", "levels are lost", "levels = _levels(nest)[: self.depth]\n        first, second = self._parts", "levels = _levels(nest)[:1]\n        first, second = self._parts"),
    Planted("operator_fission", "declarations stay in the first part", "and not _uses(first, s))", "and False)"),
    Planted("operator_fission", "declarations may cross the cut", "not crossing, evidence", "True, evidence"),
    Planted("expression_reorder", "no test of the flow", "yield flow_preserved(program, after, self._origins(program, after), because=because)", "del after, because"),
    Planted("expression_reorder", "allocations in between are lost", "*between, other, one)", "other, one)"),
    Planted("expression_reorder", "the first statement is written twice", "*between, other, one)", "*between, one, other, one)"),
    Planted("operator_fusion", "the second nest keeps its names", "if v != w}", "if v == w}"),
    Planted("operator_fusion", "no test of the flow", "yield flow_preserved(program, after, renamed_loops(program, after), because=because)", "del after"),
    Planted("operator_fusion", "the second body comes first", "(*nest.body, *more)", "(*more, *nest.body)"),
    Planted("operator_fusion", "allocations in between are lost", "*between, fused)", "fused)"),
    Planted("loop_reorder", "no test of the flow", "yield flow_preserved(", "yield Fact('flow-preserved', True, 'sure') if program else flow_preserved("),
    Planted("loop_reorder", "guards stay where their variable is not bound", "if bound and n >= bound[0]", "if False"),
    Planted("loop_reorder", "only the first guard moves", "n >= bound[0]", "n == bound[0]"),
    Planted("set_storage_scope", "no test of the flow", "yield flow_preserved(program, after, same_loops(program, after), because=self._lifetime_text(program, after))", "del after"),
    Planted("set_storage_scope", "a new dimension forgets the first value", "loop.first + loop.extent", "loop.extent"),
    Planted("set_storage_scope", "a dimension goes though its subscripts differ", "len(used) == 1 and", "used and"),
    Planted("set_storage_scope", "a dimension goes though it varies", "variables_of(used[0]) <= around and", ""),
    Planted("set_storage_scope", "one loop too many separates lifetimes", "len(p) > len(place)", "len(p) >= len(place)"),
    Planted("set_storage_scope", "lifetimes are not kept apart", "self.added = [(loop.variable", "self.added = [] and [(loop.variable"),
    Planted("set_storage_scope", "the dtype is lost", "Alloc(self.tensor, tensor.dtype,", 'Alloc(self.tensor, "f32",'),
    Planted("set_storage_scope", "padding is lost", "(undeclared.dtype, undeclared.shape) == (tensor.dtype, move.shape)", "undeclared.dtype == tensor.dtype"),
    Planted("set_storage_scope", "a size may be anything", "size <= largest", "size > 0"),
    Planted("reduction_factorization", "parts are not combined", "cut.parts, cut.combining)", "cut.parts)"),
    Planted("reduction_factorization", "the tail is not guarded", "tail = loop.extent % size", "tail = 0"),
    Planted("reduction_factorization", "guarded parts start from nothing", "ahead = [cut.initial] if cut.is_guarded else []", "ahead = []"),
    Planted("reduction_factorization", "all parts of a row are one", "part.variable, *(level", "*(level"),
    Planted("reduction_factorization", "rows share their parts", "*(level.variable for level in around), part", "part"),
    Planted("reduction_factorization", "a sum may be used inside", "uses == 1, evidence", "True, evidence"),
    Planted("factorization", "one term keeps the factor", "for term in left]\n    factor", "for term in left[:-1]] + left[-1:]\n    factor"),
    Planted("factorization", "a factor of one term is taken for one of all", "if all(power_in(t.factors, base, setting) for t in terms)", "if any(power_in(t.factors, base, setting) for t in terms)"),
    Planted("factorization", "nothing is proved of floats", "yield from self.facts_of_form(program)", "del form"),
    Planted("factorization", "any rest is as good", "rest = setting.algebra.divided(setting.expression, factor)", "rest = setting.algebra.divided(setting.expression, factor) and factor"),
    Planted("expand_factorization", "a sign is lost", "term.negative != inner.negative,\n                    _neat", "term.negative,\n                    _neat"),
    Planted("expand_factorization", "divisors of a term are lost", "(*inner.divisors, *term.divisors),\n                )\n                for inner in terms_of(factor", "term.divisors,\n                )\n                for inner in terms_of(factor"),
    Planted("expand_factorization", "no middle terms", "count = comb(power, chosen)", "count = 1"),
    Planted("expand_factorization", "nothing is proved of floats", "yield from self.facts_of_form(program)", "del form"),
    Planted("collect", "terms of another power are gathered too", "[p == power for p in powers]", "[p >= power for p in powers]"),
    Planted("collect", "terms without the operand are lost", "if n == first or not chosen[n]]", "if n == first]"),
    Planted("collect", "nothing is proved of floats", "yield from self.facts_of_form(program)", "del form"),
    Planted("expand_collect", "the other factors are lost", "(*others, *kept)", "(base, *kept)"),
    Planted("expand_collect", "signs inside are lost", "Term(inner.negative, (*others", "Term(False, (*others"),
    Planted("expand_collect", "nothing is proved of floats", "yield from self.facts_of_form(program)", "del form"),
    Planted("cancellation", "terms of one sign cancel", "one.negative != other.negative and", ""),
    Planted("cancellation", "the divisor stays", "below = without(term.divisors, base, 1, setting)", "below = term.divisors"),
    Planted("cancellation", "what cancels may be zero", "(base, *term.divisors))\n\n\ndef _of_every", ")\n\n\ndef _of_every"),
    Planted("cancellation", "a sign is lost", 'return Unary("-", value) if term.negative else value', "return value"),
    Planted("cancellation", "nothing is proved of floats", "yield from self.facts_of_form(program)", "del form"),
    Planted("expand_cancellation", "the factor goes above alone", "divisor = by if below is None else Binary(\"*\", below, by)", "divisor = below or by"),
    Planted("expand_cancellation", "the factor may be zero", "nonzero=(by,)", "nonzero=()"),
    Planted("expand_cancellation", "nothing is proved of floats", "yield from self.facts_of_form(program)", "del form"),
    Planted("together", "terms do not get what their divisor lacks", "(*kept, *lacking))", "kept)"),
    Planted("together", "terms over another divisor come along", "_same_divisors(term, other, setting) for other", "bool(other.divisors) for other"),
    Planted("together", "nothing is proved of floats", "yield from self.facts_of_form(program)", "del form"),
    Planted("apart", "one divisor for the first term alone", "parts.append(replace(inner, negative=term.negative != inner.negative).changed(factors, divisors))", "parts.append(replace(inner, negative=term.negative != inner.negative).changed(factors, () if parts else divisors))"),
    Planted("apart", "the divisor may be zero", "identity, nonzero=tuple(term.divisors))", "identity)"),
    Planted("apart", "nothing is proved of floats", "yield from self.facts_of_form(program)", "del form"),
    Planted("reduction_factorization", "floats count as exact", "in reorderable_accumulations(program, self.path, exact=True)", "in reorderable_accumulations(program, self.path)"),
    Planted("reduction_factorization", "lone terms count as exact in any order", "in_turn = all(", "in_turn = bool(below) or all("),
    Planted("reduction_factorization", "lone terms count as exact in any type", "== dtype\n", "!= 'bool'\n"),
    Planted("reduction_factorization", "a sum may begin at a negative zero", 'all(op == "+=" for op in writers)', 'any(op == "+=" for op in writers)'),
    Planted("reduction_factorization", "parts of several terms count as lone", "return self.parts == loop.extent and all(", "return self.parts == loop.extent or all("),
    Planted("reduction_factorization", "guards of single terms go with the parts", "variables_of(g.condition) <= known and", ""),
    Planted("set_storage_layout", "the declaration keeps its shape", "layout.new_shape())\n        if tensor.alloc", "tensor.shape)\n        if tensor.alloc"),
    Planted("set_storage_layout", "the size is not looked at", "size <= most, room", "True, room"),
    Planted("layout_transformation", "the copy is not in the new layout", "layout.moved(far, ranges)), ", "far), "),
    Planted("layout_transformation", "writes after the copy are not looked for", "not writes, f", "True, f"),
    Planted("precompute_indices", "the table is filled for the wrong loops", "variable_sequence(), strict=False))\n        own", "reversed([n for n, _ in zip(variable_sequence(), table.loops)])))\n        own"),
    Planted("precompute_indices", "the table is one short", "loop.first + loop.extent for loop", "loop.extent for loop"),
    Planted("precompute_indices", "a guard of one place goes with the table", "all(part in other for other in others)", "True"),
    Planted("precompute_indices", "a guard of other loops goes with the table", "variables_of(part) <= loops and", ""),
    Planted("precompute_indices", "what is written is looked up", "not written, evidence", "True, evidence"),
    Planted("precompute_indices", "values of more than 32 bits", "-LARGEST <= low <= high <= LARGEST", "True"),
    Planted("cache_read_write", "the copy comes after the reads", "(alloc, plan.copied, nest) if", "(alloc, nest, plan.copied) if"),
    Planted("cache_read_write", "results are not stored back", "(alloc, nest, plan.stored)", "(alloc, nest)"),
    Planted("cache_read_write", "the nest may write what is copied", "not writes, f", "True, f"),
    Planted("cache_read_write", "sums that go on are not looked for", "for depth, loop in enumerate(loops_around(program, self.path))", "for depth, loop in ()"),
    Planted("cache_read_write", "other writers are not looked for", "outside and isinstance", "False and isinstance"),
    Planted("cache_read_write", "the size is not looked at", "plan.elements <= most, sizes", "True, sizes"),
    Planted("partially_equivalent_then_correct", "types may differ", "if len(found) > 1:\n            return f\"{listed(a", "if len(found) > 9:\n            return f\"{listed(a"),
    Planted("partially_equivalent_then_correct", "results may have other writers", "if len(writers) > 1", "if len(writers) > 9"),
    Planted("partially_equivalent_then_correct", "the place is that of the first", "assert place is not None\n        return place", "return 0"),
    Planted("partially_equivalent_then_correct", "seams need not be wrong", '"seams-are-wrong", any(wrong)', '"seams-are-wrong", True'),
    Planted("partially_equivalent_then_correct", "the place may count in a value", "if why := why_not_affine(windows)", "if why := ''"),
    Planted("additive_split", "the value is added twice", 'Binary("-", part.expression, value), value)', 'Binary("+", part.expression, value), value)'),
    Planted("additive_split", "digits may be lost", "in_exponent or ratio < math.inf", "True"),
    Planted("additive_split", "infinities may meet", '"values-are-finite", sizes.finite', '"values-are-finite", True'),
    Planted("additive_split", "any rounding may be added", "need, spare, evidence", "0.0, spare, evidence"),
    Planted("additive_split", "the size of the value counts for nothing", "largest_magnitude(self.value) <= 2 * least", "True"),
    Planted("multiplicative_split", "the other operation is left out", 'Binary("*" if self.first == "divide" else "/", self._between(part, value), value)', "self._between(part, value)"),
    Planted("multiplicative_split", "it is undone the wrong way", 'Binary("*" if self.first == "divide"', 'Binary("/" if self.first == "divide"'),
    Planted("multiplicative_split", "zero may be divided by", "by.finite and least_magnitude(by) > 0", "True"),
    Planted("multiplicative_split", "overflow is not looked at", '"nothing-overflows", safe', '"nothing-overflows", True'),
    Planted("multiplicative_split", "underflow is not looked at", "size < _LOST,", "size < 1e99,"),
    Planted("multiplicative_split", "any rounding may be added", "ADDED, spare, evidence", "0.0, spare, evidence"),
    Planted("exponential_split", "the second exponential is left out", 'return Binary("*", first, ', "return first or (first, "),
    Planted("exponential_split", "the second is upside down", '(Binary("-", self.value, b),)', '(Binary("-", b, self.value),)'),
    Planted("exponential_split", "no guard for -inf", "return self.is_between and math.isinf(self.start.low)", "return False"),
    Planted("exponential_split", "the value between may be inf", "for r in (self.start, self.middle)", "for r in (self.start,)"),
    Planted("exponential_split", "a guard gives 0 for exp(0)", "Real(1.0), first", "Real(0.0), first"),
    Planted("exponential_split", "overflow is not looked at", '"exponents-are-bounded", exponents.safe', '"exponents-are-bounded", True'),
    Planted("exponential_split", "any rounding may be added", "need, spare, evidence", "0.0, spare, evidence"),
    Planted("flashattention_wo_tiling", "no guard for -inf", ".low == -math.inf", ".low == math.inf"),
    Planted("flashattention_wo_tiling", "others may read the weights", "if tensor not in kept:", "if False:"),
    Planted("flashattention_wo_tiling", "maximum and sum may be read before", "if path[common] <= found.path[common]:", "if False:"),
    Planted("flashattention_wo_tiling", "operands may change", "why = why_changed(match.definitions, found)", 'why = ""'),
    Planted("flashattention_wo_tiling", "rows may share an element", "yield _rows_apart(self.rewrite(program), found)", "pass"),
    Planted("flashattention_wo_tiling", "a block may be all terms", "fits = self.block < loops and", "fits = True and"),
    Planted("normal_loop_max_to_prefix_max", "a row goes on from the one before", "Select(scan.has_earlier(), scan.element(running, -1), MINUS_INFINITY)", "scan.element(running, 0)"),
    Planted("normal_loop_max_to_prefix_max", "the smaller term counts", 'Call("max", (before', 'Call("min", (before'),
    Planted("normal_loop_max_to_prefix_max", "the first maximum is the result", "scan.last(running)", "scan.element(running, 0)"),
    Planted("normal_loop_max_to_prefix_max", "a sum will do", 'why = why_not_reduction(program, self.path, "max=") if', 'why = "" if'),
    Planted("normal_loop_max_to_prefix_max", "several loops will do", "why = why_not_scan(program, self.path)", 'why = ""'),
    Planted("normal_loop_max_to_prefix_max", "a result may be read before it is done", "yield read_when_done(program, scan)", "pass"),
    Planted("normal_loop_max_to_prefix_max", "rows may share an element", "yield rows_apart(self.rewrite(program), scan.equation.target)", "pass"),
    Planted("normal_loop_max_to_prefix_max", "the type of the outputs, not of the maximum", "running, dtypes(program)[scan.equation.target.tensor], scan", "running, program.outputs[0].dtype, scan"),
    Planted("normal_loop_summation_on_exp_to_prefix_summation_on_exp", "the sum is not rescaled", "scan.element(running, -1), factor)", "scan.element(running, -1), Real(1.0))"),
    Planted("normal_loop_summation_on_exp_to_prefix_summation_on_exp", "a sum is rescaled in fewer digits", "if promote(own, dtype) == own else", "if True else"),
    Planted("normal_loop_summation_on_exp_to_prefix_summation_on_exp", "rescaled the wrong way", '(Binary("-", previous, found.current),)', '(Binary("-", found.current, previous),)'),
    Planted("normal_loop_summation_on_exp_to_prefix_summation_on_exp", "relative to the last maximum", '(Binary("-", found.value, found.current),)', '(Binary("-", found.value, found.subtracted),)'),
    Planted("normal_loop_summation_on_exp_to_prefix_summation_on_exp", "a row starts at one", "before, Real(0.0))", "before, Real(1.0))"),
    Planted("normal_loop_summation_on_exp_to_prefix_summation_on_exp", "no guard for -inf", ".low == -math.inf", ".low == math.inf"),
    Planted("normal_loop_summation_on_exp_to_prefix_summation_on_exp", "operands may change", "not found.changed, found", "True, found"),
    Planted("normal_loop_summation_on_exp_to_prefix_summation_on_exp", "a result may be read before it is done", "yield read_when_done(program, scan)", "pass"),
    Planted("normal_loop_summation_on_exp_to_prefix_summation_on_exp", "rows may share an element", "yield rows_apart(self.rewrite(program), scan.equation.target)", "pass"),
    Planted("normal_loop_summation_on_exp_to_prefix_summation_on_exp", "the sum is rounded to the type of its result", "computing_type(types[scan.equation.target.tensor])", "types[scan.equation.target.tensor]"),
    Planted("set_storage_layout", "a fold may lose what is needed", 'if self.op == "fold":', "if False:"),
    Planted("online_softmax", "a sum is rescaled in fewer digits", "maximum_type = sum_type", "pass"),
    Planted("online_softmax", "the sum is not rescaled", 'Binary("*", total, factor)', 'Binary("*", total, Real(1.0))'),
    Planted("online_softmax", "the sum is rescaled the wrong way", "_exp_less(before, now, guarded)", "_exp_less(now, before, guarded)"),
    Planted("online_softmax", "the maximum is not kept", 'Equation(largest, "=", new)', 'Equation(largest, "=", largest)'),
    Planted("online_softmax", "the maximum starts at zero", 'Equation(largest, "=", MINUS_INFINITY)', 'Equation(largest, "=", Real(0.0))'),
    Planted("online_softmax", "the sum starts at one", 'Equation(total, "=", Real(0.0))', 'Equation(total, "=", Real(1.0))'),
    Planted("online_softmax", "no guard for -inf", "match.least is None and _lower_bound(program, match) is None", "False"),
    Planted("online_softmax", "a guard gives 0 for exp(0)", "Real(1.0), power", "Real(0.0), power"),
    Planted("online_softmax", "the smaller value counts", 'Call("max", (largest', 'Call("min", (largest'),
    Planted("online_softmax", "a limit is forgotten", 'Call("max", (maximum, match.least))', "maximum"),
    Planted("online_softmax", "the number in the exponent is forgotten", "if not match.added:", "if True:"),
    Planted("online_softmax", "the sum is stored as the maximum", 'Equation(highest, "=", largest)', 'Equation(highest, "=", total)'),
    Planted("online_softmax", "a partial maximum will do", 'reason = why_not_reduction(program, self.maximum, "max=")', 'reason = ""'),
    Planted("online_softmax", "rows may share an element", "yield _rows_apart(self.rewrite(program), match)", "pass"),
    Planted("online_softmax", "terms may change", "not match.changed, match", "True, match"),
    Planted("online_softmax", "a maximum may be read before it is done", "reason = why_read_early(program, first) or", "reason ="),
    Planted("online_softmax", "rows may be anywhere", "reason = why_rows_are_inside(first)", 'reason = ""'),
    Planted("online_softmax", "overflow is not looked at", "if not kept:", "if False:"),
)  # fmt: skip
# What several strategies share: module, function, the right text, the wrong one, and the strategies that must show it.
SHARED = (
    ("strategies.work", "keeps_order_of_terms", "is_whole and", "True and", ("tensor_split_to_decouple_operators", "tensor_concat_to_fuse_operators")),
    ("strategies.work", "why_guards_are_open", "if any(accesses(level.condition)) or not known:", "if False:", ("tensor_split_to_decouple_operators", "tensor_concat_to_fuse_operators")),
    ("strategies.work", "plain_reads", "not conditions_of(program, work.equation_path, within)", "True", ("tensor_split_to_decouple_operators",)),
    ("strategies.work", "Work.closed", "variables_of(g.condition) <= known and", "False and", ("tensor_split_to_decouple_operators", "tensor_concat_to_fuse_operators")),
    ("strategies.alike", "_laid", "if types[a.tensor] != types[b.tensor]:", "if False:", ("tensor_concat_to_fuse_operators",)),
    ("strategies.alike", "_laid", "if a != b or axis in variables_of(a):", "if a != b:", ("tensor_concat_to_fuse_operators",)),
    ("strategies.alike", "_laid", "if axis and axis not in variables_of(a):", "if False:", ("tensor_concat_to_fuse_operators",)),
    ("strategies.alike", "_fitted", "its != loop.extent", "its > 99", ("tensor_concat_to_fuse_operators",)),
    ("strategies.alike", "alignments", "if op in COMMUTING else", "if op else", ("tensor_concat_to_fuse_operators",)),
    ("strategies.alike", "joined", "Integer(sizes[0])", "Integer(sizes[1])", ("tensor_concat_to_fuse_operators",)),
    ("leir.analysis.matching", "pairings", "(op == same and op in COMMUTING)", "op == same", ("common_subexpression_elimination",)),
    ("leir.analysis.matching", "pairings", "if function in BINARY_FUNCTIONS:", "if False:", ("common_subexpression_elimination",)),
    ("leir.analysis.matching", "pairings", "MIRRORED.get(op) == same", "False", ("common_subexpression_elimination",)),
    ("leir.analysis.inversion", "solved", "plus(value, _negated(rest))", "value", ("compute_inline",)),
    ("leir.analysis.inversion", "solved", "_negated(rest)", "as_expression(rest)", ("compute_inline",)),
    ("leir.analysis.inversion", "solved", 'as_expression(as_sum(Unary("-", right)))', "right", ("compute_inline",)),
    ("leir.analysis.inversion", "_whole", "Integer(divisor)), remainder", "Integer(divisor - 1)), remainder", ("compute_inline",)),
    ("leir.analysis.inversion", "_digits", "int(low if factor > 0 else high)", "int(low)", ("compute_inline",)),
    ("leir.analysis.inversion", "_digits", "plus(digit, integer(zero))", "digit", ("compute_inline",)),
    ("strategies.parts", "OfPart.operands_unchanged", "why = why_value_differs(after, equation)", 'why = ""', ("expression_splitting", "common_subexpression_elimination")),
    ("strategies.parts", "part_at", "levels += [] if any", "levels += [] if True or any", ("expression_splitting",)),
    ("strategies.parts", "part_at", "loops = [level for level in outside if isinstance(level, Loop)]", "loops = []", ("expression_splitting",)),
    ("strategies.parts", "part_at", "strong(type_of(part, dtypes(program)))", "program.outputs[0].dtype", ("expression_splitting",)),
    ("strategies.parts", "conditions_of", "condition if number == 1", "condition if number == 2", ("expression_splitting",)),
    ("strategies.parts", "with_nest_of", "path[:before]", "(*path[: before - 1], path[before - 1] + 1)", ("expression_splitting",)),
    ("strategies.openings", "loops_of_a_perfect_nest", "perfect = inner in below[1:]", "perfect = True", ("loop_reorder", "loop_tiling")),
    ("strategies.staging", "_inside", "high >= size", "high > size", ("cache_read_write",)),
    ("strategies.staging", "_inside", "if low < 0", "if low < -9", ("cache_read_write",)),
    ("strategies.staging", "_values", "loop.extent - 1", "loop.extent - 2", ("cache_read_write",)),
    ("leir.analysis.box", "_span", "min(lowest, low)", "lowest", ("cache_read_write",)),
    ("leir.analysis.box", "_pieces", "first * stride", "first", ("cache_read_write",)),
    ("leir.analysis.box", "_divided", "factor // stride", "factor", ("cache_read_write",)),
    ("strategies.staging", "_of_copy", "plus(place, apart)", "place", ("cache_read_write",)),
    ("strategies.staging", "_place", "Integer(axis.stride)", "Integer(axis.stride - 1)", ("cache_read_write",)),
    ("leir.analysis.box", "position", "_scaled(as_sum(first), -1)", "as_sum(first)", ("cache_read_write",)),
    ("strategies.layouts", "swapped", "order[one], order[other] = other, one", "order.reverse()", ("set_storage_layout",)),
    ("strategies.layouts", "joined", "one == other and a == b == size", "a == b == size", ("set_storage_layout",)),
    ("strategies.layouts", "Layout.moved", "quotient_and_remainder(index, self.by, ranges)", "quotient_and_remainder(index, self.by, {})[::-1]", ("set_storage_layout", "layout_transformation")),
    ("leir.analysis.box", "quotient_and_remainder", "high >= divisor", "high > divisor", ("set_storage_layout",)),
    ("leir.analysis.recomputation", "_why_overwritten", "_precedes(time(source, \"x\"), time(writer, \"w\"))", "()", ("compute_inline",)),
    ("leir.analysis.recomputation", "_precedes", "equal = [*equal, f", "equal = [f", ("compute_inline",)),
    ("leir.analysis.recomputation", "_why_lifetimes_differ", "!= y", "< -9 + y", ("compute_inline",)),
    ("strategies.blocks", "tail_guard", '"<"', '"<="', ("loop_split", "loop_tiling")),
    ("strategies.blocks", "tail_guard", "loop.first + loop.extent", "loop.extent", ("loop_split", "loop_tiling")),
    ("strategies.blocks", "block_index", "Integer(factor)", "Integer(factor + 1)", ("loop_split", "loop_tiling")),
    ("strategies.blocks", "reorderable_accumulations", 'node.op in ("max=", "min=") or not exact', "True", ("loop_reorder", "loop_tiling")),
    ("strategies.blocks", "reorderable_accumulations", "not is_float(value)", "True", ("loop_reorder",)),
    ("strategies.blocks", "reorderable_accumulations", "promote(own, value) == own", "True", ("reduction_factorization",)),
    ("strategies.joining", "Joint._copied", "number * operand.shape[along]", "number * (operand.shape[along] - 1)", ("partially_equivalent_then_correct",)),
    ("strategies.joining", "Joint._taken", "number * self.windows.pitch", "number * x.extent + 1", ("partially_equivalent_then_correct",)),
    ("strategies.joining", "Joint._again", "self.windows.equations[number]", "self.windows.equations[0]", ("partially_equivalent_then_correct",)),
    ("strategies.joining", "Joint._joint_read", "Integer(self.windows.pitch)", "Integer(x.extent + 1)", ("partially_equivalent_then_correct",)),
    ("leir.analysis.seams", "wrong_boxes", "number * windows.pitch", "0", ("partially_equivalent_then_correct",)),
    ("leir.analysis.nestforms", "_from_zero", "Integer(loop.first))", "Integer(loop.first - 1))", ("partially_equivalent_then_correct",)),
    ("leir.analysis.seams", "wrong_boxes", "differs(windows.guards(number), windows.guards(0))", "differs(windows.guards(0), windows.guards(0))", ("partially_equivalent_then_correct",)),
    ("leir.analysis.windows", "_widened", "plus(right, Integer(slope * more))", "right", ("partially_equivalent_then_correct",)),
    ("leir.analysis.seams", "_beside", "(low, box[number][0] - 1)", "(low, low - 1)", ("partially_equivalent_then_correct",)),
    ("leir.analysis.likeness", "_in_order", "as_sum(other) == as_sum(index)", "True", ("partially_equivalent_then_correct",)),
    ("leir.analysis.nestforms", "_as_one", "if high != low * size:", "if False:", ("partially_equivalent_then_correct",)),
    ("leir.analysis.nestforms", "_bound", '(1 if "=" in op else 0)', "1", ("partially_equivalent_then_correct",)),
    ("strategies.joining", "meeting_place", 'if why), "")', 'if False), "")', ("partially_equivalent_then_correct",)),
    ("leir.analysis.windows", "_operand", "len(lengths) > 1", "False", ("partially_equivalent_then_correct",)),
    ("leir.analysis.windows", "_pitch", "size < stride * x.extent", "False", ("partially_equivalent_then_correct",)),
    ("leir.analysis.isl", "_box_hulls", "box = tuple((run.dim_min_val(n)", "box = tuple((run.dim_max_val(n)", ("partially_equivalent_then_correct",)),
    ("strategies.passes", '_one_term', 'Binary("+", Binary("*", result, own.factor), term)', 'Binary("+", result, term)', ("flashattention_wo_tiling",)),
    ("strategies.passes", '_one_block', 'Equation(result, "*=", own.factor)', 'Equation(result, "*=", Real(1.0))', ("flashattention_wo_tiling",)),
    ("strategies.passes", '_one_block', 'Binary("*", own.total, own.factor), own.weight)', 'Binary("*", own.total, Real(1.0)), own.weight)', ("flashattention_wo_tiling",)),
    ("strategies.passes", '_rescaling', 'Call("exp", (Binary("-", own.largest, own.new),))', 'Call("exp", (Binary("-", own.new, own.largest),))', ("flashattention_wo_tiling",)),
    ("strategies.passes", '_one_block', 'Equation(own.largest, "=", own.new)', 'Equation(own.largest, "=", own.largest)', ("flashattention_wo_tiling",)),
    ("strategies.passes", 'row_of', 'Equation(own.largest, "=", MINUS_INFINITY)', 'Equation(own.largest, "=", Real(0.0))', ("flashattention_wo_tiling",)),
    ("strategies.passes", 'row_of', 'Equation(own.total, "=", Real(0.0))', 'Equation(own.total, "=", Real(1.0))', ("flashattention_wo_tiling",)),
    ("strategies.passes", 'row_of', 'Equation(result, "=", Real(0.0))', 'Equation(result, "=", Real(1.0))', ("flashattention_wo_tiling",)),
    ("strategies.passes", 'row_of', 'if found.weights.is_zero_if_empty:', 'if False:', ("flashattention_wo_tiling",)),
    ("strategies.passes", '_divisor', 'return map_expression(', 'return own.total or map_expression(', ("flashattention_wo_tiling",)),
    ("strategies.passes", 'row_of', 'if found.weights.total is not None else result', 'if False else result', ("flashattention_wo_tiling",)),
    ("strategies.passes", 'row_of', 'ends.append(Equation(statistic.access, "=", register))', 'pass', ("flashattention_wo_tiling",)),
    ("strategies.passes", '_computed', '        yield Equation(register, "=", identity(op, own.dtype))\n', '', ("flashattention_wo_tiling",)),
    ("leir.analysis.softmax", "prove_same_terms", "wrong is not None", "False", ("online_softmax",)),
    ("leir.analysis.running", "_why_no_chain", "not starts.nowhere(goes_on)", "False", ("normal_loop_summation_on_exp_to_prefix_summation_on_exp",)),
    ("leir.analysis.running", "_why_no_chain", "not continues.always(goes_on)", "False", ("normal_loop_summation_on_exp_to_prefix_summation_on_exp",)),
    ("leir.analysis.running", "_why_no_chain", "along.count - 1", "along.count - 2", ("normal_loop_summation_on_exp_to_prefix_summation_on_exp",)),
    ("leir.analysis.running", "_recurrence", "not definitions.stores_once(tensor)", "False", ("normal_loop_summation_on_exp_to_prefix_summation_on_exp",)),
    ("leir.analysis.running", "_follows", 'Binary("-", along.number, Integer(1))', "along.number", ("normal_loop_summation_on_exp_to_prefix_summation_on_exp",)),
    ("strategies.prefixes", "_along", "not all(kept.always(test) for test in tests)", "False", ("normal_loop_max_to_prefix_max", "normal_loop_summation_on_exp_to_prefix_summation_on_exp")),
    ("leir.analysis.definitions", "Definitions.stores_once", 'op != "="', 'op == ""', ("online_softmax",)),
    ("leir.analysis.types", "identity", 'return Unary("-", Real(math.inf))', "return Real(0.0)", ("reduction_factorization",)),
    ("leir.analysis.softmax", "_without_numbers", "added - number", "added + number", ("online_softmax",)),
    ("leir.analysis.terms", "taken_out", 'right if op == "+" else _negated(right)', "right", ("online_softmax",)),
    ("leir.analysis.softmax", "_target", "own != variables_of(maximum) - shared", "False", ("online_softmax",)),
    ("leir.analysis.softmax", "_softmax", "exact(test, frame.names()) for", "exact(test, frame.names()) or True for", ("online_softmax",)),
    ("leir.analysis.spare", "_spare_in_sum", "3 * bounds.low >=", "3 * bounds.high >=", ("exponential_split",)),
    ("leir.analysis.exponents", "set_apart", "changed & group and group - changed", "False", ("expand_cancellation",)),
    ("leir.analysis.rounding", "Rounding.why_not", "without_detours(old, self.algebra.is_atom, self.algebra.dtype)", "old", ("expand_cancellation",)),
    ("strategies.safety", "roundings_are_spare", "need <= max(spare, 0.0)", "True", ("additive_split", "exponential_split", "multiplicative_split", "powsimp")),
    ("strategies.functions", "View.keeps_type", "kind == self.part.dtype", "True", ("expand_log", "expand_powsimp", "powsimp")),
    ("strategies.splits", "in_scope", "kind != part.dtype", "False", ("additive_split",)),
    ("strategies.splits", "_why_unreadable", "value not in subexpressions(equation.value)", "False", ("additive_split",)),
    ("strategies.splits", "Split.facts", '"split-has-a-use", use is not None', '"split-has-a-use", True', ("additive_split", "multiplicative_split", "exponential_split")),
    ("strategies.elsewhere", "definition", 'read == access and', 'read != access and', ("multiplicative_split",)),
    ("strategies.elsewhere", "_serves", "why_written_between(definitions, name, first, second)", "''", ("additive_split",)),
    ("strategies.elsewhere", "_serves", "found is not None and", "True and", ("additive_split",)),
    ("strategies.splits", "is_fixed", "not variables_of(value)", "not set() or variables_of(value)", ("exponential_split", "multiplicative_split")),
    ("leir.analysis.intervals", "least_magnitude", "0.0 if bounds.low", "1.0 if bounds.low", ("additive_split", "multiplicative_split")),
)  # fmt: skip
HEADERS = (
    ("(a.kind, a.extent, a.first) != (b.kind, b.extent, b.first)", "(a.kind, a.first) != (b.kind, b.first)"),
    ("(a.kind, a.extent, a.first) != (b.kind, b.extent, b.first)", "(a.kind, a.extent) != (b.kind, b.extent)"),
    ('a.kind != "B" or a.variable', 'a.kind == "B" or a.variable'),
    ("if substitute_in(b.condition, names) != a.condition", "if not a.condition"),
)


def planted(error: Planted) -> type[Strategy]:
    """The strategy's class from its module's source with the error in it."""
    original = sys.modules[strategy(error.strategy).__module__]
    source = inspect.getsource(original)
    assert source.count(error.old) >= 1, f"{error.what}: the source no longer has {error.old!r}"
    module = ModuleType(original.__name__)
    module.__dict__["__file__"] = original.__file__
    registered = sys.modules[original.__name__]
    sys.modules[original.__name__] = module  # dataclasses and pydantic look their module up
    try:
        exec(compile(source.replace(error.old, error.new), f"<{error.what}>", "exec"), module.__dict__)
    finally:
        sys.modules[original.__name__] = registered
    (found,) = (
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Strategy) and value.__module__ == original.__name__
    )
    return found


def caught(cls: type[Strategy], patterns: tuple[str, ...] = PATTERNS) -> str:
    """What catches a wrong strategy: `meaning`, `case` or `crash`; empty if nothing does.

    The cases come first, and the first that is played otherwise than written ends the search: what the right strategy
    does is what the file says.
    """
    try:
        for case in read_cases(cls.name):
            if played(case, cls) != case:
                return "meaning" if changes_meaning(case.program(), case.instance(cls)) else "case"
        for number, text in enumerate(patterns):
            program = parse(text)
            steps = list(cls.candidates(program))
            for step in keyed("planted", number).sample(steps, min(6, len(steps))):
                if changes_meaning(program, step):
                    return "meaning"
    except (AssertionError, InterpreterError, LookupError, TypeError, ValueError) as crash:
        return f"crash ({type(crash).__name__})"
    return ""


def changes_meaning(program: Program, step: Strategy) -> bool:
    outcome = tried(step, program)
    return isinstance(outcome, Applied) and bool(
        why_not_same_values(program, outcome.program, outcome.bit_exact, "planted")
    )


def test_the_net_passes_what_is_right() -> None:
    for name in dict.fromkeys(error.strategy for error in PLANTED):
        assert caught(strategy(name), PATTERNS[:4]) == ""


@pytest.mark.slow
def test_the_whole_net_passes_what_is_right() -> None:
    for name in dict.fromkeys(error.strategy for error in PLANTED):
        assert caught(strategy(name)) == ""


def test_every_planted_error_is_caught(capsys: pytest.CaptureFixture[str]) -> None:
    by = {f"{error.strategy}: {error.what}": caught(planted(error)) for error in PLANTED}
    with capsys.disabled():
        print("\n" + "\n".join(f"{net or 'NOT CAUGHT':24} {what}" for what, net in by.items()))
    assert [what for what, net in by.items() if not net] == []
    nets = Counter(by.values())
    assert nets["meaning"] >= 10


def test_a_contract_without_its_checks_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two facts of every step, dropped: the cases that they refuse show it."""
    for dropped in ("changes-the-program", "stays-well-formed"):
        with monkeypatch.context() as patch:
            stated = base._facts_of_any_step

            def fewer(before: Program, after: Program, stated=stated, dropped=dropped) -> list[Fact]:
                return [fact for fact in stated(before, after) if fact.name != dropped]

            patch.setattr(base, "_facts_of_any_step", fewer)
            cases = [(case, strategy(n)) for n in ("loop_reorder", "operator_fusion") for case in read_cases(n)]
            missed = [case for case, cls in cases if case.result.startswith(dropped)]
            assert missed
            for case, cls in cases:
                if case in missed:
                    assert not isinstance(tried(case.instance(cls), case.program()), Refused)


@pytest.mark.parametrize(("right", "wrong"), HEADERS)
def test_errors_in_the_comparison_of_headers_are_caught(right: str, wrong: str) -> None:
    with planted_in_leir("leir.analysis.matching", "common_levels", right, wrong):
        assert caught(strategy("operator_fusion"))


@pytest.mark.parametrize(("module", "function", "right", "wrong", "shown_by"), SHARED)
def test_errors_in_what_strategies_share_are_caught(
    module: str, function: str, right: str, wrong: str, shown_by: tuple[str, ...]
) -> None:
    with planted_in_leir(module, function, right, wrong):
        assert all(caught(strategy(name)) for name in shown_by)
