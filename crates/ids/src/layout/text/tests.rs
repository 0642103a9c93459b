use alloc::{string::ToString, vec::Vec};

use proptest::prelude::*;

use super::*;
use crate::Uid11;

fn spelling(text: &str) -> Spelling {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[track_caller]
fn check(form: &str, bits: u8, value: u128, text: &str) {
    let spelling = spelling(form);
    assert_eq!(spelling.text(value, bits), text, "{form}");
    assert_eq!(spelling.parse(text, bits), Ok(value), "{form}");
}

#[track_caller]
fn check_err(form: &str, bits: u8, text: &str, code: ErrorCode, message: &str) {
    let error = spelling(form).parse(text, bits).expect_err(text);
    assert_eq!((error.code(), error.to_string().as_str()), (code, message), "{form} {text:?}");
}

#[test]
fn ok_values_and_their_texts() {
    let most = u64::MAX.into();
    check("decimal", 64, 0, "0");
    check("decimal", 64, 1_541_815_603_606_036_480, "1541815603606036480");
    check("decimal", 64, most, "18446744073709551615");
    check("decimal fixed", 64, 7, "00000000000000000007");
    check("decimal", 128, u128::MAX, "340282366920938463463374607431768211455");
    check("hex", 64, 0xab, "00000000000000ab");
    check("hex minimal", 64, 0xab, "ab");
    check("hex", 9, 0x1ab, "1ab");
    check("crockford", 64, most, "FZZZZZZZZZZZZ");
    check("crockford-lower", 128, u128::MAX, "7zzzzzzzzzzzzzzzzzzzzzzzzz");
    check("base36", 64, most, "3w5e11264sgsf");
    check("base36 fixed", 64, 35, "000000000000z");
    check("base58", 64, most, "jpXCZedGfVQ");
    check("base62", 64, most, "LygHa16AHYF");
    check("base62", 128, 61, "000000000000000000000z");
    // The test vectors of RFC 4648, section 10, for "foob", "fooba" and "foobar".
    check("base32hex", 32, 0x666f_6f62, "cpnmuog");
    check("base32hex", 40, 0x66_6f6f_6261, "cpnmuoj1");
    check("base32hex", 48, 0x666f_6f62_6172, "cpnmuoj1e8");
    check("base64url", 32, 0x666f_6f62, "Zm9vYg");
    check("base64url", 40, 0x66_6f6f_6261, "Zm9vYmE");
    check("base64url", 48, 0x666f_6f62_6172, "Zm9vYmFy");
    check("base64url", 128, u128::MAX, "_____________________w");
    check("push64", 120, 0, "--------------------");
    check("push64 minimal", 120, 63, "z");
    check("uuid", 128, 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff, "00112233-4455-6677-8899-aabbccddeeff");
    check("base58 prefix:ord_", 64, 57, "ord_1111111111z");
    check("decimal prefix:sk_live_", 64, 57, "sk_live_57");
}

#[test]
fn err_texts_that_are_not_identifiers() {
    let length = "the text has 2 digits of hex, but must have 16";
    check_err("hex", 64, "ab", ErrorCode::BadLength, length);
    check_err("decimal", 64, "", ErrorCode::BadLength, "the text has 0 digits of decimal, but must have 1 to 20");
    check_err("decimal", 64, "007", ErrorCode::NotCanonical, "the text begins with a zero (at offset 0)");
    check_err("decimal", 64, "+7", ErrorCode::BadSymbol, "'+' is not a digit of decimal (at offset 0)");
    check_err("decimal", 64, "7 ", ErrorCode::BadSymbol, "' ' is not a digit of decimal (at offset 1)");
    let overflow = "the text is a number that does not fit in 64 bits";
    check_err("decimal", 64, "18446744073709551616", ErrorCode::Overflow, overflow);
    check_err("base58", 64, "jpXCZedGfVR", ErrorCode::Overflow, overflow);
    let overflow = "the text is a number that does not fit in 128 bits";
    check_err("crockford", 128, "80000000000000000000000000", ErrorCode::Overflow, overflow);
    check_err("base62", 128, &"z".repeat(22), ErrorCode::Overflow, overflow);
    check_err("crockford", 10, "0L", ErrorCode::BadSymbol, "'L' is not a digit of crockford (at offset 1)");
    check_err("crockford", 10, "0a", ErrorCode::BadSymbol, "'a' is not a digit of crockford (at offset 1)");
    check_err(
        "base32hex",
        32,
        "cpnmuoh",
        ErrorCode::NotCanonical,
        "the last 3 bits of the text must be zero (at offset 6)",
    );
    check_err(
        "base64url",
        32,
        "Zm9vYh",
        ErrorCode::NotCanonical,
        "the last 4 bits of the text must be zero (at offset 5)",
    );
    check_err("base32hex", 9, "vvv0", ErrorCode::Overflow, "the text is a number that does not fit in 9 bits");
    let upper = "00112233-4455-6677-8899-AABBCCDDEEFF";
    check_err("uuid", 128, upper, ErrorCode::NotCanonical, "the digits of a UUID are in lower case (at offset 24)");
    check_err("base58 prefix:ord_", 64, "usr_1111111111z", ErrorCode::BadSyntax, "the text does not begin with ord_");
    let zero = "'0' is not a digit of base58 (at offset 14)";
    check_err("base58 prefix:ord_", 64, "ord_11111111110", ErrorCode::BadSymbol, zero);
}

#[test]
fn ok_spellings_and_their_texts() {
    for digits in Digits::ALL {
        check_spelling(digits.name(), digits.name());
        assert_eq!(Digits::by_name(digits.name()), Some(digits));
    }
    check_spelling("decimal minimal", "decimal");
    check_spelling("  base62\tminimal ", "base62 minimal");
    check_spelling("decimal prefix:a_b- fixed", "decimal fixed prefix:a_b-");
    for (form, sorts) in
        [("hex", true), ("hex minimal", false), ("base64url", false), ("decimal", false), ("push64", true)]
    {
        assert_eq!(spelling(form).sorts(), sorts, "{form}");
    }
}

#[track_caller]
fn check_spelling(text: &str, printed: &str) {
    assert_eq!(spelling(text).to_string(), printed);
    assert_eq!(printed.parse(), Ok(spelling(text)));
}

#[test]
fn err_texts_that_are_not_spellings() {
    let prefix = |prefix: &str| {
        format!(
            "the prefix {prefix:?} is not valid: a prefix begins with a letter, has letters, digits and _, ends with one of _ - . :, and has at most 64 characters, as in ord_"
        )
    };
    let twice = |what| format!("{what} occurs twice: name each at most once, as in \"base58 minimal prefix:ord_\"");
    for (text, message) in [
        (
            "base63",
            "there is no text form \"base63\": use one of decimal, hex, crockford, crockford-lower, base32hex, base36, base58, base62, base64url, push64, uuid, as in decimal",
        ),
        (
            "hex upper",
            "\"upper\" is not known after the digits: use fixed, minimal or prefix:PREFIX, as in \"base58 prefix:ord_\"",
        ),
        (
            "uuid minimal",
            "uuid has a fixed width: leave out minimal, or use decimal, hex, crockford, base36, base58 or base62",
        ),
        ("hex prefix:", &prefix("")),
        ("hex prefix:ord", &prefix("ord")),
        ("hex prefix:_", &prefix("_")),
        ("hex prefix:1a_", &prefix("1a_")),
        ("hex prefix:a-b_", &prefix("a-b_")),
        ("base58 fixed minimal", &twice("the width")),
        ("base58 minimal minimal", &twice("the width")),
        ("base58 prefix:a_ fixed prefix:b_", &twice("the prefix")),
    ] {
        assert_eq!(text.parse::<Spelling>().expect_err(text).to_string(), message);
    }
    assert!(Spelling::new(Digits::Hex).with_prefix(&["a".repeat(64).as_str(), "_"].concat()).is_err());
    let error = spelling("uuid").check_bits(64).expect_err("64 bits");
    assert_eq!(
        error.to_string(),
        "uuid writes identifiers of 128 bits, but the layout has 64: use another text form, as in hex"
    );
}

fn spellings() -> impl Strategy<Value = Spelling> {
    let prefix = prop_oneof![Just(String::new()), "[a-zA-Z][a-zA-Z0-9_]{0,20}[-_.:]"];
    (prop::sample::select(Digits::ALL.to_vec()), any::<bool>(), prefix).prop_map(|(digits, minimal, prefix)| {
        let spelling = Spelling::new(digits).with_prefix(&prefix).expect("a prefix");
        let width = if minimal { Width::Minimal } else { Width::Fixed };
        spelling.clone().with_width(width).unwrap_or(spelling)
    })
}

/// Generates a spelling, a width that it can represent, and a value of any size that fits the width.
fn values() -> impl Strategy<Value = (Spelling, u8, u128)> {
    (spellings(), 1..=128_u8, any::<u128>(), 0..128_u32).prop_map(|(spelling, bits, value, shift)| {
        let bits = spelling.digits().only_bits().unwrap_or(bits);
        (spelling, bits, value >> shift & (u128::MAX >> (128 - bits)))
    })
}

proptest! {
    #[test]
    fn ok_parsing_inverts_writing((spelling, bits, value) in values()) {
        let text = spelling.text(value, bits);
        prop_assert_eq!(spelling.parse(&text, bits), Ok(value), "{}", text);
        prop_assert_eq!(spelling.to_string().parse(), Ok(spelling));
    }

    #[test]
    fn ok_each_value_has_one_text((spelling, bits, value) in values(), at: usize, symbol in "[-0-9a-zA-Z_]", end in ".{0,2}") {
        let text = spelling.text(value, bits);
        let at = at % text.len();
        let mutants = [
            [&text[..at], &symbol, &text[at + 1..]].concat(),
            [&text[..at], &text[at + 1..]].concat(),
            [&text[..at], &symbol, &text[at..]].concat(),
            [text.as_str(), &end].concat(),
        ];
        for mutant in mutants {
            if let Ok(read) = spelling.parse(&mutant, bits) {
                prop_assert_eq!(spelling.text(read, bits), mutant);
            }
        }
    }

    #[test]
    fn ok_fixed_texts_are_ordered_as_values((spelling, bits, value) in values(), other: u128, shift in 0..128_u32) {
        let other = other >> shift & (u128::MAX >> (128 - bits));
        let texts = [value, other].map(|value| spelling.text(value, bits));
        if spelling.width() == Width::Fixed {
            prop_assert_eq!(texts[0].len(), texts[1].len());
        }
        if spelling.sorts() {
            prop_assert_eq!(texts[0].cmp(&texts[1]), value.cmp(&other));
        }
    }

    #[test]
    fn ok_no_text_panics(spelling in spellings(), bits in 1..=128_u8, text: String) {
        let _ = text.parse::<Spelling>();
        if let Ok(value) = spelling.parse(&text, bits) {
            prop_assert_eq!(spelling.text(value, spelling.digits().only_bits().unwrap_or(bits)), text);
        }
    }

    #[test]
    fn ok_base_58_is_the_text_of_a_uid11(value: u64) {
        prop_assert_eq!(spelling("base58").text(value.into(), 64), Uid11::new(value).to_string());
    }

    #[test]
    fn ok_byte_forms_write_the_bytes(bytes in prop::collection::vec(any::<u8>(), 1..=16)) {
        let value = bytes.iter().fold(0, |value, byte| value << 8 | u128::from(*byte));
        let bits: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
        for (form, width, alphabet) in [
            ("base32hex", 5, "0123456789abcdefghijklmnopqrstuv"),
            ("base64url", 6, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
        ] {
            let digits = bits.as_bytes().chunks(width).map(|chunk| {
                let digit = chunk.iter().chain([b'0'; 6].iter()).take(width).fold(0, |digit, bit| digit << 1 | usize::from(bit - b'0'));
                alphabet.as_bytes()[digit]
            });
            let expected = String::from_utf8(digits.collect::<Vec<_>>()).expect("ASCII");
            prop_assert_eq!(spelling(form).text(value, (bytes.len() * 8) as u8), expected);
        }
    }
}
