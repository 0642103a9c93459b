//! Tests of the commands that errors suggest.

use kent_ids::Stride;
use kent_regions::Count;

use super::*;

/// The error for the region `r`, which has issued 14 of its 16 numbers.
fn full(space: &str, requested: u64, cap: Option<u128>, expandable_bits: u8) -> AllocateError {
    AllocateError::Exhausted(Box::new(Exhausted {
        space: space.to_owned(),
        region: "r".to_owned(),
        capacity: Count::Below(cap.unwrap_or(16)),
        is_capped: cap.is_some(),
        reserved: 14,
        requested,
        wanted: requested,
        stride: Stride::EVERY,
        suffix_bits: 4,
        expandable_bits,
    }))
}

#[test]
fn ok_suggested_commands_name_the_space() {
    let unsure = |space: &str| EditError::Unsure { space: space.to_owned(), region: "r".to_owned() }.to_string();
    let refused: [fn(String) -> AllocateError; 6] = [
        |space| AllocateError::Sealed { by: Some(("r".to_owned(), space.clone())), region: "r".to_owned(), space },
        |space| AllocateError::Sealed { by: Some(("eu".to_owned(), space.clone())), region: "r".to_owned(), space },
        |space| AllocateError::Closed { region: "r".to_owned(), heir: Some("r2".to_owned()), space },
        |space| AllocateError::External { region: "r".to_owned(), space },
        |space| AllocateError::Unsure { subject: "it".to_owned(), region: Some(("r".to_owned(), space)) },
        |space| AllocateError::Delegated { region: "r".to_owned(), space },
    ];
    for (at, default, other) in [
        (0, "(kent region unseal r --space default)", "(kent region unseal r --space a/b)"),
        (
            1,
            "until that region is unsealed (kent region unseal eu --space default)",
            "(kent region unseal eu --space a/b)",
        ),
        (2, "(kent alloc region:r2@default)", "(kent alloc region:r2@a/b)"),
        (3, "`kent region id r --space default VALUE`", "`kent region id r --space a/b VALUE`"),
        (4, "(kent region set r --space default --next N,", "(kent region set r --space a/b --next N,"),
        (5, "(kent region ls --space default/r)", "(kent region ls --space a/b/r)"),
    ] {
        for (space, command) in [("default", default), ("a/b", other)] {
            let message = refused[at](space.to_owned()).to_string();
            assert!(message.contains(command), "{message}");
        }
    }
    assert!(unsure("a/b").contains("kent region set r --space a/b --next N"), "{}", unsure("a/b"));
}

#[test]
fn ok_a_full_region_names_the_command_that_makes_it_large_enough() {
    for (error, help) in [
        (full("default", 3, None, 8), "up to 8 bits (ExpandRegion, kent region expand r --space default --by 1)"),
        (full("a/b", 50, None, 8), "kent region expand r --space a/b --by 2)"),
        (full("default", 51, None, 8), "kent region expand r --space default --by 3)"),
        (full("default", 51, None, 2), "it can be expanded by 2 bits only"),
        (full("default", 3, None, 0), "it cannot be expanded further"),
        (full("default", 3, None, 0), "has 2 identifiers left (14 of 16 suffixes are issued or reserved), but 3 were"),
        (
            full("default", 3, Some(15), 8),
            "has 1 identifier left below its cap (14 of 15 suffixes are issued or reserved), but 3 were requested; raise",
        ),
        (full("default", 3, Some(15), 8), "raise the cap (UpdateRegion, kent region set r --space default --cap 17)"),
        (
            full("a/b", 1, Some(14), 0),
            "is at its cap: 14 of 14 suffixes are issued or reserved, and 1 more was requested; raise",
        ),
        (full("a/b", 1, Some(14), 0), "kent region set r --space a/b --cap 15)"),
    ] {
        let message = error.to_string();
        assert!(message.contains(help), "{message}");
        assert!(!message.contains("cap") || !message.contains("expand"), "{message}");
    }
}
