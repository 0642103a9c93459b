//! Whether etcd is still the one that it was: the same cluster, with all that it has told of.
//!
//! Versions survive an etcd that is restored from a snapshot, so guards alone hold on it, although it has forgotten what was
//! committed since. Three things give it away: another cluster's id in the header of any answer; a revision, in the header of
//! a linearizable answer, below one that etcd had told of before the call was sent; and a history in which the last write of
//! this process is missing. The first of them is remembered, and every call is refused from then on.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use super::pb::etcdserverpb::ResponseHeader;
use crate::error::Exchanged;

/// What etcd's answers have told of etcd.
#[derive(Debug)]
pub(crate) struct Pin {
    /// 0 before the first answer.
    cluster: AtomicU64,
    /// The highest revision of which an answer or a watch has told.
    revision: AtomicI64,
    /// The last write of this process that etcd has confirmed.
    last_write: Mutex<Option<Write>>,
    exchanged: watch::Sender<Option<Exchanged>>,
}

/// A write that etcd has confirmed.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    /// What was put.
    pub(crate) name: Vec<u8>,
    /// When.
    pub(crate) revision: i64,
}

/// The highest revision of which etcd had told before a call was sent. Calls are answered in any order, so the answer is
/// compared with nothing later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(i64);

impl Pin {
    pub(crate) fn new() -> Self {
        let (cluster, revision, last_write) = Default::default();
        Self { cluster, revision, last_write, exchanged: watch::Sender::new(None) }
    }

    /// Begins a call, unless etcd is known not to be the same any more.
    pub(crate) fn mark(&self) -> Result<Mark, Exchanged> {
        match &*self.exchanged.borrow() {
            Some(exchanged) => Err(exchanged.clone()),
            None => Ok(Mark(self.revision.load(Ordering::SeqCst))),
        }
    }

    /// Looks at the header of any answer. One without a header is none of etcd's.
    pub(crate) fn check_cluster(&self, header: Option<&ResponseHeader>) -> Result<(), Exchanged> {
        let found = header.map_or(0, |header| header.cluster_id);
        let first = self.cluster.compare_exchange(0, found, Ordering::SeqCst, Ordering::SeqCst);
        match first {
            Err(expected) if expected != found => Err(self.exchange(Exchanged::Cluster { expected, found })),
            Ok(_) | Err(_) => self.mark().map(drop),
        }
    }

    /// Looks at the header of the answer to a linearizable call.
    pub(crate) fn check(&self, header: Option<&ResponseHeader>, mark: Mark) -> Result<(), Exchanged> {
        self.check_cluster(header)?;
        let found = header.map_or(0, |header| header.revision);
        if found < mark.0 {
            return Err(self.exchange(Exchanged::SetBack { expected: mark.0, found }));
        }
        self.told(found);
        Ok(())
    }

    /// Takes note that etcd has told of this revision: it has been committed.
    pub(crate) fn told(&self, revision: i64) {
        self.revision.fetch_max(revision, Ordering::SeqCst);
    }

    /// Takes note of a write that etcd has confirmed.
    pub(crate) fn wrote(&self, name: &[u8], revision: i64) {
        let mut last = self.last_write.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|last| last.revision < revision) {
            *last = Some(Write { name: name.to_owned(), revision });
        }
    }

    /// The last write that etcd has confirmed.
    pub(crate) fn last_write(&self) -> Option<Write> {
        self.last_write.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers that etcd is not the same any more; what was found first stays.
    pub(crate) fn exchange(&self, found: Exchanged) -> Exchanged {
        self.exchanged.send_if_modified(|exchanged| exchanged.is_none() && exchanged.replace(found.clone()).is_none());
        self.mark().err().unwrap_or(found)
    }

    /// Waits until etcd is found not to be the same any more.
    pub(crate) async fn exchanged(&self) -> Exchanged {
        let mut exchanged = self.exchanged.subscribe();
        let found = exchanged.wait_for(Option::is_some).await.ok().and_then(|found| found.clone());
        match found {
            Some(found) => found,
            // Out of reach: the sender lives as long as this.
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
    fn ok_answers_may_overtake_each_other() {
        let pin = Pin::new();
        let (early, late) = (pin.mark().expect("begun"), pin.mark().expect("begun"));
        pin.check(Some(&header(7, 20)), late).expect("the later one is answered first");
        pin.check(Some(&header(7, 10)), early).expect("nothing was told before it was sent");
        pin.check(Some(&header(7, 20)), pin.mark().expect("begun")).expect("nothing was written meanwhile");
    }

    #[test]
    fn err_another_cluster_or_an_older_revision_is_remembered() {
        #[track_caller]
        fn check(told: i64, found: ResponseHeader, expected: Exchanged) {
            let pin = Pin::new();
            pin.check(Some(&header(7, 10)), pin.mark().expect("begun")).expect("the first answer");
            pin.told(told);
            let mark = pin.mark().expect("begun");
            assert_eq!(pin.check(Some(&found), mark), Err(expected.clone()));
            // Also if it seems to be the same again.
            assert_eq!(pin.check(Some(&header(7, 100)), mark), Err(expected.clone()));
            assert_eq!(pin.mark().err(), Some(expected));
        }
        check(10, header(8, 11), Exchanged::Cluster { expected: 7, found: 8 });
        check(10, header(7, 9), Exchanged::SetBack { expected: 10, found: 9 });
        // A watch has told of more than any answer.
        check(12, header(7, 11), Exchanged::SetBack { expected: 12, found: 11 });
        check(10, ResponseHeader::default(), Exchanged::Cluster { expected: 7, found: 0 });
    }

    #[tokio::test]
    async fn ok_the_last_write_is_the_one_of_the_highest_revision() {
        let pin = Pin::new();
        pin.wrote(b"b", 6);
        pin.wrote(b"a", 5);
        let last = pin.last_write().expect("two were made");
        assert_eq!((last.name.as_slice(), last.revision), (b"b".as_slice(), 6));
        let forgotten = pin.exchange(Exchanged::Forgotten { revision: 6 });
        pin.exchange(Exchanged::Cluster { expected: 7, found: 8 });
        assert_eq!(pin.exchanged().await, forgotten, "what was found first stays");
    }
}
