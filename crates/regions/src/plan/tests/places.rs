//! Tests of the places of new regions: free prefixes, and donors that are split.

use super::*;

#[test]
fn err_two_new_regions_with_one_extension() {
    for edit in [split("open", 1, &["a 1 0", "b 1 0"]), subdivide("open", 1, &["a 1 0", "b 1 0"])] {
        check(&edit, "prefix-conflict", &["\"a\" and \"b\" both use the extension 1:"]);
    }
}

#[test]
fn err_create_on_a_prefix() {
    check(&at("x", "111111111", 255), "bad-prefix", &["at most 8 bits", "9"]);
    check(&at("x", &"1".repeat(128), 255), "bad-prefix", &["128"]);
    check(&at("x", "1", 8), "suffix-range", &["at most 7", "8"]);
    check(&at("x", "1", 255), "suffix-range", &["255"]);
    check(&at("x", "11111111", 1), "suffix-range", &["at most 0"]);
    check(&at("x", "1", 0), "prefix-conflict", &["\"open\"", "has prefix 1"]);
    check(&at("x", "1111", 0), "prefix-conflict", &["\"open\""]);
    check(&at("x", "0", 0), "prefix-conflict", &["\"closed\"", "001"]);
    check(&at("x", "", 0), "prefix-conflict", &["\"closed\""]);
    check(&at("x", "0111", 0), "prefix-conflict", &["\"partial\""]);
    check(&at("x", "00111111", 0), "prefix-conflict", &["\"closed\""]);
    let full = Edit::Create {
        name: "x".into(),
        suffix: 2,
        place: Place::At(prefix("000")),
        start: Start { next: Count::Below(5), ..Start::default() },
    };
    check(&full, "suffix-range", &["suffix 4", "below 4"]);
}

#[test]
fn err_no_free_prefix_lists_blocks_and_donors() {
    check(
        &chosen("x", 6, Zone::Exactly(0), false),
        "no-free-prefix",
        &["6 bits", "000 with 5 bits", "\"open\"", "3 bits"],
    );
    check(&chosen("x", 7, Zone::Exactly(0), true), "no-free-prefix", &["000", "no region can be split"]);
    check(&chosen("x", 255, Zone::Exactly(255), true), "no-free-prefix", &["an identifier here has 8"]);
    check(&chosen("x", 255, Zone::UpTo(255), true), "no-free-prefix", &["an identifier here has 8"]);
    let mut table = Table::new(8).expect("a width");
    let refusal = table.plan(&chosen("x", 9, Zone::Exactly(0), true)).expect_err("nine bits of eight");
    assert_eq!(format!("{refusal}"), "the suffix has 9 bits, but an identifier here has 8");
    for (name, on) in [("a", "000"), ("b", "01"), ("c", "1")] {
        apply(&mut table, &at(name, on, 1));
    }
    let Err(Refusal::NoFreePrefix(help)) = table.plan(&chosen("x", 6, Zone::Exactly(0), false)) else {
        panic!("there is no free prefix")
    };
    assert_eq!(help.free, [prefix("001")]);
    let donors: Vec<(&str, u8)> = help.donors.iter().map(|donor| (&*donor.region, donor.zone)).collect();
    assert_eq!(donors, [("c", 6)]);
    let text = format!("{help}");
    let refusal = table.plan(&chosen("x", 5, Zone::Exactly(1), false)).expect_err("no free prefix");
    // The zone takes one of the bits.
    assert_eq!(format!("{refusal}"), text.replace("fits now has 5 bits", "fits now has 4 bits"));
}

#[test]
fn err_no_free_prefix_lists_no_more_than_eight_of_each() {
    let mut table = Table::new(16).expect("a width");
    for value in 0..20 {
        let on = Prefix::new(value * 2, 6);
        let place = Place::At(on);
        apply(&mut table, &Edit::Create { name: format!("r{value}"), suffix: 1, place, start: Start::default() });
    }
    let Err(Refusal::NoFreePrefix(help)) = table.plan(&chosen("x", 15, Zone::Exactly(0), false)) else {
        panic!("there is no free prefix")
    };
    assert_eq!((help.free.len(), help.free[0]), (8, prefix("11")));
    assert!(help.free.is_sorted_by_key(|block| block.len()));
    assert!(help.donors.is_empty());
    let Err(Refusal::NoFreePrefix(help)) = table.plan(&chosen("x", 1, Zone::Exactly(14), false)) else {
        panic!("there is no free prefix")
    };
    assert_eq!(help.requested, 15);
}

#[test]
fn ok_a_region_has_an_ultimate_capacity() {
    let table = sample();
    let ultimate = |name| table.named(name).expect("it").ultimate_capacity();
    assert_eq!(
        (ultimate("open"), ultimate("partial"), ultimate("closed")),
        (Count::Below(1 << 7), Count::Below(1 << 4), Count::ZERO)
    );
    let mut table = sample();
    apply(&mut table, &Edit::Delegate { name: "p1".into() });
    let delegated = table.named("p1").expect("it");
    assert_eq!((delegated.expandable_bits(), delegated.ultimate_capacity()), (0, delegated.capacity()));
}

#[test]
fn err_no_free_prefix_message() {
    let mut table = Table::new(8).expect("a width");
    for (name, on) in [("a", "000"), ("b", "10")] {
        apply(&mut table, &at(name, on, 1));
    }
    let refusal = table.plan(&chosen("x", 7, Zone::Exactly(0), false)).expect_err("no free prefix");
    let free =
        "no free prefix leaves 7 bits; the largest free blocks are 01 with 6 bits, 11 with 6 bits, 001 with 5 bits; ";
    assert_eq!(
        refusal.to_string(),
        [free, "the widest suffix that fits now has 6 bits; no region can be split to free one"].concat()
    );
    apply(&mut table, &at("c", "01", 0));
    apply(&mut table, &at("d", "11", 0));
    apply(&mut table, &at("e", "001", 5));
    let refusal = table.plan(&chosen("x", 5, Zone::Exactly(0), false)).expect_err("no free prefix");
    let none = "no free prefix leaves 5 bits; no block is free; splitting a region would free one, and take 1 bit of its expansion zone: ";
    assert_eq!(refusal.to_string(), [none, "\"c\" (of 6 bits), \"d\" (of 6 bits), \"b\" (of 5 bits)"].concat());
}

fn donated(name: &str, suffix: u8, zone: Zone, donor: Donate) -> Edit {
    let (place, next, order) = (Place::Chosen { zone, donor }, Count::ZERO, Order::Sequential);
    Edit::Create { name: name.into(), suffix, place, start: Start { next, order, ..Start::default() } }
}

/// Returns the table of a space of four bits: `b` 00 and `a` 01 with zones of 2; `c` 10 with a zone of 1; `d` 11 with
/// subregions and a zone of 2.
fn donors() -> Table {
    let mut table = Table::new(4).expect("a width");
    for (name, on, suffix) in [("b", "00", 0), ("a", "01", 0), ("c", "10", 1), ("d", "11", 0)] {
        apply(&mut table, &at(name, on, suffix));
    }
    apply(&mut table, &subdivide("d", 1, &["d1 1 0"]));
    table
}

#[test]
fn ok_the_donor_is_the_named_region_or_the_leftmost_with_the_largest_zone() {
    for (donor, split, on) in [
        (Donate::Best, "b", "001"),
        (Donate::Named("a".into()), "a", "011"),
        (Donate::Named("b".into()), "b", "001"),
        (Donate::Named("c".into()), "c", "101"),
    ] {
        let table = donors();
        let plan = table.plan(&donated("x", 1, Zone::Exactly(0), donor)).expect("a free prefix");
        assert_eq!((plan.donor.as_deref(), plan.block), (Some(split), Some(prefix(on))));
        assert_eq!(plan.subject().expect("made").prefix, prefix(on));
    }
}

#[test]
fn ok_the_donor_with_the_largest_zone_is_chosen_in_any_position() {
    for (zones, best) in [([1, 2, 3], "c"), ([1, 3, 2], "b"), ([3, 1, 2], "a"), ([2, 3, 3], "b")] {
        let mut table = Table::new(6).expect("a width");
        for ((name, on), zone) in
            [("a", "00"), ("b", "01"), ("c", "10"), ("d", "11")].into_iter().zip(zones.into_iter().chain([0]))
        {
            apply(&mut table, &at(name, on, 4 - zone));
        }
        let plan = table.plan(&donated("x", 1, Zone::Exactly(0), Donate::Best)).expect("a free prefix");
        assert_eq!(plan.donor.as_deref(), Some(best), "{zones:?}");
    }
}

#[test]
fn err_a_donor_needs_enough_bits_a_zone_and_no_subregions() {
    let table = donors();
    for (name, suffix, code) in
        [("unknown", 1, "no-such-region"), ("a", 2, "no-free-prefix"), ("d", 1, "no-free-prefix")]
    {
        let create = donated("x", suffix, Zone::Exactly(0), Donate::Named(name.into()));
        assert_eq!(table.plan(&create).expect_err("rejected").code(), code, "{name}");
    }
    let mut full = Table::new(4).expect("a width");
    apply(&mut full, &at("a", "", 4));
    let Err(Refusal::NoFreePrefix(help)) = full.plan(&donated("x", 1, Zone::Exactly(0), Donate::Best)) else {
        panic!("there is no free prefix")
    };
    assert_eq!(help.donors, []);
}

#[test]
fn ok_a_split_lists_freed_blocks_larger_ones_first() {
    let table = sample();
    for (by, new, freed) in [
        (1, &[][..], &["11"][..]),
        (1, &["x 1 1"], &[]),
        (3, &[], &["11", "101", "1001"]),
        (3, &["x 010 1", "y 111 1"], &["110", "1001", "1011", "1110"]),
        (3, &["x 010 1"], &["11", "1001", "1011"]),
    ] {
        let plan = table.plan(&split("open", by, new)).expect("legal");
        let freed: Vec<Prefix> = freed.iter().map(|on| prefix(on)).collect();
        assert_eq!(plan.freed, freed, "{new:?}");
    }
}

#[test]
fn ok_the_choice_of_a_place_is_what_create_takes() {
    let mut table = Table::new(16).expect("a width");
    for on in ["00", "0101", "1"] {
        apply(&mut table, &at(on, on, 0));
    }
    let blocks = |bits, after: Option<&str>| -> Vec<String> {
        table.free_by_size(bits, after.map(prefix)).map(|block| block.to_string()).collect()
    };
    assert_eq!(blocks(0, None), ["011", "0100"]);
    assert_eq!(blocks(13, None), ["011"]);
    assert_eq!(blocks(0, Some("011")), ["0100"]);
    assert!(blocks(14, None).is_empty() && blocks(17, None).is_empty() && blocks(0, Some("0100")).is_empty());
    for (suffix, zone, expected) in [
        (8, Zone::UpTo(8), Some(("011", 5))),
        (8, Zone::Exactly(4), Some(("0100", 4))),
        (4, Zone::UpTo(8), Some(("0100", 8))),
        (2, Zone::Exactly(2), Some(("010000000000", 2))),
        (14, Zone::UpTo(8), None),
        (255, Zone::Exactly(255), None),
    ] {
        let choice = table.choose(suffix, zone);
        let place = expected.map(|(on, zone)| (prefix(on), zone));
        assert_eq!(choice.map(|choice| (choice.prefix, choice.zone)), place, "{suffix} {zone:?}");
        let plan = table.plan(&chosen("x", suffix, zone, false)).ok();
        let planned = plan.and_then(|plan| plan.subject().map(|region| (region.prefix, region.zone)));
        assert_eq!(planned, place, "{suffix} {zone:?}");
    }
}
