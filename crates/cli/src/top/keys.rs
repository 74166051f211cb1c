//! What keys do: the state of the view, and nothing of the gateway.

use super::snapshot::TopSnapshot;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The panel that has most of the room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TopPanel {
    #[default]
    Events,
    Targets,
    Callers,
    Spend,
}

/// How times are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TimeZoneChoice {
    #[default]
    Utc,
    Local,
    Both,
}

/// What the user has chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ViewState {
    pub(crate) is_paused: bool,
    pub(crate) panel: TopPanel,
    pub(crate) zone: TimeZoneChoice,
    /// Only rows that contain this text are shown.
    pub(crate) filter: String,
    pub(crate) is_filter_edited: bool,
    /// The request that is selected. Rows move, a selection does not.
    pub(crate) selected: Option<String>,
    /// The explanation of a request, in place of the screen.
    pub(crate) explanation: Option<String>,
}

/// What the program has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyAction {
    Redraw,
    Explain(String),
    Quit,
}

impl ViewState {
    /// The requests that can be selected, the newest last.
    fn selectable<'a>(&'a self, snapshot: &'a TopSnapshot) -> Vec<&'a str> {
        let shown = snapshot.events.iter().filter(|event| self.shows(&event.text));
        shown.filter_map(|event| event.id.as_deref()).collect()
    }

    /// Whether a row with this text is shown.
    pub(crate) fn shows(&self, text: &str) -> bool {
        self.filter.is_empty() || text.to_lowercase().contains(&self.filter.to_lowercase())
    }

    /// Handles a key.
    pub(crate) fn press(&mut self, key: KeyEvent, snapshot: &TopSnapshot) -> KeyAction {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return KeyAction::Quit;
        }
        if self.is_filter_edited {
            match key.code {
                KeyCode::Enter => self.is_filter_edited = false,
                KeyCode::Esc => (self.is_filter_edited, self.filter) = (false, String::new()),
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Char(character) if !character.is_control() => self.filter.push(character),
                _ => {}
            }
            return KeyAction::Redraw;
        }
        match key.code {
            KeyCode::Char('q') if self.explanation.is_none() => return KeyAction::Quit,
            KeyCode::Esc | KeyCode::Char('q') if self.explanation.is_some() => self.explanation = None,
            KeyCode::Esc => (self.filter, self.selected) = (String::new(), None),
            KeyCode::Char('p') => self.is_paused = !self.is_paused,
            KeyCode::Char('t') => self.focus(TopPanel::Targets),
            KeyCode::Char('c') => self.focus(TopPanel::Callers),
            KeyCode::Char('s') => self.focus(TopPanel::Spend),
            KeyCode::Char('/') => self.is_filter_edited = true,
            KeyCode::Char('u') => {
                self.zone = match self.zone {
                    TimeZoneChoice::Utc => TimeZoneChoice::Local,
                    TimeZoneChoice::Local => TimeZoneChoice::Both,
                    TimeZoneChoice::Both => TimeZoneChoice::Utc,
                }
            }
            KeyCode::Up | KeyCode::Char('k') => self.select(snapshot, -1),
            KeyCode::Down | KeyCode::Char('j') => self.select(snapshot, 1),
            KeyCode::Enter => {
                let ids = self.selectable(snapshot);
                let chosen = self.selected.clone().or_else(|| ids.last().map(|id| (*id).to_owned()));
                if let Some(id) = chosen {
                    return KeyAction::Explain(id);
                }
            }
            _ => {}
        }
        KeyAction::Redraw
    }

    fn focus(&mut self, panel: TopPanel) {
        self.panel = if self.panel == panel { TopPanel::Events } else { panel };
    }

    fn select(&mut self, snapshot: &TopSnapshot, step: isize) {
        let ids = self.selectable(snapshot);
        let Some(last) = ids.len().checked_sub(1) else { return };
        let current = self.selected.as_deref().and_then(|id| ids.iter().position(|known| *known == id));
        let next = current.map_or(last, |current| current.saturating_add_signed(step).min(last));
        self.selected = Some(ids[next].to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyAction, TimeZoneChoice, TopPanel, ViewState};
    use crate::record_text::Attention;
    use crate::top::snapshot::{TopEvent, TopSnapshot};
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    fn snapshot() -> TopSnapshot {
        let event = |id: Option<&str>, text: &str| TopEvent {
            time: String::new(),
            severity: Attention::Bad,
            text: text.to_owned(),
            id: id.map(ToOwned::to_owned),
        };
        let events = vec![event(Some("req_1"), "one"), event(None, "level"), event(Some("req_2"), "Two")];
        TopSnapshot { events, ..TopSnapshot::default() }
    }

    fn press(view: &mut ViewState, codes: &[KeyCode]) -> KeyAction {
        let snapshot = snapshot();
        let mut actions =
            codes.iter().map(|code| view.press(KeyEvent::new(*code, KeyModifiers::NONE), &snapshot));
        actions.by_ref().last().unwrap_or(KeyAction::Redraw)
    }

    #[test]
    fn a_selection_is_a_request_and_enter_explains_it() {
        let mut view = ViewState::default();
        assert_eq!(press(&mut view, &[KeyCode::Enter]), KeyAction::Explain("req_2".to_owned()), "the newest");
        let keys = [KeyCode::Up, KeyCode::Char('k'), KeyCode::Up, KeyCode::Enter];
        assert_eq!(press(&mut view, &keys), KeyAction::Explain("req_1".to_owned()));
        assert_eq!(
            press(&mut view, &[KeyCode::Down, KeyCode::Down, KeyCode::Enter]),
            KeyAction::Explain("req_2".to_owned())
        );
    }

    #[test]
    fn keys_are_text_while_the_filter_is_edited() {
        let mut view = ViewState::default();
        let keys = ['/', 'q', 'p', 't'].map(KeyCode::Char);
        assert_eq!(press(&mut view, &keys), KeyAction::Redraw);
        assert_eq!((&*view.filter, view.is_paused, view.panel), ("qpt", false, TopPanel::Events));
        press(&mut view, &[KeyCode::Backspace, KeyCode::Enter]);
        assert_eq!((&*view.filter, view.is_filter_edited), ("qp", false));
        press(&mut view, &[KeyCode::Esc, KeyCode::Char('p'), KeyCode::Char('t'), KeyCode::Char('u')]);
        assert_eq!((&*view.filter, view.is_paused, view.panel), ("", true, TopPanel::Targets));
        assert_eq!(view.zone, TimeZoneChoice::Local);
        assert_eq!(press(&mut view, &[KeyCode::Char('q')]), KeyAction::Quit);
    }

    #[test]
    fn an_explanation_is_closed_before_the_program() {
        let mut view = ViewState { explanation: Some("request".to_owned()), ..ViewState::default() };
        assert_eq!(press(&mut view, &[KeyCode::Char('q')]), KeyAction::Redraw);
        assert_eq!(
            (view.explanation.clone(), press(&mut view, &[KeyCode::Char('q')])),
            (None, KeyAction::Quit)
        );
    }
}
