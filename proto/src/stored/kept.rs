//! Records with a retention or a limit: request IDs, grants made with request IDs, the list of series, and the floors
//! below which records are forgotten.

use kent_ids::{Stride, UnixNanos};
use kent_issue::Forgotten;
use kent_regions::{Count, RegionNumber, Revision};
use prost::Message;

use super::{Malformed, count_bytes, count_from, decode, malformed, stride_fields, stride_from};
use crate::records;

/// The result of an edit with a request ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditMade {
    /// The revision that the edit made, or that the table had if the edit changed nothing.
    pub revision: Revision,
    /// Present if the edit changed nothing, and therefore is not in the history.
    pub unchanged: Option<Unchanged>,
    /// The caller, or an empty string if the daemon required no credentials.
    pub caller: String,
}

/// An edit that changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unchanged {
    /// The kind of edit, such as `seal`.
    pub operation: String,
    /// The name of the region in the request.
    pub region: String,
    /// The number of the region.
    pub number: RegionNumber,
}

/// Encodes the record of an edit with a request ID.
pub fn encode_request(made: &EditMade) -> Vec<u8> {
    let unchanged = made.unchanged.as_ref().map(|unchanged| records::request_record::Unchanged {
        operation: unchanged.operation.clone(),
        region: unchanged.region.clone(),
        number: unchanged.number.0,
    });
    records::RequestRecord { revision: made.revision.0, unchanged, caller: made.caller.clone() }.encode_to_vec()
}

/// Decodes a record written by [`encode_request`].
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_request(value: &[u8]) -> Result<EditMade, Malformed> {
    let record: records::RequestRecord = decode(value, "the record of a request")?;
    let unchanged = record.unchanged.map(|unchanged| Unchanged {
        operation: unchanged.operation,
        region: unchanged.region,
        number: RegionNumber(unchanged.number),
    });
    Ok(EditMade { revision: Revision(record.revision), unchanged, caller: record.caller })
}

/// A grant from a strict region that was made with a request ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrictGrant {
    /// The value of the counter before the grant.
    pub first: u128,
    /// The number of identifiers.
    pub count: u64,
    /// Which suffixes the identifiers have.
    pub stride: Stride,
    /// The time of the grant in Unix nanoseconds.
    pub unix_nanos: i64,
    /// The caller, or an empty string if the daemon required no credentials.
    pub caller: String,
}

/// Encodes the record of a strict grant.
pub fn encode_grant(grant: &StrictGrant) -> Vec<u8> {
    let first = count_bytes(Count::Below(grant.first));
    let StrictGrant { count, unix_nanos, stride, ref caller, .. } = *grant;
    let (step, offset) = stride_fields(stride);
    records::GrantRecord { first, count, unix_nanos, caller: caller.clone(), step, offset }.encode_to_vec()
}

/// Decodes a record written by [`encode_grant`].
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_grant(value: &[u8]) -> Result<StrictGrant, Malformed> {
    let record: records::GrantRecord = decode(value, "the record of a grant")?;
    let first = count_from(&record.first)?.get().ok_or(malformed("the record of a grant"))?;
    let stride = stride_from(record.step, record.offset).ok_or(malformed("the record of a grant"))?;
    Ok(StrictGrant { first, count: record.count, stride, unix_nanos: record.unix_nanos, caller: record.caller })
}

/// Encodes the record of a table's forgotten edits.
pub fn encode_forgotten(forgotten: Forgotten) -> Vec<u8> {
    let Forgotten { through, passed_over } = forgotten;
    records::ForgottenEditsRecord { through, passed_over }.encode_to_vec()
}

/// Decodes a record written by [`encode_forgotten`].
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_forgotten(value: &[u8]) -> Result<Forgotten, Malformed> {
    let record: records::ForgottenEditsRecord = decode(value, "the record of forgotten edits")?;
    Ok(Forgotten { through: record.through, passed_over: record.passed_over })
}

/// An entry of the list of series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Whether a caller started the series by allocating from it; otherwise an operator created it.
    pub on_demand: bool,
}

/// Encodes the record of a listed series.
pub fn encode_listed(listed: Listed) -> Vec<u8> {
    records::ListedRecord { on_demand: listed.on_demand }.encode_to_vec()
}

/// Decodes a record written by [`encode_listed`].
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_listed(value: &[u8]) -> Result<Listed, Malformed> {
    let record: records::ListedRecord = decode(value, "the listing of a series")?;
    Ok(Listed { on_demand: record.on_demand })
}

/// The number of listed series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeriesCount {
    /// Series that callers started.
    pub on_demand: u64,
    /// Series that operators created.
    pub made: u64,
}

/// Encodes the number of listed series.
pub fn encode_series_count(count: SeriesCount) -> Vec<u8> {
    records::SeriesCountRecord { on_demand: count.on_demand, made: count.made }.encode_to_vec()
}

/// Decodes a record written by [`encode_series_count`].
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_series_count(value: &[u8]) -> Result<SeriesCount, Malformed> {
    let record: records::SeriesCountRecord = decode(value, "the number of series")?;
    Ok(SeriesCount { on_demand: record.on_demand, made: record.made })
}

/// Encodes the floor of dated request IDs.
pub fn encode_forgotten_requests(before: UnixNanos) -> Vec<u8> {
    // OK because every time is within a few centuries of 1970.
    records::ForgottenRequestsRecord { before: i64::try_from(before.get()).unwrap_or(i64::MAX) }.encode_to_vec()
}

/// Decodes a record written by [`encode_forgotten_requests`].
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_forgotten_requests(value: &[u8]) -> Result<UnixNanos, Malformed> {
    let record: records::ForgottenRequestsRecord = decode(value, "the record of forgotten requests")?;
    Ok(UnixNanos::new(record.before.into()))
}

/// Encodes the number of stored request IDs without a time.
pub fn encode_undated(count: u64) -> Vec<u8> {
    records::UndatedRecord { count }.encode_to_vec()
}

/// Decodes a record written by [`encode_undated`].
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_undated(value: &[u8]) -> Result<u64, Malformed> {
    let record: records::UndatedRecord = decode(value, "the number of request IDs")?;
    Ok(record.count)
}
