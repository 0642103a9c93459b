use proptest::prelude::*;

use super::*;

fn inspect(text: &str) -> Result<Inspection, VerbError> {
    super::inspect(text, &Reading::default())
}

#[track_caller]
fn check(text: &str, format: &str, canonical: &str, time: Option<&str>) {
    let found = inspect(text).expect("an identifier");
    assert_eq!((found.format.as_str(), found.canonical.as_str()), (format, canonical), "{}", found.because);
    assert_eq!(found.time.as_deref(), time);
    let bits: String = found.layout.iter().map(|it| it.bits.as_str()).collect();
    assert_eq!(u128::from_str_radix(&bits, 2), u128::from_str_radix(&found.hex, 16));
    assert_eq!(bits.len(), 4 * found.hex.len());
}

#[track_caller]
fn check_err(text: &str, code: ErrorCode) {
    let error = inspect(text).expect_err("not an identifier");
    assert_eq!(error.code, code.as_str(), "{error}");
}

#[test]
fn ok_uuids_in_usual_spellings() {
    let (canonical, time) = ("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", Some("2022-02-22T19:22:22.000Z"));
    check("017F22E2-79B0-7CC3-98C4-DC0C0C07398F", "uuidv7", canonical, time);
    check("{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}", "uuidv7", canonical, time);
    check("urn:uuid:017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "uuidv7", canonical, time);
    check("017f22e279b07cc398c4dc0c0c07398f", "uuidv7", canonical, time);
    let v6 = "1ec9414c-232a-6b00-b3c8-9f6bdeced846";
    check(v6, "uuidv6", v6, Some("2022-02-22T19:22:22.0000000Z"));
    let v1 = "c232ab00-9414-11ec-b3c8-9f6bdeced846";
    check(v1, "uuidv1", v1, Some("2022-02-22T19:22:22.0000000Z"));
}

#[test]
fn ok_identifiers_in_foreign_formats() {
    check("01ARZ3NDEKTSV4RRFFQ69G5FAV", "ulid", "01ARZ3NDEKTSV4RRFFQ69G5FAV", Some("2016-07-30T23:54:10.259Z"));
    check("01arz3ndektsv4rrffq69g5fav", "ulid", "01ARZ3NDEKTSV4RRFFQ69G5FAV", Some("2016-07-30T23:54:10.259Z"));
    check("507F1F77BCF86CD799439011", "objectid", "507f1f77bcf86cd799439011", Some("2012-10-17T21:13:27Z"));
    check("9m4e2mr0ui3e8a215n4g", "rs-xid", "9m4e2mr0ui3e8a215n4g", Some("2011-03-22T17:50:19Z"));
    let random = inspect("V1StGXR8_Z5jdHi6B-myT").expect("a NanoID");
    assert_eq!((random.format.as_str(), random.layout.len(), random.time), ("nanoid", 0, None));
}

#[test]
fn ok_other_possible_formats_are_listed() {
    let number = inspect("175928847299117063").expect("an integer");
    assert_eq!(number.format, "integer");
    assert_eq!(number.also.len(), 7, "{:?}", number.also);
    assert_eq!(number.also[4], "snowflake-mastodon of 2055-01-25T03:39:30.946Z (--as snowflake-mastodon)");
    assert_eq!(number.also[1], "snowflake-discord of 2016-04-30T11:18:25.796Z (--as snowflake-discord)");
    assert!(inspect("42").expect("an integer").also.is_empty());
    let digits = inspect("507170771234567890123456").expect("an integer");
    assert_eq!((digits.format.as_str(), digits.also.len()), ("integer", 1), "{:?}", digits.also);

    let reading = Reading { format: Some("snowflake-discord".to_owned()), ..Reading::default() };
    let snowflake = super::inspect("175928847299117063", &reading).expect("a Snowflake");
    assert_eq!(snowflake.time.as_deref(), Some("2016-04-30T11:18:25.796Z"));
    let refused = super::inspect("x", &reading).expect_err("not a number");
    assert_eq!(refused.code, "bad-syntax", "{refused}");
}

#[test]
fn ok_identifiers_of_presets() {
    check("0E72ZM0FF1400", "tsid", "0E72ZM0FF1400", Some("2023-11-14T22:13:20.123Z"));
    check_field("0E72ZM0FF1400", "slot", Some("777"));
    check_field("0E72ZM0FF1400", "kent_slot", None);
    check_as("7", reading("snowflake-mastodon"), "counter", "7");
    check_as("7", reading("snowflake-mastodon"), "kent_slot", "0");
    check_as("1169786042799259000", reading("leaf-snowflake"), "time", "2019-09-06T01:35:00.834Z");
    let push = inspect("-NjEtLWvgggggggggggg").expect("a push ID");
    assert_eq!((push.format.as_str(), push.time.as_deref()), ("pushid", Some("2023-11-14T22:13:20.123Z")));
    let error = super::inspect("x", &reading("tsid")).expect_err("one character");
    assert_eq!(error.code, "bad-length", "{error}");
    // Too many strings of 22 characters have the form of ksuid-128.
    check_err("0izJUh2m0yhj9Amv4aWRtn", ErrorCode::Unrecognised);
}

#[test]
fn ok_identifiers_of_a_custom_layout() {
    let layout = "zero:1 time:31:1s@2015-01-01 slot:10:512 counter:12".parse().expect("a layout");
    let spelling = "base58 prefix:ord_".parse().expect("a spelling");
    let text = kent_ids::layout::Spelling::text(&spelling, 100 << 22 | 515 << 12 | 7, 54);
    let found = inspect_layout(&text, "layout:orders", &layout, &spelling).expect(&text);
    assert_eq!((found.format.as_str(), found.canonical.as_str()), ("layout:orders", text.as_str()));
    assert_eq!((found.time.as_deref(), found.hex.as_str()), (Some("2015-01-01T00:01:40Z"), "00000019203007"));
    let fields: Vec<_> = found.fields.iter().map(|field| (field.name.as_str(), field.value.as_str())).collect();
    let time = ("time", "2015-01-01T00:01:40Z");
    assert_eq!(fields, [time, ("ticks", "100"), ("slot", "515"), ("counter", "7"), ("kent_slot", "3")]);
    let bits: Vec<_> = found.layout.iter().map(|range| (range.label.as_str(), range.bits.len())).collect();
    assert_eq!(bits, [("zero", 1), ("time", 31), ("slot", 10), ("counter", 12)]);
    let error = inspect_layout("usr_1", "layout:orders", &layout, &spelling).expect_err("another prefix");
    assert_eq!(error.code, "bad-syntax", "{error}");
}

#[test]
fn ok_uuids_without_fields() {
    for text in [
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "00000000-0000-4000-c000-000000000000",
        "00000000-0000-f000-8000-000000000000",
    ] {
        check(text, "uuid", text, None);
    }
    let v4 = "919108f7-52d1-4320-9bac-f847db4148a8";
    check(v4, "uuidv4", v4, None);
    let digits = "01234567890123456789012345678901";
    check(digits, "uuid", "01234567-8901-2345-6789-012345678901", None);
}

#[test]
fn ok_uid11_and_integers() {
    check("5Jxqwr73FDS", "xid", "5Jxqwr73FDS", Some("2025-11-20T19:30:00.123Z"));
    check("0", "integer", "0", None);
    check("0xff", "integer", "255", None);
    check("12345678912", "integer", "12345678912", None);
    check("18446744073709551616", "integer", "18446744073709551616", None);
    check("0XFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", "integer", &u128::MAX.to_string(), None);
}

#[track_caller]
fn check_field(text: &str, name: &str, value: Option<&str>) {
    let found = inspect(text).expect("an identifier");
    let field = found.fields.iter().find(|field| field.name == name);
    assert_eq!(field.map(|field| field.value.as_str()), value, "{text}: {name}");
}

#[test]
fn ok_fields_of_identifiers_that_kent_may_have_issued() {
    let v7 = "019aa2be-bb3b-7000-8050-c00000000009";
    check_field(v7, "kent_counter", Some("5"));
    check_field(v7, "kent_slot", Some("3"));
    check_field("1f0c6474-df30-628c-bfff-a1b2c3d4e5c3", "kent_slot", Some("3"));
    // Without the multicast bit, the node is the address of a network card.
    check_field("1f0c6474-df30-628c-bfff-a0b2c3d4e5c3", "kent_slot", None);
    check_field("c232ab00-9414-11ec-b3c8-9f6bdeced846", "kent_slot", Some("6"));
    check_field("2fac1234-31f8-11b4-a222-08002b34c003", "kent_slot", None);
    check_field("5Jxqwr73FDS", "kent_slot", None);
}

#[test]
fn ok_guesses_mention_the_alternatives() {
    for (text, because) in [
        ("5Jxqwr73FDS", "does not contain its profile"),
        ("12345678912", "also a valid uid11"),
        ("01234567890123456789012345678901", "after 0x"),
        ("00000000-0000-0000-0000-000000000000", "nil UUID"),
        ("ffffffff-ffff-ffff-ffff-ffffffffffff", "max UUID"),
    ] {
        let found = inspect(text).expect("an identifier");
        assert!(found.because.contains(because), "{}", found.because);
    }
}

#[track_caller]
fn check_as(text: &str, reading: Reading, name: &str, value: &str) {
    let found = super::inspect(text, &reading).expect("an identifier");
    let field = found.fields.iter().find(|field| field.name == name);
    assert_eq!(field.map(|field| field.value.as_str()), Some(value), "{found:?}");
}

fn reading(format: &str) -> Reading {
    Reading { format: Some(format.to_owned()), ..Reading::default() }
}

#[test]
fn ok_a_given_reading_is_used() {
    let v7 = "06086028-01f9-7add-8dcf-ffffffffffff";
    check_as(v7, reading("uuidv7-draft01-ns"), "time", "2021-04-26T00:00:00.123456789Z");
    check_as(v7, reading("uuidv7-draft01-ns"), "seq", "255");
    let coarse = Reading { precision: Some("us".to_owned()), ..reading("uuidv7-draft01") };
    check_as(v7, coarse, "time", "2021-04-26T00:00:00.123456Z");
    let v8 = "2489e9ad-2ee2-8e00-8ec9-32d5f69181c0";
    check_as(v8, Reading { width: Some(60), ..reading("uuidv8-draft01") }, "ts", "164555774200000000");
    check_as(v8, reading("uuidv8-draft01-60"), "node", "2589169336549824");
    check_as("113q8KFkGL6", reading("uid11-snowish"), "machine", "5");
    let guid = Reading { guid: true, ..Reading::default() };
    check_as("e2227f01b079c37c98c4dc0c0c07398f", guid, "unix_ms", "1645557742000");
    let prefix = Reading { prefix: true, ..Reading::default() };
    check_as("113q8K", prefix.clone(), "from", "2011-11-12T11:11:11.071Z");
    check_as("113q8K", prefix.clone(), "ts_hi", "86400116");
    check_as("j", prefix, "hi_text", "jpXCZedGfVQ");
}

#[test]
fn ok_extuuids_by_their_texts_and_by_their_bits() {
    let (text, uuid) = ("extuuid:fixedB4:GBP$:222.31", "49083027-d200-8000-8000-00000021ebfc");
    let found = inspect(text).expect("an EXTUUID");
    assert_eq!((found.format.as_str(), found.canonical.as_str(), found.text.as_str()), ("extuuid", uuid, text));
    assert!(found.layout.iter().any(|range| range.label == "decimals" && range.bits == "00100"));
    check_as(uuid, reading("extuuid"), "text", text);
    check_as("22.4*m3", reading("extuuid"), "kind", "quant");
    check_as("88190000-0000-8001-8036-666666666666", reading("extuuid"), "text", "extuuid:quant:22.4*m3");
}

#[test]
fn err_a_given_reading_that_does_not_fit() {
    for (text, reading, code) in [
        ("06086028-01f9-7add-8dcf-ffffffffffff", reading("uuidv6"), ErrorCode::WrongVersion),
        ("06086028-01f9-7add-8dcf-ffffffffffff", reading("uuidv9"), ErrorCode::BadFormat),
        ("2489e9ad-2ee2-8e00-8ec9-32d5f69181c0", reading("uuidv8-draft01"), ErrorCode::BadInput),
        ("jpXCZedGfVQ", reading("uid11-snowish"), ErrorCode::ReservedBits),
        ("k", Reading { prefix: true, ..Reading::default() }, ErrorCode::PrefixOutOfRange),
    ] {
        assert_eq!(super::inspect(text, &reading).expect_err("it does not fit").code, code.as_str());
    }
}

#[test]
fn err_an_option_that_does_not_apply_to_the_format() {
    const LAYOUT: (&str, &str) = ("bad-layout", "kent inspect --as uuidv7-draft01 --layout ms ID");
    const PRECISION: (&str, &str) = ("bad-precision", "kent inspect --as uuidv7-draft01 --precision us ID");
    const WIDTH: (&str, &str) = ("bad-width", "kent inspect --as uuidv8-draft01 --width 48 ID");
    let layout = |reading| Reading { layout: Some("ms".to_owned()), ..reading };
    let precision = |reading| Reading { precision: Some("us".to_owned()), ..reading };
    let width = |reading| Reading { width: Some(48), ..reading };
    let v7 = "06086028-01f9-7ad0-8005-000000000001";
    for (reading, expected) in [
        (layout(Reading::default()), Some(LAYOUT)),
        (layout(reading("uuidv7")), Some(LAYOUT)),
        (layout(reading("uuidv7-draft01-us")), Some(LAYOUT)),
        (layout(Reading { prefix: true, ..Reading::default() }), Some(LAYOUT)),
        (layout(precision(reading("uuidv7-draft01"))), None),
        (precision(Reading::default()), Some(PRECISION)),
        (precision(reading("ulid")), Some(PRECISION)),
        (precision(reading("uuidv7-draft01-ns")), None),
        (width(Reading::default()), Some(WIDTH)),
        (width(reading("uuidv7")), Some(WIDTH)),
        (width(reading("uuidv8-draft01-60")), Some(WIDTH)),
    ] {
        let error = super::inspect(v7, &reading).err();
        assert_eq!(error.as_ref().map(|error| error.code), expected.map(|(code, _)| code), "{reading:?}");
        assert!(error.is_none_or(|error| error.message.ends_with(expected.unwrap_or_default().1)), "{reading:?}");
    }
}

#[test]
fn err_texts_that_are_not_identifiers() {
    check_err("", ErrorCode::Unrecognised);
    check_err("hello", ErrorCode::Unrecognised);
    check_err(" 7", ErrorCode::Unrecognised);
    check_err("017f22e2-79b0-7cc3-98c4-dc0c0c07398g", ErrorCode::BadHex);
    check_err("{017f22e2}", ErrorCode::BadLength);
    check_err("0x", ErrorCode::BadLength);
    check_err("0xfg", ErrorCode::BadHex);
    check_err("340282366920938463463374607431768211456", ErrorCode::Range);
    check_err("zzzzzzzzzzz", ErrorCode::Overflow);
    check_err("hello world", ErrorCode::BadSymbol);
}

proptest! {
    #[test]
    fn ok_no_text_panics(text: String) {
        let _ = inspect(&text);
    }

    #[test]
    fn ok_every_identifier_is_recognised(value: u128) {
        let uuid = Uuid::from_u128(value);
        let found = inspect(&uuid.to_string()).expect("a UUID");
        prop_assert_eq!(&found.canonical, &uuid.to_string());
        prop_assert_eq!(found.hex, uuid.simple().to_string());
        let uid11 = Uid11::new(value as u64);
        prop_assert_eq!(inspect(&uid11.to_string()).expect("a uid11").hex, format!("{:016x}", uid11.get()));
    }
}
