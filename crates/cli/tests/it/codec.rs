//! `kent codec`: the line protocol.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::run::{command, json_lines};

fn codec() -> Child {
    command().arg("codec").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("kent starts")
}

/// Returns the answers to a whole input.
fn converse(input: &[u8]) -> Vec<Value> {
    let mut child = codec();
    child.stdin.take().expect("piped").write_all(input).expect("kent reads");
    let output = child.wait_with_output().expect("kent exits");
    assert_eq!(output.status.code(), Some(0));
    json_lines(&String::from_utf8(output.stdout).expect("answers are UTF-8"))
}

const NIL: &str = r#"{"verb":"uuid.inspect","in":{"uuid":"00000000-0000-0000-0000-000000000000"}}"#;
const MAX: &str = r#"{"verb":"uuid.inspect","in":{"uuid":"ffffffff-ffff-ffff-ffff-ffffffffffff"}}"#;

#[test]
fn ok_answers_come_in_order_and_bad_lines_do_not_end_the_run() {
    let lines = [NIL, "no json", "[1]", "", r#"{"verb":"no.such.verb","in":{}}"#, MAX];
    let answers = converse(lines.join("\n").as_bytes());
    assert_eq!(answers.len(), lines.len());
    assert_eq!((&answers[0]["ok"], &answers[0]["out"]["special"]), (&json!(true), &json!("nil")));
    for answer in &answers[1..4] {
        assert_eq!((&answer["ok"], &answer["error"]), (&json!(false), &json!("bad-json")));
        assert!(answer["message"].is_string());
    }
    assert_eq!((&answers[4]["ok"], &answers[4]["error"]), (&json!(false), &json!("bad-verb")));
    assert_eq!((&answers[5]["ok"], &answers[5]["out"]["special"]), (&json!(true), &json!("max")));
}

#[test]
fn err_invalid_utf8_is_answered() {
    let answers = converse(b"\xff\xfe\n{}\n");
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[0]["error"], json!("bad-json"));
}

#[test]
fn err_lines_of_other_forms_are_explained() {
    let answers = converse(format!("\u{feff}{NIL}\n{NIL}\r\n[1]\n{{}}\0\n").as_bytes());
    assert_eq!(answers[1]["ok"], json!(true), "{answers:?}");
    for (answer, problem) in [
        (&answers[0], "begins with a byte order mark"),
        (&answers[2], "not a JSON object: write {\"verb\""),
        (&answers[3], "at column 3; write one object per line"),
    ] {
        assert!(answer["message"].as_str().is_some_and(|message| message.contains(problem)), "{answer}");
    }
}

#[test]
fn ok_empty_input_has_no_answers() {
    assert_eq!(converse(b""), Vec::<Value>::new());
}

#[test]
fn ok_an_answer_comes_before_the_next_request() {
    let mut child = codec();
    let mut requests = child.stdin.take().expect("piped");
    let mut answers = BufReader::new(child.stdout.take().expect("piped"));
    for _ in 0..3 {
        writeln!(requests, "{NIL}").expect("kent reads");
        let mut answer = String::new();
        answers.read_line(&mut answer).expect("kent answers");
        assert_eq!(json_lines(&answer)[0]["ok"], json!(true));
    }
    drop(requests);
    assert!(child.wait().expect("kent exits").success());
}

#[test]
fn ok_many_lines() {
    let lines = 100_000;
    let mut child = codec();
    let mut requests = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || {
        let chunk = format!("{NIL}\n").repeat(1000);
        for _ in 0..lines / 1000 {
            requests.write_all(chunk.as_bytes()).expect("kent reads");
        }
    });
    let answers = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert_eq!(answers.map_while(Result::ok).count(), lines);
    writer.join().expect("all is written");
    assert!(child.wait().expect("kent exits").success());
}
