module kent.example/kent-go/internal/tools

go 1.26.0

require (
	github.com/bufbuild/protocompile v0.14.1
	golang.org/x/mod v0.41.0
	google.golang.org/protobuf v1.36.12
)

require (
	golang.org/x/sync v0.8.0 // indirect
	google.golang.org/grpc/cmd/protoc-gen-go-grpc v1.6.2 // indirect
)

tool (
	google.golang.org/grpc/cmd/protoc-gen-go-grpc
	google.golang.org/protobuf/cmd/protoc-gen-go
)
