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

class ListLayoutHistoryRequest(_message.Message):
    __slots__ = ("name", "page_size", "page_token")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    name: str
    page_size: int
    page_token: str
    def __init__(self, name: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListLayoutHistoryResponse(_message.Message):
    __slots__ = ("edits", "next_page_token", "forgotten_through")
    EDITS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_THROUGH_FIELD_NUMBER: _ClassVar[int]
    edits: _containers.RepeatedCompositeFieldContainer[LayoutEdit]
    next_page_token: str
    forgotten_through: int
    def __init__(self, edits: _Optional[_Iterable[_Union[LayoutEdit, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., forgotten_through: _Optional[int] = ...) -> None: ...

class LayoutEdit(_message.Message):
    __slots__ = ("revision", "time", "principal", "operation", "layout")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    revision: int
    time: str
    principal: str
    operation: str
    layout: Layout
    def __init__(self, revision: _Optional[int] = ..., time: _Optional[str] = ..., principal: _Optional[str] = ..., operation: _Optional[str] = ..., layout: _Optional[_Union[Layout, _Mapping]] = ...) -> None: ...

class WatchLayoutsRequest(_message.Message):
    __slots__ = ("after_revision",)
    AFTER_REVISION_FIELD_NUMBER: _ClassVar[int]
    after_revision: int
    def __init__(self, after_revision: _Optional[int] = ...) -> None: ...

class WatchLayoutsResponse(_message.Message):
    __slots__ = ("snapshot", "change")
    class Snapshot(_message.Message):
        __slots__ = ("layouts", "revision")
        LAYOUTS_FIELD_NUMBER: _ClassVar[int]
        REVISION_FIELD_NUMBER: _ClassVar[int]
        layouts: _containers.RepeatedCompositeFieldContainer[Layout]
        revision: int
        def __init__(self, layouts: _Optional[_Iterable[_Union[Layout, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    snapshot: WatchLayoutsResponse.Snapshot
    change: LayoutEdit
    def __init__(self, snapshot: _Optional[_Union[WatchLayoutsResponse.Snapshot, _Mapping]] = ..., change: _Optional[_Union[LayoutEdit, _Mapping]] = ...) -> None: ...
