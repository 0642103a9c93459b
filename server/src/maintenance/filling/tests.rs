use std::{
    future::{Future, pending, poll_fn},
    pin::{Pin, pin},
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use futures_util::future::join_all;
use kent_engine::{
    host::entropy::SystemEntropy,
    records::{failure::LoadError, founding::load_or_found},
};
use kent_ids::ClusterKey;
use kent_proto::stored;
use kent_store::{Delay, Fault, MemoryStore, Operation, Unavailable};

use super::*;

const COUNTER: Key = Key::from_static("counter/default/0000000000000001");
const ORIGIN: StoreId = StoreId::new([7; 16]);
/// The commits of one filling: the mark, two steps, and the last step.
const COMMITS: usize = 4;

fn store() -> MemoryStore {
    MemoryStore::new(StoreId::new([1; 16]))
}

fn source_key() -> Vec<u8> {
    stored::encode_cluster(&ClusterKey::new([9; 16]))
}

/// Records for two steps; all but the store's key have this value.
fn records(value: u8) -> BTreeMap<Key, Vec<u8>> {
    let numbered = (0..BATCH).map(|number| Key::new(format!("region/default/{number:016x}")).expect("a key"));
    let mut records: BTreeMap<_, _> = numbered.chain([COUNTER]).map(|key| (key, vec![value])).collect();
    records.insert(keys::CLUSTER, source_key());
    records
}

async fn fill(store: &MemoryStore, value: u8) -> Result<(), FillError> {
    Filling::begin(store, ORIGIN, records(value), &SystemEntropy).await?.write(|_, _| {}).await
}

async fn contents(store: &MemoryStore) -> BTreeMap<Key, Vec<u8>> {
    let scanned = store.scan(&Key::ROOT).await.expect("read");
    scanned.into_iter().map(|(key, versioned)| (key, versioned.value)).collect()
}

/// Starts a replica that grants once: it raises a counter with a commit that compares the counter's version.
async fn start_and_grant(store: &MemoryStore) -> Result<ClusterKey, LoadError> {
    let (key, _) = load_or_found(store, &SystemEntropy).await?;
    loop {
        let read = store.get(&COUNTER).await.expect("read");
        let (value, version) = read.map_or((0, Version::ABSENT), |read| (read.value[0], read.version));
        match store.commit(Txn::new().expect(COUNTER, version).put(COUNTER, [value + 1])).await {
            Ok(_) => return Ok(key),
            Err(CommitError::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Records the commits, and injects into each the fault that `fault` returns for the commit's index.
fn listen(store: &MemoryStore, fault: impl Fn(usize) -> Fault + Send + 'static) -> Arc<Mutex<Vec<Txn>>> {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let heard = sent.clone();
    store.plan(move |operation| match operation {
        Operation::Commit(txn) => {
            let mut heard = heard.lock().expect("not poisoned");
            heard.push((*txn).clone());
            fault(heard.len() - 1)
        }
        _ => Fault::None,
    });
    sent
}

/// Delays every operation by one poll, and records the commits.
fn delay_every_operation(store: &MemoryStore) -> Arc<Mutex<Vec<Txn>>> {
    fn pause() -> Delay {
        let mut is_over = false;
        Box::pin(poll_fn(move |_| match std::mem::replace(&mut is_over, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }))
    }
    let sent = Arc::new(Mutex::new(Vec::new()));
    let heard = sent.clone();
    store.plan(move |operation| {
        if let Operation::Commit(txn) = operation {
            heard.lock().expect("not poisoned").push((*txn).clone());
        }
        Fault::DelayBefore(pause())
    });
    sent
}

fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls a future until it is ready.
fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    (0..1000)
        .find_map(|_| match poll(future.as_mut()) {
            Poll::Ready(ready) => Some(ready),
            Poll::Pending => None,
        })
        .expect("it ends")
}

#[test]
fn ok_a_starting_replica_and_a_migration_exclude_each_other_in_every_order() {
    let (mut founded, mut refused, mut after) = (0, 0, 0);
    for schedule in 0_u32..1 << 14 {
        let store = store();
        delay_every_operation(&store);
        let (mut replica, mut filling) = (Box::pin(start_and_grant(&store)), Box::pin(fill(&store, 100)));
        let (mut started, mut filled) = (None, None);
        for at in 0..14 {
            match schedule >> at & 1 {
                0 if started.is_none() => {
                    if let Poll::Ready(ready) = poll(replica.as_mut()) {
                        started = Some(ready);
                    }
                }
                1 if filled.is_none() => {
                    if let Poll::Ready(ready) = poll(filling.as_mut()) {
                        filled = Some(ready);
                    }
                }
                _ => {}
            }
        }
        let started = started.unwrap_or_else(|| run(replica));
        let filled = filled.unwrap_or_else(|| run(filling));
        let contents = run(contents(&store));
        assert!(!contents.contains_key(&keys::RESTORING), "{schedule:#b}");
        match (&started, &filled) {
            (Ok(_), Err(FillError::Occupied)) => {
                assert_eq!((contents.len(), &contents[&COUNTER][..]), (2, &[1][..]), "{schedule:#b}");
                founded += 1;
            }
            (Err(LoadError::HalfRestored), Ok(())) => {
                assert_eq!(contents, records(100), "{schedule:#b}");
                refused += 1;
            }
            (Ok(key), Ok(())) => {
                assert_eq!(stored::encode_cluster(key), source_key(), "{schedule:#b}");
                assert_eq!(contents[&COUNTER], [101], "{schedule:#b}");
                after += 1;
            }
            _ => panic!("{schedule:#b}: the replica {started:?}, the migration {filled:?}"),
        }
    }
    assert!(founded > 0 && refused > 0 && after > 0, "{founded} {refused} {after}");
}

#[tokio::test]
async fn ok_a_commit_of_unknown_outcome_is_made_once_and_changes_nothing_if_it_arrives_late() {
    async fn check(faulty: usize, fault: fn() -> Fault) {
        let store = store();
        let sent = listen(&store, move |at| if at == faulty { fault() } else { Fault::None });
        fill(&store, 100).await.expect("filled");
        assert_eq!(contents(&store).await, records(100), "{faulty}, {:?}", fault());
        store.plan(|_| Fault::None);
        assert_eq!(start_and_grant(&store).await.expect("the store is complete"), ClusterKey::new([9; 16]));
        // All commits arrive again, after a replica has granted a number.
        let granted = contents(&store).await;
        let sent: Vec<Txn> = sent.lock().expect("not poisoned").drain(..).collect();
        // A step that has already been committed is not sent again.
        let is_applied = matches!(fault(), Fault::AppliedUnknown);
        assert_eq!(sent.len(), COMMITS + usize::from(!is_applied), "{faulty}, {:?}", fault());
        for late in sent {
            let answer = store.commit(late).await;
            assert!(matches!(answer, Err(CommitError::Conflict { .. })), "{faulty}, {:?}: {answer:?}", fault());
        }
        assert_eq!(contents(&store).await, granted, "{faulty}, {:?}", fault());
    }
    let faults: [fn() -> Fault; 3] = [|| Fault::LostUnknown, || Fault::AppliedUnknown, || Fault::Unavailable];
    join_all(faults.into_iter().flat_map(|fault| (0..COMMITS).map(move |faulty| check(faulty, fault)))).await;
}

#[tokio::test]
async fn ok_the_commit_that_removes_the_mark_completes_the_store() {
    let store = store();
    let sent = listen(&store, |_| Fault::None);
    fill(&store, 100).await.expect("filled");
    let sent = sent.lock().expect("not poisoned");
    let writers = |wanted: &Key, value: bool| -> Vec<usize> {
        let writes = |txn: &Txn| txn.writes().iter().any(|(key, written)| key == wanted && written.is_some() == value);
        (0..sent.len()).filter(|at| writes(&sent[*at])).collect()
    };
    assert_eq!(sent.len(), COMMITS);
    assert_eq!(writers(&keys::CLUSTER, true), [COMMITS - 1]);
    assert_eq!(writers(&keys::RESTORING, false), [COMMITS - 1]);
}

#[test]
fn ok_an_interrupted_migration_is_continued_and_late_commits_change_nothing() {
    let breaks: [fn() -> Fault; 2] =
        [|| Fault::DelayBefore(Box::pin(pending())), || Fault::DelayAfter(Box::pin(pending()))];
    for broken in breaks {
        for last in 0..COMMITS {
            let store = store();
            let sent = listen(&store, move |at| if at == last { broken() } else { Fault::None });
            assert!(poll(pin!(fill(&store, 100))).is_pending(), "the attempt waits for an answer, and is dropped");
            let late: Vec<Txn> = sent.lock().expect("not poisoned").drain(..).collect();
            let sent = delay_every_operation(&store);
            if run(load_or_found(&store, &SystemEntropy)).is_ok() {
                assert_eq!(run(contents(&store)).contains_key(&COUNTER), last == COMMITS - 1);
                continue;
            }
            // The commits of the first attempt arrive again before every operation of the second one.
            let mut again = Box::pin(fill(&store, 200));
            let filled = loop {
                if let Poll::Ready(filled) = poll(again.as_mut()) {
                    break filled;
                }
                for txn in &late {
                    let _ = run(store.commit(txn.clone()));
                }
            };
            match filled {
                Ok(()) => assert_eq!(run(contents(&store)), records(200), "{last}, {:?}", broken()),
                // The last commit of the first attempt arrived in time.
                Err(FillError::Occupied) => assert_eq!(run(contents(&store)), records(100), "{last}, {:?}", broken()),
                Err(error) => panic!("{last}, {:?}: {error}", broken()),
            }
            // The commits of the second attempt change nothing either.
            let before = run(contents(&store));
            let sent: Vec<Txn> = sent.lock().expect("not poisoned").drain(..).collect();
            assert!(!sent.is_empty());
            sent.into_iter().for_each(|txn| drop(run(store.commit(txn))));
            assert_eq!(run(contents(&store)), before, "{last}, {:?}", broken());
        }
    }
}

#[test]
fn err_an_attempt_fails_when_another_takes_over_its_mark() {
    // The number of polls determines where the first attempt pauses: after its mark, or before one of its steps.
    for polls in 3..7 {
        let store = store();
        delay_every_operation(&store);
        let mut first = Box::pin(fill(&store, 100));
        (0..polls).for_each(|_| assert!(poll(first.as_mut()).is_pending()));
        let second = run(Filling::begin(&store, ORIGIN, records(200), &SystemEntropy)).expect("taken over");
        assert!(second.is_resumed());
        assert!(matches!(run(first), Err(FillError::Superseded)), "{polls}");
        run(second.write(|_, _| {})).expect("filled");
        assert_eq!(run(contents(&store)), records(200));
    }
}

/// The revision of the edit that an attempt writes depends on the time of the attempt.
#[test]
fn ok_the_next_attempt_removes_history_records_of_the_one_before() {
    let at = |revision| {
        let mut records = records(100);
        records.insert(keys::history("default", revision, 0), vec![1]);
        records
    };
    for polls in 3..9 {
        let store = store();
        delay_every_operation(&store);
        let first = run(Filling::begin(&store, ORIGIN, at(1000), &SystemEntropy)).expect("marked");
        let mut first = Box::pin(first.write(|_, _| {}));
        let ended = (0..polls).any(|_| poll(first.as_mut()).is_ready());
        drop(first);
        match run(Filling::begin(&store, ORIGIN, at(2000), &SystemEntropy)) {
            Ok(second) => {
                run(second.write(|_, _| {})).expect("filled");
                assert!(!ended);
                assert_eq!(run(contents(&store)), at(2000), "{polls}");
            }
            // The first attempt had committed its last step.
            Err(FillError::Occupied) => assert_eq!(run(contents(&store)), at(1000), "{polls}"),
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn err_other_records_are_not_touched() {
    async fn check(key: Key, value: Vec<u8>) {
        let store = store();
        store.commit(Txn::new().put(key.clone(), value)).await.expect("committed");
        let before = contents(&store).await;
        assert!(!is_begun(&store, ORIGIN).await.expect("read"));
        assert!(matches!(fill(&store, 100).await, Err(FillError::Occupied)), "{key}");
        let mut after = contents(&store).await;
        after.retain(|key, _| before.contains_key(key));
        assert_eq!(after, before, "{key}");
    }
    check(keys::CLUSTER, source_key()).await;
    // Even records equal to those that the filling would write are refused.
    check(COUNTER, vec![1]).await;
    check(keys::slot(kent_ids::Slot::new(3).expect("a slot")), vec![1]).await;
    let others = Mark { origin: [8; 16], attempt: [0; 16], step: 1 };
    check(keys::RESTORING, others.encode()).await;

    // The mark has our origin, but there is a record that we did not write.
    let store = store();
    let filling = Filling::begin(&store, ORIGIN, records(100), &SystemEntropy).await.expect("marked");
    drop(filling);
    store.commit(Txn::new().put(keys::BOOTS, [0; 8])).await.expect("committed");
    assert!(is_begun(&store, ORIGIN).await.expect("read"));
    assert!(matches!(fill(&store, 100).await, Err(FillError::Occupied)));
}

#[tokio::test]
async fn ok_a_filling_reports_its_progress() {
    let (store, reported) = (store(), Mutex::new(Vec::new()));
    let filling = Filling::begin(&store, ORIGIN, records(100), &SystemEntropy).await.expect("marked");
    assert!(!filling.is_resumed());
    let progress = |written, total| reported.lock().expect("not poisoned").push((written, total));
    filling.write(progress).await.expect("filled");
    assert_eq!(reported.into_inner().expect("not poisoned"), [(BATCH, BATCH + 1), (BATCH + 1, BATCH + 1)]);
}

#[tokio::test]
async fn err_a_filling_gives_up_on_a_store_that_never_answers() {
    let gone = || Arc::from(Box::<dyn std::error::Error + Send + Sync>::from("gone"));
    let passing = || StoreFailure::Commit(CommitError::Unavailable(Unavailable::Backend(gone())));
    let lasting = || StoreFailure::from(Malformed { what: "anything" });
    for (tried, failure, is_resumed, tries) in [
        (0, passing(), true, 1),
        (ATTEMPTS_MAX - 2, passing(), true, ATTEMPTS_MAX - 1),
        (ATTEMPTS_MAX - 1, passing(), false, ATTEMPTS_MAX),
        (0, lasting(), false, 1),
    ] {
        let mut so_far = Retries(tried);
        assert_eq!((so_far.pause_after(failure).await.is_ok(), so_far.0), (is_resumed, tries), "after {tried}");
    }
}

#[test]
fn ok_of_two_concurrent_attempts_the_later_one_takes_over() {
    let store = store();
    delay_every_operation(&store);
    let mut first = Box::pin(Filling::begin(&store, ORIGIN, records(100), &SystemEntropy));
    (0..2).for_each(|_| assert!(poll(first.as_mut()).is_pending(), "it has not seen a mark"));
    let second = run(Filling::begin(&store, ORIGIN, records(200), &SystemEntropy)).expect("marked");
    assert!(!second.is_resumed());
    let first = run(first).expect("taken over");
    assert!(first.is_resumed());
    assert!(matches!(run(second.write(|_, _| {})), Err(FillError::Superseded)));
}

#[test]
fn err_a_store_whose_records_were_removed_is_not_completed() {
    let store = store();
    delay_every_operation(&store);
    let mut filling = Box::pin(fill(&store, 100));
    (0..6).for_each(|_| assert!(poll(filling.as_mut()).is_pending(), "only the last step is left"));
    assert!(run(contents(&store)).contains_key(&COUNTER));
    run(store.commit(Txn::new().delete(keys::RESTORING))).expect("removed");
    assert!(matches!(run(filling), Err(FillError::Superseded)));
}
