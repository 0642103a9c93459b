//! `kent region ls`: lists the regions that meet the conditions, sorted if requested.
//!
//! Without `--sort`, each page is printed as it arrives.

use std::cmp::Ordering;

use kent_client::Daemon;
use kent_proto::v1::Region;

use crate::args::{LsArgs, OutputArg, SortKey};
use crate::describe;
use crate::failure::Failure;
use crate::names;
use crate::number;
use crate::output::{Out, Palette};
use crate::pages::{PRESENT, pages};
use crate::space;

pub(crate) async fn run(args: &LsArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let (mut lister, mut all) = (Lister::new(args, out), Vec::new());
    let mut take = |mut page: Vec<Region>| {
        page.retain(|region| {
            args.filters.iter().all(|filter| filter.holds(region))
                && args.selectors.iter().all(|selector| selector.holds(region))
        });
        all.extend(page);
        if args.sort.is_none() && all.len() >= PART {
            lister.print(&all)?;
            all.clear();
        }
        Ok(())
    };
    match args.all_spaces {
        false => pages(&args.space.space, PRESENT, daemon, take).await?,
        true => {
            let spaces = space::all(daemon).await?;
            // The space `default` always exists, so an empty list means that the caller may not see any space.
            if spaces.is_empty() {
                return Err(Failure::Usage(NO_SPACE.to_owned()));
            }
            for space in spaces {
                pages(names::short(&space.name), PRESENT, daemon, &mut take).await?;
            }
        }
    }
    if let Some(order) = &args.sort {
        all.sort_by(|left, right| compare(left, right, order.key, order.is_descending));
    }
    lister.print(&all)?;
    lister.end()
}

/// The number of regions of an unsorted list that are collected before they are printed. The columns of regions that are
/// printed together have the same widths.
const PART: usize = 1000;

const NO_SPACE: &str = "there is no space that you may see: `kent whoami` shows your permissions; an operator can add one of them to your \
                        role, such as read:region:default/*";

/// Prints regions, page by page.
struct Lister<'a> {
    output: OutputArg,
    /// Whether the spaces of the regions are printed.
    has_spaces: bool,
    /// The palette and the widths of the columns, once they have been chosen.
    palette: Option<Palette>,
    widths: Vec<usize>,
    out: &'a mut Out,
}

impl<'a> Lister<'a> {
    fn new(args: &LsArgs, out: &'a mut Out) -> Self {
        let output = if out.is_json() { OutputArg::Json } else { args.output };
        Self { output, has_spaces: args.all_spaces, palette: None, widths: Vec::new(), out }
    }

    fn print(&mut self, regions: &[Region]) -> Result<(), Failure> {
        match self.output {
            OutputArg::Json => regions.iter().try_for_each(|region| self.out.json(&describe::to_json(region)))?,
            OutputArg::Name => {
                let has_spaces = self.has_spaces;
                let name = |Region { name, .. }: &Region| match has_spaces {
                    true => format!("{}@{}\n", names::short(name), names::space_of(name)),
                    false => format!("{}\n", names::short(name)),
                };
                regions.iter().try_for_each(|region| self.out.text(&name(region)))?;
            }
            OutputArg::Table | OutputArg::Wide if regions.is_empty() => {}
            OutputArg::Table | OutputArg::Wide => self.print_table(regions)?,
        }
        self.out.flush()
    }

    fn print_table(&mut self, regions: &[Region]) -> Result<(), Failure> {
        let (is_wide, has_spaces) = (self.output == OutputArg::Wide, self.has_spaces);
        let table = |palette: Palette| describe::table(regions, is_wide, has_spaces, palette.prefixes);
        let fitting = || self.out.fitting(|palette| table(palette).render(palette));
        let palette = self.palette.unwrap_or_else(fitting);
        self.palette = Some(palette);
        self.out.text(&table(palette).render_part(&mut self.widths, palette))
    }

    /// Prints the headings if no region was printed.
    fn end(&mut self) -> Result<(), Failure> {
        match self.output {
            OutputArg::Table | OutputArg::Wide if self.palette.is_none() => self.print_table(&[]),
            _ => Ok(()),
        }
    }
}

/// Compares two regions by a key. Regions without the value come last in both directions, and equal regions are ordered
/// by name.
fn compare(left: &Region, right: &Region, key: SortKey, is_descending: bool) -> Ordering {
    let directed = |ordering: Ordering| if is_descending { ordering.reverse() } else { ordering };
    let texts = |text: fn(&Region) -> &str| {
        let (left, right) = (text(left), text(right));
        left.is_empty().cmp(&right.is_empty()).then_with(|| directed(left.cmp(right)))
    };
    let numbers = |number: &dyn Fn(&Region) -> Option<f64>| match (number(left), number(right)) {
        (Some(left), Some(right)) => directed(left.total_cmp(&right)),
        (left, right) => left.is_none().cmp(&right.is_none()),
    };
    let ordering = match key {
        SortKey::Name => texts(|region| names::short(&region.name)),
        SortKey::Owner => texts(|region| &region.owner),
        SortKey::Prefix => directed(left.prefix.cmp(&right.prefix)),
        SortKey::Suffix => directed(left.suffix_bits.cmp(&right.suffix_bits)),
        SortKey::Fill => numbers(&|region| number::share(&region.issued, &region.capacity)),
        // A float is precise enough for an order, and the names decide between equal values.
        SortKey::Issued => numbers(&|region| region.issued.parse().ok()),
        SortKey::Rate => numbers(&|region| Some(region.rate)),
        SortKey::Full => numbers(&|region| region.full_in_seconds),
    };
    ordering.then_with(|| left.name.cmp(&right.name))
}

#[cfg(test)]
mod tests {
    use kent_proto::v1::region::Kind;

    use super::*;
    use crate::describe::samples::region;

    #[test]
    fn ok_regions_are_sorted_and_those_without_a_value_come_last() {
        let mut regions = [
            region("b", "", "0", 5, Kind::Open),
            region("a", "", "10", 2, Kind::Open),
            region("closed", "", "11", 0, Kind::Closed),
        ];
        regions[0].owner = "shop".to_owned();
        regions[1].full_in_seconds = Some(5.0);
        regions[1].issued = "1".to_owned();
        for (key, is_descending, expected) in [
            (SortKey::Name, false, ["a", "b", "closed"]),
            (SortKey::Name, true, ["closed", "b", "a"]),
            (SortKey::Owner, true, ["b", "a", "closed"]),
            (SortKey::Prefix, false, ["b", "a", "closed"]),
            (SortKey::Suffix, true, ["a", "b", "closed"]),
            (SortKey::Fill, false, ["a", "b", "closed"]),
            (SortKey::Fill, true, ["b", "a", "closed"]),
            (SortKey::Full, true, ["a", "b", "closed"]),
            (SortKey::Rate, false, ["a", "b", "closed"]),
        ] {
            regions.sort_by(|left, right| compare(left, right, key, is_descending));
            let names: Vec<_> = regions.iter().map(|region| names::short(&region.name)).collect();
            assert_eq!(names, expected, "{key:?} {is_descending}");
        }
    }
}
