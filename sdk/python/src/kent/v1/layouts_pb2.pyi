from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Layout(_message.Message):
    __slots__ = ("name", "fields", "text", "description", "bits", "used", "created_by", "created_unix_ms", "per_second", "slots", "end_unix_seconds", "order", "tag_bits")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    BITS_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    CREATED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    END_UNIX_SECONDS_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    TAG_BITS_FIELD_NUMBER: _ClassVar[int]
    name: str
    fields: str
    text: str
    description: str
    bits: int
    used: bool
    created_by: str
    created_unix_ms: int
    per_second: str
    slots: int
    end_unix_seconds: int
    order: str
    tag_bits: int
    def __init__(self, name: _Optional[str] = ..., fields: _Optional[str] = ..., text: _Optional[str] = ..., description: _Optional[str] = ..., bits: _Optional[int] = ..., used: bool = ..., created_by: _Optional[str] = ..., created_unix_ms: _Optional[int] = ..., per_second: _Optional[str] = ..., slots: _Optional[int] = ..., end_unix_seconds: _Optional[int] = ..., order: _Optional[str] = ..., tag_bits: _Optional[int] = ...) -> None: ...

class CreateLayoutRequest(_message.Message):
    __slots__ = ("layout", "validate_only")
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    layout: Layout
    validate_only: bool
    def __init__(self, layout: _Optional[_Union[Layout, _Mapping]] = ..., validate_only: bool = ...) -> None: ...

class GetLayoutRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListLayoutsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListLayoutsResponse(_message.Message):
    __slots__ = ("layouts",)
    LAYOUTS_FIELD_NUMBER: _ClassVar[int]
    layouts: _containers.RepeatedCompositeFieldContainer[Layout]
    def __init__(self, layouts: _Optional[_Iterable[_Union[Layout, _Mapping]]] = ...) -> None: ...

class DeleteLayoutRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...
