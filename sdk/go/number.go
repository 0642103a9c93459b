package kent

import (
	"cmp"
	"database/sql/driver"
	"fmt"
	"math/big"
	"strconv"
)

// Number is an identifier from a region: an unsigned number of up to 128 bits, High * 2^64 + Low. In spaces of up to 64
// bits, High is 0.
//
// A Number is encoded as decimal text in JSON and in databases, because many JSON parsers and some databases round
// large numbers. Numbers can be compared with ==, and used as map keys.
type Number struct {
	High, Low uint64
}

// ParseNumber reads decimal digits.
func ParseNumber(text string) (Number, error) {
	var n Number
	err := n.UnmarshalText([]byte(text))
	return n, err
}

// Uint64 returns the number, and whether it fits into a uint64.
func (n Number) Uint64() (uint64, bool) {
	return n.Low, n.High == 0
}

// Int64 returns the number, and whether it fits into an int64.
func (n Number) Int64() (int64, bool) {
	return int64(n.Low), n.High == 0 && n.Low < 1<<63
}

// Big returns the number as a big.Int.
func (n Number) Big() *big.Int {
	big := new(big.Int).SetUint64(n.High)
	return big.Lsh(big, 64).Or(big, bigLow(n.Low))
}

func bigLow(low uint64) *big.Int {
	return new(big.Int).SetUint64(low)
}

// Compare returns -1, 0 or 1 if n is lower than, equal to or higher than other.
func (n Number) Compare(other Number) int {
	return cmp.Or(cmp.Compare(n.High, other.High), cmp.Compare(n.Low, other.Low))
}

// String returns the decimal digits.
func (n Number) String() string {
	if n.High == 0 {
		return strconv.FormatUint(n.Low, 10)
	}
	return n.Big().String()
}

// MarshalText returns the decimal digits.
func (n Number) MarshalText() ([]byte, error) {
	return []byte(n.String()), nil
}

// UnmarshalText reads decimal digits.
func (n *Number) UnmarshalText(text []byte) error {
	for _, digit := range text {
		if digit < '0' || digit > '9' {
			return fmt.Errorf("kent: %.40q is not a number", text)
		}
	}
	// The longest number has 39 digits. big.Int would also read a much longer number, but slowly.
	if len(text) == 0 || len(text) > 39 {
		return fmt.Errorf("kent: %.40q is not a number of up to 128 bits", text)
	}
	read, _ := new(big.Int).SetString(string(text), 10)
	if read.BitLen() > 128 {
		return fmt.Errorf("kent: %q is not a number of up to 128 bits", text)
	}
	n.Low = new(big.Int).And(read, bigLow(^uint64(0))).Uint64()
	n.High = read.Rsh(read, 64).Uint64()
	return nil
}

// Value passes the number to database/sql as decimal text, which databases convert to the type of the column. If the
// number does not fit into the column, the database returns an error.
func (n Number) Value() (driver.Value, error) {
	return n.String(), nil
}

// Scan reads the number from database/sql.
func (n *Number) Scan(value any) error {
	switch value := value.(type) {
	case string:
		return n.UnmarshalText([]byte(value))
	case []byte:
		return n.UnmarshalText(value)
	case uint64:
		*n = Number{Low: value}
		return nil
	case int64:
		if value >= 0 {
			*n = Number{Low: uint64(value)}
			return nil
		}
	}
	return fmt.Errorf("kent: cannot read a number from the %T %v", value, value)
}
