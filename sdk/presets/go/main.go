// The program reads lines LAYOUT<tab>ID from standard input, and prints the fields that a library finds in each
// identifier as JSON. Then it prints the identifiers that the library generates: presets COUNT MACHINE.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/rs/xid"
	"github.com/segmentio/ksuid"
	"github.com/sony/sonyflake"
	sonyflake2 "github.com/sony/sonyflake/v2"
	"go.jetify.com/typeid"
)

// A line is the answer for one identifier: the bits and the fields, or an error.
type line struct {
	Layout  string            `json:"layout"`
	Library string            `json:"library"`
	From    string            `json:"from"`
	ID      string            `json:"id"`
	Hex     string            `json:"hex,omitempty"`
	Fields  map[string]uint64 `json:"fields,omitempty"`
	Error   string            `json:"error,omitempty"`
}

// A library reads an identifier into the bits and the fields, and generates its own identifiers.
type library struct {
	name     string
	read     func(id string) ([]byte, map[string]uint64)
	generate func() string
}

// must returns the value, and panics if there is an error.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func bits(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

func sonyflakes(machine uint16) library {
	generator := must(sonyflake.New(sonyflake.Settings{MachineID: func() (uint16, error) { return machine, nil }}))
	// The epoch that the documentation names. The library does not export it.
	start := time.Date(2014, 9, 1, 0, 0, 0, 0, time.UTC)
	return library{"github.com/sony/sonyflake", func(text string) ([]byte, map[string]uint64) {
		id := must(strconv.ParseUint(text, 10, 64))
		parts := sonyflake.Decompose(id)
		at := start.Add(sonyflake.ElapsedTime(id))
		return bits(id), map[string]uint64{
			"unix_ms": uint64(at.UnixMilli()), "machine": parts["machine-id"], "sequence": parts["sequence"],
		}
	}, func() string { return strconv.FormatUint(must(generator.NextID()), 10) }}
}

func sonyflakes2(machine int) library {
	generator := must(sonyflake2.New(sonyflake2.Settings{MachineID: func() (int, error) { return machine, nil }}))
	return library{"github.com/sony/sonyflake/v2", func(text string) ([]byte, map[string]uint64) {
		id := must(strconv.ParseInt(text, 10, 64))
		parts := generator.Decompose(id)
		return bits(uint64(id)), map[string]uint64{
			"unix_ms":  uint64(generator.ToTime(id).UnixMilli()),
			"machine":  uint64(parts["machine"]),
			"sequence": uint64(parts["sequence"]),
		}
	}, func() string { return strconv.FormatInt(must(generator.NextID()), 10) }}
}

func xids() library {
	return library{"github.com/rs/xid", func(text string) ([]byte, map[string]uint64) {
		id := must(xid.FromString(text))
		machine := binary.BigEndian.Uint32(append([]byte{0}, id.Machine()...))
		return id.Bytes(), map[string]uint64{
			"unix_ms": uint64(id.Time().UnixMilli()), "machine": uint64(machine), "pid": uint64(id.Pid()),
			"counter": uint64(id.Counter()),
		}
	}, func() string { return xid.New().String() }}
}

// A KSUID has 160 bits, 32 more than a ksuid-128. So its digits are read after five zeros, which are 32 bits, and its
// fields with 32 bits of zeros at the end. The identifiers of the library are cut to 128 bits.
func ksuids() library {
	return library{"github.com/segmentio/ksuid", func(text string) ([]byte, map[string]uint64) {
		digits := must(ksuid.Parse("00000" + text)).Bytes()
		id := must(ksuid.FromBytes(append(digits[4:], 0, 0, 0, 0)))
		return digits[4:], map[string]uint64{
			"unix_ms":       uint64(id.Time().UnixMilli()),
			"payload_begin": binary.BigEndian.Uint64(id.Payload()),
			"payload_end":   uint64(binary.BigEndian.Uint32(id.Payload()[8:])),
		}
	}, func() string {
		cut := ksuid.New().Bytes()[:16]
		return must(ksuid.FromBytes(append(make([]byte, 4), cut...))).String()[5:]
	}}
}

func typeids() library {
	return library{"go.jetify.com/typeid", func(text string) ([]byte, map[string]uint64) {
		id := must(typeid.FromString(text))
		if id.Prefix() != "order" {
			panic("the prefix is " + id.Prefix())
		}
		// The library reads the version and the time with this package.
		value := must(uuid.FromBytes(id.UUIDBytes()))
		at := must(must(uuid.TimestampFromV7(value)).Time())
		return value.Bytes(), map[string]uint64{
			"unix_ms": uint64(at.UnixMilli()), "version": uint64(value.Version()), "variant": uint64(value.Variant()),
			"rand_a": uint64(binary.BigEndian.Uint16(value[6:])) & 0xfff,
			"rand_b": binary.BigEndian.Uint64(value[8:]) & (1<<62 - 1),
		}
	}, func() string { return must(typeid.WithPrefix("order")).String() }}
}

func main() {
	count, machine := must(strconv.Atoi(os.Args[1])), must(strconv.Atoi(os.Args[2]))
	libraries := map[string]library{
		"sonyflake": sonyflakes(uint16(machine)), "sonyflake-2025": sonyflakes2(machine), "rs-xid": xids(),
		"ksuid-128": ksuids(), "typeid": typeids(),
	}
	print := func(layout, from, id string) {
		found := line{Layout: layout, Library: libraries[layout].name, From: from, ID: id}
		defer func() {
			if err := recover(); err != nil {
				found.Error = fmt.Sprint(err)
			}
			fmt.Println(string(must(json.Marshal(found))))
		}()
		bytes, fields := libraries[layout].read(id)
		found.Hex, found.Fields = hex.EncodeToString(bytes), fields
	}
	var layouts []string
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		layout, id, _ := strings.Cut(input.Text(), "\t")
		if len(layouts) == 0 || layouts[len(layouts)-1] != layout {
			layouts = append(layouts, layout)
		}
		print(layout, "kent", id)
	}
	for _, layout := range layouts {
		for range count {
			print(layout, "library", libraries[layout].generate())
		}
	}
}
