package kent

// How the identifiers of a source are encoded in replies, and how to read them.

import (
	"encoding/binary"
	"fmt"
	"strings"

	pb "kent.example/kent-go/kentv1"
)

const (
	textsMax  = 10_000  // The maximum number of identifiers that a daemon returns as text in one call.
	packedMax = 200_000 // The maximum number of packed identifiers that a client requests in one call.
)

// A kind describes how to request and read the identifiers of a source.
type kind[T any] struct {
	encoding pb.Encoding
	// read returns the identifiers of a reply.
	read func(*pb.AllocateResponse) ([]T, error)
	// ages is true if identifiers expire, because they contain a timestamp.
	ages bool
	// hasSlots is true if fencing tokens belong to slots of the cluster, not to the source.
	hasSlots bool
}

var (
	uuidOfSlot   = kind[UUID]{encoding: pb.Encoding_ENCODING_PACKED, read: readUUIDs, ages: true, hasSlots: true}
	uuidOfSeries = kind[UUID]{encoding: pb.Encoding_ENCODING_PACKED, read: readUUIDs}
	textOfSlot   = kind[string]{encoding: pb.Encoding_ENCODING_TEXT, read: readTexts, ages: true, hasSlots: true}
	textOfSeries = kind[string]{encoding: pb.Encoding_ENCODING_TEXT, read: readTexts}
	number       = kind[Number]{encoding: pb.Encoding_ENCODING_PACKED, read: readNumbers}
)

// kindOf returns the kind of the source with this name.
func kindOf(source string) kind[any] {
	switch {
	case strings.HasPrefix(source, "region:"):
		return boxed(number)
	case strings.HasPrefix(source, "serial:"):
		return boxed(uuidOfSeries)
	case strings.HasPrefix(source, "uuid"):
		return boxed(uuidOfSlot)
	case source == "uid11-fullrand":
		return boxed(textOfSeries)
	default:
		return boxed(textOfSlot)
	}
}

func boxed[T any](of kind[T]) kind[any] {
	read := func(reply *pb.AllocateResponse) ([]any, error) {
		ids, err := of.read(reply)
		if err != nil {
			return nil, err
		}
		boxes := make([]any, len(ids))
		for i, id := range ids {
			boxes[i] = id
		}
		return boxes, nil
	}
	return kind[any]{encoding: of.encoding, read: read, ages: of.ages, hasSlots: of.hasSlots}
}

// countMax returns the maximum number of identifiers to request in one call.
func (k kind[T]) countMax() int {
	if k.encoding == pb.Encoding_ENCODING_TEXT {
		return textsMax
	}
	return packedMax
}

// identifiers returns the identifiers of a reply to a request for count identifiers.
func (k kind[T]) identifiers(reply *pb.AllocateResponse, count int) ([]T, error) {
	ids, err := k.read(reply)
	if err != nil {
		return nil, err
	}
	if len(ids) < 1 || len(ids) > count {
		return nil, unusable("requested %d identifiers, got %d", count, len(ids))
	}
	return ids, nil
}

// fence returns the subject and the fencing token of a reply.
func (k kind[T]) fence(source string, reply *pb.AllocateResponse) (subject, uint64) {
	if k.hasSlots {
		source = ""
	}
	if text := reply.GetText(); text != nil {
		return subject{source, text.GetFenceSubject()}, text.GetFenceToken()
	}
	packed := reply.GetPacked()
	return subject{source, packed.GetFenceSubject()}, packed.GetFenceToken()
}

func unusable(format string, arguments ...any) error {
	return &UnusableError{What: fmt.Sprintf(format, arguments...)}
}

// packed returns the bytes of packed identifiers, and the width of each in bytes.
func packed(reply *pb.AllocateResponse) ([]byte, int, error) {
	width, data := uint64(reply.GetPacked().GetWidth()), reply.GetPacked().GetData()
	if width < 1 || width > 16 || uint64(len(data))%width != 0 {
		return nil, 0, unusable("the daemon returned no packed identifiers, or their width of %d bytes is not valid", width)
	}
	return data, int(width), nil
}

func readUUIDs(reply *pb.AllocateResponse) ([]UUID, error) {
	data, width, err := packed(reply)
	if err != nil {
		return nil, err
	}
	if width != 16 {
		return nil, unusable("identifiers of %d bytes are not UUIDs", width)
	}
	ids := make([]UUID, len(data)/16)
	for i := range ids {
		ids[i] = UUID(data[i*16:])
	}
	return ids, nil
}

func readNumbers(reply *pb.AllocateResponse) ([]Number, error) {
	data, width, err := packed(reply)
	if err != nil {
		return nil, err
	}
	ids := make([]Number, len(data)/width)
	for i := range ids {
		var wide [16]byte
		copy(wide[16-width:], data[i*width:(i+1)*width])
		ids[i] = Number{High: binary.BigEndian.Uint64(wide[:8]), Low: binary.BigEndian.Uint64(wide[8:])}
	}
	return ids, nil
}

func readTexts(reply *pb.AllocateResponse) ([]string, error) {
	if reply.GetText() == nil {
		return nil, unusable("the daemon returned no identifiers as text")
	}
	return reply.GetText().GetIds(), nil
}
