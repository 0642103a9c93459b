//! The last identifier of a region, for `GET`.

use kent_ids::Stride;
use kent_proto::{
    model::{Invalid, stride_from},
    v1::{Region, region::Order},
};

/// Returns the last identifier below the counter of a region; `None` if there is none.
///
/// # Errors
///
/// [`Invalid`] if the region does not issue its suffixes in order.
pub(crate) fn last(region: &Region) -> Result<Option<u128>, Invalid> {
    if matches!(region.order(), Order::Scrambled | Order::External) {
        let problem = "is a region that does not issue its identifiers in counted order";
        return Err(Invalid::new("key", problem).because("NOT_COUNTED"));
    }
    let broken = || Invalid::new("key", "is a region whose identifiers do not fit 128 bits");
    let number = |text: &str| text.parse::<u128>().map_err(|_| broken());
    let issued = number(&region.issued)?;
    let stride = match region.policy.as_ref().and_then(|policy| policy.stride) {
        Some(stride) => stride_from(stride).ok_or_else(broken)?,
        None => Stride::EVERY,
    };
    // The last number of the stride below the counter.
    let last = stride.index_from(issued).checked_sub(1).and_then(|index| stride.number(index));
    let Some(suffix) = last else { return Ok(None) };
    // A split gives a region another prefix, but does not change the identifiers that it has issued.
    let mut prefix = &region.prefix;
    for former in region.former_prefixes.iter().rev() {
        if suffix < number(&former.reserved).unwrap_or(u128::MAX) {
            prefix = &former.prefix;
        }
    }
    // An identifier is the prefix, the zeros of the expansion zone, and the suffix.
    let length = u32::try_from(region.prefix.len()).map_err(|_| broken())?;
    let bits = length.saturating_add(region.zone_bits).saturating_add(region.suffix_bits);
    let below = bits.saturating_sub(u32::try_from(prefix.len()).map_err(|_| broken())?);
    let base = match prefix.is_empty() {
        true => Some(0),
        false => u128::from_str_radix(prefix, 2).ok().and_then(|prefix| prefix.checked_shl(below)),
    };
    base.and_then(|base| base.checked_add(suffix)).map(Some).ok_or_else(broken)
}

#[cfg(test)]
mod tests {
    use kent_proto::v1::{self, FormerPrefix, Policy};

    use super::*;

    fn region(prefix: &str, zone_bits: u32, suffix_bits: u32, issued: &str) -> Region {
        let (prefix, issued) = (prefix.to_owned(), issued.to_owned());
        Region { prefix, zone_bits, suffix_bits, issued, ..Region::default() }
    }

    /// Returns a region that issues 2, 5, 8 and so on.
    fn strided(issued: &str) -> Region {
        let policy = Some(Policy { stride: Some(v1::Stride { step: 3, offset: 2 }), ..Policy::default() });
        Region { policy, ..region("", 0, 64, issued) }
    }

    #[test]
    fn ok_the_last_identifier() {
        for (region, expected) in [
            (region("", 0, 64, "0"), None),
            (region("", 0, 64, "1"), Some(0)),
            (region("101", 0, 5, "3"), Some(0b1010_0010)),
            (region("101", 2, 3, "3"), Some(0b1010_0010)),
            (region("1", 0, 127, "8"), Some((1 << 127) + 7)),
            (strided("2"), None),
            (strided("3"), Some(2)),
            (strided("5"), Some(2)),
            (strided("6"), Some(5)),
        ] {
            assert_eq!(last(&region).expect("counted"), expected, "{region:?}");
        }
    }

    #[test]
    fn ok_the_last_identifier_may_have_a_former_prefix() {
        let former = |prefix: &str, reserved: &str| FormerPrefix {
            prefix: prefix.to_owned(),
            reserved: reserved.to_owned(),
            ..FormerPrefix::default()
        };
        let former = vec![former("1", "2"), former("10", "4")];
        for (issued, expected) in [("1", 0b1000_0000), ("2", 0b1000_0001), ("3", 0b1000_0010), ("5", 0b1010_0100)] {
            let region = Region { former_prefixes: former.clone(), ..region("101", 0, 5, issued) };
            assert_eq!(last(&region).expect("counted"), Some(expected), "{issued}");
        }
    }

    #[test]
    fn err_regions_without_order() {
        for order in [Order::Scrambled, Order::External] {
            let region = Region { order: order.into(), ..region("1", 0, 7, "3") };
            assert_eq!(last(&region).expect_err("refused").reason, "NOT_COUNTED");
        }
    }
}
