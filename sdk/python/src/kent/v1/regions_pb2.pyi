from google.protobuf import field_mask_pb2 as _field_mask_pb2
from kent.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Space(_message.Message):
    __slots__ = ("name", "bits", "revision", "region_count", "text_form", "sealed_by")
    class TextForm(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        TEXT_FORM_UNSPECIFIED: _ClassVar[Space.TextForm]
        DECIMAL: _ClassVar[Space.TextForm]
        HEX: _ClassVar[Space.TextForm]
        UID11: _ClassVar[Space.TextForm]
    TEXT_FORM_UNSPECIFIED: Space.TextForm
    DECIMAL: Space.TextForm
    HEX: Space.TextForm
    UID11: Space.TextForm
    NAME_FIELD_NUMBER: _ClassVar[int]
    BITS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REGION_COUNT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FORM_FIELD_NUMBER: _ClassVar[int]
    SEALED_BY_FIELD_NUMBER: _ClassVar[int]
    name: str
    bits: int
    revision: int
    region_count: int
    text_form: Space.TextForm
    sealed_by: str
    def __init__(self, name: _Optional[str] = ..., bits: _Optional[int] = ..., revision: _Optional[int] = ..., region_count: _Optional[int] = ..., text_form: _Optional[_Union[Space.TextForm, str]] = ..., sealed_by: _Optional[str] = ...) -> None: ...

class CreateSpaceRequest(_message.Message):
    __slots__ = ("space_id", "bits", "validate_only", "text_form")
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    BITS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    TEXT_FORM_FIELD_NUMBER: _ClassVar[int]
    space_id: str
    bits: int
    validate_only: bool
    text_form: Space.TextForm
    def __init__(self, space_id: _Optional[str] = ..., bits: _Optional[int] = ..., validate_only: bool = ..., text_form: _Optional[_Union[Space.TextForm, str]] = ...) -> None: ...

class DeleteSpaceRequest(_message.Message):
    __slots__ = ("name", "validate_only")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    name: str
    validate_only: bool
    def __init__(self, name: _Optional[str] = ..., validate_only: bool = ...) -> None: ...

class GetSpaceRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListSpacesRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListSpacesResponse(_message.Message):
    __slots__ = ("spaces", "next_page_token")
    SPACES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    spaces: _containers.RepeatedCompositeFieldContainer[Space]
    next_page_token: str
    def __init__(self, spaces: _Optional[_Iterable[_Union[Space, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Region(_message.Message):
    __slots__ = ("name", "number", "prefix", "zone_bits", "suffix_bits", "kind", "subregion_bits", "parent", "issued", "capacity", "ultimate_capacity", "former_prefixes", "reserved", "order", "sealed", "delegated_space", "policy", "owner", "description", "labels", "rate", "full_in_seconds", "parent_number", "prefix_since", "pace", "sealed_by", "needs_floor", "key_number")
    class Order(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ORDER_UNSPECIFIED: _ClassVar[Region.Order]
        SEQUENTIAL: _ClassVar[Region.Order]
        SCRAMBLED: _ClassVar[Region.Order]
        EXTERNAL: _ClassVar[Region.Order]
    ORDER_UNSPECIFIED: Region.Order
    SEQUENTIAL: Region.Order
    SCRAMBLED: Region.Order
    EXTERNAL: Region.Order
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[Region.Kind]
        OPEN: _ClassVar[Region.Kind]
        PARTIAL: _ClassVar[Region.Kind]
        CLOSED: _ClassVar[Region.Kind]
    KIND_UNSPECIFIED: Region.Kind
    OPEN: Region.Kind
    PARTIAL: Region.Kind
    CLOSED: Region.Kind
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    ZONE_BITS_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_BITS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SUBREGION_BITS_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    ISSUED_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    ULTIMATE_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    FORMER_PREFIXES_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    DELEGATED_SPACE_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    FULL_IN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PARENT_NUMBER_FIELD_NUMBER: _ClassVar[int]
    PREFIX_SINCE_FIELD_NUMBER: _ClassVar[int]
    PACE_FIELD_NUMBER: _ClassVar[int]
    SEALED_BY_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FLOOR_FIELD_NUMBER: _ClassVar[int]
    KEY_NUMBER_FIELD_NUMBER: _ClassVar[int]
    name: str
    number: int
    prefix: str
    zone_bits: int
    suffix_bits: int
    kind: Region.Kind
    subregion_bits: int
    parent: str
    issued: str
    capacity: str
    ultimate_capacity: str
    former_prefixes: _containers.RepeatedCompositeFieldContainer[FormerPrefix]
    reserved: str
    order: Region.Order
    sealed: bool
    delegated_space: str
    policy: Policy
    owner: str
    description: str
    labels: _containers.ScalarMap[str, str]
    rate: float
    full_in_seconds: float
    parent_number: int
    prefix_since: int
    pace: int
    sealed_by: str
    needs_floor: bool
    key_number: int
    def __init__(self, name: _Optional[str] = ..., number: _Optional[int] = ..., prefix: _Optional[str] = ..., zone_bits: _Optional[int] = ..., suffix_bits: _Optional[int] = ..., kind: _Optional[_Union[Region.Kind, str]] = ..., subregion_bits: _Optional[int] = ..., parent: _Optional[str] = ..., issued: _Optional[str] = ..., capacity: _Optional[str] = ..., ultimate_capacity: _Optional[str] = ..., former_prefixes: _Optional[_Iterable[_Union[FormerPrefix, _Mapping]]] = ..., reserved: _Optional[str] = ..., order: _Optional[_Union[Region.Order, str]] = ..., sealed: bool = ..., delegated_space: _Optional[str] = ..., policy: _Optional[_Union[Policy, _Mapping]] = ..., owner: _Optional[str] = ..., description: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., rate: _Optional[float] = ..., full_in_seconds: _Optional[float] = ..., parent_number: _Optional[int] = ..., prefix_since: _Optional[int] = ..., pace: _Optional[int] = ..., sealed_by: _Optional[str] = ..., needs_floor: bool = ..., key_number: _Optional[int] = ...) -> None: ...

class Policy(_message.Message):
    __slots__ = ("auto_expand", "cap", "min_chunk", "max_chunk", "strict", "stride")
    AUTO_EXPAND_FIELD_NUMBER: _ClassVar[int]
    CAP_FIELD_NUMBER: _ClassVar[int]
    MIN_CHUNK_FIELD_NUMBER: _ClassVar[int]
    MAX_CHUNK_FIELD_NUMBER: _ClassVar[int]
    STRICT_FIELD_NUMBER: _ClassVar[int]
    STRIDE_FIELD_NUMBER: _ClassVar[int]
    auto_expand: AutoExpand
    cap: str
    min_chunk: int
    max_chunk: int
    strict: bool
    stride: _types_pb2.Stride
    def __init__(self, auto_expand: _Optional[_Union[AutoExpand, _Mapping]] = ..., cap: _Optional[str] = ..., min_chunk: _Optional[int] = ..., max_chunk: _Optional[int] = ..., strict: bool = ..., stride: _Optional[_Union[_types_pb2.Stride, _Mapping]] = ...) -> None: ...

class AutoExpand(_message.Message):
    __slots__ = ("at_percent", "by_bits", "max_suffix_bits")
    AT_PERCENT_FIELD_NUMBER: _ClassVar[int]
    BY_BITS_FIELD_NUMBER: _ClassVar[int]
    MAX_SUFFIX_BITS_FIELD_NUMBER: _ClassVar[int]
    at_percent: int
    by_bits: int
    max_suffix_bits: int
    def __init__(self, at_percent: _Optional[int] = ..., by_bits: _Optional[int] = ..., max_suffix_bits: _Optional[int] = ...) -> None: ...

class FormerPrefix(_message.Message):
    __slots__ = ("prefix", "from_revision", "to_revision", "reserved")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    FROM_REVISION_FIELD_NUMBER: _ClassVar[int]
    TO_REVISION_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    from_revision: int
    to_revision: int
    reserved: str
    def __init__(self, prefix: _Optional[str] = ..., from_revision: _Optional[int] = ..., to_revision: _Optional[int] = ..., reserved: _Optional[str] = ...) -> None: ...

class ListRegionsRequest(_message.Message):
    __slots__ = ("parent", "page_size", "page_token", "at_revision", "exact_counters")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    AT_REVISION_FIELD_NUMBER: _ClassVar[int]
    EXACT_COUNTERS_FIELD_NUMBER: _ClassVar[int]
    parent: str
    page_size: int
    page_token: str
    at_revision: int
    exact_counters: bool
    def __init__(self, parent: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., at_revision: _Optional[int] = ..., exact_counters: bool = ...) -> None: ...

class ListRegionsResponse(_message.Message):
    __slots__ = ("regions", "next_page_token", "revision")
    REGIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    regions: _containers.RepeatedCompositeFieldContainer[Region]
    next_page_token: str
    revision: int
    def __init__(self, regions: _Optional[_Iterable[_Union[Region, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class MapRegionsRequest(_message.Message):
    __slots__ = ("parent", "prefix", "max_cells", "at_revision")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    MAX_CELLS_FIELD_NUMBER: _ClassVar[int]
    AT_REVISION_FIELD_NUMBER: _ClassVar[int]
    parent: str
    prefix: str
    max_cells: int
    at_revision: int
    def __init__(self, parent: _Optional[str] = ..., prefix: _Optional[str] = ..., max_cells: _Optional[int] = ..., at_revision: _Optional[int] = ...) -> None: ...

class MapRegionsResponse(_message.Message):
    __slots__ = ("cells", "revision", "bits", "around", "partial")
    CELLS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    BITS_FIELD_NUMBER: _ClassVar[int]
    AROUND_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    cells: _containers.RepeatedCompositeFieldContainer[MapCell]
    revision: int
    bits: int
    around: _containers.RepeatedCompositeFieldContainer[MapRegion]
    partial: bool
    def __init__(self, cells: _Optional[_Iterable[_Union[MapCell, _Mapping]]] = ..., revision: _Optional[int] = ..., bits: _Optional[int] = ..., around: _Optional[_Iterable[_Union[MapRegion, _Mapping]]] = ..., partial: bool = ...) -> None: ...

class MapCell(_message.Message):
    __slots__ = ("prefix", "region_count", "capacity", "issued", "fill", "kinds", "free_share", "region", "inside")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[MapCell.Kind]
        REGION: _ClassVar[MapCell.Kind]
        FREE: _ClassVar[MapCell.Kind]
        ZONE: _ClassVar[MapCell.Kind]
        SUBREGIONS: _ClassVar[MapCell.Kind]
        DELEGATED: _ClassVar[MapCell.Kind]
        SEALED: _ClassVar[MapCell.Kind]
        CLOSED: _ClassVar[MapCell.Kind]
        STRICT: _ClassVar[MapCell.Kind]
    KIND_UNSPECIFIED: MapCell.Kind
    REGION: MapCell.Kind
    FREE: MapCell.Kind
    ZONE: MapCell.Kind
    SUBREGIONS: MapCell.Kind
    DELEGATED: MapCell.Kind
    SEALED: MapCell.Kind
    CLOSED: MapCell.Kind
    STRICT: MapCell.Kind
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    REGION_COUNT_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    ISSUED_FIELD_NUMBER: _ClassVar[int]
    FILL_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    FREE_SHARE_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    INSIDE_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    region_count: int
    capacity: str
    issued: str
    fill: float
    kinds: _containers.RepeatedScalarFieldContainer[MapCell.Kind]
    free_share: float
    region: MapRegion
    inside: str
    def __init__(self, prefix: _Optional[str] = ..., region_count: _Optional[int] = ..., capacity: _Optional[str] = ..., issued: _Optional[str] = ..., fill: _Optional[float] = ..., kinds: _Optional[_Iterable[_Union[MapCell.Kind, str]]] = ..., free_share: _Optional[float] = ..., region: _Optional[_Union[MapRegion, _Mapping]] = ..., inside: _Optional[str] = ...) -> None: ...

class MapRegion(_message.Message):
    __slots__ = ("name", "number", "prefix", "zone_bits", "suffix_bits", "kind", "sealed", "delegated", "strict", "subregion_bits", "rate", "full_in_seconds")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    ZONE_BITS_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_BITS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    DELEGATED_FIELD_NUMBER: _ClassVar[int]
    STRICT_FIELD_NUMBER: _ClassVar[int]
    SUBREGION_BITS_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    FULL_IN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    number: int
    prefix: str
    zone_bits: int
    suffix_bits: int
    kind: Region.Kind
    sealed: bool
    delegated: bool
    strict: bool
    subregion_bits: int
    rate: float
    full_in_seconds: float
    def __init__(self, name: _Optional[str] = ..., number: _Optional[int] = ..., prefix: _Optional[str] = ..., zone_bits: _Optional[int] = ..., suffix_bits: _Optional[int] = ..., kind: _Optional[_Union[Region.Kind, str]] = ..., sealed: bool = ..., delegated: bool = ..., strict: bool = ..., subregion_bits: _Optional[int] = ..., rate: _Optional[float] = ..., full_in_seconds: _Optional[float] = ...) -> None: ...

class ListFullestRegionsRequest(_message.Message):
    __slots__ = ("parent", "max_regions")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    MAX_REGIONS_FIELD_NUMBER: _ClassVar[int]
    parent: str
    max_regions: int
    def __init__(self, parent: _Optional[str] = ..., max_regions: _Optional[int] = ...) -> None: ...

class ListFullestRegionsResponse(_message.Message):
    __slots__ = ("regions",)
    REGIONS_FIELD_NUMBER: _ClassVar[int]
    regions: _containers.RepeatedCompositeFieldContainer[Region]
    def __init__(self, regions: _Optional[_Iterable[_Union[Region, _Mapping]]] = ...) -> None: ...

class ListFreeBlocksRequest(_message.Message):
    __slots__ = ("parent", "page_size", "page_token", "at_least_bits", "suffix_bits", "zone_bits")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_BITS_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_BITS_FIELD_NUMBER: _ClassVar[int]
    ZONE_BITS_FIELD_NUMBER: _ClassVar[int]
    parent: str
    page_size: int
    page_token: str
    at_least_bits: int
    suffix_bits: int
    zone_bits: int
    def __init__(self, parent: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., at_least_bits: _Optional[int] = ..., suffix_bits: _Optional[int] = ..., zone_bits: _Optional[int] = ...) -> None: ...

class ListFreeBlocksResponse(_message.Message):
    __slots__ = ("blocks", "next_page_token", "revision", "choice")
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    blocks: _containers.RepeatedCompositeFieldContainer[FreeBlock]
    next_page_token: str
    revision: int
    choice: PlaceOfRegion
    def __init__(self, blocks: _Optional[_Iterable[_Union[FreeBlock, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., revision: _Optional[int] = ..., choice: _Optional[_Union[PlaceOfRegion, _Mapping]] = ...) -> None: ...

class FreeBlock(_message.Message):
    __slots__ = ("prefix", "bits")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    BITS_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    bits: int
    def __init__(self, prefix: _Optional[str] = ..., bits: _Optional[int] = ...) -> None: ...

class PlaceOfRegion(_message.Message):
    __slots__ = ("prefix", "zone_bits", "block")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    ZONE_BITS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    zone_bits: int
    block: str
    def __init__(self, prefix: _Optional[str] = ..., zone_bits: _Optional[int] = ..., block: _Optional[str] = ...) -> None: ...

class GetRegionRequest(_message.Message):
    __slots__ = ("name", "exact_counter")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EXACT_COUNTER_FIELD_NUMBER: _ClassVar[int]
    name: str
    exact_counter: bool
    def __init__(self, name: _Optional[str] = ..., exact_counter: bool = ...) -> None: ...

class CreateRegionRequest(_message.Message):
    __slots__ = ("parent", "region_id", "suffix_bits", "zone_bits", "prefix", "next", "auto_split", "validate_only", "expected_revision", "order", "request_id", "reason", "split_donor", "pace", "sealed", "policy", "answers")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    REGION_ID_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_BITS_FIELD_NUMBER: _ClassVar[int]
    ZONE_BITS_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    AUTO_SPLIT_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SPLIT_DONOR_FIELD_NUMBER: _ClassVar[int]
    PACE_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    parent: str
    region_id: str
    suffix_bits: int
    zone_bits: int
    prefix: str
    next: _types_pb2.Uint128
    auto_split: bool
    validate_only: bool
    expected_revision: int
    order: Region.Order
    request_id: str
    reason: str
    split_donor: str
    pace: int
    sealed: bool
    policy: Policy
    answers: str
    def __init__(self, parent: _Optional[str] = ..., region_id: _Optional[str] = ..., suffix_bits: _Optional[int] = ..., zone_bits: _Optional[int] = ..., prefix: _Optional[str] = ..., next: _Optional[_Union[_types_pb2.Uint128, _Mapping]] = ..., auto_split: bool = ..., validate_only: bool = ..., expected_revision: _Optional[int] = ..., order: _Optional[_Union[Region.Order, str]] = ..., request_id: _Optional[str] = ..., reason: _Optional[str] = ..., split_donor: _Optional[str] = ..., pace: _Optional[int] = ..., sealed: bool = ..., policy: _Optional[_Union[Policy, _Mapping]] = ..., answers: _Optional[str] = ...) -> None: ...

class RegionRequest(_message.Message):
    __slots__ = ("name", "state", "region_id", "suffix_bits", "zone_bits", "owner", "labels", "reason", "requester", "create_time", "close_time", "closed_by", "note", "region", "mine", "decidable")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[RegionRequest.State]
        OPEN: _ClassVar[RegionRequest.State]
        MADE: _ClassVar[RegionRequest.State]
        DECLINED: _ClassVar[RegionRequest.State]
        WITHDRAWN: _ClassVar[RegionRequest.State]
    STATE_UNSPECIFIED: RegionRequest.State
    OPEN: RegionRequest.State
    MADE: RegionRequest.State
    DECLINED: RegionRequest.State
    WITHDRAWN: RegionRequest.State
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REGION_ID_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_BITS_FIELD_NUMBER: _ClassVar[int]
    ZONE_BITS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUESTER_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CLOSE_TIME_FIELD_NUMBER: _ClassVar[int]
    CLOSED_BY_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    MINE_FIELD_NUMBER: _ClassVar[int]
    DECIDABLE_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: RegionRequest.State
    region_id: str
    suffix_bits: int
    zone_bits: int
    owner: str
    labels: _containers.ScalarMap[str, str]
    reason: str
    requester: str
    create_time: str
    close_time: str
    closed_by: str
    note: str
    region: str
    mine: bool
    decidable: bool
    def __init__(self, name: _Optional[str] = ..., state: _Optional[_Union[RegionRequest.State, str]] = ..., region_id: _Optional[str] = ..., suffix_bits: _Optional[int] = ..., zone_bits: _Optional[int] = ..., owner: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., reason: _Optional[str] = ..., requester: _Optional[str] = ..., create_time: _Optional[str] = ..., close_time: _Optional[str] = ..., closed_by: _Optional[str] = ..., note: _Optional[str] = ..., region: _Optional[str] = ..., mine: bool = ..., decidable: bool = ...) -> None: ...

class RequestRegionRequest(_message.Message):
    __slots__ = ("parent", "region_id", "suffix_bits", "zone_bits", "owner", "labels", "reason")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PARENT_FIELD_NUMBER: _ClassVar[int]
    REGION_ID_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_BITS_FIELD_NUMBER: _ClassVar[int]
    ZONE_BITS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    parent: str
    region_id: str
    suffix_bits: int
    zone_bits: int
    owner: str
    labels: _containers.ScalarMap[str, str]
    reason: str
    def __init__(self, parent: _Optional[str] = ..., region_id: _Optional[str] = ..., suffix_bits: _Optional[int] = ..., zone_bits: _Optional[int] = ..., owner: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class ListRegionRequestsRequest(_message.Message):
    __slots__ = ("parent", "page_size", "page_token", "include_closed")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_CLOSED_FIELD_NUMBER: _ClassVar[int]
    parent: str
    page_size: int
    page_token: str
    include_closed: bool
    def __init__(self, parent: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., include_closed: bool = ...) -> None: ...

class ListRegionRequestsResponse(_message.Message):
    __slots__ = ("requests", "next_page_token")
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[RegionRequest]
    next_page_token: str
    def __init__(self, requests: _Optional[_Iterable[_Union[RegionRequest, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CloseRegionRequestRequest(_message.Message):
    __slots__ = ("name", "state", "note")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: RegionRequest.State
    note: str
    def __init__(self, name: _Optional[str] = ..., state: _Optional[_Union[RegionRequest.State, str]] = ..., note: _Optional[str] = ...) -> None: ...

class ExpandRegionRequest(_message.Message):
    __slots__ = ("name", "by_bits", "validate_only", "expected_revision", "request_id", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BY_BITS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    by_bits: int
    validate_only: bool
    expected_revision: int
    request_id: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., by_bits: _Optional[int] = ..., validate_only: bool = ..., expected_revision: _Optional[int] = ..., request_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ShrinkRegionRequest(_message.Message):
    __slots__ = ("name", "by_bits", "validate_only", "expected_revision", "request_id", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BY_BITS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    by_bits: int
    validate_only: bool
    expected_revision: int
    request_id: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., by_bits: _Optional[int] = ..., validate_only: bool = ..., expected_revision: _Optional[int] = ..., request_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class DelegateRegionRequest(_message.Message):
    __slots__ = ("name", "validate_only", "expected_revision", "request_id", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    validate_only: bool
    expected_revision: int
    request_id: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., validate_only: bool = ..., expected_revision: _Optional[int] = ..., request_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class SealRegionRequest(_message.Message):
    __slots__ = ("name", "validate_only", "expected_revision", "request_id", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    validate_only: bool
    expected_revision: int
    request_id: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., validate_only: bool = ..., expected_revision: _Optional[int] = ..., request_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class RenameRegionRequest(_message.Message):
    __slots__ = ("name", "region_id", "validate_only", "expected_revision", "request_id", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REGION_ID_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    region_id: str
    validate_only: bool
    expected_revision: int
    request_id: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., region_id: _Optional[str] = ..., validate_only: bool = ..., expected_revision: _Optional[int] = ..., request_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class DeleteRegionRequest(_message.Message):
    __slots__ = ("name", "unused", "validate_only", "expected_revision", "request_id", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UNUSED_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    unused: bool
    validate_only: bool
    expected_revision: int
    request_id: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., unused: bool = ..., validate_only: bool = ..., expected_revision: _Optional[int] = ..., request_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class UndoEditRequest(_message.Message):
    __slots__ = ("name", "validate_only", "expected_revision", "request_id", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    validate_only: bool
    expected_revision: int
    request_id: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., validate_only: bool = ..., expected_revision: _Optional[int] = ..., request_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class UpdateRegionRequest(_message.Message):
    __slots__ = ("name", "owner", "description", "set_labels", "remove_labels", "policy", "policy_mask", "next", "validate_only", "expected_revision", "request_id", "reason")
    class SetLabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    SET_LABELS_FIELD_NUMBER: _ClassVar[int]
    REMOVE_LABELS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    POLICY_MASK_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    owner: str
    description: str
    set_labels: _containers.ScalarMap[str, str]
    remove_labels: _containers.RepeatedScalarFieldContainer[str]
    policy: Policy
    policy_mask: _field_mask_pb2.FieldMask
    next: _types_pb2.Uint128
    validate_only: bool
    expected_revision: int
    request_id: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., owner: _Optional[str] = ..., description: _Optional[str] = ..., set_labels: _Optional[_Mapping[str, str]] = ..., remove_labels: _Optional[_Iterable[str]] = ..., policy: _Optional[_Union[Policy, _Mapping]] = ..., policy_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., next: _Optional[_Union[_types_pb2.Uint128, _Mapping]] = ..., validate_only: bool = ..., expected_revision: _Optional[int] = ..., request_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class SplitRegionRequest(_message.Message):
    __slots__ = ("name", "by_bits", "new_regions", "validate_only", "expected_revision", "request_id", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BY_BITS_FIELD_NUMBER: _ClassVar[int]
    NEW_REGIONS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    by_bits: int
    new_regions: _containers.RepeatedCompositeFieldContainer[NewRegion]
    validate_only: bool
    expected_revision: int
    request_id: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., by_bits: _Optional[int] = ..., new_regions: _Optional[_Iterable[_Union[NewRegion, _Mapping]]] = ..., validate_only: bool = ..., expected_revision: _Optional[int] = ..., request_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class AddSubregionsRequest(_message.Message):
    __slots__ = ("name", "by_bits", "new_regions", "abstract", "validate_only", "expected_revision", "request_id", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BY_BITS_FIELD_NUMBER: _ClassVar[int]
    NEW_REGIONS_FIELD_NUMBER: _ClassVar[int]
    ABSTRACT_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    by_bits: int
    new_regions: _containers.RepeatedCompositeFieldContainer[NewRegion]
    abstract: bool
    validate_only: bool
    expected_revision: int
    request_id: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., by_bits: _Optional[int] = ..., new_regions: _Optional[_Iterable[_Union[NewRegion, _Mapping]]] = ..., abstract: bool = ..., validate_only: bool = ..., expected_revision: _Optional[int] = ..., request_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class NewRegion(_message.Message):
    __slots__ = ("region_id", "suffix_bits", "extension", "order", "next", "pace", "sealed", "policy")
    REGION_ID_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_BITS_FIELD_NUMBER: _ClassVar[int]
    EXTENSION_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    PACE_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    region_id: str
    suffix_bits: int
    extension: str
    order: Region.Order
    next: _types_pb2.Uint128
    pace: int
    sealed: bool
    policy: Policy
    def __init__(self, region_id: _Optional[str] = ..., suffix_bits: _Optional[int] = ..., extension: _Optional[str] = ..., order: _Optional[_Union[Region.Order, str]] = ..., next: _Optional[_Union[_types_pb2.Uint128, _Mapping]] = ..., pace: _Optional[int] = ..., sealed: bool = ..., policy: _Optional[_Union[Policy, _Mapping]] = ...) -> None: ...

class ImportTableRequest(_message.Message):
    __slots__ = ("parent", "bits", "regions", "validate_only", "expected_revision", "request_id", "reason")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    BITS_FIELD_NUMBER: _ClassVar[int]
    REGIONS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    parent: str
    bits: int
    regions: _containers.RepeatedCompositeFieldContainer[Region]
    validate_only: bool
    expected_revision: int
    request_id: str
    reason: str
    def __init__(self, parent: _Optional[str] = ..., bits: _Optional[int] = ..., regions: _Optional[_Iterable[_Union[Region, _Mapping]]] = ..., validate_only: bool = ..., expected_revision: _Optional[int] = ..., request_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class EditResponse(_message.Message):
    __slots__ = ("region", "changes", "base_revision", "revision", "validate_only", "freed_prefixes", "donor", "unconfirmed", "effective_within_ms")
    REGION_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    BASE_REVISION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    FREED_PREFIXES_FIELD_NUMBER: _ClassVar[int]
    DONOR_FIELD_NUMBER: _ClassVar[int]
    UNCONFIRMED_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_WITHIN_MS_FIELD_NUMBER: _ClassVar[int]
    region: Region
    changes: _containers.RepeatedCompositeFieldContainer[RegionChange]
    base_revision: int
    revision: int
    validate_only: bool
    freed_prefixes: _containers.RepeatedScalarFieldContainer[str]
    donor: str
    unconfirmed: _containers.RepeatedScalarFieldContainer[str]
    effective_within_ms: int
    def __init__(self, region: _Optional[_Union[Region, _Mapping]] = ..., changes: _Optional[_Iterable[_Union[RegionChange, _Mapping]]] = ..., base_revision: _Optional[int] = ..., revision: _Optional[int] = ..., validate_only: bool = ..., freed_prefixes: _Optional[_Iterable[str]] = ..., donor: _Optional[str] = ..., unconfirmed: _Optional[_Iterable[str]] = ..., effective_within_ms: _Optional[int] = ...) -> None: ...

class EditSuggestion(_message.Message):
    __slots__ = ("rule", "revision", "create", "expand", "shrink", "split", "subdivide", "update", "seal", "delete")
    RULE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CREATE_FIELD_NUMBER: _ClassVar[int]
    EXPAND_FIELD_NUMBER: _ClassVar[int]
    SHRINK_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    SUBDIVIDE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    DELETE_FIELD_NUMBER: _ClassVar[int]
    rule: str
    revision: int
    create: CreateRegionRequest
    expand: ExpandRegionRequest
    shrink: ShrinkRegionRequest
    split: SplitRegionRequest
    subdivide: AddSubregionsRequest
    update: UpdateRegionRequest
    seal: SealRegionRequest
    delete: DeleteRegionRequest
    def __init__(self, rule: _Optional[str] = ..., revision: _Optional[int] = ..., create: _Optional[_Union[CreateRegionRequest, _Mapping]] = ..., expand: _Optional[_Union[ExpandRegionRequest, _Mapping]] = ..., shrink: _Optional[_Union[ShrinkRegionRequest, _Mapping]] = ..., split: _Optional[_Union[SplitRegionRequest, _Mapping]] = ..., subdivide: _Optional[_Union[AddSubregionsRequest, _Mapping]] = ..., update: _Optional[_Union[UpdateRegionRequest, _Mapping]] = ..., seal: _Optional[_Union[SealRegionRequest, _Mapping]] = ..., delete: _Optional[_Union[DeleteRegionRequest, _Mapping]] = ...) -> None: ...

class ComposeRequest(_message.Message):
    __slots__ = ("name", "suffixes", "identifiers")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SUFFIXES_FIELD_NUMBER: _ClassVar[int]
    IDENTIFIERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    suffixes: _containers.RepeatedCompositeFieldContainer[_types_pb2.Uint128]
    identifiers: _containers.RepeatedCompositeFieldContainer[_types_pb2.Uint128]
    def __init__(self, name: _Optional[str] = ..., suffixes: _Optional[_Iterable[_Union[_types_pb2.Uint128, _Mapping]]] = ..., identifiers: _Optional[_Iterable[_Union[_types_pb2.Uint128, _Mapping]]] = ...) -> None: ...

class ComposeResponse(_message.Message):
    __slots__ = ("composed",)
    COMPOSED_FIELD_NUMBER: _ClassVar[int]
    composed: _containers.RepeatedCompositeFieldContainer[Composed]
    def __init__(self, composed: _Optional[_Iterable[_Union[Composed, _Mapping]]] = ...) -> None: ...

class Composed(_message.Message):
    __slots__ = ("suffix", "identifier", "text")
    SUFFIX_FIELD_NUMBER: _ClassVar[int]
    IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    suffix: _types_pb2.Uint128
    identifier: _types_pb2.Uint128
    text: str
    def __init__(self, suffix: _Optional[_Union[_types_pb2.Uint128, _Mapping]] = ..., identifier: _Optional[_Union[_types_pb2.Uint128, _Mapping]] = ..., text: _Optional[str] = ...) -> None: ...

class ListHistoryRequest(_message.Message):
    __slots__ = ("parent", "page_size", "page_token")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    parent: str
    page_size: int
    page_token: str
    def __init__(self, parent: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListHistoryResponse(_message.Message):
    __slots__ = ("entries", "next_page_token", "forgotten_through")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_THROUGH_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[HistoryEntry]
    next_page_token: str
    forgotten_through: int
    def __init__(self, entries: _Optional[_Iterable[_Union[HistoryEntry, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., forgotten_through: _Optional[int] = ...) -> None: ...

class HistoryEntry(_message.Message):
    __slots__ = ("revision", "time", "principal", "operation", "reason", "request_id", "changes", "declared", "declared_before", "undoes")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    DECLARED_FIELD_NUMBER: _ClassVar[int]
    DECLARED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    UNDOES_FIELD_NUMBER: _ClassVar[int]
    revision: int
    time: str
    principal: str
    operation: str
    reason: str
    request_id: str
    changes: _containers.RepeatedCompositeFieldContainer[RegionChange]
    declared: str
    declared_before: str
    undoes: int
    def __init__(self, revision: _Optional[int] = ..., time: _Optional[str] = ..., principal: _Optional[str] = ..., operation: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ..., changes: _Optional[_Iterable[_Union[RegionChange, _Mapping]]] = ..., declared: _Optional[str] = ..., declared_before: _Optional[str] = ..., undoes: _Optional[int] = ...) -> None: ...

class WatchTableRequest(_message.Message):
    __slots__ = ("parent", "after_revision")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    AFTER_REVISION_FIELD_NUMBER: _ClassVar[int]
    parent: str
    after_revision: int
    def __init__(self, parent: _Optional[str] = ..., after_revision: _Optional[int] = ...) -> None: ...

class WatchTableResponse(_message.Message):
    __slots__ = ("snapshot", "change", "around")
    class Snapshot(_message.Message):
        __slots__ = ("regions", "bits", "revision", "last", "scramble_key", "sealed_by")
        REGIONS_FIELD_NUMBER: _ClassVar[int]
        BITS_FIELD_NUMBER: _ClassVar[int]
        REVISION_FIELD_NUMBER: _ClassVar[int]
        LAST_FIELD_NUMBER: _ClassVar[int]
        SCRAMBLE_KEY_FIELD_NUMBER: _ClassVar[int]
        SEALED_BY_FIELD_NUMBER: _ClassVar[int]
        regions: _containers.RepeatedCompositeFieldContainer[Region]
        bits: int
        revision: int
        last: bool
        scramble_key: bytes
        sealed_by: str
        def __init__(self, regions: _Optional[_Iterable[_Union[Region, _Mapping]]] = ..., bits: _Optional[int] = ..., revision: _Optional[int] = ..., last: bool = ..., scramble_key: _Optional[bytes] = ..., sealed_by: _Optional[str] = ...) -> None: ...
    class Around(_message.Message):
        __slots__ = ("sealed_by",)
        SEALED_BY_FIELD_NUMBER: _ClassVar[int]
        sealed_by: str
        def __init__(self, sealed_by: _Optional[str] = ...) -> None: ...
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    AROUND_FIELD_NUMBER: _ClassVar[int]
    snapshot: WatchTableResponse.Snapshot
    change: HistoryEntry
    around: WatchTableResponse.Around
    def __init__(self, snapshot: _Optional[_Union[WatchTableResponse.Snapshot, _Mapping]] = ..., change: _Optional[_Union[HistoryEntry, _Mapping]] = ..., around: _Optional[_Union[WatchTableResponse.Around, _Mapping]] = ...) -> None: ...

class RegionChange(_message.Message):
    __slots__ = ("before", "after")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    before: Region
    after: Region
    def __init__(self, before: _Optional[_Union[Region, _Mapping]] = ..., after: _Optional[_Union[Region, _Mapping]] = ...) -> None: ...

class ClassifyRequest(_message.Message):
    __slots__ = ("parent", "identifiers")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    IDENTIFIERS_FIELD_NUMBER: _ClassVar[int]
    parent: str
    identifiers: _containers.RepeatedCompositeFieldContainer[_types_pb2.Uint128]
    def __init__(self, parent: _Optional[str] = ..., identifiers: _Optional[_Iterable[_Union[_types_pb2.Uint128, _Mapping]]] = ...) -> None: ...

class ClassifyResponse(_message.Message):
    __slots__ = ("classifications", "revision")
    CLASSIFICATIONS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    classifications: _containers.RepeatedCompositeFieldContainer[Classification]
    revision: int
    def __init__(self, classifications: _Optional[_Iterable[_Union[Classification, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class Classification(_message.Message):
    __slots__ = ("identifier", "status", "path", "suffix", "issued", "former_prefixes", "local", "issued_prefix", "text", "others")
    class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATUS_UNSPECIFIED: _ClassVar[Classification.Status]
        FREE: _ClassVar[Classification.Status]
        UNASSIGNED: _ClassVar[Classification.Status]
        RESERVED: _ClassVar[Classification.Status]
        MEMBER: _ClassVar[Classification.Status]
    STATUS_UNSPECIFIED: Classification.Status
    FREE: Classification.Status
    UNASSIGNED: Classification.Status
    RESERVED: Classification.Status
    MEMBER: Classification.Status
    IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_FIELD_NUMBER: _ClassVar[int]
    ISSUED_FIELD_NUMBER: _ClassVar[int]
    FORMER_PREFIXES_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    ISSUED_PREFIX_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    identifier: _types_pb2.Uint128
    status: Classification.Status
    path: _containers.RepeatedScalarFieldContainer[str]
    suffix: _types_pb2.Uint128
    issued: bool
    former_prefixes: _containers.RepeatedCompositeFieldContainer[FormerPrefix]
    local: Classification
    issued_prefix: str
    text: str
    others: bool
    def __init__(self, identifier: _Optional[_Union[_types_pb2.Uint128, _Mapping]] = ..., status: _Optional[_Union[Classification.Status, str]] = ..., path: _Optional[_Iterable[str]] = ..., suffix: _Optional[_Union[_types_pb2.Uint128, _Mapping]] = ..., issued: bool = ..., former_prefixes: _Optional[_Iterable[_Union[FormerPrefix, _Mapping]]] = ..., local: _Optional[_Union[Classification, _Mapping]] = ..., issued_prefix: _Optional[str] = ..., text: _Optional[str] = ..., others: bool = ...) -> None: ...
