//! The backend for several machines: any number of processes on one etcd cluster, over its public v3 API.
//!
//! Only this module and its submodules depend on etcd's API. A guard compares a key's `mod_revision`, a commit is one
//! transaction, and reads are linearizable (etcd's default). So etcd itself provides the guarantees of this crate.
//!
//! # Keys in etcd
//!
//! ```text
//! PREFIX/data/KEY    every value, in its envelope; announcements have a lease
//! PREFIX/store-id    the identity, which the first process generates
//! ```
//!
//! # Lost replies
//!
//! If a commit may have reached etcd and there is no reply, it fails with [`Unknown`](crate::CommitError::Unknown). It
//! is never sent again, because etcd could apply it twice. The same holds for errors that etcd can return after it has
//! applied the transaction, such as being out of space. A commit is sent to another endpoint only if no connection was
//! made at all. A read is sent to each endpoint in turn until one answers.
//!
//! # Replaced clusters
//!
//! The header of every reply is compared with those of earlier replies (see `pin`). If another cluster answers, or the
//! cluster was rolled back, every call from then on fails with [`Unavailable::Exchanged`].

mod address;
mod endpoints;
mod maintenance;
mod pin;
mod presence;
mod watch;

/// The messages and stubs of etcd's API.
#[allow(missing_docs, unreachable_pub, clippy::all, reason = "generated")]
pub(crate) mod pb {
    pub(crate) mod etcdserverpb {
        include!("etcd/generated/etcdserverpb.rs");
    }
    pub(crate) mod mvccpb {
        include!("etcd/generated/mvccpb.rs");
    }
}

use std::fmt;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use kent_tls::{BadHost, Certificates};
use tokio::sync::Mutex;
use tonic::{Code, Response, Status};

pub use self::address::{BadAddress, EtcdAddress};
pub use self::endpoints::{EtcdCredentials, EtcdPassword};

use self::endpoints::{Caller, Endpoints, Failure};
use self::pb::{
    etcdserverpb::{
        Compare, DeleteRangeRequest, PutRequest, RangeRequest, RangeResponse, RequestOp, TxnRequest, TxnResponse,
        compare, kv_client::KvClient, request_op, response_op,
    },
    mvccpb::KeyValue,
};
use self::pin::{Pin, Write};
use self::presence::Presence;
use crate::envelope;
use crate::error::{CommitError, Exchanged, ReadError, Unavailable, Unknown};
use crate::key::Key;
use crate::pages::{self, PAGE_RECORDS_MAX, Page, Pages};
use crate::peers::{Peers, Watch};
use crate::servers::Servers;
use crate::store::{Stats, Store, StoreId};
use crate::txn::{Committed, Txn, Version, Versioned};

/// The options of a store on etcd.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// The endpoints and the prefix of the store.
    pub address: EtcdAddress,
    /// The certificates for TLS, which an address with `etcds://` needs.
    pub tls: Option<Certificates>,
    /// The user, if etcd requires authentication.
    pub credentials: Option<EtcdCredentials>,
    /// The identity for a new store: 128 random bits.
    pub new_id: [u8; 16],
    /// The newest schema that this program knows: [`SCHEMA`](crate::SCHEMA), except in tests of upgrades.
    pub schema: u16,
}

/// An error from opening a store on etcd. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum EtcdOpenError {
    /// A host of the address is not valid.
    #[error("the address of etcd cannot be used: {0}")]
    Address(#[from] BadHost),
    /// The address requires TLS, but no certificates were given to verify etcd.
    #[error("an address with etcds:// needs certificates")]
    NoCertificates,
    /// No endpoint answers, or none grants access.
    #[error("etcd at {address} is not available: {}", .cause.reason())]
    Unavailable {
        /// The address of the store.
        address: EtcdAddress,
        /// The cause.
        cause: Unavailable,
    },
    /// The store is damaged or was written by a newer program.
    #[error(transparent)]
    Read(ReadError),
}

impl EtcdOpenError {
    /// Returns true if another attempt with the same options can succeed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable { cause, .. } => cause.is_retryable(),
            Self::Address(_) | Self::NoCertificates | Self::Read(_) => false,
        }
    }
}

/// A store on an etcd cluster.
pub struct EtcdStore {
    inner: Arc<Inner>,
    presence: Mutex<Presence>,
    id: StoreId,
    closed: AtomicBool,
}

/// The state that a store shares with its watches.
#[derive(Debug)]
pub(crate) struct Inner {
    endpoints: Endpoints,
    pin: Pin,
    /// The prefix, with a slash at its end.
    root: String,
    /// The newest schema that this program can read.
    known: u16,
    /// The schema for writing values.
    schema: AtomicU16,
    commits: AtomicU64,
    conflicts: AtomicU64,
    unknowns: AtomicU64,
}

/// The number of keys in one page of a scan. The page has 4 MiB if all values have the maximum size.
const PAGE_KEYS: i64 = PAGE_RECORDS_MAX as i64;

/// The number of attempts to read the store's identity and, if there is none, to create it.
const IDENTITY_ATTEMPTS: u32 = 3;

/// The timeout of one call to one endpoint.
const ATTEMPT: Duration = Duration::from_millis(1500);

impl EtcdStore {
    /// Opens the store, and creates its identity if there is none.
    ///
    /// # Errors
    ///
    /// Fails with an [`EtcdOpenError`] if the address cannot be used, etcd is not available, or the identity cannot be
    /// read.
    pub async fn open(options: EtcdOptions) -> Result<Self, EtcdOpenError> {
        let EtcdOptions { address, tls, credentials, new_id, schema: known } = options;
        let endpoints = Endpoints::new(&address, tls.as_ref(), credentials)?;
        let root = format!("{}/", address.prefix());
        let counter = AtomicU64::default;
        let inner = Inner {
            endpoints,
            pin: Pin::new(),
            root,
            known,
            schema: AtomicU16::new(1),
            commits: counter(),
            conflicts: counter(),
            unknowns: counter(),
        };
        let id = inner.identity(new_id).await.map_err(|error| match error {
            ReadError::Unavailable(cause) => EtcdOpenError::Unavailable { address, cause },
            error => EtcdOpenError::Read(error),
        })?;
        let (inner, presence) = (Arc::new(inner), Mutex::default());
        Ok(Self { inner, presence, id, closed: AtomicBool::new(false) })
    }

    fn check_open(&self) -> Result<(), Unavailable> {
        if self.closed.load(Ordering::SeqCst) { Err(Unavailable::Closed) } else { Ok(()) }
    }
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdStore").field("id", &self.id).field("root", &self.inner.root).finish_non_exhaustive()
    }
}

impl Inner {
    /// Reads the identity of the store. Creates it if there is none.
    async fn identity(&self, new_id: [u8; 16]) -> Result<StoreId, ReadError> {
        const ID: Key = Key::from_static("store-id");
        let name = self.identity_name();
        let mut unanswered = None;
        for _ in 0..IDENTITY_ATTEMPTS {
            let range = RangeRequest { key: name.clone().into(), ..RangeRequest::default() };
            if let Some(stored) = self.range(range).await?.kvs.first() {
                let payload = envelope::open(&ID, &stored.value)?;
                let bits = payload
                    .try_into()
                    .map_err(|_| Unavailable::backend("the store's identity does not have 16 bytes"))?;
                return Ok(StoreId::new(bits));
            }
            let create = TxnRequest {
                compare: vec![compare(name.clone(), Version::ABSENT)],
                success: vec![put(name.clone(), envelope::seal(&ID, &new_id))],
                failure: Vec::new(),
            };
            // The next read returns the identity, even if the reply was lost or another process created it.
            match self.endpoints.call(ATTEMPT, |caller| txn_of(caller, create.clone())).await {
                Ok(_) => {}
                Err(Failure::Refused(status) | Failure::NotSent(status)) => return Err(unavailable(&status).into()),
                Err(Failure::Unanswered(status)) => unanswered = Some(status),
            }
        }
        let status = unanswered
            .unwrap_or_else(|| Status::unavailable("the store's identity was created, but etcd does not return it"));
        Err(unavailable(&status).into())
    }

    /// Reads a range of keys. The read is linearizable.
    async fn range(&self, range: RangeRequest) -> Result<RangeResponse, RangeError> {
        let mark = self.pin.mark()?;
        let answer = self.endpoints.call_idempotent(ATTEMPT, |caller| range_of(caller, range.clone())).await?;
        self.pin.check(answer.header.as_ref(), mark)?;
        Ok(answer)
    }

    /// Checks that the last write of this process is in etcd's history. After a rollback the write is missing, even if
    /// etcd has made other writes since the rollback.
    async fn check_history(&self) -> Result<(), Unavailable> {
        let Some(Write { name, revision }) = self.pin.last_write() else { return Ok(()) };
        let range = RangeRequest { key: name.into(), revision, ..RangeRequest::default() };
        match self.range(range).await {
            Ok(answer) if answer.kvs.first().is_some_and(|pair| pair.mod_revision == revision) => Ok(()),
            Ok(_) => Err(self.pin.exchange(Exchanged::Forgotten { revision }).into()),
            // Either the revision is compacted, or etcd was rolled back and has not reached the revision again. In the
            // second case, the header of every reply shows the rollback.
            Err(RangeError::Status(status)) if status.code() == Code::OutOfRange => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the key of the store's identity in etcd.
    fn identity_name(&self) -> Vec<u8> {
        format!("{}store-id", self.root).into_bytes()
    }

    /// Returns the etcd key for a key of this store.
    fn name(&self, key: &Key) -> Vec<u8> {
        format!("{}data/{key}", self.root).into_bytes()
    }

    /// Returns the store's key for an etcd key, or `None` if the etcd key does not belong to this store.
    fn key(&self, name: &[u8]) -> Option<Key> {
        let name = str::from_utf8(name).ok()?.strip_prefix(&self.root)?.strip_prefix("data/")?;
        Key::new(name).ok()
    }

    fn open(&self, pair: &KeyValue) -> Result<(Key, Versioned), ReadError> {
        let foreign = || Unavailable::backend(format!("{:?} is not a Kent key", pair.key));
        let key = self.key(&pair.key).ok_or_else(foreign)?;
        let value = envelope::open_as(self.known, &key, &pair.value)?.to_vec();
        Ok((key, Versioned { version: version(pair), value }))
    }

    fn write(&self, key: &Key, value: Option<&[u8]>) -> RequestOp {
        let name = self.name(key);
        match value {
            Some(value) => put(name, self.seal(key, value)),
            None => {
                let delete = DeleteRangeRequest { key: name.into(), ..DeleteRangeRequest::default() };
                RequestOp { request: Some(request_op::Request::RequestDeleteRange(delete)) }
            }
        }
    }

    fn seal(&self, key: &Key, value: &[u8]) -> Vec<u8> {
        envelope::seal_as(self.schema.load(Ordering::Relaxed), key, value)
    }

    /// Returns the error for a transaction whose guards did not hold.
    fn conflict(&self, txn: &Txn, responses: &[pb::etcdserverpb::ResponseOp]) -> CommitError {
        for ((key, expected), answer) in txn.guards().iter().zip(responses) {
            let Some(response_op::Response::ResponseRange(range)) = &answer.response else { continue };
            let actual = match range.kvs.first().map(|pair| self.open(pair)) {
                None => Version::ABSENT,
                Some(Ok((_, versioned))) => versioned.version,
                Some(Err(error)) => return error.into(),
            };
            if actual != *expected {
                self.conflicts.fetch_add(1, Ordering::Relaxed);
                return CommitError::Conflict { key: key.clone(), expected: *expected, actual };
            }
        }
        // The comparisons and the reads are in one transaction, so this never happens with a correct etcd.
        Unknown::new("etcd rejected a transaction whose guards hold").into()
    }
}

#[async_trait]
impl Store for EtcdStore {
    async fn get(&self, key: &Key) -> Result<Option<Versioned>, ReadError> {
        self.check_open()?;
        let range = RangeRequest { key: self.inner.name(key).into(), ..RangeRequest::default() };
        let answer = self.inner.range(range).await?;
        answer.kvs.first().map(|pair| Ok(self.inner.open(pair)?.1)).transpose()
    }

    async fn scan(&self, prefix: &Key) -> Result<Vec<(Key, Versioned)>, ReadError> {
        self.check_open()?;
        loop {
            let mut pages = EtcdPages::new(&self.inner, prefix);
            match pages::collect(&mut pages).await {
                // The revision of the first page was compacted in the meantime.
                Err(_) if pages.is_compacted => {}
                answer => return answer,
            }
        }
    }

    async fn pages(&self, prefix: &Key) -> Result<Box<dyn Pages>, ReadError> {
        self.check_open()?;
        Ok(Box::new(EtcdPages::new(&self.inner, prefix)))
    }

    async fn commit(&self, txn: Txn) -> Result<Committed, CommitError> {
        txn.check()?;
        self.check_open()?;
        let inner = &self.inner;
        // If a guard fails, the same transaction reads the actual versions.
        let mut failure: Vec<RequestOp> = txn.guards().iter().map(|(key, _)| read(inner.name(key))).collect();
        if failure.is_empty() {
            // A transaction that reads and writes nothing is not linearizable: a member that lags behind could answer
            // it.
            failure.push(read(inner.identity_name()));
        }
        let request = TxnRequest {
            compare: txn.guards().iter().map(|(key, version)| compare(inner.name(key), *version)).collect(),
            success: txn.writes().iter().map(|(key, value)| inner.write(key, value.as_deref())).collect(),
            failure,
        };
        let mark = inner.pin.mark().map_err(Unavailable::from)?;
        // Do not use `call_idempotent`, because a transaction without a reply may still be applied.
        let answer = inner.endpoints.call(ATTEMPT, |caller| txn_of(caller, request.clone())).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(Failure::NotSent(status) | Failure::Refused(status)) => return Err(unavailable(&status).into()),
            Err(Failure::Unanswered(status)) => {
                inner.unknowns.fetch_add(1, Ordering::Relaxed);
                return Err(Unknown::new(describe(&status)).into());
            }
        };
        // If etcd was replaced, another store may have made the commit, so the outcome is unknown.
        inner.pin.check(answer.header.as_ref(), mark).map_err(Unknown::new)?;
        if !answer.succeeded {
            return Err(inner.conflict(&txn, &answer.responses));
        }
        inner.commits.fetch_add(1, Ordering::Relaxed);
        let revision = answer.header.map_or(0, |header| header.revision);
        if let Some((put, _)) = txn.writes().iter().find(|(_, value)| value.is_some()) {
            inner.pin.wrote(&inner.name(put), revision);
        }
        Ok(Committed { version: Version::new(u64::try_from(revision).unwrap_or(0)) })
    }

    fn store_id(&self) -> StoreId {
        self.id
    }

    fn stats(&self) -> Stats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let inner = &self.inner;
        let (commits, conflicts, unknowns) = (get(&inner.commits), get(&inner.conflicts), get(&inner.unknowns));
        // etcd makes every commit durable. Kent does not know how many commits share a sync.
        Stats {
            commits,
            conflicts,
            unknowns,
            flushes: commits,
            reopens: inner.endpoints.switches(),
            ..Stats::default()
        }
    }

    fn peers(&self) -> Option<&dyn Peers> {
        Some(self)
    }

    async fn servers(&self) -> Option<Servers> {
        Some(maintenance::servers(&self.inner).await)
    }

    async fn close(&self) {
        if !self.closed.swap(true, Ordering::SeqCst) {
            self.withdraw().await;
        }
    }
}

/// A paged read at the revision of its first page.
struct EtcdPages {
    inner: Arc<Inner>,
    /// The first etcd key of the next page, or `None` at the end.
    from: Option<Vec<u8>>,
    range_end: Vec<u8>,
    /// The revision of the first page, or 0 before the first page.
    revision: i64,
    /// Whether etcd has compacted the revision.
    is_compacted: bool,
}

impl EtcdPages {
    fn new(inner: &Arc<Inner>, prefix: &Key) -> Self {
        let first = inner.name(prefix);
        let range_end = end_of(&first);
        Self { inner: Arc::clone(inner), from: Some(first), range_end, revision: 0, is_compacted: false }
    }
}

#[async_trait]
impl Pages for EtcdPages {
    async fn next(&mut self) -> Result<Option<Page>, ReadError> {
        let Some(from) = self.from.clone() else { return Ok(None) };
        let (range_end, revision) = (self.range_end.clone().into(), self.revision);
        let range = RangeRequest { key: from.into(), range_end, limit: PAGE_KEYS, revision };
        let page = self.inner.range(range).await.inspect_err(|error| {
            let is_compacted = matches!(error, RangeError::Status(status) if status.code() == Code::OutOfRange);
            self.is_compacted = self.revision != 0 && is_compacted;
        })?;
        let records = page.kvs.iter().map(|pair| self.inner.open(pair)).collect::<Result<Page, _>>()?;
        if let Some(header) = page.header.filter(|_| self.revision == 0) {
            self.revision = header.revision;
        }
        let last = page.kvs.last().filter(|_| page.more);
        self.from = last.map(|last| [&last.key[..], &[0]].concat());
        Ok(Some(records))
    }
}

#[async_trait]
impl Peers for EtcdStore {
    async fn watch(&self, prefix: &Key) -> Result<Box<dyn Watch>, ReadError> {
        self.check_open()?;
        let name = self.inner.name(prefix);
        Ok(Box::new(watch::EtcdWatch::begin(self.inner.clone(), name).await?))
    }

    async fn announce(&self, key: &Key, value: Vec<u8>, ttl: Duration) -> Result<(), Unavailable> {
        self.check_open()?;
        self.presence.lock().await.announce(&self.inner, key, value, ttl).await
    }

    fn write_schema(&self, schema: u16) {
        self.inner.schema.store(schema, Ordering::Relaxed);
    }

    async fn withdraw(&self) {
        self.presence.lock().await.withdraw(&self.inner).await;
    }

    async fn exchanged(&self) -> Exchanged {
        self.inner.pin.exchanged().await
    }
}

fn compare(key: Vec<u8>, expected: Version) -> Compare {
    // OK because etcd's revisions are positive.
    let revision = i64::try_from(expected.get()).unwrap_or(i64::MAX);
    Compare {
        result: compare::CompareResult::Equal.into(),
        target: compare::CompareTarget::Mod.into(),
        key: key.into(),
        target_union: Some(compare::TargetUnion::ModRevision(revision)),
    }
}

fn put(name: Vec<u8>, sealed: Vec<u8>) -> RequestOp {
    let put = PutRequest { key: name.into(), value: sealed.into(), lease: 0 };
    RequestOp { request: Some(request_op::Request::RequestPut(put)) }
}

fn read(name: Vec<u8>) -> RequestOp {
    let range = RangeRequest { key: name.into(), ..RangeRequest::default() };
    RequestOp { request: Some(request_op::Request::RequestRange(range)) }
}

fn version(pair: &KeyValue) -> Version {
    Version::new(u64::try_from(pair.mod_revision).unwrap_or(0))
}

/// Returns the end of the range of all etcd keys with this prefix.
fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    // OK because the prefix is UTF-8, which never has the byte 0xff.
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// An error from a read.
#[derive(Debug)]
enum RangeError {
    Exchanged(Exchanged),
    Status(Status),
}

impl From<Exchanged> for RangeError {
    fn from(exchanged: Exchanged) -> Self {
        Self::Exchanged(exchanged)
    }
}

impl From<Status> for RangeError {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl From<RangeError> for Unavailable {
    fn from(error: RangeError) -> Self {
        match error {
            RangeError::Exchanged(exchanged) => exchanged.into(),
            RangeError::Status(status) => unavailable(&status),
        }
    }
}

impl From<RangeError> for ReadError {
    fn from(error: RangeError) -> Self {
        Unavailable::from(error).into()
    }
}

fn unavailable(status: &Status) -> Unavailable {
    Unavailable::backend(describe(status))
}

/// Describes a status on one line: by the message from etcd, or by the root cause if the connection failed. The layers
/// between only say that the transport failed.
fn describe(status: &Status) -> String {
    let causes = iter::successors(std::error::Error::source(status), |cause| cause.source());
    format!("etcd: {}", causes.last().map_or_else(|| status.message().to_owned(), kent_tls::explained))
}

async fn range_of(caller: Caller, range: RangeRequest) -> Result<RangeResponse, Status> {
    let mut kv = KvClient::new(caller.service()).max_decoding_message_size(usize::MAX);
    kv.range(range).await.map(Response::into_inner)
}

async fn txn_of(caller: Caller, txn: TxnRequest) -> Result<TxnResponse, Status> {
    let mut kv = KvClient::new(caller.service()).max_decoding_message_size(usize::MAX);
    kv.txn(txn).await.map(Response::into_inner)
}
