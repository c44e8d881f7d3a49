//! The choice of files for a table, and per-file rows.

use eframe::egui;

use super::grid::Answer;
use super::tree::Tree;
use crate::figures::{Cell, Column, Order, Rows as _, Sort, text::display_name};
use crate::session::{Files, OpenTrace, in_order};
use crate::view::ViewContext;

/// What a view makes of several files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Many {
    /// Rows of each file, or of all of them added up.
    Rows,
    /// One sum.
    Sum,
    /// A list in which each row is of one file.
    List,
    /// Such a list of what devices did.
    Devices,
}

impl Many {
    /// What the view shows for a choice that it does not offer.
    fn shown(self, files: Files) -> Files {
        match (self, files) {
            (Self::Sum, Files::Apart) => Files::Together,
            (Self::List | Self::Devices, Files::Together) => Files::Apart,
            _ => files,
        }
    }

    /// * `counted`: how many files count, of how many that are open.
    fn all_text(self, files: Files, counted: (usize, usize)) -> String {
        let all = match counted {
            (n, all) if n < all => format!("{n} of {all} files"),
            (n, _) => format!("All {n} files"),
        };
        match (self, files) {
            (Self::List | Self::Devices, _) => all,
            (_, Files::Together) => format!("{all}, added up"),
            _ => format!("{all}, each by itself"),
        }
    }
}

/// Width of the choice, in points.
const WIDTH: f32 = 190.0;

/// The column that names the file of a row.
const FILE: Column = Column {
    key: "file",
    title: "File",
    width: 130,
    is_text: true,
    help: "The rank, or the file where it has none; the list of files above adds all up or limits the table to one",
};

/// The name of a file among the open ones.
pub fn file_name(traces: &[OpenTrace], trace: usize) -> String {
    traces.get(trace).map_or_else(String::new, |open| display_name(&open.name).into_owned())
}

/// The choice of one of several open files; it says which are shown.
///
/// * `view`: id of the view whose table it limits.
pub fn file_switch_ui(view: &'static str, many: Many, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
    if ctx.traces.len() < 2 {
        return;
    }
    let order = in_order(ctx.traces);
    // Those of a list all count.
    let counts = |trace: &usize| many == Many::List || Files::Together.counts(ctx.traces, *trace);
    // Of readings alone a table of what ran has no rows.
    let has_rows = |trace: &usize| many == Many::List || ctx.traces[*trace].has_events();
    let (counted, beside): (Vec<usize>, Vec<usize>) = order.into_iter().filter(has_rows).partition(counts);
    if counted.len() + beside.len() < 2 {
        return;
    }
    let n_files = (counted.len(), ctx.traces.len());
    let shown = many.shown(ctx.files.of(view));
    let single = counted.first().copied().filter(|_| counted.len() == 1 && shown.one().is_none());
    let text = match shown.one().or(single) {
        Some(trace) => file_name(ctx.traces, trace),
        None => many.all_text(shown, n_files),
    };
    let mut chosen = shown;
    let combo = egui::ComboBox::from_id_salt("file of the table").selected_text(text).truncate().width(WIDTH);
    let response = combo.show_ui(ui, |ui| {
        ui.style_mut().wrap_mode = Some(egui::TextWrapMode::Extend);
        for files in [Files::Apart, Files::Together] {
            if many.shown(files) == files && counted.len() > 1 {
                ui.selectable_value(&mut chosen, files, many.all_text(files, n_files));
            }
        }
        let mut file_ui = |trace: usize, ui: &mut egui::Ui| {
            let is_shown = shown.one().or(single) == Some(trace);
            let name = ui.selectable_label(is_shown, file_name(ctx.traces, trace));
            if name.on_hover_text(ctx.traces[trace].trace.info.path.display().to_string()).clicked() {
                chosen = Files::One(trace);
            }
        };
        counted.iter().for_each(|&trace| file_ui(trace, ui));
        if !beside.is_empty() {
            ui.separator();
            ui.weak("Beside them").on_hover_text("Memory snapshots, which repeat names of the traces above");
            beside.iter().for_each(|&trace| file_ui(trace, ui));
        }
    });
    let hint = "The files that this table shows; the others keep theirs. A memory snapshot beside a trace repeats its \
                names and counts only where it is chosen";
    response.response.on_hover_text(hint).accessible_name("File of the table");
    if chosen != shown {
        ctx.files.choose(view, chosen);
    }
}

/// The rows of several files in one table, each with the name of its file. Cost: O(rows · log rows).
///
/// Of remarks on all rows those are kept that are the same for each file: sums of one are not those of the table.
pub fn apart(of: Vec<(String, Answer)>) -> Answer {
    let own_sort = of.iter().find_map(|(_, answer)| own_sort(answer));
    let is_tree = of.iter().any(|(_, answer)| answer.tree.is_some());
    let head = of.first().map(|(_, first)| first.head.clone()).unwrap_or_default();
    let empty = of.first().and_then(|(_, first)| first.empty);
    let mut all = Answer { head, empty, tree: is_tree.then(Tree::default), ..Answer::default() };
    let mut files: Vec<String> = Vec::new();
    for (file, answer) in of {
        all.head.retain(|known| answer.head.contains(known));
        for column in &answer.data.columns {
            if !all.data.columns.iter().any(|known| known.key == column.key) {
                all.data.columns.push(*column);
                all.data.rows.iter_mut().for_each(|row| row.push(Cell::Empty));
            }
        }
        let place = |column: &Column| answer.data.columns.iter().position(|own| own.key == column.key);
        let places: Vec<Option<usize>> = all.data.columns.iter().map(place).collect();
        files.extend(std::iter::repeat_n(file, answer.data.rows.len()));
        all.data.rows.extend(answer.data.rows.into_iter().map(|cells| {
            let cell = |at: &Option<usize>| at.and_then(|at| cells.get(at)).cloned().unwrap_or_default();
            places.iter().map(cell).collect::<Vec<_>>()
        }));
        all.is_clipped |= answer.is_clipped;
        all.longest.extend(answer.longest);
        all.instances.extend(answer.instances);
        if let Some((tree, own)) = all.tree.as_mut().zip(answer.tree) {
            tree.append(own);
        }
    }
    all.name_files(files.into_iter());
    // Ranks are in their own order, whatever their files are called.
    let by_rank = all.data.columns.iter().find(|column| column.key == "rank").map(|rank| (rank.key, false));
    sorted(all, by_rank.or(own_sort).filter(|_| !is_tree))
}

impl Answer {
    /// Adds the column of files, beside the names.
    pub fn name_files(&mut self, files: impl Iterator<Item = String>) {
        let at = self.data.columns.len().min(1);
        self.data.columns.insert(at, FILE);
        self.data.rows.iter_mut().zip(files).for_each(|(row, file)| row.insert(at, Cell::name(&file)));
    }
}

/// By which column the rows are sorted as they are, and which way.
fn own_sort(answer: &Answer) -> Option<(&'static str, bool)> {
    let n = answer.data.rows.len();
    let Sort { column, is_descending } = Order::new((0..n as u32).collect(), n).find_sort(answer).sorted_by?;
    Some((answer.data.columns[column].key, is_descending))
}

fn sorted(mut answer: Answer, sort: Option<(&'static str, bool)>) -> Answer {
    let Some((key, is_descending)) = sort else { return answer };
    let Some(column) = answer.data.columns.iter().position(|column| column.key == key) else { return answer };
    let order = answer.data.order(Some(Sort { column, is_descending }), "");
    fn moved<T: Default>(of: &mut Vec<T>, order: &[u32]) {
        if of.len() == order.len() {
            *of = order.iter().map(|&row| std::mem::take(&mut of[row as usize])).collect();
        }
    }
    moved(&mut answer.data.rows, &order);
    moved(&mut answer.longest, &order);
    moved(&mut answer.instances, &order);
    answer
}
