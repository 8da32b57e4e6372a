"""What is kept of structs is what msgspec says of them."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from hostler.domain.struct_fields import struct_fields, type_info


class Thing(msgspec.Struct, rename={"name": "called"}):
    name: Annotated[str, msgspec.Meta(max_length=5, extra_json_schema={"examples": ["a"]})]
    size: int = 0


def test_fields_are_found_by_their_names_in_json_and_kept() -> None:
    fields = struct_fields(Thing)
    assert {name: (field.name, field.required) for name, field in fields.items()} == {
        "called": ("name", True),
        "size": ("size", False),
    }
    assert struct_fields(Thing) is fields
    with pytest.raises(TypeError):
        fields["other"] = fields["size"]  # type: ignore[index]


def test_a_type_is_described_as_by_msgspec_and_that_of_a_struct_is_kept() -> None:
    for kind in (Thing, list[Thing], Thing | None, Annotated[str, msgspec.Meta(extra_json_schema={})]):
        assert type_info(kind) == msgspec.inspect.type_info(kind)
    assert type_info(Thing) is type_info(Thing)
