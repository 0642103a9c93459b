//! Sorts records in bounded memory: sorted runs go to temporary files, which are merged.
//!
//! The files have no names (they are unlinked when they are created), so the system removes them even if the process is
//! killed. At most [`FAN_IN`] runs of each level are open: when a level is full, its runs are merged to one run of the
//! next level. So a small memory needs neither many open files nor more than a few passes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::PathBuf;

use rayon::slice::ParallelSliceMut;

/// The number of runs that are merged at once.
const FAN_IN: usize = 64;
/// The size of the buffer of one run, in bytes.
const BUFFER_BYTES: (usize, usize) = (4 << 10, 256 << 10);
/// The size of a record in memory and in a file, in bytes.
const RECORD_BYTES: usize = size_of::<Record>();

/// The value of an identifier, and where it was read. Ordered by the identifier, then by the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Record {
    high: u64,
    low: u64,
    /// The namespace, the file and the line.
    place: u64,
}

/// The number of bits of each part of [`Record::place`].
const FILE_BITS: u32 = 20;
const LINE_BITS: u32 = 36;
/// The number of files and lines that a record can number.
pub(super) const FILES_MAX: u64 = 1 << FILE_BITS;
pub(super) const LINES_MAX: u64 = 1 << LINE_BITS;

/// A line of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    /// The index of the file.
    pub(super) file: u32,
    /// The number of the line, from 1.
    pub(super) line: u64,
}

impl Record {
    /// Creates a record. The place must be within the limits.
    pub(super) fn new(value: u128, namespace: u8, place: Place) -> Self {
        let at = u64::from(namespace) << (FILE_BITS + LINE_BITS) | u64::from(place.file) << LINE_BITS | place.line;
        Self { high: (value >> 64) as u64, low: value as u64, place: at } // OK because the two halves have 64 bits
    }

    pub(super) fn value(&self) -> u128 {
        u128::from(self.high) << 64 | u128::from(self.low)
    }

    pub(super) fn namespace(&self) -> u8 {
        (self.place >> (FILE_BITS + LINE_BITS)) as u8 // OK because 8 bits are left
    }

    pub(super) fn place(&self) -> Place {
        let file = (self.place >> LINE_BITS & (FILES_MAX - 1)) as u32; // OK because of the mask
        Place { file, line: self.place & (LINES_MAX - 1) }
    }

    /// Returns whether two records are of the same identifier.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.high, self.low, self.namespace()) == (other.high, other.low, other.namespace())
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut bytes = [0; RECORD_BYTES];
        for (to, part) in bytes.as_chunks_mut::<8>().0.iter_mut().zip([self.high, self.low, self.place]) {
            *to = part.to_le_bytes();
        }
        out.write_all(&bytes)
    }

    fn read(input: &mut impl Read) -> io::Result<Self> {
        let mut bytes = [0; RECORD_BYTES];
        input.read_exact(&mut bytes)?;
        let [high, low, place] = [0, 8, 16].map(|at| {
            let mut part = [0; 8];
            part.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(part)
        });
        Ok(Self { high, low, place })
    }
}

/// Collects records, and returns them in order.
pub(super) struct Sorter {
    buffer: Vec<Record>,
    /// The number of records that fit the memory.
    most: usize,
    /// The directory for temporary files, unless it is the default.
    dir: Option<PathBuf>,
    /// The runs of each level. A run of a level is a merge of [`FAN_IN`] runs of the level before.
    levels: Vec<Vec<Run>>,
    fan_in: usize,
    run_buffer: usize,
    /// The number of bytes that were written to temporary files.
    spilled: u64,
}

/// A temporary file of sorted records.
struct Run {
    file: File,
    records: u64,
}

impl Sorter {
    /// Creates a sorter that uses about `memory` bytes.
    pub(super) fn new(memory: usize, dir: Option<PathBuf>) -> Self {
        Self {
            buffer: Vec::new(),
            most: (memory / RECORD_BYTES).max(2),
            dir,
            levels: Vec::new(),
            fan_in: FAN_IN,
            run_buffer: (memory / 2 / FAN_IN).clamp(BUFFER_BYTES.0, BUFFER_BYTES.1),
            spilled: 0,
        }
    }

    pub(super) fn push(&mut self, record: Record) -> io::Result<()> {
        if self.buffer.len() == self.buffer.capacity() && !self.grow() {
            self.spill()?;
            self.grow();
        }
        self.buffer.push(record);
        Ok(())
    }

    /// Makes room for another record. Returns false if the memory is used up, or if the system has none left.
    fn grow(&mut self) -> bool {
        let len = self.buffer.len();
        let wanted = (2 * len).clamp(1024, usize::MAX).min(self.most);
        wanted > len && self.buffer.try_reserve_exact(wanted - len).is_ok()
    }

    /// Returns the number of bytes that were written to temporary files.
    pub(super) fn spilled(&self) -> u64 {
        self.spilled
    }

    /// Writes the buffer to a run, and merges full levels.
    fn spill(&mut self) -> io::Result<()> {
        self.buffer.par_sort_unstable();
        // The memory is free for the buffers of a merge until the next record arrives.
        let sorted = std::mem::take(&mut self.buffer);
        let run = self.write(|write| sorted.iter().try_for_each(write))?;
        drop(sorted);
        self.add(run, 0)
    }

    fn add(&mut self, run: Run, level: usize) -> io::Result<()> {
        if self.levels.len() == level {
            self.levels.push(Vec::new());
        }
        self.levels[level].push(run);
        if self.levels[level].len() < self.fan_in {
            return Ok(());
        }
        let runs = std::mem::take(&mut self.levels[level]);
        let merged = self.merge_to_run(runs)?;
        self.add(merged, level + 1)
    }

    fn merge_to_run(&mut self, runs: Vec<Run>) -> io::Result<Run> {
        let run_buffer = self.run_buffer;
        self.write(|write| merge(runs, run_buffer, write))
    }

    /// Writes a run with the records that `fill` passes on.
    fn write(
        &mut self,
        fill: impl FnOnce(&mut dyn FnMut(&Record) -> io::Result<()>) -> io::Result<()>,
    ) -> io::Result<Run> {
        let file = match &self.dir {
            Some(dir) => tempfile::tempfile_in(dir)?,
            None => tempfile::tempfile()?,
        };
        let (mut out, mut records) = (BufWriter::with_capacity(BUFFER_BYTES.1, file), 0);
        fill(&mut |record| {
            records += 1;
            record.write(&mut out)
        })?;
        let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        self.spilled += records * RECORD_BYTES as u64;
        Ok(Run { file, records })
    }

    /// Passes all records to `visit`, in order.
    pub(super) fn finish(mut self, mut visit: impl FnMut(&Record)) -> io::Result<()> {
        if self.levels.is_empty() {
            self.buffer.par_sort_unstable();
            self.buffer.iter().for_each(visit);
            return Ok(());
        }
        if !self.buffer.is_empty() {
            self.spill()?;
        }
        // Smaller runs come first, so they are merged until the rest fits one merge.
        let mut runs: Vec<_> = std::mem::take(&mut self.levels).into_iter().flatten().collect();
        while runs.len() > self.fan_in {
            let few = (runs.len() - self.fan_in + 1).min(self.fan_in);
            let first = runs.drain(..few).collect();
            let merged = self.merge_to_run(first)?;
            runs.push(merged);
        }
        merge(runs, self.run_buffer, &mut |record| {
            visit(record);
            Ok(())
        })
    }
}

/// Passes the records of sorted runs to `visit`, in order.
fn merge(runs: Vec<Run>, buffer: usize, visit: &mut dyn FnMut(&Record) -> io::Result<()>) -> io::Result<()> {
    let mut inputs = Vec::with_capacity(runs.len());
    let mut heads = BinaryHeap::with_capacity(runs.len());
    for (index, Run { file, records }) in runs.into_iter().enumerate() {
        let mut input = BufReader::with_capacity(buffer, file);
        if records > 0 {
            heads.push(Reverse((Record::read(&mut input)?, index)));
        }
        inputs.push((input, records.saturating_sub(1)));
    }
    while let Some(mut head) = heads.peek_mut() {
        let Reverse((record, index)) = *head;
        visit(&record)?;
        let (input, left) = &mut inputs[index];
        match left.checked_sub(1) {
            Some(fewer) => {
                *left = fewer;
                *head = Reverse((Record::read(input)?, index));
            }
            None => drop(PeekMut::pop(head)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ok_a_record_holds_its_parts() {
        for (value, namespace, file, line) in
            [(0, 0, 0, 0), (u128::MAX, 255, FILES_MAX as u32 - 1, LINES_MAX - 1), (1 << 64, 7, 3, 4_711)]
        {
            let place = Place { file, line };
            let record = Record::new(value, namespace, place);
            assert_eq!((record.value(), record.namespace(), record.place()), (value, namespace, place));
            let mut bytes = Vec::new();
            record.write(&mut bytes).expect("written");
            assert_eq!(bytes.len(), RECORD_BYTES);
            assert_eq!(Record::read(&mut &bytes[..]).expect("read"), record);
        }
    }

    #[test]
    fn err_a_directory_that_does_not_exist() {
        let mut sorter = Sorter::new(0, Some("/nonexistent/kent".into()));
        let record = Record::new(1, 0, Place { file: 0, line: 1 });
        let pushed = (0..3).try_for_each(|_| sorter.push(record));
        assert_eq!(pushed.expect_err("nowhere to write").kind(), io::ErrorKind::NotFound);
    }

    proptest! {
        #[test]
        fn ok_records_come_back_in_order(
            values in prop::collection::vec(any::<u8>(), 0..500),
            memory in 0..2000_usize,
            fan_in in 2..5_usize,
        ) {
            let place = |line| Place { file: 0, line };
            let mut expected: Vec<_> =
                values.iter().zip(1..).map(|(value, line)| Record::new((*value).into(), 0, place(line))).collect();
            let mut sorter = Sorter { fan_in, ..Sorter::new(memory, None) };
            expected.iter().try_for_each(|record| sorter.push(*record)).expect("pushed");
            let open: usize = sorter.levels.iter().map(Vec::len).sum();
            prop_assert!(open < fan_in * sorter.levels.len().max(1));
            let mut sorted = Vec::new();
            sorter.finish(|record| sorted.push(*record)).expect("sorted");
            expected.sort();
            prop_assert_eq!(sorted, expected);
        }
    }
}
