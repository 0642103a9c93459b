//! Backups: a store's records as they were at one moment, in a file that says when, of which store, and whether it is whole.
//!
//! The file is the stream of `Admin.Backup`, each message after its length (protobuf's delimited form): a beginning, the
//! records in parts, and an end that counts and sums them.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    mem,
    path::Path,
    sync::Arc,
    time::Duration,
    vec,
};

use futures_util::{Stream, stream};
use kent_ids::UnixNanos;
use kent_proto::v1::{BackupPart, backup_part};
use kent_store::{Key, Pages, ReadError, SCHEMA, Unavailable};
use prost::Message;
use thiserror::Error;
use tokio::{sync::OwnedSemaphorePermit, time};

use crate::{
    engine::Engine,
    records::{failure::StoreFailure, keys, schema::schema_in_force},
};

/// After a page the store rests for this many times as long as the page took: a backup takes a quarter of its time at the most.
const REST: u32 = 3;
/// The most records of one message. Calls on the same connection's thread wait while it is written.
const PART_RECORDS_MAX: usize = 64;
/// The least time between two messages.
const PART_REST: Duration = Duration::from_millis(1);

/// A backup that was read back whole.
#[derive(Debug)]
pub(crate) struct Backup {
    /// When it was made, by the clock of the daemon.
    pub(crate) unix_nanos: i64,
    /// All records, by key.
    pub(crate) records: Vec<(Key, Vec<u8>)>,
}

/// A file is no whole backup.
#[derive(Debug, Error)]
pub enum BadBackup {
    /// It cannot be read.
    #[error("it cannot be read")]
    Unreadable(#[from] io::Error),
    /// It is something else.
    #[error("it is no backup of Kent, or damaged: {0}")]
    Malformed(&'static str),
    /// A newer program has made it.
    #[error("its records are of schema {found}, which only a newer kentd knows")]
    Newer {
        /// The schema of its records.
        found: u32,
    },
    /// It ends too early, or something is missing.
    #[error("it is not whole: the transfer may have broken off; take another backup")]
    NotWhole,
}

/// The messages of a backup, in order, as its reader takes them. All records are of the moment of the first.
pub(crate) fn parts(
    engine: Arc<Engine>,
    place: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<BackupPart, StoreFailure>> + Send {
    let making = Making {
        engine,
        pages: None,
        read: Vec::new().into_iter(),
        count: 0,
        sum: crc32fast::Hasher::new(),
        is_whole: false,
        _place: place,
    };
    stream::try_unfold(making, |mut making| async move { Ok(making.next().await?.map(|made| (part(made), making))) })
}

/// A backup under way.
struct Making {
    engine: Arc<Engine>,
    /// The records, once the beginning is made.
    pages: Option<Box<dyn Pages>>,
    /// The rest of the last page.
    read: vec::IntoIter<backup_part::Record>,
    count: u64,
    sum: crc32fast::Hasher,
    is_whole: bool,
    _place: OwnedSemaphorePermit,
}

impl Making {
    async fn next(&mut self) -> Result<Option<backup_part::Part>, StoreFailure> {
        let Some(pages) = &mut self.pages else { return self.begin().await.map(Some) };
        loop {
            let records: Vec<_> = self.read.by_ref().take(PART_RECORDS_MAX).collect();
            if !records.is_empty() {
                time::sleep(PART_REST).await;
                records.iter().for_each(|record| add(&mut self.sum, record));
                self.count += records.len() as u64;
                return Ok(Some(backup_part::Part::Records(backup_part::Records { records })));
            }
            if self.engine.draining().is_cancelled() {
                return Err(ReadError::from(Unavailable::Closed).into());
            }
            let began = self.engine.clock().steady();
            let Some(page) = pages.next().await? else { break };
            // Others want the store as well.
            time::sleep(REST * self.engine.clock().steady().saturating_sub(began)).await;
            // Who is there now says nothing about the store.
            let records = page.into_iter().filter(|(key, _)| !key.starts_with(&keys::PRESENT));
            let records = records.map(|(key, versioned)| backup_part::Record {
                key: key.as_str().to_owned(),
                value: versioned.value.into(),
            });
            self.read = records.collect::<Vec<_>>().into_iter();
        }
        let end = backup_part::End { count: self.count, crc32: self.sum.clone().finalize() };
        Ok((!mem::replace(&mut self.is_whole, true)).then_some(backup_part::Part::End(end)))
    }

    /// The time is that of a moment before the records'.
    async fn begin(&mut self) -> Result<backup_part::Part, StoreFailure> {
        let store = self.engine.store();
        // A clock that is not believed says nothing: a backup without a time makes a restore skip more.
        let believed = self.engine.slots().trusted_now().unwrap_or(UnixNanos::new(0));
        let unix_nanos = i64::try_from(believed.get()).unwrap_or(i64::MAX);
        let (schema, _) = schema_in_force(store).await?;
        self.pages = Some(store.pages(&Key::ROOT).await?);
        let (store_id, schema) = (store.store_id().to_string(), schema.into());
        Ok(backup_part::Part::Begin(backup_part::Begin { unix_nanos, store_id, schema }))
    }
}

fn part(part: backup_part::Part) -> BackupPart {
    BackupPart { part: Some(part) }
}

fn add(sum: &mut crc32fast::Hasher, record: &backup_part::Record) {
    for bytes in [record.key.as_bytes(), &record.value[..]] {
        sum.update(&(bytes.len() as u64).to_le_bytes());
        sum.update(bytes);
    }
}

/// Reads a backup, and checks that it is whole.
///
/// # Errors
///
/// [`BadBackup`].
pub(crate) fn read(path: &Path) -> Result<Backup, BadBackup> {
    let mut bytes = Vec::new();
    BufReader::new(File::open(path)?).read_to_end(&mut bytes)?;
    decode(&bytes)
}

/// Reads a backup that is in memory, and checks that it is whole.
///
/// # Errors
///
/// [`BadBackup`].
pub(crate) fn decode(bytes: &[u8]) -> Result<Backup, BadBackup> {
    let mut rest = bytes;
    let mut next = || match rest.is_empty() {
        true => Err(BadBackup::NotWhole),
        false => BackupPart::decode_length_delimited(&mut rest)
            .map_err(|_| BadBackup::Malformed("a message cannot be read"))
            .map(|message| message.part),
    };
    let Some(backup_part::Part::Begin(begin)) = next()? else {
        return Err(BadBackup::Malformed("it does not begin as one"));
    };
    if begin.schema > SCHEMA.into() {
        return Err(BadBackup::Newer { found: begin.schema });
    }
    let (mut records, mut sum) = (Vec::new(), crc32fast::Hasher::new());
    let end = loop {
        match next()? {
            Some(backup_part::Part::Records(part)) => {
                for record in part.records {
                    add(&mut sum, &record);
                    let key = Key::new(record.key).map_err(|_| BadBackup::Malformed("a key"))?;
                    records.push((key, record.value.to_vec()));
                }
            }
            Some(backup_part::Part::End(end)) => break end,
            _ => return Err(BadBackup::Malformed("a part of an unknown kind")),
        }
    };
    if end.count != records.len() as u64 || end.crc32 != sum.finalize() {
        return Err(BadBackup::NotWhole);
    }
    Ok(Backup { unix_nanos: begin.unix_nanos, records })
}
