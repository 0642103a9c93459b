from google.rpc import status_pb2 as _status_pb2
from kent.v1 import regions_pb2 as _regions_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CreateSeriesRequest(_message.Message):
    __slots__ = ("source",)
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    source: str
    def __init__(self, source: _Optional[str] = ...) -> None: ...

class ListSeriesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSeriesResponse(_message.Message):
    __slots__ = ("series",)
    SERIES_FIELD_NUMBER: _ClassVar[int]
    series: _containers.RepeatedCompositeFieldContainer[Series]
    def __init__(self, series: _Optional[_Iterable[_Union[Series, _Mapping]]] = ...) -> None: ...

class ForgetSeriesRequest(_message.Message):
    __slots__ = ("source",)
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    source: str
    def __init__(self, source: _Optional[str] = ...) -> None: ...

class Series(_message.Message):
    __slots__ = ("source", "reserved", "on_demand")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    ON_DEMAND_FIELD_NUMBER: _ClassVar[int]
    source: str
    reserved: str
    on_demand: bool
    def __init__(self, source: _Optional[str] = ..., reserved: _Optional[str] = ..., on_demand: bool = ...) -> None: ...

class RaiseFloorsRequest(_message.Message):
    __slots__ = ("floors", "validate_only", "reason")
    class Floor(_message.Message):
        __slots__ = ("source", "floor")
        SOURCE_FIELD_NUMBER: _ClassVar[int]
        FLOOR_FIELD_NUMBER: _ClassVar[int]
        source: str
        floor: str
        def __init__(self, source: _Optional[str] = ..., floor: _Optional[str] = ...) -> None: ...
    FLOORS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    floors: _containers.RepeatedCompositeFieldContainer[RaiseFloorsRequest.Floor]
    validate_only: bool
    reason: str
    def __init__(self, floors: _Optional[_Iterable[_Union[RaiseFloorsRequest.Floor, _Mapping]]] = ..., validate_only: bool = ..., reason: _Optional[str] = ...) -> None: ...

class RaiseFloorsResponse(_message.Message):
    __slots__ = ("floors", "effective_within_ms")
    FLOORS_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_WITHIN_MS_FIELD_NUMBER: _ClassVar[int]
    floors: _containers.RepeatedCompositeFieldContainer[RaisedFloor]
    effective_within_ms: int
    def __init__(self, floors: _Optional[_Iterable[_Union[RaisedFloor, _Mapping]]] = ..., effective_within_ms: _Optional[int] = ...) -> None: ...

class RaisedFloor(_message.Message):
    __slots__ = ("source", "before", "after", "changed", "left")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    source: str
    before: str
    after: str
    changed: bool
    left: str
    def __init__(self, source: _Optional[str] = ..., before: _Optional[str] = ..., after: _Optional[str] = ..., changed: bool = ..., left: _Optional[str] = ...) -> None: ...

class AcceptClockRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BackupRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BackupPart(_message.Message):
    __slots__ = ("begin", "records", "end")
    class Begin(_message.Message):
        __slots__ = ("unix_nanos", "store_id", "schema")
        UNIX_NANOS_FIELD_NUMBER: _ClassVar[int]
        STORE_ID_FIELD_NUMBER: _ClassVar[int]
        SCHEMA_FIELD_NUMBER: _ClassVar[int]
        unix_nanos: int
        store_id: str
        schema: int
        def __init__(self, unix_nanos: _Optional[int] = ..., store_id: _Optional[str] = ..., schema: _Optional[int] = ...) -> None: ...
    class Records(_message.Message):
        __slots__ = ("records",)
        RECORDS_FIELD_NUMBER: _ClassVar[int]
        records: _containers.RepeatedCompositeFieldContainer[BackupPart.Record]
        def __init__(self, records: _Optional[_Iterable[_Union[BackupPart.Record, _Mapping]]] = ...) -> None: ...
    class Record(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    class End(_message.Message):
        __slots__ = ("count", "crc32")
        COUNT_FIELD_NUMBER: _ClassVar[int]
        CRC32_FIELD_NUMBER: _ClassVar[int]
        count: int
        crc32: int
        def __init__(self, count: _Optional[int] = ..., crc32: _Optional[int] = ...) -> None: ...
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    begin: BackupPart.Begin
    records: BackupPart.Records
    end: BackupPart.End
    def __init__(self, begin: _Optional[_Union[BackupPart.Begin, _Mapping]] = ..., records: _Optional[_Union[BackupPart.Records, _Mapping]] = ..., end: _Optional[_Union[BackupPart.End, _Mapping]] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Status(_message.Message):
    __slots__ = ("version", "uptime_seconds", "ready", "reasons", "store", "clock", "slots", "chunks", "limits", "replicas")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    UPTIME_SECONDS_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    version: str
    uptime_seconds: int
    ready: bool
    reasons: _containers.RepeatedScalarFieldContainer[str]
    store: StoreStatus
    clock: ClockStatus
    slots: _containers.RepeatedCompositeFieldContainer[SlotStatus]
    chunks: _containers.RepeatedCompositeFieldContainer[ChunkStatus]
    limits: Limits
    replicas: _containers.RepeatedCompositeFieldContainer[ReplicaStatus]
    def __init__(self, version: _Optional[str] = ..., uptime_seconds: _Optional[int] = ..., ready: bool = ..., reasons: _Optional[_Iterable[str]] = ..., store: _Optional[_Union[StoreStatus, _Mapping]] = ..., clock: _Optional[_Union[ClockStatus, _Mapping]] = ..., slots: _Optional[_Iterable[_Union[SlotStatus, _Mapping]]] = ..., chunks: _Optional[_Iterable[_Union[ChunkStatus, _Mapping]]] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., replicas: _Optional[_Iterable[_Union[ReplicaStatus, _Mapping]]] = ...) -> None: ...

class ReplicaStatus(_message.Message):
    __slots__ = ("name", "address", "version", "slot", "reserved_until", "clock_ahead_ms", "applied_version", "answering", "heard_ms_ago")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    RESERVED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    CLOCK_AHEAD_MS_FIELD_NUMBER: _ClassVar[int]
    APPLIED_VERSION_FIELD_NUMBER: _ClassVar[int]
    ANSWERING_FIELD_NUMBER: _ClassVar[int]
    HEARD_MS_AGO_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    version: str
    slot: int
    reserved_until: int
    clock_ahead_ms: int
    applied_version: int
    answering: bool
    heard_ms_ago: int
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., version: _Optional[str] = ..., slot: _Optional[int] = ..., reserved_until: _Optional[int] = ..., clock_ahead_ms: _Optional[int] = ..., applied_version: _Optional[int] = ..., answering: bool = ..., heard_ms_ago: _Optional[int] = ...) -> None: ...

class StoreStatus(_message.Message):
    __slots__ = ("kind", "location", "id", "commits", "flushes", "conflicts", "reached_ms_ago", "unreachable")
    KIND_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    COMMITS_FIELD_NUMBER: _ClassVar[int]
    FLUSHES_FIELD_NUMBER: _ClassVar[int]
    CONFLICTS_FIELD_NUMBER: _ClassVar[int]
    REACHED_MS_AGO_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    location: str
    id: str
    commits: int
    flushes: int
    conflicts: int
    reached_ms_ago: int
    unreachable: str
    def __init__(self, kind: _Optional[str] = ..., location: _Optional[str] = ..., id: _Optional[str] = ..., commits: _Optional[int] = ..., flushes: _Optional[int] = ..., conflicts: _Optional[int] = ..., reached_ms_ago: _Optional[int] = ..., unreachable: _Optional[str] = ...) -> None: ...

class ClockStatus(_message.Message):
    __slots__ = ("unix_nanos", "clock_epoch", "tolerance_ms", "max_ahead_ms", "quarantine")
    UNIX_NANOS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOLERANCE_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_AHEAD_MS_FIELD_NUMBER: _ClassVar[int]
    QUARANTINE_FIELD_NUMBER: _ClassVar[int]
    unix_nanos: int
    clock_epoch: int
    tolerance_ms: int
    max_ahead_ms: int
    quarantine: ClockQuarantine
    def __init__(self, unix_nanos: _Optional[int] = ..., clock_epoch: _Optional[int] = ..., tolerance_ms: _Optional[int] = ..., max_ahead_ms: _Optional[int] = ..., quarantine: _Optional[_Union[ClockQuarantine, _Mapping]] = ...) -> None: ...

class ClockQuarantine(_message.Message):
    __slots__ = ("ahead_ms", "instead_unix_nanos")
    AHEAD_MS_FIELD_NUMBER: _ClassVar[int]
    INSTEAD_UNIX_NANOS_FIELD_NUMBER: _ClassVar[int]
    ahead_ms: int
    instead_unix_nanos: int
    def __init__(self, ahead_ms: _Optional[int] = ..., instead_unix_nanos: _Optional[int] = ...) -> None: ...

class SlotStatus(_message.Message):
    __slots__ = ("slot", "slot_epoch", "node", "clock_seq", "reserved_until", "window_left_ms")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    SLOT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    CLOCK_SEQ_FIELD_NUMBER: _ClassVar[int]
    RESERVED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    WINDOW_LEFT_MS_FIELD_NUMBER: _ClassVar[int]
    slot: int
    slot_epoch: int
    node: str
    clock_seq: int
    reserved_until: int
    window_left_ms: int
    def __init__(self, slot: _Optional[int] = ..., slot_epoch: _Optional[int] = ..., node: _Optional[str] = ..., clock_seq: _Optional[int] = ..., reserved_until: _Optional[int] = ..., window_left_ms: _Optional[int] = ...) -> None: ...

class ChunkStatus(_message.Message):
    __slots__ = ("source", "left")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    source: str
    left: str
    def __init__(self, source: _Optional[str] = ..., left: _Optional[str] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("lease_count", "packed_bytes", "streams")
    LEASE_COUNT_FIELD_NUMBER: _ClassVar[int]
    PACKED_BYTES_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    lease_count: int
    packed_bytes: int
    streams: int
    def __init__(self, lease_count: _Optional[int] = ..., packed_bytes: _Optional[int] = ..., streams: _Optional[int] = ...) -> None: ...

class WatchConsoleRequest(_message.Message):
    __slots__ = ("figures", "tables")
    class Figures(_message.Message):
        __slots__ = ("after_unix_seconds",)
        AFTER_UNIX_SECONDS_FIELD_NUMBER: _ClassVar[int]
        after_unix_seconds: int
        def __init__(self, after_unix_seconds: _Optional[int] = ...) -> None: ...
    class Table(_message.Message):
        __slots__ = ("parent", "after_revision")
        PARENT_FIELD_NUMBER: _ClassVar[int]
        AFTER_REVISION_FIELD_NUMBER: _ClassVar[int]
        parent: str
        after_revision: int
        def __init__(self, parent: _Optional[str] = ..., after_revision: _Optional[int] = ...) -> None: ...
    FIGURES_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    figures: WatchConsoleRequest.Figures
    tables: _containers.RepeatedCompositeFieldContainer[WatchConsoleRequest.Table]
    def __init__(self, figures: _Optional[_Union[WatchConsoleRequest.Figures, _Mapping]] = ..., tables: _Optional[_Iterable[_Union[WatchConsoleRequest.Table, _Mapping]]] = ...) -> None: ...

class WatchConsoleResponse(_message.Message):
    __slots__ = ("seconds", "begin", "edit", "refused")
    class Seconds(_message.Message):
        __slots__ = ("seconds",)
        SECONDS_FIELD_NUMBER: _ClassVar[int]
        seconds: _containers.RepeatedCompositeFieldContainer[FiguresOfSecond]
        def __init__(self, seconds: _Optional[_Iterable[_Union[FiguresOfSecond, _Mapping]]] = ...) -> None: ...
    class Begin(_message.Message):
        __slots__ = ("parent", "revision")
        PARENT_FIELD_NUMBER: _ClassVar[int]
        REVISION_FIELD_NUMBER: _ClassVar[int]
        parent: str
        revision: int
        def __init__(self, parent: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...
    class Edit(_message.Message):
        __slots__ = ("parent", "entry")
        PARENT_FIELD_NUMBER: _ClassVar[int]
        ENTRY_FIELD_NUMBER: _ClassVar[int]
        parent: str
        entry: _regions_pb2.HistoryEntry
        def __init__(self, parent: _Optional[str] = ..., entry: _Optional[_Union[_regions_pb2.HistoryEntry, _Mapping]] = ...) -> None: ...
    class Refused(_message.Message):
        __slots__ = ("figures", "parent", "status")
        FIGURES_FIELD_NUMBER: _ClassVar[int]
        PARENT_FIELD_NUMBER: _ClassVar[int]
        STATUS_FIELD_NUMBER: _ClassVar[int]
        figures: bool
        parent: str
        status: _status_pb2.Status
        def __init__(self, figures: bool = ..., parent: _Optional[str] = ..., status: _Optional[_Union[_status_pb2.Status, _Mapping]] = ...) -> None: ...
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    EDIT_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    seconds: WatchConsoleResponse.Seconds
    begin: WatchConsoleResponse.Begin
    edit: WatchConsoleResponse.Edit
    refused: WatchConsoleResponse.Refused
    def __init__(self, seconds: _Optional[_Union[WatchConsoleResponse.Seconds, _Mapping]] = ..., begin: _Optional[_Union[WatchConsoleResponse.Begin, _Mapping]] = ..., edit: _Optional[_Union[WatchConsoleResponse.Edit, _Mapping]] = ..., refused: _Optional[_Union[WatchConsoleResponse.Refused, _Mapping]] = ...) -> None: ...

class FiguresOfSecond(_message.Message):
    __slots__ = ("unix_seconds", "replicas", "sources")
    UNIX_SECONDS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    unix_seconds: int
    replicas: _containers.RepeatedCompositeFieldContainer[ReplicaFigures]
    sources: _containers.RepeatedCompositeFieldContainer[SourceFigures]
    def __init__(self, unix_seconds: _Optional[int] = ..., replicas: _Optional[_Iterable[_Union[ReplicaFigures, _Mapping]]] = ..., sources: _Optional[_Iterable[_Union[SourceFigures, _Mapping]]] = ...) -> None: ...

class ReplicaFigures(_message.Message):
    __slots__ = ("name", "address", "answering", "grants", "identifiers", "p50_micros", "p99_micros", "window_left_ms", "clock_ahead_ms", "store_micros", "slot")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ANSWERING_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    IDENTIFIERS_FIELD_NUMBER: _ClassVar[int]
    P50_MICROS_FIELD_NUMBER: _ClassVar[int]
    P99_MICROS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_LEFT_MS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_AHEAD_MS_FIELD_NUMBER: _ClassVar[int]
    STORE_MICROS_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    answering: bool
    grants: float
    identifiers: float
    p50_micros: float
    p99_micros: float
    window_left_ms: int
    clock_ahead_ms: int
    store_micros: float
    slot: int
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., answering: bool = ..., grants: _Optional[float] = ..., identifiers: _Optional[float] = ..., p50_micros: _Optional[float] = ..., p99_micros: _Optional[float] = ..., window_left_ms: _Optional[int] = ..., clock_ahead_ms: _Optional[int] = ..., store_micros: _Optional[float] = ..., slot: _Optional[int] = ...) -> None: ...

class SourceFigures(_message.Message):
    __slots__ = ("source", "grants", "identifiers")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    IDENTIFIERS_FIELD_NUMBER: _ClassVar[int]
    source: str
    grants: int
    identifiers: int
    def __init__(self, source: _Optional[str] = ..., grants: _Optional[int] = ..., identifiers: _Optional[int] = ...) -> None: ...

class DiagnoseRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Diagnosis(_message.Message):
    __slots__ = ("status", "directories", "store_size", "etcd", "open_files", "open_files_max", "full_first", "certificates")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    DIRECTORIES_FIELD_NUMBER: _ClassVar[int]
    STORE_SIZE_FIELD_NUMBER: _ClassVar[int]
    ETCD_FIELD_NUMBER: _ClassVar[int]
    OPEN_FILES_FIELD_NUMBER: _ClassVar[int]
    OPEN_FILES_MAX_FIELD_NUMBER: _ClassVar[int]
    FULL_FIRST_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATES_FIELD_NUMBER: _ClassVar[int]
    status: Status
    directories: _containers.RepeatedCompositeFieldContainer[Directory]
    store_size: StoreSize
    etcd: Etcd
    open_files: int
    open_files_max: int
    full_first: _containers.RepeatedCompositeFieldContainer[Forecast]
    certificates: _containers.RepeatedCompositeFieldContainer[CertificateFile]
    def __init__(self, status: _Optional[_Union[Status, _Mapping]] = ..., directories: _Optional[_Iterable[_Union[Directory, _Mapping]]] = ..., store_size: _Optional[_Union[StoreSize, _Mapping]] = ..., etcd: _Optional[_Union[Etcd, _Mapping]] = ..., open_files: _Optional[int] = ..., open_files_max: _Optional[int] = ..., full_first: _Optional[_Iterable[_Union[Forecast, _Mapping]]] = ..., certificates: _Optional[_Iterable[_Union[CertificateFile, _Mapping]]] = ...) -> None: ...

class CertificateFile(_message.Message):
    __slots__ = ("setting", "path", "ends_in_seconds")
    SETTING_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    ENDS_IN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    setting: str
    path: str
    ends_in_seconds: float
    def __init__(self, setting: _Optional[str] = ..., path: _Optional[str] = ..., ends_in_seconds: _Optional[float] = ...) -> None: ...

class Directory(_message.Message):
    __slots__ = ("setting", "path", "free_bytes", "total_bytes", "sync_micros", "sync_max_micros", "problem")
    SETTING_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    SYNC_MICROS_FIELD_NUMBER: _ClassVar[int]
    SYNC_MAX_MICROS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    setting: str
    path: str
    free_bytes: int
    total_bytes: int
    sync_micros: int
    sync_max_micros: int
    problem: str
    def __init__(self, setting: _Optional[str] = ..., path: _Optional[str] = ..., free_bytes: _Optional[int] = ..., total_bytes: _Optional[int] = ..., sync_micros: _Optional[int] = ..., sync_max_micros: _Optional[int] = ..., problem: _Optional[str] = ...) -> None: ...

class StoreSize(_message.Message):
    __slots__ = ("bytes", "journal_bytes")
    BYTES_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    journal_bytes: int
    def __init__(self, bytes: _Optional[int] = ..., journal_bytes: _Optional[int] = ...) -> None: ...

class Etcd(_message.Message):
    __slots__ = ("read_micros", "problem", "members", "alarms")
    READ_MICROS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    ALARMS_FIELD_NUMBER: _ClassVar[int]
    read_micros: int
    problem: str
    members: _containers.RepeatedCompositeFieldContainer[EtcdMember]
    alarms: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, read_micros: _Optional[int] = ..., problem: _Optional[str] = ..., members: _Optional[_Iterable[_Union[EtcdMember, _Mapping]]] = ..., alarms: _Optional[_Iterable[str]] = ...) -> None: ...

class EtcdMember(_message.Message):
    __slots__ = ("name", "endpoint", "addressed", "learner", "problem", "version", "latency_micros", "database_bytes", "used_bytes", "quota_bytes", "leader", "has_leader", "errors")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    ADDRESSED_FIELD_NUMBER: _ClassVar[int]
    LEARNER_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LATENCY_MICROS_FIELD_NUMBER: _ClassVar[int]
    DATABASE_BYTES_FIELD_NUMBER: _ClassVar[int]
    USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    QUOTA_BYTES_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    HAS_LEADER_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    name: str
    endpoint: str
    addressed: bool
    learner: bool
    problem: str
    version: str
    latency_micros: int
    database_bytes: int
    used_bytes: int
    quota_bytes: int
    leader: bool
    has_leader: bool
    errors: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., endpoint: _Optional[str] = ..., addressed: bool = ..., learner: bool = ..., problem: _Optional[str] = ..., version: _Optional[str] = ..., latency_micros: _Optional[int] = ..., database_bytes: _Optional[int] = ..., used_bytes: _Optional[int] = ..., quota_bytes: _Optional[int] = ..., leader: bool = ..., has_leader: bool = ..., errors: _Optional[_Iterable[str]] = ...) -> None: ...

class Forecast(_message.Message):
    __slots__ = ("source", "capacity", "reserved", "full_in_seconds", "capped", "expandable_bits")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    FULL_IN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CAPPED_FIELD_NUMBER: _ClassVar[int]
    EXPANDABLE_BITS_FIELD_NUMBER: _ClassVar[int]
    source: str
    capacity: str
    reserved: str
    full_in_seconds: float
    capped: bool
    expandable_bits: int
    def __init__(self, source: _Optional[str] = ..., capacity: _Optional[str] = ..., reserved: _Optional[str] = ..., full_in_seconds: _Optional[float] = ..., capped: bool = ..., expandable_bits: _Optional[int] = ...) -> None: ...

class DumpEventsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DumpEventsResponse(_message.Message):
    __slots__ = ("events", "total")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[NotableEvent]
    total: int
    def __init__(self, events: _Optional[_Iterable[_Union[NotableEvent, _Mapping]]] = ..., total: _Optional[int] = ...) -> None: ...

class NotableEvent(_message.Message):
    __slots__ = ("unix_nanos", "kind", "figures")
    class Figure(_message.Message):
        __slots__ = ("name", "value")
        NAME_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        name: str
        value: str
        def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    UNIX_NANOS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    FIGURES_FIELD_NUMBER: _ClassVar[int]
    unix_nanos: int
    kind: str
    figures: _containers.RepeatedCompositeFieldContainer[NotableEvent.Figure]
    def __init__(self, unix_nanos: _Optional[int] = ..., kind: _Optional[str] = ..., figures: _Optional[_Iterable[_Union[NotableEvent.Figure, _Mapping]]] = ...) -> None: ...

class SetLogFilterRequest(_message.Message):
    __slots__ = ("filter", "reset")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    filter: str
    reset: bool
    def __init__(self, filter: _Optional[str] = ..., reset: bool = ...) -> None: ...

class LogFilter(_message.Message):
    __slots__ = ("filter", "previous", "configured")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    CONFIGURED_FIELD_NUMBER: _ClassVar[int]
    filter: str
    previous: str
    configured: str
    def __init__(self, filter: _Optional[str] = ..., previous: _Optional[str] = ..., configured: _Optional[str] = ...) -> None: ...
