from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionSetNode,
    get_introspection_query,
    parse,
)
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.manager.api.graphql import limits
from wharfinger.manager.api.graphql.limits import Extent, excess


def expanded(document: DocumentNode, selections: SelectionSetNode | None) -> Extent:
    """The same measure, by really expanding every fragment."""
    extent = Extent()
    for node in selections.selections if selections else ():
        if isinstance(node, FieldNode):
            inner = expanded(document, node.selection_set)
            part = Extent(
                inner.depth + 1, inner.fields + 1, inner.aliases + (node.alias is not None)
            )
        elif isinstance(node, InlineFragmentNode):
            part = expanded(document, node.selection_set)
        else:
            assert isinstance(node, FragmentSpreadNode)
            fragment = next(
                definition
                for definition in document.definitions
                if isinstance(definition, FragmentDefinitionNode)
                and definition.name.value == node.name.value
            )
            part = expanded(document, fragment.selection_set)
        extent = extent.beside(part)
    return extent


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Documents whose fragments use only fragments defined later, so that none is within itself."""
    count = draw(st.integers(0, 4))

    def selection(first_fragment: int, depth: int) -> str:
        parts = []
        for _ in range(draw(st.integers(1, 3))):
            kinds = ["field", "alias"]
            kinds += ["nested", "inline"] if depth < 3 else []
            kinds += ["spread"] if first_fragment < count else []
            match draw(st.sampled_from(kinds)):
                case "field":
                    parts.append("a")
                case "alias":
                    parts.append("b: a")
                case "nested":
                    parts.append("a " + selection(first_fragment, depth + 1))
                case "inline":
                    parts.append("... " + selection(first_fragment, depth + 1))
                case "spread":
                    parts.append(f"...f{draw(st.integers(first_fragment, count - 1))}")
        return "{" + " ".join(parts) + "}"

    fragments = [f"fragment f{i} on Query {selection(i + 1, 0)}" for i in range(count)]
    return "\n".join([selection(0, 0), *fragments])


@given(documents())
def test_the_measure_is_that_of_the_expanded_document(text: str) -> None:
    document = parse(text)
    operation = document.definitions[0]
    assert isinstance(operation, OperationDefinitionNode)
    extent = expanded(document, operation.selection_set)
    too_large = (
        extent.depth > limits.MAX_DEPTH
        or extent.fields > limits.MAX_FIELDS
        or extent.aliases > limits.MAX_ALIASES
    )
    assert (excess(document) is not None) == too_large


def test_introspection_is_within_the_limits() -> None:
    everything = get_introspection_query(
        specified_by_url=True,
        directive_is_repeatable=True,
        schema_description=True,
        input_value_deprecation=True,
        experimental_directive_deprecation=True,
    )
    assert excess(parse(everything)) is None


def test_fragments_that_double_are_counted_at_once() -> None:
    count = 60
    doubling = [f"fragment f{i} on Query {{ ...f{i + 1} ...f{i + 1} }}" for i in range(count)]
    text = "\n".join(["{ ...f0 }", *doubling, f"fragment f{count} on Query {{ a }}"])
    assert excess(parse(text)) == (
        "The document has over a million fields; at most 300 are answered"
    )


def test_fragments_nested_beyond_any_use_are_refused() -> None:
    chain = [f"fragment f{i} on Query {{ ...f{i + 1} }}" for i in range(600)]
    assert excess(parse("\n".join(["{ ...f0 }", *chain]))) == "The document is nested too deeply"


def test_a_fragment_within_itself_and_an_unknown_one_are_left_to_validation() -> None:
    assert excess(parse("{ ...f } fragment f on Query { a ...f ...g }")) is None


def test_each_limit_is_named() -> None:
    deep = "{" + "a{" * limits.MAX_DEPTH + "a" + "}" * limits.MAX_DEPTH + "}"
    assert "levels of fields; at most 20" in str(excess(parse(deep)))
    many = "{" + "a " * (limits.MAX_FIELDS + 1) + "}"
    assert "301 fields; at most 300" in str(excess(parse(many)))
    aliases = "{" + " ".join(f"b{i}: a" for i in range(limits.MAX_ALIASES + 1)) + "}"
    assert "51 aliases; at most 50" in str(excess(parse(aliases)))
