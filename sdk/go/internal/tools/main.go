// Command tools generates the stubs of package kentv1 from the repository's .proto files, and packs the module; `../../check` runs it.
//
//	go run . stubs PROTO_DIRECTORY OUTPUT_DIRECTORY
//	go run . pack MODULE_DIRECTORY OUTPUT_DIRECTORY
//
// It compiles the files in process, without protoc, and passes them to the generators that go.mod pins.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/pluginpb"
)

// The import paths of the stubs, and of the messages that grpc already contains.
const (
	stubs  = "kent.example/kent-go/kentv1"
	status = "google.golang.org/genproto/googleapis/rpc/status"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("usage: tools stubs|pack FROM_DIRECTORY TO_DIRECTORY")
	}
	do := map[string]func(from, to string) error{"stubs": makeStubs, "pack": pack}[os.Args[1]]
	if do == nil {
		log.Fatalf("unknown command %s", os.Args[1])
	}
	if err := do(os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func makeStubs(from, to string) error {
	request, err := compile(from)
	if err != nil {
		return err
	}
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := generate(plugin, request, to); err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
	}
	return nil
}

// compile reads the files of kent/v1, and returns the request that protoc would pass to a generator.
func compile(directory string) (*pluginpb.CodeGeneratorRequest, error) {
	paths, err := filepath.Glob(filepath.Join(directory, "kent/v1/*.proto"))
	if err != nil {
		return nil, err
	}
	options := []string{"module=" + stubs, "Mgoogle/rpc/status.proto=" + status}
	var files []string
	for _, path := range paths {
		name := "kent/v1/" + filepath.Base(path)
		files = append(files, name)
		options = append(options, "M"+name+"="+stubs)
	}
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{directory}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	compiled, err := compiler.Compile(context.Background(), files...)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: files,
		Parameter:      proto.String(strings.Join(options, ",")),
	}
	seen := map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i).FileDescriptor)
		}
		request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(file))
	}
	for _, file := range compiled {
		add(file)
	}
	return request, nil
}

// generate runs a generator, and writes its files to a directory.
func generate(plugin string, request *pluginpb.CodeGeneratorRequest, directory string) error {
	input, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	command := exec.Command("go", "tool", plugin)
	command.Stdin, command.Stderr = bytes.NewReader(input), os.Stderr
	output, err := command.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return fmt.Errorf("%s", response.GetError())
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	for _, file := range response.File {
		if err := os.WriteFile(filepath.Join(directory, file.GetName()), []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
