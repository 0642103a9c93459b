//! Advice for an edit that cannot be undone: commands that work when pasted.

use kent_ids::Stride;
use kent_regions::{AutoExpand, Change, ChunkPolicy, NotUndone, Order, Pace, Prefix, Refusal, Region};

use super::{arguments, refusal_hint};

/// A deleted region, and what `kent region create` or `subdivide` needs to create it again.
#[derive(Clone, Debug)]
pub struct Deleted {
    /// The region before it was deleted.
    region: Region,
    /// The name and the prefix of the region's parent.
    parent: Option<(String, Prefix)>,
}

impl Deleted {
    /// Returns the region that an edit with these changes deleted, if any. `parent_of` finds the current name and
    /// prefix of the region's parent.
    pub(crate) fn of(changes: &[Change], parent_of: impl Fn(&Region) -> Option<(String, Prefix)>) -> Option<Self> {
        let first = changes.first().filter(|change| change.after.is_none())?;
        let region = first.before.clone()?;
        Some(Self { parent: parent_of(&region), region })
    }

    /// Returns the commands that create the region again with all its attributes, at its old place or elsewhere.
    fn commands(&self, space: &str, at_old_place: bool) -> String {
        let Self { region, parent } = self;
        let (name, suffix) = (&region.name, region.suffix);
        let mut words = match parent {
            None => {
                let mut words = to_words(&["kent", "region", "create", name, "--suffix", &suffix.to_string()]);
                if at_old_place && region.prefix.len() > 0 {
                    words.extend(to_words(&["--prefix", &region.prefix.to_string()]));
                }
                if region.order != Order::Sequential {
                    words.extend(to_words(&["--order", region.order.as_str()]));
                }
                if region.pace != Pace::for_bits(suffix) {
                    words.extend(to_words(&["--pace", &region.pace.get().to_string()]));
                }
                words
            }
            Some((parent, prefix)) => {
                let extension = region.prefix.rest(prefix.len());
                let place = if at_old_place { format!(":{extension}") } else { String::new() };
                let (by, new) = (extension.len().to_string(), format!("{name}:{suffix}{place}"));
                let mut words = to_words(&["kent", "region", "subdivide", parent, "--by", &by, "--new", &new]);
                if at_old_place && extension.is_zero() {
                    words.push("--abstract".to_owned());
                }
                words
            }
        };
        words.extend(to_words(&["--space", space]));
        let mut commands = vec![quoted(&words)];
        let attributes = attributes(region);
        if !attributes.is_empty() {
            commands.push(quoted(&[to_words(&["kent", "region", "set", name, "--space", space]), attributes].concat()));
        }
        if region.sealed {
            commands.push(quoted(&to_words(&["kent", "region", "seal", name, "--space", space])));
        }
        commands.join(" && ")
    }
}

/// Returns the arguments of `kent region set` that give a region the attributes of `region`.
fn attributes(region: &Region) -> Vec<String> {
    let mut words = Vec::new();
    let mut set = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
    if !region.texts().owner.is_empty() {
        set("--owner", region.texts().owner.clone());
    }
    if !region.texts().description.is_empty() {
        set("--description", region.texts().description.clone());
    }
    for (label, value) in &region.texts().labels {
        set("--label", format!("{label}={value}"));
    }
    if let Some(AutoExpand { at_percent, by_bits, max_suffix }) = region.policy().auto_expand {
        set("--auto-expand", format!("{at_percent}:{by_bits}:{max_suffix}"));
    }
    if let Some(cap) = region.policy().cap {
        set("--cap", cap.to_string());
    }
    if region.policy().stride != Stride::EVERY {
        set("--step", region.policy().stride.step().to_string());
        set("--offset", region.policy().stride.offset().to_string());
    }
    match region.policy().chunk {
        ChunkPolicy::Adaptive => {}
        ChunkPolicy::Within { min, max } => set("--chunk", format!("{min}:{max}")),
        ChunkPolicy::Strict => words.push("--strict".to_owned()),
    }
    words
}

fn to_words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Quotes words for a shell. Omits a word with a NUL, which no shell can pass on.
fn quoted(words: &[String]) -> String {
    let quoted = words.iter().filter_map(|word| shlex::try_quote(word).ok());
    quoted.collect::<Vec<_>>().join(" ")
}

/// Returns advice on what to do instead of the reversal.
pub(super) fn hint(space: &str, reason: &NotUndone, deleted: Option<&Deleted>) -> String {
    let NotUndone::Refused(refusal) = reason else { return String::new() };
    match (refusal, deleted) {
        (Refusal::PrefixConflict { .. }, Some(deleted)) => {
            format!("; to create it at another place: {}", deleted.commands(space, false))
        }
        (Refusal::EditedSince { .. }, Some(deleted)) => {
            format!("; to create it again: {}", deleted.commands(space, true))
        }
        (Refusal::PrefixConflict { region, .. }, None) => {
            format!("; if that is unused, delete it first (kent region delete {})", arguments(region, space))
        }
        (Refusal::EditedSince { .. }, None) => format!(
            "; `kent region history --space {space}` lists the later edits, and `kent region undo --space {space}` reverts the last one"
        ),
        (Refusal::NameTaken { name }, _) => {
            format!("; rename that one first (kent region rename {name} {name}-2 --space {space})")
        }
        (Refusal::HasSubregions { region, .. }, _) => {
            format!("; delete its other subregions first (kent region tree --filter {})", arguments(region, space))
        }
        (
            Refusal::SuffixInUse { region, most: Some(most @ 1..), .. }
            | Refusal::SuffixTooNarrow { region, most: most @ 1.., .. },
            _,
        ) => format!(" (kent region shrink {} --by {most})", arguments(region, space)),
        (refusal, _) => refusal_hint(space, refusal),
    }
}

#[cfg(test)]
mod tests {
    use kent_regions::{Count, Edit, Patch, Place, PolicyPatch, Start, Table};

    use super::*;

    #[test]
    fn ok_the_commands_carry_every_attribute() {
        let mut table = Table::new(64).expect("a width");
        let place = Place::At("0101".parse().expect("a prefix"));
        let start = Start { order: Order::Sequential, pace: Some(Pace::for_bits(50)), ..Start::default() };
        let auto_expand = Some(Some(AutoExpand { at_percent: 80, by_bits: 2, max_suffix: 30 }));
        let (cap, strict) = (Some(Some(Count::Below(9))), Some(true));
        let patch = Patch {
            owner: Some("the shop".to_owned()),
            description: Some("it's new".to_owned()),
            labels: [("team".to_owned(), Some("b".to_owned())), ("x".to_owned(), Some("1".to_owned()))].into(),
            sealed: Some(true),
            policy: PolicyPatch { auto_expand, cap, strict, ..PolicyPatch::default() },
            ..Patch::default()
        };
        let name = "r".to_owned();
        for edit in [Edit::Create { name: name.clone(), suffix: 20, place, start }, Edit::Update { name, patch }] {
            let plan = table.plan(&edit).expect("legal");
            table.apply(&plan).expect("applied");
        }
        let region = table.named("r").expect("there").clone();
        let parent = Some(("p".to_owned(), "01".parse().expect("a prefix")));
        let attributes = "--owner 'the shop' --description \"it's new\" --label 'team=b' --label 'x=1' --auto-expand 80:2:30 --cap 9 --strict";
        let set = ["kent", "region set r --space a/b", attributes, "&& kent region seal r --space a/b"].join(" ");
        for (parent, at_old_place, create) in [
            (None, true, "kent region create r --suffix 20 --prefix 0101 --pace 1073741824 --space a/b"),
            (None, false, "kent region create r --suffix 20 --pace 1073741824 --space a/b"),
            (parent.clone(), true, "kent region subdivide p --by 2 --new r:20:01 --space a/b"),
            (parent, false, "kent region subdivide p --by 2 --new r:20 --space a/b"),
        ] {
            let deleted = Deleted { region: region.clone(), parent };
            assert_eq!(deleted.commands("a/b", at_old_place), format!("{create} && {set}"));
        }
        let plain = Region { sealed: false, extras: Default::default(), ..region };
        let chunk = ChunkPolicy::Within { min: 1, max: 8 };
        let mut chunked = plain.clone();
        chunked.set_policy(kent_regions::Policy { chunk, ..Default::default() });
        for (region, expected) in
            [(plain, String::new()), (chunked, " && kent region set r --space s --chunk 1:8".to_owned())]
        {
            let create = "kent region create r --suffix 20 --prefix 0101 --pace 1073741824 --space s";
            let commands = Deleted { region, parent: None }.commands("s", true);
            assert_eq!(commands, format!("{create}{expected}"));
        }
    }
}
