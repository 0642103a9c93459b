//! The figures of the documentation, as SVG. Regions are drawn from a real prefix table, to which the edits are applied.

use std::fmt::Write;

use kent_regions::{Edit, NewRegion, Place, Prefix, Region, Start, Table};

/// The left edge of the bars.
const LEFT: u32 = 120;
/// The height of a line.
const LINE: u32 = 34;
/// The height of a bar.
const BAR: u32 = 24;
/// The number of leading bits that are drawn one by one. The rest of the 64 bits are drawn together.
const SHOWN_BITS: u32 = 14;
const BIT: u32 = 20;
const REST: u32 = 260;
const WIDTH: u32 = LEFT + SHOWN_BITS * BIT + REST + 20;

/// The colors on light and dark backgrounds.
const STYLE: &str = "\
text{font:13px ui-sans-serif,system-ui,sans-serif;fill:#1f2328}
.bits{font:13px ui-monospace,monospace;text-anchor:middle}
.on{fill:#fff}.title{font-weight:600}.small{font-size:12px;fill:#59636e}
.prefix{fill:#2f6db3}.zone{fill:#f3d27a}.suffix{fill:#a9d6b0}.free{fill:none;stroke:#818b98;stroke-dasharray:4 3}
.dark{fill:#1f2328}.line{stroke:#59636e;stroke-width:1.5}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.small{fill:#9198a1}.dark,.dark.bits{fill:#1f2328}.line{stroke:#9198a1}}
";

/// A figure that grows downwards.
struct Figure {
    body: String,
    y: u32,
}

impl Figure {
    fn new() -> Self {
        Self { body: String::new(), y: 12 }
    }

    fn text(&mut self, x: u32, y: u32, class: &str, text: &str) {
        let _ = writeln!(self.body, r#"<text x="{x}" y="{y}" class="{class}">{text}</text>"#); // OK because writing to a string cannot fail
    }

    fn rect(&mut self, class: &str, from: u32, to: u32) {
        let (y, width) = (self.y, to - from);
        let _ =
            writeln!(self.body, r#"<rect class="{class}" x="{from}" y="{y}" width="{width}" height="{BAR}" rx="3"/>"#);
    }

    fn title(&mut self, title: &str, explanation: &str) {
        self.y += 20;
        self.text(8, self.y, "title", title);
        self.text(LEFT, self.y, "small", explanation);
        self.y += 10;
    }

    /// Draws the label to the left of a bar.
    fn label(&mut self, label: &str) {
        self.text(8, self.y + 17, "", label);
    }

    /// Draws the part of a bar between two bits, with its digits, its label, or both.
    fn part(&mut self, class: &str, from: u32, to: u32, bits: &str, words: &str) {
        if from == to {
            return;
        }
        self.rect(class, at(from) + 1, at(to) - 1);
        let on = if class == "prefix" { "bits on" } else { "bits dark" };
        for (bit, digit) in (from..to.min(SHOWN_BITS)).zip(bits.chars()) {
            self.text(at(bit) + BIT / 2, self.y + 17, on, &digit.to_string());
        }
        if !words.is_empty() {
            let from = if bits.is_empty() { from } else { from.max(SHOWN_BITS) };
            self.text((at(from) + at(to)) / 2, self.y + 17, on, words);
        }
    }

    fn region(&mut self, region: &Region, bits: u8) {
        let (prefix, suffix) = (u32::from(region.prefix.len()), u32::from(region.suffix));
        let begins = u32::from(bits) - suffix;
        self.label(&region.name);
        self.part("prefix", 0, prefix, &region.prefix.to_string(), "");
        self.part("zone", prefix, begins, &"0".repeat(SHOWN_BITS as usize), "");
        self.part("suffix", begins, u32::from(bits), "", &format!("{suffix} bits"));
        self.y += LINE;
    }

    fn free(&mut self, block: Prefix, bits: u8) {
        let len = u32::from(block.len());
        self.label("(free)");
        self.part("free", 0, len, &block.to_string(), "");
        self.part("free", len, u32::from(bits), "", "");
        self.y += LINE;
    }

    /// Draws an identifier that was issued before the edits.
    fn identifier(&mut self, id: u64) {
        let bits = format!("{id:064b}");
        let (shown, rest) = bits.split_at(SHOWN_BITS as usize);
        self.label("an identifier");
        for (bit, digit) in (0..).zip(shown.chars()) {
            self.text(at(bit) + BIT / 2, self.y + 17, "bits", &digit.to_string());
        }
        let rest = format!("suffix 0…{}", rest.get(rest.len() - 4..).unwrap_or_default());
        self.text((at(SHOWN_BITS) + at(64)) / 2, self.y + 17, "bits", &rest);
        self.y += LINE;
    }

    fn finish(self, about: &str) -> String {
        let (body, height) = (self.body, self.y + 8);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
             role=\"img\">\n<title>{about}</title>\n<style>\n{STYLE}</style>\n{body}</svg>\n"
        )
    }
}

/// Returns the x coordinate of a bit's left edge.
const fn at(bit: u32) -> u32 {
    if bit <= SHOWN_BITS {
        LEFT + bit * BIT
    } else {
        LEFT + SHOWN_BITS * BIT + (bit - SHOWN_BITS) * REST / (64 - SHOWN_BITS)
    }
}

/// Draws how edits change the regions of a 64-bit space, following figures 2 to 4 of the paper (Kent 1992).
pub(crate) fn regions() -> anyhow::Result<String> {
    let mut table = Table::new(64)?;
    let mut figure = Figure::new();

    let place = Place::At("101101".parse()?);
    edit(&mut table, &Edit::Create { name: "r1".to_owned(), suffix: 50, place, start: Start::default() })?;
    let issued = u64::try_from(table.compose("r1", 9)?)?;
    figure.title("a region", "prefix: identifies the region | zone: zeros, kept for growth | suffix: a number");
    draw(&mut figure, &table);
    figure.identifier(issued);

    edit(&mut table, &Edit::Expand { name: "r1".to_owned(), by: 2 })?;
    figure.title("expand by 2", "two zone bits become suffix bits: four times as many identifiers, same prefix");
    draw(&mut figure, &table);
    figure.identifier(issued);

    let new_regions = vec![new_region("r2", 53, "01")?, new_region("r3", 56, "10")?];
    edit(&mut table, &Edit::Split { name: "r1".to_owned(), by: 2, new_regions })?;
    figure.title("split by 2", "two zone bits become prefix bits: r2 and r3 take two of the three freed prefixes");
    draw(&mut figure, &table);
    figure.identifier(issued);

    let new_regions = vec![new_region("eu", 50, "01")?, new_region("us", 50, "10")?];
    edit(&mut table, &Edit::Subdivide { name: "r2".to_owned(), by: 2, new_regions, reserve_others: false })?;
    figure.title("subdivide r2", "by 2: r2 keeps its prefix; eu and us are regions inside it");
    for name in ["r2", "eu", "us"] {
        figure.region(table.named(name)?, table.bits());
    }
    Ok(figure.finish("Regions of a space of 64 bits: prefix, zone and suffix, and the effects of edits on them"))
}

fn new_region(name: &str, suffix: u8, extension: &str) -> anyhow::Result<NewRegion> {
    Ok(NewRegion {
        name: name.to_owned(),
        suffix: Some(suffix),
        extension: Some(extension.parse()?),
        start: Start::default(),
    })
}

fn edit(table: &mut Table, edit: &Edit) -> anyhow::Result<()> {
    let plan = table.plan(edit)?;
    Ok(table.apply(&plan)?)
}

/// Draws all regions of the table, then the free prefix that the split of `r1` left, if there is one.
fn draw(figure: &mut Figure, table: &Table) {
    let bits = table.bits();
    table.iter().for_each(|region| figure.region(region, bits));
    let freed = table.free_blocks(Prefix::EMPTY).into_iter().filter(|block| block.to_string().starts_with("101101"));
    freed.for_each(|block| figure.free(block, bits));
}

/// Draws the blocks, chunks and durable ceiling of a source on its line of positions.
pub(crate) fn ceiling() -> String {
    let mut figure = Figure::new();
    let (begin, next, end) = (LEFT, LEFT + 260, LEFT + 420);
    figure.title("a source", "a line of positions: suffixes of a region, or ticks of a slot's clock");
    figure.label("on disk");
    figure.rect("prefix", begin, end);
    figure.text((begin + end) / 2, figure.y + 17, "bits on", "reserved: below the ceiling");
    figure.text(end + 8, figure.y + 17, "small", "free: a later commit");
    figure.y += LINE;
    figure.label("in memory");
    for (at, block) in (0..).zip(["block", "block", "block", "block"]) {
        figure.rect("suffix", begin + at * 65 + 1, begin + at * 65 + 64);
        figure.text(begin + at * 65 + 32, figure.y + 17, "bits dark", block);
    }
    figure.rect("zone", next + 1, end - 1);
    figure.text((next + end) / 2, figure.y + 17, "bits dark", "chunk or window");
    figure.y += LINE;
    figure.label("after a crash");
    figure.rect("free", begin, end);
    figure.text((begin + end) / 2, figure.y + 17, "bits", "never issued again: the rest is a gap");
    figure.text(end + 8, figure.y + 17, "small", "continues here");
    figure.y += LINE;
    figure.finish("Positions of a source: issued blocks, the rest of the reservation, and the durable ceiling")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_regions_are_drawn_after_each_edit() {
        let drawn = regions().expect("drawn");
        for (words, times) in [(">r1<", 3), (">r2<", 2), (">r3<", 1), (">eu<", 1), (">(free)<", 1), (">52 bits<", 2)] {
            assert_eq!(drawn.matches(words).count(), times, "{words}");
        }
    }

    #[test]
    fn ok_bars_are_as_wide_as_the_figure() {
        assert_eq!((at(0), at(SHOWN_BITS), at(64)), (LEFT, LEFT + SHOWN_BITS * BIT, WIDTH - 20));
    }
}
