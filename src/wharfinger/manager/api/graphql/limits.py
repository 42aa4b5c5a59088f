"""How large a document may be. Checked before it is validated, since validation can be made to take
quadratic time by repeated fields, and exponential time by nested fragments.

Everything is counted with fragments expanded, in time linear in the document.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Final

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionSetNode,
)
from strawberry.extensions import SchemaExtension

MAX_TOKENS: Final = 4000
"""Words and signs. Longer lists belong into variables."""
MAX_DEPTH: Final = 20
"""Fields within fields; a full introspection query has 15."""
MAX_ALIASES: Final = 50
MAX_FIELDS: Final = 300
"""A full introspection query has 231. Validation compares fields of one name pair by pair: with 300
it takes up to a quarter of a second, with 500 a whole one."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What a selection amounts to with its fragments expanded."""

    depth: int = 0
    fields: int = 0
    aliases: int = 0

    def beside(self, other: "Extent") -> "Extent":
        """The extent of both, one after the other."""
        return Extent(
            max(self.depth, other.depth),
            self.fields + other.fields,
            self.aliases + other.aliases,
        )


def excess(document: DocumentNode) -> str | None:
    """What is too much about a document, or None. What is wrong otherwise is for validation."""
    try:
        return _excess(document)
    except RecursionError:
        return "The document is nested too deeply"


class DocumentLimits(SchemaExtension):
    """Refuses documents that are too large."""

    def on_operation(self) -> Iterator[None]:
        """Bound the tokens read."""
        self.execution_context.parse_options["max_tokens"] = MAX_TOKENS
        yield

    def on_validate(self) -> Iterator[None]:
        """Bound what is validated: an error found here keeps validation from running."""
        document = self.execution_context.graphql_document
        if document is not None and (problem := excess(document)):
            self.execution_context.pre_execution_errors = [GraphQLError(problem)]
        yield


def _excess(document: DocumentNode) -> str | None:
    measure = _Measure(document)
    for definition in document.definitions:
        if not isinstance(definition, OperationDefinitionNode):
            continue
        extent = measure.selection(definition.selection_set)
        for what, found, limit in (
            ("levels of fields", extent.depth, MAX_DEPTH),
            ("fields", extent.fields, MAX_FIELDS),
            ("aliases", extent.aliases, MAX_ALIASES),
        ):
            if found > limit:
                return f"The document has {_count(found)} {what}; at most {limit} are answered"
    return None


class _Measure:
    def __init__(self, document: DocumentNode) -> None:
        self._fragments = {
            definition.name.value: definition.selection_set
            for definition in document.definitions
            if isinstance(definition, FragmentDefinitionNode)
        }
        self._known: dict[str, Extent] = {}

    def selection(self, selections: SelectionSetNode | None) -> Extent:
        if selections is None:
            return Extent()
        parts = (self._node(node) for node in selections.selections)
        return reduce(Extent.beside, parts, Extent())

    def _node(self, node: object) -> Extent:
        match node:
            case FieldNode():
                inner = self.selection(node.selection_set)
                return Extent(
                    inner.depth + 1, inner.fields + 1, inner.aliases + (node.alias is not None)
                )
            case InlineFragmentNode():
                return self.selection(node.selection_set)
            case FragmentSpreadNode():
                return self._fragment(node.name.value)
        return Extent()

    def _fragment(self, name: str) -> Extent:
        if name not in self._known:
            # a fragment within itself counts nothing here; validation refuses it
            self._known[name] = Extent()
            self._known[name] = self.selection(self._fragments.get(name))
        return self._known[name]


def _count(number: int) -> str:
    return str(number) if number < 10**6 else "over a million"
