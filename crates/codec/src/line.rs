//! The line protocol: each input line is answered by one output line.

use kent_ids::ErrorCode;
use serde_json::{Map, Value};

use crate::{error::VerbError, input::Input, verbs};

/// Answers one line of the line protocol: `{"verb": V, "in": {...}}`, without its line feed.
///
/// The answer has no line feed either. It is `{"ok":true,"out":{...}}` or `{"ok":false,"error":CODE,"message":TEXT}`;
/// the code is `bad-json` for a line that is not a JSON object, and `bad-verb` for an unknown verb.
pub fn answer_line(line: &[u8]) -> String {
    let mut answer = Vec::new();
    answer_into(line, &mut answer);
    String::from_utf8(answer).unwrap_or_default() // OK because JSON is UTF-8
}

/// Like [`answer_line`], but appends the answer to `answer`.
pub fn answer_into(line: &[u8], answer: &mut Vec<u8>) {
    match question(line).and_then(|question| ask(&question)) {
        Ok(out) => {
            answer.extend_from_slice(br#"{"ok":true,"out":"#);
            // OK because writing a value to memory cannot fail.
            let _ = serde_json::to_writer(&mut *answer, &out);
            answer.push(b'}');
        }
        Err(error) => answer.extend_from_slice(refusal(&error).as_bytes()),
    }
}

/// Answers one verb, such as `uuid.parse`, given its inputs as an object (the `in` of a line). Ignores inputs with
/// unknown names.
///
/// # Errors
///
/// Fails with `bad-verb` for an unknown verb, otherwise with `bad-input` if the input is not an object, and otherwise
/// with the errors of the verb.
pub fn answer(verb: &str, input: &Value) -> Result<Value, VerbError> {
    let Some(answer) = verbs::by_name(verb) else {
        let known: Vec<_> = verbs::names().collect();
        let message = format!("there is no verb {verb:?}: use one of {}", known.join(", "));
        return Err(VerbError::new(ErrorCode::BadVerb.as_str(), message));
    };
    let Some(input) = input.as_object() else {
        return Err(VerbError::new(ErrorCode::BadInput.as_str(), r#""in" must be an object"#));
    };
    answer(&Input::new(input))
}

/// The byte order mark of UTF-8, with which some editors begin a file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

fn question(line: &[u8]) -> Result<Map<String, Value>, VerbError> {
    let bad_json = |message: &str| VerbError::new(ErrorCode::BadJson.as_str(), message);
    match serde_json::from_slice(line) {
        Ok(Value::Object(question)) => Ok(question),
        Ok(_) => Err(bad_json(r#"the line is not a JSON object: write {"verb": "uuid.parse", "in": {...}}"#)),
        Err(_) if line.starts_with(BYTE_ORDER_MARK) => {
            Err(bad_json("the line begins with a byte order mark: save the file as UTF-8 without it"))
        }
        Err(error) => {
            // The parser sees a single line, so its line number is always 1.
            let problem = error.to_string().replace(" at line 1 column ", " at column ");
            Err(bad_json(&format!(
                r#"the line is not JSON: {problem}; write one object per line, such as {{"verb": "uuid.parse", "in": {{...}}}}"#
            )))
        }
    }
}

fn ask(question: &Map<String, Value>) -> Result<Value, VerbError> {
    let verb = question.get("verb").and_then(Value::as_str).ok_or_else(|| {
        let message = r#"the verb is missing: write {"verb": "uuid.parse", "in": {...}}"#;
        VerbError::new(ErrorCode::BadVerb.as_str(), message)
    })?;
    // A missing input is treated like an input that is not an object, so an unknown verb is reported first.
    answer(verb, question.get("in").unwrap_or(&Value::Null))
}

fn refusal(error: &VerbError) -> String {
    let message = Value::from(error.message.as_str());
    format!(r#"{{"ok":false,"error":"{}","message":{message}}}"#, error.code)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(line: &[u8], begins: &str) {
        let answer = answer_line(line);
        assert!(answer.starts_with(begins), "{answer}");
        assert!(!answer.contains('\n'), "{answer:?}");
        assert!(serde_json::from_str::<Value>(&answer).is_ok_and(|answer| answer.is_object()), "{answer}");
    }

    #[test]
    fn ok_a_question_is_answered_in_one_line() {
        check(br#"{"verb":"uid11.encode","in":{"value":0,"other":[]}}"#, r#"{"ok":true,"out":{"#);
        check(b" {\"in\":{\"value\":\"0\"},\"verb\":\"uid11.encode\",\"id\":1}\r", r#"{"ok":true,"out":{"#);
    }

    #[test]
    fn ok_integers_keep_every_digit() {
        let question = |index: &str| {
            let key = "000102030405060708090a0b0c0d0e0f";
            format!(
                r#"{{"verb":"permute","in":{{"key":"{key}","label":"octaves1","param":"100","bits":100,"index":{index}}}}}"#
            )
        };
        let expected = r#"{"ok":true,"out":{"value":"558263858536359613561430899112"}}"#;
        check(question(r#""1267650600228229401496703205375""#).as_bytes(), expected);
        check(question("1267650600228229401496703205375").as_bytes(), expected);
        check(question("1267650600228229401496703205376").as_bytes(), r#"{"ok":false,"error":"range""#);
        check(question("1.0").as_bytes(), r#"{"ok":false,"error":"bad-input""#);
    }

    #[test]
    fn err_lines_that_are_not_questions() {
        let error = |code| format!(r#"{{"ok":false,"error":"{code}","message":""#);
        for line in [&b""[..], b"7", b"[]", b"null", b"{", b"{}{}", b"\xff", b"{\"verb\":\"\xff\"}", &[b'['; 10_000]] {
            check(line, &error("bad-json"));
        }
        for line in [&b"{}"[..], br#"{"verb":7,"in":{}}"#, br#"{"verb":"uuid.pars\n","in":7}"#, br#"{"verb":null}"#] {
            check(line, &error("bad-verb"));
        }
        for line in [&br#"{"verb":"uuid.parse"}"#[..], br#"{"verb":"uuid.parse","in":[]}"#] {
            check(line, &error("bad-input"));
        }
    }

    /// Generates values that are valid for some input of some verb, and values that are never valid.
    fn values() -> impl Strategy<Value = Value> {
        let known = [
            json!("019aa2be-bb3b-7000-8050-c00000000009"),
            json!("1ec9414c-232a-6b00-b3c8-9f6bdeced846"),
            json!("5Jxqwr73FDS"),
            json!("000102030405060708090a0b0c0d0e0f"),
            json!("a1b2c3d4e5f6"),
            json!("octaves1"),
            json!("xid"),
            json!("uuidv1"),
            json!("uuidv6"),
            json!("uuidv7"),
            json!({"ts": 1, "rand": u64::MAX}),
            json!(null),
            json!(true),
            json!([]),
            json!(1.5),
        ];
        prop_oneof![
            prop::sample::select(Vec::from(known)).boxed(),
            any::<String>().prop_map(Value::from).boxed(),
            (any::<i128>(), 0..128u32).prop_map(|(number, shift)| json!((number >> shift).to_string())).boxed(),
            (0..200u32).prop_map(Value::from).boxed(),
        ]
    }

    const NAMES: [&str; 28] = [
        "text",
        "lenient",
        "uuid",
        "assume",
        "a",
        "b",
        "le",
        "format",
        "ticks",
        "clock_seq",
        "node",
        "unix_ms",
        "rand_a",
        "rand_b",
        "to",
        "value",
        "prefix",
        "profile",
        "fields",
        "key",
        "label",
        "param",
        "bits",
        "index",
        "position",
        "slot",
        "tail",
        "unix_ns",
    ];

    proptest! {
        #[test]
        fn ok_every_line_is_answered(bytes: Vec<u8>, text: String) {
            check(&bytes, r#"{"ok":false,"error":"bad-"#);
            check(text.as_bytes(), r#"{"ok":false,"error":"bad-"#);
        }

        #[test]
        fn ok_every_input_is_answered(
            verb in prop::sample::select(verbs::names().collect::<Vec<_>>()),
            inputs in prop::collection::hash_map(prop::sample::select(&NAMES[..]), values(), 0..28),
        ) {
            check(json!({"verb": verb, "in": inputs}).to_string().as_bytes(), r#"{"ok":"#);
        }
    }
}
