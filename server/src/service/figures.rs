//! Streams the figures of each second.

use std::sync::Arc;

use futures_util::{Stream, stream};
use kent_engine::{
    engine::Engine,
    figures::{OtherFigures, Second},
};
use kent_proto::v1::{self, FiguresOfSecond, ReplicaFigures};
use tokio::sync::OwnedSemaphorePermit;

/// The maximum number of seconds in one message.
const PART: usize = 60;

/// Sends the kept seconds after one that ended at `after`, and then each new second, until the daemon stops. A slow
/// reader gets several seconds in one message.
pub(super) fn watch(
    engine: Arc<Engine>,
    after: i64,
    watching: Arc<OwnedSemaphorePermit>,
) -> impl Stream<Item = Vec<FiguresOfSecond>> {
    let (newest, sent) = (engine.figures().newest(), engine.figures().number_at(after));
    stream::unfold((engine, newest, sent, watching), |(engine, mut newest, sent, watching)| async move {
        loop {
            // Mark the value as seen before the read, so that no second is missed.
            newest.mark_unchanged();
            let seconds = engine.figures().after(sent, PART);
            let Some(last) = seconds.last().map(|last| last.number) else {
                tokio::select! {
                    () = engine.draining().cancelled() => return None,
                    changed = newest.changed() => changed.ok()?,
                }
                continue;
            };
            let messages = seconds.iter().map(|it| second(&engine, it)).collect();
            return Some((messages, (engine, newest, last, watching)));
        }
    })
}

fn second(engine: &Engine, second: &Second) -> FiguresOfSecond {
    let (name, own) = (engine.cluster().map(|cluster| cluster.own_name().to_owned()), &second.own);
    let answering = ReplicaFigures {
        name: name.unwrap_or_default(),
        address: engine.place().address.clone(),
        answering: true,
        grants: own.grants as f64,
        identifiers: own.identifiers as f64,
        p50_micros: own.grant_micros(0.5),
        p99_micros: own.grant_micros(0.99),
        window_left_ms: own.slot.map(|(_, left)| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
        clock_ahead_ms: None,
        store_micros: own.store_micros(),
        slot: own.slot.map(|(slot, _)| slot.get().into()),
    };
    let sources = second.sources.iter().map(|source| v1::SourceFigures {
        source: source.source.to_string(),
        grants: source.grants,
        identifiers: source.identifiers,
    });
    let others = second.others.iter().map(|it| other(second.unix_seconds, it));
    FiguresOfSecond {
        unix_seconds: second.unix_seconds,
        replicas: std::iter::once(answering).chain(others).collect(),
        sources: sources.collect(),
    }
}

fn other(now: i64, other: &OtherFigures) -> ReplicaFigures {
    let noted = other.noted.unwrap_or_default();
    let per_second = |count: u64| count as f64 / f64::from(noted.seconds.max(1));
    let float = |micros: Option<u64>| micros.map(|micros| micros as f64);
    let left = other.reserved_until.saturating_sub(now).max(0);
    ReplicaFigures {
        name: other.name.clone(),
        address: other.address.clone(),
        answering: false,
        grants: per_second(noted.grants),
        identifiers: per_second(noted.identifiers),
        p50_micros: float(noted.p50_micros),
        p99_micros: float(noted.p99_micros),
        window_left_ms: other.slot.and(u64::try_from(left).ok()).map(|seconds| seconds.saturating_mul(1000)),
        clock_ahead_ms: Some(other.clock_ahead_ms),
        store_micros: float(noted.store_micros),
        slot: other.slot.map(|slot| slot.get().into()),
    }
}
