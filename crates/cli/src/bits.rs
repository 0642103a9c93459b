//! Drawing the bits of an identifier in a box, 32 to a row, so that a person sees which bits are what.

use std::fmt::Write as _;

use crate::output::{Palette, Role};

/// Bits of one row.
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
    /// Runs are told apart by their numbers, colours by the number of the label.
    run: usize,
    colour: usize,
}

/// Draws runs that follow each other, most significant bit first. Numbers at the left count the bits before the row.
pub(crate) fn draw(runs: &[Run<'_>], palette: Palette) -> String {
    let bits = spread(runs);
    let rows: Vec<&[Bit<'_>]> = bits.chunks(ROW_BITS).collect();
    let mut text = ruler(rows.first().map_or(0, |row| row.len()));
    let mut above: &[Bit<'_>] = &[];
    for (index, row) in rows.iter().enumerate() {
        let _ = writeln!(text, "     {}", border(above, row)); // writing to a string cannot fail
        let _ = writeln!(text, "{:>4} {}", index * ROW_BITS, cells(row, palette, |run| symbols(run)));
        let _ = writeln!(text, "     {}", cells(row, palette, |run| label(run)));
        above = row;
    }
    let _ = writeln!(text, "     {}", border(above, &[]));
    text
}

fn spread<'a>(runs: &[Run<'a>]) -> Vec<Bit<'a>> {
    let mut labels = Vec::new();
    let mut bits = Vec::new();
    for (run, &Run { label, bits: symbols }) in runs.iter().enumerate() {
        let colour = labels.iter().position(|&known| known == label).unwrap_or_else(|| {
            labels.push(label);
            labels.len() - 1
        });
        bits.extend(symbols.chars().map(|symbol| Bit { symbol, label, run, colour }));
    }
    bits
}

/// The numbers of every eighth bit, above the box.
fn ruler(width: usize) -> String {
    let marks: String = (0..width).step_by(8).map(|bit| format!("{bit:<16}")).collect();
    format!("      {}\n", marks.trim_end())
}

/// One line of a row: what each run shows, between bars.
fn cells<'a>(row: &[Bit<'a>], palette: Palette, show: impl Fn(&[Bit<'a>]) -> String) -> String {
    let mut line = String::from("│");
    for run in row.chunk_by(|left, right| left.run == right.run) {
        line.push_str(&palette.paint(Role::Part(run[0].colour), &show(run)));
        line.push('│');
    }
    line
}

fn symbols(run: &[Bit<'_>]) -> String {
    let symbols: Vec<_> = run.iter().map(|bit| bit.symbol.to_string()).collect();
    symbols.join(" ")
}

/// The label in the middle, cut where there is no room.
fn label(run: &[Bit<'_>]) -> String {
    let width = 2 * run.len() - 1; // OK because a run has a bit
    let label = run[0].label;
    if label.chars().count() <= width {
        return format!("{label:^width$}");
    }
    label.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// The line between two rows, or at the top or bottom: joints where a run ends above or below.
fn border(above: &[Bit<'_>], below: &[Bit<'_>]) -> String {
    let last = 2 * above.len().max(below.len());
    let line = |at: usize| joint(is_edge(above, at), is_edge(below, at), at > 0, at < last);
    (0..=last).map(line).collect()
}

/// True if a bar stands at this column of the row. A bit takes two columns, the bar before it and its symbol.
fn is_edge(row: &[Bit<'_>], at: usize) -> bool {
    if row.is_empty() || at % 2 == 1 {
        return false;
    }
    let bit = at / 2;
    bit == 0 || bit == row.len() || (bit < row.len() && row[bit - 1].run != row[bit].run)
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
    fn ok_runs_go_on_in_the_next_row_and_rows_may_be_short() {
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
    fn ok_nothing_is_a_dot() {
        check(&[], "      \n     ─\n");
    }
}
