//! Frames, drawn into a buffer.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use floodmark_analysis::At;
use floodmark_testing::script;
use floodmark_trace::{Trace, read_trace};
use insta::assert_snapshot;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Modifier;

use super::draw::{Scene, draw};
use super::once::text;
use super::ranks::WatchedRanks;
use super::state::{KeyAction, State};
use super::theme::Theme;
use super::view::{Stage, View, When};
use super::watch::stage;
use crate::args::Source;

const TRAINING: &str = "initial w cuda:0 6MiB
    label w parameter layers.0.weight (1024,1536) float32
    alloc x cpu 3MiB at train.py:30:main
    alloc x2 cuda:0 3MiB at train.py:31:main
    alloc h cuda:0 8MiB at model.py:12:forward in layers.0
    alloc h2 cuda:0 4MiB at model.py:20:attend in layers.0.attention
    backward alloc g cuda:0 6MiB at model.py:12:forward in layers.0
    label g gradient layers.0.weight (1024,1536) float32
    free h
    free h2
    optimizer begin
    alloc m cuda:0 12MiB at torch/optim/adam.py:40:step
    optimizer end
    free x2
    alloc x2 cuda:0 3MiB at train.py:31:main
    alloc h cuda:0 8MiB at model.py:12:forward in layers.0
    backward alloc t cuda:0 2MiB at model.py:12:forward in layers.0
    free t
    free h
    optimizer begin
    optimizer end
    free x2";

/// A screen and its state.
struct Shown {
    trace: Trace,
    stage: Stage,
    state: State,
    terminal: Terminal<TestBackend>,
    then: KeyAction,
}

impl Shown {
    fn new(script: &str, width: u16, height: u16) -> Self {
        let trace = read_trace(&script::file(script), &[]).unwrap();
        let terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let stage = stage(&trace, false);
        let mut shown =
            Self { trace, stage, state: State::default(), terminal, then: KeyAction::Draw };
        shown.draw();
        shown
    }

    fn recording(mut self) -> Self {
        self.trace.ending = None;
        self.stage = Stage::Recording;
        self.draw();
        self
    }

    fn draw(&mut self) {
        let view = View::new(&self.trace, self.stage, self.state.question());
        let theme = Theme { is_coloured: true };
        let scene = Scene { name: "train.flood", theme, read_error: None, has_keys: true };
        let state = &mut self.state;
        self.terminal.draw(|frame| draw(frame, scene, Some(&view), state)).unwrap();
    }

    /// Presses a key for each letter; `<` and `>` are the arrows, `v` and `^` too.
    fn press(&mut self, keys: &str) -> String {
        for key in keys.chars() {
            let code = match key {
                '<' => KeyCode::Left,
                '>' => KeyCode::Right,
                'v' => KeyCode::Down,
                '^' => KeyCode::Up,
                '\t' => KeyCode::Tab,
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                letter => KeyCode::Char(letter),
            };
            self.press_key(KeyEvent::new(code, KeyModifiers::NONE));
        }
        self.text()
    }

    fn press_key(&mut self, key: KeyEvent) {
        let view = View::new(&self.trace, self.stage, self.state.question());
        self.then = self.state.press(key, Some(&view));
        self.draw();
    }

    fn text(&self) -> String {
        text(self.terminal.backend().buffer())
    }
}

#[test]
fn a_finished_recording_shows_its_peak() {
    assert_snapshot!(Shown::new(TRAINING, 80, 24).text());
}

#[test]
fn a_wide_screen_has_the_categories_beside() {
    assert_snapshot!(Shown::new(TRAINING, 120, 40).text());
}

#[test]
fn a_small_screen_has_the_rows_still() {
    assert_snapshot!(Shown::new(TRAINING, 40, 10).text());
}

#[test]
fn a_running_program_shows_now() {
    let shown = Shown::new(TRAINING, 80, 24).recording();
    assert_snapshot!(shown.text().lines().take(9).collect::<Vec<_>>().join("\n"));
}

#[test]
fn no_size_of_a_screen_is_too_small_to_draw() {
    let mut shown = Shown::new(TRAINING, 80, 24).recording();
    for (width, height) in (0..50).flat_map(|width| (0..26).map(move |height| (width, height))) {
        shown.terminal.backend_mut().resize(width, height);
        shown.terminal.resize(ratatui::layout::Rect::new(0, 0, width, height)).unwrap();
        shown.draw();
    }
    shown.terminal.backend_mut().resize(20, 5);
    shown.draw();
    assert_eq!(shown.text(), "floodmark top\nneeds 36×8,\nhas 20×5\n");
}

#[test]
fn each_key_of_a_grouping_shows_it() {
    let mut shown = Shown::new(TRAINING, 80, 24);
    let mut rows = String::new();
    for key in ['2', '3', '4', '5'] {
        let text = shown.press(&key.to_string());
        rows += &text.lines().skip(13).take(7).fold(String::new(), |rows, line| rows + line + "\n");
    }
    assert_snapshot!(rows);
    shown.press("\t");
    assert_eq!(shown.state.tab, 0);
}

#[test]
fn rows_are_sorted_and_filtered() {
    let mut shown = Shown::new(TRAINING, 80, 24);
    let names = |text: &str| -> Vec<String> {
        let rows = text.lines().skip(15).take_while(|line| !line.is_empty());
        rows.filter_map(|row| row.split("  ").last()).map(str::trim).map(str::to_owned).collect()
    };
    let by_bytes = names(&shown.text());
    let by_name = names(&shown.press("ss"));
    let mut sorted = by_bytes.clone();
    sorted.sort();
    assert_ne!(by_bytes, by_name);
    assert_eq!(by_name, sorted);
    let text = shown.press("s/MODEL");
    assert!(text.contains("filter: MODEL▏"), "{text}");
    let kept = names(&shown.press("\n"));
    assert!(!kept.is_empty() && kept.iter().all(|name| name.contains("model.py")), "{kept:?}");
    // Letters typed into the filter are not keys.
    assert_eq!((shown.then, shown.press("/q\x1b").is_empty()), (KeyAction::Draw, false));
    assert_eq!(names(&shown.text()), by_bytes);
}

#[test]
fn escape_clears_the_filter_and_then_leaves() {
    let mut shown = Shown::new(TRAINING, 80, 24);
    shown.press("/x\n\x1b");
    assert_eq!((shown.then, shown.state.filter.as_str()), (KeyAction::Draw, ""));
    shown.press("\x1b");
    assert_eq!(shown.then, KeyAction::Quit);
    let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
    shown.press_key(control('c'));
    assert_eq!(shown.then, KeyAction::Quit);
    shown.press_key(control('z'));
    assert_eq!(shown.then, KeyAction::Suspend);
}

#[test]
fn arrows_move_the_moment_and_the_device_changes() {
    let mut shown = Shown::new(TRAINING, 80, 24);
    let headline = |text: String| text.lines().nth(12).unwrap().to_owned();
    let peak = headline(shown.text());
    assert!(peak.starts_with("Peak of cuda:0: "), "{peak}");
    let before = headline(shown.press("<<<<<<<<<<<<<<<<"));
    assert!(before.starts_with("Memory of cuda:0: ") && before != peak, "{before}");
    assert_eq!(headline(shown.press("p")), peak);
    let end = headline(shown.press("e"));
    assert!(end.starts_with("End on cuda:0: "), "{end}");
    let after = headline(shown.press(&">".repeat(200)));
    assert!(after.starts_with("Memory of cuda:0: "), "{after}");
    assert!(headline(shown.press("o")).contains("no allocation"), "{}", shown.text());
    assert_eq!(headline(shown.press("n")), peak);
    assert!(headline(shown.press("d")).starts_with("Peak of cpu: "));
    assert!(headline(shown.press("d")).starts_with("Peak of cuda:0: "));
}

/// A program that waited for minutes: the graph shortens the idle stretch, as the page's timeline does.
#[test]
fn a_long_wait_is_short_in_the_graph_of_a_finished_recording() {
    let steps = |from: u32| {
        let step = |at| format!("alloc h{at} cuda:0 8MiB at model.py:12:forward\nfree h{at}\n");
        (from..from + 20).map(step).collect::<String>()
    };
    let script = format!("{}wait 60000\n{}", steps(0), steps(20));
    let graph = |text: &str| text.lines().skip(4).take(7).collect::<Vec<_>>().join("\n");
    let mut shown = Shown::new(&script, 80, 24);
    let text = shown.text();
    assert!(graph(&text).matches('█').count() > 100, "{text}");
    assert!(graph(&text).contains('≈') && text.contains("60.1 s"), "{text}");
    let click = MouseEventKind::Down(MouseButton::Left);
    let (column, row) = (shown.state.picture.x + 5, shown.state.picture.y);
    let mouse = MouseEvent { kind: click, column, row, modifiers: KeyModifiers::NONE };
    let view = View::new(&shown.trace, shown.stage, shown.state.question());
    shown.state.point(mouse, Some(&view));
    let When::At(At::Seconds(seconds)) = shown.state.when else { panic!("a time was chosen") };
    assert!(seconds < 0.04, "{seconds}");
    assert!(!Shown::new(&script, 80, 24).recording().text().contains('≈'), "time as it passes");
}

#[test]
fn the_cursor_stays_among_the_rows() {
    let mut shown = Shown::new(TRAINING, 80, 24);
    let foot = |text: String| text.lines().last().unwrap().to_owned();
    assert!(foot(shown.text()).starts_with("q quit"));
    let first = foot(shown.press("v"));
    let second = foot(shown.press("v"));
    assert_ne!(first, second);
    shown.press(&"v".repeat(100));
    assert_eq!(shown.state.row + 1, shown.state.rows);
    assert_eq!(foot(shown.press(&"^".repeat(100))), first);
}

/// In reverse video the spaces of a bar would look like its full part.
#[test]
fn the_bar_of_the_chosen_row_is_as_long_as_without_the_cursor() {
    let mut shown = Shown::new(TRAINING, 80, 24);
    shown.press("vv");
    let buffer = shown.terminal.backend().buffer();
    let is_reversed = |x: u16, y: u16| buffer[(x, y)].modifier.contains(Modifier::REVERSED);
    let chosen = (0..24).find(|&y| is_reversed(0, y)).expect("a row is chosen");
    assert!((0..9).all(|x| is_reversed(x, chosen)), "the number is reversed");
    assert!((10..20).all(|x| !is_reversed(x, chosen)), "the bar is not");
    assert!(is_reversed(22, chosen), "the name is");
}

#[test]
fn pause_and_help_are_seen() {
    let mut shown = Shown::new(TRAINING, 80, 24).recording();
    assert!(shown.press(" ").lines().next().unwrap().contains("paused"));
    assert!(shown.press(" ").lines().next().unwrap().contains("● recording"));
    assert_snapshot!(shown.press("?"));
    assert!(!shown.press("q").contains("any key goes back"));
    assert_eq!(shown.then, KeyAction::Draw);
}

#[test]
fn lost_events_are_shown_above_the_devices() {
    let mut shown = Shown::new(TRAINING, 80, 24);
    shown.trace.losses.0.push(floodmark_trace::Loss::MissingFrames(3));
    shown.draw();
    let text = shown.text();
    assert_eq!(text.lines().nth(1), Some("! 3 frames are missing from the file"));
    for _ in 0..3 {
        shown.trace.losses.0.push(floodmark_trace::Loss::NotRecorded("one more".into()));
    }
    shown.draw();
    assert!(shown.text().contains("! 3 things missing from the recording (`?` lists them)"));
    assert_eq!(shown.press("?").matches("! one more").count(), 3);
}

#[test]
fn an_empty_recording_is_no_failure() {
    let shown = Shown::new("", 80, 24).recording();
    assert!(shown.text().contains("Nothing is allocated yet"), "{}", shown.text());
}

#[test]
fn a_name_cannot_reach_the_terminal_as_a_command() {
    let hostile = "alloc a cuda:0 1MiB at \x1b[2J\x1b]0;owned\x07.py:3:\u{9b}31mf in m\x1b[5m
        phase begin \x1b[31m
        alloc b cuda:0 1MiB at \u{202e}yp.x:3:g";
    for keys in ["1", "2", "4", "2/x\x1b[2J", "1vv"] {
        let mut shown = Shown::new(hostile, 80, 24);
        let text = shown.press(keys);
        assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n'), "{text:?}");
        assert!(!text.contains('\u{202e}'), "{text:?}");
    }
    let mut shown = Shown::new(hostile, 80, 24);
    assert!(shown.press("1").contains("␛[2J␛]0;owned␇.py:3"), "{}", shown.text());
}

#[test]
fn a_click_chooses_a_row_or_a_time_and_the_wheel_moves_on() {
    let mut shown = Shown::new(TRAINING, 80, 24);
    let (table, picture) = (shown.state.table, shown.state.picture);
    let mouse = |kind, column, row| MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
    let click = MouseEventKind::Down(MouseButton::Left);
    let view = View::new(&shown.trace, shown.stage, shown.state.question());
    shown.state.point(mouse(click, table.x + 3, table.y + 2), Some(&view));
    assert_eq!((shown.state.row, shown.state.is_pointing), (1, true));
    shown.state.point(mouse(MouseEventKind::ScrollDown, table.x, table.y), Some(&view));
    assert_eq!(shown.state.row, 4);
    shown.state.point(mouse(MouseEventKind::ScrollUp, table.x, table.y), Some(&view));
    assert_eq!(shown.state.row, 1);
    shown.state.point(mouse(click, table.x, table.bottom() - 1), Some(&view));
    assert_eq!(shown.state.row, 1, "there is no row");
    shown.state.point(mouse(click, picture.x, picture.y), Some(&view));
    let When::At(At::Seconds(seconds)) = shown.state.when else { panic!("a time was chosen") };
    assert!(seconds < 0.001, "{seconds}");
}

/// Lines that grow are marked, the newest step is the first, and equal tensors are one row.
#[test]
fn growth_newest_steps_and_groups_of_tensors_are_shown() {
    let step = |at: u32| {
        format!(
            "alloc h{at} cuda:0 2MiB at model.py:12:forward in fc
             alloc k{at} cuda:0 1MiB at train.py:7:keep
             free h{at}
             optimizer begin
             optimizer end\n"
        )
    };
    let script: String = (0..4).map(step).collect();
    let mut shown = Shown::new(&script, 80, 24);
    let lines = text(shown.terminal.backend().buffer());
    let kept = lines.lines().find(|line| line.contains("train.py:7")).unwrap();
    assert!(kept.contains("▲ +1.000 MiB"), "{lines}");
    shown.press("4");
    let tensors = text(shown.terminal.backend().buffer());
    assert!(tensors.contains("train.py:7 (keep) ×"), "{tensors}");
    shown.press("5");
    let steps = text(shown.terminal.backend().buffer());
    let (_, rows) = steps.split_once("Growth").unwrap();
    let first = rows.lines().nth(1).unwrap();
    assert!(first.trim_end().ends_with('3'), "{steps}");
}

/// A folder of ranks, each with its script.
struct RanksShown {
    folder: tempfile::TempDir,
    ranks: WatchedRanks,
    state: State,
    terminal: Terminal<TestBackend>,
}

impl RanksShown {
    fn new(scripts: &[String], width: u16, height: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (rank, script) in scripts.iter().enumerate() {
            write_rank(&folder, rank, script);
        }
        let trace = folder.path().to_owned();
        let ranks =
            WatchedRanks::open(&Source { trace: Some(trace), rank: None, device: None }).unwrap();
        let state = State { rank: ranks.highest(), ..State::default() };
        let terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        Self { folder, ranks, state, terminal }
    }

    fn view(&self) -> View {
        let trace = self.ranks.chosen(self.state.rank).following.trace();
        View::new(trace, stage(trace, false), self.state.question()).among(self.ranks.levels())
    }

    fn press(&mut self, keys: &str) -> String {
        for key in keys.chars() {
            let view = self.view();
            let key = KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE);
            self.state.press(key, Some(&view));
        }
        let view = self.view();
        let theme = Theme { is_coloured: true };
        let scene = Scene { name: "ranks", theme, read_error: None, has_keys: true };
        let state = &mut self.state;
        self.terminal.draw(|frame| draw(frame, scene, Some(&view), state)).unwrap();
        text(self.terminal.backend().buffer())
    }
}

fn write_rank(folder: &tempfile::TempDir, rank: usize, script: &str) {
    let path = folder.path().join(format!("rank-{rank:04}.flood"));
    std::fs::write(path, script::file(script)).unwrap();
}

fn rank_script(rank: usize) -> String {
    format!(
        "alloc w cuda:{rank} 4MiB at model.py:3:build
         alloc a cuda:{rank} {}MiB at train.py:{}:step
         free a",
        1 + (rank * 5) % 8,
        10 + rank
    )
}

#[test]
fn a_folder_shows_all_ranks_the_highest_peak_first() {
    let scripts: Vec<String> = (0..8).map(rank_script).collect();
    assert_snapshot!(RanksShown::new(&scripts, 80, 24).press(""));
}

#[test]
fn the_rank_whose_rows_are_shown_is_chosen_by_key() {
    let scripts: Vec<String> = (0..8).map(rank_script).collect();
    let mut shown = RanksShown::new(&scripts, 80, 24);
    let head = |text: &str| text.lines().next().unwrap().to_owned();
    let first = shown.press("");
    // 1 + (3 × 5) % 8 is the most.
    assert!(head(&first).starts_with("ranks rank 3  finished"), "{first}");
    assert!(first.contains("train.py:13 (step)"), "{first}");
    let second = shown.press("r");
    assert!(head(&second).starts_with("ranks rank 6  finished"), "{second}");
    assert!(second.contains("Peak of cuda:6") && second.contains("train.py:16 (step)"), "{second}");
    assert_eq!(shown.press("R"), first);
    // Ranks wrap around.
    let last = shown.press("R");
    assert!(head(&last).starts_with("ranks rank 0  finished"), "{last}");
    assert_eq!(shown.press("r"), first);
}

#[test]
fn ranks_that_do_not_fit_are_counted_and_the_chosen_one_is_among_those_that_do() {
    let scripts: Vec<String> = (0..40).map(rank_script).collect();
    let mut shown = RanksShown::new(&scripts, 80, 24);
    let ranks = |text: &str| text.lines().skip(1).take(2).collect::<Vec<_>>().join("\n");
    assert!(ranks(&shown.press("")).ends_with("more"), "{}", shown.press(""));
    let last = shown.press("R");
    let chosen = shown.state.rank.unwrap();
    assert!(ranks(&last).contains(&format!("▸{chosen:>3}")), "{last}");
}

#[test]
fn a_folder_is_followed_while_ranks_come() {
    let mut shown = RanksShown::new(&[rank_script(0), rank_script(1)], 80, 24);
    assert!(!shown.press("").contains("rank 2"));
    write_rank(&shown.folder, 2, &rank_script(2));
    assert!(shown.ranks.refresh(std::time::Duration::from_secs(1)));
    assert_eq!(shown.ranks.levels().len(), 3);
    assert!(!shown.ranks.refresh(std::time::Duration::from_secs(1)));
    // A file that is not readable yet is no error.
    std::fs::write(shown.folder.path().join("rank-0003.flood"), b"FL").unwrap();
    assert!(!shown.ranks.refresh(std::time::Duration::from_secs(1)));
    write_rank(&shown.folder, 3, &rank_script(3));
    assert!(shown.ranks.refresh(std::time::Duration::from_secs(1)));
    assert_eq!(shown.ranks.highest(), Some(3));
    // The chosen rank stays.
    assert!(shown.press("").starts_with("ranks rank 1"), "{}", shown.press(""));
}

#[test]
fn no_size_of_a_screen_is_too_small_for_ranks() {
    let scripts: Vec<String> = (0..12).map(rank_script).collect();
    let mut shown = RanksShown::new(&scripts, 80, 24);
    for (width, height) in (30..60).flat_map(|width| (6..34).map(move |height| (width, height))) {
        shown.terminal.backend_mut().resize(width, height);
        shown.terminal.resize(ratatui::layout::Rect::new(0, 0, width, height)).unwrap();
        shown.press("");
    }
}
