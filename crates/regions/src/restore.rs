//! Restores a table from its stored regions, and checks its invariants.

use alloc::{string::String, vec::Vec};

use thiserror::Error;

use crate::{
    count::Count,
    limits::BITS_MAX,
    name::is_table_name,
    prefix::Prefix,
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

impl Table {
    /// Creates the table with these regions.
    ///
    /// # Errors
    /// Returns [`Damage`] with a region and the invariant that it breaks.
    pub fn restore(
        bits: u8,
        revision: Revision,
        next_number: RegionNumber,
        regions: impl IntoIterator<Item = Region>,
    ) -> Result<Self, Damage> {
        if !(1..=BITS_MAX).contains(&bits) {
            return Err(Damage::Width { bits });
        }
        let mut table = Self::empty(bits, revision, next_number);
        for region in regions {
            let damage = |what| Damage::Region { region: region.name.clone(), what };
            if region.number >= next_number {
                return Err(damage("its number has not been assigned yet"));
            }
            if region.key_number > region.number {
                return Err(damage("its order key is that of a later region"));
            }
            if table.get(region.number).is_some() || table.named(&region.name).is_ok() {
                return Err(damage("another region has the same number or name"));
            }
            if table.at(region.prefix).is_some() {
                return Err(damage("its prefix exists twice"));
            }
            table.insert(region);
        }
        table.check()?;
        Ok(table)
    }

    /// Checks every invariant of every region.
    ///
    /// # Errors
    /// Returns [`Damage`] with the first region that breaks an invariant.
    pub fn check(&self) -> Result<(), Damage> {
        let mut around: Vec<&Region> = Vec::new();
        for region in self.iter() {
            while around.last().is_some_and(|outer| !region.prefix.starts_with(outer.prefix)) {
                around.pop();
            }
            let what = self.broken(region, around.last().copied());
            if let Some(what) = what {
                return Err(Damage::Region { region: region.name.clone(), what });
            }
            around.push(region);
        }
        Ok(())
    }

    /// Returns the invariant that a region breaks, given the innermost other region around it.
    fn broken(&self, region: &Region, around: Option<&Region>) -> Option<&'static str> {
        if !is_table_name(&region.name) {
            return Some("its name is not valid");
        }
        if region.parent != around.map(|outer| outer.number) {
            return Some("the region around its prefix is not its parent");
        }
        let level = |outer: &Region| u32::from(outer.prefix.len()) + u32::from(outer.sub_bits);
        if around.is_some_and(|outer| level(outer) != u32::from(region.prefix.len())) {
            return Some("its prefix is not k bits longer than its parent's");
        }
        let former = |former: &FormerPrefix| former.prefix != region.prefix && region.prefix.starts_with(former.prefix);
        if !region.history.iter().all(former) {
            return Some("its prefix does not begin with one of its former prefixes");
        }
        self.broken_alone(region)
    }

    fn broken_alone(&self, region: &Region) -> Option<&'static str> {
        let width = u32::from(region.prefix.len()) + u32::from(region.zone) + u32::from(region.suffix);
        let has_subregions = self.children(region).next().is_some();
        let zero_taken = self.has_zero_child(region);
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
        if region.delegated && (region.kind != Kind::Open || region.issued != Count::ZERO || region.suffix == 0) {
            return Some("it is delegated but not open, or has no suffix, or has issued suffixes");
        }
        if region.kind != Kind::Open && !has_subregions {
            return Some("it is partial or closed but has no subregions");
        }
        let too_many = region.issued > region.capacity() && region.issued != Count::ZERO;
        too_many.then_some("more suffixes are issued than it can hold")
    }

    fn has_zero_child(&self, region: &Region) -> bool {
        let zero: Prefix = region.prefix.zeros(region.sub_bits);
        region.sub_bits != 0 && self.children(region).next().is_some_and(|first| first.prefix == zero)
    }
}
