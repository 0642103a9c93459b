//! Replays the test vectors of `tests/data`: JSON lines of the line protocol, each with the expected answer.
//!
//! The `out` of a vector lists only the keys to compare, also in nested objects. Its `error` is an error code.

use kent_codec::answer_line;
use serde_json::{Value, json};

#[test]
fn ok_uuid() {
    replay(include_str!("data/uuid.jsonl"));
}

#[test]
fn ok_uid11() {
    replay(include_str!("data/uid11.jsonl"));
}

#[test]
fn ok_permutation() {
    replay(include_str!("data/permutation.jsonl"));
}

#[test]
fn ok_position() {
    replay(include_str!("data/position.jsonl"));
}

#[test]
fn ok_ext() {
    replay(include_str!("data/ext.jsonl"));
}

/// Replays random requests with the answers of an independent implementation in another language.
#[test]
fn ok_independent() {
    replay(include_str!("data/independent.jsonl"));
}

#[test]
fn ok_regions() {
    replay(include_str!("data/regions.jsonl"));
}

#[track_caller]
fn replay(vectors: &str) {
    for line in vectors.lines() {
        check(line);
    }
}

#[track_caller]
fn check(line: &str) {
    let vector: Value = serde_json::from_str(line).expect("a vector is JSON");
    let question = json!({"verb": vector["verb"], "in": vector["in"]}).to_string();
    let answer: Value = serde_json::from_str(&answer_line(question.as_bytes())).expect("an answer is JSON");
    let (expected, actual) = match vector.get("error") {
        Some(error) => (json!({"ok": false, "error": error}), &answer),
        None => (json!({"ok": true, "out": vector["out"]}), &answer),
    };
    assert_contains(&expected, actual, line);
}

/// Checks that every expected key exists and has the expected value.
#[track_caller]
fn assert_contains(expected: &Value, actual: &Value, line: &str) {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            for (key, expected) in expected {
                let actual = actual.get(key).unwrap_or_else(|| panic!("{line}\nhas no {key:?}: {actual:?}"));
                assert_contains(expected, actual, line);
            }
        }
        (Value::Array(expected), Value::Array(actual)) => {
            assert_eq!(expected.len(), actual.len(), "{line}");
            expected.iter().zip(actual).for_each(|(expected, actual)| assert_contains(expected, actual, line));
        }
        _ => assert_eq!(expected, actual, "{line}"),
    }
}

/// Checks the error codes of a script's operations; `ok` means no error.
#[track_caller]
fn check_codes(ops: &str, expected: &[&str]) {
    let line = format!(r#"{{"verb":"table.run","in":{{"n":16,"ops":[{ops}]}}}}"#);
    let answer: serde_json::Value = serde_json::from_str(&kent_codec::answer_line(line.as_bytes())).expect("JSON");
    let results = answer["out"]["results"].as_array().expect("results");
    let codes: Vec<&str> = results.iter().map(|result| result["error"].as_str().unwrap_or("ok")).collect();
    assert_eq!(codes, expected);
}

#[test]
fn err_rules_are_checked_in_the_order_of_the_table() {
    let first = r#"{"op":"create","name":"a","prefix":"0","s":4}"#;
    let taken = r#"{"op":"create","name":"a","prefix":"2","s":4}"#;
    let malformed = r#"{"op":"create","name":"b","prefix":"2","s":4}"#;
    check_codes(&format!("{first},{taken},{malformed}"), &["ok", "name-taken", "bad-prefix"]);
    let unknown = r#"{"op":"subdivide","name":"x","k":1,"subs":[{"ext":"z","name":"y","s":1}]}"#;
    let extension = r#"{"op":"subdivide","name":"a","k":1,"subs":[{"ext":"z","name":"y","s":1}]}"#;
    check_codes(&format!("{first},{unknown},{extension}"), &["ok", "no-such-region", "bad-prefix"]);
}
