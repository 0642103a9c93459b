//! What is kept for a time, or up to a number: request_ids, what was granted under them, the list of series, and where forgetting
//! stands.

use kent_ids::UnixNanos;
use kent_issue::Forgotten;
use kent_regions::{Count, Revision};
use prost::Message;

use super::{Malformed, count_bytes, count_from, decode, malformed};
use crate::records;

/// The record of an edit that was made with a request_id: the revision that it made.
pub fn encode_request(revision: Revision) -> Vec<u8> {
    records::RequestRecord { revision: revision.0 }.encode_to_vec()
}

/// Reads [`encode_request`]'s record.
///
/// # Errors
///
/// [`Malformed`].
pub fn decode_request(value: &[u8]) -> Result<Revision, Malformed> {
    let record: records::RequestRecord = decode(value, "the record of a request")?;
    Ok(Revision(record.revision))
}

/// A grant of a strict region that was made with a request_id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrictGrant {
    /// The first suffix.
    pub first: u128,
    /// How many.
    pub count: u64,
    /// When, in nanoseconds since 1970.
    pub unix_nanos: i64,
}

/// A strict grant's record.
pub fn encode_grant(grant: &StrictGrant) -> Vec<u8> {
    let first = count_bytes(Count::Below(grant.first));
    records::GrantRecord { first, count: grant.count, unix_nanos: grant.unix_nanos }.encode_to_vec()
}

/// Reads [`encode_grant`]'s record.
///
/// # Errors
///
/// [`Malformed`].
pub fn decode_grant(value: &[u8]) -> Result<StrictGrant, Malformed> {
    let record: records::GrantRecord = decode(value, "the record of a grant")?;
    let first = count_from(&record.first)?.get().ok_or(malformed("the record of a grant"))?;
    Ok(StrictGrant { first, count: record.count, unix_nanos: record.unix_nanos })
}

/// The record of which edits of a table are forgotten.
pub fn encode_forgotten(forgotten: Forgotten) -> Vec<u8> {
    let Forgotten { through, passed_over } = forgotten;
    records::ForgottenEditsRecord { through, passed_over }.encode_to_vec()
}

/// Reads [`encode_forgotten`]'s record.
///
/// # Errors
///
/// [`Malformed`].
pub fn decode_forgotten(value: &[u8]) -> Result<Forgotten, Malformed> {
    let record: records::ForgottenEditsRecord = decode(value, "the record of forgotten edits")?;
    Ok(Forgotten { through: record.through, passed_over: record.passed_over })
}

/// That a series is granted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Whether a caller has begun it by asking, or an operator has made it.
    pub on_demand: bool,
}

/// The record of a series that is listed.
pub fn encode_listed(listed: Listed) -> Vec<u8> {
    records::ListedRecord { on_demand: listed.on_demand }.encode_to_vec()
}

/// Reads [`encode_listed`]'s record.
///
/// # Errors
///
/// [`Malformed`].
pub fn decode_listed(value: &[u8]) -> Result<Listed, Malformed> {
    let record: records::ListedRecord = decode(value, "the listing of a series")?;
    Ok(Listed { on_demand: record.on_demand })
}

/// How many series are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeriesCount {
    /// Those that callers have begun.
    pub on_demand: u64,
    /// Those that operators have made.
    pub made: u64,
}

/// The record of how many series are listed.
pub fn encode_series_count(count: SeriesCount) -> Vec<u8> {
    records::SeriesCountRecord { on_demand: count.on_demand, made: count.made }.encode_to_vec()
}

/// Reads [`encode_series_count`]'s record.
///
/// # Errors
///
/// [`Malformed`].
pub fn decode_series_count(value: &[u8]) -> Result<SeriesCount, Malformed> {
    let record: records::SeriesCountRecord = decode(value, "the number of series")?;
    Ok(SeriesCount { on_demand: record.on_demand, made: record.made })
}

/// The record of the floor of dated request_ids.
pub fn encode_forgotten_requests(before: UnixNanos) -> Vec<u8> {
    // OK because a time is within some centuries of 1970.
    records::ForgottenRequestsRecord { before: i64::try_from(before.get()).unwrap_or(i64::MAX) }.encode_to_vec()
}

/// Reads [`encode_forgotten_requests`]'s record.
///
/// # Errors
///
/// [`Malformed`].
pub fn decode_forgotten_requests(value: &[u8]) -> Result<UnixNanos, Malformed> {
    let record: records::ForgottenRequestsRecord = decode(value, "the record of forgotten requests")?;
    Ok(UnixNanos::new(record.before.into()))
}

/// The record of how many request_ids without a time are kept.
pub fn encode_undated(count: u64) -> Vec<u8> {
    records::UndatedRecord { count }.encode_to_vec()
}

/// Reads [`encode_undated`]'s record.
///
/// # Errors
///
/// [`Malformed`].
pub fn decode_undated(value: &[u8]) -> Result<u64, Malformed> {
    let record: records::UndatedRecord = decode(value, "the number of request_ids")?;
    Ok(record.count)
}
