//! The figures and examples of the paper (Kent 1992), reproduced with the command line against a running daemon.

use serde_json::Value;

use super::operator::Operator;

impl Operator {
    /// Returns the path of regions to an identifier of the space `default`, and the status of the identifier.
    #[track_caller]
    fn classify(&self, bits: &str) -> String {
        let id = u128::from_str_radix(bits, 2).expect("bits");
        let answer = self.json(&format!("classify {id:#x}"));
        let path: Vec<&str> = answer["path"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
        format!("{} {}", path.join("/"), answer["status"].as_str().expect("a word"))
    }

    /// Asserts that the table equals these lines of `NAME PREFIX Z S`, in the order of the prefixes.
    #[track_caller]
    fn check_table(&self, expected: &[&str]) {
        let listing = self.kent("region ls");
        let mut lines = listing.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let header = lines.next().expect("a header");
        assert_eq!(header[..5], ["REGION", "PREFIX", "P", "Z", "S"]);
        let found: Vec<String> = lines.map(|words| [words[0], words[1], words[3], words[4]].join(" ")).collect();
        assert_eq!(found, expected, "{listing}");
    }
}

/// A bit, repeated.
fn run_of(bit: &str, times: usize) -> String {
    bit.repeat(times)
}

#[test]
fn ok_figure_1_an_example_set_of_prefixes() {
    let operator = Operator::new();
    operator.kent("region create Literal --prefix 0 --suffix 0");
    operator.kent("region subdivide Literal --by 1 --new AtomicLiteral:0:0 --new Aggregate:0:1");
    operator.kent("region subdivide AtomicLiteral --by 1 --new Char:0:0 --new Number:0:1");
    operator.refused("region subdivide Char --by 2 --new CityName:0:00 --new MonthName:0:01", "ZERO_EXTENSION");
    operator.kent("region subdivide Char --by 2 --new CityName:0:00 --new MonthName:0:01 --abstract");
    operator.kent("region subdivide Number --by 1 --new Integer:0:0 --abstract");
    operator.kent("region subdivide Aggregate --by 2 --new Set:0:00 --new List:0:01 --abstract");
    operator.kent("region create NonLiteral --prefix 1 --suffix 0");
    operator.kent("region subdivide NonLiteral --by 1 --new SystemTypeObject:0:0 --new UserObject:0:1");
    operator.kent("region subdivide SystemTypeObject --by 2 --new Type:0:00 --new Function:0:01 --abstract");
    operator.kent("region subdivide UserObject --by 1 --new SystemOid:0:0 --new UserOid:0:1");
    operator.kent("region subdivide SystemOid --by 1 --new Iris_Oid:0:0 --abstract");
    operator.kent("region subdivide Iris_Oid --by 2 --new IrisDB00_Oid:0:00 --new IrisDB01_Oid:0:01 --abstract");
    operator.kent(
        "region subdivide UserOid --by 2 --new HP_EmpNum:0:00 --new HP_PartNum:0:01 --new HP_DocNum:0:10 --abstract",
    );
    operator.check_table(&[
        "Literal 0 0 0",
        "AtomicLiteral 00 0 0",
        "Char 000 0 0",
        "CityName 00000 59 0",
        "MonthName 00001 59 0",
        "Number 001 0 0",
        "Integer 0010 60 0",
        "Aggregate 01 0 0",
        "Set 0100 60 0",
        "List 0101 60 0",
        "NonLiteral 1 0 0",
        "SystemTypeObject 10 0 0",
        "Type 1000 60 0",
        "Function 1001 60 0",
        "UserObject 11 0 0",
        "SystemOid 110 0 0",
        "Iris_Oid 1100 0 0",
        "IrisDB00_Oid 110000 58 0",
        "IrisDB01_Oid 110001 58 0",
        "UserOid 111 0 0",
        "HP_EmpNum 11100 59 0",
        "HP_PartNum 11101 59 0",
        "HP_DocNum 11110 59 0",
    ]);
    let part = format!("11101{}", run_of("0", 59));
    assert_eq!(operator.classify(&part), "NonLiteral/UserObject/UserOid/HP_PartNum member");
    assert_eq!(operator.classify(&format!("11111{}", run_of("0", 59))), "NonLiteral/UserObject/UserOid unassigned");
}

#[test]
fn ok_figure_2_expanding_the_current_capacity_of_a_region() {
    let operator = Operator::new();
    operator.kent(&format!("region create r1 --prefix 101101 --suffix 50 --next {}", (1_u64 << 50) - 1));
    operator.check_table(&["r1 101101 8 50"]);
    // The last identifier of the full region r1.
    let last = format!("101101{}{}", run_of("0", 8), run_of("1", 50));
    assert_eq!(operator.draw("r1"), last);
    let full = operator.refused("alloc region:r1", "CAPACITY_EXHAUSTED");
    assert!(full.contains("kent region expand r1"), "the message does not suggest a command: {full}");
    operator.kent("region expand r1 --by 2");
    operator.check_table(&["r1 101101 6 52"]);
    // The next identifier after the expansion.
    assert_eq!(operator.draw("r1"), format!("101101{}01{}", run_of("0", 6), run_of("0", 50)));
    assert_eq!(operator.classify(&last), "r1 member");
}

#[test]
fn ok_figure_3_adding_new_independent_regions() {
    let operator = Operator::new();
    operator.kent(&format!("region create r1 --prefix 101101 --suffix 50 --next {}", 1_u64 << 49));
    let typical = operator.draw("r1");
    assert_eq!(typical, format!("101101{}1{}", run_of("0", 8), run_of("0", 49)));
    operator.kent("region split r1 --by 2 --new r3:53:01 --new r4:56:10 --new r5:50:11");
    operator.check_table(&["r1 10110100 6 50", "r3 10110101 3 53", "r4 10110110 0 56", "r5 10110111 6 50"]);
    assert_eq!(operator.classify(&typical), "r1 member");
    assert_eq!(operator.classify(&format!("10110111{}1{}", run_of("0", 6), run_of("0", 49))), "r5 member");
    // "Any routine testing whether an oid belongs to this region would now have to use the new prefix."
    assert!(operator.kent("region show r1").contains("101101 "), "the former prefix is not shown");
}

#[test]
fn ok_figure_4_adding_subregions() {
    let operator = Operator::new();
    operator.kent("region create r1 --prefix 101101 --suffix 50");
    let previous = operator.draw("r1");
    operator.kent("region subdivide r1 --by 2 --new r2::00 --new r3:53:01 --new r4:56:10 --new r5:52:11");
    operator.check_table(&[
        "r1 101101 0 0",
        "r2 10110100 6 50",
        "r3 10110101 3 53",
        "r4 10110110 0 56",
        "r5 10110111 4 52",
    ]);
    // "Previous members of r1 have become members of r2", and r1 "can have no direct members of its own".
    assert_eq!(operator.classify(&previous), "r1/r2 member");
    operator.refused("alloc region:r1", "CLOSED");
    assert_eq!(operator.draw("r2"), format!("101101{}1", run_of("0", 57)));
    // "A region can only be extended with immediate subregions once, but the subregions themselves can acquire more."
    operator.refused("region subdivide r1 --by 3 --new x:1:111", "LEVEL_MISMATCH");
    operator.kent("region subdivide r2 --by 1 --new r6::0 --new r7:52:1");
    assert_eq!(operator.classify(&previous), "r1/r2/r6 member");
}

#[test]
fn ok_section_1_1_no_prefix_matches_the_initial_portion_of_another() {
    let operator = Operator::new();
    operator.kent("region create a --prefix 0 --suffix 20");
    operator.kent("region create b --prefix 10 --suffix 20");
    operator.kent("region create c --prefix 11 --suffix 20");
    operator.refused("region create d --prefix 01 --suffix 20", "PREFIX_CONFLICT");
    // "Regions with prefixes 01 and 0110 are nested subregions of a region with prefix 0."
    operator.kent("region subdivide a --by 1 --new a1:20:1");
    operator.kent("region subdivide a1 --by 2 --new a110:20:10");
    operator.check_table(&["a 0 43 20", "a1 01 42 20", "a110 0110 40 20", "b 10 42 20", "c 11 42 20"]);
    assert_eq!(operator.classify(&format!("0110{}", run_of("0", 60))), "a/a1/a110 member");
}

#[test]
fn ok_section_2_databases_and_user_specified_identifiers_have_their_own_suffixes() {
    let operator = Operator::new();
    // "Its oid's can be qualified with a 32-bit prefix"; 24-bit employee numbers with a 40-bit prefix, and 48-bit part
    // numbers with a 16-bit prefix.
    operator.kent("region create database --suffix 32 --zone 0");
    operator.kent("region create EmpNum --suffix 24 --zone 0 --order external");
    operator.kent("region create PartNum --suffix 48 --zone 0 --order external");
    let prefix_bits = |region: &str| operator.json(&format!("region show {region}"))["prefix_bits"].as_u64();
    assert_eq!(["database", "EmpNum", "PartNum"].map(prefix_bits), [Some(32), Some(40), Some(16)]);
    operator.refused("alloc region:EmpNum", "EXTERNAL");
    let employee: u128 = operator.kent("region id EmpNum 123456").trim().parse().expect("a number");
    assert_eq!(employee & 0xff_ffff, 123_456);
    assert_eq!(operator.classify(&format!("{employee:b}")), "EmpNum member");
    operator.refused(&format!("region id EmpNum {}", 1 << 24), "SUFFIX_RANGE");
    // "This scheme can only accommodate regions for which s<n": four databases of 64-bit oids need 66 bits.
    operator.kent("space create databases --bits 66");
    for database in ["db0", "db1", "db2", "db3"] {
        operator.kent(&format!("region create {database} --suffix 64 --zone 0 --space databases"));
    }
    operator.refused("region create db4 --suffix 64 --zone 0 --space databases", "NO_FREE_PREFIX");
    operator.refused("region create ProductNum --suffix 80 --space databases", "NO_FREE_PREFIX");
    operator.kent("space create products --bits 81");
    operator.kent("region create ProductNum --suffix 80 --space products");
}

#[test]
fn ok_section_3_1_a_region_shrinks_if_no_high_order_bits_were_issued() {
    let operator = Operator::new();
    operator.kent("region create r1 --prefix 101101 --suffix 52 --next 1000");
    operator.kent("region shrink r1 --by 2");
    operator.check_table(&["r1 101101 8 50"]);
    operator.refused("region shrink r1 --by 41", "SUFFIX_IN_USE");
    operator.check_table(&["r1 101101 8 50"]);
}

#[test]
fn ok_section_3_2_an_existing_region_is_split_if_no_prefix_is_free() {
    let operator = Operator::new();
    operator.kent("region create a --prefix 1 --suffix 63");
    operator.kent("region create b --prefix 01 --suffix 50 --next 1000");
    // "If the existing prefixes are 1 and 01, then 00 would be a legal new prefix."
    operator.kent("region create c --suffix 60 --zone 2");
    operator.check_table(&["c 00 2 60", "b 01 12 50", "a 1 0 63"]);
    let issued = operator.draw("b");
    // "When the existing prefixes are 1, 01, and 00, no other independent prefix can be added": regions b and c could
    // be split.
    let refusal = operator.refused("region create d --suffix 50 --zone 1", "NO_FREE_PREFIX");
    assert!(
        refusal.contains("\"b\" (of 12 bits), \"c\" (of 2 bits)"),
        "the refusal does not list the donors: {refusal}"
    );
    assert!(refusal.contains("kent region create d --suffix 50 --zone 1 --space default --split-donor b"), "{refusal}");
    let plan = operator.kent("region create d --suffix 50 --zone 1 --plan");
    assert!(plan.contains("--split-donor b"), "{plan}");
    operator.kent("region create d --suffix 50 --zone 1 --split-donor b");
    assert_eq!(operator.classify(&issued), "b member");
    let listing = operator.kent("region ls");
    assert!(listing.lines().any(|line| line.starts_with("b ") && line.contains(" 010 ")), "{listing}");
}

#[test]
fn ok_section_3_3_a_partial_region_keeps_its_own_members() {
    let operator = Operator::new();
    operator.kent("region create r1 --prefix 101101 --suffix 50");
    operator.refused("region subdivide r1 --by 2 --new r2:50:00 --new r3:53:01", "ZERO_EXTENSION");
    operator.kent("region subdivide r1 --by 2 --new r3:53:01");
    assert_eq!(operator.classify(&operator.draw("r1")), "r1 member");
    // "Its ultimate capacity is constrained to be no larger than any of its subregions."
    operator.refused("region expand r1 --by 7", "ZONE_TOO_SMALL");
    operator.kent("region expand r1 --by 6");
    operator.check_table(&["r1 101101 2 56", "r3 10110101 3 53"]);
    assert_eq!(operator.classify(&format!("10110101{}", run_of("0", 56))), "r1/r3 member");
    // A later call creates a missing sibling.
    operator.kent("region subdivide r1 --by 2 --new r5:52:11");
    assert_eq!(operator.classify(&format!("10110111{}", run_of("0", 56))), "r1/r5 member");
}

#[test]
fn ok_section_3_3_a_table_within_a_region_is_managed_separately() {
    let operator = Operator::new();
    operator.kent("region create D --prefix 1001 --suffix 60");
    operator.kent("region delegate D");
    operator.refused("region expand D --by 1", "DELEGATED");
    operator.kent("region create x --suffix 20 --zone 8 --space default/D");
    let local: u128 = operator.kent("alloc region:x@default/D").trim().parse().expect("a number");
    // "The individual oid's would still be globally unique and recognized as belonging to the parent region."
    let id = format!("1001{local:060b}");
    assert_eq!(operator.classify(&id), "D member");
    let answer = operator.json(&format!("classify {:#x}", u128::from_str_radix(&id, 2).expect("bits")));
    assert_eq!(answer["local"]["region"], "x");
}
