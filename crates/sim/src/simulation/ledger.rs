//! Records every grant and checks that it keeps the promises.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    time::Duration,
};

use kent_ids::{Block, ClusterKey, Id, Suffixes, UnixNanos, unscramble};
use kent_regions::{Kind, Order, Region, RegionNumber, Status, Table};
use rand::rngs::StdRng;

/// All grants of a run.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The granted identifiers by sequence, without their random tails, which would hide a position granted twice.
    seen: HashSet<(String, u128)>,
    /// The clock epoch and the last granted position, by daemon process and source.
    last: HashMap<(u64, String), (u64, u128)>,
    /// The identifiers granted from regions: space, region number, identifier.
    issued: Vec<(String, u64, u128)>,
    /// The identifiers that a space counts as issued because its regions were imported: space, region number,
    /// identifier.
    inherited: Vec<(String, u64, u128)>,
    /// The keys of scrambled orders, by space and region.
    keys: HashMap<(String, u64), ClusterKey>,
    /// Grants of strict regions, by region and request ID.
    strict: BTreeMap<(u64, String), (u128, u128)>,
    /// Grants of strict regions in lost stores. A repeated request may get the same grant or a new one.
    lost: HashSet<(u64, String, u128, u128)>,
    /// The gapless runs of numbers of strict regions: the start, and the end if a restore ended the run.
    runs: BTreeMap<u64, Vec<(u128, Option<u128>)>>,
    /// A checksum of all events in order. The checksum must be equal in two runs of the same seed.
    digest: u64,
    pub(crate) identifiers: u64,
}

/// A granted block.
pub(crate) struct Grant<'a> {
    pub(crate) source: &'a str,
    /// The space's name from `Places::origin`, which a rename does not change.
    pub(crate) space: &'a str,
    pub(crate) block: &'a Block,
    pub(crate) clock_epoch: u64,
    /// The number of the daemon process that granted the block.
    pub(crate) life: u64,
    /// The time that the daemon used for the grant. `None` while its clock was quarantined and it had no time to use
    /// instead.
    pub(crate) now: Option<UnixNanos>,
    pub(crate) request_id: &'a str,
}

/// The identifiers that a space had issued by some moment.
#[derive(Debug)]
pub(crate) struct Issued {
    all: Vec<u128>,
    /// The identifiers whose owners are known, each with the number of the region.
    owned: Vec<(u64, u128)>,
}

const MAX_AHEAD: Duration = Duration::from_secs(1);
const TOLERANCE: Duration = Duration::from_millis(500);

impl Ledger {
    /// Records a block. The error names the broken promise.
    pub(crate) fn record(&mut self, grant: &Grant<'_>, rng: StdRng) -> Result<(), String> {
        let Grant { source, block, .. } = grant;
        self.digest(block.first().get() as u64 ^ block.count());
        if let Some(region) = block.region_constants().filter(|_| !grant.request_id.is_empty()) {
            let answer = run_of(block);
            if self.lost.contains(&(region.number, grant.request_id.to_owned(), answer.0, answer.1)) {
                return Ok(());
            }
            match self.strict.insert((region.number, grant.request_id.to_owned()), answer) {
                // A repeated request must get the same block.
                Some(before) if before == answer => return Ok(()),
                Some(before) => return Err(format!("{}: granted {before:?} and then {answer:?}", grant.request_id)),
                None => {}
            }
        }
        self.check_order(grant)?;
        self.check_time(grant)?;
        let (sequence, tail) = match block.format() {
            Some(format) => (format.sequence_key().to_owned(), format.tail_bits()),
            None if block.region_constants().is_some() => (format!("space {}", grant.space), 0),
            None => ((*source).to_owned(), 0),
        };
        let mut before = None;
        for id in block.walk(rng) {
            let essence = essence(source, id) >> tail;
            self.identifiers += 1;
            if !self.seen.insert((sequence.clone(), essence)) {
                return Err(format!("P1: {id} of {source} was granted twice"));
            }
            if let Some(region) = block.region_constants() {
                if let Suffixes::Scrambled(key) = region.suffixes {
                    self.keys.insert((grant.space.to_owned(), region.number), key);
                }
                self.issued.push((grant.space.to_owned(), region.number, id.to_u128()));
            }
            if before.is_some_and(|before| before >= id.to_u128()) && ascends(source, block) {
                return Err(format!("P3: {id} of {source} does not ascend in its block"));
            }
            before = Some(id.to_u128());
        }
        Ok(())
    }

    fn check_order(&mut self, grant: &Grant<'_>) -> Result<(), String> {
        let (first, last) = run_of(grant.block);
        let key = (grant.life, grant.source.to_owned());
        let before = self.last.insert(key, (grant.clock_epoch, last));
        // A strict region may repeat an earlier grant.
        let ordered = grant.request_id.is_empty() && before.is_some_and(|(epoch, _)| epoch == grant.clock_epoch);
        match before {
            Some((_, before)) if ordered && before >= first => {
                Err(format!("P3: {} went from {before} to {first} in one clock epoch", grant.source))
            }
            _ => Ok(()),
        }
    }

    fn check_time(&self, grant: &Grant<'_>) -> Result<(), String> {
        let (Some(format), Some(now)) = (grant.block.format(), grant.now) else { return Ok(()) };
        let line = format.line();
        let tick = i128::from(line.tick_nanos());
        let (first, last) = (line.instant(grant.block.first()).get(), line.instant(grant.block.last()).get());
        let nanos = |duration: Duration| duration.as_nanos() as i128;
        if last > now.get() + nanos(MAX_AHEAD) {
            return Err(format!("P4: {} is {} ns ahead", grant.source, last - now.get()));
        }
        if first + tick + nanos(TOLERANCE) < now.get() {
            return Err(format!("P4: {} is {} ns behind", grant.source, now.get() - first));
        }
        Ok(())
    }

    /// Records the loss of the store. No identifier may be granted twice even then, but the owners of identifiers may
    /// change, and strict grants since the backup are lost.
    pub(crate) fn lose(&mut self) {
        self.issued.clear();
        self.inherited.clear();
        let strict = std::mem::take(&mut self.strict);
        self.lost.extend(strict.into_iter().map(|((region, id), (first, count))| (region, id, first, count)));
    }

    /// Returns the identifier after the highest one granted in the range of 2^`bits` identifiers that starts at `base`.
    pub(crate) fn next_in(&self, space: &str, base: u128, bits: u8) -> u128 {
        let (sequence, end) = (format!("space {space}"), base + (1 << bits));
        let within = |(of, id): &&(String, u128)| *of == sequence && (base..end).contains(id);
        self.seen.iter().filter(within).map(|(_, id)| id + 1).max().unwrap_or(base)
    }

    /// Returns the identifiers that a space has issued or inherited so far.
    pub(crate) fn issued_from(&self, space: &str) -> Issued {
        let sequence = format!("space {space}");
        let all = self.seen.iter().filter(|(of, _)| *of == sequence).map(|(_, id)| *id).collect();
        let owned = self.issued.iter().chain(&self.inherited).filter(|(of, ..)| of == space);
        Issued { all, owned: owned.map(|(_, number, id)| (*number, *id)).collect() }
    }

    /// Records that a space must issue none of these identifiers, because it has imported the regions that issued them.
    /// `numbers` maps each of these regions to its new number. Fails if a region is missing.
    pub(crate) fn inherit(&mut self, space: &str, issued: &Issued, numbers: &HashMap<u64, u64>) -> Result<(), String> {
        let sequence = format!("space {space}");
        self.seen.extend(issued.all.iter().map(|id| (sequence.clone(), *id)));
        for (number, id) in &issued.owned {
            let imported =
                numbers.get(number).ok_or_else(|| format!("region {number}, which issued {id}, is missing"))?;
            self.inherited.push((space.to_owned(), *imported, *id));
        }
        Ok(())
    }

    /// Checks P2: every identifier still belongs to the region that issued it, or to its heir.
    pub(crate) fn check_owners(&self, space: &str, table: &Table) -> Result<(), String> {
        let issued = self.issued.iter().map(|issued| (issued, false));
        let inherited = self.inherited.iter().map(|inherited| (inherited, true));
        for ((_, number, id), is_inherited) in issued.chain(inherited).filter(|((of, ..), _)| of == space) {
            let found = table.classify(*id).ok_or_else(|| format!("P2: {id} is not an identifier of space {space}"))?;
            let Some(owner) = table.get(RegionNumber(*number)) else {
                return Err(format!("P2: region {number} of {space} is gone"));
            };
            let heir = heir(table, owner);
            let last = found.path.last().map(|region| region.number);
            if last != Some(heir.number) {
                return Err(format!("P2: {id} of {} belongs to {last:?} now", owner.name));
            }
            let issued = match found.status {
                // A scrambled order keeps each suffix in its octave, whatever its key, and an imported counter starts
                // after a complete octave.
                Status::Member { suffix, .. } if is_inherited => heir.issued.includes(suffix),
                Status::Member { suffix, .. } if heir.order == Order::Scrambled => {
                    let key = |number| self.keys.get(&(space.to_owned(), number));
                    if key(heir.number.0).is_some_and(|own| key(*number) != Some(own)) {
                        return Err(format!("P1: {} continues {} in another order", heir.name, owner.name));
                    }
                    key(*number).is_some_and(|key| heir.issued.includes(unscramble(key, suffix)))
                }
                // The region may have got a step since, to which the suffix does not belong.
                Status::Member { suffix, .. } => heir.issued.includes(suffix),
                _ => false,
            };
            if !issued {
                return Err(format!("P2: {id} of {} does not count as issued: {:?}", owner.name, found.status));
            }
        }
        Ok(())
    }

    /// Checks P1 for the space of a delegated region: its identifiers must not also have been granted from the region
    /// in the outer space.
    pub(crate) fn check_inside(&self, outer: &str, inner: &str, base: u128) -> Result<(), String> {
        let (outer, inner) = (format!("space {outer}"), format!("space {inner}"));
        let duplicate = |(of, id): &&(String, u128)| *of == inner && self.seen.contains(&(outer.clone(), base + id));
        match self.seen.iter().filter(duplicate).map(|(_, id)| *id).min() {
            None => Ok(()),
            Some(id) => Err(format!("P1: {id} of {inner} was also granted from the region itself")),
        }
    }

    /// Records that a strict region was restored to a state in which its next number was `from`, and continues at `to`.
    pub(crate) fn skip(&mut self, region: RegionNumber, from: u128, to: Option<u128>) {
        let runs = self.runs.entry(region.0).or_insert_with(|| vec![(0, None)]);
        runs.retain(|(first, _)| *first < from);
        if let Some((_, end)) = runs.last_mut() {
            *end = Some(end.unwrap_or(from).min(from));
        }
        runs.extend(to.map(|to| (to, None)));
    }

    /// Checks that the numbers of a strict region have no gaps within each run, and that the counter matches.
    pub(crate) fn check_strict(&self, region: &Region) -> Result<(), String> {
        let (number, whole) = (region.number.0, vec![(0, None)]);
        let runs = self.runs.get(&number).unwrap_or(&whole);
        let of_store: BTreeSet<(u128, u128)> =
            self.strict.iter().filter(|((of, _), _)| *of == number).map(|(_, answer)| *answer).collect();
        let lost = self.lost.iter().filter(|(of, ..)| *of == number).map(|(_, _, first, last)| (*first, *last));
        let all: BTreeSet<(u128, u128)> = of_store.iter().copied().chain(lost).collect();
        let within =
            |first: u128, (begin, end): (u128, Option<u128>)| first >= begin && end.is_none_or(|end| first < end);
        if let Some((first, _)) = of_store.iter().find(|(first, _)| !runs.iter().any(|run| within(*first, *run))) {
            return Err(format!("a strict region granted {first}, which the restore skipped: {runs:?}"));
        }
        for run in runs {
            let mut next = run.0;
            for (first, last) in all.iter().filter(|(first, _)| within(*first, *run)) {
                if *first != next {
                    return Err(format!("the numbers of a strict region jump from {next} to {first}: {runs:?}"));
                }
                next = last + 1;
            }
            let end = run.1.map_or(region.issued.get(), Some);
            if end != Some(next) {
                return Err(format!("a strict region's counter is {end:?}, but its grants end at {next}: {runs:?}"));
            }
        }
        Ok(())
    }

    /// Adds an event to the checksum.
    pub(crate) fn digest(&mut self, event: u64) {
        self.digest = (self.digest.rotate_left(5) ^ event).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    pub(crate) const fn sum(&self) -> u64 {
        self.digest
    }
}

/// Returns the region that owns the identifiers of a closed region: its innermost descendant whose extensions are all
/// zeros.
fn heir<'t>(table: &'t Table, region: &'t Region) -> &'t Region {
    let mut heir = region;
    let mut inside = VecDeque::from([region]);
    while let Some(region) = inside.pop_front() {
        heir = region;
        if region.kind == Kind::Closed {
            // The first subregion is the one whose extension is all zeros.
            inside.extend(table.children(region).next());
        }
    }
    heir
}

/// Returns the first and the last position of a block or, if a region counts its suffixes, the first and the last suffix.
fn run_of(block: &Block) -> (u128, u128) {
    let (first, last) = (block.first().get(), block.last().get());
    match block.region_constants().map(|constants| constants.suffixes) {
        // OK because all suffixes of a block fit.
        Some(Suffixes::Counted(stride)) => {
            (stride.number(first).unwrap_or(u128::MAX), stride.number(last).unwrap_or(u128::MAX))
        }
        _ => (first, last),
    }
}

/// Returns whether the identifiers of a block ascend in byte order.
fn ascends(source: &str, block: &Block) -> bool {
    match block.region_constants() {
        Some(region) => matches!(region.suffixes, Suffixes::Counted(_)),
        None => source.starts_with("uuidv7") || ["uuidv6", "uuidv8-draft01-32", "uid11-snowish"].contains(&source),
    }
}

/// Returns the value to compare for uniqueness. Versions 1 and 6 share a sequence, so version 1 is mapped to version 6.
fn essence(source: &str, id: Id) -> u128 {
    let value = id.to_u128();
    if source != "uuidv1" {
        return value;
    }
    let ticks = (value >> 64 & 0xfff) << 48 | (value >> 80 & 0xffff) << 32 | value >> 96;
    (ticks >> 12) << 80 | 6 << 76 | (ticks & 0xfff) << 64 | value & u128::from(u64::MAX)
}
