//! Prefixes as text: zeros and ones, hexadecimal digits with a length, or an address with a length.

use std::net::Ipv6Addr;

use clap::ValueEnum;
use kent_client::regions::Prefix;

use crate::number::counted;

/// The text form of prefixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PrefixFormat {
    /// Zeros and ones, such as 101101.
    #[default]
    Bits,
    /// Hexadecimal digits, aligned to the left, and the number of bits, such as 0xb4/6.
    Hex,
    /// An address and the number of bits, like an IPv6 network, such as b400::/6.
    Cidr,
}

impl PrefixFormat {
    /// Returns the text of a prefix, which is given as zeros and ones.
    pub(crate) fn text(self, bits: &str) -> String {
        match (self, bits.parse::<Prefix>()) {
            (Self::Bits, _) | (_, Err(_)) if bits.is_empty() => "(none)".to_owned(),
            (Self::Bits, _) | (_, Err(_)) => bits.to_owned(),
            (Self::Hex, Ok(prefix)) => {
                let digits = prefix.len().div_ceil(4).max(1);
                let value = prefix.base(128) >> (128 - 4 * u32::from(digits)); // OK because there are 1 to 32 digits
                format!("0x{value:0width$x}/{}", prefix.len(), width = usize::from(digits))
            }
            (Self::Cidr, Ok(prefix)) => format!("{}/{}", Ipv6Addr::from_bits(prefix.base(128)), prefix.len()),
        }
    }
}

/// The valid forms of a prefix, for error messages.
const WANTED: &str = "expected zeros and ones such as 0101, or the same prefix as 0x5/4 or 5000::/4";

/// Reads a prefix in any of the forms, and returns it as zeros and ones.
pub(crate) fn parse(text: &str) -> Result<String, String> {
    let Some((address, len)) = text.split_once('/') else { return parse_bits(text) };
    let len: usize = len
        .parse()
        .ok()
        .filter(|len| *len <= 128)
        .ok_or_else(|| format!("{len:?} is not a number of bits from 0 to 128; {WANTED}"))?;
    let value = parse_address(address).ok_or_else(|| format!("{text:?} is not a prefix; {WANTED}"))?;
    let bits = format!("{value:0128b}");
    let (prefix, rest) = bits.split_at(len);
    match rest.contains('1') {
        false => Ok(prefix.to_owned()),
        true => Err(format!(
            "{text:?} has bits after the first {len}; the prefix of {} is {}",
            counted(len, "bit"),
            PrefixFormat::Hex.text(prefix),
        )),
    }
}

fn parse_bits(text: &str) -> Result<String, String> {
    if let Some(digits) =
        text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).filter(|digits| digits.len() <= 32)
    {
        let len = 4 * digits.len();
        if let Ok(bits) = parse(&format!("{text}/{len}")) {
            return Err(format!("{text} lacks its number of bits: write {text}/{len} for {bits}"));
        }
    }
    if let Some(invalid) = text.chars().find(|symbol| !matches!(symbol, '0' | '1')) {
        return Err(format!("{text:?} is not a prefix, because of {invalid:?}; {WANTED}"));
    }
    if text.len() > 128 {
        return Err(format!("expected at most 128 bits, found {}", text.len()));
    }
    Ok(text.to_owned())
}

/// Parses an address as 128 bits, from the left. Missing digits on the right are zeros.
fn parse_address(text: &str) -> Option<u128> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(Ipv6Addr::to_bits);
    }
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    let is_hex = (1..=32).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let value = u128::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    Some(value << (4 * (32 - digits.len()))) // OK because there are 1 to 32 digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_every_form_reads_back() {
        let full = "10".repeat(64);
        for (bits, hex, cidr) in [
            ("0", "0x0/1", "::/1"),
            ("1", "0x8/1", "8000::/1"),
            ("101101", "0xb4/6", "b400::/6"),
            ("1011011100000001", "0xb701/16", "b701::/16"),
            ("10110111000000010000000101", "0xb701014/26", "b701:140::/26"),
            ("00000000000000001", "0x00008/17", "0:8000::/17"),
            (&full, "0xaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/128", "aaaa:aaaa:aaaa:aaaa:aaaa:aaaa:aaaa:aaaa/128"),
        ] {
            assert_eq!(PrefixFormat::Bits.text(bits), bits);
            assert_eq!(PrefixFormat::Hex.text(bits), hex);
            assert_eq!(PrefixFormat::Cidr.text(bits), cidr);
            for text in [bits, hex, cidr] {
                assert_eq!(parse(text).as_deref(), Ok(bits), "{text}");
            }
        }
        let all = [PrefixFormat::Bits, PrefixFormat::Hex, PrefixFormat::Cidr].map(|format| format.text(""));
        assert_eq!(all, ["(none)", "0x0/0", "::/0"]);
        for (text, bits) in
            [("", ""), ("::/0", ""), ("0/0", ""), ("b4/6", "101101"), ("0XB/6", "101100"), ("0xb400_/6", "")]
        {
            assert_eq!(parse(text).ok().as_deref(), (!text.contains('_')).then_some(bits), "{text}");
        }
    }

    #[test]
    fn err_prefixes() {
        for (text, hint) in [
            ("012", "'2'"),
            ("b4", "0x5/4"),
            ("0xb4", "0xb4 lacks its number of bits: write 0xb4/8 for 10110100"),
            ("0xg4", "0x5/4"),
            ("0x", "0x5/4"),
            ("0xb5/6", "is 0xb4/6"),
            ("8000::/0", "is 0x0/0"),
            ("b400::/129", "from 0 to 128"),
            ("b400::/", "from 0 to 128"),
            ("/6", "5000::/4"),
            ("0x/6", "5000::/4"),
            ("b400:::/6", "5000::/4"),
            ("-1/6", "5000::/4"),
            ("+1/6", "5000::/4"),
            ("0xaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/128", "5000::/4"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(hint), "{text}: {error}");
        }
        assert!(parse(&"1".repeat(129)).is_err_and(|error| error.contains("at most 128 bits")));
    }
}
