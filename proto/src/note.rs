//! The announcement that a replica writes for the other replicas on the store.

use std::time::Duration;

use kent_ids::Slot;
use prost::Message;

use crate::{records, stored::Malformed};

/// The state of a replica, for the other replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaNote {
    /// `HOST:PORT` of the replica's gRPC port.
    pub address: String,
    /// The version of the replica's software.
    pub version: String,
    /// The newest schema version that the replica reads and writes.
    pub schema: u16,
    /// The slot through which the replica issues time-based identifiers.
    pub slot: Option<Slot>,
    /// The end of the replica's reservation of that slot, in Unix seconds.
    pub reserved_until: i64,
    /// The replica's tables include every edit up to this version of the store.
    pub applied: u64,
    /// The replica's wall clock when it wrote the announcement, in Unix nanoseconds.
    pub unix_nanos: i64,
    /// The time for which the replica grants from regions without reading the tables again.
    pub window: Duration,
    /// The replica's tokens and roles include every change up to this version of the store.
    pub access: u64,
    /// The replica's metrics, if there are any.
    pub figures: Option<NoteFigures>,
}

/// The metrics of a replica over the last few seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoteFigures {
    /// The number of seconds.
    pub seconds: u32,
    /// The number of blocks that the replica granted in this time.
    pub grants: u64,
    /// The number of identifiers that the replica granted in this time.
    pub identifiers: u64,
    /// The 50th percentile of the time from request to grant, in microseconds.
    pub p50_micros: Option<u64>,
    /// The 99th percentile of the time from request to grant, in microseconds.
    pub p99_micros: Option<u64>,
    /// The mean duration of a commit, in microseconds.
    pub store_micros: Option<u64>,
}

impl ReplicaNote {
    /// Encodes the announcement as a record.
    pub fn encode(&self) -> Vec<u8> {
        let note = records::ReplicaNote {
            address: self.address.clone(),
            version: self.version.clone(),
            schema: self.schema.into(),
            slot: self.slot.map(|slot| slot.get().into()),
            reserved_until: self.reserved_until,
            applied: self.applied,
            unix_nanos: self.unix_nanos,
            window_ms: u64::try_from(self.window.as_millis()).unwrap_or(u64::MAX),
            access: self.access,
            figures: self.figures.map(|figures| records::FiguresRecord {
                seconds: figures.seconds,
                grants: figures.grants,
                identifiers: figures.identifiers,
                p50_micros: figures.p50_micros,
                p99_micros: figures.p99_micros,
                store_micros: figures.store_micros,
            }),
        };
        note.encode_to_vec()
    }

    /// Decodes a record written by [`encode`](Self::encode).
    ///
    /// # Errors
    ///
    /// [`Malformed`] names the value that is wrong.
    pub fn decode(value: &[u8]) -> Result<Self, Malformed> {
        let malformed = |what| Malformed { what };
        let note = records::ReplicaNote::decode(value).map_err(|_| malformed("the note of a replica"))?;
        let slot = |number: u32| u8::try_from(number).ok().and_then(|number| Slot::new(number).ok());
        Ok(Self {
            address: note.address,
            version: note.version,
            schema: u16::try_from(note.schema).map_err(|_| malformed("the schema of a replica"))?,
            slot: note.slot.map(|number| slot(number).ok_or(malformed("the slot of a replica"))).transpose()?,
            reserved_until: note.reserved_until,
            applied: note.applied,
            unix_nanos: note.unix_nanos,
            window: Duration::from_millis(note.window_ms),
            access: note.access,
            figures: note.figures.map(|figures| NoteFigures {
                seconds: figures.seconds,
                grants: figures.grants,
                identifiers: figures.identifiers,
                p50_micros: figures.p50_micros,
                p99_micros: figures.p99_micros,
                store_micros: figures.store_micros,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_a_note_survives_encoding_and_decoding() {
        let (p50_micros, p99_micros, store_micros) = (Some(1), Some(2), None);
        let some = NoteFigures { seconds: 5, grants: 7, identifiers: 9, p50_micros, p99_micros, store_micros };
        let slots = [None, Slot::new(0).ok(), Slot::new(63).ok()];
        for (slot, figures) in slots.into_iter().zip([None, Some(some), Some(NoteFigures::default())]) {
            let note = ReplicaNote {
                address: "10.0.0.7:7600".to_owned(),
                version: "1.2.3".to_owned(),
                schema: 7,
                slot,
                reserved_until: 1_700_000_000,
                applied: 42,
                unix_nanos: 1_700_000_000_000_000_000,
                window: Duration::from_secs(60),
                access: 41,
                figures,
            };
            assert_eq!(ReplicaNote::decode(&note.encode()), Ok(note));
        }
    }

    #[test]
    fn err_a_malformed_note() {
        assert!(ReplicaNote::decode(&[0xff]).is_err());
        let wild = records::ReplicaNote { slot: Some(64), ..records::ReplicaNote::default() };
        assert!(ReplicaNote::decode(&wild.encode_to_vec()).is_err());
    }
}
