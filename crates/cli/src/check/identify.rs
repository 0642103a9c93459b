//! Reads texts as identifiers, and finds those that were never issued or are at or below a floor.

use std::borrow::Cow;
use std::time::Duration;

use kent_client::Client;
use kent_codec::{Detected, Detector, NO_FORMAT, canonical, parse_id, parse_serial};
use kent_ids::extuuid::Serials;
use kent_ids::{Series, Source, UnixNanos, Uuid};
use kent_proto::model::Classified;
use kent_proto::v1::classification::Status;
use kent_proto::v1::{Classification, GetSpaceRequest, ListSeriesRequest};
use rayon::prelude::*;
use tokio::runtime::Runtime;

use super::floors::Floors;
use super::read::{Batch, Row};
use crate::classify;
use crate::connect::request;
use crate::failure::Failure;
use crate::known_layout;
use crate::names;
use crate::number::{Form, grouped};

/// A time is later than now only if it is later by more than this, because clocks differ.
const TOLERANCE_NANOS: i128 = 2_000_000_000;
/// The namespace of identifiers that are read in one way only.
const ONLY: &str = "";

/// An identifier, and what is wrong with it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found<'r> {
    pub(super) value: u128,
    pub(super) namespace: &'static str,
    /// The format or the region.
    pub(super) label: Cow<'r, str>,
    /// Why it was never issued.
    pub(super) never_issued: Option<String>,
    /// The floor that it is not above.
    pub(super) below: Option<String>,
}

/// The result of reading each row of a batch: an identifier, or the reason why the row is not an identifier.
pub(super) type Identified<'r> = Vec<Result<Found<'r>, String>>;

/// How texts are read.
pub(super) enum Reading {
    /// The format of each is guessed.
    Guess(Detector),
    Named(Detector),
    Layout {
        name: String,
        detector: Detector,
        form: Form,
    },
    Series {
        series: String,
        serials: Serials,
        /// The first number that was never reserved.
        end: u128,
    },
    Space {
        name: String,
        bits: u32,
        form: Form,
        client: Box<Client>,
    },
}

impl Reading {
    /// Returns the reading that the options request. Asks a daemon if necessary.
    pub(super) fn new(
        format: Option<&str>,
        space: Option<&str>,
        client: impl FnOnce() -> Result<Client, Failure>,
        runtime: &Runtime,
    ) -> Result<Self, Failure> {
        let Some(format) = format else {
            let Some(space) = space else { return Ok(Self::Guess(Detector::guess())) };
            let client = Box::new(client()?);
            let message = GetSpaceRequest { name: names::space(space) };
            let found = runtime
                .block_on(async {
                    Ok::<_, Failure>(client.connect().await?.regions().get_space(request(message)).await?)
                })?
                .into_inner();
            let form = Form::of(found.text_form(), found.bits);
            return Ok(Self::Space { name: space.to_owned(), bits: found.bits, form, client });
        };
        if let Some(name) = format.strip_prefix("layout:") {
            let client = client()?;
            let known = runtime.block_on(async { known_layout::get(name, &client.connect().await?).await })?;
            return Ok(Self::Layout { name: format.to_owned(), detector: known.detector(), form: known.form() });
        }
        if let Ok(Source::Region { space, .. }) = format.parse() {
            return Err(Failure::Usage(format!("--as: for the identifiers of a region, use --space {space}")));
        }
        let named = |token| Detector::named(token).map_err(|error| Failure::Usage(format!("--as: {}", error.message)));
        if !format.starts_with("serial") {
            return named(format).map(Self::Named);
        }
        let series: Series = format.parse().map_err(|error| Failure::Usage(format!("--as: {error}")))?;
        let Series::Serial(serials) = &series else { return named(format).map(Self::Named) };
        let client = client()?;
        let end = runtime.block_on(reserved(&series, &client))?;
        Ok(Self::Series { series: series.to_string(), serials: serials.clone(), end })
    }

    /// The heading of the labels.
    pub(super) fn heading(&self) -> &'static str {
        match self {
            Self::Space { .. } => "REGION",
            Self::Guess(_) | Self::Named(_) | Self::Layout { .. } | Self::Series { .. } => "FORMAT",
        }
    }

    /// Returns the text of an identifier, or `None` if its value does not determine it.
    pub(super) fn text(&self, namespace: &str, value: u128) -> Option<String> {
        match self {
            Self::Guess(_) | Self::Named(_) => canonical(namespace, value),
            Self::Layout { form, .. } | Self::Space { form, .. } => Some(form.text(value)),
            Self::Series { .. } => Some(Uuid::from_u128(value).to_string()),
        }
    }

    /// Reads the rows of a batch.
    pub(super) fn identify(
        &self,
        batch: &Batch,
        floors: &Floors,
        now: UnixNanos,
        runtime: &Runtime,
    ) -> Result<Identified<'_>, Failure> {
        if let Self::Space { name, bits, client, .. } = self {
            return self.classified(batch, floors, (name, *bits), client, runtime);
        }
        let identify = |row: &Row| match row.fault {
            Some(fault) => Err(fault.to_string()),
            None => self.read(&batch.text(row), floors, now),
        };
        Ok(batch.rows.par_iter().map(identify).collect())
    }

    /// Reads a text without a daemon.
    fn read(&self, text: &str, floors: &Floors, now: UnixNanos) -> Result<Found<'_>, String> {
        let (detector, label) = match self {
            Self::Guess(detector) | Self::Named(detector) => (detector, None),
            Self::Layout { detector, name, .. } => (detector, Some(name)),
            Self::Series { serials, series, end } => return of_series(text, (series, serials), *end, floors),
            Self::Space { .. } => return parse_id(text).map(|id| found(ONLY, id.value, Cow::Borrowed(""))),
        };
        let detected = detector.detect(text).map_err(|error| match error.message == NO_FORMAT {
            true => "it fits no format that kent knows".to_owned(),
            false => error.message,
        })?;
        let Detected { format, namespace, value, time, is_certain } = detected;
        let label = label.map_or(Cow::Borrowed(format), |label| Cow::Borrowed(label.as_str()));
        let never_issued = time.filter(|_| is_certain).and_then(|time| late(time, now));
        let below = time.and_then(|time| floors.of_time(&label, time));
        Ok(Found { never_issued, below, ..found(namespace, value, label) })
    }

    /// Asks the daemon for the regions of the identifiers.
    fn classified(
        &self,
        batch: &Batch,
        floors: &Floors,
        (space, bits): (&str, u32),
        client: &Client,
        runtime: &Runtime,
    ) -> Result<Identified<'_>, Failure> {
        let parse = |row: &Row| match row.fault {
            Some(fault) => Err(fault.to_string()),
            None => parse_id(&batch.text(row)).and_then(|id| id.within(space, bits)),
        };
        let ids: Vec<_> = batch.rows.par_iter().map(parse).collect();
        let valid: Vec<_> = ids.iter().flatten().copied().collect();
        let mut answers = Vec::new();
        if !valid.is_empty() {
            let sent = valid.len();
            answers = runtime.block_on(async { classify::classify(valid, space, &client.connect().await?).await })?;
            if answers.len() != sent {
                return Err(Failure::Answer(format!("{} results for {sent} identifiers", answers.len())));
            }
        }
        let mut answers = answers.iter();
        let mut place = |value| {
            let answer = answers.next();
            answer.map_or_else(|| found(ONLY, value, "-".into()), |answer| in_region(value, answer, floors))
        };
        Ok(ids.into_iter().map(|id| id.map(&mut place)).collect())
    }
}

fn found<'l>(namespace: &'static str, value: u128, label: Cow<'l, str>) -> Found<'l> {
    Found { value, namespace, label, never_issued: None, below: None }
}

/// Judges an identifier by the answer of the daemon.
fn in_region<'r>(value: u128, answer: &Classification, floors: &Floors) -> Found<'r> {
    let path = Classified(answer).path();
    let never_issued = match answer.status() {
        Status::Member if answer.issued || answer.others => None,
        Status::Member => Some(format!("it is in {path}, which has not issued it")),
        Status::Reserved => Some(format!("it is in the expansion zone of {path}")),
        Status::Unassigned => Some(format!("it is in {path}, but in none of its subregions")),
        Status::Free | Status::Unspecified => Some("it is in no region".to_owned()),
    };
    let region = answer.path.last().map(|name| names::short(name)).unwrap_or_default();
    Found { never_issued, below: floors.of_value(region, value), ..found(ONLY, value, path.into()) }
}

/// Reads an identifier of a series whose numbers from `end` on are free.
fn of_series<'s>(
    text: &str,
    (series, serials): (&'s str, &Serials),
    end: u128,
    floors: &Floors,
) -> Result<Found<'s>, String> {
    let number = parse_serial(text, serials).map_err(|expected| format!("it is not of {series}: {expected}"))?;
    let ext = serials.ext(number).ok_or_else(|| format!("{series} has no number {}", grouped(number)))?;
    let never_issued = (number >= end).then(|| {
        format!("its number {} was never issued: the numbers from {} on are free", grouped(number), grouped(end))
    });
    let below = floors.of_value(series, number);
    Ok(Found { never_issued, below, ..found(ONLY, ext.to_uuid().as_u128(), series.into()) })
}

/// Returns the first number of a series that was never reserved.
async fn reserved(series: &Series, client: &Client) -> Result<u128, Failure> {
    let daemon = client.connect().await?;
    // No deadline, because the list may have a million entries.
    let mut pages =
        daemon.admin().list_series(kent_client::tonic::Request::new(ListSeriesRequest {})).await?.into_inner();
    while let Some(page) = pages.message().await? {
        if let Some(found) = page.series.iter().find(|found| found.source.parse().as_ref() == Ok(series)) {
            let invalid = |_| Failure::Answer(format!("{} reserved numbers", found.reserved));
            return found.reserved.parse().map_err(invalid);
        }
    }
    Err(Failure::Usage(format!("the daemon has no series {series} (`kent series ls` lists the series)")))
}

/// Says by how much a time is later than now.
fn late(time: UnixNanos, now: UnixNanos) -> Option<String> {
    let ahead = time.get().saturating_sub(now.get());
    if ahead <= TOLERANCE_NANOS {
        return None;
    }
    let seconds = u64::try_from(ahead / 1_000_000_000).unwrap_or(u64::MAX);
    let ahead = humantime::format_duration(Duration::from_secs(seconds)).to_string();
    // Two units are precise enough.
    let ahead: Vec<_> = ahead.split(' ').take(2).collect();
    let at = time.rfc3339(3).map(|time| format!(" {time}")).unwrap_or_default();
    Some(format!("its time{at} is {} later than now", ahead.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-01-01T00:00:00Z.
    const NOW: UnixNanos = UnixNanos::new(1_767_225_600_000_000_000);

    #[test]
    fn ok_a_time_may_be_two_seconds_ahead() {
        for (ahead_ms, expected) in [
            (-1_000, None),
            (0, None),
            (2_000, None),
            (2_001, Some("its time 2026-01-01T00:00:02.001Z is 2s later than now")),
            (90_061_000, Some("its time 2026-01-02T01:01:01.000Z is 1day 1h later than now")),
        ] {
            let found = late(UnixNanos::new(NOW.get() + ahead_ms * 1_000_000), NOW);
            assert_eq!(found.as_deref(), expected, "{ahead_ms}");
        }
    }

    #[test]
    fn ok_texts() {
        let reading = Reading::Guess(Detector::guess());
        for (text, label, never) in [
            ("019b76da-a800-7000-8000-000000000000", "uuidv7", false),
            ("019d7746-6c00-7000-8000-000000000000", "uuidv7", true),
            ("42", "integer", false),
            // A uid11 need not be an xid, so its time does not count.
            ("zzzzzzzzzz1", "", false),
            ("NQm6nKp8qFD", "xid", false),
        ] {
            match reading.read(text, &Floors::default(), NOW) {
                Ok(found) => assert_eq!((&*found.label, found.never_issued.is_some()), (label, never), "{text}"),
                Err(error) => assert_eq!(label, "", "{text}: {error}"),
            }
        }
        let named = Reading::Named(Detector::named("xid").expect("a format"));
        let found = named.read("NQm6nKp8qFD", &Floors::default(), NOW).expect("an xid");
        assert!(found.never_issued.is_some_and(|reason| reason.contains("later than now")));
        assert!(named.read("42", &Floors::default(), NOW).is_err());
    }

    #[test]
    fn ok_numbers_of_a_series() {
        let Ok(Series::Serial(serials)) = "serial:GBP".parse() else { panic!("a series") };
        let text = |number| serials.ext(number).map(|ext| ext.to_uuid().to_string()).expect("a number");
        let (one, ten) = (text(1), text(10));
        let reading = Reading::Series { series: "serial:GBP".to_owned(), serials, end: 10 };
        let read = |text: &str| reading.read(text, &Floors::default(), NOW);
        for form in [&one, "1", "GBP:1"] {
            let found = read(form).expect(form);
            assert_eq!((found.never_issued, Uuid::from_u128(found.value).to_string()), (None, one.clone()));
        }
        assert_eq!(read("0").map(|found| found.value), Err("serial:GBP has no number 0".to_owned()));
        let reason = read(&ten).expect("a number").never_issued.expect("not issued");
        assert_eq!(reason, "its number 10 was never issued: the numbers from 10 on are free");
        assert_eq!(
            read("2489e9ad-2ee2-8e00-8ec9-32d5f69181c0").map(|found| found.value),
            Err("it is not of serial:GBP: expected a number such as 42, GBP:42, or a UUID of this series".to_owned())
        );
    }
}
