//! Backups: the records of a store as of one moment, with the time, the store's identity and a check of completeness.
//!
//! The file is the stream of `Admin.Backup`, in protobuf's delimited form: each message is preceded by its length. The
//! messages are a beginning, the records in parts, and an end with the count and the checksum of the records.

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
use kent_engine::{
    engine::Engine,
    records::{failure::StoreFailure, keys, schema::schema_in_force},
};
use kent_ids::UnixNanos;
use kent_proto::v1::{BackupPart, backup_part};
use kent_store::{Key, Pages, ReadError, SCHEMA, Unavailable};
use prost::Message;
use thiserror::Error;
use tokio::{sync::OwnedSemaphorePermit, time};

/// After each page, the backup pauses for this multiple of the time that reading the page took, so that it uses at most
/// a quarter of the store's time.
const PAUSE_FACTOR: u32 = 3;
/// The maximum number of records in one message. Other calls on the connection's thread wait while a message is
/// written.
const PART_RECORDS_MAX: usize = 64;
/// The shortest time between two messages.
const PART_PAUSE: Duration = Duration::from_millis(1);

/// A complete backup, read from a file.
#[derive(Debug)]
pub(crate) struct Backup {
    /// The time of the backup on the daemon's clock, in nanoseconds since 1970.
    pub(crate) unix_nanos: i64,
    /// All records, by key.
    pub(crate) records: Vec<(Key, Vec<u8>)>,
}

/// Why a file is not a valid, complete backup.
#[derive(Debug, Error)]
pub enum BadBackup {
    /// The backup cannot be read.
    #[error("it cannot be read")]
    Unreadable(#[from] io::Error),
    /// The file is not a backup.
    #[error("it is not a Kent backup (as `kent backup FILE` writes it), or it is damaged: {0}")]
    Malformed(&'static str),
    /// The backup was created by a newer version.
    #[error("its records have schema {found}, which needs a newer kentd")]
    Newer {
        /// The schema of the backup's records.
        found: u32,
    },
    /// The backup is truncated.
    #[error("it is incomplete: the transfer may have been interrupted; copy it again, or take another backup")]
    NotWhole,
    /// The content does not match the checksum.
    #[error("it is damaged: its checksum does not match its content; use another copy of it, or take another backup")]
    Damaged,
}

/// Streams the messages of a backup. A message is created when the reader takes it. All records show the state at the
/// time of the first message.
pub(crate) fn parts(
    engine: Arc<Engine>,
    permit: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<BackupPart, StoreFailure>> + Send {
    let making = BackupInProgress {
        engine,
        pages: None,
        read: Vec::new().into_iter(),
        count: 0,
        sum: crc32fast::Hasher::new(),
        is_whole: false,
        _permit: permit,
    };
    stream::try_unfold(making, |mut making| async move { Ok(making.next().await?.map(|made| (part(made), making))) })
}

/// A backup in progress.
struct BackupInProgress {
    engine: Arc<Engine>,
    /// The records, or `None` before the first message is sent.
    pages: Option<Box<dyn Pages>>,
    /// The records of the last page that have not been sent yet.
    read: vec::IntoIter<backup_part::Record>,
    count: u64,
    sum: crc32fast::Hasher,
    is_whole: bool,
    _permit: OwnedSemaphorePermit,
}

impl BackupInProgress {
    async fn next(&mut self) -> Result<Option<backup_part::Part>, StoreFailure> {
        let Some(pages) = &mut self.pages else { return self.begin().await.map(Some) };
        loop {
            let records: Vec<_> = self.read.by_ref().take(PART_RECORDS_MAX).collect();
            if !records.is_empty() {
                time::sleep(PART_PAUSE).await;
                records.iter().for_each(|record| add(&mut self.sum, record));
                self.count += records.len() as u64;
                return Ok(Some(backup_part::Part::Records(backup_part::Records { records })));
            }
            if self.engine.draining().is_cancelled() {
                return Err(ReadError::from(Unavailable::Closed).into());
            }
            let began = self.engine.clock().steady();
            let Some(page) = pages.next().await? else { break };
            // Leave time for other calls, which need the store as well.
            time::sleep(PAUSE_FACTOR * self.engine.clock().steady().saturating_sub(began)).await;
            let is_state = |key: &Key| ![keys::PRESENT, keys::TURNS].iter().any(|prefix| key.starts_with(prefix));
            let records = page.into_iter().filter(|(key, _)| is_state(key));
            let records = records.map(|(key, versioned)| backup_part::Record {
                key: key.as_str().to_owned(),
                value: versioned.value.into(),
            });
            self.read = records.collect::<Vec<_>>().into_iter();
        }
        let end = backup_part::End { count: self.count, crc32: self.sum.clone().finalize() };
        Ok((!mem::replace(&mut self.is_whole, true)).then_some(backup_part::Part::End(end)))
    }

    /// Creates the first message. The time in the message is earlier than the state that the records show.
    async fn begin(&mut self) -> Result<backup_part::Part, StoreFailure> {
        let store = self.engine.store();
        // Do not date the backup by an untrusted clock; without a time, a restore only skips more numbers.
        let now = self.engine.slots().trusted_now().unwrap_or(UnixNanos::new(0));
        let unix_nanos = i64::try_from(now.get()).unwrap_or(i64::MAX);
        let (schema, _) = schema_in_force(store).await?;
        self.pages = Some(store.pages(&Key::ROOT).await?);
        let (store_id, schema) = (store.store_id().to_string(), schema.into());
        let begin = backup_part::Begin { unix_nanos, store_id, schema };
        self.sum = sum_of(&begin);
        Ok(backup_part::Part::Begin(begin))
    }
}

fn part(part: backup_part::Part) -> BackupPart {
    BackupPart { part: Some(part) }
}

/// Begins the checksum of a backup with the backup's header.
fn sum_of(begin: &backup_part::Begin) -> crc32fast::Hasher {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&begin.encode_to_vec());
    sum
}

fn add(sum: &mut crc32fast::Hasher, record: &backup_part::Record) {
    for bytes in [record.key.as_bytes(), &record.value[..]] {
        sum.update(&(bytes.len() as u64).to_le_bytes());
        sum.update(bytes);
    }
}

/// Reads a backup from a file, and checks that it is complete.
///
/// # Errors
///
/// [`BadBackup`].
pub(crate) fn read(path: &Path) -> Result<Backup, BadBackup> {
    let mut bytes = Vec::new();
    BufReader::new(File::open(path)?).read_to_end(&mut bytes)?;
    decode(&bytes)
}

/// Whether the next message is longer than the remaining bytes.
fn is_cut(rest: &[u8]) -> bool {
    match prost::decode_length_delimiter(rest) {
        Ok(length) => length > rest.len().saturating_sub(prost::length_delimiter_len(length)),
        Err(_) => rest.len() < LENGTH_BYTES_MAX,
    }
}

/// The maximum size of the length before a message, in bytes.
const LENGTH_BYTES_MAX: usize = 10;

/// Decodes a backup, and checks that it is complete.
///
/// # Errors
///
/// [`BadBackup`].
pub(crate) fn decode(bytes: &[u8]) -> Result<Backup, BadBackup> {
    let mut rest = bytes;
    let mut next = || match is_cut(rest) {
        // If not even the header is complete, the file may not be a backup.
        true if rest.len() < bytes.len() || rest.is_empty() => Err(BadBackup::NotWhole),
        _ => BackupPart::decode_length_delimited(&mut rest)
            .map_err(|_| BadBackup::Malformed("a part of it cannot be read"))
            .map(|message| message.part),
    };
    let Some(backup_part::Part::Begin(begin)) = next()? else {
        return Err(BadBackup::Malformed("it does not begin with a header"));
    };
    if begin.schema > SCHEMA.into() {
        return Err(BadBackup::Newer { found: begin.schema });
    }
    let (mut records, mut sum) = (Vec::new(), sum_of(&begin));
    let end = loop {
        match next()? {
            Some(backup_part::Part::Records(part)) => {
                for record in part.records {
                    add(&mut sum, &record);
                    let key = Key::new(record.key).map_err(|_| BadBackup::Malformed("a key is not valid"))?;
                    records.push((key, record.value.to_vec()));
                }
            }
            Some(backup_part::Part::End(end)) => break end,
            _ => return Err(BadBackup::Malformed("a part is of an unknown kind")),
        }
    };
    if end.count != records.len() as u64 || end.crc32 != sum.finalize() {
        return Err(BadBackup::Damaged);
    }
    Ok(Backup { unix_nanos: begin.unix_nanos, records })
}
