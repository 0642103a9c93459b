from google.rpc import status_pb2 as _status_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class InspectRequest(_message.Message):
    __slots__ = ("texts", "format", "guid", "prefix", "layout", "precision", "width")
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    GUID_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    texts: _containers.RepeatedScalarFieldContainer[str]
    format: str
    guid: bool
    prefix: bool
    layout: str
    precision: str
    width: int
    def __init__(self, texts: _Optional[_Iterable[str]] = ..., format: _Optional[str] = ..., guid: bool = ..., prefix: bool = ..., layout: _Optional[str] = ..., precision: _Optional[str] = ..., width: _Optional[int] = ...) -> None: ...

class InspectResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[InspectResult]
    def __init__(self, results: _Optional[_Iterable[_Union[InspectResult, _Mapping]]] = ...) -> None: ...

class InspectResult(_message.Message):
    __slots__ = ("inspection", "refused")
    INSPECTION_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    inspection: Inspection
    refused: _status_pb2.Status
    def __init__(self, inspection: _Optional[_Union[Inspection, _Mapping]] = ..., refused: _Optional[_Union[_status_pb2.Status, _Mapping]] = ...) -> None: ...

class Inspection(_message.Message):
    __slots__ = ("text", "format", "because", "canonical", "hex", "time", "fields", "layout", "also")
    class Field(_message.Message):
        __slots__ = ("name", "value", "meaning")
        NAME_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        MEANING_FIELD_NUMBER: _ClassVar[int]
        name: str
        value: str
        meaning: str
        def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ..., meaning: _Optional[str] = ...) -> None: ...
    class BitRange(_message.Message):
        __slots__ = ("first", "last", "label", "bits")
        FIRST_FIELD_NUMBER: _ClassVar[int]
        LAST_FIELD_NUMBER: _ClassVar[int]
        LABEL_FIELD_NUMBER: _ClassVar[int]
        BITS_FIELD_NUMBER: _ClassVar[int]
        first: int
        last: int
        label: str
        bits: str
        def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ..., label: _Optional[str] = ..., bits: _Optional[str] = ...) -> None: ...
    TEXT_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    CANONICAL_FIELD_NUMBER: _ClassVar[int]
    HEX_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    ALSO_FIELD_NUMBER: _ClassVar[int]
    text: str
    format: str
    because: str
    canonical: str
    hex: str
    time: str
    fields: _containers.RepeatedCompositeFieldContainer[Inspection.Field]
    layout: _containers.RepeatedCompositeFieldContainer[Inspection.BitRange]
    also: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, text: _Optional[str] = ..., format: _Optional[str] = ..., because: _Optional[str] = ..., canonical: _Optional[str] = ..., hex: _Optional[str] = ..., time: _Optional[str] = ..., fields: _Optional[_Iterable[_Union[Inspection.Field, _Mapping]]] = ..., layout: _Optional[_Iterable[_Union[Inspection.BitRange, _Mapping]]] = ..., also: _Optional[_Iterable[str]] = ...) -> None: ...

class EncodeRequest(_message.Message):
    __slots__ = ("items",)
    class Item(_message.Message):
        __slots__ = ("format", "fields")
        class FieldsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: str
            def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
        FORMAT_FIELD_NUMBER: _ClassVar[int]
        FIELDS_FIELD_NUMBER: _ClassVar[int]
        format: str
        fields: _containers.ScalarMap[str, str]
        def __init__(self, format: _Optional[str] = ..., fields: _Optional[_Mapping[str, str]] = ...) -> None: ...
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[EncodeRequest.Item]
    def __init__(self, items: _Optional[_Iterable[_Union[EncodeRequest.Item, _Mapping]]] = ...) -> None: ...

class EncodeResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[EncodeResult]
    def __init__(self, results: _Optional[_Iterable[_Union[EncodeResult, _Mapping]]] = ...) -> None: ...

class EncodeResult(_message.Message):
    __slots__ = ("encoded", "refused")
    ENCODED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    encoded: Encoded
    refused: _status_pb2.Status
    def __init__(self, encoded: _Optional[_Union[Encoded, _Mapping]] = ..., refused: _Optional[_Union[_status_pb2.Status, _Mapping]] = ...) -> None: ...

class Encoded(_message.Message):
    __slots__ = ("text", "bytes")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    text: str
    bytes: bytes
    def __init__(self, text: _Optional[str] = ..., bytes: _Optional[bytes] = ...) -> None: ...
