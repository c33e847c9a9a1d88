//! Colours and styles. Each also has a sign without colour.

use floodmark_text::palette;
use ratatui::style::{Color, Modifier, Style};

/// The styles of a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Theme {
    pub(crate) is_coloured: bool,
}

impl Theme {
    fn coloured(self, colour: Color) -> Style {
        if self.is_coloured { Style::new().fg(colour) } else { Style::new() }
    }

    pub(crate) fn title() -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(crate) fn quiet() -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(crate) fn chosen() -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(crate) fn good(self) -> Style {
        self.coloured(Color::Green).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn alarm(self) -> Style {
        self.coloured(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn full(self) -> Style {
        self.coloured(Color::Red)
    }

    pub(crate) fn bar(self) -> Style {
        self.coloured(Color::Indexed(palette::BAR))
    }

    /// The colour of a category; that of a bar for anything else.
    pub(crate) fn category(self, name: Option<&str>) -> Style {
        let colour = name.and_then(palette::category).unwrap_or(palette::BAR);
        self.coloured(Color::Indexed(colour))
    }
}
