//! Charts as SVG: drawn by the server, coloured by the style sheet, told by a table beside them.

use maud::{Markup, html};

/// One bar of a chart: a whole, and the part of it that counts as good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChartBar {
    /// What stands below it.
    pub(super) label: String,
    pub(super) whole: u64,
    /// The good part.
    pub(super) part: u64,
}

const WIDTH: u64 = 720;
const HEIGHT: u64 = 160;
const FOOT: u64 = 24;
/// The room for the number above the highest bar.
const HEAD: u64 = 18;

/// How many bars have their number above them.
const MOST_NUMBERED: usize = 31;

/// Returns bars side by side; `title` says to those who cannot see them what they show.
pub(super) fn bar_chart(title: &str, bars: &[ChartBar]) -> Markup {
    let highest = bars.iter().map(|bar| bar.whole).max().unwrap_or(0).max(1);
    let slot = WIDTH as f64 / bars.len().max(1) as f64;
    let width = (slot * 0.72).clamp(1.0, 42.0);
    // As many labels as can be read.
    let every = bars.len().div_ceil(8).max(1);
    html! {
        svg.chart viewBox={ "0 0 " (WIDTH) " " (HEIGHT + FOOT) } role="img" aria-label=(title) {
            line.axis x1="0" y1=(HEIGHT) x2=(WIDTH) y2=(HEIGHT) {}
            @for (at, bar) in bars.iter().enumerate() {
                @let middle = slot * (at as f64 + 0.5);
                (rect("whole", middle, width, bar.whole, highest))
                (rect("part", middle, width, bar.part.min(bar.whole), highest))
                @if bars.len() <= MOST_NUMBERED && bar.whole > 0 {
                    text.count x=(format!("{middle:.1}")) y=(format!("{:.1}", top(bar.whole, highest) - 4.0)) text-anchor="middle" { (bar.whole) }
                }
                @if at % every == 0 {
                    text x=(format!("{middle:.1}")) y=(HEIGHT + FOOT - 4) text-anchor="middle" { (bar.label) }
                }
            }
        }
    }
}

/// Returns where a bar ends at its top.
fn top(value: u64, highest: u64) -> f64 {
    HEIGHT as f64 - (HEIGHT - HEAD) as f64 * value as f64 / highest as f64
}

fn rect(class: &str, middle: f64, width: f64, value: u64, highest: u64) -> Markup {
    let (x, y) = (middle - width / 2.0, top(value, highest));
    let height = HEIGHT as f64 - y;
    html! {
        rect class=(class) x=(format!("{x:.1}")) y=(format!("{y:.1}"))
            width=(format!("{width:.1}")) height=(format!("{height:.1}")) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_scales_to_its_highest_bar_and_survives_having_none() {
        let bar = |whole, part| ChartBar { label: "day <1>".to_owned(), whole, part };
        let drawn = bar_chart("incidents", &[bar(4, 1), bar(2, 2)]).into_string();
        assert!(drawn.contains("height=\"142.0\""), "{drawn}");
        assert!(drawn.contains("height=\"71.0\""), "{drawn}");
        assert!(drawn.contains("day &lt;1&gt;"), "{drawn}");
        assert!(bar_chart("nothing", &[]).into_string().contains("role=\"img\""));
        assert!(!bar_chart("zero", &[bar(0, 0)]).into_string().contains("NaN"));
    }
}
