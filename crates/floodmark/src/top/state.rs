//! What the user chose: grouping, order, filter, device, time, row.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use floodmark_analysis::{At, By};
use floodmark_trace::Device;
use ratatui::layout::Rect;

use super::view::{View, ViewQuestion, When};

/// The groupings, in the order of their keys.
pub(crate) const TABS: [(By, &str); 5] = [
    (By::Line, "Lines"),
    (By::Module, "Modules"),
    (By::Category, "Categories"),
    (By::Tensor, "Tensors"),
    (By::Step, "Steps"),
];

/// How many rows the wheel moves by.
const WHEEL_ROWS: usize = 3;

/// The order of the rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    /// The order of the report: the largest first, modules as a tree, steps by number.
    #[default]
    Usual,
    /// Most allocations first.
    Count,
    /// By name.
    Name,
}

impl Sort {
    pub(crate) fn name(self, by: By) -> &'static str {
        match (self, by) {
            (Self::Usual, By::Step) => "newest step",
            (Self::Name, By::Step) => "step",
            (Self::Usual, By::Module) => "tree",
            (Self::Usual, _) => "bytes",
            (Self::Count, _) => "count",
            (Self::Name, _) => "name",
        }
    }
}

/// What the loop does after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyAction {
    /// Draw again.
    Draw,
    /// Leave.
    Quit,
    /// Suspend the process, and give the terminal to the shell.
    Suspend,
}

/// What the user chose.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct State {
    pub(crate) tab: usize,
    pub(crate) sort: Sort,
    pub(crate) filter: String,
    pub(crate) is_typing: bool,
    pub(crate) is_paused: bool,
    pub(crate) is_helping: bool,
    pub(crate) is_whole: bool,
    /// The rank, in a folder.
    pub(crate) rank: Option<u32>,
    pub(crate) device: Option<Device>,
    pub(crate) when: When,
    /// The row under the cursor; the cursor is visible once the user moved it.
    pub(crate) row: usize,
    pub(crate) is_pointing: bool,
    /// The number of rows, and of those that fit; drawing sets them.
    pub(crate) rows: usize,
    pub(crate) rows_shown: usize,
    /// The positions of the graph and the table, and the first shown row: drawing sets them for clicks.
    pub(crate) picture: Rect,
    pub(crate) table: Rect,
    pub(crate) first_row: usize,
}

impl State {
    pub(crate) fn by(&self) -> By {
        TABS[self.tab].0
    }

    pub(crate) fn question(&self) -> ViewQuestion {
        let Self { rank, device, when, is_whole, .. } = *self;
        ViewQuestion { rank, device, by: self.by(), when, is_whole }
    }

    /// Handles a key.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "crossterm's keys: other keys have no meaning here"
    )]
    pub(crate) fn press(&mut self, key: KeyEvent, view: Option<&View>) -> KeyAction {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => return KeyAction::Quit,
                KeyCode::Char('z') => return KeyAction::Suspend,
                _ => return KeyAction::Draw,
            }
        }
        if self.is_typing {
            self.type_filter(key.code);
            return KeyAction::Draw;
        }
        if self.is_helping {
            self.is_helping = false;
            return KeyAction::Draw;
        }
        match key.code {
            KeyCode::Char('q') => return KeyAction::Quit,
            // Undo one choice at a time, the last one first.
            KeyCode::Esc if self.filter.is_empty() => return KeyAction::Quit,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Left | KeyCode::Right => self.step_in_time(key, view),
            other => self.press_other(other, view),
        }
        self.row = self.row.min(self.rows.saturating_sub(1));
        KeyAction::Draw
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "crossterm's keys: every other key has no effect"
    )]
    fn press_other(&mut self, key: KeyCode, view: Option<&View>) {
        let page = self.rows_shown.max(1);
        let row = self.row;
        let was_pointing = self.is_pointing;
        self.is_pointing |= is_move(key);
        match key {
            KeyCode::Tab => self.turn_to((self.tab + 1) % TABS.len()),
            KeyCode::BackTab => self.turn_to((self.tab + TABS.len() - 1) % TABS.len()),
            KeyCode::Char(digit @ '1'..='5') => self.turn_to(digit as usize - '1' as usize),
            KeyCode::Char('s') => {
                self.sort = match self.sort {
                    Sort::Usual => Sort::Count,
                    Sort::Count => Sort::Name,
                    Sort::Name => Sort::Usual,
                };
            }
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('d') => self.next_device(view),
            KeyCode::Char('r') => self.turn_rank(view, true),
            KeyCode::Char('R') => self.turn_rank(view, false),
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('w') => self.is_whole = !self.is_whole,
            KeyCode::Char('p') => self.when = When::At(At::Peak),
            KeyCode::Char('o') => self.when = When::At(At::Oom),
            KeyCode::Char('e') => self.when = When::At(At::End),
            KeyCode::Char('n') => self.when = When::Usual,
            KeyCode::Char('?' | 'h') => self.is_helping = true,
            KeyCode::Up | KeyCode::Char('k') => self.row = row.saturating_sub(1),
            // The first press only shows the cursor.
            KeyCode::Down | KeyCode::Char('j') => self.row = row + usize::from(was_pointing),
            KeyCode::PageUp => self.row = row.saturating_sub(page),
            KeyCode::PageDown => self.row = row + page,
            KeyCode::Home => self.row = 0,
            KeyCode::End => self.row = self.rows,
            _ => {}
        }
    }

    /// Handles the mouse: a click chooses a row, or a time in the graph; the wheel scrolls.
    pub(crate) fn point(&mut self, mouse: MouseEvent, view: Option<&View>) {
        let (x, y) = (mouse.column, mouse.row);
        if let MouseEventKind::Down(MouseButton::Left) = mouse.kind {
            if self.is_helping {
                self.is_helping = false;
            } else if self.picture.contains((x, y).into()) {
                self.click_in_graph(x, view);
            } else if self.table.contains((x, y).into()) && y > self.table.y {
                let row = self.first_row + usize::from(y - self.table.y - 1);
                if row < self.rows {
                    (self.row, self.is_pointing) = (row, true);
                }
            }
        } else if mouse.kind == MouseEventKind::ScrollUp {
            (self.row, self.is_pointing) = (self.row.saturating_sub(WHEEL_ROWS), true);
        } else if mouse.kind == MouseEventKind::ScrollDown {
            let last = self.rows.saturating_sub(1);
            (self.row, self.is_pointing) = ((self.row + WHEEL_ROWS).min(last), true);
        }
    }

    fn click_in_graph(&mut self, x: u16, view: Option<&View>) {
        let Some(view) = view else { return };
        let share = (f64::from(x - self.picture.x) + 0.5) / f64::from(self.picture.width.max(1));
        self.when = When::At(At::Seconds(view.axis.seconds_at(share * view.axis.length)));
    }

    fn turn_to(&mut self, tab: usize) {
        self.tab = tab;
        self.point_nowhere();
    }

    fn point_nowhere(&mut self) {
        self.row = 0;
        self.is_pointing = false;
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "crossterm's keys: every other key has no effect"
    )]
    fn type_filter(&mut self, key: KeyCode) {
        self.point_nowhere();
        match key {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
    }

    fn next_device(&mut self, view: Option<&View>) {
        let Some(view) = view else { return };
        let devices: Vec<Device> = view.summary.devices.iter().map(|one| one.device).collect();
        let at = view.device().and_then(|shown| devices.iter().position(|&one| one == shown));
        self.device = devices.get(at.map_or(0, |at| (at + 1) % devices.len())).copied();
        self.point_nowhere();
    }

    /// Chooses the next or the previous rank.
    fn turn_rank(&mut self, view: Option<&View>, is_forward: bool) {
        let Some(ranks) = view.map(|view| &view.ranks).filter(|ranks| !ranks.is_empty()) else {
            return;
        };
        let here = ranks.iter().position(|one| Some(one.rank) == self.rank);
        let by = if is_forward { 1 } else { ranks.len() - 1 };
        let next = here.map_or(0, |at| (at + by) % ranks.len());
        self.rank = ranks.get(next).map(|one| one.rank);
        // Each rank has its own GPUs.
        self.device = None;
        self.point_nowhere();
    }

    /// Moves the time by one column of the graph, or ten with Shift.
    fn step_in_time(&mut self, key: KeyEvent, view: Option<&View>) {
        let Some(view) = view else { return };
        let Some(report) = &view.report else { return };
        let column = view.axis.length / f64::from(self.picture.width.max(1));
        let columns = if key.modifiers.contains(KeyModifiers::SHIFT) { 10.0 } else { 1.0 };
        let way = if key.code == KeyCode::Left { -columns } else { columns };
        let now = match self.when {
            // The user may press several keys before the next answer.
            When::At(At::Seconds(seconds)) => seconds,
            When::At(_) | When::Usual => report.at.seconds,
        };
        // A time before the graph begins, such as an earlier peak, is not on its axis.
        let seconds = match view.axis.position_at(now) {
            Some(position) => view.axis.seconds_at(position + way * column),
            None => (now + way * column).clamp(0.0, view.summary.seconds),
        };
        self.when = When::At(At::Seconds(seconds));
    }
}

/// Whether a key moves the cursor.
fn is_move(key: KeyCode) -> bool {
    matches!(
        key,
        KeyCode::Up
            | KeyCode::Down
            | KeyCode::PageUp
            | KeyCode::PageDown
            | KeyCode::Home
            | KeyCode::End
            | KeyCode::Char('j' | 'k')
    )
}
