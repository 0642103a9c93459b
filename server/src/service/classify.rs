//! Classifies many identifiers at one revision, including inside delegated regions.
//!
//! The first request on a large table starts building an index in the background. Until the index is ready, and after
//! an edit, the table itself is searched. No lock is held for more than a few hundred identifiers, unless the table
//! keeps changing.

use std::sync::Arc;

use kent_access::{Action, Target};
use kent_engine::{
    auth::Caller,
    engine::Engine,
    tables::{directory::Directory, space::Space},
};
use kent_proto::{model, v1};
use kent_regions::{Classification, Indexing, Revision};
use tokio::task;

/// The number of identifiers to classify under one lock.
const PART: usize = 256;
/// After this many attempts, a table that keeps changing is locked while all identifiers are classified.
const ATTEMPTS: usize = 3;
/// The minimum number of regions for an index; a smaller table is about as fast without one.
const INDEXED_REGIONS_MIN: usize = 256;
/// The number of prefixes to read from the table under one lock.
const INDEXING_PART: usize = 4096;

/// Classifies each identifier at one revision, and returns this revision. The answer is `None` for an identifier with
/// more bits than the space.
pub(super) fn classify(engine: &Engine, caller: &Caller, space: &Arc<Space>, ids: &[u128]) -> Answers {
    index(engine, space);
    let (directory, name) = (engine.directory(), space.name());
    let consistent = (0..ATTEMPTS).find_map(|_| {
        let mut parts = ids.chunks(PART).map(|part| classify_part(directory, caller, space, &name, part));
        let (mut answers, revision) = parts.next()?;
        for (more, at) in parts {
            answers.extend((at == revision).then_some(more)?);
        }
        Some((answers, revision))
    });
    consistent.unwrap_or_else(|| classify_part(directory, caller, space, &name, ids))
}

type Answers = (Vec<Option<v1::Classification>>, Revision);

fn classify_part(directory: &Directory, caller: &Caller, space: &Space, name: &str, ids: &[u128]) -> Answers {
    let form = space.text_form();
    let (found, revision) = space.read(|table| {
        let found = table.classify_all(ids).into_iter().zip(ids);
        let describe = |(found, id): (Option<Classification<'_>>, &u128)| {
            let text = model::text_of(*id, table.bits(), form);
            let found = found?;
            Some((model::classification(name, *id, text, &found), found.delegated()))
        };
        (found.map(describe).collect::<Vec<_>>(), table.revision())
    });
    let answers = found.into_iter().map(|found| {
        let (mut message, delegated) = found?;
        if let Some((number, suffix)) = delegated
            && let Some(space) = directory.inner(space, number)
            && caller.may(Action::Read, Target::Table { space: space.key() })
        {
            let (local, _) = classify_part(directory, caller, &space, &space.name(), &[suffix]);
            message.local = local.into_iter().next().flatten().map(Box::new);
            // A delegated region issues nothing itself, so only its space can have issued the identifier.
            message.issued = message.local.as_ref().is_some_and(|local| local.issued);
        }
        Some(message)
    });
    (answers.collect(), revision)
}

/// Starts building an index, unless the table is small or already has one.
fn index(engine: &Engine, space: &Arc<Space>) {
    let wanted = space.read(|table| table.index().is_none() && table.len() >= INDEXED_REGIONS_MIN);
    let Some(indexing) = wanted.then(|| space.begin_indexing()).flatten() else { return };
    let (space, tasks) = (space.clone(), engine.tasks().clone());
    engine.tasks().spawn_work(async move {
        // The guard is held until the index is ready or the table has changed. In the second case the next request
        // tries again.
        let _indexing = indexing;
        let mut reading = space.read(Indexing::of);
        while let Some(more) = space.read(|table| reading.read(table, INDEXING_PART)) {
            if !more {
                // OK because without an index the next request tries again.
                if let Ok(index) = tasks.spawn_busy(move || reading.build()).await {
                    space.set_index(Arc::new(index));
                }
                return;
            }
            task::yield_now().await;
        }
    });
}
