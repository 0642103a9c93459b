//! Draws the forest of regions with box characters.

use std::collections::{HashMap, HashSet};

use kent_proto::v1::{Region, region::Kind};

use crate::describe::{kind_role, state};
use crate::names;
use crate::number;
use crate::output::{Palette, Role};
use crate::table::{Cell, Table};

/// The width, in characters, of the bar that shows the issued share of a region.
const BAR_CELLS: usize = 10;

/// A region and its position in the forest.
pub(crate) struct Branch {
    pub(crate) region: Region,
    /// The number of levels above the region, 0 at the top level.
    pub(crate) depth: usize,
    /// The box characters before the name of the region, such as "│  └─ ".
    lines: String,
}

/// The part of a table to draw.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// The maximum number of levels.
    pub(crate) depth: Option<usize>,
    /// If set, only the regions whose names contain this text and the regions that contain those are drawn.
    pub(crate) filter: Option<String>,
    /// The maximum number of siblings.
    pub(crate) siblings: Option<usize>,
}

impl View {
    /// Returns the regions with matching names and the regions that contain them, in their original order.
    fn matching(&self, regions: Vec<Region>) -> Vec<Region> {
        let Some(filter) = &self.filter else { return regions };
        let parents: HashMap<&str, &str> =
            regions.iter().map(|region| (region.name.as_str(), region.parent.as_str())).collect();
        let mut wanted = HashSet::new();
        for region in regions.iter().filter(|region| names::short(&region.name).contains(filter.as_str())) {
            let mut next = Some(region.name.as_str());
            // If a region is already in the set, so are the regions that contain it.
            while let Some(name) = next.filter(|name| wanted.insert((*name).to_owned())) {
                next = parents.get(name).copied().filter(|parent| !parent.is_empty());
            }
        }
        regions.into_iter().filter(|region| wanted.contains(&region.name)).collect()
    }
}

/// Returns the branches of the forest that `view` selects, and the number of hidden regions.
pub(crate) fn view(regions: Vec<Region>, view: &View) -> (Vec<Branch>, usize) {
    let all = regions.len();
    let mut forest = plant(view.matching(regions));
    // For each level of the current branch, the number of siblings so far.
    let mut drawn: Vec<usize> = Vec::new();
    let mut hidden_below: Option<usize> = None;
    forest.retain(|branch| {
        if hidden_below.is_some_and(|depth| branch.depth > depth) {
            return false;
        }
        hidden_below = None;
        drawn.truncate(branch.depth + 1);
        drawn.resize(branch.depth + 1, 0);
        let seen = drawn.last_mut().map_or(0, |count| {
            *count += 1;
            *count
        });
        let too_many = view.siblings.is_some_and(|most| seen > most);
        if too_many {
            hidden_below = Some(branch.depth);
        }
        !too_many && view.depth.is_none_or(|depth| branch.depth < depth)
    });
    let hidden = all - forest.len();
    (forest, hidden)
}

/// Places every region below its parent and keeps the order of siblings. A region whose parent is missing is placed at
/// the top level.
pub(crate) fn plant(regions: Vec<Region>) -> Vec<Branch> {
    let index: HashMap<&str, usize> =
        regions.iter().enumerate().map(|(index, region)| (region.name.as_str(), index)).collect();
    let mut children = vec![Vec::new(); regions.len()];
    let mut roots = Vec::new();
    for (child, region) in regions.iter().enumerate() {
        match index.get(region.parent.as_str()) {
            Some(&parent) => children[parent].push(child),
            None => roots.push(child),
        }
    }
    let mut slots: Vec<_> = regions.into_iter().map(Some).collect();
    grow(roots, &children, |index| slots.get_mut(index).and_then(Option::take))
}

/// Walks the forest, parents first. Takes each region once, so the walk ends even if an invalid response contains a
/// cycle.
fn grow(roots: Vec<usize>, children: &[Vec<usize>], mut take: impl FnMut(usize) -> Option<Region>) -> Vec<Branch> {
    let mut branches = Vec::with_capacity(children.len());
    let mut pending: Vec<(usize, usize, String, String)> = Vec::new();
    push_all(&mut pending, &roots, 0, "");
    while let Some((index, depth, lines, below)) = pending.pop() {
        if let Some(region) = take(index) {
            branches.push(Branch { region, depth, lines });
            push_all(&mut pending, &children[index], depth + 1, &below);
        }
    }
    branches
}

/// Pushes siblings onto the stack, the first one on top, each with the box characters to draw before its own name and
/// before its children.
fn push_all(pending: &mut Vec<(usize, usize, String, String)>, siblings: &[usize], depth: usize, before: &str) {
    for (position, &index) in siblings.iter().enumerate().rev() {
        let last = position + 1 == siblings.len();
        let (here, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        pending.push((index, depth, format!("{before}{here}"), format!("{before}{below}")));
    }
}

/// Renders a table with one line per region. A region of a delegated space is shown as `NAME@SPACE`.
pub(crate) fn render(forest: &[Branch], space: &str, palette: Palette) -> String {
    let mut table = Table::new(["REGION", "PREFIX", ">P/Z/S", "KIND", ">CAPACITY", ">ISSUED", "SHARE"]);
    for Branch { region, lines, .. } in forest {
        let closed = region.kind() == Kind::Closed;
        let share = number::share(&region.issued, &region.capacity);
        let or_nothing = |text: String| if closed { String::new() } else { text };
        let name = match names::space_of(&region.name) {
            here if here == space => names::short(&region.name).to_owned(),
            inner => format!("{}@{inner}", names::short(&region.name)),
        };
        table.row([
            format!("{lines}{name}").into(),
            Cell::new(Role::Part(0), palette.prefixes.text(&region.prefix)),
            format!("{}/{}/{}", region.prefix.len(), region.zone_bits, region.suffix_bits).into(),
            Cell::new(if region.sealed { Role::Warning } else { kind_role(region.kind()) }, state(region)),
            or_nothing(number::power_of_two(&region.capacity)).into(),
            or_nothing(number::grouped(&region.issued)).into(),
            Cell::new(share_role(share), share.map(bar).unwrap_or_default()),
        ]);
    }
    table.render(palette)
}

/// Returns the role of a share: green for a low share, yellow from 70 %, red from 90 %.
fn share_role(share: Option<f64>) -> Role {
    match share {
        Some(share) if share >= 0.9 => Role::Bad,
        Some(share) if share >= 0.7 => Role::Warning,
        _ => Role::Good,
    }
}

/// Returns a bar and the percentage. A share above 0 shows at least one eighth of a cell, and only a share of 1 fills
/// the bar.
fn bar(share: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let all = BAR_CELLS * 8;
    // OK because a share lies between 0 and 1, and rounding down to eighths of a cell is intended.
    let filled = match (share * all as f64) as usize {
        0 if share > 0.0 => 1,
        filled => filled.min(all),
    };
    let (whole, part) = (filled / 8, EIGHTHS[filled % 8]);
    let empty = BAR_CELLS - whole - usize::from(!part.is_empty());
    format!("{}{part}{} {}", "█".repeat(whole), "░".repeat(empty), number::percent(share))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe::samples::region;

    fn forest() -> Vec<Branch> {
        plant(vec![
            region("orders", "", "0", 0, Kind::Closed),
            region("eu", "orders", "00", 4, Kind::Partial),
            region("de", "eu", "001", 0, Kind::Open),
            region("us", "orders", "01", 4, Kind::Open),
            region("parts", "", "1", 1, Kind::Open),
        ])
    }

    #[test]
    fn ok_a_forest() {
        assert_eq!(
            render(&forest(), "default", Palette::PLAIN),
            "\
REGION       PREFIX   P/Z/S  KIND     CAPACITY  ISSUED  SHARE
├─ orders    0        1/0/0  closed
│  ├─ eu     00      2/4/10  partial      2^10     256  ██▌░░░░░░░ 25.00 %
│  │  └─ de  001     3/0/13  open         2^13   2_048  ██▌░░░░░░░ 25.00 %
│  └─ us     01      2/4/10  open         2^10     256  ██▌░░░░░░░ 25.00 %
└─ parts     1       1/1/14  open         2^14   4_096  ██▌░░░░░░░ 25.00 %
"
        );
        let depths: Vec<_> = forest().iter().map(|branch| branch.depth).collect();
        assert_eq!(depths, [0, 1, 2, 1, 0]);
    }

    #[test]
    fn ok_sealed_and_delegated_regions_are_marked_and_inner_spaces_are_drawn() {
        let mut outer = region("emea", "", "0", 4, Kind::Open);
        (outer.sealed, outer.delegated_space) = (true, "spaces/default/emea".to_owned());
        let mut inner = region("orders", "emea", "01", 4, Kind::Open);
        inner.name = names::region("default/emea", "orders");
        let text = render(&plant(vec![outer, inner]), "default", Palette::PLAIN);
        for part in ["└─ emea ", "open, sealed, delegated", "   └─ orders@default/emea  01"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn ok_a_region_without_its_parent_stays_and_a_cycle_is_dropped() {
        let forest = plant(vec![
            region("lost", "gone", "0", 1, Kind::Open),
            region("a", "b", "10", 1, Kind::Open),
            region("b", "a", "11", 1, Kind::Open),
        ]);
        let names: Vec<_> = forest.iter().map(|branch| names::short(&branch.region.name)).collect();
        assert_eq!(names, ["lost"]);
    }

    #[track_caller]
    fn check_view(view_of: View, expected: &[&str], hidden: usize) {
        let regions = forest().into_iter().map(|branch| branch.region).collect();
        let (branches, not_shown) = view(regions, &view_of);
        let names: Vec<_> = branches.iter().map(|branch| names::short(&branch.region.name)).collect();
        assert_eq!((names.as_slice(), not_shown), (expected, hidden), "{view_of:?}");
    }

    #[test]
    fn ok_a_view_limits_depth_siblings_and_names() {
        check_view(View::default(), &["orders", "eu", "de", "us", "parts"], 0);
        check_view(View { depth: Some(2), ..View::default() }, &["orders", "eu", "us", "parts"], 1);
        check_view(View { depth: Some(1), ..View::default() }, &["orders", "parts"], 3);
        check_view(View { filter: Some("d".to_owned()), ..View::default() }, &["orders", "eu", "de"], 2);
        check_view(View { filter: Some("zz".to_owned()), ..View::default() }, &[], 5);
        check_view(View { siblings: Some(1), ..View::default() }, &["orders", "eu", "de"], 2);
    }

    #[test]
    fn ok_bars() {
        for (share, expected) in [
            (0.0, "░░░░░░░░░░ 0 %"),
            (1e-30, "▏░░░░░░░░░ <0.01 %"),
            (0.5, "█████░░░░░ 50.00 %"),
            (0.99999, "█████████▉ >99.99 %"),
            (1.0, "██████████ 100 %"),
        ] {
            assert_eq!(bar(share), expected, "{share}");
        }
    }
}
