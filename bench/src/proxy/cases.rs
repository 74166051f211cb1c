//! The benchmark's parts, their cases, and the targets of each case.

use super::answers::{Asked, CALLERS, Dialect, Kind, Proof};
use super::target::{DIRECT, HOP, NGINX, NO_LOG, SEAWALL, SHARED};

/// A part of the run that can be measured alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// Anthropic's dialect: plain and streamed, saturated and not, and memory.
    Core,
    /// The other dialects, each as its own model speaks.
    Dialects,
    /// A JSON Web Token in place of a key.
    Token,
    /// Caller and model that speak differently.
    Cross,
    /// Many callers against one, over sockets and without.
    Callers,
    /// System calls.
    Calls,
}

impl Part {
    pub(crate) const ALL: [Self; 6] =
        [Self::Core, Self::Dialects, Self::Token, Self::Cross, Self::Callers, Self::Calls];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Dialects => "dialects",
            Self::Token => "token",
            Self::Cross => "cross",
            Self::Callers => "callers",
            Self::Calls => "calls",
        }
    }
}

impl Part {
    /// A description for the progress output.
    pub(crate) const fn about(self) -> &'static str {
        match self {
            Self::Core => "one dialect in every shape",
            Self::Dialects => "the other dialects",
            Self::Token => "a token in place of a key",
            Self::Cross => "caller and model speak differently",
            Self::Callers => "many callers against one",
            Self::Calls => "system calls",
        }
    }
}

/// The maximum CPU time per request, relative to nginx.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    pub(crate) gate: f64,
    pub(crate) aim: f64,
}

/// One case: the request, how it is sent, and to which targets.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) part: Part,
    pub(crate) name: &'static str,
    pub(crate) asked: Asked,
    /// Requests per second; without it, the load is closed-loop and saturates the target.
    pub(crate) rate: Option<f64>,
    pub(crate) connections: u32,
    pub(crate) callers: usize,
    pub(crate) targets: &'static [&'static str],
    /// The goal for Seawall's CPU time relative to nginx's.
    pub(crate) cpu: Option<Goal>,
}

pub(crate) const PLAIN: &str = "plain, saturated";
pub(crate) const BURST: &str = "burst stream, saturated";
pub(crate) const STEADY: &str = "plain, 1,000 a second";
pub(crate) const PACED: &str = "paced stream, 200 starts a second";
pub(crate) const ONE_CALLER: &str = "one key, plain";
pub(crate) const MANY_CALLERS: &str = "10,000 keys, plain";

const BOTH: &[&str] = &[NGINX, SEAWALL];
const GOAL_PLAIN: Goal = Goal { gate: 1.8, aim: 1.5 };
const GOAL_BURST: Goal = Goal { gate: 2.8, aim: 1.2 };
const GOAL_PACED: Goal = Goal { gate: 1.3, aim: 1.2 };
const GOAL_CROSS: Goal = Goal { gate: 3.0, aim: 2.2 };

/// Saturated, in one dialect, with rotating keys.
const fn plain(part: Part, name: &'static str, dialect: Dialect) -> Case {
    Case {
        part,
        name,
        asked: Asked { kind: Kind::Plain, dialect, model: dialect, proof: Proof::Key },
        rate: None,
        connections: 32,
        callers: CALLERS,
        targets: BOTH,
        cpu: Some(GOAL_PLAIN),
    }
}

/// A stream takes 250 ms, so some fifty are open at once.
const fn paced(part: Part, name: &'static str, dialect: Dialect) -> Case {
    let case = plain(part, name, dialect);
    Case {
        asked: Asked { kind: Kind::Paced, ..case.asked },
        rate: Some(200.0),
        connections: 128,
        cpu: Some(GOAL_PACED),
        ..case
    }
}

const fn cross(name: &'static str, dialect: Dialect, model: Dialect) -> Case {
    let case = plain(Part::Cross, name, dialect);
    Case { asked: Asked { model, ..case.asked }, cpu: Some(GOAL_CROSS), ..case }
}

/// All cases, in the order in which they are measured.
pub(crate) fn all() -> Vec<Case> {
    use Dialect::{Anthropic, Converse, Invoke, Openai};
    let core = plain(Part::Core, PLAIN, Anthropic);
    let burst = Asked { kind: Kind::Burst, ..core.asked };
    let token = plain(Part::Token, "token, plain", Anthropic);
    let with_token = Asked { proof: Proof::Token, ..token.asked };
    let callers = |name, callers| Case {
        callers,
        targets: &[SEAWALL],
        cpu: None,
        ..plain(Part::Callers, name, Anthropic)
    };
    vec![
        Case { targets: &[DIRECT, NGINX, HOP, SEAWALL, NO_LOG, SHARED], ..core },
        Case { name: BURST, asked: burst, targets: &[NGINX, HOP, SEAWALL], cpu: Some(GOAL_BURST), ..core },
        Case { name: STEADY, rate: Some(1_000.0), targets: &[DIRECT, NGINX, SEAWALL], cpu: None, ..core },
        paced(Part::Core, PACED, Anthropic),
        plain(Part::Dialects, "OpenAI, plain", Openai),
        paced(Part::Dialects, "OpenAI, paced stream", Openai),
        plain(Part::Dialects, "Bedrock invoke, plain", Invoke),
        paced(Part::Dialects, "Bedrock invoke, paced stream", Invoke),
        plain(Part::Dialects, "Bedrock converse, plain", Converse),
        paced(Part::Dialects, "Bedrock converse, paced stream", Converse),
        // Few enough that all tokens were verified once before the first round: real callers send a token many times.
        Case { asked: with_token, callers: 1_000, ..token },
        cross("OpenAI to Anthropic, plain", Openai, Anthropic),
        cross("Anthropic to converse, plain", Anthropic, Converse),
        cross("Converse to OpenAI, plain", Converse, Openai),
        callers(ONE_CALLER, 1),
        callers(MANY_CALLERS, CALLERS),
    ]
}

#[cfg(test)]
mod tests {
    use super::{Part, all};

    #[test]
    fn names_are_unique_and_every_goal_has_both_sides() {
        let cases = all();
        for case in &cases {
            assert_eq!(cases.iter().filter(|other| other.name == case.name).count(), 1, "{}", case.name);
            if let Some(goal) = case.cpu {
                assert!(goal.aim < goal.gate, "{}", case.name);
                for side in [super::NGINX, super::SEAWALL] {
                    assert!(case.targets.contains(&side), "{}", case.name);
                }
            }
        }
        for part in Part::ALL {
            let is_counted = part == Part::Calls;
            assert!(is_counted != cases.iter().any(|case| case.part == part), "{}", part.name());
        }
    }
}
