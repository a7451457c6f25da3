"""Mutants of Python files: small changes of what they compute, found in their syntax trees and drawn by a seed."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

KINDS = ("comparison", "arithmetic", "constant", "boolean", "return")
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.Mult,),
    ast.MatMult: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
}


@dataclass(frozen=True)
class Mutant:
    """One change of one file.

    Attributes:
        file: The file, relative to the root.
        line: First line of what is replaced, from 1.
        kind: One of ``KINDS``.
        what: The change in words.
        start: First byte of what is replaced.
        end: The byte after its last.
        original: What stands there.
        new: What replaces it.
    """

    file: str
    line: int
    kind: str
    what: str
    start: int
    end: int
    original: str
    new: str

    def apply(self, source: bytes) -> bytes:
        """Return the changed source.

        Raises:
            ValueError: The source is not the one the mutant was made of.
        """
        if source[self.start : self.end] != self.original.encode():
            raise ValueError(f"{self.file}:{self.line} is not what it was when mutants were drawn")
        return source[: self.start] + self.new.encode() + source[self.end :]

    def __str__(self) -> str:
        original, new = (" ".join(text.split()) for text in (self.original, self.new))
        return f"{self.file}:{self.line}  {self.what}:  {original}  ->  {new}"


def mutations(node: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, the change in words, replacement) of one node.

    >>> list(mutations(ast.parse("a < b", mode="eval").body))
    [('comparison', 'Lt -> LtE', '(a <= b)'), ('comparison', 'Lt -> GtE', '(a >= b)')]
    """
    match node:
        case ast.Compare(left, operators, others):
            for at, operator in enumerate(operators):
                for other in COMPARISONS[type(operator)]:
                    compared = ast.Compare(left, [*operators[:at], other(), *operators[at + 1 :]], others)
                    yield "comparison", f"{type(operator).__name__} -> {other.__name__}", f"({ast.unparse(compared)})"
        case ast.BinOp(left, operator, right):
            for swapped in OPERATORS.get(type(operator), ()):
                computed = ast.BinOp(left, swapped(), right)
                yield "arithmetic", f"{type(operator).__name__} -> {swapped.__name__}", f"({ast.unparse(computed)})"
        case ast.AugAssign(target, operator, value):
            for swapped in OPERATORS.get(type(operator), ()):
                assigned = ast.unparse(ast.AugAssign(target, swapped(), value))
                yield "arithmetic", f"{type(operator).__name__}= -> {swapped.__name__}=", assigned
        case ast.UnaryOp(ast.USub(), operand) if not isinstance(operand, ast.Constant):
            yield "arithmetic", "-x -> x", f"({ast.unparse(operand)})"
        case ast.UnaryOp(ast.Not(), operand):
            yield "boolean", "not x -> x", f"({ast.unparse(operand)})"
        case ast.Constant(bool() as value):
            yield "constant", f"{value} -> {not value}", str(not value)
        case ast.Constant(int() as value):
            yield "constant", f"{value} -> {value + 1}", str(value + 1)
        case ast.Constant(float() as value):
            scaled = value * 1.5 or 1.0
            yield "constant", f"{value} -> {scaled}", repr(scaled)
        case ast.BoolOp(joint, values):
            swapped_joint = ast.Or() if isinstance(joint, ast.And) else ast.And()
            what = f"{type(joint).__name__} -> {type(swapped_joint).__name__}"
            yield "boolean", what, f"({ast.unparse(ast.BoolOp(swapped_joint, values))})"
        case ast.If(test) | ast.IfExp(test) | ast.While(test):
            yield "boolean", "condition negated", f"(not ({ast.unparse(test)}))"
        case ast.Return(ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield "return", "return None", "return None"


def _computed_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that compute something: no imports, annotations, aliases of types, decorators, formatted text."""
    children: Iterable[ast.AST]
    match node:
        case ast.Import() | ast.ImportFrom() | ast.JoinedStr():
            return
        case ast.FunctionDef(args=arguments, body=body) | ast.AsyncFunctionDef(args=arguments, body=body):
            children = [arguments, *body]
        case ast.ClassDef(body=body):
            children = body
        case ast.arguments(defaults=defaults, kw_defaults=keyword_defaults):
            children = [*defaults, *(one for one in keyword_defaults if one is not None)]
        case ast.AnnAssign(value=value):
            children = [value] if value is not None else []
        case ast.Module(body=body):
            children = [one for one in body if not _is_type_alias(one)]
        case _:
            children = ast.iter_child_nodes(node)
    yield node
    for child in children:
        yield from _computed_nodes(child)


def _is_type_alias(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.BitOr)


def mutants_of(folder: Path, root: Path) -> list[Mutant]:
    """Return every mutant of the files in a folder, their names relative to the root."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        source = path.read_bytes()
        starts = [0]
        for line in source.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        for node in _computed_nodes(ast.parse(source)):
            place = node.test if isinstance(node, ast.If | ast.IfExp | ast.While) else node
            for kind, what, new in mutations(node):
                assert isinstance(place, ast.expr | ast.stmt)
                assert place.end_lineno is not None
                assert place.end_col_offset is not None
                start = starts[place.lineno - 1] + place.col_offset
                end = starts[place.end_lineno - 1] + place.end_col_offset
                file, original = path.relative_to(root).as_posix(), source[start:end].decode()
                found.append(Mutant(file, place.lineno, kind, what, start, end, original, new))
    return found


def sample(mutants: list[Mutant], size: int, root: Path, seed: str) -> list[Mutant]:
    """Return some of the mutants, the kinds in turn and one at most of each place; fewer where there are no more.

    Raises:
        SyntaxError: A mutant cannot be compiled, so that it says nothing about tests.
    """
    random = Random(seed)
    by_kind = {kind: [one for one in mutants if one.kind == kind] for kind in KINDS}
    for some in by_kind.values():
        random.shuffle(some)
    chosen: dict[tuple[str, int, int], Mutant] = {}
    while len(chosen) < size and any(by_kind.values()):
        for kind in KINDS:
            while by_kind[kind] and len(chosen) < size:
                one = by_kind[kind].pop()
                if (place := (one.file, one.start, one.end)) not in chosen:
                    compile(one.apply((root / one.file).read_bytes()), one.file, "exec")
                    chosen[place] = one
                    break
    return list(chosen.values())
