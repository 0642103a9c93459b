//! Layouts of well-known projects, with the text form of their identifiers.
//!
//! A preset has the project's fields, so the project's readers find the time, the machine and the counter where they
//! expect them. If a project has no machine number or draws random bits, Kent uses bits of the sequence or random bits
//! for the slot and a counter. The tests check the identifiers in `preset/vectors.tsv`, which come from the projects'
//! libraries or documents, or were computed by their formulas.

use alloc::{string::String, vec::Vec};

use thiserror::Error;

use super::{Layout, LayoutError, LayoutField, Spelling, SpellingError, field::FieldKind};
use crate::time::{NANOS_PER_SECOND, UnixNanos};

/// The layout and the text form of a project's identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Preset {
    /// The name.
    pub name: &'static str,
    /// The text of the layout.
    pub fields: &'static str,
    /// The text of the spelling.
    pub text: &'static str,
    /// A description for people: the project, and how Kent uses its fields.
    pub about: &'static str,
    /// Whether a type and an underscore may come before the text, as in TypeID.
    pub has_type: bool,
}

const TWITTER: &str = "zero:1 time:41:1ms@2010-11-04T01:42:54.657Z slot:10 counter:12";

/// Every preset, in the order in which listings show them.
static PRESETS: [Preset; 14] = [
    Preset {
        name: "snowflake-twitter",
        fields: TWITTER,
        text: "decimal",
        about: "Twitter's Snowflake; the slot takes the place of the data center (5 bits) and the worker (5 bits)",
        has_type: false,
    },
    Preset {
        name: "snowflake-discord",
        fields: "time:42:1ms@2015-01-01 slot:10 counter:12",
        text: "decimal",
        about: "Discord's Snowflake; the slot takes the place of the worker (5 bits) and the process (5 bits)",
        has_type: false,
    },
    Preset {
        name: "snowflake-instagram",
        fields: "time:41:1ms@2011-08-24T21:07:01.721Z shard:13 slot:6 counter:4",
        text: "decimal",
        about: "Instagram's identifiers; the request supplies the logical shard, and the slot and the counter share the 10 bits of the sequence",
        has_type: false,
    },
    Preset {
        name: "snowflake-mastodon",
        fields: "time:48:1ms@1970-01-01 slot:6 counter:10",
        text: "decimal",
        about: "Mastodon's identifiers; slot and counter share the 16 bits that Mastodon derives from a hash and a sequence",
        has_type: false,
    },
    Preset {
        name: "sonyflake",
        fields: "zero:1 time:39:10ms@2014-09-01 counter:8 slot:16",
        text: "decimal",
        about: "Sonyflake with the default settings; the slot is the machine ID",
        has_type: false,
    },
    Preset {
        name: "baidu-uid",
        fields: "zero:1 time:28:1s@2016-05-19T16:00:00Z slot:22 counter:13",
        text: "decimal",
        about: "Baidu's uid-generator with the default settings, whose time ended in November 2024: set a later epoch",
        has_type: false,
    },
    Preset {
        name: "leaf-snowflake",
        fields: TWITTER,
        text: "decimal",
        about: "Leaf in Snowflake mode with the default epoch, which is Twitter's; the slot is the worker ID",
        has_type: false,
    },
    Preset {
        name: "tsid",
        fields: "time:42:1ms@2020-01-01 slot:10 counter:12",
        text: "crockford",
        about: "TSID with 10 bits of node, as in tsid-creator; the slot is the node",
        has_type: false,
    },
    Preset {
        name: "ulid",
        fields: "time:48:1ms@1970-01-01 counter:22 slot:6 random:52",
        text: "crockford",
        about: "ULID, monotonic within a block; a counter and the slot replace the first 28 of the 80 random bits",
        has_type: false,
    },
    Preset {
        name: "objectid",
        fields: "time:32:1s@1970-01-01 slot:40 counter:24",
        text: "hex",
        about: "MongoDB's ObjectId; the slot takes the place of the 5 random bytes of a driver's process",
        has_type: false,
    },
    Preset {
        name: "ksuid-128",
        fields: "time:32:1s@2014-05-13T16:53:20Z counter:26 slot:6 random:64",
        text: "base62",
        about: "the time and the digits of a KSUID in 128 bits; readers of KSUIDs, which have 160 bits, do not accept it",
        has_type: false,
    },
    Preset {
        name: "rs-xid",
        fields: "time:32:1s@1970-01-01 slot:40 counter:24",
        text: "base32hex",
        about: "the identifiers of the Go library rs/xid; the slot is the machine and the process",
        has_type: false,
    },
    Preset {
        name: "pushid",
        fields: "time:48:1ms@1970-01-01 counter:22 slot:6 random:44",
        text: "push64",
        about: "Firebase's push IDs; a counter and the slot replace the first 28 of the 72 random bits",
        has_type: false,
    },
    Preset {
        name: "typeid",
        fields: "time:48:1ms@1970-01-01 const:4:7 counter:12 const:2:2 slot:6 random:56",
        text: "crockford-lower",
        about: "TypeID: a UUID of version 7 in base 32, usually after a type, as in prefix:order_",
        has_type: true,
    },
];

/// An error from looking up or changing a [`Preset`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PresetError {
    /// No preset has this name.
    #[error("there is no preset {name:?}: use one of {}", names())]
    Unknown {
        /// The name.
        name: String,
    },
    /// The identifiers of this project are wider than a layout can be.
    #[error("{name} is too wide: it has {bits} bits, but an identifier has at most 128; use {instead}")]
    TooWide {
        /// The name.
        name: &'static str,
        /// The width of the project's identifiers in bits.
        bits: u32,
        /// A similar preset.
        instead: &'static str,
    },
}

fn names() -> String {
    PRESETS.each_ref().map(|preset| preset.name).join(", ")
}

impl Preset {
    /// Returns every preset.
    pub fn all() -> impl ExactSizeIterator<Item = &'static Self> {
        PRESETS.iter()
    }

    /// Returns the preset with this name.
    ///
    /// # Errors
    ///
    /// Fails with [`PresetError::TooWide`] for `ksuid`, and with [`PresetError::Unknown`] for any other name.
    pub fn by_name(name: &str) -> Result<&'static Self, PresetError> {
        match Self::all().find(|preset| preset.name == name) {
            Some(preset) => Ok(preset),
            None if name == "ksuid" => Err(PresetError::TooWide { name: "ksuid", bits: 160, instead: "ksuid-128" }),
            None => Err(PresetError::Unknown { name: name.chars().take(80).collect() }),
        }
    }

    /// Returns the layout, with another epoch if `epoch` is given. Many of the projects let their users choose the
    /// epoch.
    ///
    /// # Errors
    ///
    /// Fails with [`LayoutError::EpochNotWhole`] or [`LayoutError::EpochRange`] for an epoch that the layout cannot
    /// have. Without an `epoch`, it never fails.
    pub fn layout(&self, epoch: Option<UnixNanos>) -> Result<Layout, LayoutError> {
        let layout: Layout = self.fields.parse()?;
        let Some(since) = epoch else { return Ok(layout) };
        let fields = layout.fields().iter().map(|field| match field.kind {
            FieldKind::Time { tick_nanos, .. } => {
                LayoutField { kind: FieldKind::Time { tick_nanos, epoch: since }, ..*field }
            }
            _ => *field,
        });
        Layout::new(fields.collect::<Vec<_>>())
    }

    /// Returns the spelling, without a prefix.
    ///
    /// # Errors
    ///
    /// Never fails for a preset of [`Preset::all`].
    pub fn spelling(&self) -> Result<Spelling, SpellingError> {
        self.text.parse()
    }
}

/// Returns whether a string is a valid type of a TypeID.
fn is_type(kind: &str) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_lowercase);
    let bytes = kind.as_bytes();
    bytes.len() <= 63
        && ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_lowercase() || *byte == b'_')
}

/// An identifier of unknown format, read with the layout of one preset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit<'l> {
    /// The name of the preset that the identifier fits.
    pub preset: &'static str,
    /// The identifier as a number.
    pub value: u128,
    /// The preset's layout, which reads the fields.
    pub layout: &'l Layout,
    /// The time that the identifier has in this preset.
    pub time: UnixNanos,
    /// The number of decimal places of the time's seconds.
    pub digits: u32,
}

/// An identifier is plausible only if its time is at least this long after the preset's epoch, because small numbers
/// fit every preset.
const MIN_AGE_NANOS: i128 = 86_400 * NANOS_PER_SECOND;

/// All presets with their layouts and spellings. Parsing these takes microseconds, so a program that reads many
/// identifiers parses them once.
#[derive(Clone, Debug)]
pub struct Presets(Vec<Parsed>);

#[derive(Clone, Debug)]
struct Parsed {
    preset: &'static Preset,
    layout: Layout,
    spelling: Spelling,
}

impl Presets {
    /// Parses the layouts and spellings of all presets.
    pub fn parse() -> Self {
        let parsed = |preset: &'static Preset| {
            Some(Parsed { preset, layout: preset.layout(None).ok()?, spelling: preset.spelling().ok()? })
        };
        Self(Preset::all().filter_map(parsed).collect())
    }

    /// Returns the presets that an identifier of unknown format fits, each with the time that the identifier would have
    /// in the preset. The time must be at least a day after the epoch of the preset, and not after `until`.
    pub fn fits<'l>(&'l self, text: &str, until: UnixNanos) -> impl Iterator<Item = Fit<'l>> {
        let is_plausible = move |fit: &Fit<'l>| {
            let begins = fit.layout.time_of(0).map(|epoch| epoch.offset(MIN_AGE_NANOS));
            begins.is_some_and(|begins| begins <= fit.time) && fit.time <= until
        };
        self.0.iter().filter_map(|parsed| parsed.read(text)).filter(is_plausible)
    }
}

impl Parsed {
    /// Reads a string as an identifier of this preset; returns `None` if it does not fit.
    fn read(&self, text: &str) -> Option<Fit<'_>> {
        let Self { preset, layout, spelling } = self;
        let text = match text.rsplit_once('_') {
            Some((kind, suffix)) if preset.has_type && is_type(kind) => suffix,
            _ => text,
        };
        let value = spelling.parse(text, layout.bits()).ok().filter(|value| layout.fits(*value))?;
        let (time, digits) = (layout.time_of(value)?, layout.time_digits());
        Some(Fit { preset: preset.name, value, layout, time, digits })
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeSet, format, string::ToString};

    use proptest::prelude::*;

    use super::*;
    use crate::{
        Block, ClockSeq, ClusterKey, Node, Position, Slot, SlotConstants, SlotEpoch,
        block::tests::Seeded,
        layout::{Granted, LayoutConstants},
    };

    /// Identifiers of the projects, one per line: the name of a preset, the text, the value in hexadecimal, the time,
    /// fields as `name=value`, and the source.
    const VECTORS: &str = include_str!("preset/vectors.tsv");
    /// 2100-01-01T00:00:00Z.
    const END: UnixNanos = UnixNanos::new(4_102_444_800 * NANOS_PER_SECOND);

    fn layout_of(preset: &Preset) -> Layout {
        preset.layout(None).unwrap_or_else(|error| panic!("{}: {error}", preset.name))
    }

    fn spelling_of(preset: &Preset) -> Spelling {
        preset.spelling().unwrap_or_else(|error| panic!("{}: {error}", preset.name))
    }

    #[test]
    fn ok_the_projects_own_identifiers() {
        let mut checked = BTreeSet::new();
        for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
            let [name, text, hex, time, fields, _source] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("not a vector: {line}")
            };
            let preset = Preset::by_name(name).expect(name);
            let (layout, mut spelling) = (layout_of(preset), spelling_of(preset));
            if let (true, Some((kind, _))) = (preset.has_type, text.rsplit_once('_')) {
                spelling = spelling.with_prefix(&format!("{kind}_")).expect(kind);
            }
            let value = spelling.parse(text, layout.bits()).expect(text);
            assert_eq!(format!("{value:x}"), hex, "{text}");
            assert_eq!(spelling.text(value, layout.bits()), text);
            let (at, digits) = (layout.time_of(value).expect("a time"), layout.time_digits());
            assert_eq!(at.rfc3339(digits).as_deref(), Some(time), "{text}");
            let read = layout.read(value).expect(text);
            for (field, expected) in fields.split(' ').filter_map(|field| field.split_once('=')) {
                let found = read.iter().find(|found| found.name == field).expect(field);
                assert_eq!(
                    found.value,
                    crate::FieldValue::Large(expected.parse().expect("a number")),
                    "{text}: {field}"
                );
            }
            let presets = Presets::parse();
            let found: Vec<Fit<'_>> = presets.fits(text, END).collect();
            assert!(
                found.iter().any(|fit| fit.preset == name && fit.value == value && fit.time == at),
                "{text}: {found:?}"
            );
            checked.insert(name);
        }
        assert!(checked.into_iter().eq(Preset::all().map(|preset| preset.name).collect::<BTreeSet<_>>()));
    }

    #[test]
    fn ok_presets_are_layouts_that_hold_every_slot() {
        // 2026-11-25T00:00:00Z.
        let now = UnixNanos::new(1_795_564_800 * NANOS_PER_SECOND);
        for preset in Preset::all() {
            let (layout, spelling) = (layout_of(preset), spelling_of(preset));
            assert_eq!((layout.to_string().as_str(), spelling.to_string().as_str()), (preset.fields, preset.text));
            assert_eq!(spelling.check_bits(layout.bits()), Ok(()));
            assert_eq!(layout.ascends(), super::super::Ascends::Always, "{}", preset.name);
            assert_eq!(layout.check(Slot::COUNT, now).is_ok(), preset.name != "baidu-uid", "{}", preset.name);
            assert_eq!(Preset::all().filter(|other| other.name == preset.name).count(), 1);
        }
        let later = UnixNanos::new(1_767_225_600 * NANOS_PER_SECOND);
        let baidu = Preset::by_name("baidu-uid").map(|preset| preset.layout(Some(later))).expect("a preset");
        let baidu = baidu.expect("whole seconds");
        assert_eq!(baidu.to_string(), "zero:1 time:28:1s@2026-01-01 slot:22 counter:13");
        assert!(baidu.check(Slot::COUNT, now).is_ok());
    }

    #[test]
    fn err_names_that_are_not_presets() {
        let error = Preset::by_name("ksuid").expect_err("160 bits").to_string();
        assert_eq!(error, "ksuid is too wide: it has 160 bits, but an identifier has at most 128; use ksuid-128");
        let error = Preset::by_name("Ulid").expect_err("upper case").to_string();
        assert!(
            error.starts_with("there is no preset \"Ulid\": use one of snowflake-twitter, snowflake-discord, "),
            "{error}"
        );
    }

    #[test]
    fn ok_an_unknown_identifier_may_fit_several_presets() {
        let presets = Presets::parse();
        let names = |text: &str| presets.fits(text, END).map(|fit| fit.preset).collect::<Vec<_>>();
        assert_eq!(
            names("175928847299117063"),
            [
                "snowflake-twitter",
                "snowflake-discord",
                "snowflake-instagram",
                "snowflake-mastodon",
                "sonyflake",
                "baidu-uid",
                "leaf-snowflake"
            ]
        );
        assert_eq!(names("01ARZ3NDEKTSV4RRFFQ69G5FAV"), ["ulid"]);
        assert_eq!(names("order_01hf7yat3ve0080180000002nw"), ["typeid"]);
        for text in ["", "7", "orders", "Order_01hf7yat3ve0080180000002nw", "_01hf7yat3ve0080180000002nw"] {
            assert_eq!(names(text), [""; 0], "{text}");
        }
    }

    proptest! {
        #[test]
        fn ok_presets_issue_identifiers_that_fit_them(
            preset in prop::sample::select(Preset::all().collect::<Vec<_>>()),
            (number, random, second) in (0..Slot::COUNT, any::<u64>(), 1_600_000_000..1_700_000_000_i128),
        ) {
            let (layout, spelling) = (layout_of(preset), spelling_of(preset));
            let slot = Slot::new(number).expect("a slot");
            let granted = Granted::Slot(SlotConstants {
                slot,
                epoch: SlotEpoch::new(1),
                node: Node::for_slot(0, slot),
                clock_seq: ClockSeq::from_random(0),
                key: ClusterKey::new([0; 16]),
            });
            let now = UnixNanos::new(second * NANOS_PER_SECOND);
            let first = layout.line().and_then(|line| line.floor(now)).expect("inside the layout");
            let constants = LayoutConstants { layout: layout.clone(), granted, tag: 0 };
            let block = Block::layout(constants, Position::new(first.get()), 100).expect("inside the layout");
            for id in block.walk(Seeded(random)) {
                let text = spelling.text(id.to_u128(), layout.bits());
                prop_assert_eq!(spelling.parse(&text, layout.bits()), Ok(id.to_u128()));
                prop_assert!(Presets::parse().fits(&text, END).any(|fit| fit.preset == preset.name && fit.time >= now));
            }
        }

        #[test]
        fn ok_no_text_panics(text: String, more in "[-0-9a-zA-Z_]{0,40}") {
            let presets = Presets::parse();
            presets.fits(&text, END).for_each(drop);
            presets.fits(&more, END).for_each(drop);
        }
    }
}
