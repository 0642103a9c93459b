package kent

// Tests the parts that make no calls.

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pb "kent.example/kent-go/kentv1"
)

func TestOkTheHighestTokenOfEachSubjectCounts(t *testing.T) {
	var seen fences
	for _, row := range []struct {
		source        string
		number, token uint64
		admitted      bool
	}{
		{"a", 1, 5, true}, {"a", 1, 5, true}, {"a", 1, 4, false}, {"a", 1, 6, true}, {"a", 2, 1, true}, {"b", 1, 1, true}, {"a", 1, 5, false},
		{"s", 0, 0, true},
	} {
		if seen.admit(subject{row.source, row.number}, row.token) != row.admitted {
			t.Error(row)
		}
	}
	reply := &pb.AllocateResponse{Identifiers: &pb.AllocateResponse_Packed{Packed: &pb.PackedIdentifiers{FenceSubject: 3, FenceToken: 4}}}
	if of, token := uuidOfSlot.fence("uuidv7", reply); of != (subject{"", 3}) || token != 4 {
		t.Error(of, token)
	}
	if of, _ := number.fence("region:a", reply); of != (subject{"region:a", 3}) {
		t.Error(of)
	}
}

func testSource[T any](t *testing.T, of kind[T], options ...Option) *Source[T] {
	t.Helper()
	client, err := New("127.0.0.1:1", options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return newSource(client, "region:r", of)
}

func TestOkBlocksGrowWhileTheyLastLessThanASecond(t *testing.T) {
	s := testSource(t, number, WithBlockSize(100, 350))
	var sizes []int
	for range 4 {
		sizes = append(sizes, s.nextSize())
	}
	if !slices.Equal(sizes, []int{100, 200, 350, 350}) {
		t.Error(sizes)
	}
	for _, size := range []int{175, 100} {
		*s.asked = earlier(11 * time.Second)
		if got := s.nextSize(); got != size {
			t.Error(got, size)
		}
	}
	texts := testSource(t, textOfSlot, WithBlockSize(20_000, 50_000))
	for range 2 {
		if size := texts.nextSize(); size != textsMax {
			t.Error(size)
		}
	}
}

// earlier returns a moment in the past.
func earlier(ago time.Duration) moment {
	m := now()
	m.time, m.wall, m.boot = m.time.Add(-ago), m.wall-int64(ago), m.boot-ago
	return m
}

func near(a, b time.Duration) bool {
	return (a - b).Abs() < 10*time.Second
}

func TestOkAgesCountSuspendedTimeAndNoStepsOfTheWallClock(t *testing.T) {
	if m := earlier(time.Minute); !near(m.age(), time.Minute) {
		t.Error(m.age())
	}
	suspended := earlier(time.Hour)
	suspended.time = suspended.time.Add(time.Hour)
	if !near(suspended.age(), time.Hour) {
		t.Error(suspended.age())
	}
	if _, ok := sinceBoot(); ok {
		for _, step := range []time.Duration{time.Hour, -time.Hour} {
			stepped := earlier(time.Minute)
			stepped.wall += int64(step)
			if !near(stepped.age(), time.Minute) {
				t.Error(step, stepped.age())
			}
		}
	}
}

func TestOkIdentifiersThatCarryTheTimeExpire(t *testing.T) {
	set := defaults()
	for _, ages := range []bool{true, false} {
		b := newBlock([]int{1, 2, 3}, earlier(11*time.Second), ages, set)
		_, ok, _ := b.pop()
		ids, _ := b.take(1)
		if ok == ages || (len(ids) == 0) != ages || b.isUsable() == ages {
			t.Error(ages, ok, ids)
		}
	}
}

func TestOkABlockIsHandedOutInOrderAndAsksForTheNextOnce(t *testing.T) {
	for _, row := range []struct {
		water float64
		mark  int
	}{{0, 9}, {0.5, 4}, {1, 0}} {
		set := defaults()
		set.lowWater = row.water
		b := newBlock([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, now(), true, set)
		for i := range 10 {
			if id, ok, low := b.pop(); id != i || !ok || low != (i == row.mark) {
				t.Error(row, i, id, ok, low)
			}
		}
		if _, ok, _ := b.pop(); ok || b.left() != 0 || b.isUsable() {
			t.Error("not used up")
		}
	}
	b := newBlock([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, now(), true, defaults())
	for _, row := range []struct {
		n, from, to int
		low         bool
	}{{4, 0, 4, false}, {3, 4, 7, true}, {math.MaxInt, 7, 10, false}} {
		ids, low := b.take(row.n)
		if len(ids) != row.to-row.from || ids[0] != row.from || low != row.low {
			t.Error(row, ids, low)
		}
	}
	for range 3 {
		if ids, _ := b.take(math.MaxInt); ids != nil || b.left() != 0 {
			t.Error(ids)
		}
	}
}

func TestOkAttemptsUseTheOtherEndpointsFirstWithoutAPause(t *testing.T) {
	a := attempts{withoutPause: 1, pause: pauseMin}
	if a.backoff() != 0 {
		t.Error("a pause")
	}
	var last time.Duration
	for i := range 9 {
		last = a.backoff()
		if i == 0 && (last < pauseMin || last > 2*pauseMin) {
			t.Error(last)
		}
	}
	if last < pauseMax || last > 2*pauseMax {
		t.Error(last)
	}
}

func TestOkTheFirstEndpointIsUsedAgainAfterAWhile(t *testing.T) {
	r := rotation{count: 3}
	r.leave(0)
	r.leave(0)
	if r.use() != 1 {
		t.Error("left twice")
	}
	r.leave(1)
	if r.use() != 2 {
		t.Error("not left")
	}
	r.leave(2)
	r.leave(0)
	r.leftFirst = r.leftFirst.Add(-returnAfter)
	r.leave(1) // This call does not delay the return to the first endpoint.
	if r.use() != 0 {
		t.Error("not returned")
	}
}

func TestOkEndpoints(t *testing.T) {
	for _, row := range []struct {
		text, target   string
		tls, isPrivate bool
	}{
		{"127.0.0.1:7600", "dns:///127.0.0.1:7600", false, true},
		{"http://[::1]:7600/", "dns:///[::1]:7600", false, true},
		{"localhost:1", "dns:///localhost:1", false, true},
		{"https://kent.example:80", "dns:///kent.example:80", true, true},
		{"kent.example:80", "dns:///kent.example:80", false, false},
		{"localhost.example:80", "dns:///localhost.example:80", false, false},
		{"10.0.0.7:80", "dns:///10.0.0.7:80", false, false},
		{"unix:/run/kent.sock", "unix:/run/kent.sock", false, true},
	} {
		e, err := parseEndpoint(row.text, false)
		if err != nil || e.target() != row.target || e.tls != row.tls || e.isPrivate() != row.isPrivate {
			t.Error(row, e, err)
		}
	}
}

func TestOkAnEndpointWithoutASchemeUsesTLSIfThereAreTLSSettings(t *testing.T) {
	for text, tls := range map[string]bool{
		"kent.example:7600": true, "https://kent.example:7600": true, "http://kent.example:7600": false, "unix:/s": false,
	} {
		e, err := parseEndpoint(text, true)
		if err != nil || e.tls != tls {
			t.Error(text, e, err)
		}
	}
	config, token := WithTLSConfig(&tls.Config{}), WithToken("kent_a_SECRET")
	for _, fallback := range []string{"b:1", "https://b:1", "unix:/s"} {
		client, err := New("a:1", config, token, WithFallback(fallback))
		if err != nil || !client.endpoints[0].tls {
			t.Error(fallback, err)
		}
	}
}

func wantConfigError(t *testing.T, err error, part string) {
	t.Helper()
	var config *ConfigError
	if !errors.As(err, &config) || !strings.Contains(err.Error(), part) {
		t.Errorf("%v, and not: %s", err, part)
	}
}

func TestErrEndpoints(t *testing.T) {
	for _, text := range []string{"", "a", "http://", "ftp://a:1", "://a:1", "a:99999", ":7600", "a b:1", "unix:", "a:0", "a:1\n"} {
		_, err := New(text)
		wantConfigError(t, err, "HOST:PORT")
	}
}

func TestErrSettings(t *testing.T) {
	junk := filepath.Join(t.TempDir(), "junk")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	plain, secure := "127.0.0.1:7600", "https://127.0.0.1:7600"
	for _, row := range []struct {
		endpoint string
		option   Option
		part     string
	}{
		{plain, WithBlockSize(0, 10), "the first block size must be 1 to"},
		{plain, WithBlockSize(10, 9), "the first block size must be 1 to"},
		{plain, WithBlockSize(10, 200_001), "at most 200000"},
		{plain, WithLowWater(math.NaN()), "the low water must be 0 to 1"},
		{plain, WithMaxAge(0), "the largest age must be more than 0"},
		{plain, WithAttemptTimeout(0), "the attempt timeout must be more than 0"},
		{plain, WithRequestTimeout(-1), "the request timeout must be more than 0"},
		{plain, WithToken("SECRET"), "a token is kent_ID_SECRET"},
		{plain, WithToken(""), "not empty"},
		{plain, WithTokenFile(""), "not empty"},
		{plain, WithTokenFile("/nonexistent/token"), "no such file"},
		{plain, WithTokenFile(junk), "a token is kent_ID_SECRET"},
		{"http://" + plain, WithCAFile(junk), "need https://"},
		{"http://" + plain, WithCertificateFiles(junk, junk), "need https://"},
		{"http://" + plain, WithTLSConfig(&tls.Config{}), "need https://"},
		{"unix:/s", WithCAFile(junk), "need https://"},
		{plain, WithCAFile(junk), "no PEM certificate"},
		{plain, WithCertificateFiles(junk, junk), "certificate files"},
		{plain, WithFallback(secure), "all with https://"},
		{secure, WithCAFile("/nonexistent/ca"), "no such file"},
		{secure, WithCAFile(junk), "no PEM certificate"},
		{secure, WithCertificateFiles(junk, junk), "certificate files"},
		{secure, WithCertificateFiles("", ""), "certificate files"},
	} {
		_, err := New(row.endpoint, row.option)
		wantConfigError(t, err, row.part)
	}
	_, err := New(plain, WithCAFile(junk), WithFallback("http://b:1"))
	wantConfigError(t, err, "all with https://")
	_, err = New(plain, WithToken("kent_a_SECRET"), WithTokenFile(junk))
	wantConfigError(t, err, "the token must be given once")
}

func TestErrATokenLeavesTheMachineOnlyUnderTLS(t *testing.T) {
	mine := WithToken("kent_a_SECRET")
	for _, endpoint := range []string{"10.0.0.7:7600", "localhost.example:7600"} {
		_, err := New(endpoint, mine)
		wantConfigError(t, err, "another machine")
		_, err = New("127.0.0.1:7600", mine, WithFallback(endpoint))
		wantConfigError(t, err, "another machine")
		if _, err := New(endpoint, mine, WithPlainToken()); err != nil {
			t.Error(err)
		}
	}
}

func TestOkATokenFileIsReadAgainAndKeepsItsTokenWhileItIsReplaced(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("kent_a_SECRET\n")
	one, err := newToken("", file)
	if err != nil || one.get() != "Bearer kent_a_SECRET" {
		t.Fatal(one, err)
	}
	write("")
	if one.refresh() != "Bearer kent_a_SECRET" {
		t.Error("lost")
	}
	write("kent_b_SECRET")
	if one.get() != "Bearer kent_a_SECRET" || one.refresh() != "Bearer kent_b_SECRET" {
		t.Error("not read at once")
	}
	write("kent_c_SECRET")
	one.looked = one.looked.Add(-lookEvery)
	if one.get() != "Bearer kent_c_SECRET" {
		t.Error("not read again")
	}
}

func TestOkUUIDs(t *testing.T) {
	const text = "01a1fb46-21bf-7000-8000-3cf49345d9a8"
	id, err := ParseUUID(strings.ToUpper(text))
	if err != nil || id.String() != text || id.Version() != 7 {
		t.Fatal(id, err)
	}
	data, err := json.Marshal(map[UUID]UUID{id: id})
	if err != nil || string(data) != `{"`+text+`":"`+text+`"}` {
		t.Error(string(data), err)
	}
	var back map[UUID]UUID
	if err := json.Unmarshal(data, &back); err != nil || back[id] != id {
		t.Error(back, err)
	}
	if value, err := id.Value(); err != nil || value != text {
		t.Error(value, err)
	}
	for _, value := range []any{text, []byte(text), id[:]} {
		var read UUID
		if err := read.Scan(value); err != nil || read != id {
			t.Error(value, read, err)
		}
	}
	for _, bad := range []any{"", text[:35], "01a1fb46021bf-7000-8000-3cf49345d9a8", "0xa1fb46-21bf-7000-8000-3cf49345d9a8", []byte{1}, nil, 7} {
		read := id
		if err := read.Scan(bad); err == nil || read != id {
			t.Error(bad, read)
		}
	}
}

func TestOkNumbers(t *testing.T) {
	most := "340282366920938463463374607431768211455"
	for _, row := range []struct {
		text   string
		number Number
	}{
		{"0", Number{}},
		{"12970366926827028480", Number{Low: 12970366926827028480}},
		{"18446744073709551616", Number{High: 1}},
		{most, Number{math.MaxUint64, math.MaxUint64}},
	} {
		n, err := ParseNumber(row.text)
		if err != nil || n != row.number || n.String() != row.text || n.Big().String() != row.text {
			t.Error(row, n, err)
		}
		data, err := json.Marshal(n)
		if err != nil || string(data) != `"`+row.text+`"` {
			t.Error(string(data), err)
		}
		value, err := n.Value()
		var read Number
		if err != nil || read.Scan(value) != nil || read != n || read.Scan([]byte(row.text)) != nil {
			t.Error(value, read, err)
		}
	}
	for _, bad := range []any{"", "-1", "+1", "1.0", "0x1", "340282366920938463463374607431768211456", strings.Repeat("9", 99), int64(-1), nil, 1.5} {
		var read Number
		if err := read.Scan(bad); err == nil {
			t.Error(bad, read)
		}
	}
	var read Number
	if read.Scan(int64(7)) != nil || read != (Number{Low: 7}) || read.Scan(uint64(1<<63)) != nil || read.Low != 1<<63 {
		t.Error(read)
	}
	large := Number{Low: 1 << 63}
	if _, ok := large.Int64(); ok {
		t.Error("too large for int64")
	}
	if n, ok := large.Uint64(); !ok || n != 1<<63 {
		t.Error(n)
	}
	if _, ok := (Number{High: 1}).Uint64(); ok {
		t.Error("too large for uint64")
	}
	if n, ok := (Number{Low: 7}).Int64(); !ok || n != 7 {
		t.Error(n)
	}
	if large.Compare(Number{High: 1}) != -1 || large.Compare(large) != 0 || large.Compare(Number{Low: 1}) != 1 {
		t.Error("order")
	}
}

func TestOkRepliesAreReadInEachWidth(t *testing.T) {
	reply := func(width uint32, data ...byte) *pb.AllocateResponse {
		return &pb.AllocateResponse{Identifiers: &pb.AllocateResponse_Packed{Packed: &pb.PackedIdentifiers{Width: width, Data: data}}}
	}
	if ids, err := readNumbers(reply(2, 1, 0, 0, 7)); err != nil || !slices.Equal(ids, []Number{{Low: 256}, {Low: 7}}) {
		t.Error(ids, err)
	}
	if ids, err := readNumbers(reply(9, 1, 0, 0, 0, 0, 0, 0, 0, 2)); err != nil || ids[0] != (Number{1, 2}) {
		t.Error(ids, err)
	}
	for _, bad := range []*pb.AllocateResponse{reply(0), reply(2, 1), reply(17, make([]byte, 17)...), {}, reply(8)} {
		for name, read := range map[string]func() error{
			"number": func() error { _, err := number.identifiers(bad, 1); return err },
			"uuid":   func() error { _, err := uuidOfSlot.identifiers(bad, 1); return err },
			"text":   func() error { _, err := textOfSlot.identifiers(bad, 1); return err },
		} {
			var unusable *UnusableError
			if err := read(); !errors.As(err, &unusable) {
				t.Error(name, bad, err)
			}
		}
	}
}

func TestOkHandlesAreCached(t *testing.T) {
	client, err := New("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	events, xids := client.UUIDv7(), client.Source("xid")
	if client.UUIDv7() != events || client.Source("xid") != xids || client.Region("a") != client.Region("a@default") {
		t.Error("made twice")
	}
	if client.Region("a") == client.Region("a@b") || client.Region("a").String() != "region:a" {
		t.Error("mixed up")
	}
	for name, ages := range map[string]bool{"uuidv7": true, "xid": true, "uid11-snowish": true, "uid11-fullrand": false, "serial:GBP": false, "region:a": false} {
		if of := kindOf(name); of.ages != ages || of.hasSlots != ages {
			t.Error(name)
		}
	}
}
