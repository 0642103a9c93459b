//! Parses the limits of tokens and roles from arguments, and shows them as text or JSON.

use kent_access::{LimitKind, Limits};
use kent_proto::model::parse_limits;
use kent_proto::v1::CallerLimits;
use serde_json::{Value, json};

use crate::failure::Failure;

/// Returns the limits that `--limit` sets, or `None` if there are none.
pub(super) fn given(texts: &[String]) -> Result<Option<CallerLimits>, Failure> {
    let limits = texts.iter().try_fold(Limits::default(), |limits, text| limits.and(text));
    let limits = limits.map_err(|bad| Failure::Usage(format!("--limit: {bad}")))?;
    Ok((!limits.is_empty()).then(|| limits.into()))
}

/// Returns the limits in a message, or no limits if one of them is invalid.
fn of(message: Option<CallerLimits>) -> Limits {
    parse_limits("limits", message).unwrap_or_default()
}

/// Formats limits, as in `ids=10_000/s, streams=10`. Returns an empty string if no limit is set.
pub(super) fn text(message: Option<CallerLimits>) -> String {
    of(message).to_string()
}

/// Returns a JSON object with the limits that are set.
pub(super) fn to_json(message: Option<CallerLimits>) -> Value {
    let limits = of(message);
    let fields = LimitKind::ALL.into_iter().filter_map(|kind| {
        let name = format!("{}{}", kind.name(), if kind.is_rate() { "_per_second" } else { "" });
        Some((name, json!(limits.get(kind)?)))
    });
    fields.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_limits_from_arguments_for_people_and_programs() {
        let texts = ["ids=10k/s", "streams=10"].map(str::to_owned);
        let limits = given(&texts).expect("limits");
        assert_eq!(text(limits), "ids=10_000/s, streams=10");
        assert_eq!(to_json(limits), json!({"ids_per_second": 10_000, "streams": 10}));
        assert_eq!((given(&[]).expect("none"), text(None), to_json(None)), (None, String::new(), json!({})));
    }

    #[test]
    fn err_a_limit_that_is_given_twice() {
        let twice = given(&["ids=1/s", "ids=2/s"].map(str::to_owned));
        assert!(matches!(twice, Err(Failure::Usage(text)) if text.contains("ids is limited twice")));
    }
}
