//! Property tests of EXTUUIDs, over all bits and over bits with typed forms, and tables of examples.

use alloc::{string::ToString, vec::Vec};

use proptest::prelude::*;

use super::*;

/// Generates bits that begin with a valid type, so that most values have typed forms, and that are often sparse.
fn bits() -> impl Strategy<Value = u128> {
    let head = prop_oneof![
        // Symbols, serials and fixed-point numbers, by scheme and length.
        (0..2_u128, 0..8_u128, 0..25_u128).prop_map(|(kind, scheme, len)| (kind << 8 | scheme << 5 | len, 10)),
        // Vectors by kind, with a count and a width.
        (0..8_u128, 0..6_u128, 0..60_u128)
            .prop_map(|(kind, count, width)| ((2 << 3 | kind) << 14 | count << 7 | width, 19)),
        (0..8_u128).prop_map(|kind| (2 << 3 | kind, 5)),
        Just((0, 0)),
    ];
    (head, any::<u128>(), any::<u128>(), any::<bool>()).prop_map(|((head, width), random, mask, sparse)| {
        let random = if sparse { random & mask } else { random };
        let rest = random & ((1 << (122 - width)) - 1);
        head << (122 - width) | rest
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn ok_parsing_inverts_printing(bits in prop_oneof![bits(), 0..1_u128 << 122]) {
        let ext = Ext::new(bits).expect("122 bits");
        let text = ext.to_string();
        prop_assert_eq!(parse(&text), Ok(ext), "{}", text);
        prop_assert_eq!(parse_minimal(&text), Ok(ext), "{}", text);
    }

    #[test]
    fn ok_uuids_and_digits_carry_every_bit(bits in 0..1_u128 << 122) {
        let ext = Ext::new(bits).expect("122 bits");
        prop_assert_eq!(Ext::from_uuid(ext.to_uuid(), false), Ok(ext));
        prop_assert_eq!(Ext::from_uuid(ext.to_legacy_uuid(), true), Ok(ext));
        prop_assert!(Ext::from_uuid(ext.to_legacy_uuid(), false).is_err());
        prop_assert_eq!(Ext::from_hex(ext.hex()), Ok(ext));
    }

    #[test]
    fn ok_a_layout_is_the_whole_uuid(bits in bits()) {
        let layout = Ext::new(bits).expect("122 bits").layout();
        let end = layout.iter().fold(0, |next, range| {
            assert_eq!(range.first, next, "{layout:?}");
            range.last + 1
        });
        prop_assert_eq!(end, 128);
    }

    #[test]
    fn ok_no_text_panics(text in "[ -~]{0,40}", bytes: Vec<u8>) {
        for text in [text.as_bytes(), &bytes] {
            let smart = parse(text);
            if let Ok(ext) = smart {
                prop_assert_eq!(parse(ext.to_string()), Ok(ext));
            }
            if let Ok(money) = parse_money(text) {
                prop_assert_eq!(parse_money(money.ext.to_string()), Ok(money));
            }
            let _ = parse_minimal(text);
        }
    }
}

#[track_caller]
fn check(text: &str, canonical: &str) {
    let ext = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(ext.to_string(), ["extuuid:", canonical].concat(), "{text}");
}

#[track_caller]
fn check_err(text: &str, code: ErrorCode) {
    let error = parse(text).map(|ext| ext.to_string()).expect_err(text);
    assert_eq!(error.code(), code, "{text}: {error}");
}

#[test]
fn ok_texts_that_people_write() {
    check(" \t GBP\r\n", "symA:GBP");
    check("extuuid:GBP", "symA:GBP");
    check("symA:", "symA:");
    check("serialF::7", "serialF::7");
    check("gbp$", "symB:GBP$");
    check("fixed:GBP:1_000.50", "fixedA1:GBP:1000.5");
    check("fixed:GBP:-0.00", "fixedA0:GBP:0");
    check("fixedC2:a+b:7", "fixedC2:A+B:7");
    check("fixed3:x:7", "fixedA3:x:7");
    check("fixedG:5", "serialA:fixedG:5");
    check("PMID:1-2_3", "serialA:PMID:123");
    check("PMID:-5", "fixedA0:PMID:-5");
    check("PMID:5.5", "fixedA1:PMID:5.5");
    check("+1_000", "int:1000");
    check("-0", "int:0");
    check("1e3", "f:1000");
    check("-0.0", "f:-0");
    check("5*m", "quant:5*m");
    check("1e3/s", "quant:1000/s");
    check("q@0:1", "quant:1");
    check("1.5,2", "ieee16::1.5,2");
    check("f:1,2,3,4,5,6", "ieee16x6:0:1,2,3,4,5,6");
    check("f:200:1,2,3,4,5,6", "ieee16x6:200:1,2,3,4,5,6");
    check("f:ABCDEFGH:0.1234567890123", "ieee64:ABCDEFGH:0.1234567890123");
    check("uint/2*8:0,255", "uint/2*8:0:0,255");
    check("int/1*2:-1", "int/1*2:0:-1");
    check("int:5:1", "int/1*2:5:1");
    check("2012/10", "t/0:2012-10-01;00:00:00");
    check("raw:00421248D0000000000000000bc614f", "serialA:ISSN:12345679");
    check("ieee16:0.1", "ieee16::0.1");
    check("f/1*2*0:-0.5", "f/1*2*0:0:-0.5");
}

#[test]
fn err_mistyped_texts() {
    for (text, code) in [
        ("", ErrorCode::Unrecognised),
        ("5*foo", ErrorCode::Unrecognised),
        ("5 m", ErrorCode::Unrecognised),
        ("_x", ErrorCode::Unrecognised),
        ("a:b", ErrorCode::Unrecognised),
        ("a:1:2", ErrorCode::Unrecognised),
        ("1,x", ErrorCode::Unrecognised),
        ("a b", ErrorCode::BadSymbol),
        ("sym:", ErrorCode::EmptySymbol),
        ("serial::5", ErrorCode::EmptySymbol),
        ("sym:a:b", ErrorCode::BadSymbol),
        ("serial:PMID", ErrorCode::BadSyntax),
        ("serial:PMID:", ErrorCode::BadNumber),
        ("serial:PMID:-5", ErrorCode::BadNumber),
        ("serial:PMID:5_", ErrorCode::BadNumber),
        ("serialE:PMID:5", ErrorCode::UnsupportedScheme),
        ("fixed04:x:1", ErrorCode::BadDecimals),
        ("fixed32:x:1", ErrorCode::BadDecimals),
        ("fixed:x:+1", ErrorCode::BadNumber),
        ("fixed:x:1._0", ErrorCode::BadNumber),
        ("fixedA0:x:1.5", ErrorCode::Precision),
        ("fixedA31:x:100000000", ErrorCode::NumberTooBig),
        ("serialA:ABCDEFGHIJKLMNOPQR:16", ErrorCode::NumberTooBig),
        ("symA:ABCDEFGHIJKLMNOPQRS", ErrorCode::SymbolTooLong),
        ("int:", ErrorCode::BadNumber),
        ("int:1.5", ErrorCode::BadNumber),
        ("int/2:1", ErrorCode::CountMismatch),
        ("int/0:1", ErrorCode::BadDims),
        ("int/128:1", ErrorCode::BadDims),
        ("int/1*1:0", ErrorCode::BadDims),
        ("int/2*52:0,0", ErrorCode::BadDims),
        ("int/1*3:4", ErrorCode::NumberTooBig),
        ("int/1*103:1:4", ErrorCode::NumberTooBig),
        ("int:x:4", ErrorCode::ContextNotNumeric),
        ("int::4", ErrorCode::ContextNotNumeric),
        ("uint:-1", ErrorCode::BadNumber),
        ("int/x:5", ErrorCode::BadDims),
        ("int/1*2*3:21", ErrorCode::BadDims),
        ("t/:5", ErrorCode::BadDims),
        ("f/:9.19", ErrorCode::BadDims),
        ("q@x:68.3", ErrorCode::BadContext),
        ("f/1:1", ErrorCode::BadDims),
        ("f/1*8:1", ErrorCode::BadDims),
        ("f/1*8*17:1", ErrorCode::BadDims),
        ("f/1*8*7:1", ErrorCode::BadDims),
        ("f/1*8*3:1e9", ErrorCode::FloatRange),
        ("f:x", ErrorCode::BadNumber),
        ("f:1e99999", ErrorCode::BadNumber),
        ("f:1e20000", ErrorCode::FloatRange),
        ("f:1,2,3,4,5", ErrorCode::NoRepresentation),
        ("ieee16x6:256:1,2,3,4,5,6", ErrorCode::BadContext),
        ("ieee64:ABCDEFGHI:1", ErrorCode::BadContext),
        ("ieee64:1,2", ErrorCode::CountMismatch),
        ("ieee16:65520", ErrorCode::FloatRange),
        ("q@16:1", ErrorCode::BadContext),
        ("q:1m", ErrorCode::BadQuant),
        ("q:x", ErrorCode::BadNumber),
        ("t/110:1", ErrorCode::BadDims),
        ("t:x", ErrorCode::BadTime),
        ("2013-02-29", ErrorCode::BadTime),
        ("raw:4000000000000000000000000000000", ErrorCode::BadHex),
        ("raw:0", ErrorCode::BadHex),
    ] {
        check_err(text, code);
    }
    check_err(&"x".repeat(1025), ErrorCode::TextTooLong);
}

#[test]
fn err_the_minimal_parser_rejects_other_spellings() {
    for text in
        ["symA:GBP", "extuuid:sym:GBP", " extuuid:symA:GBP", "extuuid:int:+1", "extuuid:t:5", "extuuid:f:1.0", ""]
    {
        assert_eq!(parse_minimal(text).expect_err(text).code(), ErrorCode::NotCanonical);
    }
}
