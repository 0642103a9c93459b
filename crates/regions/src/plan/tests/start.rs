//! Tests of the initial attributes of new regions, and of the attributes that all-zero subregions inherit.

use super::*;

#[test]
fn ok_the_all_zero_subregion_of_a_scrambled_region_is_scrambled() {
    let mut table = Table::new(8).expect("a width");
    let place = Place::At(prefix("1"));
    apply(
        &mut table,
        &Edit::Create {
            name: "s".into(),
            suffix: 3,
            place,
            start: Start { next: Count::Below(5), order: Order::Scrambled, ..Start::default() },
        },
    );
    apply(&mut table, &subdivide("s", 1, &["x 0", "y 1 2"]));
    let (x, y) = (table.named("x").expect("it"), table.named("y").expect("it"));
    assert_eq!((x.order, *x.issued, y.order), (Order::Scrambled, Count::Below(8), Order::Sequential));
    // `x` continues the numbers of `s`, so it keeps the order key of `s`.
    let s = table.named("s").expect("it").number;
    assert_eq!((x.key_number(), y.key_number()), (s, y.number));
}

#[test]
fn ok_the_all_zero_subregion_inherits_the_policy_and_its_parents_seal_covers_it() {
    let mut table = sample();
    let policy = Policy { cap: Some(Count::Below(12)), chunk: ChunkPolicy::Strict, ..Policy::default() };
    let patch = Patch { sealed: Some(true), policy: PolicyPatch::to(&policy), ..Patch::default() };
    apply(&mut table, &update("open", patch));
    apply(&mut table, &subdivide("open", 1, &["x 0", "y 1 2"]));
    let kept = |name| table.named(name).map(|region| (region.sealed, *region.policy())).expect("there");
    assert_eq!((kept("open").0, kept("x"), kept("y")), (true, (false, policy), (false, Policy::default())));
    let seal = |name| Seal::over([(&table, table.named(name).expect("there"))]).map(|seal| seal.region);
    let parent = table.named("open").expect("there").number;
    assert_eq!((seal("x"), seal("y")), (Some(parent), Some(parent)));
}

#[test]
fn ok_a_new_region_has_its_initial_attributes() {
    let policy = Policy { cap: Some(Count::Below(3)), chunk: ChunkPolicy::Strict, ..Policy::default() };
    let texts = Texts { owner: "shop".into(), labels: [("tier".into(), "1".into())].into(), ..Texts::default() };
    let start = Start { next: Count::Below(2), sealed: true, policy, texts, ..Start::default() };
    let begins = |new: Vec<NewRegion>| -> Vec<NewRegion> {
        new.into_iter().map(|new| NewRegion { start: start.clone(), ..new }).collect()
    };
    let mut table = sample();
    let place = Place::At(prefix("000"));
    apply(&mut table, &Edit::Create { name: "x".into(), suffix: 2, place, start: start.clone() });
    apply(&mut table, &Edit::Split { name: "open".into(), by: 1, new_regions: begins(new_regions(&["y 1 2"])) });
    let subs = begins(new_regions(&["a 0", "z 1 2"]));
    apply(&mut table, &Edit::Subdivide { name: "open".into(), by: 1, new_regions: subs, reserve_others: false });
    for name in ["x", "y", "z"] {
        let made = table.named(name).expect("made");
        assert_eq!((*made.issued, made.sealed, *made.policy()), (start.next, true, policy), "{name}");
        assert_eq!(*made.texts(), start.texts, "{name}");
    }
    let heir = table.named("a").expect("made");
    assert_eq!((*heir.issued, heir.sealed, *heir.policy()), (Count::Below(9), true, Policy::default()));
}

#[test]
fn ok_the_all_zero_subregion_may_start_above_the_inherited_counter() {
    let mut table = sample();
    let mut new = new_regions(&["x 0", "y 1 2"]);
    new[0].start.next = Count::Below(12);
    let edit = Edit::Subdivide { name: "open".into(), by: 1, new_regions: new, reserve_others: false };
    let plan = table.plan(&edit).expect("legal");
    table.issue("open", 1).expect("enough suffixes are left");
    table.apply(&plan).expect("applied");
    assert_eq!(table.named("x").expect("made").issued, Count::Below(12).into());
}

#[test]
fn err_invalid_initial_attributes() {
    let strict = Policy { chunk: ChunkPolicy::Strict, ..Policy::default() };
    for (start, code) in [
        (Start { next: Count::Below(5), ..Start::default() }, "suffix-range"),
        (Start { order: Order::Scrambled, policy: strict, ..Start::default() }, "bad-input"),
        (Start { texts: Texts { owner: "o".repeat(4097), ..Texts::default() }, ..Start::default() }, "bad-input"),
    ] {
        let new = |text: &str| -> Vec<NewRegion> {
            new_regions(&[text]).into_iter().map(|new| NewRegion { start: start.clone(), ..new }).collect()
        };
        let place = Place::At(prefix("000"));
        check(&Edit::Create { name: "x".into(), suffix: 2, place, start: start.clone() }, code, &[]);
        check(&Edit::Split { name: "open".into(), by: 1, new_regions: new("x 1 2") }, code, &[]);
        let (name, new_regions) = ("open".into(), new("x 1 2"));
        check(&Edit::Subdivide { name, by: 1, new_regions, reserve_others: false }, code, &[]);
    }
}

#[test]
fn ok_a_declared_number_of_a_scrambled_region_rounds_up_to_an_octave() {
    let mut table = Table::new(16).expect("a width");
    let issued = |table: &Table| *table.named("s").expect("made").issued;
    let create = |next: u128| Edit::Create {
        name: "s".into(),
        suffix: 10,
        place: Place::At(prefix("1")),
        start: Start { next: Count::Below(next), order: Order::Scrambled, ..Start::default() },
    };
    for (next, expected) in [(0, 0), (1, 1), (3, 4), (4, 4), (513, 1024), (1024, 1024)] {
        let plan = table.plan(&create(next)).expect("legal");
        assert_eq!(plan.subject().expect("made").issued, Count::Below(expected).into(), "{next}");
    }
    let refusal = table.plan(&create(1025)).expect_err("more than it has");
    assert_eq!(refusal.code(), "suffix-range");
    apply(&mut table, &create(3));
    let declare = |next: u128| {
        let patch = Patch { next: Some(Count::Below(next)), ..Patch::default() };
        Edit::Update { name: "s".into(), patch }
    };
    for (next, expected) in [(0, 4), (2, 4), (5, 8), (7, 8), (100, 128)] {
        let plan = table.plan(&declare(next)).expect("legal");
        assert_eq!(plan.declared.expect("declared").1, Count::Below(expected), "{next}");
        apply(&mut table, &declare(next));
        assert_eq!(issued(&table), Count::Below(expected), "{next}");
    }
}

#[test]
fn ok_a_new_region_has_the_given_order_and_pace() {
    let given = Pace::per_second(core::num::NonZeroU64::new(7).expect("not zero"));
    let mut table = Table::new(8).expect("a width");
    for (name, on, order, pace) in [("a", "00", Order::Scrambled, Some(given)), ("b", "01", Order::External, None)] {
        let (place, next) = (Place::At(prefix(on)), Count::ZERO);
        apply(
            &mut table,
            &Edit::Create {
                name: name.into(),
                suffix: 2,
                place,
                start: Start { next, order, pace, ..Start::default() },
            },
        );
        let made = table.named(name).expect("made");
        assert_eq!((made.order, made.pace), (order, pace.unwrap_or(Pace::for_bits(2))));
    }
    let ordered = |texts: &[&str]| -> Vec<NewRegion> {
        let orders = [Order::External, Order::Scrambled].into_iter().cycle();
        new_regions(texts)
            .into_iter()
            .zip(orders)
            .map(|(new, order)| NewRegion { start: Start { order, ..Start::default() }, ..new })
            .collect()
    };
    apply(&mut table, &Edit::Split { name: "b".into(), by: 2, new_regions: ordered(&["c 01 1", "d 10 1"]) });
    let new_regions = ordered(&["e 00", "f 11 1", "g 01 1"]);
    apply(&mut table, &Edit::Subdivide { name: "a".into(), by: 2, new_regions, reserve_others: true });
    for (name, order, pace) in [
        ("c", Order::External, Pace::for_bits(1)),
        ("d", Order::Scrambled, Pace::for_bits(1)),
        ("e", Order::Scrambled, given),
        ("f", Order::Scrambled, Pace::for_bits(1)),
        ("g", Order::External, Pace::for_bits(1)),
    ] {
        let made = table.named(name).expect("made");
        assert_eq!((made.order, made.pace), (order, pace), "{name}");
    }
}
