//! Requests for regions: a caller that may not create a region can request it.
//!
//! There are few requests, so they are read from the store whenever they are needed. Every change to the requests of a
//! space compares and rewrites one record (`asks/SPACE`), so the limits hold for all replicas together.

use kent_ids::UnixNanos;
use kent_proto::{
    model::{AskInput, AskRights, CloseInput, region_request},
    stored::{self, Ask, AskClosed, AskOutcome, Asks, EditId},
    v1::RegionRequest,
};
use kent_regions::{Table, Texts};
use kent_store::{CommitError, Txn, Version};

use super::{directory::Directory, permitted::is_readable, space::Space};
use crate::{
    auth::Caller,
    error::AskError,
    records::{failure::StoreFailure, keys},
};

/// The maximum number of open requests of one principal in a space.
const OPEN_EACH_MAX: usize = 100;
/// The maximum number of open requests in a space.
const OPEN_MAX: usize = 1000;
/// The maximum number of closed requests to keep in a space.
const CLOSED_MAX: usize = 1000;
/// How long a closed request is kept, in milliseconds: 90 days.
const CLOSED_FOR: i64 = 90 * 86_400_000;
/// The maximum number of closed requests that one commit removes. Each commit closes only one request, so later commits
/// remove the rest.
const REMOVED_MAX: usize = 32;
/// The maximum number of attempts at a change that conflicts with other changes.
const ATTEMPTS: u32 = 16;

/// The author of a change: the caller, whose permissions are checked, and a description for people.
#[derive(Clone, Debug)]
pub struct Asker {
    /// The caller.
    pub caller: Caller,
    /// How the history names the caller.
    pub described: String,
}

/// The requests of a space, as of one version of the record `asks/SPACE`.
struct Present {
    next: u64,
    version: Version,
    /// The requests in the order of their numbers, oldest first.
    asks: Vec<(u64, Ask)>,
}

/// An open request that the creation of a region answers.
pub(super) struct Answered {
    present: Present,
    number: u64,
    ask: Ask,
}

/// The requests to list.
#[derive(Clone, Copy, Debug)]
pub struct Listing {
    /// Only this request, open or closed.
    pub only: Option<u64>,
    /// Only requests with lower numbers.
    pub before: Option<u64>,
    /// Whether closed requests are listed, too.
    pub include_closed: bool,
}

impl Directory {
    /// Stores a request for a region. If the caller already has the same request open, returns the open request.
    pub(crate) async fn ask(&self, by: &Asker, input: &AskInput) -> Result<RegionRequest, AskError> {
        self.check_member(&by.caller, &input.space)?;
        let space = self.find(&input.space)?;
        input.check_width(space.read(Table::bits))?;
        let taken = space.read(|table| table.shared(&input.region).ok().cloned());
        if taken.is_some_and(|region| is_readable(&space, &by.caller, &region)) {
            return Err(AskError::Taken { space: space.name(), region: input.region.clone() });
        }
        let identity = by.caller.identity();
        let ask = Ask {
            region: input.region.clone(),
            suffix: input.suffix,
            zone: input.zone,
            texts: input.texts.clone(),
            reason: input.reason.clone(),
            caller: identity.to_owned(),
            requester: by.described.clone(),
            created: self.unix_ms(),
            closed: None,
        };
        let plan = |present: &Present| {
            let open = || present.asks.iter().filter(|(_, ask)| ask.closed.is_none());
            let own = || open().filter(|(_, open)| open.caller == identity);
            let again = |open: &Ask| Ask { created: open.created, requester: open.requester.clone(), ..ask.clone() };
            if let Some((number, open)) = own().find(|(_, open)| *open == again(open)) {
                return Ok((None, (*number, open.clone())));
            }
            if own().count() >= OPEN_EACH_MAX {
                return Err(AskError::TooManyOfCaller { space: space.name(), max: OPEN_EACH_MAX });
            }
            if open().count() >= OPEN_MAX {
                return Err(AskError::TooMany { space: space.name(), max: OPEN_MAX });
            }
            let change = |txn: Txn| txn.put(keys::ask(space.key(), present.next), stored::encode_ask(&ask));
            Ok((Some((change(Txn::new()), present.next + 1)), (present.next, ask.clone())))
        };
        let (number, ask) = self.change_asks(&space, plan).await?;
        Ok(self.message(&space, &by.caller, number, &ask))
    }

    /// Declines or withdraws a request. Repeating the call changes nothing.
    pub(crate) async fn close_ask(&self, by: &Asker, input: &CloseInput) -> Result<RegionRequest, AskError> {
        let CloseInput { name, how, note } = input;
        self.check_member(&by.caller, &name.space)?;
        let (space, number) = (self.find(&name.space)?, name.number);
        let closed = AskClosed { how: how.clone(), at: self.unix_ms(), by: by.described.clone(), note: note.clone() };
        let plan = |present: &Present| {
            let ask = self.visible(&space, &by.caller, present, number)?;
            match how {
                AskOutcome::Withdrawn if !self.rights(&space, &by.caller, ask).mine => {
                    return Err(AskError::NotYours { space: space.name(), number });
                }
                AskOutcome::Withdrawn => {}
                AskOutcome::Declined | AskOutcome::Made(_) => {
                    self.check_creation(&by.caller, &space.name(), &ask.region)?;
                }
            }
            match &ask.closed {
                Some(earlier) if (&earlier.how, &earlier.note) == (how, note) => Ok((None, ask.clone())),
                Some(earlier) => Err(AskError::Closed { space: space.name(), number, how: earlier.how.clone() }),
                None => {
                    let ask = Ask { closed: Some(closed.clone()), ..ask.clone() };
                    Ok((Some((present.close(Txn::new(), space.key(), number, &ask), present.next)), ask))
                }
            }
        };
        let ask = self.change_asks(&space, plan).await?;
        Ok(self.message(&space, &by.caller, number, &ask))
    }

    /// Lists the requests of a space that the caller may see, newest first. Returns up to `most` requests, plus one if
    /// there are more.
    pub async fn asks(
        &self,
        caller: &Caller,
        space: &str,
        listing: Listing,
        most: usize,
    ) -> Result<Vec<RegionRequest>, AskError> {
        self.check_member(caller, space)?;
        let space = self.find(space)?;
        let present = self.read_asks(&space).await?;
        if let Some(number) = listing.only {
            let ask = self.visible(&space, caller, &present, number)?;
            return Ok(vec![self.message(&space, caller, number, ask)]);
        }
        let is_listed = |(number, ask): &&(u64, Ask)| {
            listing.before.is_none_or(|before| *number < before)
                && (listing.include_closed || ask.closed.is_none())
                && self.is_visible(&space, caller, ask)
        };
        let listed = present.asks.iter().rev().filter(is_listed).take(most.saturating_add(1));
        Ok(listed.map(|(number, ask)| self.message(&space, caller, *number, ask)).collect())
    }

    /// The open request that an edit answers. The caller must be allowed to create the requested region.
    pub(super) async fn answered(&self, space: &Space, caller: &Caller, number: u64) -> Result<Answered, AskError> {
        let present = self.read_asks(space).await?;
        let ask = self.visible(space, caller, &present, number)?.clone();
        self.check_creation(caller, &space.name(), &ask.region)?;
        match ask.closed {
            None => Ok(Answered { present, number, ask }),
            Some(closed) => Err(AskError::Closed { space: space.name(), number, how: closed.how }),
        }
    }

    /// Commits the change that `plan` derives from the current requests. The plan contains the writes and the next
    /// number, or `None` for no change.
    async fn change_asks<T>(
        &self,
        space: &Space,
        plan: impl Fn(&Present) -> Result<(Option<(Txn, u64)>, T), AskError>,
    ) -> Result<T, AskError> {
        let _asking = self.asking.lock().await;
        for _ in 0..ATTEMPTS {
            let present = self.read_asks(space).await?;
            let (change, answer) = plan(&present)?;
            let Some((txn, next)) = change else { return Ok(answer) };
            let edit = self.new_edit();
            match self.store.commit(present.guard(txn, space.key(), next, edit)).await {
                Ok(_) => return Ok(answer),
                Err(CommitError::Conflict { .. }) => {}
                Err(CommitError::Unknown(unknown)) => {
                    return match self.last_change(space).await {
                        Ok(Some((Asks { last_change, .. }, _))) if last_change == edit => Ok(answer),
                        // The commit may still take effect.
                        Ok(_) | Err(_) => Err(StoreFailure::from(CommitError::Unknown(unknown)).into()),
                    };
                }
                Err(error) => return Err(StoreFailure::from(error).into()),
            }
        }
        Err(AskError::Contended { attempts: ATTEMPTS })
    }

    async fn last_change(&self, space: &Space) -> Result<Option<(Asks, Version)>, StoreFailure> {
        let Some(record) = self.store.get(&keys::asks(space.key())).await? else { return Ok(None) };
        Ok(Some((stored::decode_asks(&record.value)?, record.version)))
    }

    async fn read_asks(&self, space: &Space) -> Result<Present, StoreFailure> {
        // If the requests change during the scan, the commit of a plan fails, because the commit compares this version.
        let (next, version) = match self.last_change(space).await? {
            Some((asks, version)) => (asks.next, version),
            None => (FIRST, Version::ABSENT),
        };
        let mut asks = Vec::new();
        for (key, record) in self.store.scan(&keys::asks_of(space.key())).await? {
            asks.push((keys::parse_ask(&key)?, stored::decode_ask(&record.value)?));
        }
        Ok(Present { next, version, asks })
    }

    fn visible<'p>(
        &self,
        space: &Space,
        caller: &Caller,
        present: &'p Present,
        number: u64,
    ) -> Result<&'p Ask, AskError> {
        let ask = present.asks.iter().find(|(other, _)| *other == number).map(|(_, ask)| ask);
        ask.filter(|ask| self.is_visible(space, caller, ask))
            .ok_or_else(|| AskError::NoSuchAsk { space: space.name(), number })
    }

    fn is_visible(&self, space: &Space, caller: &Caller, ask: &Ask) -> bool {
        let AskRights { mine, decidable } = self.rights(space, caller, ask);
        mine || decidable
    }

    /// Whether a request is the caller's own, and whether the caller may decide it.
    fn rights(&self, space: &Space, caller: &Caller, ask: &Ask) -> AskRights {
        let decidable = self.may_create(caller, &space.name(), &ask.region);
        AskRights { mine: ask.caller == caller.identity(), decidable }
    }

    fn message(&self, space: &Space, caller: &Caller, number: u64, ask: &Ask) -> RegionRequest {
        let time = |ms: i64| UnixNanos::new(i128::from(ms) * 1_000_000).rfc3339(3).unwrap_or_default();
        region_request(&space.name(), number, ask, self.rights(space, caller, ask), time)
    }

    pub(super) fn unix_ms(&self) -> i64 {
        // OK because the wall clock is within centuries of 1970; otherwise, a wrong time is recorded.
        i64::try_from(self.clock.wall().get() / 1_000_000).unwrap_or(i64::MAX)
    }
}

/// The number of the first request of a space.
const FIRST: u64 = 1;

impl Present {
    /// Adds the record that every change rewrites.
    fn guard(&self, txn: Txn, space: &str, next: u64, last_change: EditId) -> Txn {
        let key = keys::asks(space);
        txn.expect(key.clone(), self.version).put(key, stored::encode_asks(Asks { next, last_change }))
    }

    /// Adds the closed request to the commit, and removes closed requests that are too old or exceed the maximum.
    fn close(&self, txn: Txn, space: &str, number: u64, ask: &Ask) -> Txn {
        let txn = txn.put(keys::ask(space, number), stored::encode_ask(ask));
        let now = ask.closed.as_ref().map_or(0, |closed| closed.at);
        let mut closed: Vec<_> =
            self.asks.iter().filter_map(|(number, ask)| Some((ask.closed.as_ref()?.at, *number))).collect();
        closed.sort_unstable();
        let excess = (closed.len() + 1).saturating_sub(CLOSED_MAX);
        let is_removed =
            |(index, (at, _)): &(usize, (i64, u64))| *index < excess || at.saturating_add(CLOSED_FOR) < now;
        let removed = closed.into_iter().enumerate().take_while(is_removed).take(REMOVED_MAX);
        removed.fold(txn, |txn, (_, (_, number))| txn.delete(keys::ask(space, number)))
    }
}

impl Answered {
    /// The owner and the labels that the new region gets.
    pub(super) fn texts(&self) -> &Texts {
        &self.ask.texts
    }

    /// Closes the request in the commit of the edit that answers it.
    pub(super) fn close(&self, txn: Txn, space: &str, edit: EditId, closed: AskClosed) -> Txn {
        let ask = Ask { closed: Some(closed), ..self.ask.clone() };
        let txn = self.present.close(txn, space, self.number, &ask);
        self.present.guard(txn, space, self.present.next, edit)
    }
}
