//! The names of the spaces and regions in a run, shared by clients and operators.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::world::Dice;

/// The spaces of every run: a wide one, and one narrow enough for regions to fill up.
pub(crate) const SPACES: [&str; 2] = ["default", "narrow"];
/// The space with the strict regions.
pub(crate) const STRICT_SPACE: &str = SPACES[0];
/// The strict regions. Requests to both use the same request IDs.
pub(crate) const STRICT: [&str; 2] = ["invoices", "receipts"];
/// Regions from which clients take identifiers as fast as the pace allows, so that a restore must skip the maximum
/// number of identifiers.
pub(crate) const RUSHED: [&str; 2] = ["rushed", "rushed-scrambled"];

/// The spaces and regions that exist, shared by operators and clients.
#[derive(Clone, Debug)]
pub(crate) struct Places(Arc<Mutex<Names>>);

#[derive(Debug)]
struct Names {
    spaces: Vec<String>,
    regions: Vec<Place>,
    /// Maps each later name of a region, even from a rename with an unknown outcome, to the region's first name.
    origins: HashMap<String, String>,
    made: u64,
}

/// The names of a region and its space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) space: String,
    pub(crate) region: String,
}

/// Half of all choices are made among this many of the newest regions, because older regions are often closed, full or
/// renamed.
const NEWEST: usize = 8;

impl Default for Places {
    fn default() -> Self {
        let spaces = SPACES.map(str::to_owned).to_vec();
        Self(Arc::new(Mutex::new(Names { spaces, regions: Vec::new(), origins: HashMap::new(), made: 0 })))
    }
}

impl Places {
    /// Returns a random space, usually one of the first two.
    pub(crate) fn space(&self, dice: &Dice) -> String {
        let spaces = &self.lock().spaces;
        let of = if dice.per_mille(600) { &spaces[..SPACES.len()] } else { spaces };
        dice.pick(of).cloned().unwrap_or_default()
    }

    /// Returns a random region of this space, or of any space.
    pub(crate) fn region(&self, dice: &Dice, space: Option<&str>) -> Option<Place> {
        let names = self.lock();
        let within = |place: &&Place| space.is_none_or(|space| place.space == space);
        let known: Vec<&Place> = names.regions.iter().filter(within).collect();
        let newest = known.len().saturating_sub(if dice.per_mille(500) { NEWEST } else { known.len() });
        dice.pick(&known[newest..]).map(|place| (*place).clone())
    }

    /// Returns a name that no region of any space has ever had.
    pub(crate) fn fresh(&self) -> String {
        let mut names = self.lock();
        names.made += 1;
        format!("r{}", names.made)
    }

    /// Records a created region.
    pub(crate) fn add(&self, space: &str, region: &str) {
        self.lock().add(space.to_owned(), region.to_owned());
    }

    /// Records that a region is deleted. Clients that know an old name of the region still request identifiers from it.
    pub(crate) fn deleted(&self, space: &str, region: &str) {
        self.lock().regions.retain(|place| (place.space.as_str(), place.region.as_str()) != (space, region));
    }

    /// Records the space of a delegated region.
    pub(crate) fn delegated(&self, space: &str, region: &str) {
        self.add_space(&format!("{space}/{region}"));
    }

    /// Records a created space.
    pub(crate) fn add_space(&self, space: &str) {
        let mut names = self.lock();
        if !names.spaces.iter().any(|known| known == space) {
            names.spaces.push(space.to_owned());
        }
    }

    /// Records the new name of a region before the rename is sent, because the outcome may stay unknown.
    pub(crate) fn may_be_renamed(&self, old: &str, new: &str) {
        let mut names = self.lock();
        let origin = names.origin(old);
        names.origins.insert(new.to_owned(), origin);
    }

    /// Records a rename, which also renames the spaces inside the region.
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

    /// Returns the name of a space with each region in it replaced by the region's first name. The result is the same
    /// after a rename.
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
