//! A deny list of texts.

use super::disguise::{Disguise, undisguised};
use super::fold::{Folding, folded};
use super::{AnswerInspector, Guardrail, GuardrailDecision, InspectionDecision};
use aho_corasick::Anchored;
use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::contiguous::NFA;
use seawall_core::setting::SettingError;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

const SETTING: &str = "deny_list";
/// Maximum length of a pattern, in characters. Text that could become a match is held back, and the delay must stay
/// short.
const MAX_PATTERN_CHARACTERS: usize = 1_000;
/// Text that may be held back beyond the longest pattern. A longer run is padding with invisible characters.
const PADDING: u64 = 4_096;
/// The rule that blocks such padding.
const PADDED: &str = "deny_list.padded";

/// Texts that must not occur, regardless of case, width, invisible characters and how an answer is split into pieces.
/// All patterns are matched in one pass (Aho-Corasick); the patterns themselves are never disclosed.
/// [`DenyList::undisguising`] also finds disguised spellings.
#[derive(Clone)]
pub struct DenyList(Arc<Patterns>);

struct Patterns {
    /// Whether disguised spellings are normalized before the comparison.
    undisguises: bool,
    /// For each pattern of the automaton: its position in the list, from 1.
    rules: Vec<usize>,
    automaton: NFA,
    start: StateID,
    /// For each state: the number of preceding bytes that could become part of a match.
    depths: Vec<u32>,
    /// Maximum number of bytes that may be held back.
    max_held: u64,
}

impl DenyList {
    /// The two guardrails for a list: one for the patterns as written, and one for disguised spellings. Empty for an
    /// empty list.
    pub fn both(patterns: &[String]) -> Result<Vec<Arc<dyn Guardrail>>, SettingError> {
        if patterns.is_empty() {
            return Ok(Vec::new());
        }
        Ok(vec![Arc::new(Self::new(patterns)?), Arc::new(Self::undisguising(patterns)?)])
    }

    /// Matches the patterns as written. The error names a pattern that is empty after folding or has more than 1,000
    /// characters. Rules are named by their position in the list, from 1.
    pub fn new(patterns: &[String]) -> Result<Self, SettingError> {
        let invalid =
            |at: usize, problem| SettingError::new(SETTING, format!("pattern {} {problem}", at + 1));
        let mut all = Vec::with_capacity(patterns.len());
        for (at, pattern) in patterns.iter().enumerate() {
            let pattern = folded(pattern);
            if pattern.is_empty() {
                return Err(invalid(at, "is empty"));
            }
            if pattern.chars().count() > MAX_PATTERN_CHARACTERS {
                return Err(invalid(at, "has more than 1000 characters"));
            }
            all.push(pattern);
        }
        let rules = (1..=all.len()).collect();
        Self::of(&all, rules, false)
    }

    /// Matches disguised spellings of the patterns: accents, look-alike letters of other scripts, separators and the
    /// other kana script are ignored. Patterns of which too little would remain, such as `C++`, are left to
    /// [`DenyList::new`].
    pub fn undisguising(patterns: &[String]) -> Result<Self, SettingError> {
        let normalized = |(index, pattern): (usize, &String)| Some((index + 1, undisguised(pattern)?));
        let normalized = patterns.iter().enumerate().filter_map(normalized);
        let (rules, all): (Vec<usize>, Vec<String>) =
            normalized.filter(|(_, pattern)| pattern.chars().count() <= MAX_PATTERN_CHARACTERS).unzip();
        Self::of(&all, rules, true)
    }

    fn of(all: &[String], rules: Vec<usize>, undisguises: bool) -> Result<Self, SettingError> {
        let unusable = |_| SettingError::new(SETTING, "is too large");
        let automaton = NFA::new(all).map_err(unusable)?;
        let start =
            automaton.start_state(Anchored::No).map_err(|_| SettingError::new(SETTING, "is unusable"))?;
        let depths = depths(&automaton, start, all);
        let longest = all.iter().map(String::len).max().unwrap_or_default() as u64;
        // A character of four bytes may fold to one of a single byte.
        let max_held = longest.saturating_mul(4).saturating_add(PADDING);
        Ok(Self(Arc::new(Patterns { undisguises, rules, automaton, start, depths, max_held })))
    }

    fn begin(&self) -> DenyListInspector {
        let search = Search {
            state: self.0.start,
            patterns: Arc::clone(&self.0),
            held: VecDeque::new(),
            blocked: None,
        };
        let folding = if self.0.undisguises {
            Normalization::AsMeant(Disguise::default())
        } else {
            Normalization::AsWritten(Folding::new())
        };
        DenyListInspector { search, folding, length: 0 }
    }
}

/// Follows every pattern through the automaton: the state after its first n bytes represents exactly these n bytes.
fn depths(automaton: &NFA, start: StateID, patterns: &[String]) -> Vec<u32> {
    let mut depths = vec![0; start.as_usize() + 1];
    for pattern in patterns {
        let (mut state, mut depth) = (start, 0);
        for byte in pattern.bytes() {
            state = automaton.next_state(Anchored::No, state, byte);
            depth += 1;
            if state.as_usize() >= depths.len() {
                depths.resize(state.as_usize() + 1, 0);
            }
            depths[state.as_usize()] = depth;
        }
    }
    depths
}

impl Guardrail for DenyList {
    fn check_question(&self, question: &str) -> GuardrailDecision {
        let mut inspector = self.begin();
        inspector.read(question);
        inspector.settle();
        inspector
            .search
            .blocked
            .map_or(GuardrailDecision::Pass, |(rule, _)| GuardrailDecision::Block { rule })
    }

    fn inspect_answer(&self) -> Box<dyn AnswerInspector> {
        Box::new(self.begin())
    }
}

impl fmt::Debug for DenyList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "DenyList({})", self.0.automaton.patterns_len())
    }
}

/// The normalization that is applied before the comparison.
enum Normalization {
    AsWritten(Folding),
    AsMeant(Disguise),
}

impl Normalization {
    fn take(&mut self, character: char, at: u64, give: &mut impl FnMut(char, u64)) {
        match self {
            Self::AsWritten(folding) => folding.take(character, at, give),
            Self::AsMeant(disguise) => disguise.take(character, at, give),
        }
    }

    fn end(&mut self, give: &mut impl FnMut(char, u64)) {
        match self {
            Self::AsWritten(folding) => folding.end(give),
            Self::AsMeant(disguise) => disguise.end(give),
        }
    }

    fn pending_from(&self) -> Option<u64> {
        match self {
            Self::AsWritten(folding) => folding.pending_from(),
            Self::AsMeant(disguise) => disguise.pending_from(),
        }
    }
}

/// Scans one answer. It stores positions, never text, and at most as many as the longest pattern has bytes.
struct DenyListInspector {
    folding: Normalization,
    search: Search,
    /// Bytes received.
    length: u64,
}

/// The state of the search in the folded text.
struct Search {
    patterns: Arc<Patterns>,
    state: StateID,
    /// For each folded byte that could become part of a match: the start of the character it was folded from.
    held: VecDeque<u64>,
    /// The rule that blocked the answer, and the number of harmless bytes before the match.
    blocked: Option<(Box<str>, u64)>,
}

impl DenyListInspector {
    fn read(&mut self, piece: &str) {
        for (offset, character) in piece.char_indices() {
            let at = self.length.saturating_add(offset as u64);
            self.folding.take(character, at, &mut |folded, from| self.search.compare(folded, from));
            let harmless = self.held_from().unwrap_or(at);
            if self.search.blocked.is_none() && at - harmless > self.search.patterns.max_held {
                self.search.blocked = Some((PADDED.into(), harmless));
            }
            if self.search.blocked.is_some() {
                return;
            }
        }
        self.length = self.length.saturating_add(piece.len() as u64);
    }

    fn settle(&mut self) {
        self.folding.end(&mut |folded, from| self.search.compare(folded, from));
    }

    /// The start of the text that could become part of a match.
    fn held_from(&self) -> Option<u64> {
        self.search.held.front().copied().or_else(|| self.folding.pending_from())
    }

    fn decision(&self) -> InspectionDecision {
        match &self.search.blocked {
            Some((rule, release)) => InspectionDecision::Block { rule: rule.clone(), release: *release },
            None => InspectionDecision::Release(self.held_from().unwrap_or(self.length)),
        }
    }
}

impl Search {
    /// Advances by one folded character, which was folded from the one at this position.
    fn compare(&mut self, character: char, at: u64) {
        if self.blocked.is_some() {
            return;
        }
        let Patterns { automaton, depths, rules, .. } = &*self.patterns;
        for byte in character.encode_utf8(&mut [0; 4]).bytes() {
            self.state = automaton.next_state(Anchored::No, self.state, byte);
            let depth = depths.get(self.state.as_usize()).copied().unwrap_or_default() as usize;
            self.held.push_back(at);
            self.held.drain(..self.held.len().saturating_sub(depth));
        }
        if automaton.is_match(self.state) {
            // If several patterns end here, report the first of the list.
            let matches = 0..automaton.match_len(self.state);
            let indexes = matches.map(|nth| automaton.match_pattern(self.state, nth).as_usize());
            let rule = indexes.filter_map(|index| rules.get(index)).min().copied().unwrap_or_default();
            let harmless = self.held.front().copied().unwrap_or(at);
            self.blocked = Some((format!("{SETTING}.{rule}").into(), harmless));
        }
    }
}

impl AnswerInspector for DenyListInspector {
    fn take(&mut self, piece: &str) -> InspectionDecision {
        if self.search.blocked.is_none() {
            self.read(piece);
        }
        self.decision()
    }

    fn end(&mut self) -> InspectionDecision {
        if self.search.blocked.is_none() {
            self.settle();
            // Nothing follows, so the held text cannot become a match any more.
            self.search.held.clear();
        }
        self.decision()
    }
}
