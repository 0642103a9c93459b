//! `kent inspect`, as text and as JSON.

use serde_json::json;

use crate::run::{json_lines, kent, kent_with};

const V7: &str = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";
const XID: &str = "5Jxqwr73FDS";

#[test]
fn ok_the_text_shows_time_fields_and_bits() {
    let run = kent(&format!("inspect {V7}"));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for part in [V7, "uuidv7", "2022-02-22T19:22:22.000Z", "1645557742000", "unix_ms", "┌", "0 1 1 1", "└"] {
        assert!(run.stdout.contains(part), "{part} is not in\n{}", run.stdout);
    }
    assert!(!run.stdout.contains('\u{1b}'), "no colors in a pipe");
}

#[test]
fn ok_json_is_one_object_per_line_in_order() {
    let run = kent(&format!("inspect {V7} {XID} --json"));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let lines = json_lines(&run.stdout);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["text"], json!(V7));
    assert_eq!(lines[0]["format"], json!("uuidv7"));
    assert_eq!(lines[0]["time"], json!("2022-02-22T19:22:22.000Z"));
    assert_eq!(lines[1]["text"], json!(XID));
    assert_eq!(lines[1]["format"], json!("xid"));
    for line in lines {
        let bits: String =
            line["layout"].as_array().expect("a layout").iter().filter_map(|run| run["bits"].as_str()).collect();
        let value = u128::from_str_radix(&bits, 2).expect("the layout covers all bits");
        let hex = line["hex"].as_str().expect("a value in hexadecimal");
        assert_eq!(u128::from_str_radix(hex.trim_start_matches("0x"), 16), Ok(value), "{line}");
    }
}

#[test]
fn ok_identifiers_are_read_from_standard_input() {
    let lines: String = (0..2500).map(|_| format!("{V7}\n\n  {XID} \n")).collect();
    let run = kent_with("inspect - --json", &lines);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let formats: Vec<_> = json_lines(&run.stdout).iter().map(|line| line["format"].clone()).collect();
    assert_eq!(formats.len(), 5000);
    assert!(formats.chunks(2).all(|pair| pair == [json!("uuidv7"), json!("xid")]));
    let run = kent_with("inspect -", &format!("{V7}\n\nnonsense\n"));
    assert_eq!(run.code, Some(2), "{}", run.stdout);
    assert!(run.stderr.starts_with("error: standard input, line 3: \"nonsense\" is not"), "{}", run.stderr);
    assert!(run.stdout.contains(V7), "{}", run.stdout);
    let run = kent_with("inspect - --json", "\nnonsense\n");
    assert_eq!(json_lines(&run.stderr)[0]["error"]["details"]["line"], json!("2"), "{}", run.stderr);
}

#[test]
fn err_an_invalid_identifier_is_reported_and_the_others_are_shown() {
    let run = kent(&format!("inspect {V7} nonsense {XID}"));
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("nonsense"), "{}", run.stderr);
    assert!(run.stdout.contains(V7) && run.stdout.contains(XID), "{}", run.stdout);
}

#[test]
fn err_a_mangled_uuid_is_explained() {
    for (text, problem) in [
        (
            "01a1fb46-21bf-7000-8000-3cf49345d9a",
            "it has 31 hexadecimal digits, 1 too few: group 5 has 11 instead of 12",
        ),
        ("01a1fb46-21bf-7000-8000-3cf49345d9a8a", "1 too many"),
        ("0la1fb46-21bf-7000-8000-3cf49345d9a8", "'l', its character 2, is not a hexadecimal digit; is it a 1?"),
        ("01a1fb46-21bf-7000-8000-3cf49345d9a8,", "write 01a1fb46-21bf-7000-8000-3cf49345d9a8"),
    ] {
        for command in ["inspect", "classify"] {
            let run = kent(&format!("{command} {text}"));
            assert_eq!(run.code, Some(2), "{command} {text}: {}", run.stderr);
            assert!(run.stderr.contains(problem), "{command} {text}: {}", run.stderr);
        }
    }
    let run = kent("classify 01a1fb4621bf700080003cf49345d9a8");
    assert!(
        run.stderr.contains("write a UUID with its hyphens, 01a1fb46-21bf-7000-8000-3cf49345d9a8"),
        "{}",
        run.stderr
    );
}
