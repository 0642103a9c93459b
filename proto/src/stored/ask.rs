//! Records of requests for regions.

use bytes::Bytes;
use kent_regions::Texts;
use prost::Message;

use super::{EditId, Malformed, decode, malformed};
use crate::records::{self, ask_record};

/// A request for a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The requested name of the region.
    pub region: String,
    /// The requested width of the suffix in bits.
    pub suffix: u8,
    /// The requested width of the expansion zone in bits; `None` if the operator decides.
    pub zone: Option<u8>,
    /// The owner and the labels that the region gets.
    pub texts: Texts,
    /// Why the requester needs the region.
    pub reason: String,
    /// The identity of the requester; empty if the daemon required no credentials.
    pub caller: String,
    /// A human-readable description of the requester.
    pub requester: String,
    /// When the request was made, in milliseconds since 1970.
    pub created: i64,
    /// How the request was closed; `None` while it is open.
    pub closed: Option<AskClosed>,
}

/// How a request for a region was closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskClosed {
    /// The outcome.
    pub how: AskOutcome,
    /// When the request was closed, in milliseconds since 1970.
    pub at: i64,
    /// A human-readable description of the principal that closed the request.
    pub by: String,
    /// Why the request was closed.
    pub note: String,
}

/// The outcome of a request for a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskOutcome {
    /// The region was made, with this name.
    Made(String),
    /// An operator declined the request.
    Declined,
    /// The requester withdrew the request.
    Withdrawn,
}

/// The record that every change to a space's requests rewrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asks {
    /// The number of the next request.
    pub next: u64,
    /// The last change.
    pub last_change: EditId,
}

/// Encodes the record of a request for a region.
pub fn encode_ask(ask: &Ask) -> Vec<u8> {
    let (state, region) = match ask.closed.as_ref().map(|closed| &closed.how) {
        None => (ask_record::State::Open, String::new()),
        Some(AskOutcome::Made(region)) => (ask_record::State::Made, region.clone()),
        Some(AskOutcome::Declined) => (ask_record::State::Declined, String::new()),
        Some(AskOutcome::Withdrawn) => (ask_record::State::Withdrawn, String::new()),
    };
    let closed = ask.closed.as_ref();
    let record = records::AskRecord {
        state: state.into(),
        region_id: ask.region.clone(),
        suffix_bits: ask.suffix.into(),
        zone_bits: ask.zone.map(Into::into),
        owner: ask.texts.owner.clone(),
        labels: ask.texts.labels.clone(),
        reason: ask.reason.clone(),
        caller: ask.caller.clone(),
        requester: ask.requester.clone(),
        created: ask.created,
        closed: closed.map(|closed| closed.at),
        closed_by: closed.map(|closed| closed.by.clone()).unwrap_or_default(),
        note: closed.map(|closed| closed.note.clone()).unwrap_or_default(),
        region,
    };
    record.encode_to_vec()
}

/// Decodes a record written by [`encode_ask`].
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_ask(value: &[u8]) -> Result<Ask, Malformed> {
    let record: records::AskRecord = decode(value, "the record of a request for a region")?;
    let how = match ask_record::State::try_from(record.state) {
        Ok(ask_record::State::Open) => None,
        Ok(ask_record::State::Made) => Some(AskOutcome::Made(record.region)),
        Ok(ask_record::State::Declined) => Some(AskOutcome::Declined),
        Ok(ask_record::State::Withdrawn) => Some(AskOutcome::Withdrawn),
        Err(_) => return Err(malformed("the state of a request for a region")),
    };
    let closed = match (how, record.closed) {
        (None, None) => None,
        (Some(how), Some(at)) => Some(AskClosed { how, at, by: record.closed_by, note: record.note }),
        _ => return Err(malformed("the closing time of a request for a region")),
    };
    let bits = |bits: u32| u8::try_from(bits).map_err(|_| malformed("the bits of a request for a region"));
    Ok(Ask {
        region: record.region_id,
        suffix: bits(record.suffix_bits)?,
        zone: record.zone_bits.map(bits).transpose()?,
        texts: Texts { owner: record.owner, labels: record.labels, ..Texts::default() },
        reason: record.reason,
        caller: record.caller,
        requester: record.requester,
        created: record.created,
        closed,
    })
}

/// Encodes the record that every change to a space's requests rewrites.
pub fn encode_asks(asks: Asks) -> Vec<u8> {
    let last_change = Bytes::copy_from_slice(&asks.last_change.0);
    records::AsksRecord { next: asks.next, last_change }.encode_to_vec()
}

/// Decodes a record written by [`encode_asks`].
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_asks(value: &[u8]) -> Result<Asks, Malformed> {
    let record: records::AsksRecord = decode(value, "the record of the requests of a space")?;
    let last = record.last_change.as_ref().try_into().map_err(|_| malformed("the last change of requests"))?;
    Ok(Asks { next: record.next, last_change: EditId(last) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_a_record_keeps_every_field() {
        let texts =
            Texts { owner: "team-a".into(), labels: [("env".into(), "prod".into())].into(), ..Texts::default() };
        let open = Ask {
            region: "orders".into(),
            suffix: 40,
            zone: Some(8),
            texts,
            reason: "the new shop".into(),
            caller: "token:0123456789ab".into(),
            requester: "token:0123456789ab (shop) from 10.0.0.7".into(),
            created: 1_700_000_000_000,
            closed: None,
        };
        let closed = |how| {
            let (at, by, note) = (1_700_000_000_001, "local".into(), "why".into());
            Ask { closed: Some(AskClosed { how, at, by, note }), zone: None, ..open.clone() }
        };
        let made = closed(AskOutcome::Made("orders-1".into()));
        for ask in [open.clone(), made, closed(AskOutcome::Declined), closed(AskOutcome::Withdrawn)] {
            assert_eq!(decode_ask(&encode_ask(&ask)), Ok(ask));
        }
        let asks = Asks { next: 7, last_change: EditId([3; 16]) };
        assert_eq!(decode_asks(&encode_asks(asks)), Ok(asks));
    }

    #[test]
    fn err_a_closed_request_has_a_time() {
        let record = records::AskRecord { state: ask_record::State::Declined.into(), ..records::AskRecord::default() };
        assert!(decode_ask(&record.encode_to_vec()).is_err());
        assert!(decode_asks(&[]).is_err());
    }
}
