//! Arguments that would have no effect are refused with a message that names the allowed values, or cause a warning.

use serde_json::json;

use super::operator::Operator;

#[test]
fn err_arguments_without_an_effect_are_refused_with_what_is_allowed() {
    let operator = Operator::new();
    operator.kent("space create parts --bits 32");
    for words in [
        "create r --prefix 00 --suffix 8",
        "create e --prefix 01 --suffix 8 --order external",
        "create d --prefix 10 --suffix 20",
        "delegate d",
    ] {
        operator.kent(&format!("region {words} --space parts"));
    }
    for (words, code, expected) in [
        (
            "region set r --auto-expand 80:2:50",
            1,
            "at most 30 bits, not 50 (kent region set r --space parts --auto-expand 80:2:30)",
        ),
        (
            "region set r --cap 0",
            1,
            "at least 1; to stop all grants, seal region \"r\" (kent region seal r --space parts)",
        ),
        ("region set e --strict", 1, "an external region cannot have a policy"),
        (
            "region set d --cap 9",
            1,
            "a policy has no effect; the regions of its space have their own (kent region ls --space parts/d)",
        ),
        ("region seal r --request-id=", 2, "give a string of 1 to 64 bytes"),
        ("region ls --filter order=random", 2, "a region is sequential, scrambled, external"),
        ("region ls --filter fill>101", 2, "0 to 100 percent"),
        ("region ls -l team=", 2, "such as team=checkout"),
    ] {
        let (exit, stdout, stderr) = operator.run(&format!("{words} --space parts"));
        assert_eq!((exit, stdout.as_str()), (code, ""), "{words}: {stderr}");
        assert!(stderr.contains(expected), "{words}: {stderr}");
    }
    let (exit, _, stderr) = operator.run("space free parts --at-least 99");
    assert!(exit == 2 && stderr.contains("at most 32, not 99 (kent space free parts --at-least 32)"), "{stderr}");
    assert_eq!(operator.json("region show r --space parts")["policy"], json!(null));
    // The suggested commands work.
    operator.kent("region set r --space parts --auto-expand 80:2:30");
    operator.kent("region seal r --space parts");
    operator.kent("region ls --space parts/d");
    operator.kent("space free parts --at-least 32");
}

#[test]
fn ok_a_policy_without_an_effect_now_is_set_with_a_warning() {
    let operator = Operator::new();
    operator.kent("region create r --suffix 8 --zone 4");
    operator.kent("alloc region:r -n 5");
    for (words, warning) in [
        ("region set r --cap 6", None),
        ("region set r --cap 5", Some("r has issued 5 already, so with a cap of 5 it issues nothing more")),
        ("region set r --cap 3", Some("kent region set r --space default --no-cap")),
        ("region set r --cap 4095", None),
        ("region set r --cap 4096", Some("never has more than 2^12 identifiers, so a cap of 4_096 limits nothing")),
        ("region set r --auto-expand 80:2:12", None),
        ("region set r --auto-expand 80:2:8", Some("kent region set r --space default --auto-expand 80:2:12")),
        ("region set r --auto-expand 80:2", None),
        ("region set r --auto-expand 80:2:20", Some("kent region set r --space default --auto-expand 80:2:12")),
    ] {
        let (code, _, stderr) = operator.run(words);
        assert_eq!((code, stderr.is_empty()), (0, warning.is_none()), "{words}: {stderr}");
        assert!(stderr.contains(warning.unwrap_or_default()), "{words}: {stderr}");
    }
    operator.kent("region create full --suffix 8 --zone 0");
    let (code, _, stderr) = operator.run("region set full --auto-expand 80:2");
    assert!(code == 0 && stderr.contains("has no expansion zone, so it never expands"), "{stderr}");
}
