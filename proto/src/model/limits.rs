//! Limits of callers in messages.

use core::num::NonZeroU64;

use kent_access::{LIMIT_MAX, LimitKind, Limits};
use kent_ids::grouped;

use super::Invalid;
use crate::v1;

/// The reason in the `ErrorInfo` when a call exceeds a limit of its caller. The metadata names the limit, its value and
/// the principal.
pub const LIMIT: &str = "LIMIT";

/// Reads the limits in a field.
///
/// # Errors
///
/// Returns [`Invalid`] if a limit is too large.
pub fn parse_limits(field: &'static str, limits: Option<v1::CallerLimits>) -> Result<Limits, Invalid> {
    let Some(limits) = limits else { return Ok(Limits::default()) };
    let fields = [
        (LimitKind::Ids, "ids_per_second", limits.ids_per_second),
        (LimitKind::Calls, "calls_per_second", limits.calls_per_second),
        (LimitKind::Streams, "streams", limits.streams),
        (LimitKind::Connections, "connections", limits.connections),
    ];
    fields.into_iter().try_fold(Limits::default(), |limits, (kind, name, limit)| match limit <= LIMIT_MAX {
        true => Ok(limits.with(kind, NonZeroU64::new(limit))),
        false => {
            let (limit, max) = (grouped(limit), grouped(LIMIT_MAX));
            Err(Invalid::new(field, format!("has {name} = {limit}, but the largest limit is {max}; 0 means no limit")))
        }
    })
}

/// Converts limits to their protobuf message.
impl From<Limits> for v1::CallerLimits {
    fn from(limits: Limits) -> Self {
        let limit = |kind| limits.get(kind).map_or(0, NonZeroU64::get);
        Self {
            ids_per_second: limit(LimitKind::Ids),
            calls_per_second: limit(LimitKind::Calls),
            streams: limit(LimitKind::Streams),
            connections: limit(LimitKind::Connections),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_limits_round_trip() {
        for text in ["", "ids=10k/s, streams=10", "ids=1/s, calls=2/s, streams=3, connections=1000G"] {
            let limits: Limits = text.parse().expect("limits");
            assert_eq!(parse_limits("limits", Some(limits.into())), Ok(limits));
        }
        assert_eq!(parse_limits("limits", None), Ok(Limits::default()));
    }

    #[test]
    fn err_a_limit_that_is_too_large_is_named() {
        let limits = v1::CallerLimits { streams: LIMIT_MAX + 1, ..v1::CallerLimits::default() };
        let invalid = parse_limits("limits", Some(limits)).expect_err("too large");
        assert!(
            invalid.to_string().starts_with("limits: has streams = 1_000_000_000_001, but the largest"),
            "{invalid}"
        );
    }
}
