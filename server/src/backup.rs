//! Backups: a store's records as they were at one moment, in a file that says when, of which store, and whether it is whole.
//!
//! The file is the stream of `Admin.Backup`, each message after its length (protobuf's delimited form): a beginning, the
//! records in parts, and an end that counts and sums them.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
};

use kent_proto::v1::{BackupPart, backup_part};
use kent_store::{Key, SCHEMA};
use prost::Message;
use thiserror::Error;

use crate::{cluster, engine::Engine, error::StoreFailure, keys};

/// Records in one part; with values of at most 16 KiB it stays below what gRPC takes.
const PART_RECORDS: usize = 128;

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

/// The messages of a backup, in order.
pub(crate) async fn parts(engine: &Engine) -> Result<Vec<BackupPart>, StoreFailure> {
    let store = engine.store();
    let unix_nanos = i64::try_from(engine.clock().wall().get()).unwrap_or(i64::MAX);
    let mut records = store.scan(&Key::ROOT).await?;
    // Who is there now says nothing about the store.
    records.retain(|(key, _)| !key.starts_with(&keys::PRESENT));
    let (schema, _) = cluster::schema_in_force(store).await?;
    let schema = schema.into();
    let begin = backup_part::Begin { unix_nanos, store_id: store.store_id().to_string(), schema };
    let mut parts = vec![part(backup_part::Part::Begin(begin))];
    let mut sum = crc32fast::Hasher::new();
    let count = records.len() as u64; // OK because a usize has 64 bits at most
    let mut records = records.into_iter().peekable();
    while records.peek().is_some() {
        let some = records.by_ref().take(PART_RECORDS);
        let records = some.map(|(key, versioned)| {
            let record = backup_part::Record { key: key.as_str().to_owned(), value: versioned.value.into() };
            add(&mut sum, &record);
            record
        });
        parts.push(part(backup_part::Part::Records(backup_part::Records { records: records.collect() })));
    }
    parts.push(part(backup_part::Part::End(backup_part::End { count, crc32: sum.finalize() })));
    Ok(parts)
}

fn part(part: backup_part::Part) -> BackupPart {
    BackupPart { part: Some(part) }
}

fn add(sum: &mut crc32fast::Hasher, record: &backup_part::Record) {
    for octets in [record.key.as_bytes(), &record.value[..]] {
        sum.update(&(octets.len() as u64).to_le_bytes());
        sum.update(octets);
    }
}

/// Reads a backup, and checks that it is whole.
///
/// # Errors
///
/// [`BadBackup`].
pub(crate) fn read(path: &Path) -> Result<Backup, BadBackup> {
    let mut octets = Vec::new();
    BufReader::new(File::open(path)?).read_to_end(&mut octets)?;
    let mut rest = &octets[..];
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
