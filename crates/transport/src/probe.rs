//! Entry points for benchmarks: parts of the daemon that cannot be called separately through a port.

use std::{net::SocketAddr, num::NonZeroU64, sync::Arc, time::Duration};

use kent_access::{Action, Bound, LIMIT_MAX, LimitKind, Limits, Place, Presented, Right, Target, Token, TokenId};
use kent_engine::{
    auth::{AccessTable, Auth, Caller, Write},
    budgets::Budgets,
    host::{address::Address, clock::Clock, entropy::SystemEntropy},
    records::failure::StoreFailure,
};
use kent_ids::{Series, UnixNanos};
use kent_store::{MemoryStore, StoreId};
use tonic::Request;

use crate::{callers::identify, peer::Peer};

/// A clock that never advances. Valgrind does not support the clock of the machine.
#[derive(Debug)]
struct Standing;

impl Clock for Standing {
    fn wall(&self) -> UnixNanos {
        UnixNanos::new(0)
    }

    fn steady(&self) -> Duration {
        Duration::ZERO
    }
}

/// Authorizes the calls of one connection with a token.
#[derive(Debug)]
pub struct Authorizing {
    auth: Auth,
    request: Request<()>,
    series: Series,
}

impl Authorizing {
    /// Creates a daemon that requires credentials, and a connection whose caller has a token for a region and a series.
    ///
    /// # Errors
    ///
    /// The store in memory fails.
    pub async fn begin() -> Result<Self, StoreFailure> {
        Self::within(Limits::default()).await
    }

    /// Like [`Self::begin`], but the token has limits, which no measurement reaches.
    ///
    /// # Errors
    ///
    /// The store in memory fails.
    pub async fn limited() -> Result<Self, StoreFailure> {
        let limit = NonZeroU64::new(LIMIT_MAX);
        Self::within(Limits::default().with(LimitKind::Calls, limit).with(LimitKind::Ids, limit)).await
    }

    async fn within(limits: Limits) -> Result<Self, StoreFailure> {
        let store = Arc::new(MemoryStore::new(StoreId::new([1; 16])));
        let table = Arc::new(AccessTable::load(store.clone(), Arc::new(SystemEntropy)).await?);
        let presented = Presented::new(TokenId::new([1; 6]), [2; 32]);
        let series = Series::FullRand;
        let place = Place { space: "default".to_owned(), number: 7, first_name: "orders".to_owned() };
        let rights =
            [("allocate:region:default/orders", Bound::Region(place)), ("lease:uid11-fullrand", Bound::Nothing)];
        let rights = rights.into_iter().filter_map(|(text, bound)| Right::new(text.parse().ok()?, bound).ok());
        let token = Token {
            id: presented.id(),
            name: "orders".to_owned(),
            rights: rights.collect(),
            roles: Vec::new(),
            limits,
            created: 0,
            expires: None,
            created_by: "local".to_owned(),
            hash: presented.hash(),
            outdated: None,
            refused: None,
        };
        table.change::<StoreFailure>(|_| Ok(vec![Write::Token(Box::new(token.clone()))])).await?;
        let budgets = Budgets::new(store, Arc::new(Standing));
        let auth = Auth::new(true, (table, budgets), Arc::new(Standing), None, Limits::default());
        let mut request = Request::new(());
        // The headers of a Rust client, in the order in which it sends them.
        for (name, value) in [("user-agent", "tonic/0.14"), ("te", "trailers"), ("content-type", "application/grpc")] {
            // OK because the names and values are valid.
            if let Ok(value) = value.parse() {
                request.metadata_mut().insert(name, value);
            }
        }
        // OK because the token is ASCII.
        if let Ok(header) = format!("Bearer {}", presented.reveal()).parse() {
            request.metadata_mut().insert("authorization", header);
        }
        request.extensions_mut().insert(Peer::new(Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 1))), None));
        Ok(Self { auth, request, series })
    }

    /// Identifies the caller of a unary call, and decides whether it may take identifiers of its region. Returns the
    /// decision.
    pub fn authorize(&self) -> bool {
        let Ok(caller) = identify(&self.auth, &self.request, Duration::ZERO) else { return false };
        let target = Target::Region { space: "default", number: Some(7), first_name: "orders" };
        caller.may(Action::Allocate, target)
    }

    /// Like [`Self::authorize`], and counts the call and an identifier toward the limits of the caller, as a unary
    /// grant does. Returns whether the call is allowed.
    pub fn authorize_limited(&self) -> bool {
        let Ok(caller) = identify(&self.auth, &self.request, Duration::ZERO) else { return false };
        let target = Target::Region { space: "default", number: Some(7), first_name: "orders" };
        is_within_limits(&caller) && caller.may(Action::Allocate, target)
    }

    /// Authorizes calls of a stream whose caller is already identified. Returns whether all are allowed.
    pub fn authorize_stream(&self, calls: u64) -> bool {
        let Ok(caller) = identify(&self.auth, &self.request, Duration::ZERO) else { return false };
        let is_allowed = |_| {
            self.auth.is_current(&caller, Duration::ZERO) && caller.may(Action::Lease, Target::Series(&self.series))
        };
        (0..calls).all(is_allowed)
    }

    /// Counts calls of a stream toward the limits of their caller. Returns whether all are within the limits.
    pub fn charge_stream(&self, calls: u64) -> bool {
        let Ok(caller) = identify(&self.auth, &self.request, Duration::ZERO) else { return false };
        (0..calls).all(|_| is_within_limits(&caller))
    }
}

/// Counts a call for one identifier, and returns whether it is within the limits.
fn is_within_limits(caller: &Caller) -> bool {
    caller.charge_call(Duration::ZERO).is_ok() && caller.charge_ids(NonZeroU64::MIN, Duration::ZERO).is_ok()
}
