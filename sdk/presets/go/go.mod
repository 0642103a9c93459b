module kent/presets

go 1.26

require (
	github.com/gofrs/uuid/v5 v5.2.0
	github.com/rs/xid v1.6.0
	github.com/segmentio/ksuid v1.0.4
	github.com/sony/sonyflake v1.3.0
	github.com/sony/sonyflake/v2 v2.2.0
	go.jetify.com/typeid v1.3.0
)
