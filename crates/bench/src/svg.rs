//! Draws an SVG: panels with a logarithmic vertical axis, and a legend below them.

use std::{fmt::Write, slice};

/// One plot.
pub(crate) struct Panel {
    pub(crate) title: String,
    /// The label of the horizontal axis.
    pub(crate) x: String,
    pub(crate) scale: Scale,
    /// Formats the label of a mark on the horizontal axis.
    pub(crate) tick: fn(f64) -> String,
    pub(crate) lines: Vec<Line>,
}

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Powers of ten at equal distances.
    Logarithmic,
    /// Equal steps from 0, as for time.
    Linear,
}

/// Whether panels share their axes. Panels with shared axes can be compared by eye.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axes {
    /// All panels have the same axes.
    Shared,
    /// Each panel has its own axes.
    Own,
}

/// One line of a plot.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) color: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// The range of an axis. On a logarithmic axis, the bounds are exponents of ten.
struct Axis {
    scale: Scale,
    from: f64,
    to: f64,
}

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 300.0;
const MARGIN: f64 = 56.0;
const COLUMNS: usize = 2;
const LEGEND_ROWS: usize = 3;
const LEGEND_STEP: f64 = 18.0;
/// The maximum number of steps between the marks of a linear axis.
const STEPS_MAX: f64 = 8.0;

impl Axis {
    fn around(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let (from, to) = match scale {
            Scale::Logarithmic => values.fold((f64::INFINITY, f64::NEG_INFINITY), |(from, to), value| {
                (value.log10().floor().min(from), value.log10().ceil().max(to))
            }),
            Scale::Linear => (0.0, values.fold(0.0, f64::max)),
        };
        match from < to {
            true => Self { scale, from, to },
            false => Self { scale, from: 0.0, to: 1.0 },
        }
    }

    /// Returns the position of a value, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let at = if self.scale == Scale::Linear { value } else { value.log10() };
        (at - self.from) / (self.to - self.from)
    }

    /// Returns the values to mark: powers of ten, or the multiples of a round step.
    fn marks(&self) -> Vec<f64> {
        // OK because logarithms, and numbers of steps, are small
        let count = |step: f64| ((self.to - self.from) / step) as i32;
        match self.scale {
            Scale::Logarithmic => (0..=count(1.0)).map(|step| 10_f64.powf(self.from + f64::from(step))).collect(),
            Scale::Linear => {
                let power = 10_f64.powf((self.to / STEPS_MAX).log10().floor());
                let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
                let step = steps.into_iter().find(|step| self.to / step <= STEPS_MAX).unwrap_or(self.to);
                (0..=count(step)).map(|multiple| f64::from(multiple) * step).collect()
            }
        }
    }
}

/// Returns the axes that cover all points of the panels.
fn axes(panels: &[Panel]) -> (Axis, Axis) {
    let points = || panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.points);
    let scale = panels.first().map_or(Scale::Logarithmic, |panel| panel.scale);
    let x = Axis::around(scale, points().map(|point| point.0));
    (x, Axis::around(Scale::Logarithmic, points().map(|point| point.1)))
}

/// Returns a number in digits, with millions as "M".
pub(crate) fn digits(value: f64) -> String {
    if value < 1e6 { value.to_string() } else { format!("{} M", value / 1e6) }
}

/// Returns an SVG of the panels, two per row, above the legend.
pub(crate) fn svg(panels: &[Panel], sharing: Axes) -> String {
    let rows = panels.len().div_ceil(COLUMNS) as f64; // OK because panels are few
    let (width, chart) = (COLUMNS as f64 * (WIDTH + MARGIN) + MARGIN, rows * (HEIGHT + 1.5 * MARGIN)); // OK because rows are few
    let height = chart + LEGEND_ROWS as f64 * LEGEND_STEP + MARGIN / 2.0; // OK because rows are few
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for (at, panel) in panels.iter().enumerate() {
        let (column, row) = ((at % COLUMNS) as f64, (at / COLUMNS) as f64); // OK because panels are few
        let (left, top) = (MARGIN + column * (WIDTH + MARGIN), MARGIN + row * (HEIGHT + 1.5 * MARGIN) - 20.0);
        let (x, y) = axes(if sharing == Axes::Shared { panels } else { slice::from_ref(panel) });
        text += &format!("<g transform=\"translate({left} {top})\">\n{}</g>\n", one(panel, &x, &y));
    }
    text += &legend(panels, chart);
    text + "</svg>\n"
}

fn one(panel: &Panel, x: &Axis, y: &Axis) -> String {
    let mut text = format!("<text y=\"-10\" font-weight=\"bold\">{}</text>\n", panel.title);
    for value in x.marks() {
        let at = x.share(value) * WIDTH;
        text += &rule(at, 0.0, at, HEIGHT);
        text += &format!(
            "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
            HEIGHT + 16.0,
            (panel.tick)(value)
        );
    }
    for value in y.marks() {
        let at = HEIGHT - y.share(value) * HEIGHT;
        text += &rule(0.0, at, WIDTH, at);
        text += &format!("<text x=\"-6\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n", at + 4.0, digits(value));
    }
    text += &format!("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", WIDTH / 2.0, HEIGHT + 32.0, panel.x);
    for line in &panel.lines {
        let at = |&(size, value): &(f64, f64)| (x.share(size) * WIDTH, HEIGHT - y.share(value) * HEIGHT);
        let mut points = String::new();
        for (x, y) in line.points.iter().map(at) {
            let _ = write!(points, "{x:.1},{y:.1} "); // OK because writing to a string cannot fail
            text += &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{}\"/>\n", line.color);
        }
        let (points, color) = (points.trim_end(), line.color);
        text += &format!("<polyline points=\"{points}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>\n");
    }
    text
}

fn rule(x1: f64, y1: f64, x2: f64, y2: f64) -> String {
    format!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#dddddd\"/>\n")
}

/// Returns the legend of the lines' colors, in columns.
fn legend(panels: &[Panel], top: f64) -> String {
    let entry = |(at, line): (usize, &Line)| {
        let (column, row) = ((at / LEGEND_ROWS) as f64, (at % LEGEND_ROWS) as f64); // OK because lines are few
        let (x, y) = (MARGIN + column * 290.0, top + row * LEGEND_STEP);
        format!(
            "<rect x=\"{x}\" y=\"{}\" width=\"16\" height=\"4\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text>\n",
            y - 6.0,
            line.color,
            x + 24.0,
            y,
            line.name
        )
    };
    let mut lines: Vec<&Line> = Vec::new();
    for line in panels.iter().flat_map(|panel| &panel.lines) {
        if lines.iter().all(|known| known.name != line.name) {
            lines.push(line);
        }
    }
    lines.into_iter().enumerate().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_an_axis_covers_whole_powers_of_ten() {
        let axis = Axis::around(Scale::Logarithmic, [10.0, 1e6, 250.0].into_iter());
        assert_eq!(axis.marks(), [10.0, 100.0, 1000.0, 10_000.0, 100_000.0, 1e6]);
        assert!((axis.share(1000.0) - 0.4).abs() < 1e-9);
        let one = Axis::around(Scale::Logarithmic, [7.0].into_iter());
        assert!((one.share(7.0) - 7_f64.log10()).abs() < 1e-9);
    }

    #[test]
    fn ok_a_linear_axis_has_round_steps() {
        for (to, marks) in [
            (30.0, &[0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0][..]),
            (7.0, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]),
            (60.0, &[0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]),
        ] {
            let axis = Axis::around(Scale::Linear, [to, 1.0].into_iter());
            assert_eq!(axis.marks(), marks);
            assert!((axis.share(to / 4.0) - 0.25).abs() < 1e-9);
        }
    }

    #[test]
    fn ok_every_line_and_name_is_drawn() {
        let line = |name: &str, color| Line { name: name.to_owned(), color, points: vec![(10.0, 3.0), (100.0, 30.0)] };
        let panels: Vec<Panel> = ["a", "b", "c"]
            .map(|title| Panel {
                title: title.into(),
                x: "regions".into(),
                scale: Scale::Logarithmic,
                tick: digits,
                lines: vec![line("one", "#111111"), line("two", "#222222")],
            })
            .into();
        let text = svg(&panels, Axes::Own);
        assert_eq!(text.matches("<polyline").count(), 6);
        assert_eq!(text.matches("<circle").count(), 12);
        // The legend names each line once.
        assert_eq!(text.matches(">one</text>").count(), 1);
        assert!(text.contains(">one</text>") && text.contains(">two</text>") && text.ends_with("</svg>\n"));
    }
}
