//! The images of a store in a directory: one file each, in the subdirectory `images`.
//!
//! A file begins with [`MAGIC`]. Each part has its length and its checksum before it, and a part of length 0 ends the
//! file. A file is written under another name and then renamed.

use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

use super::private;
use crate::images::{Images, PART_BYTES_MAX, Parts};

/// The first bytes of a file.
const MAGIC: [u8; 8] = *b"KENTIMG1";

/// Fewer records are read in a few tens of milliseconds.
const RECORDS_MIN: usize = 10_000;

/// The size of a part's length and checksum.
const HEAD_BYTES: usize = 8;

/// After this many bytes, a file is synced. A single sync of the whole file would delay the commits meanwhile.
const SYNC_BYTES: u64 = 4 << 20;

/// The space that a file leaves free on the disk, besides as much as it takes itself.
const SPARE_BYTES: u64 = 64 << 20;

/// The images of the store in a directory.
#[derive(Debug)]
pub(super) struct DirImages {
    dir: PathBuf,
}

impl DirImages {
    /// The images of the store in `dir`.
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.join(private::IMAGES) }
    }

    fn path(&self, name: &str) -> io::Result<PathBuf> {
        let is_file_name = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']);
        let invalid = || io::Error::new(ErrorKind::InvalidInput, "the name of an image is not a file name");
        is_file_name.then(|| self.dir.join(name)).ok_or_else(invalid)
    }

    /// The name of a file that is being written.
    fn path_of_new(&self, name: &str) -> PathBuf {
        self.dir.join(format!(".new-{name}"))
    }

    /// Fails if a file of this size would take more than half of the free space.
    fn check_space(&self, written: u64) -> io::Result<()> {
        let disk = statvfs(&self.dir)?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let enough = free >= written + SPARE_BYTES; // OK because a file is far smaller than 2^63
        if enough { Ok(()) } else { Err(ErrorKind::StorageFull.into()) }
    }

    fn write(&self, mut file: &File, parts: &mut dyn Iterator<Item = io::Result<Vec<u8>>>) -> io::Result<()> {
        let (mut written, mut unsynced) = (0, 0);
        self.check_space(written)?;
        file.write_all(&MAGIC)?;
        for part in parts.chain([Ok(Vec::new())]) {
            let framed = frame(&part?)?;
            file.write_all(&framed)?;
            unsynced += framed.len() as u64; // OK because a length fits 64 bits
            if unsynced >= SYNC_BYTES {
                written += unsynced;
                unsynced = 0;
                self.check_space(written)?;
                file.sync_data()?;
            }
        }
        file.sync_data()
    }
}

impl Images for DirImages {
    fn records_min(&self) -> usize {
        RECORDS_MIN
    }

    fn open(&self, name: &str) -> io::Result<Option<Parts>> {
        let file = match File::open(self.path(name)?) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut file = BufReader::with_capacity(PART_BYTES_MAX, file);
        let mut magic = MAGIC;
        file.read_exact(&mut magic)?;
        if magic == MAGIC { Ok(Some(Box::new(Reading(Some(file))))) } else { Err(damaged("it is not an image")) }
    }

    fn replace(&self, name: &str, parts: &mut dyn Iterator<Item = io::Result<Vec<u8>>>) -> io::Result<()> {
        let (path, new) = (self.path(name)?, self.path_of_new(name));
        private::create_subdir(&self.dir)?;
        // A new file, so that no two writers ever write to the same one.
        remove_file(&new)?;
        let file = File::create_new(&new)?;
        let replaced = self.write(&file, parts).and_then(|()| fs::rename(&new, path));
        if replaced.is_err() {
            // OK because the next image of this name removes the file.
            let _ = fs::remove_file(&new);
        }
        replaced
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        remove_file(&self.path(name)?)?;
        remove_file(&self.path_of_new(name))
    }
}

/// Removes a file if it exists.
fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns a part with its length and checksum.
fn frame(part: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(part.len()).ok().filter(|_| part.len() <= PART_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "a part of an image is too large"))?;
    Ok([&length.to_le_bytes(), &crc32fast::hash(part).to_le_bytes(), part].concat())
}

/// The rest of a file.
struct Reading(Option<BufReader<File>>);

impl Reading {
    /// Reads the next part; the part that ends the file is empty.
    fn part(file: &mut impl Read) -> io::Result<Vec<u8>> {
        let mut head = [0; HEAD_BYTES];
        file.read_exact(&mut head)?;
        let [a, b, c, d, sum @ ..] = head;
        let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        if length > PART_BYTES_MAX {
            return Err(damaged("a part is too large"));
        }
        let mut part = vec![0; length];
        file.read_exact(&mut part)?;
        let is_intact = crc32fast::hash(&part) == u32::from_le_bytes(sum);
        if is_intact { Ok(part) } else { Err(damaged("a checksum is wrong")) }
    }
}

impl Iterator for Reading {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        let part = Self::part(self.0.as_mut()?);
        if part.as_ref().map_or(true, Vec::is_empty) {
            self.0 = None;
        }
        Some(part).filter(|part| part.as_ref().map_or(true, |part| !part.is_empty()))
    }
}

fn damaged(what: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images() -> (tempfile::TempDir, DirImages) {
        let dir = tempfile::tempdir().unwrap();
        let images = DirImages::new(dir.path());
        (dir, images)
    }

    fn ok(parts: Vec<Vec<u8>>) -> impl Iterator<Item = io::Result<Vec<u8>>> {
        parts.into_iter().map(Ok)
    }

    fn parts() -> Vec<Vec<u8>> {
        vec![b"head".to_vec(), vec![7; PART_BYTES_MAX], b"tail".to_vec()]
    }

    fn read(images: &DirImages, name: &str) -> io::Result<Option<Vec<Vec<u8>>>> {
        images.open(name)?.map(Iterator::collect).transpose()
    }

    #[test]
    fn an_image_is_read_as_it_was_written() {
        let (dir, images) = images();
        assert_eq!(read(&images, "a").unwrap(), None);
        images.remove("a").unwrap();
        images.replace("a", &mut ok(parts())).unwrap();
        images.replace("b~0", &mut ok(vec![b"other".to_vec()])).unwrap();
        assert_eq!(read(&images, "a").unwrap(), Some(parts()));
        assert_eq!(read(&images, "b~0").unwrap(), Some(vec![b"other".to_vec()]));
        images.replace("a", &mut std::iter::empty()).unwrap();
        assert_eq!(read(&images, "a").unwrap(), Some(vec![]));
        images.remove("a").unwrap();
        assert_eq!(read(&images, "a").unwrap(), None);
        let names: Vec<_> =
            fs::read_dir(dir.path().join(private::IMAGES)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["b~0"], "no other file is left");
    }

    #[test]
    fn a_damaged_image_fails() {
        let (dir, images) = images();
        images.replace("a", &mut ok(vec![b"one".to_vec(), b"two".to_vec()])).unwrap();
        let path = dir.path().join(private::IMAGES).join("a");
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(read(&images, "a").is_err(), "{length} bytes are left");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            fs::write(&path, &bytes).unwrap();
            assert!(read(&images, "a").is_err(), "byte {at} is different");
        }
        fs::write(&path, &whole).unwrap();
        assert!(read(&images, "a").is_ok());
    }

    #[test]
    fn an_image_that_fails_to_be_written_leaves_the_earlier_one() {
        let (dir, images) = images();
        images.replace("a", &mut ok(parts())).unwrap();
        let too_large = vec![b"new".to_vec(), vec![0; PART_BYTES_MAX + 1]];
        assert_eq!(images.replace("a", &mut ok(too_large)).unwrap_err().kind(), ErrorKind::InvalidInput);
        let late = || Err(ErrorKind::TimedOut.into());
        assert_eq!(images.replace("a", &mut [late()].into_iter()).unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(read(&images, "a").unwrap(), Some(parts()));
        assert_eq!(fs::read_dir(dir.path().join(private::IMAGES)).unwrap().count(), 1);
        assert_eq!(images.check_space(u64::MAX / 2).unwrap_err().kind(), ErrorKind::StorageFull);
        for name in ["", ".", "..", "a/b", "/a", "a\0"] {
            assert!(images.open(name).is_err() && images.remove(name).is_err(), "{name:?}");
        }
    }
}
