"""The columns of a row shape as `datasets.Features`, and rows to columns and back.

Columns follow from the model: a model is a struct, a tuple a list, a `Literal` its base type. What may hold anything,
like the arguments of a step, is a column of JSON text: a struct would get a null for every name that any row has.
"""

import json
from collections.abc import Callable
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel

from stepTP.migrations import migrated
from stepTP.records import SCHEMA_VERSION

if TYPE_CHECKING:
    from datasets import Features

Shape = TypeVar("Shape", bound=BaseModel)

_PLAIN = {str: "string", int: "int64", float: "float64", bool: "bool"}


def features_of(shape: type[BaseModel]) -> "Features":
    """The columns of a row shape."""
    from datasets import Features

    return Features({name: _feature(field.annotation) for name, field in shape.model_fields.items()})


def columns_of(row: BaseModel) -> dict[str, Any]:
    """The row as plain data for its columns."""
    return _mapped_fields(type(row), row.model_dump(mode="json"), _to_json_text)


def row_of(shape: type[Shape], columns: dict[str, Any]) -> Shape:
    """The row that columns hold, of an older schema too; columns that the shape lacks are left out.

    Raises pydantic's ValidationError, CannotMigrate.
    """
    data = _mapped_fields(shape, columns, json.loads)
    return shape.model_validate(migrated(data, SCHEMA_VERSION))


def _feature(annotation: Any) -> Any:
    from datasets import List, Value

    kind = _required(annotation)
    if _holds_anything(kind):
        return Value("string")
    if get_origin(kind) is tuple:
        return List(_feature(get_args(kind)[0]))
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {name: _feature(field.annotation) for name, field in kind.model_fields.items()}
    return Value(_PLAIN[kind])


def _mapped_fields(shape: type[BaseModel], data: dict[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    return {
        name: _mapped(field.annotation, data[name], change)
        for name, field in shape.model_fields.items()
        if name in data
    }


def _mapped(annotation: Any, value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with `change` made to every part of it that is kept as JSON text."""
    kind = _required(annotation)
    if value is None:
        return None
    if _holds_anything(kind):
        return change(value)
    if get_origin(kind) is tuple:
        return [_mapped(get_args(kind)[0], item, change) for item in value]
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _mapped_fields(kind, value, change)
    return value


def _required(annotation: Any) -> Any:
    """The type without None, and a `Literal` as the type of its values."""
    if get_origin(annotation) in (Union, UnionType):
        kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
        if len(kinds) != 1:
            raise TypeError(f"a column has one type, not {annotation}")
        return _required(kinds[0])
    if get_origin(annotation) is Literal:
        return type(get_args(annotation)[0])
    return annotation


def _holds_anything(kind: Any) -> bool:
    return kind is Any or kind is dict or get_origin(kind) is dict


def _to_json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
