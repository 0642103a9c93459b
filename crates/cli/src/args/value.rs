//! Parsers for argument values: names, numbers, bits, and the new regions of a split.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

use kent_access::Budget;
use kent_ids::{DEFAULT_SPACE, MAX_NAME_LEN, Source, SourceError, check_name};

use crate::names;
use crate::number;
use crate::prefix;

/// Parses a label. The value is everything after the first `=`, including commas and further `=`.
pub(super) fn parse_label(text: &str) -> Result<(String, Option<String>), String> {
    let Some((name, value)) = text.split_once('=') else {
        return Err(match (text.strip_suffix('-'), text.split_once(':')) {
            (Some(name), _) if !name.is_empty() => format!("to remove the label, write {name}="),
            (_, Some((name, value))) if !name.is_empty() => format!("there is no `=`: write {name}={value}"),
            _ => "there is no `=`: expected NAME=VALUE such as team=shop, or NAME= to remove the label".to_owned(),
        });
    };
    if name.is_empty() {
        return Err("the name before `=` is missing: expected NAME=VALUE such as team=shop".to_owned());
    }
    // Without this check, a list such as a=1,b=2 would silently become one label.
    let second = value.split(',').skip(1).find(|part| part.split_once('=').is_some_and(|(name, _)| !name.is_empty()));
    if let Some(second) = second {
        let first = value.split(',').next().unwrap_or_default();
        return Err(format!("--label sets one label: repeat it, as in --label {name}={first} --label {second}"));
    }
    Ok((name.to_owned(), (!value.is_empty()).then(|| value.to_owned())))
}

pub(super) fn parse_auto_expand(text: &str) -> Result<(u32, u32, u32), String> {
    let parts: Vec<u32> = text.split(':').map(str::parse).collect::<Result<_, _>>().unwrap_or_default();
    match parts[..] {
        [percent @ 1..=100, by @ 1..=128] => Ok((percent, by, 0)),
        [percent @ 1..=100, by @ 1..=128, max @ 1..=128] => Ok((percent, by, max)),
        _ => Err("expected PERCENT:K or PERCENT:K:MAX, with 1 to 100 percent, K of 1 to 128 bits and a largest suffix of 1 to 128 bits, \
             such as 80:2:50"
            .to_owned()),
    }
}

pub(super) fn parse_chunk(text: &str) -> Result<(u64, u64), String> {
    let parts = text.split_once(':').and_then(|(min, max)| {
        let max: u64 = within(max, 1, u64::MAX.into())?;
        Some((within(min, 1, max.into())?, max))
    });
    parts.ok_or_else(|| "expected MIN:MAX, two numbers of suffixes with 1 <= MIN <= MAX, such as 1:64".to_owned())
}

/// Parses the name of a space. The space of a delegated region has a path as its name, such as default/emea.
pub(crate) fn parse_space(text: &str) -> Result<String, String> {
    text.split('/').try_for_each(|part| parse_name(part).map(drop))?;
    Ok(text.to_owned())
}

/// Parses the name of a layout, which may have the form of a source: `layout:orders`.
pub(super) fn parse_layout_name(text: &str) -> Result<String, String> {
    parse_name(text.strip_prefix("layout:").unwrap_or(text))
}

/// Parses a source. The space of a region is empty if the text does not name one.
pub(super) fn parse_source(text: &str) -> Result<Source, SourceError> {
    match text.parse()? {
        Source::Region { name, .. } if !text.contains('@') => Ok(Source::Region { name, space: String::new() }),
        source => Ok(source),
    }
}

/// Parses a number of identifiers. A unit may follow: k, M or G for thousands, millions or billions.
pub(super) fn parse_count(text: &str) -> Result<NonZeroU64, String> {
    count(text).and_then(NonZeroU64::new).ok_or_else(|| expected_count(1))
}

/// Parses a number that may have a unit.
fn count(text: &str) -> Option<u64> {
    const UNITS: [(&[char], u128); 3] = [(&['k', 'K'], 1_000), (&['M'], 1_000_000), (&['G'], 1_000_000_000)];
    let with_unit = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(*unit)?, *factor)));
    let (digits, factor) = with_unit.unwrap_or((text, 1));
    number::parse(digits).ok().and_then(|number| u64::try_from(number.checked_mul(factor)?).ok())
}

fn expected_count(min: u64) -> String {
    format!("expected a number of identifiers from {min} to 2^64 - 1, such as 500, 10_000, 10k, 2M or 1G")
}

/// Parses a source in the notation of permissions.
pub(super) fn parse_resource(text: &str) -> Result<String, String> {
    Budget::permission(text).map(|permission| permission.resource().to_string()).map_err(|bad| bad.to_string())
}

/// Parses the total of a budget, which may be 0.
pub(super) fn parse_total(text: &str) -> Result<u64, String> {
    count(text).ok_or_else(|| expected_count(0))
}

/// Parses a budget of a new token: RESOURCE=TOTAL.
pub(super) fn parse_budget(text: &str) -> Result<(String, u64), String> {
    let (resource, total) = text
        .rsplit_once('=')
        .ok_or_else(|| "expected RESOURCE=TOTAL, such as uuidv7=10k or region:default/orders=1M".to_owned())?;
    Ok((parse_resource(resource)?, parse_total(total)?))
}

/// Parses the revision after which to continue. 0 starts with the current state.
pub(super) fn parse_revision_or_0(text: &str) -> Result<u64, String> {
    within(text, 0, u64::MAX.into())
        .ok_or_else(|| "expected a revision such as 12, or 0 to print the current state first".to_owned())
}

pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).ok().filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| "expected a duration with its unit, such as 500ms, 30s or 5m".to_owned())
}

/// Checks a request ID, which must have 1 to 64 bytes.
pub(super) fn parse_request_id(text: &str) -> Result<String, String> {
    match text.len() {
        1..=64 => Ok(text.to_owned()),
        0 => Err("it is empty; give a string of 1 to 64 bytes, such as a version 7 UUID (kent alloc uuidv7), or leave the option out".to_owned()),
        bytes => Err(format!("it has {bytes} bytes; expected 1 to 64, such as a version 7 UUID (kent alloc uuidv7)")),
    }
}

/// Checks the name of a region, a space or a context, with the same function as the daemon.
pub(super) fn parse_name(text: &str) -> Result<String, String> {
    match check_name(text) {
        Ok(()) => Ok(text.to_owned()),
        Err(fault) => Err(format!(
            "{fault}: use 1 to {MAX_NAME_LEN} of a-z A-Z 0-9 - _ . and begin with a letter or a digit, as in orders"
        )),
    }
}

/// Checks the name of a new space. For a space inside another one, the error shows how to make it.
pub(super) fn parse_new_space(text: &str) -> Result<String, String> {
    match text.rsplit_once('/') {
        Some((outer, inner)) if parse_space(outer).is_ok() && parse_name(inner).is_ok() => Err(format!(
            "a space inside another one is made from a region: kent region create {inner} --suffix BITS --space {outer}, then kent region \
             delegate {inner} --space {outer}"
        )),
        _ => parse_name(text),
    }
}

/// Checks the name of a region. If the text is a source or an API resource name, the error shows what to write instead.
pub(super) fn parse_region(text: &str) -> Result<String, String> {
    let resource = text.strip_prefix("spaces/").and_then(|rest| rest.rsplit_once("/regions/"));
    let (space, region) = match (resource, text.strip_prefix("region:").unwrap_or(text)) {
        (Some((space, region)), _) => (Some(space), region),
        (None, region) => match region.split_once('@') {
            Some((region, space)) => (Some(space), region),
            None => (None, region),
        },
    };
    let is_name = region != text && check_name(region).is_ok() && space.is_none_or(|space| parse_space(space).is_ok());
    if resource.is_none()
        && let Some((space, region)) = text.rsplit_once('/')
        && check_name(region).is_ok()
        && parse_space(space).is_ok()
    {
        let of_delegated = match space.split('/').next() {
            Some(DEFAULT_SPACE) => String::new(),
            _ => format!(", or --space {DEFAULT_SPACE}/{space} if {space} is a delegated region"),
        };
        return Err(format!("expected the name of a region alone: write {region} --space {space}{of_delegated}"));
    }
    match space {
        Some(space) if is_name => {
            Err(format!("expected the name of a region alone: write {}", names::region_words(region, space)))
        }
        None if is_name => {
            Err(format!("expected the name of a region alone: write {region}; only a source has `region:`"))
        }
        _ => parse_name(text),
    }
}

pub(super) fn parse_pace(text: &str) -> Result<NonZeroU64, String> {
    let pace = within(text, 1, u64::MAX.into()).and_then(NonZeroU64::new);
    pace.ok_or_else(|| "expected 1 to 2^64 - 1 identifiers per second, such as 1000".to_owned())
}

pub(super) fn parse_u128(text: &str) -> Result<u128, String> {
    number::parse(text)
}

/// Parses a width in bits, such as that of a suffix.
pub(super) fn parse_bits(text: &str) -> Result<u32, String> {
    within(text, 0, 128).ok_or_else(|| "expected a number of bits from 0 to 128, such as 40".to_owned())
}

/// Parses a width of at least one bit, or a number of bits to move.
pub(super) fn parse_width(text: &str) -> Result<u32, String> {
    within(text, 1, 128).ok_or_else(|| "expected a number of bits from 1 to 128, such as 2".to_owned())
}

/// Parses the width of a timestamp in a uuidv8-draft01, in bits.
pub(super) fn parse_timestamp_width(text: &str) -> Result<u32, String> {
    let width = within(text, 32, 64).filter(|width| matches!(width, 32 | 48 | 60 | 64));
    width.ok_or_else(|| "expected 32, 48, 60 or 64 bits".to_owned())
}

/// Parses a number of lines, which may be 0.
pub(super) fn parse_lines(text: &str) -> Result<usize, String> {
    within(text, 0, usize::MAX as u128).ok_or_else(|| "expected a number of lines, such as 20".to_owned())
}

/// Parses the number of a resource, such as a request. The number must be at least 1.
pub(super) fn parse_number(text: &str) -> Option<u64> {
    within(text, 1, u64::MAX.into())
}

/// Parses a number of at least 1, such as a number of levels.
pub(super) fn parse_positive(text: &str) -> Result<u32, String> {
    let most = u32::MAX;
    within(text, 1, most.into())
        .ok_or_else(|| format!("expected a number from 1 to {}, such as 20", number::grouped(most)))
}

pub(super) fn parse_step(text: &str) -> Result<u32, String> {
    within(text, 2, STEP_MAX).ok_or_else(|| format!("expected a number from 2 to {}", number::grouped(STEP_MAX)))
}

pub(super) fn parse_offset(text: &str) -> Result<u32, String> {
    within(text, 0, STEP_MAX - 1).ok_or_else(|| "expected a number from 0 on, below the step".to_owned())
}

/// The largest step.
const STEP_MAX: u128 = 65_535;

pub(super) fn parse_tag(text: &str) -> Result<u64, String> {
    within(text, 0, u64::MAX.into()).ok_or_else(|| "expected a number from 0 on, such as 7".to_owned())
}

pub(super) fn parse_revision(text: &str) -> Result<u64, String> {
    let revision = within(text, 1, u64::MAX.into());
    revision.ok_or_else(|| "expected a revision from 1 on, such as 12 (`kent region history` lists them)".to_owned())
}

fn within<T: TryFrom<u128>>(text: &str, least: u128, most: u128) -> Option<T> {
    let number = number::parse(text).ok().filter(|number| (least..=most).contains(number))?;
    T::try_from(number).ok()
}

/// Up to 128 bits as zeros and ones, parsed from any form that `prefix` accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bits(String);

impl FromStr for Bits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        prefix::parse(text).map(Self)
    }
}

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A region that a split or a subdivision creates: `NAME:SUFFIX[:BITS]`, or `NAME::00...0` for the all-zero subregion,
/// which inherits the suffix of its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewRegion {
    pub(crate) name: String,
    pub(crate) suffix_bits: Option<u32>,
    pub(crate) extension: Option<Bits>,
}

impl FromStr for NewRegion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Split only at the first two colons, because the bits may be an address with colons.
        let parts: Vec<&str> = text.splitn(3, ':').collect();
        let (name, suffix, bits) = match parts[..] {
            [name, suffix] => (name, suffix, None),
            [name, suffix, bits] => (name, suffix, Some(bits)),
            _ => {
                return Err("expected NAME:SUFFIX or NAME:SUFFIX:BITS, such as returns:38:01".to_owned());
            }
        };
        let name = parse_name(name)?;
        let extension = bits.map(parse_extension).transpose()?;
        let suffix_bits = parse_suffix(suffix, extension.as_ref())?;
        Ok(Self { name, suffix_bits, extension })
    }
}

fn parse_extension(bits: &str) -> Result<Bits, String> {
    if bits.is_empty() {
        return Err("BITS is empty; omit the colon before it to take the lowest free bits".to_owned());
    }
    bits.parse()
}

fn parse_suffix(suffix: &str, extension: Option<&Bits>) -> Result<Option<u32>, String> {
    if suffix.is_empty() {
        return match extension {
            Some(bits) if bits.0.bytes().all(|bit| bit == b'0') => Ok(None),
            _ => Err("SUFFIX may be empty only for the all-zero subregion, NAME::00...0, which inherits it".to_owned()),
        };
    }
    match suffix.parse::<u32>() {
        Ok(bits) if bits <= 128 => Ok(Some(bits)),
        _ => Err(format!("SUFFIX is a number of bits from 0 to 128, not {suffix:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_region(name: &str, suffix_bits: Option<u32>, extension: Option<&str>) -> NewRegion {
        NewRegion { name: name.to_owned(), suffix_bits, extension: extension.map(|bits| Bits(bits.to_owned())) }
    }

    #[test]
    fn ok_totals_have_units() {
        assert_eq!([parse_total("0"), parse_total("1M")], [0, 1_000_000].map(Ok));
        assert!(parse_total("-1").is_err_and(|error| error.contains("from 0 to 2^64 - 1")));
        assert_eq!(parse_budget("region:default/orders=1k"), Ok(("region:default/orders".to_owned(), 1000)));
        for bad in ["uuidv7", "uuid*=1", "uuidv7=", "=5"] {
            assert!(parse_budget(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ok_new_regions() {
        for (text, expected) in [
            ("returns:38", new_region("returns", Some(38), None)),
            ("returns:38:01", new_region("returns", Some(38), Some("01"))),
            ("old::000", new_region("old", None, Some("000"))),
            ("r.1-a_B:0:1", new_region("r.1-a_B", Some(0), Some("1"))),
            ("returns:38:0x4/2", new_region("returns", Some(38), Some("01"))),
            ("returns:38:4000::/2", new_region("returns", Some(38), Some("01"))),
        ] {
            assert_eq!(text.parse::<NewRegion>(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn err_new_regions() {
        for (text, hint) in [
            ("", "NAME:SUFFIX"),
            ("returns", "NAME:SUFFIX"),
            (":38", "the name is empty"),
            ("a b:38", "' ' is not one of"),
            ("returns:", "all-zero"),
            ("returns::01", "all-zero"),
            ("returns:38:", "BITS is empty"),
            ("returns:38:012", "'2'"),
            ("returns:129", "from 0 to 128"),
            ("returns:-1", "from 0 to 128"),
            ("returns:38:0:1", "0x5/4"),
        ] {
            let error = text.parse::<NewRegion>().expect_err(text);
            assert!(error.contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn err_a_region_that_is_not_a_name_alone() {
        assert_eq!(parse_region("orders"), Ok("orders".to_owned()));
        for (text, hint) in [
            ("region:orders", "write orders;"),
            ("orders@parts", "write orders --space parts"),
            ("region:orders@default/emea", "write orders --space default/emea"),
            ("spaces/parts/regions/orders", "write orders --space parts"),
            ("emea/sub", "write sub --space emea, or --space default/emea if emea is a delegated region"),
            ("default/emea/sub", "write sub --space default/emea"),
            ("/", "'/' is not one of"),
            ("a b", "' ' is not one of a-z A-Z 0-9 - _ .: use 1 to 63 of"),
            ("@parts", "as in orders"),
        ] {
            let error = parse_region(text).expect_err(text);
            assert!(error.contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn ok_and_err_labels() {
        for (text, name, value) in [
            ("team=shop", "team", Some("shop")),
            ("team=", "team", None),
            ("team=a,b", "team", Some("a,b")),
            ("team=a,=b", "team", Some("a,=b")),
            ("a=b=c", "a", Some("b=c")),
            ("url=https://x/?a=b", "url", Some("https://x/?a=b")),
        ] {
            assert_eq!(parse_label(text), Ok((name.to_owned(), value.map(str::to_owned))), "{text}");
        }
        for (text, hint) in [
            ("team", "expected NAME=VALUE such as team=shop, or NAME= to remove"),
            ("", "expected NAME=VALUE"),
            ("team-", "to remove the label, write team="),
            ("team:x", "write team=x"),
            ("=x", "the name before `=` is missing"),
            ("a=1,b=2", "--label a=1 --label b=2"),
        ] {
            assert!(parse_label(text).is_err_and(|error| error.contains(hint)), "{text}: {:?}", parse_label(text));
        }
    }

    #[test]
    fn err_policies_say_what_was_wanted() {
        for text in ["80", "0:1", "101:1", "80:0", "80:1:0", "80:1:129", "-1:1", "80:1:2:3", "many:1", ""] {
            assert!(parse_auto_expand(text).is_err_and(|error| error.contains("such as 80:2:50")), "{text}");
        }
        for text in ["64", "0:64", "64:1", "1:", ":1", "-1:5", "1:18446744073709551616", ""] {
            assert!(parse_chunk(text).is_err_and(|error| error.contains("such as 1:64")), "{text}");
        }
        assert_eq!((parse_auto_expand("80:2"), parse_chunk("1_000:0x800")), (Ok((80, 2, 0)), Ok((1000, 2048))));
    }

    #[test]
    fn ok_counts() {
        for (text, expected) in [
            ("1", 1),
            ("1_000_000", 1_000_000),
            ("10k", 10_000),
            ("10K", 10_000),
            ("2M", 2_000_000),
            ("1_000G", 1_000_000_000_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_count(text).map(NonZeroU64::get), Ok(expected), "{text}");
        }
    }

    #[test]
    fn err_counts() {
        for text in
            ["0", "0k", "", "k", "-1", "-1k", "1e6", "1.5M", "1 k", "18446744073709551616", "18446744073710M", "_"]
        {
            let error = parse_count(text).expect_err(text);
            assert!(error.contains("10_000, 10k"), "{text}: {error}");
        }
    }

    #[test]
    fn ok_and_err_request_ids() {
        assert_eq!(parse_request_id("order 7"), Ok("order 7".to_owned()));
        assert!(parse_request_id("").is_err_and(|error| error.contains("1 to 64 bytes")));
        assert!(parse_request_id(&"x".repeat(65)).is_err_and(|error| error.contains("has 65 bytes")));
    }

    #[test]
    fn err_numbers_say_what_was_expected() {
        for text in ["", "x", "-1", "129", "1.5"] {
            assert!(parse_bits(text).is_err_and(|error| error.contains("from 0 to 128, such as 40")), "{text}");
        }
        assert!(parse_width("0").is_err_and(|error| error.contains("from 1 to 128, such as 2")));
        assert!(parse_positive("0").is_err_and(|error| error.contains("from 1 to 4_294_967_295")));
        assert!(parse_revision("0").is_err_and(|error| error.contains("kent region history")));
        assert_eq!((parse_bits("0"), parse_bits("128"), parse_width("0x10")), (Ok(0), Ok(128), Ok(16)));
        assert_eq!((parse_positive("1_000"), parse_revision("7")), (Ok(1000), Ok(7)));
        assert_eq!((parse_revision_or_0("0"), parse_revision_or_0("x").is_err()), (Ok(0), true));
    }

    #[test]
    fn ok_and_err_durations() {
        assert_eq!(parse_duration("1m 30s"), Ok(Duration::from_secs(90)));
        for text in ["", "0s", "30", "-1s", "soon"] {
            assert!(parse_duration(text).is_err_and(|error| error.contains("30s")), "{text}");
        }
    }
}
