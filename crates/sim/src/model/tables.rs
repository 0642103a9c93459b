//! The model of regions: daemons reserve chunks and grant from them while tables are edited, and learn of each other's
//! changes late.
//!
//! Calls the methods of `kent_issue::Counter` and `kent_regions::Table` in the same order as
//! `crates/engine/src/grant/regions.rs` (`cut`, `reserve`, `follow`), `crates/engine/src/issuing/cell.rs`
//! (`try_reserve`, `give_back`), `crates/engine/src/tables/edits.rs` (`hold_still`, `rehearse`, `settle`, `commit`,
//! `adopt`), `crates/engine/src/tables/follow.rs` (`reload`, `step`) and `crates/engine/src/cluster.rs`
//! (`space_changed`, `counter_changed`, `confirm`). Code that runs under one lock in the server, or between two answers
//! of the store, is one step of the model.

mod edits;
mod replica;
mod state;

use stateright::{Model, Property};

pub(crate) use self::edits::EditKind;
use self::{
    edits::FIRST,
    replica::Stage,
    state::{Delivery, TablesState},
};
use super::Mutant;

/// The bounds of the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TablesModel {
    pub(crate) replicas: usize,
    pub(crate) edits: &'static [EditKind],
    pub(crate) budget: TableBudget,
    pub(crate) mutant: Option<Mutant>,
}

/// The maximum number of each kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TableBudget {
    pub(crate) edits: u8,
    pub(crate) reservations: u8,
    pub(crate) grants: u8,
    pub(crate) faults: u8,
}

/// A step. A daemon is identified by its index in the current state. Daemons have no names, so states that differ only
/// in the order of daemons are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TablesStep {
    /// Grants one identifier from the chunk of this region.
    Grant(usize, u64),
    /// A thread checks whether it may grant from this region.
    Look(usize, u64),
    /// The thread that has checked a region grants an identifier from it without a second check.
    Cut(usize),
    /// A daemon runs `RegionGrants::reserve` up to its commit.
    Reserve(usize, u64),
    /// A daemon runs `Cell::give_back` up to its commit.
    GiveBack(usize, u64),
    /// The commit that reserves or gives back a chunk is delivered.
    Sent(usize, Delivery),
    /// A daemon starts `Directory::try_edit`.
    Edit(usize, EditKind),
    /// The edit proceeds to its next stage: give back, read, plan, commit or apply.
    Proceed(usize),
    /// The edit's commit is delivered with a fault.
    EditSent(usize, Delivery),
    /// The watch on counters delivers a change, which may be outdated.
    HearCounter(usize),
    /// The watch on spaces delivers an edit.
    HearEdit(usize),
    /// All daemons have confirmed the seal.
    Confirm,
    /// A commit whose sender has given up reaches the store.
    Late(usize),
    Crash(usize),
    PowerLoss,
}

impl Model for TablesModel {
    type State = TablesState;
    type Action = TablesStep;

    fn init_states(&self) -> Vec<TablesState> {
        TablesState::new(self.replicas, self.budget).into_iter().collect()
    }

    fn actions(&self, state: &TablesState, actions: &mut Vec<TablesStep>) {
        let left = state.left;
        for (number, replica) in state.replicas.iter().enumerate() {
            if left.grants > 0 {
                let granting = replica.view.open(self.mutant).filter(|region| !replica.is_spent(*region));
                match (self.mutant, replica.looked) {
                    (Some(Mutant::GrantUnchecked), None) => {
                        actions.extend(granting.map(|region| TablesStep::Look(number, region)));
                    }
                    (Some(Mutant::GrantUnchecked), Some(_)) => actions.push(TablesStep::Cut(number)),
                    _ => actions.extend(granting.map(|region| TablesStep::Grant(number, region))),
                }
            }
            if replica.waiting.is_some() {
                actions.push(TablesStep::Sent(number, Delivery::Answered));
                if left.faults > 0 {
                    actions.extend(Delivery::FAULTS.map(|delivery| TablesStep::Sent(number, delivery)));
                }
            } else if left.reservations > 0 {
                let is_free = |region: &u64| *region != FIRST || !state.is_counter_locked(number);
                actions.extend(
                    replica.view.open(self.mutant).filter(is_free).map(|region| TablesStep::Reserve(number, region)),
                );
                let unspent = |region: &u64| is_free(region) && !replica.is_spent(*region);
                actions.extend(
                    replica.view.open(self.mutant).filter(unspent).map(|region| TablesStep::GiveBack(number, region)),
                );
            }
            match &replica.edit {
                None if left.edits > 0 => {
                    let may = |kind: &&EditKind| !(kind.is_about_the_counter() && replica.is_reserving(FIRST));
                    actions.extend(self.edits.iter().filter(may).map(|kind| TablesStep::Edit(number, *kind)));
                }
                None => {}
                Some(stage) => {
                    actions.push(TablesStep::Proceed(number));
                    if left.faults > 0 && stage.sent().is_some() {
                        actions.extend(Delivery::FAULTS.map(|delivery| TablesStep::EditSent(number, delivery)));
                    }
                }
            }
            if usize::from(replica.heard) < state.moves.len() {
                actions.push(TablesStep::HearCounter(number));
            }
            if replica.edit.is_none() && state.next_edit(number).is_some() {
                actions.push(TablesStep::HearEdit(number));
            }
            if left.faults > 0 {
                actions.push(TablesStep::Crash(number));
            }
        }
        if state.can_confirm() {
            actions.push(TablesStep::Confirm);
        }
        if left.faults > 0 {
            actions.push(TablesStep::PowerLoss);
        }
        actions.extend((0..state.late.len()).map(TablesStep::Late));
    }

    fn next_state(&self, last: &TablesState, step: TablesStep) -> Option<TablesState> {
        let mut state = last.clone();
        let mutant = self.mutant;
        match step {
            TablesStep::Grant(replica, region) => {
                state.left.grants -= 1;
                state.grant(replica, region, mutant).then_some(())?;
            }
            TablesStep::Look(replica, region) => state.replicas[replica].looked = Some(region),
            TablesStep::Cut(replica) => {
                state.left.grants -= 1;
                state.cut(replica)?;
            }
            TablesStep::Reserve(replica, region) => {
                state.left.reservations -= 1;
                state.reserve(replica, region, mutant)?;
            }
            TablesStep::GiveBack(replica, region) => {
                state.left.reservations -= 1;
                state.give_back(replica, region, mutant)?;
            }
            TablesStep::Sent(replica, delivery) => state.sent(replica, delivery, mutant)?,
            TablesStep::Edit(replica, kind) => {
                state.left.edits -= 1;
                state.begin_edit(replica, kind)?;
            }
            TablesStep::Proceed(replica) => state.proceed(replica, mutant)?,
            TablesStep::EditSent(replica, delivery) => state.edit_sent(replica, delivery, mutant)?,
            TablesStep::HearCounter(replica) => state.hear_counter(replica, mutant)?,
            TablesStep::HearEdit(replica) => state.hear_edit(replica, mutant)?,
            TablesStep::Confirm => state.confirm(),
            TablesStep::Late(index) => {
                let sent = state.late.remove(index);
                // OK because the sender has given up.
                let _ = state.commit(&sent, mutant);
            }
            TablesStep::Crash(replica) => {
                state.left.faults -= 1;
                state.crash(replica)?;
            }
            TablesStep::PowerLoss => {
                state.left.faults -= 1;
                state.power_loss()?;
            }
        }
        state.normalize();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no identifier is granted twice or outside its region", |_, state: &TablesState| {
                state.broken.is_none()
            }),
            Property::always("daemons grant again once faults stop", |model: &Self, state: &TablesState| {
                state.recovers(model.mutant)
            }),
            Property::sometimes("a daemon grants while another one edits", |_, state: &TablesState| {
                !state.granted.is_empty()
                    && state.replicas.iter().any(|replica| matches!(replica.edit, Some(Stage::Apply(..))))
            }),
            Property::sometimes("two daemons grant", |_, state: &TablesState| {
                let granting = state.replicas.iter().filter(|replica| !replica.counters.is_empty());
                granting.count() > 1 && state.granted.len() > 1
            }),
        ]
    }
}
