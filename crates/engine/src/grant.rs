//! Grants blocks from formats, series, regions and custom layouts.
//!
//! [`Grants::try_grant`] does no I/O: it grants, rejects the request, or returns the event that the caller must wait
//! for. [`Grants::finish`] waits and tries again until the caller's deadline.

pub mod floors;
pub mod integers;
mod layouts;
pub mod outcome;
mod refused;
mod regions;
mod series;

use std::{sync::Arc, time::Duration};

use kent_access::{Action, Target};
use kent_ids::{Block, Source, counted, grouped};
use kent_proto::{
    model::{AllocateInput, Encoding, Invalid},
    stored::TextForm,
};
use kent_regions::RegionNumber;
use tokio::time;

pub use self::{
    layouts::{LayoutGrants, ListedLayout},
    outcome::{Granted, HeldChunk, TryGrant, Wait, request_id_not_allowed},
    regions::RegionGrants,
    series::{ListedSeries, SeriesGrants},
};
use crate::{
    auth::{Caller, Denied},
    budgets::{Account, Budgets, NotReserved},
    error::{AllocateError, OverBudget},
    host::{
        call,
        clock::Clock,
        deadline::WaitLimit,
        entropy::{self, Entropy},
        flight::{self, Happened, LONG_WAIT, Name},
        tasks::Tasks,
    },
    issuing::{
        pacing::Pacing,
        slots::Slots,
        timed::{Timed, UsedLayout},
    },
    records::failure::StoreFailure,
    tables::space::Space,
};

/// Grants blocks from all kinds of sources.
#[derive(Debug)]
pub struct Grants {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) tasks: Tasks,
    pub(crate) slots: Arc<Slots>,
    pub(crate) pacing: Arc<Pacing>,
    pub(crate) regions: RegionGrants,
    pub(crate) series: SeriesGrants,
    pub(crate) layouts: LayoutGrants,
    pub(crate) budgets: Arc<Budgets>,
    /// The maximum sizes of grants.
    pub limits: Limits,
}

/// The limits of one request.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The maximum number of identifiers in one lease.
    pub lease_count: u64,
    /// The maximum size of the identifiers in one packed reply, in bytes.
    pub packed_bytes: u64,
}

/// The maximum number of identifiers in one reply that contains them as text.
pub const TEXTS_MAX: u64 = 10_000;

/// The number of attempts after which conflicts make a grant fail, if the caller's deadline has also passed.
const ATTEMPTS: u32 = 16;

/// The upper bound of the backoff doubles from 2 ms to 64 ms; a commit takes about 1 ms.
const BACK_OFF_MIN_MICROS: u64 = 500;
const BACK_OFF_DOUBLINGS: u32 = 7;

impl Grants {
    /// Grants a block and returns it with the time of the grant, or returns the event that the caller has to wait for.
    /// Calls `wait_limit` only for a strict grant.
    ///
    /// # Errors
    ///
    /// [`AllocateError`] if the request is rejected and waiting does not help.
    pub fn try_grant(
        &self,
        request: &AllocateInput,
        caller: &Caller,
        wait_limit: impl FnOnce() -> WaitLimit,
    ) -> Result<TryGrant<Granted>, AllocateError> {
        self.check_whole()?;
        check_source(request, caller)?;
        self.check_count(request)?;
        if !request.request_id.is_empty() && !matches!(request.source, Source::Region { .. }) {
            return Err(request_id_not_allowed().into());
        }
        let tried = match &request.source {
            Source::Format(format) => {
                return self.try_grant_timed(Timed::Format(*format), Target::Format(*format), request, caller);
            }
            Source::Layout(name) => {
                let Some(used) = self.layouts.used(name) else { return Ok(TryGrant::Wait(Wait::Layout(name.clone()))) };
                let tag = layouts::check(request, &used.layout, self.limits.packed_bytes)?;
                return self.try_grant_timed(Timed::Layout(used, tag), Target::Layout(name), request, caller);
            }
            Source::Series(series) => match caller.charge_budgets(Target::Series(series), request.count.get()) {
                Ok(charge) => {
                    let tried = self.series.try_grant(series, request.count);
                    if matches!(tried, Ok(TryGrant::Granted(..))) {
                        charge.keep();
                    }
                    tried
                }
                Err(account) => Ok(TryGrant::Wait(Wait::Budget(account, None))),
            },
            Source::Region { name, space } => {
                self.regions.try_grant((space, name), request, caller, self.limits, wait_limit)
            }
        };
        match tried {
            Ok(TryGrant::Granted(block, now)) => Ok(TryGrant::Granted(self.granted(block), now)),
            Ok(TryGrant::Wait(wait)) => Ok(TryGrant::Wait(wait)),
            Err(error) => Err(self.refused(error)),
        }
    }

    /// Grants a block of time-based identifiers.
    #[inline]
    fn try_grant_timed(
        &self,
        timed: Timed,
        target: Target<'_>,
        request: &AllocateInput,
        caller: &Caller,
    ) -> Result<TryGrant<Granted>, AllocateError> {
        let charge = match caller.charge_budgets(target, request.count.get()) {
            Ok(charge) => charge,
            Err(account) => return Ok(TryGrant::Wait(Wait::Budget(account, None))),
        };
        match self.slots.try_grant(&timed, request.count) {
            Ok((granted, now)) => {
                charge.keep();
                let (block, clock_epoch) = (granted.block, granted.clock_epoch);
                Ok(TryGrant::Granted(Granted { block, clock_epoch }, now))
            }
            Err(refusal) if refusal.is_passing() => {
                // The slot keeper finds no slot until the wait after a restore is over.
                if let Some(wait) = self.slots.restore_wait() {
                    return Err(wait.into());
                }
                Ok(TryGrant::Wait(Wait::Time(timed, refusal, charge)))
            }
            Err(refusal) => Err(AllocateError::Time { source_token: timed.to_string(), refusal }),
        }
    }

    /// Waits and tries again until a block is granted or the request fails.
    ///
    /// # Errors
    ///
    /// [`AllocateError`].
    pub async fn finish(
        &self,
        request: &AllocateInput,
        caller: &Caller,
        wait: Wait,
        wait_limit: WaitLimit,
    ) -> Result<Granted, AllocateError> {
        let granted = self.finish_unrecorded(request, caller, wait, wait_limit).await;
        self.record_long_wait(request, wait_limit.began(), granted.is_ok());
        granted
    }

    /// Returns the identifiers of a strict grant whose commit has succeeded. `began` is when the request arrived.
    ///
    /// # Errors
    ///
    /// [`AllocateError`] if the daemon must issue nothing more.
    pub fn committed(&self, request: &AllocateInput, block: Block, began: Duration) -> Result<Granted, AllocateError> {
        let granted = self.check_whole().map(|()| self.granted(block));
        self.record_long_wait(request, began, granted.is_ok());
        granted
    }

    /// Records the wait of a request that arrived at `began`, if the wait was long.
    fn record_long_wait(&self, request: &AllocateInput, began: Duration, granted: bool) {
        let waited = self.clock.steady().saturating_sub(began);
        if waited >= LONG_WAIT {
            let (source, count) = (Name::of(&request.source), request.count.get());
            flight::record(Happened::GrantWaited { source, count, waited, granted });
        }
    }

    async fn finish_unrecorded(
        &self,
        request: &AllocateInput,
        caller: &Caller,
        mut wait: Wait,
        wait_limit: WaitLimit,
    ) -> Result<Granted, AllocateError> {
        let mut attempt = 0;
        loop {
            if !matches!(wait, Wait::Time(..)) {
                attempt += 1;
            }
            if let Some(granted) =
                self.wait(request, caller, wait, wait_limit).await.map_err(|error| self.refused(error))?
            {
                return self.check_whole().map(|()| granted);
            }
            if attempt >= ATTEMPTS && wait_limit.left(self.clock.steady()).is_zero() {
                return Err(AllocateError::Contended { attempts: ATTEMPTS });
            }
            self.back_off(attempt).await;
            wait = match self.try_grant(request, caller, || wait_limit)? {
                TryGrant::Granted(granted, _) => return Ok(granted),
                TryGrant::Wait(wait) => wait,
            };
        }
    }

    /// Waits for the clock, a chunk, a budget or a commit. All waits except the wait for a chunk can return a block.
    async fn wait(
        &self,
        request: &AllocateInput,
        caller: &Caller,
        wait: Wait,
        wait_limit: WaitLimit,
    ) -> Result<Option<Granted>, AllocateError> {
        match wait {
            Wait::Time(timed, refusal, charge) => {
                let waited = self.slots.wait(&timed, request.count, refusal, wait_limit).await;
                let granted =
                    waited.map_err(|refusal| AllocateError::Time { source_token: timed.to_string(), refusal })?;
                Ok(granted.map(|granted| {
                    charge.keep();
                    Granted { block: granted.block, clock_epoch: granted.clock_epoch }
                }))
            }
            Wait::Strict(pending) => Ok(pending.await?.map(|block| self.granted(block))),
            Wait::Region(space, number) => {
                self.reserved(self.regions.clone().reserve(space, number, request.count), wait_limit).await
            }
            Wait::Budget(account, strict) => self.reserve_budget(request, caller, (account, strict), wait_limit).await,
            Wait::Layout(name) => {
                let by = (caller.proved().unwrap_or_default().to_owned(), self.clock.wall());
                let open = self.layouts.clone().open(name, (request.clone(), self.limits.packed_bytes), by);
                self.reserved(open, wait_limit).await
            }
            Wait::Series(series) => self.reserved(self.series.clone().reserve(series, request.count), wait_limit).await,
        }
    }

    /// Waits for a share of a budget. If too little is left in the budget, returns the block that was granted earlier
    /// under the same request ID, if any. A repeated request takes nothing from the budget.
    async fn reserve_budget(
        &self,
        request: &AllocateInput,
        caller: &Caller,
        (account, strict): (Arc<Account>, Option<(Arc<Space>, RegionNumber)>),
        wait_limit: WaitLimit,
    ) -> Result<Option<Granted>, AllocateError> {
        let (budgets, count) = (self.budgets.clone(), request.count.get());
        let (source, taken) = (request.source.clone(), account.clone());
        let reserve = async move {
            let reserved = budgets.reserve(taken, count).await;
            reserved.map_err(|not| not_reserved(not, &account, source, count))
        };
        match (self.reserved(reserve, wait_limit).await, strict) {
            (Err(AllocateError::OverBudget(over)), Some((space, number))) => {
                let asked = (request.count, &*request.request_id);
                let before = self.regions.granted_before(&space, number, asked, caller).await?;
                before.map(|block| Some(self.granted(block))).ok_or(AllocateError::OverBudget(over))
            }
            (reserved, _) => reserved,
        }
    }

    /// Waits for a reservation. The reservation continues if its caller disconnects; the next caller uses the reserved
    /// chunk.
    async fn reserved(
        &self,
        reservation: impl Future<Output = Result<(), AllocateError>> + Send + 'static,
        wait_limit: WaitLimit,
    ) -> Result<Option<Granted>, AllocateError> {
        let left = wait_limit.left(self.clock.steady());
        match time::timeout(left, self.tasks.spawn_work_local(call::inherited(reservation))).await {
            Ok(Ok(reserved)) => self.pacing.wait(reserved, wait_limit).await.map(|()| None),
            Ok(Err(_)) | Err(_) => Err(AllocateError::Late),
        }
    }

    /// Waits before another attempt after a conflict with another replica. The random delay grows with the number of
    /// attempts, so that no replica loses every time.
    async fn back_off(&self, attempt: u32) {
        // The second attempt has no delay, because it usually finds the chunk that the first attempt reserved.
        if attempt > 1 {
            let most = BACK_OFF_MIN_MICROS << attempt.min(BACK_OFF_DOUBLINGS);
            time::sleep(Duration::from_micros(entropy::number(&*self.entropy) % most)).await;
        }
    }

    fn granted(&self, block: Block) -> Granted {
        Granted { block, clock_epoch: self.slots.clock_epoch() }
    }

    /// Makes the daemon issue nothing more if the error shows that an invariant is broken or that the store was replaced.
    fn refused(&self, error: AllocateError) -> AllocateError {
        match &error {
            AllocateError::Broken(broken) => self.tasks.fail_broken(broken),
            AllocateError::Store(replaced @ StoreFailure::Replaced { .. }) => self.tasks.fail_replaced(replaced),
            _ => {}
        }
        error
    }

    /// The text form of a source's numbers. Only spaces have forms other than decimal.
    pub fn text_form(&self, source: &Source) -> TextForm {
        match source {
            // If the space was deleted after the grant, the identifiers are written as decimal numbers.
            Source::Region { space, .. } => self.regions.text_form(space).unwrap_or_default(),
            // The text of a layout has a form of its own: see [`Grants::spelling`].
            Source::Format(_) | Source::Series(_) | Source::Layout(_) => TextForm::Decimal,
        }
    }

    /// The text form of a layout's identifiers; `None` for other sources.
    pub fn spelling(&self, source: &Source) -> Option<Arc<UsedLayout>> {
        match source {
            Source::Layout(name) => self.layouts.used(name),
            Source::Format(_) | Source::Series(_) | Source::Region { .. } => None,
        }
    }

    /// Fails if an invariant is broken.
    fn check_whole(&self) -> Result<(), AllocateError> {
        if self.tasks.is_broken() { Err(AllocateError::Stopped) } else { Ok(()) }
    }

    fn check_count(&self, request: &AllocateInput) -> Result<(), Invalid> {
        let count = request.count.get();
        match request.encoding {
            Encoding::Lease => return check_max(count, self.limits.lease_count, "in one lease"),
            Encoding::Text => return check_max(count, TEXTS_MAX, "as text in one reply"),
            Encoding::Integers => return check_max(count, self.limits.lease_count, "in one run"),
            Encoding::Packed => {}
        }
        let width = match &request.source {
            Source::Format(format) => format.width_bytes(),
            Source::Series(series) => series.width_bytes(),
            // The width of a region's identifiers depends on the space, so `RegionGrants` checks the count, after it
            // has checked the caller's permission. Likewise for layouts.
            Source::Region { .. } | Source::Layout(_) => return Ok(()),
        };
        check_max(count, self.limits.packed_bytes / width as u64, "packed in one reply")
    }
}

fn not_reserved(not: NotReserved, account: &Account, from: Source, requested: u64) -> AllocateError {
    match not {
        NotReserved::Store(failure) => failure.into(),
        NotReserved::Short(left) => {
            AllocateError::OverBudget(Box::new(OverBudget { holder: account.holder().clone(), from, left, requested }))
        }
    }
}

/// The action that a request needs. Leases have a separate action, because they contain keys.
const fn action(request: &AllocateInput) -> Action {
    match request.encoding {
        Encoding::Lease => Action::Lease,
        Encoding::Packed | Encoding::Text | Encoding::Integers => Action::Allocate,
    }
}

/// Fails if the caller may not request identifiers of a format, a series or a layout. A region is checked when it is
/// looked up.
fn check_source(request: &AllocateInput, caller: &Caller) -> Result<(), Denied> {
    let target = match &request.source {
        Source::Format(format) => Target::Format(*format),
        Source::Series(series) => Target::Series(series),
        Source::Layout(name) => Target::Layout(name),
        Source::Region { .. } => return Ok(()),
    };
    caller.check(action(request), target, || ("", ""))
}

/// Fails if a request asks for more than `max` identifiers.
pub fn check_max(count: u64, max: u64, scope: &str) -> Result<(), Invalid> {
    match count > max {
        true => Err(Invalid::new(
            "count",
            format!("is {}, but at most {} fit {scope}", grouped(count), counted(max, "identifier")),
        )),
        false => Ok(()),
    }
}
