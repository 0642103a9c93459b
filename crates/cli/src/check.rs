//! `kent check`: reads identifiers in a stream, and finds duplicates and identifiers that were never issued.
//!
//! `read` splits files into rows, `identify` reads a row as an identifier and judges it, `sort` brings equal identifiers
//! together, and `report` counts and prints. `floor_file` reads the file of floors.

mod floor_file;
mod floors;
mod identify;
mod read;
mod report;
mod sort;

use std::env;
use std::time::UNIX_EPOCH;
use std::{io, process};

use hyperloglockless::HyperLogLog;
use indicatif::{ProgressBar, ProgressStyle};
use kent_client::Client;
use kent_ids::UnixNanos;
use tokio::runtime::Runtime;

use self::floor_file::FloorFile;
use self::floors::Floors;
use self::identify::{Found, Reading};
use self::read::{Batch, Source};
use self::report::{Distinct, Duplicates, Report};
use self::sort::{FILES_MAX, LINES_MAX, Place, Record, Sorter};
use crate::args::CheckArgs;
use crate::charset;
use crate::failure::Failure;
use crate::notice;
use crate::number::grouped;
use crate::output::Out;

/// The exit code after Ctrl-C, as in shells.
const INTERRUPTED: i32 = 130;
/// The sketch has 2^PRECISION registers of one byte.
const PRECISION: u8 = 16;
/// The relative standard error of the sketch: 1.04 / sqrt(2^PRECISION).
const STANDARD_ERROR: f64 = 1.04 / 256.0;

/// Checks the files. Fails with [`Failure::Unwell`] after the report if something is wrong.
pub(crate) fn run(
    args: &CheckArgs,
    client: impl FnOnce() -> Result<Client, Failure>,
    runtime: &Runtime,
    out: &mut Out,
) -> Result<(), Failure> {
    let sources = Source::all(&args.files);
    if sources.len() as u64 > FILES_MAX {
        return Err(Failure::Usage(format!("a check reads at most {} files", grouped(FILES_MAX))));
    }
    if let Some(dir) = args.temp_dir.as_ref().filter(|dir| !dir.is_dir()) {
        return Err(Failure::Usage(format!("--temp-dir: {} is not a directory", dir.display())));
    }
    // Unreadable files are found before anything is read.
    let sizes: Vec<_> = sources.iter().map(Source::size).collect::<Result<_, _>>()?;
    let reading = Reading::new(args.format.as_deref(), args.space.as_deref(), client, runtime)?;
    let file = args.floors.as_deref().map(|path| FloorFile::load(path, &reading)).transpose()?;
    let FloorFile { floors, skipped } = file.unwrap_or_default();
    skipped.iter().for_each(|skipped| notice::warn(skipped, out.is_json()));
    let bar = bar(sizes.into_iter().sum());
    runtime.spawn(end_on_ctrl_c(bar.clone(), out.is_json()));
    let mut check = Check {
        reading: &reading,
        distinct: Counter::new(args),
        namespaces: Vec::new(),
        report: Report {
            has_floors: args.floors.is_some(),
            files: sources.iter().map(|source| source.name.clone()).collect(),
            heading: reading.heading(),
            ..Report::default()
        },
    };
    let read = check.read_all(&sources, args, &floors, &bar, runtime);
    let finished = read.and_then(|()| check.finish(args, &bar));
    bar.finish_and_clear();
    let (report, namespaces) = finished?;
    let is_ok = report.is_ok();
    let text = |record: &Record| {
        let namespace = namespaces.get(usize::from(record.namespace())).copied().unwrap_or_default();
        reading.text(namespace, record.value())
    };
    if report.is_empty() {
        notice::warn("there is no identifier in the input", out.is_json());
    }
    // Flush here: another error of the output says more than the exit code, so it comes first.
    let printed = report.print(&text, out).and_then(|()| out.flush());
    Failure::unless_well(is_ok, printed)
}

/// A check in progress.
struct Check<'r> {
    reading: &'r Reading,
    distinct: Counter,
    /// The namespaces that occurred; records contain the index.
    namespaces: Vec<&'static str>,
    report: Report,
}

/// Finds duplicates, or estimates the number of different identifiers.
enum Counter {
    Exact(Sorter),
    Sketch(Box<HyperLogLog>),
}

impl Counter {
    fn new(args: &CheckArgs) -> Self {
        match args.quick {
            // The seed is fixed, so that two checks of the same files agree.
            true => Self::Sketch(Box::new(HyperLogLog::seeded(PRECISION, 0))),
            false => {
                let memory = usize::try_from(args.memory.as_u64()).unwrap_or(usize::MAX);
                Self::Exact(Sorter::new(memory, args.temp_dir.clone()))
            }
        }
    }
}

impl Check<'_> {
    fn read_all(
        &mut self,
        sources: &[Source],
        args: &CheckArgs,
        floors: &Floors,
        bar: &ProgressBar,
        runtime: &Runtime,
    ) -> Result<(), Failure> {
        let csv = args.csv.as_ref().map(|column| (column, args.delimiter));
        let mut batch = Batch::default();
        for (file, source) in (0..).zip(sources) {
            let mut rows = source.open(csv, bar)?;
            loop {
                rows.read(&mut batch)?;
                if batch.rows.is_empty() {
                    break;
                }
                let identified = self.reading.identify(&batch, floors, now(), runtime)?;
                for (row, identified) in batch.rows.iter().zip(identified) {
                    if row.line >= LINES_MAX {
                        return Err(Failure::Usage(format!(
                            "{} has more than {} lines",
                            source.name,
                            grouped(LINES_MAX)
                        )));
                    }
                    let place = Place { file, line: row.line };
                    match identified {
                        Ok(found) => {
                            self.add(found, place, || batch.text(row)).map_err(|error| spill_failed(&error, args))?
                        }
                        Err(reason) => self.report.invalid.add(place, &batch.text(row), reason),
                    }
                }
            }
        }
        Ok(())
    }

    fn add<'t>(
        &mut self,
        found: Found<'_>,
        place: Place,
        text: impl Fn() -> std::borrow::Cow<'t, str>,
    ) -> io::Result<()> {
        self.report.count(&found.label);
        if let Some(reason) = found.never_issued {
            self.report.never_issued.add(place, &text(), reason);
        }
        if let Some(reason) = found.below {
            self.report.below.add(place, &text(), reason);
        }
        match &mut self.distinct {
            Counter::Exact(sorter) => {
                let known = self.namespaces.iter().position(|known| *known == found.namespace);
                let index = known.unwrap_or_else(|| {
                    self.namespaces.push(found.namespace);
                    self.namespaces.len() - 1
                });
                // OK because there are fewer than 100 formats.
                sorter.push(Record::new(found.value, index as u8, place))
            }
            Counter::Sketch(sketch) => {
                sketch.insert(&(found.value, found.namespace));
                Ok(())
            }
        }
    }

    /// Completes the report. Also returns the namespaces of its records.
    fn finish(self, args: &CheckArgs, bar: &ProgressBar) -> Result<(Report, Vec<&'static str>), Failure> {
        let mut report = self.report;
        report.distinct = Some(match self.distinct {
            Counter::Exact(sorter) => {
                if sorter.spilled() > 0 {
                    start_merge(bar, report.read);
                }
                let mut duplicates = Duplicates::default();
                let mut merged = 0_u64;
                let visit = |record: &Record| {
                    duplicates.add(record);
                    merged += 1;
                    if merged.is_multiple_of(1 << 16) {
                        bar.set_position(merged);
                    }
                };
                sorter.finish(visit).map_err(|error| spill_failed(&error, args))?;
                Distinct::Exactly(duplicates.finish())
            }
            // An estimate cannot exceed the number of identifiers.
            Counter::Sketch(sketch) => Distinct::About((sketch.count() as u64).min(report.read), STANDARD_ERROR),
        });
        Ok((report, self.namespaces))
    }
}

fn now() -> UnixNanos {
    let since = UNIX_EPOCH.elapsed().unwrap_or_default();
    UnixNanos::new(i128::try_from(since.as_nanos()).unwrap_or(i128::MAX))
}

fn spill_failed(error: &io::Error, args: &CheckArgs) -> Failure {
    let dir = args.temp_dir.clone().unwrap_or_else(env::temp_dir);
    Failure::File(format!(
        "cannot use a temporary file in {}: {error}; name another directory, as in `kent check --temp-dir DIR`, or use more memory, as in \
         `kent check --memory 2GiB`",
        dir.display()
    ))
}

/// Ends the process after Ctrl-C. Temporary files have no names, so none is left.
async fn end_on_ctrl_c(bar: ProgressBar, is_json: bool) {
    if tokio::signal::ctrl_c().await.is_ok() {
        bar.finish_and_clear();
        notice::warn("interrupted: the check is not complete", is_json);
        process::exit(INTERRUPTED);
    }
}

/// Returns a progress bar for this number of bytes, or for an unknown number. indicatif draws it only if standard error
/// is a terminal.
fn bar(bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match bytes {
        Some(bytes) => (ProgressBar::new(bytes), "{bar:40} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} to go"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes} read, {bytes_per_sec}"),
    };
    set_style(&bar, template);
    bar
}

fn start_merge(bar: &ProgressBar, records: u64) {
    bar.set_length(records);
    bar.reset();
    set_style(bar, "{bar:40} {human_pos} of {human_len} sorted, {eta} to go");
}

fn set_style(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(if charset::is_ascii() { style.progress_chars("#>-").tick_chars("|/-\\ ") } else { style });
    }
}

#[cfg(test)]
mod tests;
