from google.rpc import status_pb2 as _status_pb2
from kent.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Encoding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENCODING_UNSPECIFIED: _ClassVar[Encoding]
    ENCODING_LEASE: _ClassVar[Encoding]
    ENCODING_PACKED: _ClassVar[Encoding]
    ENCODING_TEXT: _ClassVar[Encoding]
ENCODING_UNSPECIFIED: Encoding
ENCODING_LEASE: Encoding
ENCODING_PACKED: Encoding
ENCODING_TEXT: Encoding

class AllocateRequest(_message.Message):
    __slots__ = ("source", "count", "encoding", "request_id", "needed", "tag")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NEEDED_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    source: str
    count: int
    encoding: Encoding
    request_id: str
    needed: int
    tag: int
    def __init__(self, source: _Optional[str] = ..., count: _Optional[int] = ..., encoding: _Optional[_Union[Encoding, str]] = ..., request_id: _Optional[str] = ..., needed: _Optional[int] = ..., tag: _Optional[int] = ...) -> None: ...

class AllocateResponse(_message.Message):
    __slots__ = ("lease", "packed", "text", "clock_epoch")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    PACKED_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CLOCK_EPOCH_FIELD_NUMBER: _ClassVar[int]
    lease: Block
    packed: PackedIdentifiers
    text: TextIdentifiers
    clock_epoch: int
    def __init__(self, lease: _Optional[_Union[Block, _Mapping]] = ..., packed: _Optional[_Union[PackedIdentifiers, _Mapping]] = ..., text: _Optional[_Union[TextIdentifiers, _Mapping]] = ..., clock_epoch: _Optional[int] = ...) -> None: ...

class AllocateStreamResponse(_message.Message):
    __slots__ = ("granted", "refused")
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    granted: AllocateResponse
    refused: _status_pb2.Status
    def __init__(self, granted: _Optional[_Union[AllocateResponse, _Mapping]] = ..., refused: _Optional[_Union[_status_pb2.Status, _Mapping]] = ...) -> None: ...

class Block(_message.Message):
    __slots__ = ("first", "count", "slot", "region", "series", "layout")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    SERIES_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    first: _types_pb2.Uint128
    count: int
    slot: SlotConstants
    region: RegionConstants
    series: SeriesConstants
    layout: LayoutConstants
    def __init__(self, first: _Optional[_Union[_types_pb2.Uint128, _Mapping]] = ..., count: _Optional[int] = ..., slot: _Optional[_Union[SlotConstants, _Mapping]] = ..., region: _Optional[_Union[RegionConstants, _Mapping]] = ..., series: _Optional[_Union[SeriesConstants, _Mapping]] = ..., layout: _Optional[_Union[LayoutConstants, _Mapping]] = ...) -> None: ...

class SlotConstants(_message.Message):
    __slots__ = ("format", "slot", "slot_epoch", "node", "clock_seq", "cluster_key")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    SLOT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    CLOCK_SEQ_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_KEY_FIELD_NUMBER: _ClassVar[int]
    format: str
    slot: int
    slot_epoch: int
    node: int
    clock_seq: int
    cluster_key: bytes
    def __init__(self, format: _Optional[str] = ..., slot: _Optional[int] = ..., slot_epoch: _Optional[int] = ..., node: _Optional[int] = ..., clock_seq: _Optional[int] = ..., cluster_key: _Optional[bytes] = ...) -> None: ...

class RegionConstants(_message.Message):
    __slots__ = ("bits", "base", "suffix_bits", "region_number", "revision", "scramble_key", "stride")
    BITS_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_BITS_FIELD_NUMBER: _ClassVar[int]
    REGION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SCRAMBLE_KEY_FIELD_NUMBER: _ClassVar[int]
    STRIDE_FIELD_NUMBER: _ClassVar[int]
    bits: int
    base: _types_pb2.Uint128
    suffix_bits: int
    region_number: int
    revision: int
    scramble_key: bytes
    stride: _types_pb2.Stride
    def __init__(self, bits: _Optional[int] = ..., base: _Optional[_Union[_types_pb2.Uint128, _Mapping]] = ..., suffix_bits: _Optional[int] = ..., region_number: _Optional[int] = ..., revision: _Optional[int] = ..., scramble_key: _Optional[bytes] = ..., stride: _Optional[_Union[_types_pb2.Stride, _Mapping]] = ...) -> None: ...

class SeriesConstants(_message.Message):
    __slots__ = ("series", "cluster_key")
    SERIES_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_KEY_FIELD_NUMBER: _ClassVar[int]
    series: str
    cluster_key: bytes
    def __init__(self, series: _Optional[str] = ..., cluster_key: _Optional[bytes] = ...) -> None: ...

class LayoutConstants(_message.Message):
    __slots__ = ("fields", "slot", "slot_epoch", "cluster_key", "tag")
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    SLOT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_KEY_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    fields: str
    slot: int
    slot_epoch: int
    cluster_key: bytes
    tag: int
    def __init__(self, fields: _Optional[str] = ..., slot: _Optional[int] = ..., slot_epoch: _Optional[int] = ..., cluster_key: _Optional[bytes] = ..., tag: _Optional[int] = ...) -> None: ...

class PackedIdentifiers(_message.Message):
    __slots__ = ("width", "data", "fence_subject", "fence_token")
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    FENCE_SUBJECT_FIELD_NUMBER: _ClassVar[int]
    FENCE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    width: int
    data: bytes
    fence_subject: int
    fence_token: int
    def __init__(self, width: _Optional[int] = ..., data: _Optional[bytes] = ..., fence_subject: _Optional[int] = ..., fence_token: _Optional[int] = ...) -> None: ...

class TextIdentifiers(_message.Message):
    __slots__ = ("ids", "fence_subject", "fence_token")
    IDS_FIELD_NUMBER: _ClassVar[int]
    FENCE_SUBJECT_FIELD_NUMBER: _ClassVar[int]
    FENCE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    fence_subject: int
    fence_token: int
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., fence_subject: _Optional[int] = ..., fence_token: _Optional[int] = ...) -> None: ...
