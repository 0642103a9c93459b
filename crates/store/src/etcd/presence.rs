//! Announcements: an announcement is a key with a lease, which later announcements renew.

use std::time::Duration;

use tokio::time::Instant;
use tonic::{Response, Status};

use super::endpoints::Caller;
use super::pb::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest,
    PutRequest, RequestOp, TxnRequest, lease_client::LeaseClient, request_op,
};
use super::{ATTEMPT, Inner, txn_of, unavailable};
use crate::error::Unavailable;
use crate::key::Key;

/// The announcement of a process.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    lease: i64,
    value: Vec<u8>,
    /// The start of the call that last renewed the lease.
    renewed: Instant,
}

/// The minimum time between two renewals of a lease. To allow for this time, the lease's TTL is up to a second longer
/// than requested.
const RENEW_AFTER: Duration = Duration::from_secs(1);

impl Presence {
    /// Keeps the lease alive, and puts the value if it has changed.
    pub(crate) async fn announce(
        &mut self,
        inner: &Inner,
        key: &Key,
        value: Vec<u8>,
        ttl: Duration,
    ) -> Result<(), Unavailable> {
        inner.check_history().await?;
        let began = Instant::now();
        let lease = match &self.held {
            // A value that changes often need not renew the lease each time.
            Some(held) if began.duration_since(held.renewed) < RENEW_AFTER => Some((held.lease, held.renewed)),
            Some(held) => keep_alive(inner, held.lease).await?.then_some((held.lease, began)),
            None => None,
        };
        let (lease, renewed, is_new) = match lease {
            Some((lease, renewed)) => (lease, renewed, false),
            None => (grant(inner, ttl).await?, began, true),
        };
        let is_stored = !is_new && self.held.as_ref().is_some_and(|held| held.value == value);
        // If the put fails, the next announcement puts the value again.
        self.held = Some(Held { lease, value: if is_stored { value.clone() } else { Vec::new() }, renewed });
        if !is_stored {
            put(inner, key, &value, lease).await?;
            self.held = Some(Held { lease, value, renewed });
        }
        Ok(())
    }

    /// Revokes the lease, which removes the key.
    pub(crate) async fn withdraw(&mut self, inner: &Inner) {
        let Some(held) = self.held.take() else { return };
        // OK because the lease expires by itself if this call fails.
        let revoking = inner.endpoints.call_idempotent(ATTEMPT, |caller| revoke_at(caller, held.lease));
        let _ = revoking.await;
    }
}

async fn grant(inner: &Inner, ttl: Duration) -> Result<i64, Unavailable> {
    // etcd counts whole seconds, so the TTL is rounded up.
    let seconds = i64::try_from(ttl.as_secs() + 1).unwrap_or(i64::MAX);
    let granted = inner.endpoints.call_idempotent(ATTEMPT, |caller| grant_at(caller, seconds)).await;
    let granted = granted.map_err(|status| unavailable(&status))?;
    inner.pin.check_cluster(granted.header.as_ref())?;
    Ok(granted.id)
}

async fn grant_at(caller: Caller, ttl: i64) -> Result<LeaseGrantResponse, Status> {
    let grant = LeaseGrantRequest { ttl, id: 0 };
    LeaseClient::new(caller.service()).lease_grant(grant).await.map(Response::into_inner)
}

async fn revoke_at(caller: Caller, lease: i64) -> Result<(), Status> {
    let revoke = LeaseRevokeRequest { id: lease };
    LeaseClient::new(caller.service()).lease_revoke(revoke).await.map(drop)
}

/// Renews the lease. Returns false if the lease has expired.
async fn keep_alive(inner: &Inner, lease: i64) -> Result<bool, Unavailable> {
    let renewed = inner.endpoints.call_idempotent(ATTEMPT, |caller| renew_at(caller, lease)).await;
    let renewed = renewed.map_err(|status| unavailable(&status))?;
    inner.pin.check_cluster(renewed.header.as_ref())?;
    Ok(renewed.ttl > 0)
}

async fn renew_at(caller: Caller, lease: i64) -> Result<LeaseKeepAliveResponse, Status> {
    let once = tokio_stream::once(LeaseKeepAliveRequest { id: lease });
    let mut answers = LeaseClient::new(caller.service()).lease_keep_alive(once).await?.into_inner();
    let answer = answers.message().await?;
    answer.ok_or_else(|| Status::unavailable("the stream ended without a reply"))
}

async fn put(inner: &Inner, key: &Key, value: &[u8], lease: i64) -> Result<(), Unavailable> {
    let put = PutRequest { key: inner.name(key).into(), value: inner.seal(key, value).into(), lease };
    let txn = TxnRequest {
        success: vec![RequestOp { request: Some(request_op::Request::RequestPut(put)) }],
        ..TxnRequest::default()
    };
    let mark = inner.pin.mark()?;
    let done = inner.endpoints.call_idempotent(ATTEMPT, |caller| txn_of(caller, txn.clone())).await;
    let done = done.map_err(|status| unavailable(&status))?;
    inner.pin.check(done.header.as_ref(), mark)?;
    inner.pin.wrote(&inner.name(key), done.header.map_or(0, |header| header.revision));
    Ok(())
}
