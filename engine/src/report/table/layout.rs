//! Rows and columns into tables no wider than asked.

use comfy_table::{
    Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle, Width,
};

use super::cell::{self, Scale, Value};
use super::columns::{Column, Point, STREAMS, TRANSACTIONS};
use crate::plan::{Direction, Traffic};
use crate::record::{CaseResult, Run, Sample};
use crate::report::number::bit_unit;

/// A rule below the header, nothing else: what stays readable in a pipe.
const LIGHT: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('-'));

/// Blanks between columns.
const GAP: usize = 2;

/// One line of a table: a case's group over its samples, or one sample of it.
struct Row<'a> {
    name: String,
    points: Vec<Point<'a>>,
}

/// A column's text: its header and a cell per row.
struct Printed {
    header: String,
    cells: Vec<String>,
}

impl Printed {
    /// Characters, with the blanks before it.
    fn width(&self) -> usize {
        let all = std::iter::once(&self.header).chain(&self.cells);
        let lines = all.flat_map(|text| text.lines());
        lines.map(|line| line.chars().count()).max().unwrap_or(0) + GAP
    }
}

/// The table of streams and the table of request-response, each in parts if it is too wide.
pub(super) fn tables(run: &Run, width: usize, samples: bool) -> Vec<String> {
    let mut parts = Vec::new();
    for (streams, blocks) in [(true, STREAMS), (false, TRANSACTIONS)] {
        let of_case = |case| rows(case, streams, samples);
        let rows: Vec<Row<'_>> = run.cases.iter().flat_map(of_case).collect();
        if rows.iter().any(|row| !row.points.is_empty()) {
            parts.extend(parts_of(&rows, blocks, width));
        }
    }
    parts
}

/// A case's rows in the table of streams, or in the other.
fn rows<'a>(case: &'a CaseResult, streams: bool, samples: bool) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for (index, group) in case.case.groups.iter().enumerate() {
        if (group.traffic == Traffic::Stream) != streams {
            continue;
        }
        let point = |sample: &'a Sample| {
            let group = sample.groups.get(index)?;
            Some(Point {
                proto: case.case.proto,
                sample,
                group,
            })
        };
        let way = match (case.case.groups.len(), group.direction) {
            (0 | 1, _) => "",
            (_, Direction::ClientToServer) => ", to server",
            (_, Direction::ServerToClient) => ", to client",
        };
        let points: Vec<Point<'a>> = case.samples.iter().filter_map(point).collect();
        rows.push(over_samples(&case.case.name, way, &points));
        let singly = samples && points.len() > 1;
        for point in points.into_iter().filter(|_| singly) {
            let mark = if point.sample.complete {
                ""
            } else {
                " (incomplete)"
            };
            let name = format!("- sample {}{way}{mark}", point.sample.number);
            rows.push(Row {
                name,
                points: vec![point],
            });
        }
    }
    rows
}

/// The row of all samples. Those cut short would pull the median: they count only where nothing
/// else does.
fn over_samples<'a>(case: &str, way: &str, points: &[Point<'a>]) -> Row<'a> {
    let (whole, part): (Vec<Point<'a>>, Vec<Point<'a>>) =
        points.iter().partition(|point| point.sample.complete);
    let mark = match (whole.len(), part.len()) {
        (_, 0) => String::new(),
        (0, _) => " (incomplete)".to_string(),
        (_, part) => format!(" ({part} of {} incomplete)", points.len()),
    };
    let points = if whole.is_empty() { part } else { whole };
    Row {
        name: format!("{case}{way}{mark}"),
        points,
    }
}

/// One table, or several with the names repeated where one would be too wide. A block of columns
/// stays together unless it is too wide by itself.
fn parts_of(rows: &[Row<'_>], blocks: &[&[Column]], width: usize) -> Vec<String> {
    let (bits, unit) = bit_unit(largest_bits(rows, blocks));
    let longest = rows
        .iter()
        .map(|row| row.name.chars().count())
        .max()
        .unwrap_or(0);
    let names = longest.clamp(4, width / 3);
    let room = width - names;
    let mut parts: Vec<Vec<Printed>> = vec![Vec::new()];
    let mut used = 0;
    for block in blocks {
        let columns = block
            .iter()
            .filter_map(|column| printed(rows, column, bits, unit));
        let columns: Vec<Printed> = columns.collect();
        let whole: usize = columns.iter().map(Printed::width).sum();
        for (index, column) in columns.into_iter().enumerate() {
            let needs = if index == 0 && whole <= room {
                whole
            } else {
                column.width()
            };
            if used > 0 && used + needs > room {
                parts.push(Vec::new());
                used = 0;
            }
            used += column.width();
            if let Some(part) = parts.last_mut() {
                part.push(column);
            }
        }
    }
    parts.iter().map(|part| table(rows, part, names)).collect()
}

fn largest_bits(rows: &[Row<'_>], blocks: &[&[Column]]) -> f64 {
    let columns = blocks
        .iter()
        .copied()
        .flatten()
        .filter(|column| column.scale == Scale::Bits);
    let values = columns.flat_map(|column| rows.iter().flat_map(|row| values(row, column)));
    values.filter_map(Value::size).fold(0.0, f64::max)
}

/// A column's text; none where no row has a figure for it.
fn printed(rows: &[Row<'_>], column: &Column, bits: f64, unit: &str) -> Option<Printed> {
    let figures: Vec<Vec<Value>> = rows.iter().map(|row| values(row, column)).collect();
    if figures.iter().all(Vec::is_empty) {
        return None;
    }
    let cell = |values| cell::print(values, column.scale, bits);
    let cells = figures.into_iter().map(cell).collect();
    Some(Printed {
        header: column.header.replace("{unit}", unit),
        cells,
    })
}

fn values(row: &Row<'_>, column: &Column) -> Vec<Value> {
    row.points
        .iter()
        .filter_map(|point| (column.of)(point))
        .collect()
}

fn table(rows: &[Row<'_>], columns: &[Printed], names: usize) -> String {
    let mut table = Table::new();
    table.load_style(LIGHT);
    // Widths are decided above; the library only breaks names that are longer than theirs.
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::MAX);
    let right = |text: &str| Cell::new(text).set_alignment(CellAlignment::Right);
    let header = std::iter::once(Cell::new("case"));
    table.set_header(header.chain(columns.iter().map(|column| right(&column.header))));
    for (index, row) in rows.iter().enumerate() {
        let cells = columns.iter().map(|column| right(&column.cells[index]));
        table.add_row(std::iter::once(Cell::new(&row.name)).chain(cells));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if index == 0 { 0 } else { GAP as u16 }, 0));
        if index == 0 {
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(names as u16)));
        } else {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table.trim_fmt()
}
