//! The ledger of a case: one sequence of positions for all daemons and sources, and every identifier that was granted.
//!
//! All grants of a case come from one sequence, so the kit detects every identifier that a client returns twice, or
//! that was never granted.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Mutex,
};

use kent_ids::{
    Block, ClockSeq, ClusterKey, Format, Id, Node, Position, RegionConstants, Slot, SlotConstants, SlotEpoch, Source,
    Suffixes, Tails, Uid11,
};
use thiserror::Error;

use crate::{log::whole, script::Grant};

/// An identifier without its random tail, which would hide a repeated position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Uuid(u128),
    Uid11(u64),
    Number(u128),
}

/// All identifiers that the daemons of a case granted, and that the client returned.
#[derive(Debug, Default)]
pub struct Ledger {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of positions that were granted.
    next: u64,
    /// The labels of the granted identifiers. Fixed positions can be granted twice.
    granted: HashMap<Key, BTreeSet<String>>,
    /// The identifiers that the client returned, with the request IDs of their commands.
    returned: HashMap<Key, String>,
    /// The blocks that were granted for request IDs.
    requests: HashMap<(String, String), Block>,
}

/// A fault in the identifiers that a client returned.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum BadIds {
    /// The text is not an identifier of the source.
    #[error("{0:?} is not an identifier of this source, in the form that the protocol asks for")]
    NotAnId(String),
    /// No daemon of the kit granted the identifier.
    #[error("no daemon granted {0}")]
    NotGranted(String),
    /// The client has returned the identifier before.
    #[error("{0} was returned twice")]
    Twice(String),
}

/// The default number of the slot or region to which a fencing token belongs.
const SUBJECT: u64 = 3;
/// The fencing token of plain grants.
const TOKEN: u64 = 1;
/// The first position of a case, which is above the fixed positions of scripts.
const FIRST: u64 = 1_000_001;
/// The timestamp at which time-based identifiers begin: 2026-01-01T00:00:00Z. The kit needs no clock, because clients
/// do not read the timestamp of an identifier.
const INSTANT: kent_ids::UnixNanos = kent_ids::UnixNanos::new(1_767_225_600_000_000_000);

impl Ledger {
    /// Grants a block. Fails if the source cannot grant such a block.
    pub(crate) fn grant(
        &self,
        source: &str,
        asked: u64,
        request_id: &str,
        grant: &Grant,
        label: &str,
    ) -> Result<Block, String> {
        let mut state = whole(&self.state);
        let request = (source.to_owned(), request_id.to_owned());
        if !request_id.is_empty()
            && let Some(block) = state.requests.get(&request)
        {
            return Ok(block.clone());
        }
        let count = grant.count.unwrap_or(asked);
        let first = grant.first.unwrap_or(FIRST + state.next);
        let block = block(source, first, count, grant)?;
        if grant.first.is_none() {
            state.next += count;
        }
        block.values(Tails::from_rng(&mut rand::rng()), |values| {
            for value in values {
                let key = key(&block, *value);
                state.granted.entry(key).or_default().insert(label.to_owned());
            }
        });
        if !request_id.is_empty() {
            state.requests.insert(request, block.clone());
        }
        Ok(block)
    }

    /// Records the identifiers that the client returned, and returns the labels of each. An identifier may be returned
    /// again only in the answer to a command with the same nonempty request ID `repeat`.
    ///
    /// # Errors
    ///
    /// Returns [`BadIds`] for the first identifier that the client must not return.
    pub(crate) fn returned(&self, source: &str, ids: &[String], repeat: &str) -> Result<Vec<BTreeSet<String>>, BadIds> {
        let mut state = whole(&self.state);
        let mut labels = Vec::with_capacity(ids.len());
        for text in ids {
            let key = parse(source, text).ok_or_else(|| BadIds::NotAnId(text.clone()))?;
            let label = state.granted.get(&key).cloned().ok_or_else(|| BadIds::NotGranted(text.clone()))?;
            labels.push(label);
            let before = state.returned.insert(key, repeat.to_owned());
            if before.is_some_and(|before| before.is_empty() || before != repeat) {
                return Err(BadIds::Twice(text.clone()));
            }
        }
        Ok(labels)
    }
}

/// Returns whether each identifier is greater than the previous one.
pub(crate) fn ascend(source: &str, ids: &[String]) -> bool {
    let order = |text: &String| match parse(source, text) {
        Some(Key::Uuid(value) | Key::Number(value)) => value,
        // The xids of one millisecond are not ordered.
        Some(Key::Uid11(value)) => u128::from(value >> 22),
        None => 0,
    };
    let strict = !source.starts_with("xid");
    ids.windows(2)
        .all(|pair| if strict { order(&pair[0]) < order(&pair[1]) } else { order(&pair[0]) <= order(&pair[1]) })
}

fn block(source: &str, first: u64, count: u64, grant: &Grant) -> Result<Block, String> {
    let parsed: Source = source.parse().map_err(|error: kent_ids::SourceError| error.to_string())?;
    let (subject, token) = (grant.subject.unwrap_or(SUBJECT), grant.token.unwrap_or(TOKEN));
    let made = match parsed {
        Source::Format(format) => {
            let slot = u8::try_from(subject).ok().and_then(|number| Slot::new(number).ok());
            let slot = slot.ok_or("a slot is 0 to 63")?;
            let start = format.line().floor(INSTANT).ok_or("the format has no such time")?;
            let first = start.checked_add(first.into()).ok_or("beyond the format's line")?;
            let constants = SlotConstants {
                slot,
                epoch: SlotEpoch::new(token),
                node: Node::for_slot(0, slot),
                clock_seq: ClockSeq::from_random(0),
                key: ClusterKey::new([7; 16]),
            };
            Block::slot(format, constants, first, count)
        }
        Source::Series(series) => Block::series(series, ClusterKey::new([7; 16]), Position::new(first.into()), count),
        Source::Layout(_) => return Err("a script has no layouts".to_owned()),
        Source::Region { .. } => {
            let constants = RegionConstants {
                base: 0,
                bits: 64,
                suffix_bits: 64,
                number: subject,
                revision: token,
                suffixes: Suffixes::EVERY,
            };
            Block::region(constants, Position::new(first.into()), count)
        }
    };
    made.map_err(|error| error.to_string())
}

fn key(block: &Block, value: u128) -> Key {
    let tail = block.format().map_or(0, |format| format.tail_bits());
    match block.kind().id(value) {
        Id::Uuid(_) => Key::Uuid(value >> tail),
        Id::Uid11(uid11) => Key::Uid11(uid11.get() >> tail),
        Id::Number { value, .. } => Key::Number(value),
    }
}

/// Parses an identifier in the only form that the protocol allows.
fn parse(source: &str, text: &str) -> Option<Key> {
    if source.starts_with("region:") {
        let value: u128 = text.parse().ok()?;
        return (value.to_string() == text).then_some(Key::Number(value));
    }
    let tail = Format::by_token(source).map_or(0, |format| format.tail_bits());
    if text.len() == 11 {
        return Some(Key::Uid11(Uid11::parse(text).ok()?.get() >> tail));
    }
    let digits: String = text.split('-').collect();
    let groups = text.split('-').map(str::len);
    let is_lower = digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let is_uuid = groups.eq([8, 4, 4, 4, 12]) && is_lower;
    is_uuid.then(|| u128::from_str_radix(&digits, 16).ok()).flatten().map(|value| Key::Uuid(value >> tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(block: &Block) -> Vec<String> {
        block.walk(rand::rng()).map(|id| id.to_string()).collect()
    }

    #[test]
    fn ok_identifiers_are_found_again_with_any_tail_and_never_twice() {
        let ledger = Ledger::default();
        for source in ["uuidv7", "uuidv6", "xid", "region:r", "uid11-fullrand"] {
            let block = ledger.grant(source, 3, "", &Grant::default(), "a").expect(source);
            let ids = texts(&block);
            let labels = ledger.returned(source, &ids, "").expect(source);
            assert_eq!(labels, vec![BTreeSet::from(["a".to_owned()]); 3], "{source}");
            let again = texts(&block)[1].clone();
            assert_eq!(
                ledger.returned(source, std::slice::from_ref(&again), ""),
                Err(BadIds::Twice(again)),
                "{source}"
            );
        }
    }

    #[test]
    fn ok_a_request_id_returns_its_block_again() {
        let ledger = Ledger::default();
        let grant = |id| texts(&ledger.grant("region:r", 2, id, &Grant::default(), "a").expect("granted"));
        let (first, second) = (grant("x"), grant("y"));
        assert_eq!(first, grant("x"));
        assert_ne!(first, second);
        for _ in 0..2 {
            ledger.returned("region:r", &first, "x").expect("a repeat");
        }
        assert!(matches!(ledger.returned("region:r", &first, "y"), Err(BadIds::Twice(_))));
    }

    #[test]
    fn err_other_texts_and_identifiers_of_no_grant() {
        let ledger = Ledger::default();
        for (source, text) in [
            ("region:r", "07"),
            ("region:r", "-1"),
            ("region:r", "x"),
            ("xid", "1"),
            ("uuidv7", "01A1FB46-21BF-7000-8000-3CF49345D9A8"),
            ("uuidv7", "01a1fb4621bf700080003cf49345d9a8"),
        ] {
            assert_eq!(
                ledger.returned(source, &[text.to_owned()], ""),
                Err(BadIds::NotAnId(text.to_owned())),
                "{text}"
            );
        }
        assert_eq!(ledger.returned("region:r", &["7".to_owned()], ""), Err(BadIds::NotGranted("7".to_owned())));
    }

    #[test]
    fn ok_order() {
        let ledger = Ledger::default();
        for source in ["uuidv7", "xid", "region:r"] {
            let mut ids = texts(&ledger.grant(source, 70_000, "", &Grant::default(), "a").expect("granted"));
            assert!(ascend(source, &ids), "{source}");
            ids.reverse();
            assert!(!ascend(source, &ids), "{source}");
        }
    }
}
