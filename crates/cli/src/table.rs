//! Tables of aligned columns without borders, which people can read and `awk` can split.

use std::iter;

use crate::charset;
use crate::output::{Palette, Role};

/// The space between two columns.
const GUTTER: &str = "  ";

/// Rows of cells under headings. The text has one line per row, without trailing spaces.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

#[derive(Clone)]
struct Column {
    heading: &'static str,
    align: Align,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

/// The text of one cell, and its role.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    role: Role,
}

impl Cell {
    pub(crate) fn new(role: Role, text: impl Into<String>) -> Self {
        Self { text: text.into(), role }
    }

    /// The width of the text in terminal columns. Every character that kent prints takes one column.
    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

impl<T: ToString> From<T> for Cell {
    fn from(value: T) -> Self {
        Self::new(Role::Plain, value.to_string())
    }
}

impl Table {
    /// Creates a table with these headings. A heading that begins with `>` marks a right-aligned column of numbers.
    pub(crate) fn new(headings: impl IntoIterator<Item = &'static str>) -> Self {
        let column = |heading: &'static str| match heading.strip_prefix('>') {
            Some(heading) => Column { heading, align: Align::Right },
            None => Column { heading, align: Align::Left },
        };
        Self { columns: headings.into_iter().map(column).collect(), rows: Vec::new() }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.push(cells.into());
    }

    pub(crate) fn push(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each heading");
        self.rows.push(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Renders the headings and the rows.
    pub(crate) fn render(&self, palette: Palette) -> String {
        self.render_part(&mut Vec::new(), palette)
    }

    /// Renders a part of a longer table. The first part, for which `widths` is empty, has the headings. The columns of
    /// each part are at least as wide as those of the previous parts.
    pub(crate) fn render_part(&self, widths: &mut Vec<usize>, palette: Palette) -> String {
        match palette.ascii {
            true => self.to_ascii().render_with(widths, palette),
            false => self.render_with(widths, palette),
        }
    }

    fn render_with(&self, widths: &mut Vec<usize>, palette: Palette) -> String {
        let headings: Vec<_> = self.columns.iter().map(|column| Cell::new(Role::Heading, column.heading)).collect();
        let headings = widths.is_empty().then_some(&headings);
        let here = self.widths();
        widths.resize(here.len(), 0);
        widths.iter_mut().zip(here).for_each(|(width, here)| *width = here.max(*width));
        let mut text = String::new();
        for row in headings.into_iter().chain(&self.rows) {
            self.write_row(&mut text, row, widths, palette);
        }
        text
    }

    /// Converts the table to ASCII, in which some characters become wider.
    fn to_ascii(&self) -> Self {
        let cell = |cell: &Cell| Cell::new(cell.role, charset::to_ascii(&cell.text));
        Self {
            columns: self.columns.clone(),
            rows: self.rows.iter().map(|row| row.iter().map(cell).collect()).collect(),
        }
    }

    fn widths(&self) -> Vec<usize> {
        let widest = |index: usize| self.rows.iter().map(|row| row[index].width()).max().unwrap_or_default();
        self.columns.iter().enumerate().map(|(index, column)| widest(index).max(column.heading.len())).collect()
    }

    fn write_row(&self, text: &mut String, row: &[Cell], widths: &[usize], palette: Palette) {
        let start = text.len();
        for ((column, cell), width) in self.columns.iter().zip(row).zip(widths) {
            if text.len() > start {
                text.push_str(GUTTER);
            }
            let padding = iter::repeat_n(' ', width.saturating_sub(cell.width()));
            let (before, after) = match column.align {
                Align::Left => (None, Some(padding)),
                Align::Right => (Some(padding), None),
            };
            text.extend(before.into_iter().flatten());
            if !cell.text.is_empty() {
                palette.paint_onto(text, cell.role, |text| text.push_str(&cell.text));
            }
            text.extend(after.into_iter().flatten());
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
}

/// Renders lines of "name  value" with aligned values.
pub(crate) fn facts(rows: &[(&str, String)], palette: Palette) -> String {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    let line = |(name, value): &(&str, String)| {
        let padding = " ".repeat(width - name.chars().count());
        format!("{}{padding}{GUTTER}{value}\n", palette.paint(Role::Faint, name))
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_columns_are_aligned() {
        let mut table = Table::new(["NAME", ">ISSUED", "KIND"]);
        table.row(["orders".into(), 12.into(), "open".into()]);
        table.row(["a".into(), 1_000_000_000.into(), "".into()]);
        assert_eq!(
            table.render(Palette::PLAIN),
            "NAME        ISSUED  KIND\n\
             orders          12  open\n\
             a       1000000000\n"
        );
    }

    #[test]
    fn ok_the_parts_of_a_table_have_the_headings_once_and_at_least_the_widths_of_the_first() {
        let mut widths = Vec::new();
        for (name, count, expected) in
            [("orders", 1, "NAME    N\norders  1\n"), ("a", 2, "a       2\n"), ("longer-one", 345, "longer-one  345\n")]
        {
            let mut table = Table::new(["NAME", ">N"]);
            table.row([name.into(), count.into()]);
            assert_eq!(table.render_part(&mut widths, Palette::PLAIN), expected);
        }
    }

    #[test]
    fn ok_box_symbols_take_one_column_and_colors_none() {
        let mut table = Table::new(["TREE", ">N"]);
        table.row(["├─ a".into(), 1.into()]);
        table.row([Cell::new(Role::Good, "b"), 22.into()]);
        assert_eq!(table.render(Palette::PLAIN), "TREE   N\n├─ a   1\nb     22\n");
        let colored = table.render(Palette { color: true, ..Palette::PLAIN });
        assert!(colored.contains("\u{1b}[32mb\u{1b}[0m     22\n"), "{colored:?}");
    }

    #[test]
    fn ok_facts_are_aligned() {
        let rows = [("kind", "open".to_owned()), ("ultimate capacity", "16".to_owned())];
        assert_eq!(facts(&rows, Palette::PLAIN), "kind               open\nultimate capacity  16\n");
    }
}
