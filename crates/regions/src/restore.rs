//! Restores a table from its stored regions, and checks its invariants.

use alloc::{
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use thiserror::Error;

use crate::{
    by_number::ByNumber,
    count::Count,
    join::{InTurn, Join},
    limits::BITS_MAX,
    name::is_table_name,
    names::Names,
    region::{FormerPrefix, Kind, Region, RegionNumber},
    revision::Revision,
    table::Table,
};

/// An error in stored regions.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Damage {
    /// The width is not 1 to 128.
    #[error("identifiers have {bits} bits, but must have 1 to 128")]
    Width {
        /// The width in bits.
        bits: u8,
    },
    /// A region breaks an invariant.
    #[error("region {region:?}: {what}")]
    Region {
        /// The name of the region.
        region: String,
        /// The broken invariant.
        what: &'static str,
    },
}

const TAKEN: &str = "another region has the same number or name";

impl Table {
    /// Creates the table with these regions.
    ///
    /// # Errors
    /// Returns [`Damage`] with a region and the invariant that it breaks.
    pub fn restore(
        bits: u8,
        revision: Revision,
        next_number: RegionNumber,
        regions: impl IntoIterator<Item = impl Into<Arc<Region>>>,
    ) -> Result<Self, Damage> {
        let listed = regions.into_iter().map(Into::into).collect();
        Self::restore_with(&InTurn, bits, revision, next_number, listed)
    }

    /// Like [`restore`](Self::restore), but `join` runs the longest steps.
    ///
    /// # Errors
    /// Fails as [`restore`](Self::restore) does.
    pub fn restore_with(
        join: &impl Join,
        bits: u8,
        revision: Revision,
        next_number: RegionNumber,
        mut listed: Vec<Arc<Region>>,
    ) -> Result<Self, Damage> {
        if !(1..=BITS_MAX).contains(&bits) {
            return Err(Damage::Width { bits });
        }
        // The regions of an image are already in order.
        if !listed.is_sorted_by_key(|region| region.prefix) {
            listed.sort_unstable_by_key(|region| region.prefix);
        }
        let names = || listed.iter().map(Arc::as_ref).collect::<Names>();
        let others = || {
            damage(duplicate(listed.iter(), |region| region.prefix).map(Arc::as_ref), "its prefix exists twice")?;
            let table = Self::empty(bits, revision, next_number);
            table.check_all(&listed)?;
            Ok(table.with(&listed, by_number(&listed)?))
        };
        let (names, table) = join.join(names, others);
        let table = table?.with_names(names);
        damage(table.same_name(), TAKEN)?;
        Ok(table)
    }

    /// Checks every invariant of every region.
    ///
    /// # Errors
    /// Returns [`Damage`] with the first region that breaks an invariant.
    pub fn check(&self) -> Result<(), Damage> {
        let listed: Vec<_> = self.iter_after(None).cloned().collect();
        self.check_all(&listed)
    }

    /// Checks regions in the order of their prefixes.
    fn check_all(&self, listed: &[Arc<Region>]) -> Result<(), Damage> {
        let mut around: Vec<&Region> = Vec::new();
        for (at, region) in listed.iter().enumerate() {
            while around.last().is_some_and(|outer| !region.prefix.starts_with(outer.prefix)) {
                around.pop();
            }
            let inside = first_child(region, listed.get(at + 1..).unwrap_or_default());
            if let Some(what) = self.broken(region, around.last().copied(), inside) {
                return damage(Some(region), what);
            }
            around.push(region);
        }
        Ok(())
    }

    /// Returns the invariant that a region breaks, given the innermost other region around it, and its first subregion.
    fn broken(&self, region: &Region, around: Option<&Region>, inside: Option<&Region>) -> Option<&'static str> {
        if region.number >= self.next_number() {
            return Some("its number has not been assigned yet");
        }
        if region.key_number() > region.number {
            return Some("its order key is that of a later region");
        }
        if !is_table_name(&region.name) {
            return Some("its name is not valid");
        }
        if region.parent() != around.map(|outer| outer.number) {
            return Some("the region around its prefix is not its parent");
        }
        let level = |outer: &Region| u32::from(outer.prefix.len()) + u32::from(outer.sub_bits);
        if around.is_some_and(|outer| level(outer) != u32::from(region.prefix.len())) {
            return Some("its prefix is not k bits longer than its parent's");
        }
        let former = |former: &FormerPrefix| former.prefix != region.prefix && region.prefix.starts_with(former.prefix);
        if !region.past().prefixes.iter().all(former) {
            return Some("its prefix does not begin with one of its former prefixes");
        }
        self.broken_alone(region, inside)
    }

    fn broken_alone(&self, region: &Region, inside: Option<&Region>) -> Option<&'static str> {
        let width = u32::from(region.prefix.len()) + u32::from(region.zone) + u32::from(region.suffix);
        let has_subregions = inside.is_some();
        let zero = region.prefix.zeros(region.sub_bits);
        let zero_taken = region.sub_bits != 0 && inside.is_some_and(|first| first.prefix == zero);
        match region.kind {
            Kind::Closed if region.zone != 0 || region.suffix != 0 => {
                return Some("it is closed but has a zone or suffix");
            }
            Kind::Closed if !zero_taken => return Some("it is closed without an all-zero subregion"),
            Kind::Closed => {}
            _ if width != u32::from(self.bits()) => return Some("p + z + s is not n"),
            Kind::Partial if region.zone < region.sub_bits => return Some("it is partial but z < k"),
            Kind::Partial if zero_taken => return Some("it is partial but has an all-zero subregion"),
            Kind::Partial => {}
            Kind::Open if has_subregions || region.sub_bits != 0 => return Some("it is open but has subregions"),
            Kind::Open => {}
        }
        if region.delegated && (region.kind != Kind::Open || *region.issued != Count::ZERO || region.suffix == 0) {
            return Some("it is delegated but not open, or has no suffix, or has issued suffixes");
        }
        if region.kind != Kind::Open && !has_subregions {
            return Some("it is partial or closed but has no subregions");
        }
        let too_many = *region.issued > region.capacity() && *region.issued != Count::ZERO;
        too_many.then_some("more suffixes are issued than it can hold")
    }
}

/// Returns the first child of a region among the regions after it, in the order of their prefixes. In a damaged table, a
/// region that is not a child may come first.
fn first_child<'l>(region: &Region, mut after: &'l [Arc<Region>]) -> Option<&'l Region> {
    while let Some(next) = after.first().filter(|next| next.prefix.starts_with(region.prefix)) {
        if next.parent() == Some(region.number) {
            return Some(next);
        }
        let end = next.prefix.last_inside();
        after = after.get(after.partition_point(|inner| inner.prefix <= end)..).unwrap_or_default();
    }
    None
}

/// Returns regions by their numbers.
fn by_number(regions: &[Arc<Region>]) -> Result<ByNumber<Arc<Region>>, Damage> {
    let mut numbered = ByNumber::default();
    for region in regions {
        damage(numbered.insert(region.number, region.clone()).as_deref(), TAKEN)?;
    }
    Ok(numbered)
}

/// Fails if there is a region that breaks an invariant.
fn damage(region: Option<&Region>, what: &'static str) -> Result<(), Damage> {
    region.map_or(Ok(()), |region| Err(Damage::Region { region: region.name.to_string(), what }))
}

/// Returns an item with the same key as the one before it.
fn duplicate<T, K: PartialEq>(items: impl Iterator<Item = T>, key: impl Fn(&T) -> K) -> Option<T> {
    let mut before = None;
    items.into_iter().find(|item| {
        let key = Some(key(item));
        let is_same = key == before;
        before = key;
        is_same
    })
}
