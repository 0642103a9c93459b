//! What a replica says of itself to the others on its store.

use std::time::Duration;

use kent_ids::Slot;
use prost::Message;

use crate::{records, stored::Malformed};

/// What a replica says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaNote {
    /// Where it serves gRPC.
    pub address: String,
    /// Of its software.
    pub version: String,
    /// The newest schema of records that it reads and writes.
    pub schema: u16,
    /// The slot through which it issues time-based identifiers.
    pub slot: Option<Slot>,
    /// Unix seconds up to which that slot is its own.
    pub reserved_until: i64,
    /// Its tables have every edit up to this version of the store.
    pub applied: u64,
    /// What its clock said when it wrote this, nanoseconds since 1970.
    pub unix_nanos: i64,
    /// For how long it grants regions' suffixes without a look at the tables.
    pub window: Duration,
}

impl ReplicaNote {
    /// The note as it is stored.
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
        };
        note.encode_to_vec()
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// [`Malformed`].
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
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_a_note_comes_back_as_it_was_written() {
        for slot in [None, Slot::new(0).ok(), Slot::new(63).ok()] {
            let note = ReplicaNote {
                address: "10.0.0.7:7600".to_owned(),
                version: "1.2.3".to_owned(),
                schema: 7,
                slot,
                reserved_until: 1_700_000_000,
                applied: 42,
                unix_nanos: 1_700_000_000_000_000_000,
                window: Duration::from_secs(60),
            };
            assert_eq!(ReplicaNote::decode(&note.encode()), Ok(note));
        }
    }

    #[test]
    fn err_a_note_that_makes_no_sense() {
        assert!(ReplicaNote::decode(&[0xff]).is_err());
        let wild = records::ReplicaNote { slot: Some(64), ..records::ReplicaNote::default() };
        assert!(ReplicaNote::decode(&wild.encode_to_vec()).is_err());
    }
}
