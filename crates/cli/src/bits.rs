//! Draws the bits of an identifier and their fields in a box, 32 bits per row.

use std::fmt::Write as _;

use crate::output::{Palette, Role};

/// The left margin of a line without a number.
const INDENT: &str = "     ";

/// The number of bits per row.
const ROW_BITS: usize = 32;

/// A run of bits of one field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    pub(crate) label: &'a str,
    /// Zeros and ones.
    pub(crate) bits: &'a str,
}

/// One bit of the drawing.
#[derive(Clone, Copy)]
struct Bit<'a> {
    symbol: char,
    label: &'a str,
    /// The index of the bit's run.
    run: usize,
    color: usize,
}

/// Draws consecutive runs, most significant bit first. The number on the left is the index of the row's first bit.
pub(crate) fn draw(runs: &[Run<'_>], palette: Palette) -> String {
    let bits = spread(runs);
    let rows: Vec<&[Bit<'_>]> = bits.chunks(ROW_BITS).collect();
    let mut text = ruler(rows.first().map_or(0, |row| row.len()));
    let mut above: &[Bit<'_>] = &[];
    for (index, row) in rows.iter().enumerate() {
        text.push_str(INDENT);
        border(&mut text, above, row);
        let _ = write!(text, "\n{:>4} ", index * ROW_BITS); // writing to a string cannot fail
        cells(&mut text, row, palette, symbols);
        text.push('\n');
        text.push_str(INDENT);
        cells(&mut text, row, palette, |text, run| label(text, run, palette.ascii));
        text.push('\n');
        above = row;
    }
    text.push_str(INDENT);
    border(&mut text, above, &[]);
    text.push('\n');
    text
}

fn spread<'a>(runs: &[Run<'a>]) -> Vec<Bit<'a>> {
    let mut labels = Vec::new();
    let mut bits = Vec::new();
    for (run, &Run { label, bits: symbols }) in runs.iter().enumerate() {
        let color = labels.iter().position(|&known| known == label).unwrap_or_else(|| {
            labels.push(label);
            labels.len() - 1
        });
        bits.extend(symbols.chars().map(|symbol| Bit { symbol, label, run, color }));
    }
    bits
}

/// Returns the line above the box, with the number of every eighth bit.
fn ruler(width: usize) -> String {
    let marks: String = (0..width).step_by(8).map(|bit| format!("{bit:<16}")).collect();
    format!("      {}\n", marks.trim_end())
}

/// Appends one line of a row: the text of each run between bars.
fn cells<'a>(text: &mut String, row: &[Bit<'a>], palette: Palette, show: impl Fn(&mut String, &[Bit<'a>])) {
    text.push('│');
    for run in row.chunk_by(|left, right| left.run == right.run) {
        palette.paint_onto(text, Role::Part(run[0].color), |text| show(text, run));
        text.push('│');
    }
}

fn symbols(text: &mut String, run: &[Bit<'_>]) {
    for (index, bit) in run.iter().enumerate() {
        text.extend((index > 0).then_some(' '));
        text.push(bit.symbol);
    }
}

/// Appends the label, centered, and truncated if it is too wide.
fn label(text: &mut String, run: &[Bit<'_>], ascii: bool) {
    let width = 2 * run.len() - 1; // OK because a run has a bit
    let label = run[0].label;
    if label.chars().count() <= width {
        let _ = write!(text, "{label:^width$}"); // writing to a string cannot fail
    } else {
        text.extend(label.chars().take(width.saturating_sub(1)).chain([if ascii { '.' } else { '…' }]));
    }
}

/// Appends the border between two rows, or at the top or bottom of the box, with a joint wherever a run ends above or
/// below. A bit takes two columns: one for the bar before it, and one for its character.
fn border(text: &mut String, above: &[Bit<'_>], below: &[Bit<'_>]) {
    let last = above.len().max(below.len());
    for bit in 0..=last {
        text.push(joint(is_edge(above, bit), is_edge(below, bit), bit > 0, bit < last));
        text.extend((bit < last).then_some('─'));
    }
}

/// Returns whether there is a bar before this bit of the row. The index after the last bit refers to the right edge.
fn is_edge(row: &[Bit<'_>], bit: usize) -> bool {
    !row.is_empty() && (bit == 0 || bit == row.len() || (bit < row.len() && row[bit - 1].run != row[bit].run))
}

fn joint(up: bool, down: bool, left: bool, right: bool) -> char {
    match (up, down, left, right) {
        (false, true, false, true) => '┌',
        (false, true, true, false) => '┐',
        (true, false, false, true) => '└',
        (true, false, true, false) => '┘',
        (true, true, false, true) => '├',
        (true, true, true, false) => '┤',
        (false, true, true, true) => '┬',
        (true, false, true, true) => '┴',
        (true, true, true, true) => '┼',
        (true, true, false, false) => '│',
        _ => '─',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(runs: &[(&str, &str)], expected: &str) {
        let runs: Vec<_> = runs.iter().map(|&(label, bits)| Run { label, bits }).collect();
        assert_eq!(draw(&runs, Palette::PLAIN), expected);
    }

    #[test]
    fn ok_one_row() {
        check(
            &[("time", "00000001"), ("version", "0111"), ("x", "1")],
            "      0               8
     ┌───────────────┬───────┬─┐
   0 │0 0 0 0 0 0 0 1│0 1 1 1│1│
     │     time      │version│x│
     └───────────────┴───────┴─┘
",
        );
    }

    #[test]
    fn ok_runs_continue_in_the_next_row_and_the_last_row_may_be_short() {
        check(
            &[("a", "000000000000000000000000"), ("b", "1111111111111111"), ("long", "10")],
            "      0               8               16              24
     ┌───────────────────────────────────────────────┬───────────────┐
   0 │0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0│1 1 1 1 1 1 1 1│
     │                       a                       │       b       │
     ├───────────────┬───┬───────────────────────────┴───────────────┘
  32 │1 1 1 1 1 1 1 1│1 0│
     │       b       │lo…│
     └───────────────┴───┘
",
        );
    }

    #[test]
    fn ok_no_bits_draw_an_empty_box() {
        check(&[], "      \n     ─\n");
    }
}
