//! Commands that refusals suggest do what they say when they are pasted, in a space that is not the default one.

use regex::Regex;

use super::operator::Operator;

/// Two spaces with regions of the same names: the suggestions are about those of `parts`.
const SETUP: [&str; 11] = [
    "region create full --suffix 4 --zone 4",
    "region create shut --suffix 4",
    "region create sealed --suffix 4",
    "region create capped --suffix 8",
    "space create parts --bits 32",
    "region create full --suffix 4 --zone 4 --space parts",
    "region create shut --suffix 4 --space parts",
    "region subdivide shut --by 1 --new old::0 --new new:4:1 --space parts",
    "region create sealed --suffix 4 --space parts",
    "region create capped --suffix 8 --space parts",
    "region create people --suffix 8 --order external --space parts",
];

/// The commands in a message, up to the end of their sentence.
fn suggested(message: &str) -> Vec<String> {
    let command = Regex::new(r"\bkent ((?:alloc|region|space|series|table|clock) [^`(),;\n]+?)(?:[`(),;\n]|: |$)")
        .expect("a regex");
    command.captures_iter(message).map(|found| found[1].to_owned()).collect()
}

#[test]
fn ok_suggested_commands_work_when_pasted() {
    let operator = Operator::new();
    SETUP.iter().for_each(|words| drop(operator.kent(words)));
    operator.kent("region seal sealed --space parts");
    operator.kent("region set capped --cap 2 --space parts");
    let default = operator.kent("table export");
    for (refused, suggestion, then) in [
        ("alloc region:full@parts -n 17", "region expand full --space parts --by 1", "alloc region:full@parts -n 17"),
        ("alloc region:capped@parts -n 9", "region set capped --space parts --cap 9", "alloc region:capped@parts -n 9"),
        ("alloc region:sealed@parts", "region unseal sealed --space parts", "alloc region:sealed@parts"),
        ("alloc region:shut@parts", "alloc region:old@parts", "alloc region:new@parts"),
        ("alloc region:people@parts", "region id people --space parts VALUE", "region id people --space parts 7"),
        ("alloc region:nothing@parts", "region ls --space parts", "region ls --space parts"),
        ("alloc region:nothing@nowhere", "space ls", "space ls"),
        ("region show nothing --space parts", "region ls --space parts", "region ls --space parts"),
        ("region expand shut --by 1 --space parts", "", "region expand old --by 1 --space parts"),
    ] {
        let (code, _, message) = operator.run(refused);
        assert_eq!(code, 1, "{refused}: {message}");
        let commands = suggested(&message);
        assert_eq!(commands.first().map_or("", String::as_str), suggestion, "{refused}: {message}");
        for command in commands {
            operator.kent(&command.replace("VALUE", "7"));
        }
        operator.kent(then);
    }
    assert_eq!(operator.kent("table export"), default, "the default space, which has the same names, is unchanged");
}
