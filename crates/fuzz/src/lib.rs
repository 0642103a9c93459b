//! Fuzz targets: every parser and decoder must handle any bytes without a panic, and the values that it accepts must
//! have the checked properties.
//!
//! Each target is a function of bytes. It runs in three ways: under a coverage-guided fuzzer (see `fuzz/README.md`), in
//! the ordinary tests on the corpus and on mutations of it, and by hand on one file.

use kent_codec::Reading;
use kent_ids::{
    Block, Id, Source, Uid11, dce,
    extuuid::{self, Ext},
    uid11::prefix_range,
};
use kent_proto::{
    model::AllocateInput,
    stored,
    v1::{self, AllocateRequest},
};
use kent_regions::{Count, RegionNumber};
use prost::Message;
use rand::{RngExt, rngs::StdRng};
use serde_json::{Value, json};

/// Runs a parser or decoder on the bytes, and checks properties of the result. Panics if a property does not hold.
pub type Target = fn(&[u8]);

/// All targets with their names.
pub const TARGETS: &[(&str, Target)] = &[
    ("line", line),
    ("verbs", verbs),
    ("inspect", inspect),
    ("uuid", uuid),
    ("uid11", uid11),
    ("extuuid_text", extuuid_text),
    ("extuuid_bits", extuuid_bits),
    ("source", source),
    ("wire", wire),
    ("stored", stored_records),
];

/// Returns the target with this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}

/// Changes a few bytes, or inserts a piece of another seed.
pub fn mutate(seed: &[u8], other: &[u8], rng: &mut StdRng) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..rng.random_range(1..5) {
        let at = rng.random_range(0..=bytes.len());
        match rng.random_range(0..5) {
            0 => bytes.insert(at, rng.random()),
            1 => bytes.insert(at, b"0-:,/@*_.e1 \n\"{"[rng.random_range(0..15)]),
            2 if at < bytes.len() => bytes[at] ^= 1 << rng.random_range(0..8),
            3 if at < bytes.len() => drop(bytes.remove(at)),
            _ if !other.is_empty() => {
                let from = rng.random_range(0..other.len());
                let to = rng.random_range(from..other.len()) + 1;
                bytes.splice(at..at, other[from..to].iter().copied());
            }
            _ => {}
        }
    }
    bytes
}

/// Checks the line protocol: the answer to any line is one line with a JSON object.
pub fn line(bytes: &[u8]) {
    let answer = kent_codec::answer_line(bytes);
    assert!(!answer.contains('\n'), "{answer:?}");
    let answer: Value = serde_json::from_str(&answer).expect("an answer is JSON");
    assert!(answer["ok"].is_boolean(), "{answer}");
}

/// Calls a verb with pieces of the bytes as inputs. The first byte selects the verb, and a line feed ends each piece.
pub fn verbs(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let verbs: Vec<_> = kent_codec::verbs().collect();
    let verb = verbs[usize::from(*first) % verbs.len()];
    let mut inputs = serde_json::Map::new();
    for piece in rest.split(|byte| *byte == b'\n') {
        let Some((name, text)) = piece.split_first() else { continue };
        let name = INPUTS[usize::from(*name) % INPUTS.len()];
        let text = String::from_utf8_lossy(text);
        let value = serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text.as_ref()));
        inputs.insert(name.to_owned(), value);
    }
    line(json!({"verb": verb, "in": inputs}).to_string().as_bytes());
}

/// The names of the inputs of all verbs.
const INPUTS: [&str; 43] = [
    "text",
    "uuid",
    "ext",
    "mode",
    "lenient",
    "assume",
    "precision",
    "layout",
    "width",
    "a",
    "b",
    "le",
    "format",
    "ticks",
    "clock_seq",
    "node",
    "unix_ms",
    "rand_a",
    "rand_b",
    "unix_ns",
    "seq",
    "rand",
    "ts",
    "to",
    "value",
    "prefix",
    "profile",
    "fields",
    "key",
    "label",
    "param",
    "bits",
    "index",
    "delta_ms",
    "tail",
    "position",
    "slot",
    "namespace",
    "name",
    "random",
    "allow_v6",
    "counter",
    "ops",
];

/// Checks `kent inspect`: the layout contains every bit of the identifier.
pub fn inspect(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    let (format, text) = match first % 4 {
        0 => (None, text.as_ref()),
        _ => text.split_once(' ').map_or((None, text.as_ref()), |(format, text)| (Some(format.to_owned()), text)),
    };
    let width = format.as_ref().filter(|format| *format == "uuidv8-draft01").map(|_| 60);
    let reading = Reading { format, guid: first & 4 != 0, prefix: first & 8 != 0, width, ..Reading::default() };
    if let Ok(found) = kent_codec::inspect(text, &reading) {
        let bits: String = found.layout.iter().map(|range| range.bits.as_str()).collect();
        assert_eq!(u128::from_str_radix(&bits, 2), u128::from_str_radix(&found.hex, 16), "{found:?}");
    }
}

/// Checks the text form of UUIDs: an accepted text is printed unchanged except for case.
pub fn uuid(bytes: &[u8]) {
    let strict = dce::parse(bytes);
    if let Ok(uuid) = strict {
        assert!(uuid.to_string().as_bytes().eq_ignore_ascii_case(bytes));
        assert_eq!(dce::parse_lenient(bytes), strict, "lenient parsing accepts all that strict parsing accepts");
        assert_eq!(dce::from_guid(dce::to_guid(uuid)), uuid);
    }
    let _ = dce::parse_lenient(bytes);
    let _ = dce::parse_hex(bytes, bytes.len() / 2);
}

/// Checks the text form of uid11s: an accepted text is printed unchanged, and is in the range of each of its prefixes.
pub fn uid11(bytes: &[u8]) {
    if let Ok(uid11) = Uid11::parse(bytes) {
        assert_eq!(uid11.text().as_slice(), bytes);
        for symbols in 1..=bytes.len() {
            let range = prefix_range(&bytes[..symbols]).expect("a value has this prefix");
            assert!((range.lo..=range.hi).contains(&uid11.get()));
        }
    }
    if let Ok(range) = prefix_range(bytes) {
        assert!(range.lo <= range.hi);
        assert!(Uid11::new(range.lo).text().starts_with(bytes));
        assert!(Uid11::new(range.hi).text().starts_with(bytes));
    }
}

/// Checks the text form of EXTUUIDs: every accepted text has a canonical form that is parsed as the same value.
pub fn extuuid_text(bytes: &[u8]) {
    if let Ok(ext) = extuuid::parse(bytes) {
        let text = ext.to_string();
        assert_eq!(extuuid::parse_minimal(&text), Ok(ext), "{text}");
    }
    if let Ok(ext) = extuuid::parse_minimal(bytes) {
        assert_eq!(ext.to_string().as_bytes(), bytes, "there is one canonical text");
    }
    if let Ok(money) = extuuid::parse_money(bytes) {
        assert_eq!(extuuid::parse_money(money.ext.to_string()), Ok(money));
    }
}

/// Checks the bits of EXTUUIDs: any bits, printed as text, are parsed as the same bits.
pub fn extuuid_bits(bytes: &[u8]) {
    let Some(bytes) = bytes.first_chunk() else { return };
    let Ok(ext) = Ext::new(u128::from_be_bytes(*bytes) >> 6) else { return };
    let text = ext.to_string();
    assert_eq!(extuuid::parse_minimal(&text), Ok(ext), "{text}");
    assert_eq!(ext.layout().last().map(|range| range.last), Some(127), "{text}");
}

/// Checks the names of sources: an accepted name is parsed, printed and parsed again as the same source.
pub fn source(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Ok(source) = text.parse::<Source>() {
        assert_eq!(source.to_string().parse(), Ok(source));
    }
}

/// Decodes messages from the network (requests and blocks), and generates up to 200 identifiers of a block.
pub fn wire(bytes: &[u8]) {
    if let Ok(request) = AllocateRequest::decode(bytes) {
        let _ = AllocateInput::try_from(&request);
    }
    let Some(block) = v1::Block::decode(bytes).ok().and_then(|block| Block::try_from(block).ok()) else { return };
    // An encoded block omits fields that its format does not use, such as a key.
    let written = v1::Block::from(&block);
    assert_eq!(Block::try_from(written.clone()).map(|again| v1::Block::from(&again)), Ok(written));
    let walked: Vec<Id> = block.walk(rand::rng()).take(200).collect();
    assert_eq!(walked.len() as u64, block.count().min(200));
}

/// Checks records from the store: the value of an accepted record is encoded as a record that decodes to the same
/// value.
pub fn stored_records(bytes: &[u8]) {
    if let Ok(count) = stored::decode_counter(bytes) {
        assert_eq!(stored::decode_counter(&stored::encode_counter(&count)), Ok(count));
    }
    if let Ok(slot) = stored::decode_slot(bytes) {
        assert_eq!(stored::decode_slot(&stored::encode_slot(&slot)), Ok(slot));
    }
    if let Ok(space) = stored::decode_space(bytes) {
        assert_eq!(stored::decode_space(&stored::encode_space(&space)), Ok(space));
    }
    if let Ok(key) = stored::decode_cluster(bytes) {
        assert_eq!(stored::decode_cluster(&stored::encode_cluster(&key)), Ok(key));
    }
    let read = |bytes: &[u8]| stored::decode_region(bytes, RegionNumber(1), Count::ZERO);
    if let Ok(region) = read(bytes) {
        assert_eq!(read(&stored::encode_region(&region)), Ok(region));
    }
}
