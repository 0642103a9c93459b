//! Lists a table in parts, because grants need its lock. Edits that happen meanwhile are added at the end.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use kent_proto::stored::{ImageFacts, ImageRegion};
use kent_regions::{Plan, Prefix, Region, RegionNumber, Revision, Table};
use tokio::task;

use super::{Progress, Space, State};

/// The number of regions to list while their lock is held. Each of them may be a cache miss or two.
const REGIONS_PER_LOCK: usize = 128;
/// The number of edits whose regions are known.
const EDITS_MAX: usize = 4096;
/// The maximum number of attempts to list a table in parts. If more edits happen each time than are known, the table is
/// listed as a whole.
const ATTEMPTS: usize = 3;

/// The regions that the last edits of a table have created, changed or deleted.
#[derive(Debug, Default)]
pub(super) struct RecentEdits(VecDeque<(Revision, Vec<RegionNumber>)>);

impl RecentEdits {
    /// Adds the edit that was applied last.
    pub(super) fn push(&mut self, plan: &Plan) {
        if self.0.len() == EDITS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((plan.revision, plan.changes.iter().map(|change| change.number).collect()));
    }

    /// Returns the regions that the edits after `since`, up to the revision `present`, have touched; `None` if they are
    /// not known.
    fn since(&self, since: Revision, present: Revision) -> Option<BTreeSet<RegionNumber>> {
        if since == present {
            return Some(BTreeSet::new());
        }
        let later = self.0.partition_point(|(revision, _)| *revision <= since);
        let (first, _) = self.0.get(later).filter(|(first, _)| *first == since.next())?;
        debug_assert!(*first <= present);
        Some(self.0.range(later..).flat_map(|(_, numbers)| numbers).copied().collect())
    }
}

impl Space {
    /// Lists all regions of one revision in the order of their prefixes. The table is locked for a few regions at a
    /// time.
    pub async fn listing(&self) -> (Vec<Arc<Region>>, Revision) {
        self.list(|_, region| region.clone(), Arc::as_ref, |state| state.table.revision()).await
    }

    /// Like [`Space::listing`], but lists what an image of the table contains, for the store with this identity. Also
    /// returns where the image is.
    pub(in crate::tables) async fn image(&self, store: [u8; 16]) -> (Vec<ImageRegion>, (ImageFacts, Progress)) {
        let item = |state: &State, region: &Arc<Region>| ImageRegion {
            region: region.clone(),
            version: state.region_version(region.number).get(),
        };
        self.list(item, |item| &item.region, |state| (state.image_facts(store), state.progress())).await
    }

    /// Lists an item for each region of one revision in the order of their prefixes. Also returns the result of `end`
    /// for this revision.
    async fn list<T, E>(
        &self,
        item: fn(&State, &Arc<Region>) -> T,
        region: fn(&T) -> &Region,
        end: impl Fn(&State) -> E,
    ) -> (Vec<T>, E) {
        for _ in 0..ATTEMPTS {
            let (since, mut items) = (self.read(Table::revision), Vec::<T>::new());
            loop {
                let part = self.items_after(items.last().map(|last| region(last).prefix), item);
                let is_last = part.len() < REGIONS_PER_LOCK;
                items.extend(part);
                if is_last {
                    break;
                }
                task::yield_now().await;
            }
            // A region whose prefix has changed may be listed twice or not at all.
            let Some((changed, present, end)) = self.changed_since(since, item, &end) else { continue };
            if !changed.is_empty() {
                items.retain(|item| !changed.contains(&region(item).number));
                items.extend(present);
                items.sort_by_key(|item| region(item).prefix);
            }
            return (items, end);
        }
        let state = self.state();
        (state.table.iter_after(None).map(|region| item(&state, region)).collect(), end(&state))
    }

    /// Lists some of the regions in the order of their prefixes, beginning after the prefix `after`. An empty list
    /// means that no regions are left.
    pub(crate) fn some_after(&self, after: Option<Prefix>) -> Vec<Arc<Region>> {
        self.items_after(after, |_, region| region.clone())
    }

    fn items_after<T>(&self, after: Option<Prefix>, item: fn(&State, &Arc<Region>) -> T) -> Vec<T> {
        let state = self.state();
        state.table.iter_after(after).take(REGIONS_PER_LOCK).map(|region| item(&state, region)).collect()
    }

    /// Returns the regions that edits have touched since a revision, the items of those that exist now, and the result
    /// of `end` for the current revision.
    fn changed_since<T, E>(
        &self,
        since: Revision,
        item: fn(&State, &Arc<Region>) -> T,
        end: impl Fn(&State) -> E,
    ) -> Option<(BTreeSet<RegionNumber>, Vec<T>, E)> {
        let state = self.state();
        let changed = state.recent.since(since, state.table.revision())?;
        let present = changed.iter().filter_map(|number| state.table.get_shared(*number));
        let present = present.map(|region| item(&state, region)).collect();
        Some((changed, present, end(&state)))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use kent_ids::ClusterKey;
    use kent_proto::stored::{EditId, TextForm};
    use kent_regions::{Edit, Patch, Place, Start};
    use kent_store::Version;

    use super::*;

    /// Returns a space with this many regions of 8 bits each, in a space of 32 bits.
    fn space(regions: u128) -> Space {
        let mut table = Table::new(32).expect("a width");
        for at in 0..regions {
            let plan = table.plan(&create(at)).expect("legal");
            table.apply(&plan).expect("applied");
        }
        let constants = (ClusterKey::new([0; 16]), TextForm::Decimal);
        Space::new("s".to_owned(), None, State::fresh(table, Version::new(1), EditId::default(), constants))
    }

    fn create(at: u128) -> Edit {
        let place = Place::At(Prefix::new(at * 2, 20));
        Edit::Create { name: format!("r{at}"), suffix: 8, place, start: Start::default() }
    }

    fn edit(space: &Space, edit: &Edit) {
        let plan = space.read(|table| table.plan(edit)).expect("legal");
        space.apply(&plan, Version::new(plan.revision.0 + 1), EditId::default()).expect("applied");
    }

    /// Lists the space, and calls `meanwhile` between the parts. Returns the number of parts too.
    fn list(space: &Space, mut meanwhile: impl FnMut(usize)) -> (Vec<Arc<Region>>, Revision, usize) {
        let mut listing = pin!(space.listing());
        let mut context = Context::from_waker(Waker::noop());
        for part in 1.. {
            // The task yields by waking itself, which needs no runtime.
            match listing.as_mut().poll(&mut context) {
                Poll::Ready((regions, revision)) => return (regions, revision, part),
                Poll::Pending => meanwhile(part),
            }
        }
        unreachable!("the listing ends")
    }

    fn whole(space: &Space) -> (Vec<Arc<Region>>, Revision) {
        space.read(|table| (table.iter_after(None).cloned().collect(), table.revision()))
    }

    #[tokio::test]
    async fn ok_edits_during_a_listing_are_in_it() {
        let space = space(5000);
        let (regions, revision, parts) = list(&space, |part| {
            let name = |at: usize| format!("r{at}");
            edit(&space, &Edit::Expand { name: name(part), by: 1 });
            edit(&space, &Edit::Delete { name: name(4000 + part), unused: true });
            edit(&space, &create(5000 + part as u128));
            edit(&space, &Edit::Shrink { name: name(part), by: 1 });
            let patch = Patch { name: Some(format!("n{part}")), ..Patch::default() };
            edit(&space, &Edit::Update { name: name(3000 + part), patch });
            edit(&space, &Edit::Delete { name: name(part * 10), unused: true });
            edit(&space, &create(part as u128 * 10));
        });
        assert_eq!((regions, revision), whole(&space));
        assert_eq!(parts, 40, "the listing did not begin again");
    }

    #[tokio::test]
    async fn ok_more_edits_than_are_known_do_not_spoil_a_listing() {
        let space = space(1500);
        let rename = |from: &str, to: &str| {
            let patch = Patch { name: Some(to.to_owned()), ..Patch::default() };
            edit(&space, &Edit::Update { name: from.to_owned(), patch });
        };
        let (regions, revision, parts) = list(&space, |_| {
            for _ in 0..=EDITS_MAX / 2 {
                rename("r7", "x");
                rename("x", "r7");
            }
        });
        assert_eq!((regions, revision), whole(&space));
        assert_eq!(parts, 11 * ATTEMPTS + 1, "it was listed as a whole after these attempts");
    }

    #[test]
    fn ok_only_known_edits_are_returned() {
        let space = space(1);
        for _ in 0..3 {
            edit(&space, &Edit::Expand { name: "r0".to_owned(), by: 1 });
        }
        let present = space.read(Table::revision);
        let since = |revision: u64| {
            let changed = space.changed_since(Revision(revision), |_, _| (), |_| ());
            changed.map(|(changed, ..)| changed.len())
        };
        assert_eq!((since(present.0), since(present.0 - 1), since(present.0 - 3)), (Some(0), Some(1), Some(1)));
        assert_eq!(since(present.0 - 4), None, "the table was made before");
    }
}
