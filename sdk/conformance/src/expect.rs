//! Compares the answers of a client with the expectations of the script.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{
    ledger::ascend,
    script::{Call, ErrorExpect, Expect},
};

/// The answer to a command, as the protocol defines it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Answered {
    /// The number of the command.
    pub id: u64,
    /// The identifiers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<String>>,
    /// The error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<Problem>>,
}

/// An error of a client, as the protocol defines it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Problem {
    /// The kind of error: `refused`, `limited` and so on.
    pub kind: String,
    /// The gRPC code of the daemon's status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The daemon's machine-readable reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The metadata of the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// The fields of the request that are wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<String>>,
    /// The daemon's delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<f64>,
    /// The human-readable message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// An answer, and what the kit knows about it.
pub(crate) struct Observed<'a> {
    pub(crate) answered: &'a Answered,
    /// The labels of each identifier.
    pub(crate) labels: &'a [BTreeSet<String>],
    /// The time between the command and its answer.
    pub(crate) took: Duration,
    /// The identifiers of the command that `same_as` names.
    pub(crate) same_as: Option<Vec<String>>,
}

impl Observed<'_> {
    fn ids(&self) -> &[String] {
        self.answered.ids.as_deref().unwrap_or_default()
    }

    /// Compares the answer to a command with the expectation.
    ///
    /// # Errors
    ///
    /// Returns the first difference.
    pub(crate) fn check(&self, call: &Call, expect: &Expect) -> Result<(), String> {
        match (self.check_one(call, expect), &expect.or) {
            (Ok(()), _) => Ok(()),
            (Err(first), Some(or)) => self.check(call, or).map_err(|second| format!("{first}; or {second}")),
            (Err(problem), None) => Err(problem),
        }
    }

    fn check_one(&self, call: &Call, expect: &Expect) -> Result<(), String> {
        self.check_time(expect)?;
        match (&expect.error, &self.answered.error) {
            (None, Some(problem)) => {
                let message = problem.message.as_deref().unwrap_or_default();
                return Err(format!("it failed with {:?}: {message}", problem.kind));
            }
            (Some(error), None) => return Err(format!("it succeeded, but must fail with {}", error.kind.join(" or "))),
            (Some(error), Some(problem)) => check_error(error, problem)?,
            (None, None) => {}
        }
        self.check_count(call, expect)?;
        if let Some(equals) = &expect.equals
            && equals.as_slice() != self.ids()
        {
            return Err(format!("the identifiers are {}, but must be {}", shown(self.ids()), shown(equals)));
        }
        if let Some(from) = &expect.from {
            let stray = |labels: &BTreeSet<String>| !labels.iter().any(|label| from.contains(label));
            if let Some(at) = self.labels.iter().position(stray) {
                let labels: Vec<&str> = self.labels[at].iter().map(String::as_str).collect();
                let (id, from) = (&self.ids()[at], from.join(" or "));
                return Err(format!(
                    "{id} (number {} of the answer) is from {}, but must be from {from}",
                    at + 1,
                    labels.join(" and ")
                ));
            }
        }
        if let Some(before) = &self.same_as
            && before.as_slice() != self.ids()
        {
            return Err(format!("the identifiers are {}, but were {} before", shown(self.ids()), shown(before)));
        }
        match expect.ascend && !ascend(call.source.as_deref().unwrap_or_default(), self.ids()) {
            true => Err("the identifiers do not ascend".to_owned()),
            false => Ok(()),
        }
    }

    fn check_time(&self, expect: &Expect) -> Result<(), String> {
        let took = self.took.as_millis();
        if expect.within_ms.is_some_and(|most| took > u128::from(most)) {
            return Err(format!("it took {took} ms, which is too long"));
        }
        match expect.after_ms.is_some_and(|least| took < u128::from(least)) {
            true => Err(format!("it took {took} ms, which is too short")),
            false => Ok(()),
        }
    }

    fn check_count(&self, call: &Call, expect: &Expect) -> Result<(), String> {
        let got = self.ids().len();
        let asked = call.count.unwrap_or(1) * call.threads.unwrap_or(1);
        let asked = usize::try_from(asked).unwrap_or(usize::MAX);
        let (least, most) = match (expect.between, call.r#do.as_str()) {
            (Some(between), _) => between,
            (None, "close") => (0, 0),
            (None, "try_next") => (0, 1),
            (None, _) if expect.error.is_some() => (0, asked),
            (None, _) => (asked, asked),
        };
        match (least..=most).contains(&got) {
            true => Ok(()),
            false => Err(format!("it returned {got} identifiers, but must return {least} to {most}")),
        }
    }
}

fn check_error(expect: &ErrorExpect, problem: &Problem) -> Result<(), String> {
    let differs = |what: &str, is: String, must: String| Err(format!("the error's {what} is {is}, but must be {must}"));
    if !expect.kind.is_empty() && !expect.kind.contains(&problem.kind) {
        let message = problem.message.as_deref().unwrap_or_default();
        return Err(format!("the error is {:?}, but must be {}: {message}", problem.kind, expect.kind.join(" or ")));
    }
    for (what, must, is) in [("code", &expect.code, &problem.code), ("reason", &expect.reason, &problem.reason)] {
        if must.is_some() && must != is {
            return differs(what, format!("{is:?}"), format!("{must:?}"));
        }
    }
    for (fact, must) in &expect.metadata {
        let is = problem.metadata.as_ref().and_then(|metadata| metadata.get(fact));
        if is != Some(must) {
            return differs(&format!("metadata {fact:?}"), format!("{is:?}"), format!("{must:?}"));
        }
    }
    if let Some(must) = &expect.fields
        && problem.fields.as_deref().unwrap_or_default() != must.as_slice()
    {
        return differs("fields", format!("{:?}", problem.fields), format!("{must:?}"));
    }
    // A client may store the delay in seconds as a floating-point number, so allow a small difference.
    if let Some(must) = expect.retry_after_ms
        && problem.retry_after_ms.is_none_or(|is| (is - must as f64).abs() > 1.0)
    {
        return differs("retry_after_ms", format!("{:?}", problem.retry_after_ms), must.to_string());
    }
    match &expect.message {
        Some(part) if !problem.message.as_deref().unwrap_or_default().contains(part) => {
            differs("message", format!("{:?}", problem.message), format!("one with {part:?}"))
        }
        _ => Ok(()),
    }
}

/// Shows the first identifiers.
fn shown(ids: &[String]) -> String {
    const SHOWN: usize = 5;
    let first = ids.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if ids.len() > SHOWN { format!("{first} and {} more", ids.len() - SHOWN) } else { format!("[{first}]") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answer: &str, took_ms: u64, call: &str, expect: &str) -> Result<(), String> {
        let answered: Answered = serde_json::from_str(answer).expect("an answer");
        let call: Call = serde_json::from_str(call).expect("a call");
        let expect: Expect = serde_json::from_str(expect).expect("an expectation");
        let labels = vec![BTreeSet::from(["a".to_owned()]); answered.ids.as_ref().map_or(0, Vec::len)];
        let took = Duration::from_millis(took_ms);
        let same_as = expect.same_as.is_some().then(|| vec!["1".to_owned(), "2".to_owned()]);
        Observed { answered: &answered, labels: &labels, took, same_as }.check(&call, &expect)
    }

    #[test]
    fn ok_answers_that_fit() {
        let two = r#"{"id": 1, "ids": ["1", "2"]}"#;
        let call = r#"{"do": "next", "source": "region:r", "count": 2}"#;
        for expect in [
            "{}",
            r#"{"equals": ["1", "2"], "from": ["a", "b"], "ascend": true, "same_as": "x"}"#,
            r#"{"between": [0, 2], "within_ms": 50, "after_ms": 50}"#,
            r#"{"error": {"kind": ["closed"]}, "or": {"from": ["a"]}}"#,
        ] {
            check(two, 50, call, expect).expect(expect);
        }
        let refused = r#"{"id": 1, "ids": ["1"], "error": {"kind": "refused", "code": "NOT_FOUND", "reason": "X",
            "metadata": {"a": "b", "c": "d"}, "fields": ["source"], "retry_after_ms": 299.9999, "message": "no such thing"}}"#;
        let error = r#"{"error": {"kind": ["closed", "refused"], "code": "NOT_FOUND", "reason": "X", "metadata": {"a": "b"},
            "fields": ["source"], "retry_after_ms": 300, "message": "such"}}"#;
        check(refused, 0, call, error).expect("the error fits");
        check(r#"{"id": 1}"#, 0, r#"{"do": "close"}"#, "{}").expect("closed");
        check(r#"{"id": 1, "ids": []}"#, 0, r#"{"do": "try_next"}"#, "{}").expect("nothing in hand");
    }

    #[test]
    fn err_each_difference_is_told() {
        let two = r#"{"id": 1, "ids": ["2", "1"]}"#;
        let call = r#"{"do": "next", "source": "region:r", "count": 2}"#;
        for (expect, told) in [
            (r#"{"equals": ["1", "2"]}"#, "the identifiers are [2, 1], but must be [1, 2]"),
            (r#"{"from": ["b", "c"]}"#, "2 (number 1 of the answer) is from a, but must be from b or c"),
            (r#"{"ascend": true}"#, "do not ascend"),
            (r#"{"same_as": "x"}"#, "but were [1, 2] before"),
            (r#"{"between": [3, 4]}"#, "it returned 2 identifiers, but must return 3 to 4"),
            (r#"{"within_ms": 9}"#, "too long"),
            (r#"{"after_ms": 11}"#, "too short"),
            (r#"{"error": {"kind": ["closed"]}}"#, "it succeeded, but must fail with closed"),
            (r#"{"after_ms": 11, "or": {"within_ms": 9}}"#, "too short; or it took 10 ms, which is too long"),
        ] {
            let problem = check(two, 10, call, expect).expect_err(expect);
            assert!(problem.contains(told), "{problem}");
        }
        let refused = r#"{"id": 1, "error": {"kind": "refused", "code": "NOT_FOUND", "message": "gone"}}"#;
        for (expect, told) in [
            ("{}", r#"it failed with "refused": gone"#),
            (r#"{"error": {"kind": ["closed"]}}"#, r#"the error is "refused", but must be closed: gone"#),
            (r#"{"error": {"code": "INTERNAL"}}"#, "the error's code is"),
            (r#"{"error": {"reason": "X"}}"#, "the error's reason is None"),
            (r#"{"error": {"metadata": {"a": "b"}}}"#, r#"the error's metadata "a" is None"#),
            (r#"{"error": {"fields": ["count"]}}"#, "the error's fields is None"),
            (r#"{"error": {"retry_after_ms": 1}}"#, "the error's retry_after_ms is None"),
            (r#"{"error": {"message": "lost"}}"#, "the error's message is"),
        ] {
            let problem = check(refused, 10, call, expect).expect_err(expect);
            assert!(problem.contains(told), "{problem}");
        }
    }
}
