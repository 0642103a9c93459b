//! Requests for regions.

use kent_regions::Texts;

use super::{
    Invalid,
    names::{RequestName, SpaceName, region_name, request_name},
    range::width,
    regions::{check_bytes, new_name},
};
use crate::{
    stored::{Ask, AskOutcome},
    v1::{self, region_request::State},
};

/// A validated request for a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskInput {
    /// The name of the space.
    pub space: String,
    /// The requested name of the region.
    pub region: String,
    /// The requested width of the suffix in bits.
    pub suffix: u8,
    /// The requested width of the expansion zone in bits.
    pub zone: Option<u8>,
    /// The owner and the labels for the region.
    pub texts: Texts,
    /// Why the requester needs the region.
    pub reason: String,
}

/// A validated request to close a request for a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseInput {
    /// The request.
    pub name: RequestName,
    /// [`AskOutcome::Declined`] or [`AskOutcome::Withdrawn`].
    pub how: AskOutcome,
    /// Why the request is declined or withdrawn.
    pub note: String,
}

impl TryFrom<v1::RequestRegionRequest> for AskInput {
    type Error = Invalid;

    fn try_from(request: v1::RequestRegionRequest) -> Result<Self, Invalid> {
        let missing = || Invalid::new("suffix_bits", "is missing: the width of the suffix in bits, such as 40");
        let texts = Texts { owner: request.owner, labels: request.labels, ..Texts::default() };
        texts.check().map_err(|refusal| Invalid::new("owner", refusal))?;
        if request.reason.trim().is_empty() {
            return Err(Invalid::new(
                "reason",
                "is empty: say why you need the region; an operator decides on the basis of your reason",
            ));
        }
        check_bytes("reason", &request.reason)?;
        Ok(Self {
            space: SpaceName::parse("parent", &request.parent)?.into_inner(),
            region: new_name("region_id", &request.region_id)?,
            suffix: width("suffix_bits", request.suffix_bits.ok_or_else(missing)?)?,
            zone: request.zone_bits.map(|bits| width("zone_bits", bits)).transpose()?,
            texts,
            reason: request.reason,
        })
    }
}

impl TryFrom<v1::CloseRegionRequestRequest> for CloseInput {
    type Error = Invalid;

    fn try_from(request: v1::CloseRegionRequestRequest) -> Result<Self, Invalid> {
        let name = RequestName::parse("name", &request.name)?;
        check_bytes("note", &request.note)?;
        let how = match State::try_from(request.state) {
            Ok(State::Declined) if request.note.trim().is_empty() => {
                return Err(Invalid::new("note", "is empty: say why you decline; the requester reads your reason"));
            }
            Ok(State::Declined) => AskOutcome::Declined,
            Ok(State::Withdrawn) => AskOutcome::Withdrawn,
            Ok(State::Made) => {
                let problem = "must be DECLINED or WITHDRAWN: to make the region, name the request in CreateRegionRequest.answers";
                return Err(Invalid::new("state", problem));
            }
            Ok(State::Unspecified | State::Open) | Err(_) => {
                return Err(Invalid::new("state", "must be DECLINED or WITHDRAWN"));
            }
        };
        Ok(Self { name, how, note: request.note })
    }
}

impl AskInput {
    /// Fails if the region is wider than the space's identifiers, which have `bits` bits.
    ///
    /// # Errors
    ///
    /// An error about `suffix_bits`.
    pub fn check_width(&self, bits: u8) -> Result<(), Invalid> {
        let zone = self.zone.unwrap_or(0);
        let wanted = u32::from(self.suffix) + u32::from(zone);
        if wanted <= u32::from(bits) {
            return Ok(());
        }
        let what = if zone == 0 { "the suffix needs" } else { "suffix and zone together need" };
        let problem = format!("{what} {wanted} bits, but an identifier of space {:?} has {bits}", self.space);
        Err(Invalid::new("suffix_bits", problem))
    }
}

/// The caller's relation to a request for a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskRights {
    /// Whether the caller made the request.
    pub mine: bool,
    /// Whether the caller may make the region, or decline the request.
    pub decidable: bool,
}

/// Converts a request for a region to a message. `time` formats milliseconds since 1970.
pub fn region_request(
    space: &str,
    number: u64,
    ask: &Ask,
    rights: AskRights,
    time: impl Fn(i64) -> String,
) -> v1::RegionRequest {
    let closed = ask.closed.as_ref();
    let (state, region) = match closed.map(|closed| &closed.how) {
        None => (State::Open, String::new()),
        Some(AskOutcome::Made(region)) => (State::Made, region_name(space, region)),
        Some(AskOutcome::Declined) => (State::Declined, String::new()),
        Some(AskOutcome::Withdrawn) => (State::Withdrawn, String::new()),
    };
    v1::RegionRequest {
        name: request_name(space, number),
        state: state.into(),
        region_id: ask.region.clone(),
        suffix_bits: ask.suffix.into(),
        zone_bits: ask.zone.map(Into::into),
        owner: ask.texts.owner.clone(),
        labels: ask.texts.labels.clone(),
        reason: ask.reason.clone(),
        requester: ask.requester.clone(),
        create_time: time(ask.created),
        close_time: closed.map(|closed| time(closed.at)).unwrap_or_default(),
        closed_by: closed.map(|closed| closed.by.clone()).unwrap_or_default(),
        note: closed.map(|closed| closed.note.clone()).unwrap_or_default(),
        region,
        mine: rights.mine,
        decidable: rights.decidable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn err_a_region_that_is_wider_than_its_space() {
        let check = |suffix, zone| {
            let (space, region, reason) = ("parts".to_owned(), "r".to_owned(), "why".to_owned());
            let input = AskInput { space, region, suffix, zone, texts: Texts::default(), reason };
            input.check_width(64).map_err(|invalid| invalid.problem)
        };
        for (suffix, zone, expected) in [
            (64, None, Ok(())),
            (60, Some(4), Ok(())),
            (90, None, Err("the suffix needs 90 bits, but an identifier of space \"parts\" has 64")),
            (65, Some(0), Err("the suffix needs 65 bits, but an identifier of space \"parts\" has 64")),
            (60, Some(5), Err("suffix and zone together need 65 bits, but an identifier of space \"parts\" has 64")),
        ] {
            assert_eq!(check(suffix, zone), expected.map_err(str::to_owned));
        }
    }

    #[test]
    fn err_each_bad_field_is_named() {
        let (parent, region_id, reason) = ("spaces/default".to_owned(), "r".to_owned(), "why".to_owned());
        let good = v1::RequestRegionRequest {
            parent,
            region_id,
            reason,
            suffix_bits: Some(8),
            ..v1::RequestRegionRequest::default()
        };
        assert!(AskInput::try_from(good.clone()).is_ok());
        let cases = [
            ("parent", v1::RequestRegionRequest { parent: "default".into(), ..good.clone() }),
            ("region_id", v1::RequestRegionRequest { region_id: "/".into(), ..good.clone() }),
            ("suffix_bits", v1::RequestRegionRequest { suffix_bits: None, ..good.clone() }),
            ("suffix_bits", v1::RequestRegionRequest { suffix_bits: Some(129), ..good.clone() }),
            ("zone_bits", v1::RequestRegionRequest { zone_bits: Some(129), ..good.clone() }),
            ("reason", v1::RequestRegionRequest { reason: " \n".into(), ..good.clone() }),
            ("reason", v1::RequestRegionRequest { reason: "r".repeat(1025), ..good.clone() }),
            ("owner", v1::RequestRegionRequest { owner: "o".repeat(5000), ..good.clone() }),
            ("owner", v1::RequestRegionRequest { labels: [("?".into(), "x".into())].into(), ..good }),
        ];
        for (field, request) in cases {
            assert_eq!(AskInput::try_from(request).map_err(|invalid| invalid.field), Err(field));
        }
        let close = |name: &str, state: State, note: &str| {
            let (name, note) = (name.to_owned(), note.to_owned());
            let request = v1::CloseRegionRequestRequest { name, state: state.into(), note };
            CloseInput::try_from(request).map(|input| input.name.number).map_err(|invalid| invalid.field)
        };
        assert_eq!(close("spaces/a/b/requests/7", State::Withdrawn, ""), Ok(7));
        assert_eq!(close("spaces/a/requests/7", State::Declined, ""), Err("note"));
        assert_eq!(close("spaces/a/requests/7", State::Withdrawn, &"n".repeat(1025)), Err("note"));
        assert_eq!(close("spaces/a/requests/7", State::Made, ""), Err("state"));
        assert_eq!(close("spaces/a/requests/7", State::Open, ""), Err("state"));
        for name in ["spaces/a/regions/7", "spaces/a/requests/", "spaces/a/requests/x", "spaces/a/requests/+7", "7"] {
            assert_eq!(close(name, State::Withdrawn, ""), Err("name"), "{name}");
        }
    }
}
