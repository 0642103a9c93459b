from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WhoAmIRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Principal(_message.Message):
    __slots__ = ("name", "permissions", "roles", "expires_unix_ms", "on_behalf_of", "auth_required", "limits")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    AUTH_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    name: str
    permissions: _containers.RepeatedScalarFieldContainer[str]
    roles: _containers.RepeatedScalarFieldContainer[str]
    expires_unix_ms: int
    on_behalf_of: str
    auth_required: bool
    limits: CallerLimits
    def __init__(self, name: _Optional[str] = ..., permissions: _Optional[_Iterable[str]] = ..., roles: _Optional[_Iterable[str]] = ..., expires_unix_ms: _Optional[int] = ..., on_behalf_of: _Optional[str] = ..., auth_required: bool = ..., limits: _Optional[_Union[CallerLimits, _Mapping]] = ...) -> None: ...

class CallerLimits(_message.Message):
    __slots__ = ("ids_per_second", "calls_per_second", "streams", "connections")
    IDS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    CALLS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    ids_per_second: int
    calls_per_second: int
    streams: int
    connections: int
    def __init__(self, ids_per_second: _Optional[int] = ..., calls_per_second: _Optional[int] = ..., streams: _Optional[int] = ..., connections: _Optional[int] = ...) -> None: ...

class CreateTokenRequest(_message.Message):
    __slots__ = ("name", "permissions", "roles", "valid_seconds", "limits", "budgets")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    VALID_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    BUDGETS_FIELD_NUMBER: _ClassVar[int]
    name: str
    permissions: _containers.RepeatedScalarFieldContainer[str]
    roles: _containers.RepeatedScalarFieldContainer[str]
    valid_seconds: int
    limits: CallerLimits
    budgets: _containers.RepeatedCompositeFieldContainer[NewBudget]
    def __init__(self, name: _Optional[str] = ..., permissions: _Optional[_Iterable[str]] = ..., roles: _Optional[_Iterable[str]] = ..., valid_seconds: _Optional[int] = ..., limits: _Optional[_Union[CallerLimits, _Mapping]] = ..., budgets: _Optional[_Iterable[_Union[NewBudget, _Mapping]]] = ...) -> None: ...

class NewBudget(_message.Message):
    __slots__ = ("resource", "total")
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    resource: str
    total: int
    def __init__(self, resource: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class CreatedToken(_message.Message):
    __slots__ = ("secret", "token")
    SECRET_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    secret: str
    token: Token
    def __init__(self, secret: _Optional[str] = ..., token: _Optional[_Union[Token, _Mapping]] = ...) -> None: ...

class Token(_message.Message):
    __slots__ = ("id", "name", "permissions", "roles", "created_unix_ms", "expires_unix_ms", "created_by", "refused", "limits")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    CREATED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    permissions: _containers.RepeatedScalarFieldContainer[str]
    roles: _containers.RepeatedScalarFieldContainer[str]
    created_unix_ms: int
    expires_unix_ms: int
    created_by: str
    refused: str
    limits: CallerLimits
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., permissions: _Optional[_Iterable[str]] = ..., roles: _Optional[_Iterable[str]] = ..., created_unix_ms: _Optional[int] = ..., expires_unix_ms: _Optional[int] = ..., created_by: _Optional[str] = ..., refused: _Optional[str] = ..., limits: _Optional[_Union[CallerLimits, _Mapping]] = ...) -> None: ...

class ListTokensRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListTokensResponse(_message.Message):
    __slots__ = ("tokens", "next_page_token")
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedCompositeFieldContainer[Token]
    next_page_token: str
    def __init__(self, tokens: _Optional[_Iterable[_Union[Token, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RevokeTokenRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class RotateTokenRequest(_message.Message):
    __slots__ = ("id", "grace_seconds")
    ID_FIELD_NUMBER: _ClassVar[int]
    GRACE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    id: str
    grace_seconds: int
    def __init__(self, id: _Optional[str] = ..., grace_seconds: _Optional[int] = ...) -> None: ...

class Role(_message.Message):
    __slots__ = ("name", "permissions", "certificates", "limits")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATES_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    name: str
    permissions: _containers.RepeatedScalarFieldContainer[str]
    certificates: _containers.RepeatedScalarFieldContainer[str]
    limits: CallerLimits
    def __init__(self, name: _Optional[str] = ..., permissions: _Optional[_Iterable[str]] = ..., certificates: _Optional[_Iterable[str]] = ..., limits: _Optional[_Union[CallerLimits, _Mapping]] = ...) -> None: ...

class PutRoleRequest(_message.Message):
    __slots__ = ("role", "update")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    role: Role
    update: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, role: _Optional[_Union[Role, _Mapping]] = ..., update: _Optional[_Iterable[str]] = ...) -> None: ...

class ListRolesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListRolesResponse(_message.Message):
    __slots__ = ("roles",)
    ROLES_FIELD_NUMBER: _ClassVar[int]
    roles: _containers.RepeatedCompositeFieldContainer[Role]
    def __init__(self, roles: _Optional[_Iterable[_Union[Role, _Mapping]]] = ...) -> None: ...

class DeleteRoleRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class Budget(_message.Message):
    __slots__ = ("holder", "resource", "total", "used", "left", "used_per_day", "days_left", "restored_unix_ms")
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    USED_PER_DAY_FIELD_NUMBER: _ClassVar[int]
    DAYS_LEFT_FIELD_NUMBER: _ClassVar[int]
    RESTORED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    holder: str
    resource: str
    total: int
    used: int
    left: int
    used_per_day: float
    days_left: float
    restored_unix_ms: int
    def __init__(self, holder: _Optional[str] = ..., resource: _Optional[str] = ..., total: _Optional[int] = ..., used: _Optional[int] = ..., left: _Optional[int] = ..., used_per_day: _Optional[float] = ..., days_left: _Optional[float] = ..., restored_unix_ms: _Optional[int] = ...) -> None: ...

class SetBudgetRequest(_message.Message):
    __slots__ = ("holder", "resource", "total", "add")
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    ADD_FIELD_NUMBER: _ClassVar[int]
    holder: str
    resource: str
    total: int
    add: int
    def __init__(self, holder: _Optional[str] = ..., resource: _Optional[str] = ..., total: _Optional[int] = ..., add: _Optional[int] = ...) -> None: ...

class SetBudgetResponse(_message.Message):
    __slots__ = ("budget", "changed")
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    budget: Budget
    changed: AccessChanged
    def __init__(self, budget: _Optional[_Union[Budget, _Mapping]] = ..., changed: _Optional[_Union[AccessChanged, _Mapping]] = ...) -> None: ...

class ListBudgetsRequest(_message.Message):
    __slots__ = ("holder", "page_size", "page_token")
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    holder: str
    page_size: int
    page_token: str
    def __init__(self, holder: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListBudgetsResponse(_message.Message):
    __slots__ = ("budgets", "next_page_token")
    BUDGETS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    budgets: _containers.RepeatedCompositeFieldContainer[Budget]
    next_page_token: str
    def __init__(self, budgets: _Optional[_Iterable[_Union[Budget, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeleteBudgetRequest(_message.Message):
    __slots__ = ("holder", "resource")
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    holder: str
    resource: str
    def __init__(self, holder: _Optional[str] = ..., resource: _Optional[str] = ...) -> None: ...

class AccessChanged(_message.Message):
    __slots__ = ("unconfirmed", "effective_within_ms", "role")
    UNCONFIRMED_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_WITHIN_MS_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    unconfirmed: _containers.RepeatedScalarFieldContainer[str]
    effective_within_ms: int
    role: Role
    def __init__(self, unconfirmed: _Optional[_Iterable[str]] = ..., effective_within_ms: _Optional[int] = ..., role: _Optional[_Union[Role, _Mapping]] = ...) -> None: ...
