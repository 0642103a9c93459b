//! Output of `kent` about tables: filtered lists, trees with delegated spaces, free blocks, and prefix formats.

use kent_proto::v1::ListFreeBlocksRequest;
use serde_json::{Value, json};
use tonic::Code;

use super::operator::Operator;

/// An operator with a few regions of different owners, labels and states.
fn shop() -> Operator {
    let operator = Operator::new();
    for words in [
        "region create eu-orders --prefix 0001 --suffix 10",
        "region create us-orders --prefix 0010 --suffix 10",
        "region create invoices --prefix 0011 --suffix 30",
        "region set eu-orders --owner billing --label team=checkout --label tier=1 --next 1000",
        "region set us-orders --owner billing --label team=checkout --next 100",
        "region set invoices --owner finance",
        "region seal invoices",
    ] {
        operator.kent(words);
    }
    operator
}

#[track_caller]
fn check_names(operator: &Operator, words: &str, expected: &[&str]) {
    let names = operator.kent(&format!("region ls -o name {words}"));
    assert_eq!(names.lines().collect::<Vec<_>>(), expected, "{words}");
}

#[test]
fn ok_regions_are_listed_by_conditions_and_sorted() {
    let operator = shop();
    for (words, expected) in [
        ("", &["eu-orders", "us-orders", "invoices"][..]),
        ("--filter owner=billing", &["eu-orders", "us-orders"]),
        ("--filter owner=billing --filter fill>80", &["eu-orders"]),
        ("--filter name=*-orders --filter fill<80", &["us-orders"]),
        ("--filter state=sealed", &["invoices"]),
        ("--filter label.tier=1", &["eu-orders"]),
        ("-l team=checkout", &["eu-orders", "us-orders"]),
        ("-l team=checkout,!tier", &["us-orders"]),
        ("-l nothing=here", &[]),
        ("--sort name", &["eu-orders", "invoices", "us-orders"]),
        ("--sort -fill", &["eu-orders", "us-orders", "invoices"]),
        ("--sort -suffix", &["invoices", "eu-orders", "us-orders"]),
    ] {
        check_names(&operator, words, expected);
    }
    let wide = operator.kent("region ls -o wide -l tier");
    let lines: Vec<Vec<&str>> = wide.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 2, "{wide}");
    assert!(lines[1].ends_with(&["billing", "team=checkout,tier=1", "-"]), "{wide}");
    assert!(lines[1].contains(&"1_000"), "{wide}");
    let region: Value = serde_json::from_str(&operator.kent("region ls -o json -l tier")).expect("an object");
    assert_eq!((&region["name"], &region["issued"]), (&json!("eu-orders"), &json!("1000")));
    assert_eq!(operator.kent("region ls --filter name=none").lines().count(), 1, "only the headings");
}

/// Lists more regions than fit in a page, sorted and unsorted.
#[test]
fn ok_a_list_of_several_pages_has_one_heading() {
    let operator = Operator::new();
    operator.kent("space create many --bits 32");
    operator.kent("region create all --prefix 0 --suffix 0 --space many");
    for part in 0..20 {
        let new: String = (0..52).map(|at| format!(" --new r{part}-{at}:4:{:011b}", part * 52 + at)).collect();
        operator.kent(&format!("region subdivide all --by 11 --abstract --space many{new}"));
    }
    let list = operator.kent("region ls --space many");
    assert_eq!(list.lines().count(), 1 + 1 + 20 * 52);
    assert_eq!(list.matches("PREFIX").count(), 1);
    check_names(&operator, "--space many --filter name=r19-5? --sort -name", &["r19-51", "r19-50"]);
}

#[test]
fn ok_prefixes_are_shown_and_taken_in_each_form() {
    let operator = Operator::new();
    for (name, prefix) in [("a", "101101"), ("b", "0xb0/6"), ("c", "b800::/6")] {
        operator.kent(&format!("region create {name} --prefix {prefix} --suffix 10"));
    }
    for (format, expected) in [
        ("bits", ["101100", "101101", "101110"]),
        ("hex", ["0xb0/6", "0xb4/6", "0xb8/6"]),
        ("cidr", ["b000::/6", "b400::/6", "b800::/6"]),
    ] {
        for command in ["region ls", "region tree", "region history"] {
            let shown = operator.kent(&format!("{command} --prefix-format {format}"));
            for prefix in expected {
                assert!(shown.contains(prefix), "{command} {format}: {shown}");
            }
        }
    }
    let split = operator.kent("region split a --by 2 --new d:5:0x4/2 --new e:5:8000::/2 --prefix-format hex");
    for part in ["0xb4/6 → 0xb4/8", "0xb5/8", "0xb6/8", "free now: 0xb7/8"] {
        assert!(split.contains(part), "{part} is not in {split}");
    }
    assert_eq!(operator.json("region show d --prefix-format hex")["prefix"], json!("10110101"));
    let (code, _, stderr) = operator.run("region create x --suffix 4 --prefix 0xb5/6");
    assert!(code == 2 && stderr.contains("the prefix of 6 bits is 0xb4/6"), "{stderr}");
}

#[test]
fn ok_a_tree_goes_into_delegated_spaces_and_marks_states() {
    let operator = Operator::new();
    for words in [
        "region create emea --suffix 30",
        "region delegate emea",
        "region create orders --suffix 10 --space default/emea",
        "region create deep --suffix 10 --space default/emea",
        "region delegate deep --space default/emea",
        "region create inner --suffix 2 --zone 1 --space default/emea/deep",
        "region create last --suffix 10",
        "region seal last",
    ] {
        operator.kent(words);
    }
    let tree = operator.kent("region tree");
    let names: Vec<&str> = tree
        .lines()
        .skip(2)
        .map(|line| line.split_whitespace().find(|word| word.is_ascii()).expect("a name"))
        .collect();
    assert_eq!(
        names,
        ["emea", "orders@default/emea", "deep@default/emea", "inner@default/emea/deep", "last"],
        "{tree}"
    );
    assert!(tree.contains("open, delegated") && tree.contains("open, sealed"), "{tree}");
    // A name in the tree is a valid source.
    operator.kent("alloc region:inner@default/emea/deep");
    let shallow = operator.kent("region tree --depth 1");
    assert!(!shallow.contains("inner") && shallow.contains("3 regions are not shown"), "{shallow}");
    let depths: Vec<Value> = operator
        .kent("region tree --json")
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("an object")["depth"].clone())
        .collect();
    assert_eq!(depths, [json!(0), json!(1), json!(1), json!(2), json!(0)]);
}

#[test]
fn ok_free_blocks_and_the_place_that_create_takes() {
    let operator = Operator::new();
    operator.kent("space create parts --bits 32");
    let free = operator.kent("space free parts");
    assert!(free.ends_with("1 free block: 100 % of the space\n"), "{free}");
    operator.kent("region create a --suffix 20 --space parts");
    operator.kent("region create b --prefix 1 --suffix 20 --space parts");
    let prefixes = |words: &str| -> Vec<(String, u64)> {
        let lines = operator.kent(&format!("space free parts --json {words}"));
        let blocks = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
        blocks
            .map(|it| (it["prefix"].as_str().expect("a prefix").to_owned(), it["bits"].as_u64().expect("bits")))
            .collect()
    };
    assert_eq!(prefixes(""), [("01".to_owned(), 30), ("001".to_owned(), 29), ("0001".to_owned(), 28)]);
    assert_eq!(prefixes("--at-least 29").len(), 2);
    assert_eq!(prefixes("-n 1").len(), 1);
    for (flags, expected) in [("--suffix 20", "0001"), ("--suffix 20 --zone 9", "001"), ("--suffix 29", "01")] {
        let free = operator.kent(&format!("space free parts {flags}"));
        let says = format!("{flags} --space parts would take the prefix {expected} with a zone of");
        assert!(free.contains(&says), "{free}");
        let created = operator.json(&format!("region create x {flags} --space parts --dry-run"));
        assert_eq!(created["region"]["prefix"], json!(expected), "{flags}");
    }
    let (code, free, _) = operator.run("space free parts --suffix 31");
    assert!(code == 0 && free.contains("would find no free block"), "{free}");
    operator.refused("region create x --suffix 31 --space parts", "NO_FREE_PREFIX");
    operator.refused("space free nothing", "NO_SUCH_SPACE");
    let (code, _, stderr) = operator.run("space free --zone 3");
    assert!(code == 2 && stderr.contains("--suffix"), "{stderr}");
}

#[tokio::test]
async fn ok_free_blocks_come_in_pages() {
    let operator = Operator::new();
    operator.kent("region create a --prefix 00001 --suffix 10");
    let mut regions = operator.daemon.regions();
    let (mut prefixes, mut page_token) = (Vec::new(), String::new());
    let ask = ListFreeBlocksRequest { parent: "spaces/default".to_owned(), page_size: 2, ..Default::default() };
    loop {
        let page = ListFreeBlocksRequest { page_token, suffix_bits: Some(40), ..ask.clone() };
        let page = regions.list_free_blocks(page).await.expect("a page").into_inner();
        assert!(page.blocks.len() <= 2 && page.revision == 1);
        assert_eq!(page.choice.map(|choice| choice.block).as_deref(), Some("00000"));
        prefixes.extend(page.blocks.into_iter().map(|block| block.prefix));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(prefixes, ["1", "01", "001", "0001", "00000"]);
    for (bad, field) in [
        (ListFreeBlocksRequest { page_token: "after:x".to_owned(), ..ask.clone() }, "page_token"),
        (ListFreeBlocksRequest { page_token: "2".to_owned(), ..ask.clone() }, "page_token"),
        (ListFreeBlocksRequest { zone_bits: Some(1), ..ask.clone() }, "zone_bits"),
        (
            ListFreeBlocksRequest { suffix_bits: Some(4_000_000_000), ..ask.clone() },
            "is 4000000000, but must be 0 to 128",
        ),
        (ListFreeBlocksRequest { parent: String::new(), ..ask.clone() }, "parent"),
    ] {
        let refused = regions.list_free_blocks(bad).await.expect_err(field);
        assert!(refused.code() == Code::InvalidArgument && refused.message().contains(field), "{refused}");
    }
    let wide = ListFreeBlocksRequest { at_least_bits: 128, suffix_bits: Some(128), ..ask };
    let none = regions.list_free_blocks(wide).await.expect("an empty page").into_inner();
    assert!(none.blocks.is_empty() && none.choice.is_none());
}

#[test]
fn ok_create_warns_of_a_large_suffix_and_of_no_zone() {
    let operator = Operator::new();
    for (words, expected) in [
        ("a --suffix 62 --zone 0 --dry-run", &["a quarter of the space", "no expansion zone"][..]),
        ("b --suffix 10 --zone 0", &["no expansion zone"]),
        ("c --suffix 61 --dry-run", &[]),
        ("d --prefix 11 --suffix 62", &["a quarter of the space", "no expansion zone"]),
        ("e --suffix 40", &[]),
    ] {
        let (code, _, stderr) = operator.run(&format!("region create {words}"));
        assert_eq!((code, stderr.lines().count()), (0, expected.len()), "{words}: {stderr}");
        for (line, part) in stderr.lines().zip(expected) {
            assert!(line.starts_with("warning: ") && line.contains(part), "{words}: {line}");
        }
    }
    let (_, _, stderr) = operator.run("region create f --suffix 10 --zone 0 --json");
    let warning: Value = serde_json::from_str(&stderr).expect("an object");
    assert!(warning["warning"]["message"].as_str().is_some_and(|text| text.contains("no expansion zone")), "{warning}");
}

const UUID: &str = "019aa2be-bb3b-7000-8050-c00000000009";

#[test]
fn ok_uuids_are_classified_in_spaces_of_128_bits() {
    let operator = Operator::new();
    operator.kent("space create events --bits 128");
    operator.kent("region create seven --prefix 019a::/16 --suffix 100 --space events");
    let shown = operator.kent(&format!("classify {UUID} {} 5 --space events", UUID.to_uppercase()));
    let lines: Vec<Vec<&str>> = shown.lines().skip(1).map(|line| line.split_whitespace().take(3).collect()).collect();
    assert_eq!(lines, [[UUID, "reserved", "seven"], [UUID, "reserved", "seven"], ["5", "free", "-"]], "{shown}");
    let inspected = operator.json(&format!("inspect {UUID} --space events"));
    assert_eq!(inspected["classification"]["region"], json!("seven"));
    // This is the same value, written as a ULID.
    let inspected = operator.json("inspect 01KAHBXESVE0080M6000000009 --space events");
    assert_eq!(inspected["classification"]["region"], json!("seven"));

    let (code, _, stderr) = operator.run(&format!("classify 5 {UUID}"));
    assert!(
        code == 2 && stderr.contains("a UUID has 128 bits, but an identifier of space default has 64 bits"),
        "{stderr}"
    );
    let (code, _, stderr) = operator.run("classify 18446744073709551616");
    assert!(code == 2 && stderr.contains("has 65 bits"), "{stderr}");
    let text = operator.kent(&format!("inspect {UUID} --space default"));
    assert!(
        text.contains("not in the space: a uuidv7 has 128 bits, but an identifier of space default has 64"),
        "{text}"
    );
    let inspected = operator.json(&format!("inspect {UUID} --space default"));
    assert!(inspected["not_in_space"].is_string() && inspected["classification"].is_null());
}

#[test]
fn ok_an_identifier_of_a_delegated_region_is_issued_if_its_own_space_says_so() {
    let operator = Operator::new();
    operator.kent("region create emea --suffix 20");
    operator.kent("region delegate emea");
    operator.kent("region create sub --suffix 10 --space default/emea");
    let local: u64 = operator.kent("alloc region:sub@default/emea").trim().parse().expect("a number");
    // The first identifier of the region's prefix.
    let prefix = operator.json("region show emea")["prefix"].as_str().map(|prefix| format!("{prefix:0<64}"));
    let first = u64::from_str_radix(&prefix.expect("a prefix"), 2).expect("bits");
    for (id, expected) in [(first + local, true), (first + local + (1 << 19), false)] {
        assert_eq!(operator.json(&format!("classify {id}"))["issued"], expected, "{id}");
    }
}

#[test]
fn ok_regions_of_all_spaces_are_listed() {
    let operator = shop();
    operator.kent("space create parts --bits 32");
    operator.kent("region create bolts --suffix 10 --space parts");
    operator.kent("region set bolts --owner billing --space parts");
    for (words, expected) in [
        ("-A", &["eu-orders@default", "us-orders@default", "invoices@default", "bolts@parts"][..]),
        ("--all-spaces --filter owner=billing", &["eu-orders@default", "us-orders@default", "bolts@parts"]),
        ("-A -l tier", &["eu-orders@default"]),
        ("-A --sort name", &["bolts@parts", "eu-orders@default", "invoices@default", "us-orders@default"]),
    ] {
        check_names(&operator, words, expected);
    }
    operator.kent("alloc region:bolts@parts");
    for words in ["region ls -A", "region ls -A -o wide", "region ls -A --sort -fill"] {
        let list = operator.kent(words);
        let lines: Vec<Vec<&str>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0][..2], ["SPACE", "REGION"], "{words}: {list}");
        assert!(lines[1..].iter().any(|line| line[..2] == ["parts", "bolts"]), "{words}: {list}");
        assert_eq!((lines.len(), list.matches("PREFIX").count()), (5, 1), "{words}: {list}");
    }
    let lines = operator.kent("region ls -A --json");
    assert_eq!(lines.lines().count(), 4);
    assert!(lines.contains("\"resource\":\"spaces/parts/regions/bolts\""), "{lines}");
    let (code, _, stderr) = operator.run("region ls -A --space parts");
    assert!(code == 2 && stderr.contains("leave out either --space or -A"), "{stderr}");
}
