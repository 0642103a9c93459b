//! Converts suggested edits to commands that a user can paste into a shell.

use kent_client::tonic::Status;
use kent_proto::{
    model::suggestion_of,
    v1::{
        AddSubregionsRequest, CreateRegionRequest, EditSuggestion, NewRegion, Policy, SplitRegionRequest, Stride,
        UpdateRegionRequest, edit_suggestion::Edit, region::Order,
    },
};

use crate::names;

/// The first word of the commands.
const KENT: &str = "kent";

/// Returns the command that makes the edit that a refusal suggests. Returns `None` without a suggestion, or if no single command makes
/// the edit.
pub(crate) fn command(status: &Status) -> Option<String> {
    of(suggestion_of(status)?)
}

fn of(suggestion: EditSuggestion) -> Option<String> {
    match suggestion.edit? {
        Edit::Create(request) => create(&request),
        Edit::Expand(request) => Some(resize("expand", &request.name, request.by_bits)),
        Edit::Shrink(request) => Some(resize("shrink", &request.name, request.by_bits)),
        Edit::Split(SplitRegionRequest { name, by_bits, new_regions, .. }) => {
            divide("split", &name, by_bits, &new_regions)
        }
        Edit::Subdivide(AddSubregionsRequest { name, by_bits, new_regions, r#abstract, .. }) => {
            let divided = divide("subdivide", &name, by_bits, &new_regions)?;
            Some(format!("{divided}{}", if r#abstract { " --abstract" } else { "" }))
        }
        Edit::Update(request) => update(&request),
        Edit::Seal(request) => Some(format!("kent region seal {}", names::words(&request.name))),
        Edit::Delete(request) => {
            let unused = if request.unused { " --unused" } else { "" };
            Some(format!("kent region delete {}{unused}", names::words(&request.name)))
        }
    }
}

/// Returns the command that creates a region. Returns `None` for a policy or a seal, which `kent region create` cannot set.
pub(crate) fn create(request: &CreateRegionRequest) -> Option<String> {
    if request.sealed || request.policy.is_some() {
        return None;
    }
    let order = match request.order() {
        Order::Unspecified | Order::Sequential => "",
        Order::Scrambled => " --order scrambled",
        Order::External => " --order external",
    };
    let (name, suffix, pace) = (&request.region_id, request.suffix_bits?, request.pace);
    let next = request.next.map(u128::from).filter(|next| *next != 0).map(|next| format!(" --next {next}"));
    let pace = if pace == 0 { String::new() } else { format!(" --pace {pace}") };
    let zone = request.zone_bits.map(|bits| format!(" --zone {bits}")).unwrap_or_default();
    // A shell drops an empty argument without quotes.
    let prefix = request.prefix.as_ref().map(|bits| if bits.is_empty() { "''" } else { bits });
    let prefix = prefix.map(|bits| format!(" --prefix {bits}")).unwrap_or_default();
    let space = names::space_option(names::space_of(&request.parent));
    let donor = match (request.split_donor.as_str(), request.auto_split) {
        ("", false) => String::new(),
        ("", true) => " --auto-split".to_owned(),
        (donor, _) => format!(" --split-donor {donor}"),
    };
    let next = next.unwrap_or_default();
    Some(format!("kent region create {name} --suffix {suffix}{zone}{prefix}{order}{next}{pace}{space}{donor}"))
}

fn resize(verb: &str, name: &str, by: u32) -> String {
    format!("{KENT} region {verb} {} --by {by}", names::words(name))
}

fn divide(verb: &str, name: &str, by: u32, new_regions: &[NewRegion]) -> Option<String> {
    let new = new_regions.iter().map(new_region).collect::<Option<Vec<_>>>()?.concat();
    Some(format!("{}{new}", resize(verb, name, by)))
}

/// Returns the option for a new region. `--new` takes only a name, a suffix and an extension.
fn new_region(new: &NewRegion) -> Option<String> {
    let is_plain = NewRegion { order: 0, ..new.clone() }
        == NewRegion {
            region_id: new.region_id.clone(),
            suffix_bits: new.suffix_bits,
            extension: new.extension.clone(),
            ..NewRegion::default()
        };
    let is_plain = is_plain && matches!(new.order(), Order::Unspecified | Order::Sequential);
    let suffix = new.suffix_bits.map(|bits| bits.to_string()).unwrap_or_default();
    let extension = new.extension.as_ref().map(|extension| format!(":{extension}")).unwrap_or_default();
    is_plain.then(|| format!(" --new {}:{suffix}{extension}", new.region_id))
}

/// Returns the command that changes the policy or the counter of a region. Returns `None` for an owner, a description
/// or labels, which may need quotes.
fn update(request: &UpdateRegionRequest) -> Option<String> {
    let has_texts = request.owner.is_some() || request.description.is_some();
    if has_texts || !request.set_labels.is_empty() || !request.remove_labels.is_empty() {
        return None;
    }
    let paths = request.policy_mask.as_ref().map(|mask| mask.paths.as_slice()).unwrap_or_default();
    let has = |part: &str| paths.iter().any(|path| path == part);
    let Policy { auto_expand, cap, min_chunk, max_chunk, strict, stride } = request.policy.clone().unwrap_or_default();
    let mut options = Vec::new();
    if has("auto_expand") {
        options.push(match auto_expand {
            None => "--no-auto-expand".to_owned(),
            Some(auto) => {
                let (percent, by, max) = (auto.at_percent, auto.by_bits, auto.max_suffix_bits);
                // 128 bits mean no limit.
                let max = if max == 128 { String::new() } else { format!(":{max}") };
                format!("--auto-expand {percent}:{by}{max}")
            }
        });
    }
    if has("cap") {
        options.push(if cap.is_empty() { "--no-cap".to_owned() } else { format!("--cap {cap}") });
    }
    if has("strict") {
        options.push(if strict { "--strict" } else { "--no-strict" }.to_owned());
    }
    if has("min_chunk") {
        let bounds = (min_chunk, max_chunk) != (0, 0);
        options.push(if bounds { format!("--chunk {min_chunk}:{max_chunk}") } else { "--no-chunk".to_owned() });
    }
    if has("stride") {
        options.push(match stride {
            None => "--no-step".to_owned(),
            Some(Stride { step, offset }) => format!("--step {step} --offset {offset}"),
        });
    }
    options.extend(request.next.map(|next| format!("--next {}", u128::from(next))));
    Some(format!("{KENT} region set {} {}", names::words(&request.name), options.join(" ")))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use kent_proto::v1::{
        AutoExpand, DeleteRegionRequest, ExpandRegionRequest, FieldMask, SealRegionRequest, ShrinkRegionRequest,
    };

    use super::*;
    use crate::args::Cli;

    const NAME: &str = "spaces/a/b/regions/r";

    fn update(parts: &[&str], policy: Policy) -> Edit {
        let paths = parts.iter().map(|part| (*part).to_owned()).collect();
        let (policy, policy_mask) = (Some(policy), Some(FieldMask { paths }));
        Edit::Update(UpdateRegionRequest { name: NAME.into(), policy, policy_mask, ..UpdateRegionRequest::default() })
    }

    fn new(region_id: &str, suffix_bits: Option<u32>, extension: Option<&str>) -> NewRegion {
        let extension = extension.map(str::to_owned);
        NewRegion { region_id: region_id.into(), suffix_bits, extension, ..NewRegion::default() }
    }

    #[test]
    fn ok_a_suggestion_is_a_command_that_parses() {
        let name = || NAME.to_owned();
        let create = || CreateRegionRequest {
            parent: "spaces/a/b".into(),
            region_id: "r".into(),
            suffix_bits: Some(4),
            ..CreateRegionRequest::default()
        };
        let new_regions = vec![new("x", Some(3), Some("01")), new("y", None, Some("00")), new("z", Some(2), None)];
        let auto = |max_suffix_bits| Some(AutoExpand { at_percent: 80, by_bits: 2, max_suffix_bits });
        let policy = Policy::default;
        for (edit, expected) in [
            (Edit::Create(create()), "create r --suffix 4 --space a/b"),
            (
                Edit::Create(CreateRegionRequest {
                    zone_bits: Some(2),
                    order: Order::Scrambled.into(),
                    next: Some(9.into()),
                    pace: 7,
                    split_donor: "d".into(),
                    ..create()
                }),
                "create r --suffix 4 --zone 2 --order scrambled --next 9 --pace 7 --space a/b --split-donor d",
            ),
            (
                Edit::Create(CreateRegionRequest {
                    prefix: Some("01".into()),
                    order: Order::External.into(),
                    ..create()
                }),
                "create r --suffix 4 --prefix 01 --order external --space a/b",
            ),
            (
                Edit::Create(CreateRegionRequest { auto_split: true, ..create() }),
                "create r --suffix 4 --space a/b --auto-split",
            ),
            (
                Edit::Expand(ExpandRegionRequest { name: name(), by_bits: 3, ..ExpandRegionRequest::default() }),
                "expand r --space a/b --by 3",
            ),
            (
                Edit::Shrink(ShrinkRegionRequest { name: name(), by_bits: 3, ..ShrinkRegionRequest::default() }),
                "shrink r --space a/b --by 3",
            ),
            (
                Edit::Split(SplitRegionRequest { name: name(), by_bits: 2, ..SplitRegionRequest::default() }),
                "split r --space a/b --by 2",
            ),
            (
                Edit::Subdivide(AddSubregionsRequest {
                    name: name(),
                    by_bits: 2,
                    new_regions,
                    r#abstract: true,
                    ..AddSubregionsRequest::default()
                }),
                "subdivide r --space a/b --by 2 --new x:3:01 --new y::00 --new z:2 --abstract",
            ),
            (Edit::Seal(SealRegionRequest { name: name(), ..SealRegionRequest::default() }), "seal r --space a/b"),
            (
                Edit::Delete(DeleteRegionRequest { name: name(), unused: true, ..DeleteRegionRequest::default() }),
                "delete r --space a/b --unused",
            ),
            (
                update(&["auto_expand"], Policy { auto_expand: auto(128), ..policy() }),
                "set r --space a/b --auto-expand 80:2",
            ),
            (
                update(&["auto_expand", "cap"], Policy { auto_expand: auto(30), cap: "7".into(), ..policy() }),
                "set r --space a/b --auto-expand 80:2:30 --cap 7",
            ),
            (
                update(&["strict", "min_chunk", "max_chunk"], Policy { strict: true, ..policy() }),
                "set r --space a/b --strict --no-chunk",
            ),
            (
                update(&["strict", "min_chunk", "max_chunk"], Policy { min_chunk: 1, max_chunk: 5, ..policy() }),
                "set r --space a/b --no-strict --chunk 1:5",
            ),
        ] {
            let suggestion = EditSuggestion { edit: Some(edit), ..EditSuggestion::default() };
            let command = of(suggestion).expect("a command");
            assert_eq!(command, format!("{KENT} region {expected}"));
            Cli::try_parse_from(command.split(' ')).expect("it parses");
        }
    }

    #[test]
    fn err_an_edit_that_no_command_makes() {
        let sealed = NewRegion { sealed: true, ..new("x", Some(1), None) };
        let split =
            SplitRegionRequest { name: NAME.into(), new_regions: vec![sealed], ..SplitRegionRequest::default() };
        let texts = UpdateRegionRequest { owner: Some("it's".into()), ..UpdateRegionRequest::default() };
        let create = CreateRegionRequest { policy: Some(Policy::default()), ..CreateRegionRequest::default() };
        for edit in [Some(Edit::Split(split)), Some(Edit::Update(texts)), Some(Edit::Create(create)), None] {
            assert_eq!(of(EditSuggestion { edit, ..EditSuggestion::default() }), None);
        }
    }
}
