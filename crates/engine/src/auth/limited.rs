//! Counts calls, identifiers and streams against the caller's limits. Only principals have limits.

use std::{num::NonZeroU64, time::Duration};

use kent_access::{Charge, LimitKind};

use super::{
    caller::Caller,
    denied::Denied,
    usage::{Limited, Open, OpenKind},
};

impl Caller {
    /// Counts a call that began at `now`, on the steady clock.
    ///
    /// # Errors
    ///
    /// [`Denied::Limited`] if the caller makes more calls than its limit allows.
    #[inline]
    pub fn charge_call(&self, now: Duration) -> Result<(), Denied> {
        self.charge(LimitKind::Calls, 1, now).map(drop)
    }

    /// Counts identifiers that a call asks for, before they are granted. If they are not granted, return the charge
    /// with `give_back`.
    ///
    /// # Errors
    ///
    /// [`Denied::Limited`] if the identifiers exceed the caller's limit.
    #[inline]
    pub fn charge_ids(&self, count: NonZeroU64, now: Duration) -> Result<Option<Charge>, Denied> {
        self.charge(LimitKind::Ids, count.get(), now)
    }

    /// Credits the caller's limit with identifiers that were not granted.
    pub fn give_back(&self, charge: Option<Charge>, now: Duration) {
        if let (Some(charge), Some(principal)) = (charge, self.principal()) {
            principal.usage.refund_ids(charge, now);
        }
    }

    /// Counts a stream as open until the result is dropped.
    ///
    /// # Errors
    ///
    /// [`Denied::Limited`] if the number of the caller's open streams has reached its limit.
    pub fn open_stream(&self) -> Result<Option<Open>, Denied> {
        let Some(principal) = self.principal() else { return Ok(None) };
        let opened = principal.usage.open(OpenKind::Stream, &principal.limits);
        opened.map(Some).map_err(|limited| self.limited(limited))
    }

    #[inline]
    fn charge(&self, kind: LimitKind, count: u64, now: Duration) -> Result<Option<Charge>, Denied> {
        let Some(known) = self.known() else { return Ok(None) };
        let Some(rate) = known.rates.get(kind) else { return Ok(None) };
        match known.principal.usage.charge(kind, rate, count, now) {
            Ok(charge) => Ok(Some(charge)),
            Err(limited) => Err(self.limited(limited)),
        }
    }

    #[cold]
    fn limited(&self, limited: Limited) -> Denied {
        self.refusal(Denied::Limited(self.denied_to(), limited))
    }
}
