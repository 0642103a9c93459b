package kent

import (
	"database/sql/driver"
	"encoding/hex"
	"fmt"
)

// UUID holds the 16 bytes of a UUID, most significant first. It can be converted to and from the 16-byte types of other
// packages, as in uuid.UUID(id).
//
// A UUID is encoded as text in JSON and in databases. It can be compared, sorted as bytes, and used as a map key.
type UUID [16]byte

// ParseUUID parses the 36 characters of a UUID.
func ParseUUID(text string) (UUID, error) {
	var id UUID
	err := id.UnmarshalText([]byte(text))
	return id, err
}

// String returns the UUID in lower case with hyphens.
func (id UUID) String() string {
	var text [36]byte
	id.encode(&text)
	return string(text[:])
}

func (id UUID) encode(text *[36]byte) {
	hex.Encode(text[0:8], id[0:4])
	hex.Encode(text[9:13], id[4:6])
	hex.Encode(text[14:18], id[6:8])
	hex.Encode(text[19:23], id[8:10])
	hex.Encode(text[24:36], id[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
}

// Version returns the version of the UUID, such as 7.
func (id UUID) Version() int {
	return int(id[6] >> 4)
}

// MarshalText returns the same text as String.
func (id UUID) MarshalText() ([]byte, error) {
	var text [36]byte
	id.encode(&text)
	return text[:], nil
}

// UnmarshalText parses the 36 characters of a UUID, in lower or upper case.
func (id *UUID) UnmarshalText(text []byte) error {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return fmt.Errorf("kent: %.40q is not a UUID", text)
	}
	digits := make([]byte, 0, 32)
	for _, part := range [][]byte{text[0:8], text[9:13], text[14:18], text[19:23], text[24:36]} {
		digits = append(digits, part...)
	}
	var read UUID
	if _, err := hex.Decode(read[:], digits); err != nil {
		return fmt.Errorf("kent: %q is not a UUID", text)
	}
	*id = read
	return nil
}

// Value passes the UUID to database/sql as text. For a column of 16 bytes, pass id[:].
func (id UUID) Value() (driver.Value, error) {
	return id.String(), nil
}

// Scan reads the UUID from database/sql, as text or as 16 bytes.
func (id *UUID) Scan(value any) error {
	switch value := value.(type) {
	case string:
		return id.UnmarshalText([]byte(value))
	case []byte:
		if len(value) == len(id) {
			copy(id[:], value)
			return nil
		}
		return id.UnmarshalText(value)
	default:
		return fmt.Errorf("kent: cannot read a UUID from a %T", value)
	}
}
