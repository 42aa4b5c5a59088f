"""The gate in front of every root field: the table decides before the resolver runs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import strawberry
from strawberry.extensions import FieldExtension
from strawberry.extensions.field_extension import AsyncExtensionResolver
from strawberry.types import get_object_definition

from wharfinger.domain.errors import InvalidRequest, WharfingerError
from wharfinger.manager.access.permissions import ROOT_FIELDS, Ownership, Rule, require
from wharfinger.manager.api.graphql.context import Context


class RootGuard(FieldExtension):
    """Deny by default. A field whose rule is `OWNER` must have asked whose the thing is, or its
    answer is withheld."""

    def __init__(self, type_name: str) -> None:
        self._type_name = type_name

    async def resolve_async(
        self,
        next_: AsyncExtensionResolver,
        source: Any,
        info: strawberry.Info[Context, None],
        **kwargs: Any,
    ) -> Any:
        """Resolve the field, if its rule lets this user."""
        name = f"{self._type_name}.{info.field_name}"
        rule = ROOT_FIELDS.get(name)
        if rule is None:
            raise WharfingerError(f"the field {name} has no entry in the permissions")
        context = info.context
        require(rule, context.principal, _in_words(info.field_name))
        for argument, value in kwargs.items():
            _storable(argument, value)
        ownership = context.ownership[str(info.path.key)] = Ownership(context.principal)
        answer = await next_(source, info, **kwargs)
        if rule is Rule.OWNER and not ownership.asked:
            raise WharfingerError(f"the field {name} never asked for the owner")
        return answer


def guard_root_fields(*roots: type) -> None:
    """Put the guard in front of every field of these types."""
    for root in roots:
        definition = get_object_definition(root, strict=True)
        for field in definition.fields:
            field.extensions.append(RootGuard(definition.name))


def _in_words(field: str) -> str:
    """`preloadImage` as a person says it: `preload image`."""
    return re.sub("[A-Z]", lambda capital: f" {capital[0].lower()}", field)


def _storable(argument: str, value: object) -> None:
    """A document may spell out characters that no database keeps."""
    if isinstance(value, str):
        if "\0" in value:
            raise InvalidRequest(f"{argument} holds a NUL character", argument=argument)
    elif isinstance(value, Mapping):
        for part in value.values():
            _storable(argument, part)
    elif isinstance(value, Sequence):
        for part in value:
            _storable(argument, part)
    elif is_dataclass(value):
        for part in fields(value):
            _storable(argument, getattr(value, part.name))
