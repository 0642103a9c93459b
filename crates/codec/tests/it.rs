//! Replays the known answers of `tests/data`: JSON lines of the line protocol, each with what must come out.
//!
//! `out` lists the keys that matter, of objects inside objects too; `error` is a code.

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

/// Every key that is expected is there, with the value that is expected.
#[track_caller]
fn assert_contains(expected: &Value, actual: &Value, line: &str) {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            for (key, expected) in expected {
                let actual = actual.get(key).unwrap_or_else(|| panic!("{line}\nhas no {key:?}: {actual:?}"));
                assert_contains(expected, actual, line);
            }
        }
        _ => assert_eq!(expected, actual, "{line}"),
    }
}
