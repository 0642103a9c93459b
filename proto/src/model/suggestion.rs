//! Converts suggested edits to the requests that make them.

use kent_regions::{
    Count, Donate, Edit, NewRegion, Order, Pace, Patch, Place, Policy, PolicyPatch, Revision, Start, Zone,
};
use prost::Message;
use prost_types::{Any, FieldMask};
use tonic::Status;
use tonic_types::pb;

use super::{
    names::{region_name, space_name},
    policy::policy,
};
use crate::v1::{self, edit_suggestion::Edit as Suggested};

/// Converts an edit of a space to a suggestion. `rule` is the reason in the `ErrorInfo` of the refused edit, and
/// `revision` is that of the table. Returns `None` for an edit that no single request can make.
pub fn suggestion(space: &str, rule: &str, revision: Revision, edit: &Edit) -> Option<v1::EditSuggestion> {
    let edit = request(space, edit)?;
    Some(v1::EditSuggestion { rule: rule.to_owned(), revision: revision.0, edit: Some(edit) })
}

/// The type URL of a suggestion in the details of a status.
const DETAIL: &str = "type.googleapis.com/kent.v1.EditSuggestion";

/// Encodes a suggestion as a detail of a status.
pub fn suggestion_detail(suggestion: &v1::EditSuggestion) -> Any {
    Any { type_url: DETAIL.to_owned(), value: suggestion.encode_to_vec() }
}

/// Returns the suggestion in the details of a status.
pub fn suggestion_of(status: &Status) -> Option<v1::EditSuggestion> {
    let details = pb::Status::decode(status.details()).ok()?.details;
    let detail = details.iter().find(|detail| detail.type_url == DETAIL)?;
    v1::EditSuggestion::decode(&*detail.value).ok()
}

fn request(space: &str, edit: &Edit) -> Option<Suggested> {
    let name = |name: &str| region_name(space, name);
    Some(match edit {
        Edit::Create { name, suffix, place, start } => Suggested::Create(create(space, name, *suffix, place, start)?),
        Edit::Expand { name: region, by } => Suggested::Expand(v1::ExpandRegionRequest {
            name: name(region),
            by_bits: (*by).into(),
            ..v1::ExpandRegionRequest::default()
        }),
        Edit::Shrink { name: region, by } => Suggested::Shrink(v1::ShrinkRegionRequest {
            name: name(region),
            by_bits: (*by).into(),
            ..v1::ShrinkRegionRequest::default()
        }),
        Edit::Split { name: region, by, new_regions } => Suggested::Split(v1::SplitRegionRequest {
            name: name(region),
            by_bits: (*by).into(),
            new_regions: new_regions.iter().map(new_region).collect::<Option<_>>()?,
            ..v1::SplitRegionRequest::default()
        }),
        Edit::Subdivide { name: region, by, new_regions, reserve_others } => {
            Suggested::Subdivide(v1::AddSubregionsRequest {
                name: name(region),
                by_bits: (*by).into(),
                new_regions: new_regions.iter().map(new_region).collect::<Option<_>>()?,
                r#abstract: *reserve_others,
                ..v1::AddSubregionsRequest::default()
            })
        }
        Edit::Update { name: region, patch } => update(name(region), patch)?,
        Edit::Delete { name: region, unused } => Suggested::Delete(v1::DeleteRegionRequest {
            name: name(region),
            unused: *unused,
            ..v1::DeleteRegionRequest::default()
        }),
        Edit::ExpandIfDue { .. }
        | Edit::Delegate { .. }
        | Edit::Undelegate { .. }
        | Edit::Import { .. }
        | Edit::Revert { .. } => return None,
    })
}

fn create(space: &str, name: &str, suffix: u8, place: &Place, start: &Start) -> Option<v1::CreateRegionRequest> {
    let request = v1::CreateRegionRequest {
        parent: space_name(space),
        region_id: name.to_owned(),
        suffix_bits: Some(suffix.into()),
        next: next(start.next)?,
        order: order(start.order).into(),
        pace: start.pace.map_or(0, Pace::get),
        sealed: start.sealed,
        policy: (start.policy != Policy::default()).then(|| policy(&start.policy)),
        ..v1::CreateRegionRequest::default()
    };
    Some(match place {
        Place::At(prefix) => v1::CreateRegionRequest { prefix: Some(prefix.to_string()), ..request },
        Place::Chosen { zone, donor } => {
            let (auto_split, split_donor) = match donor {
                Donate::Never => (false, String::new()),
                Donate::Best => (true, String::new()),
                Donate::Named(donor) => (false, donor.clone()),
            };
            // A request without `zone_bits` means `UpTo`.
            let zone_bits = match zone {
                Zone::Exactly(bits) => Some((*bits).into()),
                Zone::UpTo(_) => None,
            };
            v1::CreateRegionRequest { zone_bits, auto_split, split_donor, ..request }
        }
    })
}

fn new_region(new: &NewRegion) -> Option<v1::NewRegion> {
    Some(v1::NewRegion {
        region_id: new.name.clone(),
        suffix_bits: new.suffix.map(Into::into),
        extension: new.extension.map(|extension| extension.to_string()),
        order: order(new.start.order).into(),
        next: next(new.start.next)?,
        pace: new.start.pace.map_or(0, Pace::get),
        sealed: new.start.sealed,
        policy: (new.start.policy != Policy::default()).then(|| policy(&new.start.policy)),
    })
}

/// Returns the request for an update. Seals and other attributes are changed by different methods, so an update of both
/// has no single request.
fn update(name: String, patch: &Patch) -> Option<Suggested> {
    let seal = Patch { sealed: Some(true), ..Patch::default() };
    if *patch == seal {
        return Some(Suggested::Seal(v1::SealRegionRequest { name, ..v1::SealRegionRequest::default() }));
    }
    if patch.sealed.is_some() || patch.name.is_some() {
        return None;
    }
    let set = patch.labels.iter().filter_map(|(label, value)| Some((label.clone(), value.clone()?)));
    let removed = patch.labels.iter().filter(|(_, value)| value.is_none());
    let (policy, policy_mask) = policy_patch(&patch.policy);
    Some(Suggested::Update(v1::UpdateRegionRequest {
        name,
        owner: patch.owner.clone(),
        description: patch.description.clone(),
        set_labels: set.collect(),
        remove_labels: removed.map(|(label, _)| label.clone()).collect(),
        policy,
        policy_mask,
        next: match patch.next {
            None => None,
            Some(next) => Some(next.get()?.into()),
        },
        ..v1::UpdateRegionRequest::default()
    }))
}

fn policy_patch(patch: &PolicyPatch) -> (Option<v1::Policy>, Option<FieldMask>) {
    let PolicyPatch { auto_expand, cap, bounds, strict, stride } = *patch;
    let parts: [(&[&str], bool); 5] = [
        (&["auto_expand"], auto_expand.is_some()),
        (&["cap"], cap.is_some()),
        (&["min_chunk", "max_chunk"], bounds.is_some()),
        (&["strict"], strict.is_some()),
        (&["stride"], stride.is_some()),
    ];
    let named = parts.iter().filter(|(_, is_named)| *is_named).flat_map(|(names, _)| names.iter());
    let paths: Vec<String> = named.map(|name| (*name).to_owned()).collect();
    if paths.is_empty() {
        return (None, None);
    }
    let (min_chunk, max_chunk) = bounds.flatten().unwrap_or_default();
    let strict = strict.unwrap_or_default();
    let (auto_expand, cap, stride) = (auto_expand.flatten(), cap.flatten(), stride.unwrap_or_default());
    let rest = policy(&Policy { auto_expand, cap, stride, ..Policy::default() });
    (Some(v1::Policy { min_chunk, max_chunk, strict, ..rest }), Some(FieldMask { paths }))
}

/// Converts the first counter value to a field. Returns `Some(None)` for 0, for which the field is absent, and `None`
/// for 2^128, which does not fit into the field.
fn next(next: Count) -> Option<Option<v1::Uint128>> {
    next.get().map(|next| (next != 0).then(|| next.into()))
}

const fn order(order: Order) -> v1::region::Order {
    match order {
        Order::Sequential => v1::region::Order::Sequential,
        Order::Scrambled => v1::region::Order::Scrambled,
        Order::External => v1::region::Order::External,
    }
}

#[cfg(test)]
mod tests {
    use kent_regions::{AutoExpand, ChunkPolicy};

    use super::*;
    use crate::model::{EditInput, Invalid};

    /// Returns the edit of a suggested request.
    fn read_back(suggested: Suggested) -> Result<EditInput, Invalid> {
        match suggested {
            Suggested::Create(request) => request.try_into(),
            Suggested::Expand(request) => request.try_into(),
            Suggested::Shrink(request) => request.try_into(),
            Suggested::Split(request) => request.try_into(),
            Suggested::Subdivide(request) => request.try_into(),
            Suggested::Update(request) => request.try_into(),
            Suggested::Seal(request) => EditInput::seal(request, true),
            Suggested::Delete(request) => request.try_into(),
        }
    }

    #[test]
    fn ok_the_request_of_a_suggestion_makes_the_edit() {
        let name = || String::from("r");
        let policy = Policy { cap: Some(Count::Below(7)), chunk: ChunkPolicy::Strict, ..Policy::default() };
        let (next, order, pace) =
            (Count::Below(1 << 70), Order::External, Some(Pace::per_second(9u64.try_into().expect("9"))));
        let start = Start { next, order, pace, sealed: true, policy, ..Start::default() };
        let extension = "01".parse().ok();
        let new_regions = || {
            vec![
                NewRegion { name: "a".into(), suffix: Some(3), extension, start: start.clone() },
                NewRegion { name: "b".into(), suffix: None, extension: None, start: Start::default() },
            ]
        };
        let create = |place, start| Edit::Create { name: name(), suffix: 4, place, start };
        let chosen = |zone, donor| Place::Chosen { zone, donor };
        let update = |patch| Edit::Update { name: name(), patch };
        let policy = |policy| update(Patch { policy, ..Patch::default() });
        let auto_expand = Some(Some(AutoExpand { at_percent: 80, by_bits: 2, max_suffix: 128 }));
        let texts = Patch {
            owner: Some("shop".into()),
            description: Some(String::new()),
            labels: [("a".into(), Some("b".into())), ("c".into(), None)].into(),
            next: Some(Count::ZERO),
            ..Patch::default()
        };
        for edit in [
            create(Place::At("101".parse().expect("a prefix")), start.clone()),
            create(chosen(Zone::Exactly(3), Donate::Best), Start::default()),
            create(chosen(Zone::UpTo(8), Donate::Named("d".into())), Start::default()),
            create(chosen(Zone::Exactly(0), Donate::Never), Start::default()),
            Edit::Expand { name: name(), by: 3 },
            Edit::Shrink { name: name(), by: 3 },
            Edit::Split { name: name(), by: 2, new_regions: new_regions() },
            Edit::Subdivide { name: name(), by: 2, new_regions: new_regions(), reserve_others: true },
            Edit::Delete { name: name(), unused: true },
            update(texts),
            update(Patch { sealed: Some(true), ..Patch::default() }),
            policy(PolicyPatch { auto_expand, ..PolicyPatch::default() }),
            policy(PolicyPatch { cap: Some(Some(Count::Below(1))), bounds: Some(None), ..PolicyPatch::default() }),
            policy(PolicyPatch { strict: Some(true), bounds: Some(None), ..PolicyPatch::default() }),
            policy(PolicyPatch { strict: Some(false), bounds: Some(Some((1, 2))), ..PolicyPatch::default() }),
            policy(PolicyPatch { auto_expand: Some(None), cap: Some(None), ..PolicyPatch::default() }),
        ] {
            let suggested =
                suggestion("default", "RULE", Revision(3), &edit).and_then(|it| it.edit).expect("a request");
            let input = read_back(suggested).expect("a valid request");
            assert_eq!((input.space.as_str(), input.edit), ("default", edit));
        }
    }

    #[test]
    fn err_an_edit_that_no_request_makes() {
        let full = Start { next: Count::Max, ..Start::default() };
        let place = Place::At("".parse().expect("a prefix"));
        for edit in [
            Edit::Undelegate { name: "r".into() },
            Edit::Import { regions: Vec::new() },
            Edit::Update { name: "r".into(), patch: Patch { next: Some(Count::Max), ..Patch::default() } },
            Edit::Create { name: "r".into(), suffix: 128, place, start: full },
        ] {
            assert_eq!(suggestion("default", "RULE", Revision(3), &edit), None, "{edit:?}");
        }
    }
}
