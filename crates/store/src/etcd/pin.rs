//! Checks that etcd is still the same cluster and has lost no commits.
//!
//! An etcd cluster that is restored from a snapshot has the versions of the snapshot, so guards can hold although later
//! commits are lost. Three signs show this: another cluster ID in the header of any reply; a revision in the header of
//! a linearizable reply that is lower than one known before the call; and a history that lacks the last write of this
//! process. After any of these signs, every call fails.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use super::pb::etcdserverpb::ResponseHeader;
use crate::error::Exchanged;

/// The state of etcd as known from its replies.
#[derive(Debug)]
pub(crate) struct Pin {
    /// The cluster ID, or 0 before the first reply.
    cluster: AtomicU64,
    /// The highest revision seen in a reply or in an event of a watch.
    revision: AtomicI64,
    /// The last write of this process that etcd has confirmed.
    last_write: Mutex<Option<Write>>,
    exchanged: watch::Sender<Option<Exchanged>>,
}

/// A write that etcd has confirmed.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    /// The etcd key.
    pub(crate) name: Vec<u8>,
    /// The revision of the write.
    pub(crate) revision: i64,
}

/// The highest revision known before a call was sent. Replies can arrive in any order, so a reply is compared with the
/// mark of its call, and not with later revisions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(i64);

impl Pin {
    pub(crate) fn new() -> Self {
        let (cluster, revision, last_write) = Default::default();
        Self { cluster, revision, last_write, exchanged: watch::Sender::new(None) }
    }

    /// Returns the mark for a new call. Fails if etcd is known to have been replaced.
    pub(crate) fn mark(&self) -> Result<Mark, Exchanged> {
        match &*self.exchanged.borrow() {
            Some(exchanged) => Err(exchanged.clone()),
            None => Ok(Mark(self.revision.load(Ordering::SeqCst))),
        }
    }

    /// Checks the header of any reply. Every reply from etcd has one.
    pub(crate) fn check_cluster(&self, header: Option<&ResponseHeader>) -> Result<(), Exchanged> {
        let found = header.map_or(0, |header| header.cluster_id);
        let first = self.cluster.compare_exchange(0, found, Ordering::SeqCst, Ordering::SeqCst);
        match first {
            Err(expected) if expected != found => Err(self.exchange(Exchanged::Cluster { expected, found })),
            Ok(_) | Err(_) => self.mark().map(drop),
        }
    }

    /// Checks the header of the reply to a linearizable call.
    pub(crate) fn check(&self, header: Option<&ResponseHeader>, mark: Mark) -> Result<(), Exchanged> {
        self.check_cluster(header)?;
        let found = header.map_or(0, |header| header.revision);
        if found < mark.0 {
            return Err(self.exchange(Exchanged::SetBack { expected: mark.0, found }));
        }
        self.saw(found);
        Ok(())
    }

    /// Records that this revision is committed.
    pub(crate) fn saw(&self, revision: i64) {
        self.revision.fetch_max(revision, Ordering::SeqCst);
    }

    /// Records a write that etcd has confirmed.
    pub(crate) fn wrote(&self, name: &[u8], revision: i64) {
        let mut last = self.last_write.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|last| last.revision < revision) {
            *last = Some(Write { name: name.to_owned(), revision });
        }
    }

    /// Returns the last write that etcd has confirmed.
    pub(crate) fn last_write(&self) -> Option<Write> {
        self.last_write.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records that etcd was replaced, unless this is already recorded.
    pub(crate) fn exchange(&self, found: Exchanged) -> Exchanged {
        self.exchanged.send_if_modified(|exchanged| exchanged.is_none() && exchanged.replace(found.clone()).is_none());
        self.mark().err().unwrap_or(found)
    }

    /// Waits until etcd is found to have been replaced.
    pub(crate) async fn exchanged(&self) -> Exchanged {
        let mut exchanged = self.exchanged.subscribe();
        let found = exchanged.wait_for(Option::is_some).await.ok().and_then(|found| found.clone());
        match found {
            Some(found) => found,
            // This is unreachable: the sender lives as long as `self`.
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(cluster_id: u64, revision: i64) -> ResponseHeader {
        ResponseHeader { cluster_id, revision, ..ResponseHeader::default() }
    }

    #[test]
    fn ok_replies_may_arrive_in_any_order() {
        let pin = Pin::new();
        let (early, late) = (pin.mark().expect("a mark"), pin.mark().expect("a mark"));
        pin.check(Some(&header(7, 20)), late).expect("the reply to the later call");
        pin.check(Some(&header(7, 10)), early).expect("no revision was known when the call was sent");
        pin.check(Some(&header(7, 20)), pin.mark().expect("a mark")).expect("no write happened since");
    }

    #[test]
    fn err_another_cluster_or_an_older_revision_is_remembered() {
        #[track_caller]
        fn check(seen: i64, found: ResponseHeader, expected: Exchanged) {
            let pin = Pin::new();
            pin.check(Some(&header(7, 10)), pin.mark().expect("a mark")).expect("the first reply");
            pin.saw(seen);
            let mark = pin.mark().expect("a mark");
            assert_eq!(pin.check(Some(&found), mark), Err(expected.clone()));
            // Even a later correct reply is rejected.
            assert_eq!(pin.check(Some(&header(7, 100)), mark), Err(expected.clone()));
            assert_eq!(pin.mark().err(), Some(expected));
        }
        check(10, header(8, 11), Exchanged::Cluster { expected: 7, found: 8 });
        check(10, header(7, 9), Exchanged::SetBack { expected: 10, found: 9 });
        // A watch has seen a higher revision than any reply.
        check(12, header(7, 11), Exchanged::SetBack { expected: 12, found: 11 });
        check(10, ResponseHeader::default(), Exchanged::Cluster { expected: 7, found: 0 });
    }

    #[tokio::test]
    async fn ok_the_last_write_is_the_one_of_the_highest_revision() {
        let pin = Pin::new();
        pin.wrote(b"b", 6);
        pin.wrote(b"a", 5);
        let last = pin.last_write().expect("two writes were recorded");
        assert_eq!((last.name.as_slice(), last.revision), (b"b".as_slice(), 6));
        let forgotten = pin.exchange(Exchanged::Forgotten { revision: 6 });
        pin.exchange(Exchanged::Cluster { expected: 7, found: 8 });
        assert_eq!(pin.exchanged().await, forgotten, "the first finding is kept");
    }
}
