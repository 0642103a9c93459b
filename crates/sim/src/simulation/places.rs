//! The spaces and regions of a run, as its clients and its operators know them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::world::Dice;

/// The spaces that every run begins with: a wide one, and one so narrow that regions fill up.
pub(crate) const SPACES: [&str; 2] = ["default", "narrow"];
/// The space with the strict regions.
pub(crate) const STRICT_SPACE: &str = SPACES[0];
/// The strict regions. Requests of both have the same identities.
pub(crate) const STRICT: [&str; 2] = ["invoices", "receipts"];
/// The regions that are drawn from as fast as their pace allows, so that a restore has to skip all that it can.
pub(crate) const RUSHED: [&str; 2] = ["rushed", "rushed-scrambled"];

/// What the operators and the clients know of each other: the spaces and regions that were made.
#[derive(Clone, Debug)]
pub(crate) struct Places(Arc<Mutex<Names>>);

#[derive(Debug)]
struct Names {
    spaces: Vec<String>,
    regions: Vec<Place>,
    /// The first name of a region, by the names that it was given, or may have been given, later.
    origins: HashMap<String, String>,
    made: u64,
}

/// A region by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) space: String,
    pub(crate) region: String,
}

/// How many of the newest regions make half of what is chosen: old ones are closed, full or renamed.
const NEWEST: usize = 8;

impl Default for Places {
    fn default() -> Self {
        let spaces = SPACES.map(str::to_owned).to_vec();
        Self(Arc::new(Mutex::new(Names { spaces, regions: Vec::new(), origins: HashMap::new(), made: 0 })))
    }
}

impl Places {
    /// One of the spaces: most often one of the first two.
    pub(crate) fn space(&self, dice: &Dice) -> String {
        let spaces = &self.lock().spaces;
        let of = if dice.per_mille(600) { &spaces[..SPACES.len()] } else { spaces };
        dice.pick(of).cloned().unwrap_or_default()
    }

    /// A region of any space, or of this one.
    pub(crate) fn region(&self, dice: &Dice, space: Option<&str>) -> Option<Place> {
        let names = self.lock();
        let within = |place: &&Place| space.is_none_or(|space| place.space == space);
        let known: Vec<&Place> = names.regions.iter().filter(within).collect();
        let newest = known.len().saturating_sub(if dice.per_mille(500) { NEWEST } else { known.len() });
        dice.pick(&known[newest..]).map(|place| (*place).clone())
    }

    /// A name that no region of any space has had.
    pub(crate) fn fresh(&self) -> String {
        let mut names = self.lock();
        names.made += 1;
        format!("r{}", names.made)
    }

    /// Takes note of a region that was made.
    pub(crate) fn add(&self, space: &str, region: &str) {
        self.lock().add(space.to_owned(), region.to_owned());
    }

    /// Takes note of a space that is inside of a region.
    pub(crate) fn delegated(&self, space: &str, region: &str) {
        let mut names = self.lock();
        let inner = format!("{space}/{region}");
        if !names.spaces.contains(&inner) {
            names.spaces.push(inner);
        }
    }

    /// Takes note of a name that a region may have from now on, whatever becomes of the edit.
    pub(crate) fn may_be_renamed(&self, old: &str, new: &str) {
        let mut names = self.lock();
        let origin = names.origin(old);
        names.origins.insert(new.to_owned(), origin);
    }

    /// Takes note of a new name, and of what is inside of the region.
    pub(crate) fn renamed(&self, space: &str, old: &str, new: &str) {
        let mut names = self.lock();
        let (from, to) = (format!("{space}/{old}"), format!("{space}/{new}"));
        let moved = |name: &str| {
            let rest = name.strip_prefix(&from).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
            Some(format!("{to}{rest}"))
        };
        let spaces: Vec<String> = names.spaces.iter().filter_map(|name| moved(name)).collect();
        let inside = |place: &Place| Some(Place { space: moved(&place.space)?, region: place.region.clone() });
        let regions: Vec<Place> = names.regions.iter().filter_map(inside).collect();
        names.spaces.extend(spaces);
        names.regions.extend(regions);
        names.add(space.to_owned(), new.to_owned());
    }

    /// The space by the first names of the regions around it: the same for ever.
    pub(crate) fn origin(&self, space: &str) -> String {
        let names = self.lock();
        let first: Vec<String> = space.split('/').map(|name| names.origin(name)).collect();
        first.join("/")
    }

    fn lock(&self) -> MutexGuard<'_, Names> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Names {
    fn add(&mut self, space: String, region: String) {
        let place = Place { space, region };
        if !self.regions.contains(&place) {
            self.regions.push(place);
        }
    }

    fn origin(&self, name: &str) -> String {
        self.origins.get(name).cloned().unwrap_or_else(|| name.to_owned())
    }
}
